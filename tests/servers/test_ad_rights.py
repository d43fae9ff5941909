"""The table of rights, row by row: an account with exactly these succeeds, with one less it is told which."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from support.servers.ad_world import Domain
from support.servers.samba_tools import SambaTools
from support.wire.certificates import registered

import mqdssm
from mqdssm.diagnostics.event_rights import RightsChecker
from mqdssm.diagnostics.sample_objects import Samples
from mqdssm.events.facade import Directory
from mqdssm.model.dn import DN
from mqdssm.tables import rights
from mqdssm.tables.rights import Event, Need, Where
from mqdssm.testing import SambaDomainController
from mqdssm.wire.acl import Ace, AceFlags, allow, allow_object
from mqdssm.wire.dtyp import SecurityDescriptor, Sid
from mqdssm.wire.masks import DescriptorControl, QueueAccess

ADMINISTRATORS = Sid("S-1-5-32-544")
SYSTEM = Sid("S-1-5-18")
FULL = 0xF01FF
DESCRIPTOR = "nTSecurityDescriptor"
INHERITED_ONLY = int(AceFlags.CONTAINER_INHERIT | AceFlags.INHERIT_ONLY)
KEYS = bytes(registered("rights"))
LIST = bytes(
    SecurityDescriptor.build(dacl=[allow(Sid("S-1-1-0"), QueueAccess.GENERIC_READ), allow(SYSTEM, 0xF003F)])
)

Places = Mapping[Where, tuple[str, ...]]


@dataclass
class Scenario:
    """An event on objects that were made for it.

    Attributes:
        places: where rights are needed; a place that does not exist yet inherits from the site.
        act: the event.
        hidden: objects that only administrators may look at.
    """

    places: Places
    act: Callable[[Directory], object]
    hidden: tuple[str, ...] = ()


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


# -- descriptors


def dacl(domain: Domain, dn: str) -> SecurityDescriptor:
    image = domain.directory.session.get(dn, [DESCRIPTOR]).first(DESCRIPTOR)
    assert image
    return SecurityDescriptor.from_bytes(image)


def set_dacl(domain: Domain, dn: str, aces: tuple[Ace, ...], control: int) -> None:
    control &= DescriptorControl.DACL_PROTECTED
    image = bytes(SecurityDescriptor.build(dacl=aces, control=control))
    domain.directory.session.modify(dn, {DESCRIPTOR: [image]})


@contextmanager
def granted(domain: Domain, scenario: Scenario, needs: list[Need], sid: Sid) -> Iterator[None]:
    """Give exactly what is needed, and take it back."""
    before: dict[str, SecurityDescriptor] = {}
    wanted: dict[str, list[Ace]] = {dn: [] for dn in scenario.hidden}
    for need in needs:
        for dn in scenario.places[need.where]:
            below = dn
            while not exists(domain, below):
                below = below.partition(",")[2]
            flags = 0 if below == dn else INHERITED_ONLY
            wanted.setdefault(below, []).append(
                allow_object(sid, need.right.mask, need.object_type, flags=flags)
                if need.object_type
                else allow(sid, need.right.mask, flags)
            )
    for dn, aces in wanted.items():
        before[dn] = dacl(domain, dn)
        kept, control = before[dn].explicit_aces(), before[dn].control
        if dn in scenario.hidden:
            kept = (allow(ADMINISTRATORS, FULL), allow(SYSTEM, FULL))
            control = int(DescriptorControl.DACL_PROTECTED)
        set_dacl(domain, dn, (*kept, *aces), control)
    try:
        yield
    finally:
        for dn, descriptor in before.items():
            if exists(domain, dn):
                set_dacl(domain, dn, descriptor.explicit_aces(), descriptor.control)


def exists(domain: Domain, dn: str) -> bool:
    try:
        domain.directory.session.get(dn, ["1.1"])
    except mqdssm.ObjectNotFound:
        return False
    return True


def lacking(
    domain: Domain, directory: Directory, scenario: Scenario, element: str, event: Event
) -> list[str]:
    """What ``mqdssm doctor`` says is missing, on these very objects."""
    chosen = {}
    for need in rights.needs_of(element, event):
        dn = scenario.places[need.where][0]
        chosen[need.holder] = DN.parse(dn) if exists(domain, dn) else None
    judge = RightsChecker(directory.session, Samples(directory.session, chosen=chosen))
    return [one.missing for one in judge.judge_event(element, event) if one.missing]


# -- scenarios


class Maker:
    """Makes the objects of one event; everything is new each time."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        naming = domain.directory.session.naming
        self.sites = f"CN=Sites,{naming.configuration}"
        self.services = f"CN=MsmqServices,CN=Services,{naming.configuration}"

    def site(self) -> tuple[UUID, str]:
        name = self.domain.name("S")
        return self.domain.directory.create(mqdssm.Site(name=name)), f"CN={name},{self.sites}"

    def computer(self, name: str) -> str:
        return f"CN={name},CN=Computers,{self.domain.root}"

    def queue_manager(self, event: Event) -> Scenario:
        domain, (old, old_dn), (stays, stays_dn) = self.domain, self.site(), self.site()
        if event is Event.CREATE:
            name = domain.machine()
            manager = mqdssm.QueueManager(
                computer_name=name,
                site_identifier_list=(old,),
                routing_server=True,
                public_signing_key_list=KEYS,
            )
            below = f"CN=Servers,{old_dn}"
            places: dict[Where, tuple[str, ...]] = {
                Where.PARENT: (self.computer(name),),
                Where.SERVER: (f"CN={name},{below}",),
                Where.SERVERS: (below,),
                Where.SITE: (old_dn,),
            }
            return Scenario(places, lambda d: d.create(manager))
        name, guid = domain.queue_manager(site_identifier_list=[old, stays], routing_server=True)
        computer = self.computer(name)
        servers = [f"CN={name},CN=Servers,{dn}" for dn in (old_dn, stays_dn)]
        settings = tuple(f"CN=MSMQ Settings,{dn}" for dn in servers)
        places = {
            Where.OBJECT: (f"CN=msmq,{computer}",),
            Where.PARENT: (computer,),
            Where.SETTINGS: settings,
            Where.SERVER: tuple(servers),
        }
        if event is Event.DELETE:
            return Scenario(places, lambda d: d.delete(mqdssm.QueueManager(identifier=guid)))
        if event is Event.READ:
            names = ["Identifier", "QueueManagerVersion", "QualifiedComputerName"]
            hidden = (f"CN=msmq,{computer}", computer)
            return Scenario(places, lambda d: d.read(mqdssm.QueueManager, by(guid), attributes=names), hidden)
        new, new_dn = self.site()
        written = mqdssm.QueueManager(
            identifier=guid,
            site_identifier_list=(stays, new),
            supporting_server=True,
            public_signing_key_list=KEYS,
            security=LIST,
        )
        places |= {
            Where.SERVER: (*servers, f"CN={name},CN=Servers,{new_dn}"),
            Where.SERVERS: (f"CN=Servers,{new_dn}",),
            Where.SITE: (new_dn,),
        }
        return Scenario(places, lambda d: d.write(written))

    def queue(self, event: Event) -> Scenario:
        name, _ = self.domain.queue_manager()
        parent = f"CN=msmq,{self.computer(name)}"
        queue = mqdssm.Queue(pathname=rf"{name}\q", label="a")
        if event is Event.CREATE:
            return Scenario({Where.PARENT: (parent,)}, lambda d: d.create(queue))
        guid = self.domain.directory.create(queue)
        written = mqdssm.Queue(identifier=guid, label="b", security=LIST)
        return self.kept(event, guid, f"CN=q,{parent}", parent, written)

    def site_element(self, event: Event) -> Scenario:
        name = self.domain.name("S")
        if event is Event.CREATE:
            return Scenario({Where.PARENT: (self.sites,)}, lambda d: d.create(mqdssm.Site(name=name)))
        guid = self.domain.directory.create(mqdssm.Site(name=name))
        written = mqdssm.Site(identifier=guid, intra_site_replication_interval=9, security=LIST)
        return self.kept(event, guid, f"CN={name},{self.sites}", self.sites, written)

    def link(self, event: Event) -> Scenario:
        (one, _), (two, _) = self.site(), self.site()
        link = mqdssm.RoutingLink(site1_identifier=one, site2_identifier=two, actual_cost=1)
        if event is Event.CREATE:
            return Scenario({Where.PARENT: (self.services,)}, lambda d: d.create(link))
        guid = self.domain.directory.create(link)
        dn = self.domain.directory.session.get(guid, ["1.1"]).dn
        return self.kept(event, guid, dn, self.services, mqdssm.RoutingLink(identifier=guid, actual_cost=2))

    def enterprise(self, event: Event) -> Scenario:
        found = self.domain.directory.read(mqdssm.Enterprise, ())
        assert found.identifier
        written = mqdssm.Enterprise(identifier=found.identifier, default_time_to_live=99, security=LIST)
        return self.kept(event, found.identifier, self.services, "", written)

    def user(self, event: Event) -> Scenario:
        name, _ = self.domain.server.add_user(self.domain.name("p"))
        dn = f"CN={name.partition('@')[0]},CN=Users,{self.domain.root}"
        guid = self.guid(dn)
        return self.kept(event, guid, dn, "", mqdssm.User(identifier=guid, certificates=KEYS))

    def alias(self, event: Event) -> Scenario:
        assert event is Event.READ
        dn = f"CN={self.domain.name('a')},CN=Users,{self.domain.root}"
        values = {"objectClass": [b"msMQ-Custom-Recipient"], "msMQ-Recipient-FormatName": [b"DIRECT=OS:a\\q"]}
        self.domain.directory.session.add(dn, values)
        places = {Where.OBJECT: (dn,)}
        return Scenario(places, lambda d: d.resolve_queue_alias(dn), (dn,))

    def group(self, event: Event) -> Scenario:
        assert event is Event.READ
        name, _ = self.domain.queue_manager()
        self.domain.directory.create(mqdssm.Queue(pathname=rf"{name}\q"))
        member = f"CN=q,CN=msmq,{self.computer(name)}"
        own = self.domain.name("g")
        dn = f"CN={own},CN=Users,{self.domain.root}"
        values = {"objectClass": [b"group"], "sAMAccountName": [own.encode()], "member": [member.encode()]}
        self.domain.directory.session.add(dn, values)
        guid = self.guid(dn)
        return Scenario(
            {Where.OBJECT: (dn,)}, lambda d: must_be_some(d.resolve_distribution_list(f"DL={guid}")), (dn,)
        )

    def guid(self, dn: str) -> UUID:
        (raw,) = self.domain.directory.session.get(dn, ["objectGUID"]).all("objectGUID")
        return UUID(bytes_le=raw)

    def kept(
        self, event: Event, guid: UUID, dn: str, parent: str, written: mqdssm.DirectoryObject
    ) -> Scenario:
        places = {Where.OBJECT: (dn,), Where.PARENT: (parent,)}
        kind: Any = type(written)
        if event is Event.READ:
            return Scenario(places, lambda d: d.read(kind, by(guid)), (dn,))
        if event is Event.WRITE:
            return Scenario(places, lambda d: d.write(written))
        return Scenario(places, lambda d: d.delete(kind(identifier=guid)))


