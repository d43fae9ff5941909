"""The command line in this process, on a real server; nothing of the machine's own settings counts."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from support.servers.plain_ldap import PlainLdap
from support.watching.kinds import KINDS, Kind, parameters
from typer.testing import CliRunner, Result

COMMAND_LINE_KINDS: Final = frozenset({"openldap", "samba"})
"""Those of `KINDS` that the commands are tried on: what differs else is no business of theirs."""


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("MQDSSM_") and name != "MQDSSM_TEST_PROFILE":
            monkeypatch.delenv(name)
    # a domain controller that all tests share may be started in here: from the domain that the machine keeps
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"))
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.delenv("COLUMNS", raising=False)


@dataclass
class CommandLine:
    """Runs commands; environment as given, on top of that of the test."""

    environment: Mapping[str, str | None] = field(default_factory=dict)

    def __call__(
        self, *args: str, code: int = 0, stdin: str | None = None, **environment: str | None
    ) -> Result:
        from mqdssm.cli.main import app

        result = CliRunner().invoke(app, args, env={**self.environment, **environment}, input=stdin)
        assert result.exit_code == code, f"exit {result.exit_code}\n{result.stdout[:2000]}\n{result.stderr}"
        assert "Traceback" not in result.output
        return result

    def json(self, *args: str, **more: Any) -> Any:
        """The answer as a program reads it."""
        return json.loads(self(*args, "--output", "json", **more).stdout)

    def error(self, *args: str, code: int, **more: Any) -> str:
        """What is said about a failure: one line, and nothing on the standard output."""
        result = self(*args, code=code, **more)
        assert result.stdout == ""
        # servers in this process may not reach each other yet, and say so
        is_early = re.compile("warning: psc[0-9]+ cannot be reached: ").match
        lines = [line for line in result.stderr.splitlines() if not is_early(line)]
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("error: ")
        return lines[0].removeprefix("error: ")


@pytest.fixture
def alone() -> CommandLine:
    """The command line without any settings."""
    return CommandLine()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What a command does to a directory is tested on every kind of server, all else on OpenLDAP."""
    if "kind" in metafunc.fixturenames:
        file, test = metafunc.definition.path.name, metafunc.definition.originalname
        if file == "test_cli_objects.py":
            kinds = [one for one in parameters(file, test) if one.id in COMMAND_LINE_KINDS]
            metafunc.parametrize("kind", kinds, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    """The kind of server."""
    return KINDS[getattr(request, "param", "openldap")]


@pytest.fixture
def server(kind: Kind, request: pytest.FixtureRequest) -> Any:
    """The server; what a test adds has names of its own."""
    return request.getfixturevalue(f"{kind.name}_server")


@pytest.fixture
def cli(kind: Kind, server: Any) -> CommandLine:
    """The command line with the administrator's settings in the environment, the quickest way."""
    return CommandLine(
        {
            "MQDSSM_URL": server.ldapi_url if kind.name == "openldap" else server.ldaps_url,
            "MQDSSM_USER": server.user,
            "MQDSSM_PASSWORD": server.password,
            "MQDSSM_CA_FILE": server.ca_file,
        }
    )


@pytest.fixture
def plain(kind: Kind, server: Any) -> PlainLdap:
    """The directory as OpenLDAP's own tools see it."""
    return kind.plain(server)


@dataclass(frozen=True)
class Machine:
    """A computer with a queue manager of a test's own.

    Attributes:
        name: of the computer.
        site: name of its site.
        dn: of its mSMQConfiguration.
    """

    name: str
    site: str
    dn: str


@pytest.fixture
def machine(server: Any, cli: CommandLine) -> Iterator[Machine]:
    unique = uuid4().hex[:8]
    name, site = f"m{unique}", f"S{unique}"
    computer = server.add_computer(name)
    identifier = cli.json("create", "site", f"Name={site}")["Identifier"]
    cli("create", "queue-manager", f"ComputerName={name}", f"SiteIdentifierList={identifier}")
    yield Machine(name, site, f"cn=msmq,{computer}")
    cli("delete", "queue-manager", f"ComputerName={name}", "--recursive", code=0)
    cli("delete", "site", f"Name={site}")
