"""The package as a whole: what importing it costs, what it promises, what it carries along."""

import ast
import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.project.source_tree import ROOT, nodes, sources

import mqdssm

# A library that reads one queue must not pay for Spark, a terminal, Kerberos or certificates.
HEAVY = [
    "pyspark",
    "pyarrow",
    "pandas",
    "numpy",
    "typer",
    "rich",
    "click",
    "spnego",
    "cryptography",
    "pytest",
]


def modules_after(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stdout.split())


def test_import_budget() -> None:
    assert not modules_after("import mqdssm").intersection(HEAVY)


@pytest.mark.slow
def test_import_budget_of_the_directory() -> None:
    """Not even with everything that reading and writing needs, except Spark and the terminal."""
    statement = "import mqdssm\nmqdssm.connect, mqdssm.Queue, mqdssm.Filter"
    assert not modules_after(statement).intersection(set(HEAVY) - {"cryptography"})


def test_public_names_are_there() -> None:
    assert len(mqdssm.__all__) == len(set(mqdssm.__all__))
    for public in mqdssm.__all__:
        assert getattr(mqdssm, public) is not None
    assert set(mqdssm.__all__) <= set(dir(mqdssm))


def test_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert mqdssm.__version__ == project["version"]
    assert importlib.metadata.version("mqdssm") == project["version"]


def test_types_are_shipped() -> None:
    assert (ROOT / "mqdssm" / "py.typed").read_text(encoding="utf-8").strip() == ""


def on_one_system(path: Path) -> set[ast.AST]:
    """What stands below a question for the system."""
    asked = (
        node for node in nodes(path) if isinstance(node, ast.If) and "sys.platform" in ast.unparse(node.test)
    )
    return {inner for node in asked for inner in ast.walk(node)}


@pytest.mark.xdist_group("tidy")  # each file of the project is parsed there
def test_only_testing_may_presume_linux() -> None:
    """What Windows' or macOS' Python lacks is imported below mqdssm/testing, or on one system alone."""
    unix = {"fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "syslog", "posix"}
    found = [
        f"{path.name}:{node.lineno}"
        for path in sources("mqdssm")
        if not path.is_relative_to(ROOT / "mqdssm" / "testing")
        and "import msvcrt" not in path.read_text(encoding="utf-8")  # it has Windows' way, too
        for node in set(nodes(path)) - on_one_system(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for imported in (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
        if imported.partition(".")[0] in unix
    ]
    assert not found
