"""Names: modules by their subject, each public class name once, docstrings that begin plainly."""

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest
from support.project.source_tree import name, sources, tree

UNCLEAR_MODULES = frozenset(
    {
        "bodies",
        "changing",
        "companions",
        "computed",
        "deciding",
        "delivered",
        "dice",
        "elsewhere",
        "facts",
        "held",
        "homes",
        "judging",
        "knowledge",
        "making",
        "marks",
        "mirror",
        "needs",
        "nowhere",
        "pace",
        "parts",
        "presence",
        "reading",
        "settling",
        "shelves",
        "spelt",
        "telling",
        "there",
        "wanted",
        "work",
    }
)
"""Words that say nothing of a module's subject to somebody who has not read it."""
BEGINNINGS = (
    "As ",
    "For ",
    "How ",
    "Of ",
    "The same",
    "Those ",
    "What ",
    "When ",
    "Where ",
    "Whether ",
    "Which ",
    "Who ",
    "Whoever ",
    "Whose ",
)
"""Beginnings of docstrings that name no thing and no action: a noun phrase or an imperative stands there."""
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def test_modules_are_named_by_their_subject() -> None:
    unclear = [name(path) for path in sources("mqdssm") if path.stem in UNCLEAR_MODULES]
    if unclear:
        pytest.fail(f"name the subject, in terms of LDAP, MSMQ or Python: {unclear}", pytrace=False)


def test_public_class_names_are_unique() -> None:
    defined = defaultdict(list)
    for path in sources("mqdssm"):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(name(path))
    shared = {class_name: places for class_name, places in defined.items() if len(places) > 1}
    if shared:
        pytest.fail(f"one name, several classes: {shared}", pytrace=False)


def first_lines() -> Iterator[tuple[str, str]]:
    """The place and the first line of each docstring of the package."""
    for path in sources("mqdssm"):
        for node in ast.walk(tree(path)):
            text = ast.get_docstring(node) if isinstance(node, Documented) else None
            if text:
                yield f"{name(path)}:{getattr(node, 'lineno', 1)}", text.splitlines()[0]


def test_docstrings_begin_with_a_noun_phrase_or_an_imperative() -> None:
    riddles = [f"{place}: {line}" for place, line in first_lines() if line.startswith(BEGINNINGS)]
    if riddles:
        pytest.fail("say what a caller gets:\n" + "\n".join(riddles), pytrace=False)
