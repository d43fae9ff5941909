"""Backup and restore of a directory server, by the commands of docs/backup.md."""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.project.source_tree import ROOT
from support.replication.live_servers import Enterprise, LiveServer, site_of
from support.replication.queue_managers import guid_of, wait_until
from support.servers.sessions import options_for

from mqdssm.engines.replication.operations import LoadState, PersistedState, Recover
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.store.ldap import LdapStore, Owner
from mqdssm.testing import OpenLdapServer
from mqdssm.testing.openldap_config import PLACES_OF_PROGRAMS
from mqdssm.testing.simulation.stores import look_up_everything

PAGE = ROOT / "docs" / "backup.md"
HOME, AWAY = site_of("Home"), site_of("Away")
PARTITIONS = (PEC_PARTITION_ID, HOME, AWAY)


def command_of_page(program: str) -> str:
    """Return the block of the page that has a program in it."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if program in block]
    return found


def run_command(program: str, folder: Path, files: Path) -> None:
    """Run a block of the page for the slapd of a folder."""
    script = command_of_page(program)
    assert "/etc/ldap/slapd.conf" in script
    script = script.replace("/etc/ldap/slapd.conf", str(folder / "conf" / "slapd.conf"))
    path = ":".join(("/usr/bin", "/bin", *PLACES_OF_PROGRAMS))
    ran = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=files,
        env={"PATH": path, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def restored_folder(folder: Path, files: Path) -> Path:
    """Make the folder of a new slapd, and load the backup into it as the page says."""
    with OpenLdapServer(folder, durable=False, replication=True):
        pass
    for old in (folder / "db").iterdir():
        old.unlink()
    run_command("slapadd", folder, files)
    return folder


def store_of(name: str, server: OpenLdapServer) -> LdapStore:
    owner = Owner(machine_id=guid_of(name), machine_name=name)
    return LdapStore.open(options_for(server), owner=owner)


def done(outcome) -> None:
    assert outcome.status == 0, hex(outcome.status)


def delete_queue(server: LiveServer, path: str) -> None:
    changed = server.driver.change(
        command=Command.DELETE, object_type=ObjectType.QUEUE, identifier=guid_of(path), partition_id=AWAY
    )
    done(changed)


@pytest.fixture
def enterprise(tmp_path: Path) -> Iterator[tuple[Enterprise, Path]]:
    """A PEC in memory, and the PSC of another site on a slapd, with objects and a deleted one."""
    folder = tmp_path / "old"
    with ExitStack() as stack:
        slapd = stack.enter_context(OpenLdapServer(folder, durable=False, replication=True))
        store = stack.enter_context(store_of("PSC1", slapd))
        made = Enterprise()
        stack.callback(made.close)
        pec = made.server("PEC", Role.PEC, "Home")
        properties = ((Propid.E_NAME, "Fabrikam"), (Propid.E_PECNAME, "PEC"))
        done(
            pec.create(ObjectType.ENTERPRISE, "Fabrikam", PEC_PARTITION_ID, guid_of("enterprise"), properties)
        )
        done(pec.create_site("Home", "PEC"))
        done(pec.create_site("Away", "PSC1"))
        done(pec.create_machine("PEC", "Home", Service.PEC))
        psc = made.server("PSC1", Role.PSC, "Away", store=store)
        wait_until(lambda: "became the authority" in psc.driver.counts.copy(), 60)
        done(psc.create_machine("PSC1", "Away", Service.PSC))
        for name in ("kept", "deleted"):
            done(psc.create_queue(f"PSC1\\{name}", "Away"))
        delete_queue(psc, "PSC1\\deleted")
        for partition in PARTITIONS:
            made.wait_equal("PEC", "PSC1", partition_id=partition)
        yield made, folder


def contents(perform: Callable[[Any], Any]) -> tuple[object, ...]:
    """Return objects, tombstones, their numbers and the state of the protocol."""
    state: PersistedState = perform(LoadState())
    changes = tuple(perform(look_up_everything(partition)).changes for partition in PARTITIONS)
    highest = tuple(perform(Recover(partition_id=partition)) for partition in PARTITIONS)
    return frozenset(state.partitions), frozenset(state.neighbors), changes, highest


def test_a_restored_directory_is_equal_and_its_server_goes_on(
    enterprise: tuple[Enterprise, Path], tmp_path: Path
) -> None:
    servers, old = enterprise
    run_command("slapcat", old, tmp_path)  # while everything works
    backup = tmp_path / "mqis-backup.ldif"
    assert backup.stat().st_mode & 0o777 == 0o600
    pec, psc = servers.servers["PEC"], servers.servers.pop("PSC1")
    now = contents(psc.store.lookup)
    assert {guid_of("PSC1\\kept"), guid_of("PSC1\\deleted")} <= {one[0] for one in psc.content(AWAY)}
    new = restored_folder(tmp_path / "new", tmp_path)
    with ExitStack() as stack:
        slapd = stack.enter_context(OpenLdapServer(new, durable=False, replication=True))
        with store_of("PSC1", slapd) as store:
            assert contents(store.perform) == now
        with pytest.raises(ConfigError, match="PSC1"):
            store_of("PSC2", slapd)
        # after the backup: changes that the PEC has, and the old directory is lost
        done(psc.create_queue("PSC1\\later", "Away"))
        delete_queue(psc, "PSC1\\kept")
        wait_until(lambda: pec.content(AWAY) == psc.content(AWAY))
        before = pec.content(AWAY)
        psc.stop()
        store = stack.enter_context(store_of("PSC1", slapd))
        again = servers.server("PSC1", Role.PSC, "Away", store=store, tuning={"restored": True})
        stack.callback(again.stop)
        wait_until(lambda: again.content(AWAY) == before, 60)
        wait_until(lambda: again.create_queue("PSC1\\after", "Away").status == 0, 60)
        for partition in PARTITIONS:
            servers.wait_equal("PEC", "PSC1", partition_id=partition)
        assert again.queue("PSC1\\later").status == 0
        assert again.queue("PSC1\\kept").status != 0
        numbers = [one[1] for one in again.content(AWAY)]
        assert len(set(numbers)) == len(numbers)
        servers.servers.pop("PSC1")
