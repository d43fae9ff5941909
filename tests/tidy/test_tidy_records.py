"""The project's records agree with its sources: decisions, spec marks, the lock file, the Makefile."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import conformance
import lockfile
import pytest
import sbom
from support.project.source_tree import ROOT, files, marks, name, nodes, report, sources
from support.watching import kinds

ROW = re.compile(r"^\| (?P<id>[MRCSTW]\d+) \|(?P<cells>.*)\|$", re.MULTILINE)
ROW_WORDS_MAX = 60
"""Words of a decision's row without number, section and tests."""
TEST = re.compile(r"(?P<file>tests/[\w/]+\.py)::(?P<name>\w+(?:::\w+)?)")
PINNED_DOCUMENTS = (
    "M",
    "R",
    "T",
    "W",
)  # the rows of documents that count as done; the others wait for their issue
FIRST_ROWS = {"M": 45, "R": 21, "C": 9, "S": 6}  # rows that were decided before the first line of code


def decision_rows() -> dict[str, str]:
    """Each decision's cells, by its id."""
    text = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    rows = [(match["id"], match["cells"]) for match in ROW.finditer(text)]
    assert len(rows) == len(dict(rows)), "a decision is listed twice"
    return dict(rows)


def test_every_decision_is_there() -> None:
    rows = decision_rows()
    report(
        [
            f"docs/decisions.md: the row {k}{n} is missing"
            for k, last in FIRST_ROWS.items()
            for n in range(1, last + 1)
            if f"{k}{n}" not in rows
        ]
    )


def pin_problems(decision: str, cells: str) -> Iterator[str]:
    """What is wrong with the tests that a decision names."""
    named = TEST.findall(cells)
    if not named:
        yield f"docs/decisions.md: {decision} names no test"
    for file, test in named:
        path = ROOT / file
        if not path.is_file():
            yield f"docs/decisions.md: {decision} names {file}, which does not exist"
        elif not names_in(path).issuperset(test.split("::")):
            yield f"docs/decisions.md: {decision} names {file}::{test}, which does not exist"


def names_in(path: Path) -> set[str]:
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in nodes(path) if isinstance(node, definitions)}


def test_rows_of_decisions_are_short() -> None:
    long = []
    for decision, cells in decision_rows().items():
        words = sum(len(cell.split()) for cell in re.split(r"(?<!\\)\|", cells)[1:4])
        if words > ROW_WORDS_MAX:
            long.append(
                f"docs/decisions.md: {decision} has {words} words, more than {ROW_WORDS_MAX}: "
                "put its whole text below the table"
            )
    report(long)


@pytest.mark.slow
def test_every_decision_is_pinned_by_tests_that_exist() -> None:
    rows = {decision: cells for decision, cells in decision_rows().items() if decision[0] in PINNED_DOCUMENTS}
    report([problem for decision, cells in rows.items() for problem in pin_problems(decision, cells)])


def test_decisions_cited_in_the_code_exist() -> None:
    known = decision_rows()
    cited = re.compile(r"\bdecisions? (?P<ids>[MRCSTW]\d+(?:(?:, | and )[MRCSTW]\d+)*)")
    unknown = [
        f"{name(path)}: cites {decision}, which is no row of docs/decisions.md"
        for path in sources("mqdssm", "tests")
        for match in cited.finditer(path.read_text(encoding="utf-8"))
        for decision in re.findall(r"[MRCSTW]\d+", match["ids"])
        if decision not in known
    ]
    report(unknown)


@pytest.mark.slow
def test_spec_marks_are_known_sections() -> None:
    sections = conformance.read_sections()
    _, problems = conformance.check(sections, marks(), conformance.read_not_applied())
    report([problem for problem in problems if not problem.startswith("hole:")])


def test_lock_file_fits_the_project() -> None:
    assert lockfile.check() == 0, ".ci/requirements.lock does not fit pyproject.toml: make lock"