def by(guid: UUID) -> mqdssm.Filter:
    return mqdssm.Filter("Identifier", "==", guid)


def must_be_some(found: Any) -> Any:
    assert list(found)
    return found


MAKERS: dict[str, Callable[[Maker, Event], Scenario]] = {
    "QueueManager": Maker.queue_manager,
    "Queue": Maker.queue,
    "Enterprise": Maker.enterprise,
    "Site": Maker.site_element,
    "RoutingLink": Maker.link,
    "User": Maker.user,
    "Queue alias": Maker.alias,
    "Distribution list": Maker.group,
}
EVENTS = list(dict.fromkeys((need.element, need.event) for need in rights.NEEDS))
MARKS = {
    "QueueManager": pytest.mark.spec("MS-MQDSSM 5.1.1"),
    "Queue": pytest.mark.spec("MS-MQDSSM 5.1.2"),
    "Enterprise": pytest.mark.spec("MS-MQDSSM 5.1.3"),
    "Site": pytest.mark.spec("MS-MQDSSM 5.1.4"),
    "RoutingLink": pytest.mark.spec("MS-MQDSSM 5.1.5"),
    "User": pytest.mark.spec("MS-MQDSSM 5.1.6"),
    "Queue alias": pytest.mark.spec("MS-MQDSSM 5.1.7"),
    "Distribution list": pytest.mark.spec("MS-MQDSSM 5.1.8"),
}


