"""The servers that the tests of the events run on, and all that differs between them.

`KINDS` has one object for each: how it is started, how plain LDAP tools reach it, what it makes of an entry.
`ALONE` names the tests that cannot be the same everywhere, and why.
"""

import contextlib
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit
from uuid import UUID
from weakref import WeakKeyDictionary

import pytest

import mqdssm
from mqdssm.directory.filters import GreaterOrEqual, Present
from mqdssm.directory.session import Session
from mqdssm.tables.access import KINDS as ACCESS_KINDS
from mqdssm.tables.access import from_directory
from mqdssm.testing import OpenLdapServer, SambaDomainController
from mqdssm.wire.dtyp import SecurityDescriptor
from support.servers.limits_proxy import LimitsProxy
from support.servers.limits_rules import Limits
from support.servers.plain_ldap import Entry, PlainLdap, Values
from support.servers.samba_tools import SambaTools


class Kind(ABC):
    """A kind of server.

    Attributes:
        name: of the tests' parameter.
        marks: of the tests.
        keeps_guids: an objectGUID that the caller brings becomes the object's (M37).
        brings_references: what objects of a list refer to comes along with its page (M29).
        own_sites: sites that are there from the beginning.
        trips_of_add: requests for one add: an objectGUID that the server makes has to be asked for.
        contexts: naming contexts, each of them searched for itself.
        ends_with_empty_page: after a full page there is always another one.
        makes_descriptors: every object has a security descriptor, whoever made it (M41).
        takes_dangling_names: values may name objects that do not exist.
        own_users: how many users there are from the beginning.
        modify_time: the attribute that ModifyTime is read from.
    """

    name: ClassVar[str]
    marks: ClassVar[tuple[pytest.MarkDecorator, ...]] = (pytest.mark.server,)
    keeps_guids: ClassVar[bool]
    brings_references: ClassVar[bool] = True
    own_sites: ClassVar[tuple[str, ...]] = ()
    trips_of_add: ClassVar[int] = 1
    contexts: ClassVar[int] = 1
    ends_with_empty_page: ClassVar[bool] = False
    makes_descriptors: ClassVar[bool] = False
    takes_dangling_names: ClassVar[bool] = True
    own_users: ClassVar[int] = 0
    modify_time: ClassVar[str] = "modifyTimestamp"

    @abstractmethod
    def start(self) -> contextlib.AbstractContextManager[Any]:
        """An empty enterprise of its own."""

    @abstractmethod
    def plain(self, server: Any) -> PlainLdap:
        """The directory as other programs see it."""

    @abstractmethod
    def connect(self, server: Any, **options: Any) -> mqdssm.Directory:
        """Our directory, as one who may do everything."""

    @abstractmethod
    def add_computer(self, server: Any, name: str) -> None:
        """A computer as it joins a domain."""

    @abstractmethod
    def add_user(self, server: Any, name: str) -> tuple[str, str]:
        """A user with no rights but those of every user; the DN and the password."""

    @abstractmethod
    def make_administrator(self, server: Any, dn: str) -> None:
        """Make a user an administrator."""

    @abstractmethod
    def now(self, session: Session) -> Any:
        """The state of a server, for `added_since`."""

    @abstractmethod
    def added_since(self, session: Session, then: Any) -> list[str]:
        """The DNs of all objects that were not there at that time."""

    def security(self, image: bytes) -> bytes | None:
        """A descriptor that our directory read, without what the server itself filled in."""
        return image

    def left_behind(self, dn: str, guid: UUID) -> str:
        """What an object is called by those who still refer to it after its deletion."""
        return dn

    @abstractmethod
    def check(self, server: Any) -> None:
        """Raise AssertionError when the tests have left the server with a broken database."""

    def clean(self, session: Session, then: Any, *, keep: str) -> None:
        """Delete what was added, children first, but not `keep`."""
        added = (dn for dn in self.added_since(session, then) if dn.lower() != keep.lower())
        for dn in sorted(added, key=lambda dn: -dn.count(",")):
            session.delete(dn)


