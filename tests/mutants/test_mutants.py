"""The runner of planted defects, on a small project; and, in soak, on this one."""

import subprocess
import sys
import textwrap
from pathlib import Path

import mutants
import pytest

PROOFS = {"DOC 1": ["tests/test_sum.py::test_sum"], "DOC 2": ["tests/test_sum.py::test_nothing"], "DOC 3": []}
CODE = "def add(a, b):\n    return a + b\n"
TESTS = """
from calculator import add

def test_sum():
    assert add(1, 2) == 3

def test_nothing():
    add(1, 2)
"""


@pytest.fixture
def project(tmp_path) -> Path:
    """A module, its tests, and a stand-in for the simulation that fails where sums are wrong."""
    root = tmp_path / "project"
    (root / "tests").mkdir(parents=True)
    (root / ".ci").mkdir()
    (root / "calculator.py").write_text(CODE)
    (root / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest -p no:xdist -p no:mqdssm\n")
    (root / "tests" / "test_sum.py").write_text(TESTS)
    simulation = "import sys, calculator\nsys.exit(calculator.add(int(sys.argv[2]), 2) != 9)\n"
    (root / ".ci" / "simulate.py").write_text(simulation)
    return root


def mutant(old="a + b", new="a - b", caught_by=("DOC 1",), name="sign") -> mutants.Mutant:
    return mutants.Mutant(name, "calculator.py", old, new, tuple(caught_by), "list.toml")


def verdicts(project, *planted, jobs=1) -> dict[tuple[str, str], str]:
    lines: list[str] = []
    outcomes = mutants.try_all(planted, PROOFS, root=project, jobs=jobs, tell=lines.append)
    assert len(lines) == len(outcomes)
    return {(outcome.mutant.name, outcome.catcher): str(outcome.verdict) for outcome in outcomes}


def test_who_catches_a_defect_and_who_does_not(project) -> None:
    every = ("DOC 1", "DOC 2", "tests/test_sum.py::test_sum", "seed 7")
    found = verdicts(project, mutant(caught_by=every), mutant(new="b + a", name="equal"), jobs=2)
    assert found == {
        ("sign", "DOC 1"): "killed",
        ("sign", "DOC 2"): "survived",
        ("sign", "tests/test_sum.py::test_sum"): "killed",
        ("sign", "seed 7"): "killed",
        ("equal", "DOC 1"): "survived",
    }
    assert (project / "calculator.py").read_text() == CODE
    assert not list(project.rglob("__pycache__")), "nothing runs in the project itself"


def test_code_that_cannot_be_imported_proves_nothing(project) -> None:
    found = verdicts(project, mutant(old="def add", new="import nowhere\ndef add"))
    assert found == {("sign", "DOC 1"): "broken"}


def test_a_run_without_end_has_caught_the_defect(project, monkeypatch) -> None:
    monkeypatch.setattr(mutants, "RUN_SECONDS_MAX", 3.0)
    found = verdicts(project, mutant(old="    return", new="    while True: pass\n    return"))
    assert found == {("sign", "DOC 1"): "killed"}


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        (mutant(old="a * b"), "occurs 0 times in calculator.py"),
        (mutant(old="a"), "occurs 3 times"),
        (mutant(new="a + b"), "are equal"),
        (mutant(new="a +"), "no Python"),
        (mutant(caught_by=["DOC 3"]), "'DOC 3' is no section with a test"),
        (mutant(caught_by=["tests/test_gone.py::test_sum"]), "test_gone"),
        (mutant(caught_by=["seed x"]), "seed x"),
        (mutant(caught_by=["seed 8"]), "without any defect there are failures"),
    ],
)
def test_a_mutant_that_cannot_be_tried_is_an_error(project, planted, words) -> None:
    with pytest.raises(ValueError, match=words):
        verdicts(project, planted)


def test_lists(tmp_path) -> None:
    path = tmp_path / "some.toml"
    text = """
    [[mutant]]
    name = "sign"
    caught_by = ["DOC 1", "seed 7"]
    file = "calculator.py"
    old = 'a + b'
    new = ''
    """
    path.write_text(textwrap.dedent(text))
    assert mutants.read_lists([path]) == [
        mutants.Mutant("sign", "calculator.py", "a + b", "", ("DOC 1", "seed 7"), "some.toml")
    ]
    for damage in (("new =", "newer ="), ('["DOC 1", "seed 7"]', "[]")):
        path.write_text(textwrap.dedent(text).replace(*damage))
        with pytest.raises(ValueError, match=r"some\.toml: 'sign' needs exactly"):
            mutants.read_list(path)
    path.write_text(textwrap.dedent(text) * 2)
    problems = mutants.find_problems(mutants.read_list(path), PROOFS)
    assert "some.toml: 'sign': there are two of this name" in problems


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("path", sorted(mutants.LISTS.glob("*.toml")), ids=lambda path: path.stem)
def test_no_mutant_survives(path) -> None:
    done = subprocess.run(
        [sys.executable, mutants.ROOT / ".ci" / "mutants.py", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