def choices(element: str, event: Event) -> Iterator[list[Need]]:
    """Sets of rights that are just enough: one of those of which one is enough."""
    needs = rights.needs_of(element, event)
    most = max([1, *(sum(one.either == need.either for one in needs) for need in needs if need.either)])
    for number in range(most):
        chosen = []
        for need in needs:
            group = [one for one in needs if one.either and one.either == need.either]
            if not group or group[number % len(group)] is need:
                chosen.append(need)
        yield chosen


def case(element: str, event: Event, *more: Any, label: str = "") -> Any:
    return pytest.param(element, event, *more, marks=MARKS[element], id=f"{element} {event.value}{label}")


ENOUGH = [
    case(element, event, needs, label=f" {number}")
    for element, event in EVENTS
    for number, needs in enumerate(choices(element, event))
]
LESS = [
    case(element, event, needs, need, label=f" less {need.right.name} {need.where.name} {need.object_class}")
    for element, event in EVENTS
    for needs in list(choices(element, event))[:1]
    for need in needs
]


def only(need: Need, bits: int) -> Need:
    """The row with other bits of the same right."""
    return replace(need, right=need.right._replace(mask=bits))


@pytest.fixture(scope="module")
def account(samba_server: SambaDomainController) -> tuple[str, str]:
    return samba_server.add_user("delegated")


