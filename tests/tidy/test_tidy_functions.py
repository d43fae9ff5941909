"""Functions begin with a verb, a question or a conversion: `read_children`, `is_open`, `to_bytes`."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from support.project.source_tree import ROOT, last_name, name, report, sources, tree

VERBS_FILE: Final = Path(__file__).with_name("verbs.txt")
NOUNS_FILE: Final = Path(__file__).with_name("noun_functions.txt")
QUESTIONS: Final = frozenset(
    {
        *("accepts", "are", "can", "contains", "exists", "fits", "has", "holds", "is", "keeps"),
        *("lacks", "matches", "may", "must", "needs", "owns", "should", "uses", "was"),
    }
)
CONVERSIONS: Final = frozenset({"as", "by", "from", "of", "on", "to", "with", "without"})
"""`on_timer` is a call-back, `with_control` a copy that differs, `by_name` a look-up."""
NOUN_WHEN_ALONE: Final = frozenset(
    {
        *("back", "block", "bound", "charge", "contain", "cover", "empty", "hash", "host", "index", "link"),
        *("lower", "name", "number", "order", "place", "question", "queue", "rank", "result", "score"),
        *("state", "text", "time", "value"),
    }
)
"""Verbs that need an object: `_place` reads as a noun, `place_object` does not."""
NOT_NAMED_HERE: Final = frozenset(
    {"property", "cached_property", "setter", "override", "overload", "fixture"}
)
"""Decorators: the function is read like a value, or others have chosen its name."""


@cache
def verbs() -> frozenset[str]:
    """The verbs of `verbs.txt`."""
    lines = VERBS_FILE.read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def is_named_here(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {last_name(decorator) for decorator in function.decorator_list}
    return not function.name.startswith("__") and not decorators & NOT_NAMED_HERE


def begins_with_a_verb(function_name: str) -> bool:
    first, *rest = function_name.strip("_").split("_")
    if "of" in rest or first in QUESTIONS | CONVERSIONS:  # `key_of` is a look-up
        return True
    return first in verbs() and bool(rest or first not in NOUN_WHEN_ALONE)


def functions(path: Path) -> Iterator[str]:
    """Names of a module's functions and methods, without those in functions."""
    waiting: list[ast.AST] = [tree(path)]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if is_named_here(node):
                    yield node.name
            else:
                waiting.append(node)


@cache
def noun_functions() -> dict[str, frozenset[str]]:
    """Functions that are named otherwise, with a reason above them, by module."""
    lines = NOUNS_FILE.read_text(encoding="utf-8").splitlines()
    listed: dict[str, set[str]] = defaultdict(set)
    for module, names in (line.split(": ") for line in lines if line and not line.startswith("#")):
        listed[module] |= set(names.split())
    return {module: frozenset(names) for module, names in listed.items()}


@pytest.mark.parametrize(
    ("function", "is_clear"),
    [
        ("read_children", True),
        ("_key_of", True),
        ("is_open", True),
        ("to_bytes", True),
        ("place_object", True),
        ("_place", False),
        ("below", False),
        ("_rows", False),
        ("counted", False),
    ],
)
def test_a_verb_is_told_from_a_noun(function, is_clear):
    assert begins_with_a_verb(function) is is_clear


def test_functions_begin_with_a_verb():
    problems, unused = [], {module: set(names) for module, names in noun_functions().items()}
    for path in sources("mqdssm"):
        module = path.relative_to(ROOT / "mqdssm").as_posix()
        for function in functions(path):
            if begins_with_a_verb(function):
                continue
            if function in noun_functions().get(module, ()):
                unused[module].discard(function)
            else:
                problems.append(f"{name(path)}: {function}: say what it does, as read_{function.strip('_')}")
    stale = [f"{module}: {' '.join(sorted(names))}" for module, names in unused.items() if names]
    report(problems + [f"{name(NOUNS_FILE)}: no longer there: {line}" for line in stale])
