"""The page of the Python API names what users are told to use."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.project.source_tree import ROOT

import mqdssm

REFERENCE = ROOT / "docs" / "reference.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def imported(page: Path) -> Iterator[str]:
    """Names that the Python blocks of a page import, dotted."""
    for block in re.findall(r"```py(?:thon)?\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mqdssm"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def referenced() -> set[str]:
    """Names that the page of the API shows, dotted."""
    text = REFERENCE.read_text(encoding="utf-8")
    directives = re.findall(r"\.\. auto(\w+):: ([\w.]+)((?:\n   .+)*)", text)
    found = {name for kind, name, _ in directives if kind != "module"}
    for kind, name, options in directives:
        members = re.search(r":members: (.+)", options)
        if kind == "module":
            found.update(f"{name}.{member.strip()}" for member in (members[1] if members else "*").split(","))
    return found


def test_the_page_of_the_api_has_every_name_that_examples_import() -> None:
    shown = referenced()
    missing = {
        f"{page.name}: {name}"
        for page in PAGES
        for name in imported(page)
        if name not in shown
        and f"{name.rpartition('.')[0]}.*" not in shown
        # a module whose members are shown
        and not any(one.startswith(f"{name}.") for one in shown)
    }
    assert not missing, f"{REFERENCE}: add {sorted(missing)}"


def test_the_page_of_the_api_has_every_name_of_the_package() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    modules = {name: getattr(mqdssm, name).__module__ for name in mqdssm.__all__ if name[0].isalpha()}
    missing = [
        name
        for name, module in modules.items()
        if not re.search(rf"\b{name}\b", text) and f"automodule:: {module}\n   :members:\n" not in text
    ]
    assert not missing, f"{REFERENCE}: add {missing}"