@pytest.mark.parametrize(("element", "event", "needs"), ENOUGH)
def test_with_exactly_these_rights(
    domain: Domain, account: tuple[str, str], element: str, event: Event, needs: list[Need]
) -> None:
    scenario = MAKERS[element](Maker(domain), event)
    with domain.as_user(*account) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        with granted(domain, scenario, needs, sid):
            assert lacking(domain, directory, scenario, element, event) == []
            scenario.act(directory)


@pytest.mark.parametrize(("element", "event", "needs", "left_out"), LESS)
def test_with_one_right_less(
    domain: Domain, account: tuple[str, str], element: str, event: Event, needs: list[Need], left_out: Need
) -> None:
    scenario = MAKERS[element](Maker(domain), event)
    with domain.as_user(*account) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        rest = [need for need in needs if need is not left_out]
        if event is Event.READ:
            rest.append(only(left_out, left_out.right.mask & ~left_out.right.decides))
        with granted(domain, scenario, rest, sid):
            place = scenario.places[left_out.where][0]
            foretold = lacking(domain, directory, scenario, element, event)
            expected = f"{left_out.right.name}.*{left_out.object_class}"
            assert len(foretold) == exists(domain, place)
            assert all(re.search(f"{expected}.* on {re.escape(place)}", one) for one in foretold)
            with pytest.raises(mqdssm.DirectoryError) as caught:
                scenario.act(directory)
    error = caught.value
    assert left_out.right.name in error.hint
    if event is Event.READ and left_out.where is Where.PARENT:
        assert "its computer has no dNSHostName" in error.message
        assert (error.dn or "").lower() == place.lower()
    elif event is Event.READ and element != "Queue alias":
        assert isinstance(error, mqdssm.ObjectNotFound)
    if event is not Event.READ:
        assert isinstance(error, mqdssm.GenericDirectoryError)
        assert error.ldap_code == 50
        assert left_out.object_class in error.hint
        assert f"{left_out.right.mask:#x}" in error.hint


# -- what docs/tables/rights.md says of single bits

LIST_CHILDREN = 0x4
DECISIVE = [
    case(element, event, needs, need, label=f" {need.where.name}")
    for element, event in EVENTS
    for needs in list(choices(element, event))[:1]
    for need in needs
    if need.right.decides != need.right.mask
]


