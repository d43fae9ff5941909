"""``mqdssm inventory --add``, ``exposure`` and ``rights`` on a domain controller."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.enterprises import machine_files as made
from support.servers.ad_world import Domain
from support.servers.samba_tools import SambaTools
from support.watching.kinds import KINDS, Kind

import mqdssm
from mqdssm.events.facade import Directory
from mqdssm.testing import SambaDomainController


@pytest.fixture
def kind() -> Kind:
    return KINDS["samba"]


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


def records(text: str, kind_of_record: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [line for line in lines if line["record"] == kind_of_record]


def test_machines_and_their_rights(cli, domain, tmp_path: Path) -> None:
    name, guid = domain.queue_manager()
    domain.directory.create(mqdssm.Queue(pathname=f"{name}\\orders"))
    domain.directory.session.modify(
        f"CN={name},CN=Computers,{domain.root}",
        {
            "operatingSystem": [b"Windows Server 2012 R2 Standard"],
            "operatingSystemVersion": [b"6.3 (9600)"],
        },
    )
    queues = (made.queue("orders", MessageCount=3), made.queue("private$\\retry", MessageCount=4))
    state = made.state(name, *queues, Identifier=str(guid), DnsHostName=None)
    (tmp_path / "machine.xml").write_bytes(made.as_clixml(state))
    shown = cli("inventory", "--add", str(tmp_path / "machine.xml"), "-o", "json").stdout
    (machine,) = [one for one in records(shown, "machine-state") if one["ComputerName"] == name]
    assert (machine["State"], machine["MatchedBy"], machine["Messages"]) == (
        "answered",
        "computer name and GUID",
        7,
    )
    states = {
        one["Name"]: one["State"]
        for one in records(shown, "queue-state")
        if one["Machine"].casefold() == name.casefold()
    }
    assert states == {"orders": "directory and machine", "private$\\retry": "machine"}

    (exposed,) = [
        one for one in records(cli("exposure", "-o", "json").stdout, "machine") if one["ComputerName"] == name
    ]
    assert (exposed["Support"], exposed["SupportEnds"]) == ("ended", "2023-10-10")
    assert {"rule": "support-ended", "points": 30, "objects": 1, "examples": []} in exposed["Findings"]

    answer = cli.json("rights", "queue", f"{name}\\orders", "--right", "Send")
    senders = {one["account"]: one["rights"]["Send"] for one in answer["accounts"]}
    assert senders["Administrator"] == "a member of Domain Admins"
    assert senders["Enterprise Admins"] == "an entry for the account (inherited)"
    assert "Everyone" not in senders  # Active Directory's own default lets nobody else send
    of_administrator = cli.json("rights", "queue", f"{name}\\orders", "--of", "Administrator")
    assert {"Send", "Receive", "Delete"} <= set(of_administrator[0]["rights"])