class OpenLdap(Kind):
    name: ClassVar[str] = "openldap"
    keeps_guids: ClassVar[bool] = True

    def start(self) -> OpenLdapServer:
        return OpenLdapServer(durable=False, deref=self.brings_references)

    def plain(self, server: OpenLdapServer) -> PlainLdap:
        return PlainLdap(server)

    def connect(self, server: OpenLdapServer, **options: Any) -> mqdssm.Directory:
        return mqdssm.connect(server.ldapi_url, **options)

    def add_computer(self, server: OpenLdapServer, name: str) -> None:
        server.add_computer(name)

    def add_user(self, server: OpenLdapServer, name: str) -> tuple[str, str]:
        return server.add_user(name)

    def make_administrator(self, server: OpenLdapServer, dn: str) -> None:
        ldap, group = self.plain(server), f"CN=MSMQ Admins,CN=Users,{server.base_dn}"
        if ldap.exists(group):
            ldap.modify(group, f"add: member\nmember: {dn}")
        else:
            ldap.add(group, {"objectClass": "group", "member": dn})

    def check(self, server: OpenLdapServer) -> None:
        """OpenLDAP has no tool for it."""

    def now(self, session: Session) -> set[str]:
        return {entry.dn for entry in session.find(session.naming.root, Present("objectClass"), ["1.1"])}

    def added_since(self, session: Session, then: set[str]) -> list[str]:
        return list(self.now(session) - then)


class OpenLdapWithoutDeref(OpenLdap):
    """Without the overlay that resolves references within a search."""

    name: ClassVar[str] = "openldap-without-deref"
    brings_references: ClassVar[bool] = False


class Samba(Kind):
    name: ClassVar[str] = "samba"
    marks: ClassVar[tuple[pytest.MarkDecorator, ...]] = (pytest.mark.server, pytest.mark.samba)
    keeps_guids: ClassVar[bool] = False
    own_sites: ClassVar[tuple[str, ...]] = ("Default-First-Site-Name",)
    trips_of_add: ClassVar[int] = 2
    contexts: ClassVar[int] = 2
    ends_with_empty_page: ClassVar[bool] = True
    makes_descriptors: ClassVar[bool] = True
    takes_dangling_names: ClassVar[bool] = False
    own_users: ClassVar[int] = 4  # Administrator, Guest, krbtgt, dns-DC1
    modify_time: ClassVar[str] = "whenChanged"

    def start(self) -> contextlib.AbstractContextManager[SambaDomainController]:
        return SambaDomainController()

    def plain(self, server: SambaDomainController) -> "PlainSamba":
        return PlainSamba(server)

    def connect(self, server: SambaDomainController, **options: Any) -> mqdssm.Directory:
        return mqdssm.connect(
            server.ldaps_url, user=server.user, password=server.password, ca_file=server.ca_file, **options
        )

    def add_computer(self, server: SambaDomainController, name: str) -> None:
        # as `SambaDomainController.add_computer`, but without a password: five times as fast
        host = f"{name}.{server.realm}".lower()
        self.plain(server).add(
            f"CN={name},CN=Computers,{server.base_dn}",
            {
                "objectClass": "computer",
                "sAMAccountName": f"{name}$",
                "userAccountControl": "4096",
                "dNSHostName": host,
                "servicePrincipalName": [f"HOST/{name}", f"HOST/{host}"],
            },
        )

    def add_user(self, server: SambaDomainController, name: str) -> tuple[str, str]:
        _, password = server.add_user(name)
        return f"CN={name},CN=Users,{server.base_dn}", password

    def make_administrator(self, server: SambaDomainController, dn: str) -> None:
        for group in ("Domain Admins", "Enterprise Admins"):  # the second one for the configuration
            self.plain(server).modify(f"CN={group},CN=Users,{server.base_dn}", f"add: member\nmember: {dn}")

    def security(self, image: bytes) -> bytes | None:
        found = _without_defaults(SecurityDescriptor.from_bytes(image))
        written = found.owner is not None and found.owner.rid not in ADMINISTRATORS
        return bytes(found) if written else None  # else it is the default of the class

    def left_behind(self, dn: str, guid: UUID) -> str:
        return f"\\0ADEL:{guid}"

    def check(self, server: SambaDomainController) -> None:
        SambaTools(server).check_database()

    def now(self, session: Session) -> int:
        return int(session.get("", ["highestCommittedUSN"]).first("highestCommittedUSN") or b"")

    def added_since(self, session: Session, then: int) -> list[str]:
        new = GreaterOrEqual("uSNCreated", str(then + 1).encode())
        contexts = (session.naming.root, session.naming.configuration)
        return [entry.dn for context in contexts for entry in session.find(context, new, ["1.1"])]


