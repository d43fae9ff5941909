"""Replicas that differ in silence are found: `mqdssm compare-replicas`."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.replication.queue_managers import guid_of
from support.replication.replica_pair import QUEUES, Pair, by_hand, delete, done, queue_dn
from support.servers.sessions import options_for
from typer.testing import CliRunner

import mqdssm
from mqdssm.cli.main import app
from mqdssm.directory.filters import Equal
from mqdssm.store.ldap import LdapStore, Owner
from mqdssm.store.ldap.replicas import DifferenceKind
from mqdssm.testing import OpenLdapServer


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        made = Pair(stack)
        made.found()
        yield made


@pytest.mark.spec("MC-MQDSRP 3.1.1.2")
def test_equal_replicas_have_no_differences(pair: Pair) -> None:
    code, differences, summary = pair.compare()
    assert (code, differences) == (0, [])
    assert summary["replicas"] == ["PEC", "PSC1"]
    assert summary["objects"] >= len(QUEUES) + 5
    assert summary["lag"] == 0


@pytest.mark.spec("MC-MQDSRP 3.1.1.2")
def test_objects_of_three_replicas_are_counted_once(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third server has received nothing yet."""
    _, _, of_two = pair.compare()
    with OpenLdapServer(durable=False, replication=True) as slapd:
        LdapStore.open(
            options_for(slapd), owner=Owner(machine_id=guid_of("PSC2"), machine_name="PSC2")
        ).close()
        monkeypatch.setitem(pair.slapds, "PSC2", slapd)
        code, differences, of_three = pair.compare()
    assert (code, differences, of_three["replicas"]) == (0, [], ["PEC", "PSC1", "PSC2"])
    assert of_three["objects"] == of_three["lag"] == of_two["objects"]


@pytest.mark.spec("MC-MQDSRP 3.1.1.2")
def test_each_plain_ldap_write_is_found(pair: Pair) -> None:
    by_owner, at_replica = pair.slapds["PEC"], pair.slapds["PSC1"]
    labels = {"mSMQLabel": [b"by hand"], "mSMQLabelEx": [b"by hand"]}
    with by_hand(by_owner) as pec, by_hand(at_replica) as psc:
        pec.modify(queue_dn(pec, "a"), labels)
        psc.modify(queue_dn(psc, "b"), labels)
        psc.delete(queue_dn(psc, "c"))
        pec.delete(queue_dn(pec, "d"))
        psc.modify(queue_dn(psc, "e"), {"mqisSeqNumber": [b"3"]})
        psc.modify(queue_dn(psc, "f"), {"mqisSeqNumber": [b"900"]})
        (tombstone,) = pec.find(
            pec.naming.configuration, Equal("mqisDeletedID", bytes(guid_of("PEC\\g"))), ["1.1"]
        )
        pec.delete(tombstone.dn)
    with mqdssm.connect(by_owner.ldapi_url, allow_replicated=True) as directory:
        made = directory.create(mqdssm.Queue(pathname="pec\\adapter"))
    code, differences, _ = pair.compare()
    assert code == 1
    found = {(one["kind"], one["object"]): one for one in differences}
    assert len(found) == len(differences)
    names = {guid_of(f"PEC\\{name}"): name for name in QUEUES}
    told = {(kind, next((n for g, n in names.items() if str(g) == guid), guid)) for kind, guid in found}
    assert told == {
        (DifferenceKind.CONTENT, "a"),
        (DifferenceKind.CONTENT, "b"),
        (DifferenceKind.MISSING, "c"),
        (DifferenceKind.MISSING, "d"),
        (DifferenceKind.NUMBER, "e"),
        (DifferenceKind.UNKNOWN, "f"),
        (DifferenceKind.MISSING, "g"),
        (DifferenceKind.UNNUMBERED, str(made)),
    }
    content = found[DifferenceKind.CONTENT, str(guid_of("PEC\\a"))]
    assert content["properties"] == ["Q_LABEL"]
    assert found[DifferenceKind.MISSING, str(guid_of("PEC\\c"))]["replicas"] == ["PEC", "PSC1"]
    assert found[DifferenceKind.MISSING, str(guid_of("PEC\\d"))]["replicas"] == ["PSC1", "PEC"]
    table = CliRunner().invoke(
        app, ["compare-replicas", by_owner.ldapi_url, at_replica.ldapi_url, "-o", "table"]
    )
    assert table.exit_code == 1
    assert "unnumbered" in table.output


@pytest.mark.spec("MC-MQDSRP 3.1.1.2")
def test_what_has_not_arrived_yet_is_lag() -> None:
    with ExitStack() as stack:
        pair = Pair(stack)
        pair.found()
        pair.enterprise.servers.pop("PSC1").stop()
        done(pair.pec.create_queue("PEC\\new", "Home"))
        delete(pair.pec, "PEC\\a")
        code, differences, summary = pair.compare()
        assert (code, differences) == (0, [])
        assert summary["lag"] == 2


def test_what_is_no_replica_is_refused(pair: Pair, tmp_path: Path) -> None:
    url = pair.slapds["PEC"].ldapi_url
    twice = CliRunner().invoke(app, ["compare-replicas", url, url])
    assert (twice.exit_code, "named once" in twice.output) == (2, True)
    alone = CliRunner().invoke(app, ["compare-replicas", url])
    assert (alone.exit_code, "two or more" in alone.output) == (2, True)
    folder = CliRunner().invoke(app, ["compare-replicas", url, str(tmp_path)])
    assert folder.exit_code == 2
    with OpenLdapServer(durable=False, replication=True) as plain:
        other = CliRunner().invoke(app, ["compare-replicas", url, plain.ldapi_url])
    assert (other.exit_code, "no replicating server" in other.output) == (2, True)
