"""Addresses of other servers: the last one given counts, also after a restart (T122)."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from mqdssm.errors import ConfigError
from mqdssm.model.guid import Guid
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.server.hosts import HOSTS_MAX, HostTable

MACHINE, OTHER = UUID(int=7), UUID(int=8)
OLD, NEW, NEWEST = "10.0.0.5:1801", "10.0.0.6:1801", "10.0.0.7:1801"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hosts.json"


def started(file: Path, configured: str = OLD, pinned: UUID | None = MACHINE) -> HostTable:
    """The table of a server that has just started, with the address of PEC01 in its configuration."""
    hosts = {"PEC01": configured} if configured else {}
    return HostTable(file, hosts, {"pec01": pinned} if pinned else {}, None)


def resolved(table: HostTable, *machines: str | Guid) -> set[str]:
    """The addresses to which messages for a machine go."""
    found = {table.resolver.resolve(machine) for machine in machines}
    return {f"{host}:{port}" for ((host, port),) in found}


ALL = ("PEC01", "pec01", Guid.of(MACHINE))


def test_an_added_address_replaces_that_of_the_configuration_and_survives_a_restart(file: Path) -> None:
    table = started(file)
    assert resolved(table, *ALL) == {OLD}
    table.add("pec01", None, NEW)
    assert resolved(table, *ALL) == {NEW}
    again = started(file)
    assert resolved(again, *ALL) == {NEW}
    assert again.addresses() == {"pec01": NEW}
    again.add("Pec01", None, NEWEST)
    assert resolved(started(file), *ALL) == {NEWEST}


def test_a_configuration_that_was_changed_since_counts(file: Path) -> None:
    started(file).add("PEC01", None, NEW)
    edited = started(file, configured=NEWEST)
    assert resolved(edited, *ALL) == {NEWEST}
    assert edited.addresses() == {"pec01": NEWEST}
    started(file, configured="").add("PEC01", None, NEW)
    assert resolved(started(file, configured=""), *ALL) == {NEW}
    assert resolved(started(file), *ALL) == {OLD}, (
        "the configuration got an address after the other was added"
    )


def test_the_identifier_is_kept_when_the_address_changes(file: Path) -> None:
    table = started(file, configured="", pinned=None)
    table.add("PSC02", OTHER, OLD)
    table.add("psc02", None, NEW)
    assert resolved(table, "PSC02", Guid.of(OTHER)) == {NEW}
    assert resolved(started(file, configured="", pinned=None), "PSC02", Guid.of(OTHER)) == {NEW}
    table.add("PSC02", MACHINE, NEWEST)
    assert resolved(table, "PSC02", Guid.of(MACHINE)) == {NEWEST}
    assert json.loads(file.read_bytes())["psc02"]["id"] == str(MACHINE)


def test_the_identifier_of_a_pinned_machine_leads_to_the_added_address(file: Path) -> None:
    started(file, configured="").add("PEC01", None, NEW)
    assert resolved(started(file, configured=""), *ALL) == {NEW}


def test_a_file_of_an_earlier_version(file: Path) -> None:
    file.write_text(json.dumps({"pec01": {"address": NEW}, "psc02": {"address": NEW, "id": str(OTHER)}}))
    table = started(file)
    assert resolved(table, *ALL) == {OLD}
    assert resolved(table, Guid.of(OTHER)) == {NEW}


@pytest.mark.parametrize(
    "text",
    ["[]", "{", '{"a": 1}', '{"a": {}}', '{"a": {"address": "x:y"}}', '{"a": {"address": "a", "id": "1"}}'],
)
def test_a_damaged_file_is_refused(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError, match="cannot be used"):
        started(file)


def test_too_many_addresses_are_refused(file: Path) -> None:
    rows = {f"m{number}": {"address": OLD} for number in range(HOSTS_MAX)}
    file.write_text(json.dumps(rows))
    table = started(file)
    with pytest.raises(ConfigError, match="addresses already"):
        table.add("PSC02", None, NEW)
    table.add("m1", None, NEW)
    assert table.resolver.resolve("m1") == (SocketAddress("10.0.0.6", 1801),)