class SambaBehindLimits(Samba):
    """Through the proxy that enforces the limits of Windows, with references that nobody may follow."""

    name: ClassVar[str] = "samba-limits"
    marks: ClassVar[tuple[pytest.MarkDecorator, ...]] = (*Samba.marks, pytest.mark.soak)

    def __init__(self) -> None:
        self._proxies: WeakKeyDictionary[SambaDomainController, LimitsProxy] = WeakKeyDictionary()

    @contextlib.contextmanager
    def start(self) -> Iterator[SambaDomainController]:
        with SambaDomainController() as server, tempfile.TemporaryDirectory() as folder:
            parts = urlsplit(server.ldaps_url)
            with LimitsProxy(
                parts.hostname or "",
                parts.port or 636,
                Path(folder),
                ca_file=server.ca_file,
                limits=Limits(references=True),
            ) as proxy:
                self._proxies[server] = proxy
                yield server
                assert not proxy.trap.visits, "a reference was followed"

    def connect(self, server: SambaDomainController, **options: Any) -> mqdssm.Directory:
        proxy = self._proxies[server]
        return mqdssm.connect(
            proxy.ldaps_url, user=server.user, password=server.password, ca_file=proxy.ca_file, **options
        )


KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind for kind in (OpenLdap(), OpenLdapWithoutDeref(), Samba(), SambaBehindLimits())
}
USUAL: Final = ("openldap", "samba", "samba-limits")
"""What a test runs on unless its file or itself is named below."""
FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "test_references.py": ("openldap", "openldap-without-deref", "samba", "samba-limits"),
    "test_planted_rules.py": ("openldap", "samba"),
}
_OPENLDAP_ALONE: Final[Mapping[str, Mapping[str, str]]] = {
    "test_create_queue.py": {
        "test_a_queue_without_descriptor_gets_one_that_lets_nobody_else_receive": "M41 is of OpenLDAP alone: "
        "Active Directory gives every object a descriptor itself",
        # test_ad_identifiers has what becomes of GUIDs there
        "test_a_guid_that_the_object_brings_is_kept_once": "a domain controller makes GUIDs itself (M37)",
        "test_two_computers_of_one_name_are_an_error": "account names are unique in a domain",
    },
    "test_create_others.py": {
        "test_a_computer_without_sid_is_left_out_of_the_descriptor": "a domain gives each account a SID",
    },
    "test_audit_rights.py": {
        "test_the_creator_of_a_queue_owns_it": "M41 is of OpenLDAP alone",
        # test_ad_events has what becomes of it there
        "test_a_null_dacl_is_one_that_was_supplied": "a NULL list counts as none there (M70)",
    },
    "test_audit_safety.py": {
        "test_a_computer_that_was_made_anew_gets_the_rights_of_its_new_sid": "M41 is of OpenLDAP alone",
        "test_a_sid_that_two_users_have_names_neither": "a domain gives each account its SID",
        "test_a_queue_manager_takes_its_queues_along_and_nothing_else": "the schema of Active Directory lets "
        "nothing but queues be below a queue manager",
        "test_one_settings_object_that_resists_does_not_save_the_others": "nothing may be below settings",
    },
    "test_half_done.py": {
        "test_nothing_is_deleted_while_something_else_is_below": "nothing else may be there in a domain",
        "test_a_deletion_that_fails_half_way_says_how_many_queues_are_gone": "nothing may be below a queue",
    },
    # a domain controller stores nothing that is not valid, and nothing without GUID, SID, descriptor
    "test_elements_from_ldap_queue.py": {
        "test_an_error_for_one_queue_is_none_for_another": "a domain controller checks values",
        "test_damage_is_an_error_of_a_read_and_a_gap_in_a_list": "a domain controller checks values",
        "test_a_number_that_is_no_privacy_level": "a domain controller checks values",
        "test_security_must_be_there_when_asked_for_by_name": "every object there has a descriptor",
    },
    "test_elements_from_ldap_queue_manager.py": {
        "test_no_identifier_is_an_error_of_a_read_and_a_gap_in_a_list": "every object there has a GUID",
    },
    "test_elements_from_ldap_others.py": {
        "test_a_user_without_sid_and_computers": "a domain gives each account its SID",
        "test_a_link_without_guid_is_an_error_of_a_read_and_a_gap_in_a_list": "every object there has a GUID",
    },
    "test_cli_objects.py": {
        "test_the_owner_of_a_local_socket_needs_no_password": "a domain controller knows no EXTERNAL there",
    },
    "test_odd_values.py": {
        "test_times_are_read_as_they_are_matched": "nobody can say when an object was made",
        "test_a_damaged_role_is_named_by_a_write": "a domain controller checks values",
        "test_what_no_assignment_accepts_is_carried_in_json": "a domain controller checks values",
        "test_names_that_are_damaged_on_the_way": "one proxy is enough",
    },
    "test_lookup_filters.py": {
        "test_times_are_compared_to_the_second": "nobody can say when an object was made",
    },
}
ALONE: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {"openldap": _OPENLDAP_ALONE}
"""Kind -> file -> test -> why it runs on that one alone."""


