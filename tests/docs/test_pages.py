"""Lists of pages, layers and modules in the documentation and in docstrings are complete."""

import ast
import re
from pathlib import Path

from support.project.source_tree import ROOT, name, report, sources, tree

DOCS = ROOT / "docs"
ROW = re.compile(r"^([a-z_]+)  +\S", re.MULTILINE)


def parts_of_site() -> dict[str, set[str]]:
    """The pages of each part of the site, by the tables of contents of its front page."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    found = re.findall(r"```\{toctree\}\n:caption: (.+)\n((?::.+\n)*)\n((?:.+\n)+)```", text)
    return {caption: set(pages.split()) for caption, _, pages in found}


def parts_of_list() -> dict[str, set[str]]:
    """The pages of each part of docs/README.md."""
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    return {
        title: {link.removesuffix(".md") for link in re.findall(r"^\| \[.+?\]\((.+?)\)", body, re.MULTILINE)}
        for title, body in re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", text, re.MULTILINE)
    }


def test_both_lists_of_pages_have_the_same_parts() -> None:
    listed = parts_of_list()
    listed["Development"] = {page for page in listed["Development"] if not page.startswith("../")}
    shown = parts_of_site()
    shown["Development"].discard("README")
    assert len(shown) == 5
    report(
        [
            f"docs/index.md, docs/README.md: {part}: {page} is in one of them only"
            for part in shown.keys() | listed.keys()
            for page in sorted(shown.get(part, set()) ^ listed.get(part, set()))
        ]
    )


def test_every_page_is_in_the_list() -> None:
    listed = set().union(*parts_of_list().values())
    outside = {"README", "index"}
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.glob("*.md")}
    report([f"docs/README.md: {page} is missing" for page in sorted(pages - listed - outside)])


def packages() -> list[Path]:
    return [path.parent for path in sources("mqdssm") if path.name == "__init__.py"]


def test_every_layer_and_engine_is_in_the_page_of_the_architecture() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    layers = {path.name for path in packages() if path.parent == ROOT / "mqdssm"} | {"errors"}
    assert layers <= rows, f"docs/architecture.md: add {layers - rows}"
    sentence = re.search(r"The engines are (.+?)\.\n", text)
    assert sentence
    engines = {path.name for path in packages() if path.parent.name == "engines"}
    assert set(re.findall(r"`(\w+)`", sentence[1])) == engines


def test_every_module_of_replication_is_in_the_page_of_the_architecture() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("| modules | subject |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.splitlines()[2:])))
    modules = {path.stem for path in sources("mqdssm/engines/replication")} - {"__init__"}
    assert named == modules, f"docs/architecture.md: {sorted(named ^ modules)}"


def test_lists_of_modules_in_docstrings_are_complete() -> None:
    """A package whose docstring lists modules lists all of them; the same for packages in it."""
    problems = []
    for package in packages():
        listed = set(ROW.findall(ast.get_docstring(tree(package / "__init__.py")) or ""))
        folders = {path.name for path in packages() if path.parent == package}
        modules = {path.stem for path in sources(str(package)) if path.parent == package} - {"__init__"}
        wanted = set[str]().union(*(names for names in (folders, modules) if names & listed))
        problems += [f"{name(package)}/__init__.py: {word}" for word in sorted(listed ^ wanted)]
    report(problems)


def test_lists_are_found() -> None:
    listing = [path for path in packages() if ROW.search(ast.get_docstring(tree(path / "__init__.py")) or "")]
    assert len(listing) > 3
