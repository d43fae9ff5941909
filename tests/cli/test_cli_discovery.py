"""``mqdssm discover`` and ``mqdssm discovery-server``: the commands, on this machine's loopback."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.discovery.client import guid_of
from support.programs.starting import MQDSSM, run, start

from mqdssm.testing import OpenLdapServer

pytestmark = pytest.mark.slow  # starts programs

HERE = "127.0.0.1"
NETWORK = str(guid_of("network"))


@contextmanager
def served(cli, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """A discovery server as a process, and what it says when it listens."""
    environment = {**os.environ, **{name: value for name, value in cli.environment.items() if value}}
    command = [*MQDSSM, "discovery-server", "--output", "json", *arguments]
    process = start(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = []
        while not lines or lines[-1] not in {"}\n", ""}:
            lines.append(process.stdout.readline())
        assert lines[-1], process.communicate()
        yield process, json.loads("".join(lines))
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_server_answers_from_the_directory_until_it_is_told_to_end(
    cli, machine, ending: signal.Signals
) -> None:
    cli("write", "queue-manager", f"ComputerName={machine.name}", "DirectoryServer=true")
    site = cli.json("read", "site", f"Name={machine.site}")["Identifier"]
    named = ("--site", machine.site, "--computer", machine.name, "--network", NETWORK)
    with served(cli, "--listen", f"{HERE}:0", *named) as (process, said):
        (where,) = said["listening"]
        assert said["answering"] == ["127.0.0.0/8"]
        assert said["site"] == site
        assert said["servers"] == [{"name": machine.name, "ip": True, "ipx": False}]

        found = cli.json("discover", "--broadcast", where, "--wait", "0.3")
        assert found == {
            "answered_by": HERE,
            "network": where,
            "site": site,
            "is_own_site": False,
            "own_site_server": None,
            "servers": [{"name": machine.name, "ip": True, "ipx": False}],
            "connected_networks": [NETWORK],
        }
        shown = cli("discover", "--broadcast", where, "--wait", "10", "--site", site).stdout
        assert shown == (
            f"answered by        {HERE}, asked on {where}\n"
            f"site               {site}, this machine's own\n"
            f"connected network  {NETWORK}\n"
        )
        process.send_signal(ending)
        assert process.wait(30) == 0


@pytest.mark.parametrize("network", ["10.1.0.0/33", "10.1.0.1/16", "everybody", "::/0", "10.1.0.0:1801"])
def test_a_network_to_answer_is_refused_if_it_is_none(alone, network: str) -> None:
    named = ("--site", "Berlin", "--computer", "x", "--allow-from", network)
    done = alone("discovery-server", *named, code=2)
    assert f"--allow-from {network}" in done.stderr
    assert "an IPv4 network is wanted, as 10.0.0.0/24" in done.stderr


def test_other_networks_are_answered_where_they_are_allowed(cli, machine) -> None:
    """Decision S19."""
    named = ("--site", machine.site, "--computer", machine.name)
    more = ("--allow-from", "10.2.0.0/16", "--allow-from", "192.0.2.7")
    with served(cli, "--listen", f"{HERE}:0", *named, *more) as (_, said):
        assert said["answering"] == ["10.2.0.0/16", "127.0.0.0/8", "192.0.2.7/32"]


def test_a_list_for_people(cli, machine) -> None:
    cli("write", "queue-manager", f"ComputerName={machine.name}", "DirectoryServer=true")
    with served(cli, "--listen", f"{HERE}:0", "--site", machine.site, "--computer", "x") as (_, said):
        shown = cli("discover", "--broadcast", said["listening"][0], "--wait", "0.3").stdout
    assert f"directory server  {machine.name} (IP)\n" in shown


@pytest.mark.spec("MS-MQSD 3.2.1.1")
def test_changes_of_the_directory_are_answered_from_soon(cli, machine) -> None:
    """Decision S17; without the watch they would be in five minutes."""
    named = ("--site", machine.site, "--computer", machine.name)
    with served(cli, "--listen", f"{HERE}:0", *named) as (process, said):
        where = said["listening"][0]
        # the first may be seen when the watch begins, the second comes by the watch alone
        for serves, code in (("true", 0), ("false", 1)):
            cli("write", "queue-manager", f"ComputerName={machine.name}", f"DirectoryServer={serves}")
            asked_until(where, code)
        process.terminate()
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "not watched" not in process.stderr.read()


def asked_until(where: str, code: int, seconds: float = 30.0) -> None:
    """Ask a server until the answer is one, or none, as the exit code says."""
    command = [*MQDSSM, "discover", "--broadcast", where, "--wait", "0.2"]
    end = time.monotonic() + seconds
    while run(command).returncode != code:
        assert time.monotonic() < end, f"exit code {code} did not come within {seconds} s"


def test_a_directory_that_tells_nothing_is_read_at_the_interval(alone) -> None:
    """Decision S17: without the overlay syncprov; it is said once, and the server works."""
    with OpenLdapServer(durable=False, syncprov=False) as server:
        alone.environment = {
            "MQDSSM_URL": server.ldapi_url,
            "MQDSSM_USER": server.user,
            "MQDSSM_PASSWORD": server.password,
        }
        server.add_computer("dc1")
        site = alone.json("create", "site", "Name=Oslo")["Identifier"]
        alone("create", "queue-manager", "ComputerName=dc1", f"SiteIdentifierList={site}")
        named = ("--site", "Oslo", "--computer", "dc1", "--refresh", "2")
        with served(alone, "--listen", f"{HERE}:0", *named) as (process, said):
            assert process.stderr is not None
            why = process.stderr.readline()
            assert why.startswith("the directory is not watched, only read every 2 s: ")
            assert "overlay syncprov" in why
            alone("write", "queue-manager", "ComputerName=dc1", "DirectoryServer=true")
            asked_until(said["listening"][0], 0)
            process.terminate()
            assert process.wait(30) == 0
            assert "not watched" not in process.stderr.read()


def test_nobody_answers(alone) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind((HERE, 0))
        where = f"{HERE}:{silent.getsockname()[1]}"
        command = ("discover", "--broadcast", where, "--wait", "0.1")
        words = alone.error(*command, code=1)
        assert words == (
            f"no directory server answered on {where} within 0.1 s: is one running, does UDP get through?"
        )
        said = json.loads(alone(*command, "-o", "json", code=1).stderr)
        assert (said["message"], said["exit_code"]) == (words, 1)


def test_several_networks_are_told_of(alone) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        one.bind((HERE, 0))
        other.bind((HERE, 0))
        asked = [f"{HERE}:{silent.getsockname()[1]}" for silent in (one, other)]
        result = alone("discover", "--broadcast", asked[0], "--broadcast", asked[1], "--wait", "0.1", code=1)
    assert result.stdout == ""
    assert result.stderr.splitlines()[:2] == [
        f"asking on {asked[0]} (1 of 2)",
        f"asking on {asked[1]} (2 of 2)",
    ]


WRONG = [
    (
        "discover --broadcast x",
        "a port from 1 to 65535, as 10.0.0.255:1801",
    ),
    ("discover --broadcast ::1", "--broadcast ::1: no IPv4 address"),
    ("discover --broadcast [::1]:7", "--broadcast [::1]:7: no IPv4 address"),
    ("discover --broadcast 10.0.0.255:", "--broadcast 10.0.0.255:: no IPv4 address"),
    ("discover --broadcast 10.0.0.255:0", "--broadcast 10.0.0.255:0: no IPv4 address"),
    ("discover --broadcast 10.0.0.255:65536", "--broadcast 10.0.0.255:65536: no IPv4 address"),
    ("discover --broadcast 10.0.0.255:1_0", "--broadcast 10.0.0.255:1_0: no IPv4 address"),
    ("discover --site Berlin", "--site: 'Berlin' is no GUID, as 7f1e5d0a-6c1b-4c58-9a53-0c6a5ff1b2c4"),
    ("discover --enterprise {", "--enterprise: '{' is no GUID, as 7f1e5d0a-6c1b-4c58-9a53-0c6a5ff1b2c4"),
    ("discover --site=", "--site: '' is no GUID, as "),
    ("discovery-server --site= --computer C", "--site: the name is empty"),
    ("discovery-server --site S --computer=", "--computer: the name is empty"),
    ("discovery-server --site S --computer C --listen here", "--listen here: no IPv4 address"),
    (
        "discovery-server --site S --computer C --listen 0.0.0.0:x",
        "with a port from 0 to 65535",
    ),
    ("discovery-server --site S --computer C --network 1", "--network: '1' is no GUID, as "),
    ("discovery-server --site S --computer C", "no server was named"),
    ("discovery-server --computer C", "Missing option '--site'"),
    ("discovery-server --site S", "Missing option '--computer'"),
    ("discover --wait 0", "Invalid value for '--wait'"),
]


@pytest.mark.parametrize(("typed", "words"), WRONG)
def test_what_is_typed_wrongly_is_told(alone, typed: str, words: str) -> None:
    assert words in alone.error(*typed.split(), code=2)


def test_more_networks_than_an_answer_holds(alone) -> None:
    networks = [word for number in range(33) for word in ("--network", str(guid_of(str(number))))]
    words = alone.error("discovery-server", "--site", "S", "--computer", "C", *networks, code=2)
    assert words == "--network is given 33 times: an answer holds 32"


def test_a_site_that_does_not_exist(cli) -> None:
    words = cli.error("discovery-server", "--site", "Atlantis", "--computer", "C", code=4)
    assert words == "there is no site 'Atlantis'; 'mqdssm list site' shows them"


def test_an_address_that_is_taken(cli, machine) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((HERE, 0))
        where = f"{HERE}:{taken.getsockname()[1]}"
        named = ("--site", machine.site, "--computer", machine.name)
        words = cli.error("discovery-server", "--listen", where, *named, code=6)
    todo = "another program listens there: end it, or use another port"
    assert words == f"cannot listen on {where}: Address already in use; {todo}"


def test_a_server_that_is_none_in_the_directory_is_told_so(cli, machine) -> None:
    environment = {**os.environ, **{name: value for name, value in cli.environment.items() if value}}
    command = [*MQDSSM, "discovery-server", "--listen", f"{HERE}:0"]
    process = start(
        [*command, "--site", machine.site, "--computer", machine.name],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.stdout.readline().endswith("; directory servers of the site: none\n")
        assert process.stderr.readline() == (
            "no queue manager of the site is a directory server: other sites get no answer\n"
        )
        process.terminate()
        assert process.wait(30) == 0
        assert process.stderr.readline() == "nobody asked\n"
    finally:
        process.kill()
        process.communicate()