def test_the_bill_of_materials_has_every_locked_file(tmp_path) -> None:
    file = tmp_path / "build" / "sbom.cdx.json"
    assert sbom.main([str(file)]) == 0
    bill = json.loads(file.read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    locked = [path.read_text(encoding="utf-8") for path in (lockfile.LOCK, lockfile.KERBEROS_LOCK)]
    named = {(one["name"], one["version"]) for one in bill["components"]}
    assert named == {(name, str(version)) for text in locked for name, version, _ in lockfile.entries(text)}
    hashes = [one for part in bill["components"] for one in part["externalReferences"][0]["hashes"]]
    assert len(hashes) == sum(text.count("--hash=sha256:") for text in locked)
    references = [one["bom-ref"] for one in bill["components"]]
    assert len(set(references)) == len(references)
    assert bill["dependencies"][0]["dependsOn"] == references
    assert sbom.document(project(), locked) == bill  # made again it is the same


@pytest.mark.parametrize(("name", "floor"), [("jinja2", "3.1.6"), ("cryptography", "44.0.1")])
def test_versions_with_known_vulnerabilities_are_not_asked_for(name: str, floor: str) -> None:
    wanted = [one for one in lockfile.direct_requirements(project()) if one.name == name]
    floors = [one.version for each in wanted for one in each.specifier if one.operator == ">="]
    assert floors, f"pyproject.toml: {name} needs a floor"
    assert all(lockfile.Version(one) >= lockfile.Version(floor) for one in floors), (
        f"pyproject.toml: {name} before {floor} has known vulnerabilities"
    )


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def test_lock_file_check_sees_what_is_wrong() -> None:
    wanted = [lockfile.Requirement("one>=2"), lockfile.Requirement("two"), lockfile.Requirement("three")]
    text = (
        "one==1.5 \\\n    --hash=sha256:00\n    # via mqdssm (pyproject.toml)\n"
        "two==1\n"
        "four==1 \\\n    --hash=sha256:00\n    # via mqdssm (pyproject.toml)\n"
    )
    assert sorted(lockfile.problems_of(text, wanted)) == [
        "four: locked for us, but no longer asked for",
        "one: 1.5 is locked, >=2 is asked for",
        "three: asked for, not locked",
        "two: no hash",
    ]


def test_a_subset_of_the_lock_file_has_what_several_requirements_need() -> None:
    text = (ROOT / ".ci" / "requirements.lock").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(*asked: str) -> set[str]:
        wanted = lockfile.direct_requirements(project, asked)
        chosen = lockfile.subset(text, wanted, "3.11")
        assert all("--hash=sha256:" in block for _, _, block in lockfile.entries(chosen))
        return {name for name, *_ in lockfile.entries(chosen)}

    base = names("mqdssm")
    assert {"ldap3", "pyasn1", "pydantic", "pydantic-core", "cffi"} <= base
    assert not base & {"pyarrow", "pyspark", "pytest", "colorama"}  # colorama: Windows
    assert names("mqdssm[pipeline]", "mqdssm[ad]") == names("mqdssm[ad,pipeline]") > base
    assert {"py4j", "pandas", "setuptools"} <= names("mqdssm[spark]", "setuptools")
    with pytest.raises(SystemExit, match="not locked: nowhere"):
        names("nowhere")


def test_conformance_reads_marks_and_finds_holes(tmp_path, monkeypatch) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_marks.py").write_text(
        "import pytest\n"
        "@pytest.mark.spec('MS-MQDSSM 1')\ndef test_one(): ...\n"
        "@pytest.mark.skip\n@pytest.mark.spec('MS-MQDSSM 2')\ndef test_two(): ...\n"
        "class TestMore:\n    @pytest.mark.spec('MS-MQDSSM 9')\n    def test_three(self): ...\n"
        "@pytest.mark.spec('MS-MQDSSM 2')\ndef helper(): ...\n"
        "@pytest.mark.spec('MS-MQDSSM ' + str(1))\ndef test_four(): ...\n"
        "# @pytest.mark.spec('MS-MQDSSM 3')\n"
    )
    monkeypatch.setattr(conformance, "ROOT", tmp_path)
    sections = {
        f"MS-MQDSSM {n}": conformance.Section("MS-MQDSSM", n, "title", kind)
        for n, kind in [("1", "normative"), ("2", "normative"), ("3", "empty"), ("4", "normative")]
    }
    left_out = {"MS-MQDSSM 4": "no such thing"}
    proofs, problems = conformance.check(sections, list(conformance.read_marks(tests)), left_out)
    assert proofs == {"MS-MQDSSM 1": ["tests/test_marks.py::test_one"]} | {
        f"MS-MQDSSM {number}": [] for number in (2, 3, 4)
    }
    assert len(problems) == 5  # skipped, unknown section, no test, no literal, and the hole at 2
    assert problems[-1] == "hole: no test proves [MS-MQDSSM] 2 title"
    wrong = dict.fromkeys(["MS-MQDSSM 1", "MS-MQDSSM 3", "MS-MQDSSM 9"], "proven, empty, or nowhere")
    _, problems = conformance.check(sections, list(conformance.read_marks(tests)), wrong)
    assert sum("cannot be left out" in problem for problem in problems) == 3


@pytest.mark.slow
def test_conformance_runs_as_a_program() -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / ".ci" / "conformance.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode in {0, 1}, ran.stderr
    assert "MS-MQDSSM: " in ran.stdout


def test_make_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    described = re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)
    wrong = set(phony[1].split()) ^ set(described)
    assert not wrong, f"Makefile: add to .PHONY or describe behind ##: {sorted(wrong)}"


def test_shell_scripts_are_sound() -> None:
    scripts = [
        path for path in files() if path.read_bytes().startswith((b"#!/usr/bin/env bash", b"#!/bin/sh"))
    ]
    assert len(scripts) >= 2
    for script in scripts:
        parsed = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
        assert parsed.returncode == 0, f"{name(script)}: {parsed.stderr}"


def test_tests_that_run_on_one_server_alone_exist() -> None:
    named = [
        (file, test) for files in kinds.ALONE.values() for file, tests in files.items() for test in tests
    ]
    named += [(file, "") for file in kinds.FILES]
    places = {
        path.name: path for part in ("spec", "cli") for path in (ROOT / "tests" / part).glob("test_*.py")
    }
    unknown = [
        f"tests/support/watching/kinds.py: names {file}::{test}, which does not exist"
        for file, test in named
        if file not in places or (test and test not in names_in(places[file]))
    ]
    assert named
    report(unknown)
