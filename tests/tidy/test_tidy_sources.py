"""The sources keep to the house's habits: small, cited, without loose ends, complete in themselves."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.project import source_tree
from support.project.source_tree import ROOT, name, nodes, report, sources, tree

MODULE_LINES_MAX = 700
FUNCTION_LINES_MAX = 60  # without the docstring
TEXT_BYTES_MAX = 512 * 1024  # above that it is data, and belongs into an archive or a generator
CITATION = re.compile(r"\[M[SC]-[A-Z]+\]|\bRFC \d{3,4}\b|\b[MRCSW]\d{1,3}\b")
CITING_LAYERS = ("mqdssm/events", "mqdssm/tables", "mqdssm/wire")
# Machinery of ours that no specification speaks of: the declaration language, the forms of our own files.
MACHINERY = frozenset(
    {
        *(f"mqdssm/wire/{module}.py" for module in ("codecs", "fields", "layout")),
        *(f"mqdssm/wire/{module}.py" for module in ("plan", "source", "structure_reader")),
        *(f"mqdssm/tables/{module}.py" for module in ("ldif", "row")),
        "mqdssm/events/durable_files.py",
        "mqdssm/events/input_files.py",
    }
)
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b(?! *\(?#\d+)")
# Built from halves, so that this file does not hold what it forbids.
OUTSIDE = re.compile(
    "|".join(re.escape(a + b) for a, b in [("../", "shared"), ("/wo", "rk/"), ("/tmp/", "plan")])
)
TEXT_SUFFIXES = frozenset(
    {
        ".py",
        ".md",
        ".toml",
        ".csv",
        ".json",
        ".ldif",
        ".schema",
        ".sh",
        ".yaml",
        ".yml",
        ".txt",
        ".cfg",
        ".svg",
        "",
    }
)

DefinitionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def text_files() -> Iterator[Path]:
    return (path for path in source_tree.files() if path.suffix in TEXT_SUFFIXES)


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from `def` to its end, without the docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def test_modules_are_short() -> None:
    counted = ((path, len(path.read_text(encoding="utf-8").splitlines())) for path in sources())
    report(
        [
            f"{name(path)}: {lines} lines, at most {MODULE_LINES_MAX}"
            for path, lines in counted
            if lines > MODULE_LINES_MAX
        ]
    )


@pytest.mark.slow
def test_functions_are_short() -> None:
    report(
        [
            f"{name(path)}:{node.lineno} {node.name}: {body_lines(node)} lines, at most {FUNCTION_LINES_MAX}"
            for path in sources()
            for node in nodes(path)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and body_lines(node) > FUNCTION_LINES_MAX
        ]
    )


def test_nothing_is_left_unfinished_without_an_issue() -> None:
    report(
        [
            f"{name(path)}:{number}: {line.strip()}"
            for path in sources()
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
            if UNFINISHED.search(line)
        ]
    )


def test_the_project_stands_alone() -> None:
    report(
        [
            f"{name(path)}:{number}: {line.strip()[:100]}"
            for path in text_files()
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
            if OUTSIDE.search(line)
        ]
    )


def test_text_files_are_plain() -> None:
    problems = []
    for path in text_files():
        data = path.read_bytes()
        if len(data) > TEXT_BYTES_MAX:
            problems.append(f"{name(path)}: {len(data)} bytes, at most {TEXT_BYTES_MAX}")
        if b"\r\n" in data or data.startswith(b"\xef\xbb\xbf"):
            problems.append(f"{name(path)}: CRLF or a byte order mark")
        if data and not data.endswith(b"\n"):
            problems.append(f"{name(path)}: no newline at the end")
    report(problems)


def public_definitions(module: ast.Module) -> Iterator[DefinitionNode]:
    for node in module.body:
        if isinstance(node, DefinitionNode) and not node.name.startswith("_"):
            yield node


def uncited(path: Path) -> Iterator[str]:
    """Public classes and functions that name no source, in a module that names none for all of it."""
    module = tree(path)
    if CITATION.search(ast.get_docstring(module) or ""):
        return
    for node in public_definitions(module):
        if not CITATION.search(ast.get_docstring(node) or ""):
            yield f"{name(path)}:{node.lineno} {node.name}: cites no section, RFC or decision"


def test_public_items_of_the_specified_layers_are_cited() -> None:
    specified = [path for path in sources(*CITING_LAYERS) if name(path) not in MACHINERY]
    report([problem for path in specified for problem in uncited(path)])


def test_machinery_exists() -> None:
    report(
        [
            f"tests/tidy/test_tidy_sources.py: MACHINERY names {module}, which does not exist"
            for module in sorted(MACHINERY)
            if not (ROOT / module).is_file()
        ]
    )


def test_entries_are_put_together_in_one_place() -> None:
    """What an add needs beside values is known by `new_entry`, the entry of an element by `EntryBuilder`."""
    makers = {"events/entry_builder.py", "pipeline/migrate/ldif.py", "samples/fault_values.py"}
    forms = {"directory/requests.py", "pipeline/frames/bulk.py"}  # of an add, and of a row
    problems = []
    for path in sources("mqdssm"):
        where = name(path).removeprefix("mqdssm/")
        if where.startswith("testing/"):
            continue  # accounts, which no element stands for
        for node in nodes(path):
            written = [ast.unparse(key) for key in node.keys if key] if isinstance(node, ast.Dict) else []
            if (
                isinstance(node, ast.Dict)
                and {"'objectClass'", "OBJECT_CLASS"}.intersection(written)
                and where not in forms
            ):
                problems.append(f"{name(path)}:{node.lineno}: use mqdssm.directory.requests.new_entry")
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "NewEntry" and where not in makers:
                problems.append(f"{name(path)}:{node.lineno}: use mqdssm.events.entry_builder.EntryBuilder")
    report(problems)


def test_every_module_has_a_docstring() -> None:
    report(
        [
            f"{name(path)}: no docstring"
            for path in sources("mqdssm", ".ci", "benchmarks")
            if not ast.get_docstring(tree(path))
        ]
    )


def test_test_modules_have_unique_names() -> None:
    """Modules of the package `support` are named by their folder, too, as those of mqdssm are."""
    seen: dict[str, Path] = {}
    problems = []
    for path in sources("tests"):
        if path.name == "conftest.py" or path.is_relative_to(ROOT / "tests" / "support"):
            continue
        if path.name in seen:
            problems.append(f"{name(path)}: {name(seen[path.name])} has the same file name")
        seen[path.name] = path
    report(problems)


def test_test_files_are_collected() -> None:
    """A file with tests that pytest does not collect proves nothing."""
    report(
        [
            f"{name(path)}: has tests, but its name does not begin with test_"
            for path in sources("tests")
            if not path.name.startswith("test_")
            and any(
                isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
                for node in tree(path).body
            )
        ]
    )


def test_tests_that_start_a_domain_controller_are_marked() -> None:
    """They skip where there can be none: by the name of their file (tests/conftest.py) or by their mark."""
    report(
        [
            f"{name(path)}: starts a SambaDomainController; call the file test_…_samba.py or mark it samba"
            for path in sources("tests")
            if path.name.startswith("test_")
            and not re.match(r"test_ad_|test_.*samba", path.name)
            and "SambaDomainController(" in (text := path.read_text(encoding="utf-8"))
            and "pytest.mark.samba" not in text
            and any(
                isinstance(node, ast.Call) and getattr(node.func, "id", "") == "SambaDomainController"
                for node in nodes(path)
            )
        ]
    )


def test_root_is_the_project() -> None:
    assert (ROOT / "pyproject.toml").is_file()
    assert len(sources("mqdssm")) > 10
