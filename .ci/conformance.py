"""Which test proves which section of the specifications: reads the marks, prints the map, fails on a hole.

A proof is written literally, one section a mark, above the test (or its class):
``@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")``. The marks are read from the syntax trees, not from a run,
so that the answer does not depend on which servers are installed here. A test that is skipped
unconditionally or expected to fail proves nothing.
"""

import argparse
import ast
import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SECTIONS: Final = ROOT / "tests" / "spec" / "sections.csv"
NOT_APPLIED: Final = ROOT / "tests" / "spec" / "not_applied.csv"
"""Normative sections that this project does not implement, with the reason."""
DONE: Final = ("MS-MQDSSM", "MC-MQDSRP", "MS-MQCN", "MS-MQSD", "MS-MQQB")
"""A normative section of these without a test is a failure, unless it is not applied."""
NO_PROOF: Final = frozenset({"skip", "xfail"})


@dataclass(frozen=True, slots=True, order=True)
class Section:
    """One section of one specification."""

    document: str
    number: str
    title: str
    kind: str  # normative, example, security, empty

    @property
    def name(self) -> str:
        """The name in a mark, as ``MS-MQDSSM 3.1.6.1.2.5``."""
        return f"{self.document} {self.number}"


@dataclass(frozen=True, slots=True)
class Mark:
    """One spec mark in a test module."""

    section: str | None  # None: no literal text of one section
    test: str  # pytest's node id without parameters
    place: str  # file:line
    proves: bool  # belongs to a test that runs


def read_sections(path: Path = SECTIONS) -> dict[str, Section]:
    """Every section of the index, by its name in a mark."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        sections = [Section(r["document"], r["section"], r["title"], r["kind"]) for r in rows]
    return {section.name: section for section in sections}


def read_not_applied(path: Path = NOT_APPLIED) -> dict[str, str]:
    """Reasons for which sections are not implemented, by their names in marks."""
    with path.open(encoding="utf-8", newline="") as file:
        return {f"{row['document']} {row['section']}": row["reason"] for row in csv.DictReader(file)}


def _mark_name(node: ast.expr) -> str | None:
    """``spec`` of ``pytest.mark.spec`` or ``pytest.mark.spec(...)``; None for anything else."""
    if isinstance(node, ast.Call):
        node = node.func
    match node:
        case ast.Attribute(attr=name, value=ast.Attribute(attr="mark", value=ast.Name(id="pytest"))):
            return name
    return None


def _literal(call: ast.Call) -> str | None:
    match call:
        case ast.Call(args=[ast.Constant(value=str() as text)], keywords=[]):
            return text
    return None


class _Marks(ast.NodeVisitor):
    """Collects the marks of one module, each with the test that it stands above."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.marks: list[Mark] = []
        self._path: list[str] = []
        self._dead = 0  # how many enclosing definitions are skipped or expected to fail

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        dead = any(_mark_name(decorator) in NO_PROOF for decorator in node.decorator_list)
        self._path.append(node.name)
        self._dead += dead
        self.generic_visit(node)
        self._dead -= dead
        self._path.pop()

    visit_FunctionDef = _definition  # noqa: N815  the names that ast.NodeVisitor calls
    visit_AsyncFunctionDef = _definition  # noqa: N815
    visit_ClassDef = _definition  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        if _mark_name(node) == "spec":
            collected = all(name.startswith("Test") for name in self._path[:-1]) and (
                not self._path or self._path[-1].startswith(("test_", "Test"))
            )
            self.marks.append(
                Mark(
                    section=_literal(node),
                    test="::".join([self.file, *self._path]),
                    place=f"{self.file}:{node.lineno}",
                    proves=collected and not self._dead,
                )
            )
        self.generic_visit(node)


def read_marks(tests: Path = ROOT / "tests") -> Iterator[Mark]:
    """Every spec mark below `tests`, module by module."""
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.spec" in text:  # half of the files have none, and parsing takes most of the time
            visitor = _Marks(path.relative_to(ROOT).as_posix())
            visitor.visit(ast.parse(text, filename=str(path)))
            yield from visitor.marks


def check(
    sections: dict[str, Section],
    marks: Sequence[Mark],
    not_applied: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, list[str]], list[str]]:
    """The tests of each section, and everything that is wrong."""
    proofs: dict[str, list[str]] = {name: [] for name in sections}
    problems: list[str] = []
    for mark in marks:
        if mark.section is None:
            problems.append(f"{mark.place}: a spec mark holds the literal text of exactly one section")
        elif mark.section not in sections:
            problems.append(f"{mark.place}: {mark.section!r} is no section of tests/spec/sections.csv")
        elif not mark.proves:
            problems.append(f"{mark.place}: {mark.test} is no test that runs, so it proves nothing")
        elif mark.test not in proofs[mark.section]:
            proofs[mark.section].append(mark.test)
    problems.extend(
        f"{name}: is no normative section without a test, and cannot be left out"
        for name in not_applied
        if name not in sections or sections[name].kind != "normative" or proofs[name]
    )
    problems.extend(
        f"hole: no test proves [{section.document}] {section.number} {section.title}"
        for section in sections.values()
        if section.document in DONE
        and section.kind == "normative"
        and not proofs[section.name]
        and section.name not in not_applied
    )
    return proofs, problems


def print_map(
    sections: dict[str, Section], proofs: dict[str, list[str]], not_applied: dict[str, str]
) -> None:
    """Section by section: its tests, or why it is not applied; then how much of each document is proven."""
    for name, tests in proofs.items():
        if tests:
            print(f"{name} {sections[name].title}")
            for test in tests:
                print(f"    {test}")
        elif name in not_applied:
            print(f"{name} {sections[name].title}\n    not applied: {not_applied[name]}")
    print()
    for document in dict.fromkeys(section.document for section in sections.values()):
        normative = [s.name for s in sections.values() if s.document == document and s.kind == "normative"]
        proven = sum(1 for name in normative if proofs[name])
        left_out = sum(1 for name in normative if name in not_applied)
        state = f", {left_out} are not applied" if left_out else ""
        print(f"{document}: {proven} of {len(normative)} normative sections are proven{state}")


def main() -> int:
    """Print the map; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="the map as one JSON object, for programs")
    arguments = parser.parse_args()
    sections = read_sections()
    not_applied = read_not_applied()
    proofs, problems = check(sections, list(read_marks()), not_applied)
    if arguments.json:
        print(json.dumps(proofs, indent=2))
    else:
        print_map(sections, proofs, not_applied)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problems", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
