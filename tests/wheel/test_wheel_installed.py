"""The wheel in clean environments, one for each extra, as pip installs it."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.project.commands import command_of
from support.project.wheels import FIRST_MISSING, PIPELINE_CALLS, SIZE, build_wheel
from support.servers.samba_tools import take_ticket

from mqdssm.testing import SambaDomainController
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

INSTALL_S = 1500
TESTS = """
import mqdssm

def test_orders(openldap_server, openldap_directory):
    openldap_server.add_computer("shop1")
    site = openldap_directory.create(mqdssm.Site(name="Berlin"))
    openldap_directory.create(mqdssm.QueueManager(computer_name="shop1", site_identifier_list=[site]))
    openldap_directory.create(mqdssm.Queue(pathname="shop1\\\\orders"))

def test_empty(openldap_directory):
    assert list(openldap_directory.search(mqdssm.Queue)) == []

def test_container(openldap_container):
    assert openldap_container.url
"""
DEMO = ("demo", *SIZE)


def run(*command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MQDSSM"))}
    return subprocess.run(
        command,
        cwd=folder,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


class Environment:
    """A clean environment with the wheel and some extras."""

    def __init__(self, folder: Path, wheel: Path, extras: str) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        made = run(sys.executable, "-m", "venv", str(folder / "venv"), folder=folder)
        assert made.returncode == 0, made.stderr
        installed = self("pip", "install", "-q", f"{wheel}{extras}")
        assert installed.returncode == 0, installed.stderr

    def __call__(self, program: str, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run(str(self.bin / program), *args, folder=self.folder, **environment)

    def error(self, *args: str, **environment: str) -> str:
        """What a command says that ends with exit code 6."""
        done = self("mqdssm", *args, **environment)
        assert (done.returncode, done.stdout) == (6, "")
        return done.stderr


def takes_engine(command: str) -> bool:
    return any(parameter.name == "engine" for parameter in command_of(command).params)


def needs(package: str, extra: str) -> str:
    return f"error: this needs the Python package {package}: pip install 'mqdssm[{extra}]'\n"


def log_in(environment: Environment, server, authentication: str) -> subprocess.CompletedProcess[str]:
    return environment(
        "mqdssm",
        *("list", "queue", "--url", server.ldaps_url, "--ca-file", server.ca_file),
        *("--user", "ann@EXAMPLE.COM", "--authentication", authentication),
        MQDSSM_PASSWORD="secret",
    )


def test_base(wheel: Path, tmp_path: Path, openldap_server) -> None:
    base = Environment(tmp_path, wheel, "")
    assert base("mqdssm", "--version").stdout == "mqdssm 0.1.0\n"
    made = base("mqdssm", "generate", "--format", "ldif", "--to", "ldif", *SIZE)
    assert made.returncode == 0, made.stderr
    assert base("mqdssm", "validate", "--list-rules").returncode == 0
    for command, arguments in PIPELINE_CALLS.items():
        assert base.error(command, *arguments) == needs(FIRST_MISSING.get(command, "pyarrow"), "pipeline")
        if takes_engine(command):
            assert base.error(command, *arguments, "--engine", "spark") == needs("pyspark", "spark")
    assert base.error("diff", "export", "jdbc:postgresql://127.0.0.1/mqis") == needs("pyspark", "spark")
    assert log_in(base, openldap_server, "ntlm").stderr == needs("spnego", "ad")
    assert log_in(base, openldap_server, "kerberos").stderr == needs("spnego", "kerberos")
    said = base("python", "-c", "from mqdssm.testing.containers import why_no_engine as w; print(w())").stdout
    assert f"error: {said}" == needs("testcontainers", "testing")


def test_extra_ad(wheel: Path, tmp_path: Path, openldap_server) -> None:
    ad = Environment(tmp_path, wheel, "[ad]")
    done = log_in(ad, openldap_server, "ntlm")
    assert done.returncode == 3, done.stderr  # slapd knows no NTLM: but the package was there
    done = log_in(ad, openldap_server, "kerberos")
    assert "pip install 'mqdssm[kerberos]'" in done.stderr


def why_not_compiled() -> str:
    """Return what is missing to compile the extra kerberos, or nothing: Linux has only its source."""
    absent = [name for name in ("krb5-config", "gcc") if shutil.which(name) is None]
    header = Path(sysconfig.get_path("include"), "Python.h")
    absent += [] if header.exists() else [str(header)]
    return f"the extra kerberos cannot be compiled here without {', '.join(absent)}" if absent else ""


@pytest.mark.samba
def test_extra_kerberos(wheel: Path, tmp_path: Path) -> None:
    if reason := why_not_compiled():
        pytest.skip(reason)
    kerberos = Environment(tmp_path, wheel, "[kerberos]")
    with SambaDomainController(kerberos=True) as server, pytest.MonkeyPatch.context() as environment:
        environment.setenv("KRB5_CONFIG", server.krb5_conf)
        environment.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
        place = ("--url", server.url, "--ca-file", server.ca_file, "--kerberos-host", server.dns_name)
        command = ("mqdssm", "list", "site", "-o", "json", *place, "--authentication", "kerberos")
        refused = kerberos(*command)
        assert refused.returncode == 3, refused.stderr
        assert "pip install" not in refused.stderr, "what is missing is a ticket"
        take_ticket(server)
        done = kerberos(*command)
    assert done.returncode == 0, done.stderr
    assert "Default-First-Site-Name" in done.stdout


def test_extra_testing(wheel: Path, tmp_path: Path) -> None:
    testing = Environment(tmp_path, wheel, "[testing]")
    (tmp_path / "test_orders.py").write_text(TESTS)
    done = testing("pytest", "-q", "-rs", "test_orders.py")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout or "2 passed, 1 skipped" in done.stdout
    assert "no container engine answers" in done.stdout or "3 passed" in done.stdout


def programs_without_java(folder: Path) -> str:
    """Make a folder with all programs of this machine but Java; gives it as a PATH."""
    folder.mkdir()
    for place in (*os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/sbin"):
        for program in Path(place).glob("*"):
            if program.name not in {"java", "javac"} and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


def test_extra_pipeline(wheel: Path, tmp_path: Path) -> None:
    """All commands of the pipeline, with neither Java nor pyspark."""
    pipeline = Environment(tmp_path, wheel, "[pipeline]")
    path = programs_without_java(tmp_path / "programs")
    code = "import importlib.util as u; print(u.find_spec('pyspark'), u.find_spec('pandas'))"
    assert pipeline("python", "-c", code).stdout == "None None\n"

    def mqdssm(*words: str, code: int = 0, **login: str) -> str:
        done = pipeline("mqdssm", *words, PATH=path, JAVA_HOME="", **login)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stderr if code else done.stdout

    assert "0 missed" in mqdssm(*DEMO)
    mqdssm("generate", "--format", "mqis", "--to", "mqis", *SIZE, "--users", "0")
    with OpenLdapServer(durable=False) as server:
        login = {
            "MQDSSM_URL": server.url,
            "MQDSSM_USER": server.user,
            "MQDSSM_PASSWORD": server.password,
            "MQDSSM_CA_FILE": server.ca_file,
        }
        mqdssm("plan", "mqis", "--to", "plan", "--create-computers", **login)
        mqdssm("apply", "plan", **login)
        mqdssm("migrate", "mqis", "--to", "again", "--on-conflict", "skip", **login)
        mqdssm("export", "--to", "export", **login)
        mqdssm("validate", "export")
        mqdssm("inventory", "export")
        mqdssm("diff", "export", server.url, **login)
        said = needs("pyspark", "spark").strip()
        assert mqdssm("demo", "--spark", code=6, **login).startswith(said)
        for command in filter(takes_engine, PIPELINE_CALLS):
            asked = (command, *PIPELINE_CALLS[command], "--engine", "spark")
            assert mqdssm(*asked, code=6, **login).startswith(said)


def test_extra_spark(wheel: Path, tmp_path: Path) -> None:
    spark = Environment(tmp_path, wheel, "[spark]")
    demo = spark("mqdssm", *DEMO, JAVA_HOME=os.environ.get("JAVA_HOME", ""))
    assert demo.returncode == 0, demo.stderr
    assert "0 missed" in demo.stdout
    assert log_in_needs_ad(spark)


def log_in_needs_ad(environment: Environment) -> bool:
    code = "import importlib.util as u; print(u.find_spec('spnego'), u.find_spec('testcontainers'))"
    return environment("python", "-c", code).stdout == "None None\n"