@pytest.mark.parametrize(("element", "event", "needs", "need"), DECISIVE)
def test_one_bit_decides(
    domain: Domain, account: tuple[str, str], element: str, event: Event, needs: list[Need], need: Need
) -> None:
    """What `Right.decides` says is enough; all else of the right is not."""
    scenario = MAKERS[element](Maker(domain), event)
    found_below = LIST_CHILDREN if event is Event.READ and need.where is Where.PARENT else 0
    rest = [one for one in needs if one is not need]
    with domain.as_user(*account) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        without = only(need, need.right.mask & ~need.right.decides)
        with granted(domain, scenario, [*rest, without], sid), pytest.raises(mqdssm.DirectoryError):
            scenario.act(directory)
        enough = only(need, need.right.decides | found_below)
        with granted(domain, scenario, [*rest, enough], sid):
            scenario.act(directory)


@pytest.mark.parametrize(
    ("bits", "found"), [(LIST_CHILDREN, True), (rights.READ.mask & ~LIST_CHILDREN, False)]
)
def test_the_parent_decides_whether_an_object_is_found(
    domain: Domain, account: tuple[str, str], bits: int, *, found: bool
) -> None:
    scenario = MAKERS["Queue"](Maker(domain), Event.READ)
    (need,) = rights.needs_of("Queue", Event.READ)
    parent = Need("Queue", Event.READ, Where.PARENT, "mSMQConfiguration", rights.READ, "")
    scenario.hidden = (*scenario.hidden, *scenario.places[Where.PARENT])
    with domain.as_user(*account) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        with granted(domain, scenario, [need, only(parent, bits)], sid):
            if found:
                scenario.act(directory)
            else:
                with pytest.raises(mqdssm.ObjectNotFound, match="that needs RIGHT_GENERIC_READ"):
                    scenario.act(directory)


def test_writing_may_be_granted_for_single_attributes(domain: Domain, account: tuple[str, str]) -> None:
    name, _ = domain.queue_manager()
    guid = domain.directory.create(mqdssm.Queue(pathname=rf"{name}\q", label="a"))
    dn = domain.directory.session.get(guid, ["1.1"]).dn
    schema = str(domain.directory.session.naming.schema)
    (found,) = domain.tools.search("(lDAPDisplayName=mSMQLabelEx)", "schemaIDGUID", base=schema).values()
    label = UUID(found["schemaIDGUID"][0].decode())
    before = dacl(domain, dn)
    with domain.as_user(*account) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        one = allow_object(sid, rights.WRITE.decides, label)
        set_dacl(domain, dn, (*before.explicit_aces(), one), before.control)
        directory.write(mqdssm.Queue(identifier=guid, label="b"))
        with pytest.raises(mqdssm.GenericDirectoryError) as caught:
            directory.write(mqdssm.Queue(identifier=guid, quota=5))
        assert caught.value.ldap_code == 50
        judge = RightsChecker(
            directory.session, Samples(directory.session, chosen={"mSMQQueue": DN.parse(dn)})
        )
        missing = next(judge.judge_event("Queue", Event.WRITE)).missing or ""
    assert missing.startswith("RIGHT_GENERIC_WRITE (for ")
    assert "mSMQLabelEx" not in missing
    # counted, not listed: no more than four are named
    assert re.search(r"\(for [^,]+(, [^,]+){3} and \d+ more\) on ", missing)


def test_who_makes_server_objects_gets_no_right_below_them(domain: Domain, account: tuple[str, str]) -> None:
    """Rights on the site alone, not inherited, end at the first object that is made there."""
    scenario = MAKERS["QueueManager"](Maker(domain), Event.CREATE)
    needs = rights.needs_of("QueueManager", Event.CREATE)
    (site,) = scenario.places[Where.SITE]
    flat = replace(scenario, places={**scenario.places, Where.SERVER: (site,), Where.SERVERS: (site,)})
    with domain.as_user(*account) as directory:
        sid = Sid.parse(directory.session.bound_sid() or "")
        with granted(domain, flat, list(needs), sid), pytest.raises(mqdssm.GenericDirectoryError) as caught:
            scenario.act(directory)
    assert "RIGHT_DS_CREATE_CHILD" in caught.value.hint
    assert "for server " in caught.value.hint


def test_identifiers_are_those_of_the_schema(domain: Domain) -> None:
    schema = domain.directory.session.naming.schema
    for name, guid in rights.CLASS_GUIDS.items():
        (found,) = domain.tools.search(f"(lDAPDisplayName={name})", "schemaIDGUID", base=str(schema)).values()
        assert found["schemaIDGUID"] == [str(guid).encode()]
