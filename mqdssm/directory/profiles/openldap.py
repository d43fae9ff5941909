"""Profile of OpenLDAP's slapd with the MSMQ schema of this project."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final
from uuid import UUID

from mqdssm.directory.failures import SCHEMA_HINT
from mqdssm.directory.filters import And, Equal, LdapFilter, Not, Present
from mqdssm.directory.profile import (
    Guard,
    GuidTarget,
    Naming,
    Profile,
    ServerFacts,
    choose_root,
    find_context,
    parse_context_dn,
)
from mqdssm.directory.requests import (
    DEREF_OID,
    LdapControl,
    SearchScope,
    make_assertion_control,
    make_deref_control,
)
from mqdssm.errors import (
    DecodeError,
    DirectoryError,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectNotFound,
)
from mqdssm.model.dn import DN, fold_case
from mqdssm.tables.ldap_results import (
    ASSERTION_FAILED,
    NO_SUCH_ATTRIBUTE,
    OTHER,
    RDN_VALUE_BYTES_MAX,
    count_rdn_bytes,
    is_full,
    is_name_too_long,
)
from mqdssm.wire.dtyp import Sid

if TYPE_CHECKING:
    from mqdssm.directory.entries import Entry
    from mqdssm.directory.responses import LdapResult
    from mqdssm.directory.session import Session

log = logging.getLogger(__name__)

_NOT_OURS: Final = frozenset({b"cn=log", b"cn=config", b"cn=monitor", b"cn=accesslog"})


class OpenLdap(Profile):
    """Profile of slapd.

    The client makes objectGUIDs, times are operational attributes, and there is no objectCategory.
    """

    name: ClassVar[str] = "openldap"
    title: ClassVar[str] = "OpenLDAP"
    makes_guid: ClassVar[bool] = True
    writes_default_security: ClassVar[bool] = True
    create_time_attributes: ClassVar[tuple[str, ...]] = ("whenCreated", "createTimestamp")
    create_time_written: ClassVar[str | None] = "whenCreated"
    modify_time_attributes: ClassVar[tuple[str, ...]] = ("modifyTimestamp",)
    asserted_version: ClassVar[str | None] = "entryCSN"
    split_key: ClassVar[str] = "entryUUID"
    schema_hint: ClassVar[str] = SCHEMA_HINT
    holds_large_integers: ClassVar[bool] = True
    watched_through: ClassVar[str] = "syncrepl"
    watch_key: ClassVar[str] = "entryUUID"
    watch_versions: ClassVar[tuple[str, ...]] = ("entryCSN",)
    facts: ClassVar[ServerFacts] = ServerFacts(
        size_limit=500,
        references="dereference",
        references_hint="on OpenLDAP: load the overlay deref",
        watched_by={"1.3.6.1.4.1.4203.1.9.1.1": "syncrepl"},
        watch_hint="no syncprov",
        index_place=("cn=config", "olcDbIndex"),
        index_hint="olcDbIndex: objectGUID eq (and objectSid, mSMQLabelEx, mSMQQueueType, cn, objectClass)",
        change_number="contextCSN",
        schema_hint="load it: mqdssm schema ldif | ldapadd -Y EXTERNAL -H ldapi:///",
        tree_hint="add the base tree: mqdssm schema ldif --format base-tree --root {root}",
        naming_hint="olcRootDSE can publish them: mqdssm schema ldif --format root-dse",
        descriptor_hint="mqdssm write enterprise Security=SDDL, if programs look at it",
    )

    def matches(self, root_dse: "Entry") -> bool:  # noqa: D102  see Profile
        return any(value.lower() == b"openldaprootdse" for value in root_dse.all("objectClass"))

    def name_key(self, name: str) -> str:  # noqa: D102  see Profile
        return fold_case(name.replace("\u0130", "i"))  # slapd's lower case of a dotted capital i

    def naming(self, root_dse: "Entry", override: str | None) -> Naming:  # noqa: D102  see Profile
        root = find_context(root_dse, "rootDomainNamingContext") or find_context(
            root_dse, "defaultNamingContext"
        )
        if root is None:
            root = _find_first_context(root_dse.all("namingContexts"))
        configuration = find_context(root_dse, "configurationNamingContext") or root.child(
            "CN", "Configuration"
        )
        return Naming(
            root=choose_root(override, root),
            configuration=configuration,
            schema=find_context(root_dse, "schemaNamingContext") or configuration.child("CN", "Schema"),
            default=find_context(root_dse, "defaultNamingContext") or root,
            forest=root,
        )

    def build_guid_target(self, naming: Naming, guid: UUID) -> GuidTarget:  # noqa: D102  see Profile
        search_filter = Equal("objectGUID", guid.bytes_le)
        return GuidTarget(tuple(str(base) for base in naming.guid_bases), SearchScope.SUBTREE, search_filter)

    def build_dn_filter(self, dn: str) -> LdapFilter:  # noqa: D102  see Profile
        # never distinguishedName: to slapd that is the parent type of member, and finds groups
        return Equal("entryDN", dn.encode())

    def build_class_filter(self, ldap_class: str) -> LdapFilter:  # noqa: D102  see Profile
        of_class = Equal("objectClass", ldap_class.encode())
        if ldap_class.lower() == "user":
            return And((of_class, Not(Equal("objectClass", b"computer"))))
        return of_class

    def read_controls(self, attributes: Iterable[str]) -> tuple[LdapControl, ...]:  # noqa: ARG002, D102  see Profile
        return ()

    def write_controls(self, attributes: Mapping[str, Sequence[bytes]]) -> tuple[LdapControl, ...]:  # noqa: ARG002, D102  see Profile
        return ()

    def guard(self, entry: "Entry", unchanged: Iterable[str]) -> Guard:  # noqa: D102  see Profile
        unchanged, identity = tuple(unchanged), entry.first("objectGUID")
        if "objectGUID" in unchanged:
            # a new GUID: the overlay unique would hold an assertion against its own search (result 122)
            old = {name: entry.all(name) for name in unchanged}
            return Guard(entry.dn, old=old, shows_change=lambda result: result.code == NO_SUCH_ATTRIBUTE)
        names = unchanged if identity is None else ("objectGUID", *unchanged)
        terms = tuple(_make_unchanged_filter(entry, name) for name in names)
        return Guard(
            entry.dn,
            identity,
            (make_assertion_control(And(terms)),) if terms else (),
            shows_change=lambda result: result.code == ASSERTION_FAILED,
        )

    def build_references_control(  # noqa: D102  see Profile
        self, root_dse: "Entry", references: Mapping[str, Sequence[str]]
    ) -> tuple[LdapControl, ...]:
        if not references or DEREF_OID.encode() not in root_dse.all("supportedControl"):
            return ()
        return (make_deref_control(references),)

    def explain(self, result: "LdapResult", operation: str, dn: str | None) -> DirectoryError | None:  # noqa: D102  see Profile
        code, text = result.code, result.text
        kind: type[DirectoryError] = GenericDirectoryError
        hint = ""
        if code == 53 and text == "no global superior knowledge":
            kind, problem = ObjectNotFound, "that is outside this directory"
            hint = "does the name end in the directory's naming context?"
        elif code == 19 and text.startswith("non-unique attributes found"):
            kind, problem = ObjectAlreadyExists, "another object has the same objectGUID"
            text = "non-unique attributes found"  # it goes on with the value, garbled where it is binary
        elif code == 21 and text.startswith("objectClass:"):
            problem, hint = "the server does not know the object's class", SCHEMA_HINT
        elif dn is not None and is_name_too_long(code, text, dn):
            size = f"{count_rdn_bytes(dn)} bytes, at most {RDN_VALUE_BYTES_MAX}"
            problem = f"the name is too long for this server ({size})"
        elif code == OTHER and is_full(code, text, dn):
            problem, hint = (
                "the server's database is full",
                "raise 'maxsize' in its configuration; its log names the cause",
            )
        else:
            return None
        message = f"{operation} failed: {problem}"
        return kind(message, dn=dn, ldap_code=code, server_text=text, hint=hint)

    def bound_sid(self, session: "Session") -> str | None:  # noqa: D102  see Profile
        name = session.bound_name()
        if name is None:
            return None
        try:
            value = session.get(name, ["objectSid"]).first("objectSid")
        except ObjectNotFound:
            return None  # the rootdn of slapd need not exist as an entry
        if value is None:
            return None
        try:
            return str(Sid.from_bytes(value))
        except DecodeError as error:
            log.warning("the objectSid of %s counts as none: %s", name, error)
            return None


def _make_unchanged_filter(entry: "Entry", attribute: str) -> LdapFilter:
    """Return a filter for an attribute's value when the entry was read."""
    value = entry.first(attribute)
    return Not(Present(attribute)) if value is None else Equal(attribute, value)


def _find_first_context(contexts: "list[bytes]") -> DN:
    for value in contexts:
        if value and value.lower() not in _NOT_OURS:
            return parse_context_dn(value, "namingContexts")
    raise GenericDirectoryError(
        "the server names no naming context that could hold MSMQ objects",
        hint='may this user read the root DSE? OpenLDAP needs: access to dn.base="" by * read',
    )