IN_SOAK: Final[Mapping[str, Mapping[str, str]]] = {
    "test_audit_together.py": {
        "test_memory_does_not_grow_with_the_number_of_objects": "a controller adds 2000 objects in 25 seconds"
    },
    "test_alias.py": {
        "test_a_chain_of_lists_deeper_than_pythons_stack_would_like": "the server only stores the groups"
    },
    "test_mqcn_hostile.py": {"test_a_flood": "the server only waits"},
}
"""File -> test -> why `make test` runs it on OpenLDAP alone, and `make soak` on the others."""


def kinds_for(file: str, test: str) -> tuple[str, ...]:
    """What a test runs on."""
    for kind, files in ALONE.items():
        if test in files.get(file, ()):
            return (kind,)
    return FILES.get(file, USUAL)


def parameters(file: str, test: str) -> list[Any]:
    """The parameters of `world` for a test."""
    later = (pytest.mark.soak,) if test in IN_SOAK.get(file, ()) else ()
    return [
        pytest.param(name, marks=KINDS[name].marks + (() if name == "openldap" else later), id=name)
        for name in kinds_for(file, test)
    ]


class Started:
    """The servers of one worker, each started when the first test wants it."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._servers: dict[str, Any] = {}
        self._cleaners: dict[str, mqdssm.Directory] = {}

    def server(self, kind: Kind) -> Any:
        """The running server of a kind."""
        if kind.name not in self._servers:
            self._servers[kind.name] = server = self._stack.enter_context(kind.start())
            self._stack.callback(kind.check, server)
        return self._servers[kind.name]

    def cleaner(self, kind: Kind) -> Session:
        """A session that no test closes."""
        if kind.name not in self._cleaners:
            directory = self._stack.enter_context(kind.connect(self.server(kind)))
            self._cleaners[kind.name] = directory
        return self._cleaners[kind.name].session


# -- the entries of Active Directory, as the tests know them from OpenLDAP

MADE_BY_THE_SERVER: Final = frozenset(
    {
        "distinguishedname",
        "dscorepropagationdata",
        "instancetype",
        "iscriticalsystemobject",
        "name",
        "objectcategory",
        "showinadvancedviewonly",
        "systemflags",
        "usnchanged",
        "usncreated",
        "whenchanged",
        "whencreated",
    }
)
"""What a domain controller adds to each entry, and lets nobody write."""
_CHANGED_BY_LOG_INS: Final = frozenset(
    {"badPasswordTime", "badPwdCount", "lastLogon", "lastLogonTimestamp", "logonCount"}
)
ADMINISTRATORS: Final = frozenset({500, 512, 513, 519})
"""RIDs of the administrator, and of his groups Domain Admins, Domain Users and Enterprise Admins."""
_DESCRIPTOR: Final = "nTSecurityDescriptor"


@dataclass(frozen=True)
class PlainSamba(PlainLdap):
    """The same tools as the administrator of a domain, over its controller's local socket.

    An entry that is asked for as a whole shows what somebody wrote: the class without those above it, not
    what the server adds, a descriptor's own entries with MSMQ's masks (M31) without group and SACL. Added
    objects may bring their objectGUID along: the relax control, which only Samba has.
    """

    server: Any  # a SambaDomainController

    def login(self) -> tuple[str, ...]:
        return ("-x", "-H", self.server.ldapi_url, "-D", self.server.user_dn, "-w", self.server.password)

    def search(
        self, base: str, search_filter: str = "(objectClass=*)", *attributes: str, scope: str = "sub"
    ) -> dict[str, Entry]:
        whole = not attributes
        asked = ("*", _DESCRIPTOR) if whole else attributes
        found: dict[str, Entry] = {}
        for context in self._contexts(base, scope):
            found |= super().search(context, search_filter, *asked, scope=scope)
        return {dn: self._as_written(entry) for dn, entry in found.items()} if whole else found

    def versions(self, base: str) -> dict[str, Any]:
        people = self.search(base, "(objectCategory=person)")
        for entry in people.values():
            for name in _CHANGED_BY_LOG_INS & entry.keys():
                del entry[name]
        return self.search(base, "(!(objectCategory=person))", "uSNChanged") | people

    def add_many(self, entries: Iterable[tuple[str, Values]]) -> None:
        super().add_many((dn, self._addable(values)) for dn, values in entries)

    def add_again(self, dn: str, entry: Entry) -> None:
        # deleted objects keep their GUIDs; the descriptor is not as it was written
        lost = {"objectGUID", _DESCRIPTOR}
        self.add(dn, {name: values for name, values in entry.items() if name not in lost})

    def _add_options(self) -> tuple[str, ...]:
        return ("-e", "relax")

    def _contexts(self, base: str, scope: str) -> Iterator[str]:
        yield base
        if scope == "sub" and base.lower() == self.server.base_dn.lower():
            yield f"CN=Configuration,{base}"  # a naming context of its own

    @staticmethod
    def _addable(values: Values) -> Values:
        given = MADE_BY_THE_SERVER | {"objectsid"}
        return {name: value for name, value in values.items() if name.lower() not in given}

    @staticmethod
    def _as_written(entry: Entry) -> Entry:
        shown = {name: values for name, values in entry.items() if name.lower() not in MADE_BY_THE_SERVER}
        ldap_class = shown["objectClass"][-1]
        shown["objectClass"] = [ldap_class]
        raw = shown.pop(_DESCRIPTOR, None)
        kind = ACCESS_KINDS.get(ldap_class.decode())
        if raw and kind is not None:
            read = from_directory(SecurityDescriptor.from_bytes(raw[0]), kind)
            shown[_DESCRIPTOR] = [bytes(_without_defaults(read))]
        return shown


def _without_defaults(descriptor: SecurityDescriptor) -> SecurityDescriptor:
    """Without what a domain controller fills in: a group of the domain, an empty list for auditing."""
    lists = {
        name: None if found is None else list(found.aces)
        for name, found in (("dacl", descriptor.dacl), ("sacl", descriptor.sacl))
    }
    group = descriptor.group
    filled_in = group is not None and group.rid in ADMINISTRATORS
    return SecurityDescriptor.build(
        owner=descriptor.owner,
        group=None if filled_in else group,
        dacl=lists["dacl"],
        sacl=lists["sacl"] or None,
    )
