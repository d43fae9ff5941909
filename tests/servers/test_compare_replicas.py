"""Replicas that differ in silence are found: `mqdssm compare-replicas`."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from live_servers import Enterprise, LiveServer, site_of
from queue_managers import guid_of, wait_until
from sessions import options_for
from typer.testing import CliRunner

import mqdssm
from mqdssm.cli.main import app
from mqdssm.directory.filters import Equal
from mqdssm.directory.session import Session
from mqdssm.engines.replication.settings import Role
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.store.ldap import LdapStore, Owner
from mqdssm.store.ldap.replicas import Kind
from mqdssm.testing import OpenLdapServer

HOME, AWAY = site_of("Home"), site_of("Away")
QUEUES = tuple("abcdefg")


class Pair:
    """A PEC and the PSC of another site, each with a slapd."""

    def __init__(self, stack: ExitStack) -> None:
        self.slapds = {}
        self.enterprise = Enterprise()
        self.stores = {}
        for name in ("PEC", "PSC1"):
            slapd = stack.enter_context(OpenLdapServer(durable=False, replication=True))
            owner = Owner(machine_id=guid_of(name), machine_name=name)
            self.slapds[name] = slapd
            self.stores[name] = stack.enter_context(LdapStore.open(options_for(slapd), owner=owner))
        stack.callback(self.enterprise.close)
        self.pec = self.enterprise.server("PEC", Role.PEC, "Home", store=self.stores["PEC"])

    def found(self) -> None:
        properties = ((Propid.E_NAME, "Fabrikam"), (Propid.E_PECNAME, "PEC"))
        enterprise = guid_of("enterprise")
        done(self.pec.create(ObjectType.ENTERPRISE, "Fabrikam", PEC_PARTITION_ID, enterprise, properties))
        done(self.pec.create_site("Home", "PEC"))
        done(self.pec.create_site("Away", "PSC1"))
        done(self.pec.create_machine("PEC", "Home", Service.PEC))
        self.psc = self.enterprise.server("PSC1", Role.PSC, "Away", store=self.stores["PSC1"])
        wait_until(lambda: "became the authority" in self.psc.driver.counts.seen(), 60)
        done(self.psc.create_machine("PSC1", "Away", Service.PSC))
        for name in QUEUES:
            done(self.pec.create_queue(f"PEC\\{name}", "Home"))
        delete(self.pec, "PEC\\g")
        done(self.pec.create_queue("PEC\\last", "Home"))
        self.settle()

    def settle(self) -> None:
        for partition in (PEC_PARTITION_ID, HOME, AWAY):
            self.enterprise.wait_equal("PEC", "PSC1", partition_id=partition)

    def compare(self) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
        urls = [slapd.ldapi_url for slapd in self.slapds.values()]
        result = CliRunner().invoke(app, ["compare-replicas", *urls, "-o", "json"])
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        assert lines, result.output
        return result.exit_code, lines[:-1], lines[-1]


def done(outcome) -> None:
    assert outcome.status == 0, hex(outcome.status)


def delete(server: LiveServer, path: str) -> None:
    done(
        server.driver.change(
            command=Command.DELETE, object_type=ObjectType.QUEUE, identifier=guid_of(path), partition_id=HOME
        )
    )


def queue_dn(session: Session, name: str) -> str:
    (found,) = session.find(session.naming.root, Equal("cn", name.encode()), ["1.1"])
    return found.dn


def by_hand(slapd: OpenLdapServer) -> Session:
    return Session.open(options_for(slapd, allow_replicated=True))


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
        (grave,) = pec.find(
            pec.naming.configuration, Equal("mqisDeletedID", bytes(guid_of("PEC\\g"))), ["1.1"]
        )
        pec.delete(grave.dn)
    with mqdssm.connect(by_owner.ldapi_url, allow_replicated=True) as directory:
        made = directory.create(mqdssm.Queue(pathname="pec\\adapter"))
    code, differences, _ = pair.compare()
    assert code == 1
    found = {(one["kind"], one["object"]): one for one in differences}
    assert len(found) == len(differences)
    names = {guid_of(f"PEC\\{name}"): name for name in QUEUES}
    told = {(kind, next((n for g, n in names.items() if str(g) == guid), guid)) for kind, guid in found}
    assert told == {
        (Kind.CONTENT, "a"),
        (Kind.CONTENT, "b"),
        (Kind.MISSING, "c"),
        (Kind.MISSING, "d"),
        (Kind.NUMBER, "e"),
        (Kind.UNKNOWN, "f"),
        (Kind.MISSING, "g"),
        (Kind.UNNUMBERED, str(made)),
    }
    content = found[Kind.CONTENT, str(guid_of("PEC\\a"))]
    assert content["properties"] == ["Q_LABEL"]
    assert found[Kind.MISSING, str(guid_of("PEC\\c"))]["replicas"] == ["PEC", "PSC1"]
    assert found[Kind.MISSING, str(guid_of("PEC\\d"))]["replicas"] == ["PSC1", "PEC"]
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
