"""The wheel holds what an installation needs, and says which extra brings what is not there."""

import re
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.project.commands import command_of
from support.project.source_tree import ROOT, files
from support.project.wheels import PIPELINE_CALLS, WITHOUT_PIPELINE, build_wheel, run_unpacked, unpacked

from mqdssm.cli.main import MODULES
from mqdssm.errors import EXTRAS

PIPELINE = tuple(package for package, extra in EXTRAS.items() if extra in {"pipeline", "spark"})
CLI = "from mqdssm.cli.main import run\nsys.argv[0] = 'mqdssm'\nrun()\n"
IMPORT_NAMES = {
    "opentelemetry-api": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pyspnego": "spnego",
    "pyyaml": "yaml",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(wheel, tmp_path_factory.mktemp("installed"))


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    held = set(ZipFile(wheel).namelist())
    package = {str(path.relative_to(ROOT)) for path in files() if path.is_relative_to(ROOT / "mqdssm")}
    assert package - held == {"mqdssm/spark/registration.py"}  # which is pyspark_mqdssm/__init__.py there
    beside = {name for name in held - package if ".dist-info/" not in name}
    assert beside == {
        "mqdssm/testing/data/openldap-msmq.Dockerfile",
        "mqdssm/testing/data/samba-dc.Dockerfile",
        "pyspark_mqdssm/__init__.py",
    }


@pytest.mark.parametrize("module", ["containers", "samba_container"])
def test_images_are_built_from_the_wheel(installed: Path, module: str) -> None:
    code, said, problem = run_unpacked(
        installed,
        f"from mqdssm.testing.{module} import build_context\n"
        "for name, content in sorted(build_context().items()): print(name, len(content))\n"
        "print(build_context()['Dockerfile'].decode())\n",
    )
    assert code == 0, problem
    listed = dict(line.split() for line in said.splitlines() if re.fullmatch(r"\S+ \d+", line))
    copied = {name for line in said.splitlines() if line.startswith("COPY ") for name in line.split()[1:-1]}
    assert copied == set(listed) - {"Dockerfile"}
    assert all(int(size) for size in listed.values())


def test_a_cluster_is_sent_the_package_of_the_wheel(installed: Path) -> None:
    code, said, problem = run_unpacked(
        installed,
        "from pathlib import Path\nfrom tempfile import mkdtemp\nfrom zipfile import ZipFile\n"
        "from mqdssm.spark.cluster import write_package_zip\n"
        "print(*ZipFile(write_package_zip(Path(mkdtemp(dir='.')))).namelist())\n",
    )
    assert code == 0, problem
    assert {"pyspark_mqdssm/__init__.py", "mqdssm/spark/source.py"} <= set(said.split())


def test_each_command_is_known_to_need_the_pipeline_or_not() -> None:
    """A new command cannot be forgotten in the tests of an installation without extras."""
    assert PIPELINE_CALLS.keys() | WITHOUT_PIPELINE == MODULES.keys()
    assert not PIPELINE_CALLS.keys() & WITHOUT_PIPELINE
    told = {name for name in MODULES if "mqdssm\\[pipeline]" in (command_of(name).help or "")}
    assert told == PIPELINE_CALLS.keys() - {"demo", "generate"}


@pytest.mark.parametrize("command", PIPELINE_CALLS)
def test_without_the_extras_commands_name_them(installed: Path, command: str) -> None:
    (installed / "in").mkdir(exist_ok=True)
    code, said, problem = run_unpacked(installed, CLI, command, *PIPELINE_CALLS[command], missing=PIPELINE)
    assert (code, said) == (6, "")
    words = r"error: this needs the Python package \w+: pip install 'mqdssm\[pipeline\]'\n"
    assert re.fullmatch(words, problem)
    assert not (installed / "out").exists()


@pytest.mark.parametrize("command", sorted(WITHOUT_PIPELINE))
def test_without_the_extras_other_commands_start(installed: Path, command: str) -> None:
    code, said, problem = run_unpacked(installed, CLI, command, "--help", missing=tuple(EXTRAS))
    assert (code, problem) == (0, "")
    assert "Usage:" in said


def test_an_export_needs_neither_spark_nor_pandas(installed: Path) -> None:
    code, said, problem = run_unpacked(
        installed,
        CLI,
        *["export", "--to", "out2", "--url", "ldap://127.0.0.1:1"],
        missing=("pyspark", "py4j", "sqlglot", "jinja2", "markupsafe"),
    )
    assert (code, said) == (3, "")
    assert "127.0.0.1:1" in problem


def test_without_any_extra_the_rest_works(installed: Path) -> None:
    for arguments in (
        "--help",
        "schema show queue",
        "validate --list-rules",
        "generate --sites 1 --machines 2 --queues 3 --format mqis --tables csv --to tables",
        "generate --sites 1 --machines 2 --queues 3 --format ldif --to ldif",
    ):
        code, _, problem = run_unpacked(installed, CLI, *arguments.split(), missing=tuple(EXTRAS))
        assert code == 0, problem


@pytest.mark.parametrize(
    ("authentication", "extra"), [("ntlm", "ad"), ("spnego", "ad"), ("kerberos", "kerberos")]
)
def test_log_ins_name_their_extra(installed: Path, openldap_server, authentication: str, extra: str) -> None:
    code, said, problem = run_unpacked(
        installed,
        "import os; os.environ['MQDSSM_PASSWORD'] = 'secret'\n" + CLI,
        *("list", "queue", "--user", "ann@EXAMPLE.COM", "--authentication", authentication),
        *("--url", openldap_server.ldaps_url, "--ca-file", openldap_server.ca_file),
        missing=tuple(EXTRAS),
    )
    assert (code, said) == (6, "")
    assert problem == f"error: this needs the Python package spnego: pip install 'mqdssm[{extra}]'\n"


def test_containers_name_their_extra(installed: Path) -> None:
    code, said, problem = run_unpacked(
        installed,
        "from mqdssm.testing.containers import why_no_engine\nprint(why_no_engine())\n",
        missing=tuple(EXTRAS),
    )
    assert (code, problem) == (0, "")
    assert said == "this needs the Python package testcontainers: pip install 'mqdssm[testing]'\n"


def test_every_package_of_an_extra_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra, requirements in project["optional-dependencies"].items():
        if extra in {"docs", "dev"}:  # for this checkout alone
            continue
        names = {re.split(r"[\[<>=!~ ]", requirement)[0] for requirement in requirements}
        names.discard("mqdssm")  # one extra brings another
        known = {package for package, of in EXTRAS.items() if of == extra}
        if extra != "kerberos":  # which is the extra kerberos of pyspnego
            imported = {IMPORT_NAMES.get(name, name) for name in names}
            assert imported & known, f"errors.EXTRAS has no package of the extra {extra}"
            assert imported <= EXTRAS.keys(), extra  # a package of two extras has one of them
