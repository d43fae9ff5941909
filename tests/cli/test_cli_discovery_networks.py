"""Discovery on networks of its own: a client on two of them, servers of its own and of another site on each.

The client is ``mqdssm discover`` without any address: it finds its networks itself, and broadcasts.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from support.discovery import server_process
from support.discovery.client import NETWORK_1, NETWORK_2, OTHER_SITE, OWN_SITE, THIRD_SITE, request
from support.programs.starting import MQDSSM
from support.servers.namespaces import Lan, why_not

from mqdssm.model.guid import NULL_GUID

pytestmark = pytest.mark.slow  # starts programs

WAIT_S = 1.0
LATE_S = 1.7


@dataclass
class Networks:
    """Networks a and b with hosts: the client, and on each a server of its own and one of another site."""

    lan: Lan
    stack: ExitStack

    def serve(self, host: str, **options: Any) -> None:
        """Start a server, and wait until it listens."""
        network = host[0]
        own = host.endswith("own")
        given = {
            "site": str(OWN_SITE if own else OTHER_SITE if host == "a-other" else THIRD_SITE),
            "servers": [f"{host.upper()}-1", f"{host.upper()}-2"],
            "networks": [str(NETWORK_1 if network == "a" else NETWORK_2)],
            **options,
        }
        script = server_process.__file__
        process = self.lan.start(host, [sys.executable, script, json.dumps(given)])
        self.stack.callback(_end, process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    def discover(self, *more: str, site: str = str(OWN_SITE), code: int = 0) -> dict[str, Any]:
        """What the client says: its answer, or its error."""
        command = [*MQDSSM, "discover", "--output", "json", "--site", site]
        done = self.lan.run("client", [*command, "--wait", str(WAIT_S), *more], env=_environment())
        assert done.returncode == code, done.stderr
        said: dict[str, Any] = json.loads(done.stderr if code else done.stdout)
        return said


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("MQDSSM_")}


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    process.wait(10)
    if process.stdout is not None:
        process.stdout.close()


@pytest.fixture
def networks() -> Iterator[Networks]:
    if reason := why_not():
        pytest.skip(reason)
    hosts = {
        network: ["client", f"{network}-own", f"{network}-other", f"{network}-third"] for network in "ab"
    }
    with Lan.made(hosts) as lan, ExitStack() as stack:
        yield Networks(lan, stack)


def outcome(said: dict[str, Any]) -> tuple[str, bool, list[str]]:
    return said["answered_by"], said["is_own_site"], [one["name"] for one in said["servers"]]


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_one_of_the_own_site_on_the_last_network(networks: Networks) -> None:
    networks.serve("b-own")
    said = networks.discover()
    assert outcome(said) == (networks.lan.address("b", "b-own"), True, [])
    assert said["network"] == f"{networks.lan.broadcast('b')}:1801"
    assert said["site"] == str(OWN_SITE)
    assert said["connected_networks"] == [str(NETWORK_2)]


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_one_of_the_own_site_on_the_first_network_and_another_on_the_last(networks: Networks) -> None:
    networks.serve("a-own", twice=True)
    networks.serve("b-other")
    said = networks.discover()
    assert outcome(said) == (networks.lan.address("b", "b-other"), False, ["B-OTHER-1", "B-OTHER-2"])
    assert said["own_site_server"] == networks.lan.address("a", "a-own")
    assert said["connected_networks"] == [str(NETWORK_2)]


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_the_own_site_is_waited_for_while_only_one_other_has_answered(networks: Networks) -> None:
    networks.serve("a-other")
    networks.serve("a-own", late_s=WAIT_S / 2)
    said = networks.discover()
    assert outcome(said) == (networks.lan.address("a", "a-other"), False, ["A-OTHER-1", "A-OTHER-2"])
    assert said["own_site_server"] == networks.lan.address("a", "a-own")


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_a_list_on_the_first_network_counts_more_than_the_own_site_on_the_last(networks: Networks) -> None:
    """Decision S2."""
    networks.serve("a-other")
    networks.serve("b-own")
    said = networks.discover()
    assert outcome(said) == (networks.lan.address("a", "a-other"), False, ["A-OTHER-1", "A-OTHER-2"])
    assert said["own_site_server"] == networks.lan.address("b", "b-own")


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_two_of_other_sites_end_the_wait(networks: Networks) -> None:
    networks.serve("a-other")
    networks.serve("a-third")
    networks.serve("b-other")
    networks.serve("b-third")
    begin = time.monotonic()
    by, own, servers = outcome(networks.discover("--wait", "30"))
    assert time.monotonic() - begin < 25
    names = {networks.lan.address("a", host): host.upper() for host in ("a-other", "a-third")}
    assert not own
    assert servers == [f"{names[by]}-1", f"{names[by]}-2"]


@pytest.mark.spec("MS-MQSD 3.1.6.1")
def test_another_site_on_the_first_network_and_silence_on_the_last(networks: Networks) -> None:
    """Decision S2: the list is not lost."""
    networks.serve("a-other")
    said = networks.discover()
    assert outcome(said) == (networks.lan.address("a", "a-other"), False, ["A-OTHER-1", "A-OTHER-2"])
    assert said["site"] == str(OTHER_SITE)


@pytest.mark.spec("MS-MQSD 3.1.6.1")
def test_silence_on_the_first_network_and_another_site_on_the_last(networks: Networks) -> None:
    networks.serve("b-other")
    by, _, servers = outcome(networks.discover())
    assert (by, servers) == (networks.lan.address("b", "b-other"), ["B-OTHER-1", "B-OTHER-2"])


@pytest.mark.spec("MS-MQSD 3.1.6.1")
def test_lost_packets_are_silence(networks: Networks) -> None:
    networks.serve("a-own")
    networks.serve("b-other")
    networks.lan.cut("a", "a-own")
    assert outcome(networks.discover())[0] == networks.lan.address("b", "b-other")
    networks.lan.cut("b", "b-other")
    said = networks.discover(code=1)
    assert said["exit_code"] == 1
    assert said["message"].startswith(
        f"no directory server answered on {networks.lan.broadcast('a')}:1801, "
        f"{networks.lan.broadcast('b')}:1801 within 1 s"
    )


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_wrong_correlation_ids_are_silence(networks: Networks) -> None:
    networks.serve("a-own", wrong_id=True)
    networks.serve("b-other")
    assert outcome(networks.discover())[0] == networks.lan.address("b", "b-other")


@pytest.mark.spec("MS-MQSD 3.1.5.2")
def test_late_replies_are_silence(networks: Networks) -> None:
    networks.serve("a-own", late_s=LATE_S)
    networks.serve("b-other")
    assert outcome(networks.discover())[0] == networks.lan.address("b", "b-other")


@pytest.mark.spec("MS-MQSD 3.2.5.1")
def test_of_no_site_every_server_tells_its_list(networks: Networks) -> None:
    networks.serve("a-own")
    said = networks.discover("--broadcast", networks.lan.broadcast("a"), site=str(NULL_GUID))
    assert outcome(said) == (networks.lan.address("a", "a-own"), False, ["A-OWN-1", "A-OWN-2"])


@pytest.mark.spec("MS-MQSD 3.2.3")
def test_a_server_can_be_asked_by_its_own_address(networks: Networks) -> None:
    networks.serve("a-own")
    said = networks.discover("--broadcast", networks.lan.address("a", "a-own"))
    assert outcome(said) == (networks.lan.address("a", "a-own"), True, [])


@pytest.mark.spec("MS-MQSD 3.1.4.1")
def test_a_network_whose_broadcast_address_nobody_set_is_asked(networks: Networks) -> None:
    """Decision S18: `ip address add` sets none, and packets to all are delivered nevertheless."""
    lan = networks.lan
    lan.ip("client", "address", "flush", "dev", "net-a")
    lan.ip("client", "address", "add", f"{lan.address('a', 'client')}/24", "dev", "net-a")
    networks.serve("a-own")
    assert outcome(networks.discover()) == (lan.address("a", "a-own"), True, [])


@pytest.mark.spec("MS-MQSD 3.1.4.1")
@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("10.80.0.1/24", ["10.80.0.255:1801 0"]),
        ("10.80.0.1/30", ["10.80.0.3:1801 0"]),
        ("10.80.0.0/31", ["10.80.0.1:1801 0"]),
        ("10.80.0.1/31", ["10.80.0.0:1801 0"]),
        ("10.80.0.1/32", []),
        ("10.80.0.1/32 broadcast 10.80.0.1", []),
        ("10.80.0.1/17 broadcast 10.80.0.0", ["10.80.0.0:1801 0"]),
        ("10.80.0.1/24 broadcast 255.255.255.255", ["10.80.0.255:1801 0"]),
    ],
)
def test_networks_with_odd_masks_and_broadcast_addresses(networks: Networks, address: str, told: list[str]):
    """Decision S18."""
    networks.lan.ip("client", "address", "flush", "dev", "net-a")
    networks.lan.ip("client", "address", "add", *address.split(), "dev", "net-a")
    assert known_to_client(networks) == sorted([*told, "10.77.2.255:1801 0"])


def known_to_client(networks: Networks) -> list[str]:
    """The networks that the client finds, each with whether it is one of remote access."""
    code = (
        "from mqdssm.drivers.discovery.interfaces import list_networks\n"
        "for one in list_networks(): print(one, int(one.remote_access))"
    )
    told = networks.lan.run("client", [sys.executable, "-c", code], env=_environment())
    return sorted(told.stdout.splitlines())


@pytest.mark.spec("MS-MQSD 3.1.4.1")
def test_all_networks_of_a_computer_are_known(networks: Networks) -> None:
    """With a second address on one, an interface that is down, and a tunnel: that is remote access."""
    lan = networks.lan
    lan.ip("client", "address", "add", "10.77.1.77/24", "broadcast", "+", "dev", "net-a")
    lan.ip("client", "link", "set", "dev", "lo", "up")
    lan.ip("client", "link", "add", "name", "down0", "type", "veth")
    lan.ip("client", "address", "add", "10.78.0.1/24", "broadcast", "+", "dev", "down0")
    try:
        lan.ip("client", "tuntap", "add", "dev", "ras0", "mode", "tun")
    except OSError as error:
        pytest.skip(f"this kernel or container has no tunnels: {error}")
    lan.ip("client", "address", "add", "10.79.0.1", "peer", "10.79.0.2", "dev", "ras0")
    lan.ip("client", "link", "set", "dev", "ras0", "up")
    lan.ip("client", "tuntap", "add", "dev", "ras1", "mode", "tun")
    lan.ip("client", "address", "add", "10.90.0.1/24", "dev", "ras1")  # into a whole network
    lan.ip("client", "link", "set", "dev", "ras1", "up")
    told = known_to_client(networks)
    assert told == ["10.77.1.255:1801 0", "10.77.2.255:1801 0", "10.79.0.2:1801 1", "10.90.0.255:1801 1"]


@pytest.mark.spec("MS-MQSD 5.1")
@pytest.mark.parametrize(
    ("options", "answered"),
    [
        ({}, {"10.77.1.1", "10.77.2.1"}),
        ({"allow_from": ["10.99.0.0/24"]}, {"10.77.1.1", "10.77.2.1", "10.99.0.1"}),
        ({"listen": "10.77.1.2"}, {"10.77.1.1"}),
    ],
)
def test_a_server_answers_the_networks_that_it_is_connected_to(
    networks: Networks, options: dict[str, Any], answered: set[str]
) -> None:
    """Decision S19: by default no others; of a server with two networks those that it listens on."""
    lan = networks.lan
    lan.ip("client", "address", "add", "10.99.0.1/32", "dev", "net-a")
    lan.ip("a-own", "link", "add", "name", "net-b", "type", "veth", "peer", "name", "end")
    lan.ip("a-own", "link", "set", "dev", "end", "up")
    lan.ip("a-own", "address", "add", "10.77.2.2/24", "dev", "net-b")
    lan.ip("a-own", "link", "set", "dev", "net-b", "up")
    # what the server sends goes out on the network that the client is on
    for source in ("10.77.2.1", "10.99.0.1"):
        lan.ip("a-own", "route", "add", f"{source}/32", "dev", "net-a", "src", "10.77.1.2")
    networks.serve("a-own", **options)
    assert {source for source in ASKERS if _is_answered(lan, source)} == answered


ASKERS = ("10.77.1.1", "10.77.2.1", "10.99.0.1")


def _is_answered(lan: Lan, source: str) -> bool:
    code = (
        "import socket, sys\n"
        "asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "asking.bind((sys.argv[1], 0))\n"
        "asking.settimeout(1)\n"
        "asking.sendto(bytes.fromhex(sys.argv[3]), (sys.argv[2], 1801))\n"
        "try: print(len(asking.recv(2048)))\n"
        "except TimeoutError: pass"
    )
    asked = [sys.executable, "-c", code, source, lan.address("a", "a-own"), request().hex()]
    done = lan.run("client", asked)
    assert done.returncode == 0, done.stderr
    return bool(done.stdout)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("10.80.0.1/24", "10.80.0.0/24"),
        ("10.80.0.1/31", "10.80.0.0/31"),
        ("10.80.0.1/32", "10.80.0.1/32"),
        ("10.80.0.1/17 broadcast 10.80.0.0", "10.80.0.0/17"),
        ("10.80.0.1 peer 10.81.0.2/32", "10.80.0.1/32"),
    ],
)
def test_on_link_networks_with_odd_masks(networks: Networks, address: str, told: str) -> None:
    """Decision S19; an interface that is down is on no network."""
    lan = networks.lan
    lan.ip("client", "address", "flush", "dev", "net-a")
    lan.ip("client", "address", "add", *address.split(), "dev", "net-a")
    lan.ip("client", "address", "add", "10.82.0.1/24", "dev", "net-a", "label", "net-a:2")
    lan.ip("client", "link", "add", "name", "down0", "type", "veth")
    lan.ip("client", "address", "add", "10.83.0.1/24", "dev", "down0")
    code = (
        "from mqdssm.drivers.discovery.interfaces import on_link_networks\n"
        "for network in on_link_networks(): print(network)"
    )
    shown = lan.run("client", [sys.executable, "-c", code], env=_environment()).stdout
    assert sorted(shown.split()) == sorted([told, "10.82.0.0/24", "10.77.2.0/24"])
