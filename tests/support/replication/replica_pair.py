"""Two directory servers with a slapd each, and plain LDAP writes beside them."""

import json
from contextlib import ExitStack
from typing import Any

from typer.testing import CliRunner

from mqdssm.cli.main import app
from mqdssm.directory.filters import Equal
from mqdssm.directory.session import Session
from mqdssm.engines.replication.settings import Role
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.store.ldap import LdapStore, Owner
from mqdssm.testing import OpenLdapServer
from support.replication.live_servers import Enterprise, LiveServer, site_of
from support.replication.queue_managers import guid_of, wait_until
from support.servers.sessions import options_for

HOME, AWAY = site_of("Home"), site_of("Away")
QUEUES = tuple("abcdefg")


class Pair:
    """A PEC and the PSC of another site, each with a slapd.

    Args:
        stack: ends all of it.
        foreign_s: how often they look for changes of other programs; 0: never.
    """

    def __init__(self, stack: ExitStack, foreign_s: float = 0.0) -> None:
        self._stack = stack
        self.tuning = {"foreign_s": foreign_s}
        self.slapds: dict[str, OpenLdapServer] = {}
        self.enterprise = Enterprise()
        self.stores: dict[str, LdapStore] = {}
        for name in ("PEC", "PSC1"):
            slapd = stack.enter_context(OpenLdapServer(durable=False, replication=True))
            self.slapds[name] = slapd
            self.open_store(name)
        stack.callback(self.enterprise.close)
        self.pec = self.start_pec()

    def open_store(self, name: str) -> None:
        """Open the store of a server, as after the end of its process."""
        owner = Owner(machine_id=guid_of(name), machine_name=name)
        store = LdapStore.open(options_for(self.slapds[name]), owner=owner)
        self.stores[name] = self._stack.enter_context(store)

    def start_pec(self) -> LiveServer:
        return self.enterprise.server("PEC", Role.PEC, "Home", store=self.stores["PEC"], tuning=self.tuning)

    def start_psc(self) -> LiveServer:
        return self.enterprise.server("PSC1", Role.PSC, "Away", store=self.stores["PSC1"], tuning=self.tuning)

    def found(self) -> None:
        properties = ((Propid.E_NAME, "Fabrikam"), (Propid.E_PECNAME, "PEC"))
        enterprise = guid_of("enterprise")
        done(self.pec.create(ObjectType.ENTERPRISE, "Fabrikam", PEC_PARTITION_ID, enterprise, properties))
        done(self.pec.create_site("Home", "PEC"))
        done(self.pec.create_site("Away", "PSC1"))
        done(self.pec.create_machine("PEC", "Home", Service.PEC))
        self.psc = self.start_psc()
        wait_until(lambda: "became the authority" in self.psc.driver.counts.copy(), 60)
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
