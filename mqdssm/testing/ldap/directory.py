"""A simulated directory in memory, which answers as slapd does (decision R146).

`SimulatedDirectory` is the server and its disk: it outlives connections and crashes. It behaves like
the slapd of `mqdssm.testing.openldap`: schema of MSMQ, unique objectGUIDs, a bound administrator.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Final
from uuid import UUID

from mqdssm.directory import requests
from mqdssm.directory.filters import Equal
from mqdssm.model.dn import DN
from mqdssm.tables.ldif import (
    MSMQ,
    REPLICATION,
    format_attribute_definition,
    format_class_definition,
    list_base_tree_entries,
)
from mqdssm.testing.ldap.answers import encode_entry_content, encode_entry_message, encode_result, search_done
from mqdssm.testing.ldap.changes import (
    LdapCode,
    LdapRefusal,
    check_values,
    check_writable,
    make_attributes,
    modify,
    parse_name,
    rename,
)
from mqdssm.testing.ldap.matching import test_of
from mqdssm.testing.ldap.requests import (
    ANSWERS,
    LdapRequest,
    SearchRequest,
    decode_filter,
    read_paging,
)
from mqdssm.testing.ldap.rules import SUBSCHEMA, format_name
from mqdssm.testing.ldap.tree import EntryTree, TreeEntry
from mqdssm.testing.memory_store.disk import Disk

_UNIQUE: Final = "objectguid"
_CONTROLS: Final = frozenset({requests.ASSERTION_OID, requests.PAGED_RESULTS_OID})
_COOKIE_BYTES: Final = 8
_MILLION: Final = 1_000_000
_GROWING: Final = frozenset({requests.ADD_REQUEST, requests.MODIFY_REQUEST})
_FULL: Final = "txn_commit failed"
"""Diagnostic message of back-mdb if its database has no space for a write."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """Answer to a search: entries, result code and cookie of the next page."""

    entries: list[bytes]
    code: int = LdapCode.SUCCESS
    cookie: bytes | None = None


class SimulatedDirectory:
    """An LDAP server and its disk.

    Args:
        root: the naming context.
        now: seconds since 1970; writes at the same time are distinguished by a count.

    Attributes:
        disk: the disk that the entries are written to.
    """

    def __init__(self, root: str, now: Callable[[], float]) -> None:
        self.disk: Final = Disk()
        self._root = parse_name(root)
        self._now = now
        self._tree = EntryTree()
        self._answers: dict[tuple[str, SearchRequest, tuple[requests.LdapControl, ...]], _Answer] = {}
        self._count = 0
        self._admin = f"cn=admin,{root}".encode()
        for (_, dn), *pairs in list_base_tree_entries(root):
            raw_attributes: dict[str, list[bytes]] = {}
            for attribute, value in pairs:
                raw = value.encode() if isinstance(value, str) else value
                raw_attributes.setdefault(attribute, []).append(raw)
            name = parse_name(str(dn))
            self._tree.add(name, self._stamp_attributes(make_attributes(name, raw_attributes)))

    def answer(self, request: LdapRequest) -> bytes:
        """Perform a request, and return all messages of its answer."""
        tag = ANSWERS.get(request.tag)
        if tag is None:
            return b""
        try:
            if request.tag == requests.SEARCH_REQUEST:
                parse_name(request.dn)  # other requests have their controls checked first
            _check_controls(request)
            if request.search is not None:
                return self._search(request, request.search)
            self._change(request)
        except LdapRefusal as refusal:
            return encode_result(request.id, tag, refusal.code, matched=refusal.matched, text=refusal.text)
        return encode_result(request.id, tag)

    # -- searches

    def _search(self, request: LdapRequest, search: SearchRequest) -> bytes:
        """Return the answer to a search; answers are kept until the next write."""
        key = request.dn, search, request.controls
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._search_answer(request, search)
        entries = b"".join([encode_entry_message(request.id, entry) for entry in answer.entries])
        return entries + search_done(request.id, answer.code, cookie=answer.cookie)

    def _search_answer(self, request: LdapRequest, search: SearchRequest) -> _Answer:
        if search.scope is requests.SearchScope.BASE and request.dn in {"", SUBSCHEMA}:
            values = _build_schema() if request.dn else self._build_root_dse()
            requested_names = {attribute.lower() for attribute in search.attributes}
            every = requests.ALL_OPERATIONAL_ATTRIBUTES in requested_names
            items = [item for item in values.items() if every or item[0].lower() in requested_names]
            return _Answer([encode_entry_content(request.dn, items)])
        base = self._find_existing(parse_name(request.dn))
        _check_assertion(request, base)
        control = request.find_control(requests.PAGED_RESULTS_OID)
        size, cookie = (0, b"") if control is None else read_paging(control)
        if 0 < search.size_limit <= size:  # no page could be full
            control, size = None, 0
        entries: list[bytes] = []
        last = 0
        for entry in self._find_matching(base, search, after=int.from_bytes(cookie, "big")):
            if size and len(entries) == size:
                return _Answer(entries, cookie=last.to_bytes(_COOKIE_BYTES, "big"))
            if search.size_limit and len(entries) == search.size_limit:
                return _Answer(entries, LdapCode.SIZE_LIMIT_EXCEEDED)
            entries.append(entry.encode_selected(search.attributes))
            last = entry.number
        return _Answer(entries, cookie=None if control is None else b"")

    def _find_matching(self, base: TreeEntry, search: SearchRequest, after: int) -> Iterator[TreeEntry]:
        some = self._tree.find_within(base, search.scope, search.filter)
        if not some:
            return
        test = test_of(search.filter)
        for entry in some:
            if entry.number > after and test(entry):
                yield entry

    def _build_root_dse(self) -> dict[str, list[bytes]]:
        root = str(self._root)
        configuration = f"CN=Configuration,{root}"
        return {
            "objectClass": [b"top", b"OpenLDAProotDSE"],
            "namingContexts": [root.encode()],
            "defaultNamingContext": [root.encode()],
            "rootDomainNamingContext": [root.encode()],
            "configurationNamingContext": [configuration.encode()],
            "schemaNamingContext": [f"CN=Schema,{configuration}".encode()],
            "supportedControl": [control.encode() for control in sorted(_CONTROLS)],
            "supportedLDAPVersion": [b"3"],
            "subschemaSubentry": [SUBSCHEMA.encode()],
        }

    # -- changes

    def _change(self, request: LdapRequest) -> None:
        """Perform a change; it is completely checked before the write.

        Raises:
            LdapRefusal: the change is refused.
        """
        changes = {
            requests.ADD_REQUEST: self._add,
            requests.MODIFY_REQUEST: self._modify,
            requests.DELETE_REQUEST: self._delete,
            requests.MODIFY_DN_REQUEST: self._rename,
        }
        if request.tag not in changes:
            raise LdapRefusal(LdapCode.PROTOCOL_ERROR, "unsupported operation")
        changes[request.tag](request, parse_name(request.dn))

    def _delete(self, request: LdapRequest, name: DN) -> None:
        entry = self._find_target(request, name)
        if self._tree.has_below(entry):
            raise LdapRefusal(LdapCode.NOT_ALLOWED_ON_NON_LEAF, "subordinate objects must be deleted first")
        self._commit(request, lambda: self._tree.remove(entry))

    def _add(self, request: LdapRequest, name: DN) -> None:
        for attribute, values in request.attributes.items():
            check_values(attribute, values)
        for attribute in request.attributes:
            check_writable(attribute)
        self._check_inside(name)
        self._check_unique(request, request.attributes.get(_UNIQUE, ()), name)
        attributes = self._stamp_attributes(make_attributes(name, request.attributes))
        _check_assertion(request, TreeEntry(0, name, attributes))
        if self._tree.get(name) is not None:
            raise LdapRefusal(LdapCode.ENTRY_ALREADY_EXISTS)
        new_name = DN((name.rdn, *self._find_existing(name.parent).name.rdns))
        self._commit(request, lambda: self._tree.add(new_name, attributes))

    def _modify(self, request: LdapRequest, name: DN) -> None:
        for change in request.changes:
            check_values(change.attribute, change.values, change.op)
        for change in request.changes:
            check_writable(change.attribute)
        self._check_inside(name)
        for change in request.changes:
            if change.attribute.lower() == _UNIQUE and change.op is not requests.ChangeType.DELETE:
                self._check_unique(request, change.values, name)
        entry = self._find_target(request, name)
        attributes = modify(entry.name, entry.attributes, request.changes)
        self._commit(request, lambda: self._tree.replace(entry, self._stamp_attributes(attributes)))

    def _rename(self, request: LdapRequest, name: DN) -> None:
        rdn = parse_name(request.new_rdn)
        superior = None if request.new_superior is None else parse_name(request.new_superior)
        self._check_inside(name)
        above = name.parent if superior is None else superior
        if above.is_at_or_below(name):
            raise LdapRefusal(LdapCode.UNWILLING_TO_PERFORM, "cannot place an entry below itself")
        if name.is_below(DN((rdn.rdn, *above.rdns))):
            raise LdapRefusal(LdapCode.UNWILLING_TO_PERFORM, "cannot place an entry above itself")
        if not above.is_at_or_below(self._root):
            raise LdapRefusal(LdapCode.AFFECTS_MULTIPLE_DSAS, "cannot rename between DSAs")
        if self._tree.get(name.parent) is None:
            raise LdapRefusal(LdapCode.NO_SUCH_OBJECT)
        entry = self._find_target(request, name)
        parent = self._tree.get(above)
        if parent is None:
            raise LdapRefusal(LdapCode.NO_SUCH_OBJECT)
        new = DN((rdn.rdn, *parent.name.rdns))
        occupant = self._tree.get(new)
        if occupant is not None and occupant is not entry:
            raise LdapRefusal(LdapCode.ENTRY_ALREADY_EXISTS)
        attributes = rename(entry.name, new, entry.attributes, deletes_old=request.deletes_old_rdn)
        self._commit(request, lambda: self._tree.move(entry, new, self._stamp_attributes(attributes)))

    def _find_target(self, request: LdapRequest, name: DN) -> TreeEntry:
        """Return the entry of a request, which fulfils the request's assertion.

        Raises:
            LdapRefusal: the entry does not exist, or the assertion fails.
        """
        self._check_inside(name)
        entry = self._find_existing(name)
        _check_assertion(request, entry)
        return entry

    def _check_inside(self, name: DN) -> None:
        if not name.is_at_or_below(self._root):
            raise LdapRefusal(LdapCode.UNWILLING_TO_PERFORM, "no global superior knowledge")

    def _find_existing(self, name: DN) -> TreeEntry:
        entry = self._tree.get(name)
        if entry is None:
            raise LdapRefusal(LdapCode.NO_SUCH_OBJECT, matched=format_name(self._tree.find_closest(name)))
        return entry

    def _check_unique(self, request: LdapRequest, values: Sequence[bytes], name: DN) -> None:
        """Raise LdapRefusal for an objectGUID that another entry has.

        The overlay unique does so, too.

        The overlay searches with the controls of the request: an assertion must also hold for the root.
        """
        if not values:
            return
        root = self._find_existing(self._root)
        _check_assertion(request, root)
        for value in values:
            entries = self._tree.find_within(root, requests.SearchScope.SUBTREE, Equal(_UNIQUE, value))
            if any(entry.name != name for entry in entries):
                raise LdapRefusal(
                    LdapCode.CONSTRAINT_VIOLATION, "non-unique attributes found with (objectGUID)"
                )

    def _commit(self, request: LdapRequest, write: Callable[[], object]) -> None:
        """Write a change.

        Raises:
            LdapRefusal: the disk is full.
        """
        if self.disk.is_full(grows=request.tag in _GROWING):
            raise LdapRefusal(LdapCode.OTHER, _FULL)

        def change() -> None:
            self._answers.clear()
            write()

        self.disk.write(change)

    def _stamp_attributes(self, attributes: dict[str, list[bytes]]) -> dict[str, list[bytes]]:
        """Set the operational attributes of a write: time, user and entryCSN.

        See [RFC4512] 3.4.
        """
        self._count += 1
        when, microseconds = _format_time(self._now())
        if "entryuuid" not in attributes:
            attributes["entryuuid"] = [str(UUID(int=self._count)).encode()]
            attributes["creatorsname"] = [self._admin]
            attributes["createtimestamp"] = [f"{when}Z".encode()]
        attributes["entrycsn"] = [f"{when}.{microseconds}Z#{self._count % _MILLION:06x}#000#000000".encode()]
        attributes["modifiersname"] = [self._admin]
        attributes["modifytimestamp"] = [f"{when}Z".encode()]
        return attributes


@lru_cache
def _format_time(seconds: float) -> tuple[str, str]:
    """Return a time as in GeneralizedTime without zone, and its microseconds."""
    now = datetime.fromtimestamp(seconds, UTC)
    return f"{now:%Y%m%d%H%M%S}", f"{now:%f}"


@cache
def _build_schema() -> dict[str, list[bytes]]:
    """Return the attributes of the subschema entry ([RFC4512] 4.2)."""
    parts = (MSMQ, REPLICATION)
    return {
        "attributeTypes": [
            format_attribute_definition(attribute).encode() for part in parts for attribute in part.attributes
        ],
        "objectClasses": [
            format_class_definition(object_class).encode() for part in parts for object_class in part.classes
        ],
    }


def _check_controls(request: LdapRequest) -> None:
    """Raise LdapRefusal for a critical control that is unknown or unsuitable.

    See [RFC4511] 4.1.11.
    """
    for control in request.controls:
        means_nothing = control.oid == requests.PAGED_RESULTS_OID and request.tag != requests.SEARCH_REQUEST
        if control.critical and (control.oid not in _CONTROLS or means_nothing):
            raise LdapRefusal(LdapCode.UNAVAILABLE_CRITICAL_EXTENSION, "critical extension is not recognized")


def _check_assertion(request: LdapRequest, entry: TreeEntry) -> None:
    """Raise LdapRefusal if an entry does not fulfil an assertion ([RFC4528]).

    The request has the assertion.
    """
    control = request.find_control(requests.ASSERTION_OID)
    if control is not None and not test_of(decode_filter(control.value or b""))(entry):
        raise LdapRefusal(LdapCode.ASSERTION_FAILED)
