"""Restarts in the middle of a full synchronization: what is known of it before, is known after (R220)."""

from dataclasses import replace

import pytest
from support.replication.full_synchronizations import (
    asked_in_turn,
    asked_of,
    begun_anew_with_heir,
    begun_with_other,
    part,
)
from support.replication.lone_server import AWAY, Lone, machine, numbered, site
from support.replication.lying_servers import header
from support.replication.network import guid_of
from support.store.fixtures import by_socket

from mqdssm.engines.replication.actions import Received, Resynchronize
from mqdssm.engines.replication.operations import SavePartition
from mqdssm.engines.replication.succession import GAP
from mqdssm.model.messages import Command, CompleteSync0, Scope, make_deletion_properties
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import PEC_PARTITION_ID, PurgeState, Service
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.store.ldap import LdapStore
from mqdssm.testing.openldap import OpenLdapServer


def begun_with_the_pec() -> Lone:
    """A full synchronization of Away that was to begin with Other, which was silent: the PEC sent a part."""
    server = Lone()
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.answered(machine(12, "m12", AWAY), partition_id=AWAY, from_seq_number=MIN, sender="Other")
    server.did(Resynchronize(request=1, partition_id=AWAY))
    assert asked_in_turn(server, 6)[-1] == "PEC"
    part(server, 60, "m60", after=0, sender="PEC", purged=0)
    assert server.partition(AWAY).last == 60
    return server


@pytest.mark.spec("MC-MQDSRP 3.3.7.3")
@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
@pytest.mark.parametrize("parts", [0, 1])
def test_a_full_synchronization_that_began_anew_waits_for_its_source_after_a_restart(parts) -> None:
    """Decision R220: our PSC, which lacks a deletion that we had, was asked first: the object came back."""
    server = begun_anew_with_heir()
    if parts:
        part(server, 60, "Heir", after=0, sender="PEC")
    server = server.again()
    assert (AWAY, 60 * parts, "PEC") in asked_of(server.all)
    assert asked_in_turn(server, 5) == ["PEC"] * 5
    assert asked_of(server.got(header("Boss", AWAY, last=60 + GAP), "Boss")) == []
    assert asked_in_turn(server, 2) == ["PEC", "Boss"]


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_the_first_source_is_known_after_a_restart() -> None:
    """Decision R220: the usual source may lack changes of the one that sent the first part."""
    server = begun_with_the_pec().again()
    assert asked_in_turn(server, 1) == ["Other"]
    part(server, 61, "m61", after=60, sender="Other", purged=0, is_last=True)
    assert server.partition(AWAY).purge_state is PurgeState.SYNC0
    assert asked_in_turn(server, 1) == ["PEC"]
    part(server, 62, "m62", after=61, sender="PEC", purged=0, is_last=True)
    assert server.partition(AWAY).purge_state is PurgeState.NORMAL


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_a_first_source_that_is_renamed_is_known_after_a_restart() -> None:
    """Decisions R168 and R220: its former name is in no object any more."""
    server = begun_with_other(purged=50)
    purged = SequenceNumber(50)
    named = replace(machine(61, "Other", AWAY, Service.PSC), purged_seq_number=purged)
    given = {"partition_id": AWAY, "purged_seq_number": purged, "complete_sync0": CompleteSync0.SOON}
    server.answered(named, sender="Other", **given)
    message = header("New", AWAY, last=61)
    server.did(Received(message=message, sender="New", machine_id=guid_of("machine Other")))
    assert server.partition(AWAY).first_source == "New"


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_the_first_source_of_an_older_version_is_the_usual_one() -> None:
    """Decisions R203 and R220: an older version did not persist it."""
    server = begun_with_other(purged=50)
    record = replace(server.partition(AWAY), first_source="", had_before=MIN)
    server.store.perform(SavePartition(partition=record))
    server = server.again()
    assert asked_in_turn(server, 2) == ["Other", "PEC"]
    part(server, 61, "m61", after=60, sender="PEC", is_last=True)
    assert server.partition(AWAY).purge_state is PurgeState.SYNC0
    server.fired(f"sync {AWAY}")
    part(server, 62, "m62", after=61, sender="Other", is_last=True)
    assert server.partition(AWAY).purge_state is PurgeState.NORMAL


@pytest.mark.spec("MC-MQDSRP 3.3.7.11")
def test_nothing_is_persisted_of_a_full_synchronization_that_has_ended() -> None:
    """Decision R220: the next one begins with another source, and from what we have then."""
    server = begun_with_other(purged=50)
    part(server, 61, "m61", after=60, sender="Other", is_last=True)
    server.did(Resynchronize(request=1, partition_id=AWAY))
    record = server.partition(AWAY)
    assert (record.first_source, record.had_before) == ("Other", SequenceNumber(61))
    part(server, 61, "m61", after=0, sender="Other", is_last=True)
    record = server.partition(AWAY)
    assert (record.purge_state, record.first_source, record.had_before) == (PurgeState.NORMAL, "", MIN)


@pytest.mark.server
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
@pytest.mark.spec("MC-MQDSRP 3.3.7.10")
def test_a_deleted_object_does_not_come_back_after_a_restart_on_a_directory() -> None:
    """Decisions R197 and R220, on slapd: the late copy of a change that had a deletion behind it."""
    gone = {
        "command": Command.DELETE,
        "properties": make_deletion_properties(ObjectType.CN, Scope.ENTERPRISE),
    }
    with OpenLdapServer(durable=False, replication=True) as slapd:
        with LdapStore.open(by_socket(slapd)) as store:
            server = Lone(store=store)
            server.answered(numbered(1), numbered(2, name="cn1", **gone), numbered(3))
            server.did(Resynchronize(request=1, partition_id=PEC_PARTITION_ID))
        with LdapStore.open(by_socket(slapd)) as store:
            server = Lone(store=store)
            record = server.partition()
            assert (record.purge_state, record.first_source) == (PurgeState.SYNC0, "PEC")
            server.told(numbered(1))
            assert (server.has("cn1"), server.partition().last) == (None, MIN)
            last = {"complete_sync0": CompleteSync0.NOW, "to_seq_number": SequenceNumber(3)}
            server.answered(numbered(3, 0), **last)
            record = server.partition()
            assert (record.purge_state, record.first_source) == (PurgeState.NORMAL, "")
            assert server.has("cn1") is None
            assert server.has("cn3") is not None
