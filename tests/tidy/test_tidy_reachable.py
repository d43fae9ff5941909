"""No dead files: every module is imported, every page linked, every vector explained."""

import ast
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import grimp
import pytest
from support.project import source_tree
from support.project.source_tree import ROOT, name, report, sources

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|^\{include\}\s*(\S+)|`{3}\{include\}\s*(\S+)", re.MULTILINE)

SUPPORT_IMPORT = re.compile(r"^[ \t]*(from support[\w.]* import (?:\([^)]*\)|.*))$", re.MULTILINE)
"""A statement that imports from tests/support; a walk through the trees of all tests takes much longer."""
WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.\w+)*|\"\w+\.py\"")


@cache
def import_graph() -> grimp.ImportGraph:
    return grimp.build_graph("mqdssm", cache_dir=None)


def entry_modules() -> set[str]:
    """Where the outside world comes in: pyproject's entry points, `python -m`, the lazy public names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = {target.partition(":")[0] for target in project["scripts"].values()}
    entries.update(target for group in project["entry-points"].values() for target in group.values())
    return entries | {"mqdssm"}


def names_in_texts(paths: Iterable[Path]) -> dict[str, set[Path]]:
    """For each dotted word and its beginnings, and each file name in quotes: the files that have it."""
    found: dict[str, set[Path]] = {}
    for path in paths:
        for word in set(WORD.findall(path.read_text(encoding="utf-8"))):
            parts = word.split(".")
            for end in range(1, len(parts) + 1) if word[0] != '"' else ():
                found.setdefault(".".join(parts[:end]), set()).add(path)
            found.setdefault(word, set()).add(path)
    return found


@pytest.mark.slow
def test_every_module_is_used() -> None:
    graph = import_graph()
    named = names_in_texts(sources("mqdssm", ".ci", "benchmarks"))
    entries = entry_modules()
    reached = set(entries)
    for entry in entries & graph.modules:
        reached |= graph.find_upstream_modules(entry)

    def named_elsewhere(module: str) -> bool:
        """Lazily imported or run as a program: a dotted word, or a file in quotes, in another file."""
        own = ROOT / (module.replace(".", "/") + ".py")
        return bool((named.get(module, set()) | named.get(f'"{own.name}"', set())) - {own})

    pending = [module for module in graph.modules - reached if named_elsewhere(module)]
    while pending:
        module = pending.pop()
        reached |= {module} | graph.find_upstream_modules(module)
    packages = {m for m in graph.modules if (ROOT / m.replace(".", "/") / "__init__.py").exists()}
    unused = sorted(graph.modules - reached - packages)
    if unused:
        files = [f"{module.replace('.', '/')}.py" for module in unused]
        report([f"{file}: imported by nothing: use it or delete it" for file in files])


def test_every_support_module_is_used() -> None:
    imported = {
        part
        for path in sources("tests")
        for statement in SUPPORT_IMPORT.findall(path.read_text(encoding="utf-8"))
        for node in ast.parse(statement).body
        if isinstance(node, ast.ImportFrom)
        for part in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    modules = {
        ".".join(path.relative_to(ROOT / "tests").with_suffix("").parts): path
        for path in sources("tests/support")
        if path.name != "__init__.py"
    }
    report(
        [
            f"{name(path)}: no test imports it: delete it"
            for module, path in modules.items()
            if module not in imported
        ]
    )


def local_targets(page: Path) -> set[Path]:
    """The files of the project that a Markdown page links to or includes."""
    found = set()
    for groups in LINK.findall(page.read_text(encoding="utf-8")):
        target = next(filter(None, groups), "")
        if target and "://" not in target and not target.startswith("mailto:"):
            found.add((page.parent / target).resolve())
    return found


def test_links_lead_somewhere() -> None:
    pages = [path for path in source_tree.files() if path.suffix == ".md"]
    report(
        [
            f"{name(page)}: links to {target}, which does not exist"
            for page in pages
            for target in local_targets(page)
            if not target.exists()
        ]
    )


def test_the_readme_has_no_relative_links() -> None:
    """A package index shows README.md alone: a link into the project would lead nowhere."""
    report(
        [
            f"README.md: links to {name(target)}: write its path as code"
            for target in local_targets(ROOT / "README.md")
        ]
    )


def test_every_page_is_linked() -> None:
    """From README.md or docs/README.md, at any number of steps; generated tables through their folder."""
    seen: set[Path] = set()
    pending = [ROOT / "README.md", ROOT / "docs" / "README.md"]
    while pending:
        page = pending.pop()
        if page in seen:
            continue
        seen.add(page)
        for target in local_targets(page):
            if target.is_dir():
                pending.extend(target.glob("*.md"))
            elif target.suffix == ".md" and target.exists():
                pending.append(target)
    fragments = ROOT / "docs" / "changes"
    report(
        [
            f"{name(path)}: no page links to it: add a link to docs/README.md"
            for path in source_tree.files()
            if path.suffix == ".md"
            and path not in seen
            and path.parent != fragments
            and path != ROOT / "docs" / "index.md"
        ]
    )


def test_every_vector_is_explained() -> None:
    """Where it comes from is said in sources.md, or in the file's own first line."""
    folder = ROOT / "tests" / "vectors"
    sources_page = folder / "sources.md"
    explained = sources_page.read_text(encoding="utf-8") if sources_page.exists() else ""
    report(
        [
            f"tests/vectors/sources.md: does not say where {name(path)} comes from"
            for path in source_tree.files()
            if path.is_relative_to(folder)
            and path != sources_page
            and path.relative_to(folder).as_posix() not in explained
            and not re.match(rb"#.*\[M[SC]-", path.read_bytes().partition(b"\n")[0])
        ]
    )
