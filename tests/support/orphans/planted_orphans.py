"""A small enterprise in use, and orphans that are planted into it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import mqdssm
from mqdssm.directory.filters import Present
from mqdssm.model.dn import DN, normalize
from mqdssm.pipeline.migrate.applying import ApplyOptions, apply_plan
from mqdssm.pipeline.migrate.orphan_plan import OrphanResult, find_orphans
from mqdssm.pipeline.migrate.report import MigrationReport
from mqdssm.tables import compute, places
from support.spark.engines import chosen_engine

Entries = Mapping[str, Mapping[str, Sequence[bytes]]]


@dataclass
class OrphanWorld:
    """An enterprise of two sites, a link, and two servers with queues, settings objects included.

    Attributes:
        server: the server, a test's own.
        url: by which it is reached.
        directory: connected.
        sites: their GUIDs, Berlin and Paris.
        computers: DNs of the two computers.
        managers: GUIDs of their queue managers.
        account: user and password; None: the administrator.
    """

    server: Any
    url: str
    directory: mqdssm.Directory
    sites: list[UUID] = field(default_factory=list)
    computers: list[str] = field(default_factory=list)
    managers: list[UUID] = field(default_factory=list)
    account: tuple[str, str] | None = None

    @classmethod
    def made(cls, server: Any, url: str, directory: mqdssm.Directory) -> "OrphanWorld":
        world = cls(server, url, directory)
        for name in ("Berlin", "Paris"):
            world.sites.append(directory.create(mqdssm.Site(name=name)))
        for number, name in enumerate(("web01", "web02")):
            world.computers.append(server.add_computer(name))
            site = [world.sites[number]]
            manager = mqdssm.QueueManager(
                computer_name=name, site_identifier_list=site, routing_server=True, queue_manager_quota=7
            )
            world.managers.append(directory.create(manager))
            for queue in ("orders", "paid"):
                directory.create(mqdssm.Queue(pathname=f"{name}\\{queue}", label=queue))
        directory.create(
            mqdssm.RoutingLink(
                site1_identifier=world.sites[0], site2_identifier=world.sites[1], actual_cost=2
            )
        )
        return world

    @property
    def login(self) -> dict[str, Any]:
        user, password = self.account or (self.server.user, self.server.password)
        return {"user": user, "password": password, "ca_file": self.server.ca_file}

    @property
    def root(self) -> DN:
        return self.directory.session.naming.root

    @property
    def configuration(self) -> DN:
        return self.directory.session.naming.configuration

    @property
    def enterprise(self) -> DN:
        return places.enterprise_dn(self.root, self.configuration)

    def add(self, dn: DN | str, ldap_class: str, guid: UUID | None = None, **values: Any) -> str:
        """Add an entry below the rules of MSMQ; texts, bytes, or lists of them."""
        attributes = {
            name: [raw if isinstance(raw, bytes) else str(raw).encode() for raw in _listed(given)]
            for name, given in values.items()
        }
        self.directory.session.create(dn, ldap_class, attributes, guid or uuid4())
        return normalize(str(dn))

    def container(self, name: str, parent: DN | None = None) -> DN:
        dn = (parent or self.root).child("CN", name)
        self.add(dn, "container")
        return dn

    def settings_dn(self, site: str, computer: str) -> DN:
        return places.settings_dn(self.root, site, computer)

    def settings(self, site: str, computer: str, owner: UUID | None) -> str:
        """Add a settings object with what is above it."""
        dn = self.settings_dn(site, computer)
        session = self.directory.session
        for above, ldap_class in ((dn.parent.parent, "serversContainer"), (dn.parent, "server")):
            try:
                session.get(above, ["objectClass"])
            except mqdssm.ObjectNotFound:
                self.add(above, ldap_class)
        given: dict[str, Any] = {} if owner is None else {"mSMQQMID": owner.bytes_le}
        return self.add(dn, "mSMQSettings", mSMQServices=1, mSMQRoutingService="TRUE", **given)

    def link(self, first: UUID, second: UUID, *ends: str, parent: DN | None = None) -> str:
        name = compute.link_name(first, second)
        dn = (parent or self.enterprise).child("CN", name)
        return self.add(dn, "mSMQSiteLink", mSMQSite1=ends[0], mSMQSite2=ends[1], mSMQCost=3)

    def site_dn(self, name: str) -> str:
        return str(places.site_dn(self.root, name))

    def find(self, to: Path | None = None, days: int = 0, **more: Any) -> OrphanResult:
        sure = {"reads_everything": not self.directory.session.profile.has_catalog}
        return find_orphans(self.url, to, min_age_days=days, **{**self.login, **sure, **more})

    def listed(self, **more: Any) -> dict[str, tuple[str, bool]]:
        """Rule of each object in the list, and whether a plan removes it, by normalized DN."""
        found = self.find(**more).listing
        return {normalize(one.dn): (one.rule.id, one.is_removable) for one in found.orphans}

    def apply(self, folder: Path, allow: int | None = None, **options: Any) -> MigrationReport:
        chosen = ApplyOptions(allow_deletes=allow, **options)
        return apply_plan(folder, self.url, chosen, engine=chosen_engine(), **self.login)

    def entries(self) -> dict[str, dict[str, list[bytes]]]:
        """All entries, with what a client can write."""
        found = {}
        session = self.directory.session
        for base in session.naming.guid_bases:
            for entry in session.find(base, Present("objectClass"), ["*", "nTSecurityDescriptor"]):
                found[normalize(entry.dn)] = {name: sorted(raws) for name, raws in entry.attributes.items()}
        return found


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


@dataclass(frozen=True)
class Planted:
    """Orphans that `plant` has made: normalized DN -> rule.

    Attributes:
        removable: those that a plan removes.
        listed: those that are only listed.
    """

    removable: Mapping[str, str]
    listed: Mapping[str, str]

    @property
    def everything(self) -> dict[str, tuple[str, bool]]:
        return {dn: (rule, True) for dn, rule in self.removable.items()} | {
            dn: (rule, False) for dn, rule in self.listed.items()
        }


def plant(world: OrphanWorld) -> Planted:
    """Plant an orphan of each kind; OpenLDAP lets them be made anywhere."""
    removable, listed = {}, {}
    old = world.container("web99")
    owner = uuid4()
    manager = old.child("CN", "msmq")
    removable[world.add(manager, "mSMQConfiguration", owner, mSMQQuota=5)] = "queue-manager-without-computer"
    queue = manager.child("CN", "orders")
    removable[world.add(queue, "mSMQQueue", mSMQLabelEx="Orders", mSMQQueueQuota=9)] = "queue-of-orphan"
    removable[world.add(old.child("CN", "lost"), "mSMQQueue", mSMQLabel="x")] = "queue-without-queue-manager"
    below = DN.parse(world.computers[0]).child("CN", "stray")
    removable[world.add(below, "mSMQQueue")] = "queue-without-queue-manager"
    removable[world.settings("Berlin", "web99", owner)] = "settings-without-queue-manager"
    removable[world.settings("Berlin", "web98", uuid4())] = "settings-without-queue-manager"
    stray = world.container("gone", world.configuration).child("CN", "MSMQ Settings")
    removable[world.add(stray, "mSMQSettings", mSMQQMID=world.managers[0].bytes_le)] = "settings-without-site"
    gone = uuid4()
    removable[world.link(world.sites[0], gone, world.site_dn("Berlin"), world.site_dn("Gone"))] = (
        "link-without-site"
    )
    elsewhere = world.container("links", world.configuration)
    ends = (world.site_dn("Berlin"), world.site_dn("Paris"))
    removable[world.link(world.sites[0], world.sites[1], *ends, parent=elsewhere)] = "link-without-enterprise"

    listed[world.settings("Paris", "web01", uuid4())] = "settings-of-former-queue-manager"
    listed[world.settings("Paris", "web97", None)] = "settings-without-owner"
    live = DN.parse(world.computers[1]).child("CN", "msmq")
    conflict = live.child("CN", f"orders\nCNF:{uuid4()}")
    listed[world.add(conflict, "mSMQQueue")] = "conflict-name"
    # the site was renamed, and the link's name has its GUID: OpenLDAP leaves the DN as it was
    ends = (world.site_dn("Renamed"), world.site_dn("Berlin"))
    listed[world.link(world.sites[1], world.sites[0], *ends)] = "stale-reference"
    return Planted(removable, listed)
