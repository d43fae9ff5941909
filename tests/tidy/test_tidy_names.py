"""Names: modules by their subject, each public class name once."""

import ast
from collections import defaultdict

import pytest
from source_tree import name, sources, tree

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
