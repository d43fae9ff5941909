"""What a domain controller of Windows refuses, cuts or splits, and Samba (and slapd) does not.

Pure functions: a request goes in, a refusal or the request to pass on comes out, with the state that its
answers are to be cut by. Limits are those of a default forest (MaxPageSize, MaxValRange, MaxTempTableSize of
[MS-ADTS] 3.1.1.3.4.6, rangeUpper of cn).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from mqdssm.directory.ber import SEQUENCE, SET, BerReader, integer, octet_string, sequence, tlv
from mqdssm.directory.entries import parse_entry
from mqdssm.directory.filters import (
    And,
    Equal,
    Extensible,
    GreaterOrEqual,
    LdapFilter,
    LessOrEqual,
    Not,
    Or,
    Substrings,
    encode,
)
from mqdssm.directory.requests import (
    ADD_REQUEST,
    MODIFY_DN_REQUEST,
    PAGED_RESULTS_OID,
    LdapControl,
    SearchScope,
    make_paged_control,
)
from mqdssm.directory.responses import SEARCH_ENTRY, MessageBounds
from mqdssm.model.dn import DN
from mqdssm.testing.ldap.requests import LdapRequest, SearchRequest, read_paging
from support.directory.search_requests import encode_search
from support.servers import limits_forest

SORT_OID: Final = "1.2.840.113556.1.4.473"
SIZE_LIMIT_EXCEEDED: Final = 4
STRONGER_AUTH_REQUIRED: Final = 8
REFERRAL: Final = 10
UNAVAILABLE_CRITICAL_EXTENSION: Final = 12
CONSTRAINT_VIOLATION: Final = 19
UNWILLING_TO_PERFORM: Final = 53

_GUIDS: Final = frozenset(
    {"objectguid", "msmqqueuetype", "msmqownerid", "msmqqmid", "msmqsites", "msmqdigests"}
)
_TIMES: Final = frozenset({"whencreated", "whenchanged", "createtimestamp", "modifytimestamp"})
_BOOLEANS: Final = frozenset(
    {
        *("msmqjournal", "msmqauthenticate", "msmqtransactional", "msmqforeign", "msmqroutingservices"),
        *("msmqdsservices", "msmqdependentclientservices", "msmqsiteforeign", "msmqnamestyle"),
        *("msmqroutingservice", "msmqdsservice", "msmqdependentclientservice", "msmqmigrated"),
    }
)
_INTEGERS: Final = frozenset(
    {
        *("msmqqueuequota", "msmqqueuejournalquota", "msmqprivacylevel", "msmqbasepriority", "msmqostype"),
        *("msmqservicetype", "msmqquota", "msmqjournalquota", "msmqinterval1", "msmqinterval2"),
        *("msmqnt4stub", "msmqlonglived", "msmqversion", "msmqcost", "msmqservices"),
        *("useraccountcontrol", "grouptype"),
    }
)
_TIME: Final = re.compile(rb"[0-9]{14}\.0Z")
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,9}")
_RANGE: Final = re.compile(r"(.+?);range=([0-9]+)-([0-9]+|\*)", re.IGNORECASE)
_SAMBA_ESCAPE: Final = re.compile(rb"\\(\\|3[BD])")
_DN_VALUED: Final = frozenset({b"distinguishedname", b"member", b"msmqsite1", b"msmqsite2", b"msmqsitegates"})


@dataclass
class Limits:
    """What is enforced; may be changed while the proxy runs.

    Attributes:
        page_entries: most entries of one page, and of a search without pages.
        range_values: most values of one attribute in one answer.
        rdn_units: longest common name, in UTF-16 units.
        sort_keys: attributes that one search may be sorted by.
        sort_entries: most entries that are sorted.
        odd_filters: refuse values in filters that Windows takes for something else than Samba.
        clear_text_binds: allow a simple bind without TLS.
        windows_escapes: DNs come back as Windows writes them (``\\=``), not as Samba does (``\\3D``).
        guid_on_add: an add may name its objectGUID (fSpecifyGUIDOnAdd). It is then made over the controller's
            own socket, by the system itself, whatever the rights of the client.
        references: searches below a base also return a reference, to the trap.
        catalog: the server is a global catalog: only the partial attribute set is returned and searched.
        other_domain: the unit ``OU=...`` that plays another domain, without its type: a catalog calls it
            ``DC=...``, a domain controller refers to it.
    """

    page_entries: int = 1000
    range_values: int = 1500
    rdn_units: int = 64
    sort_keys: int = 1
    sort_entries: int = 10_000
    odd_filters: bool = True
    clear_text_binds: bool = False
    windows_escapes: bool = True
    guid_on_add: bool = False
    references: bool = False
    catalog: bool = False
    other_domain: str = ""


@dataclass(frozen=True)
class Refusal:
    """An answer that the server itself never sees a request for."""

    code: int
    text: str


@dataclass
class SearchState:
    """How the answers to one search are to be cut.

    Attributes:
        entries_max: no more entries pass.
        ranges: lower-case attribute -> the part of its values that was asked for.
        held: entries that wait for the end, because the order depends on their number; None: none wait.
        sort_is_critical: more than can be sorted is an error.
        refer: a reference to the trap goes before the end.
        entries: how many have come.
        cut: whether some were left out.
        partial: only attributes of the partial set are returned.
    """

    entries_max: float = float("inf")
    ranges: dict[bytes, tuple[int, int | None]] = field(default_factory=dict)
    held: list[bytes] | None = None
    sort_is_critical: bool = False
    refer: bool = False
    entries: int = 0
    cut: bool = False
    partial: bool = False


def judge(request: LdapRequest, limits: Limits, *, secured: bool) -> Refusal | None:
    """Say why a request is refused, if it is."""
    if request.simple_bind and request.dn and not secured and not limits.clear_text_binds:
        return Refusal(
            STRONGER_AUTH_REQUIRED, "00002028: LdapErr: the server requires binds to turn on integrity"
        )
    if not limits.catalog and limits_forest.is_in(request.dn, limits.other_domain):
        return Refusal(REFERRAL, "0000202B: RefErr: DSID-031007F3, data 0, 1 access points")
    if request.tag in {ADD_REQUEST, MODIFY_DN_REQUEST}:
        return _judge_name(request.new_rdn or request.dn, limits)
    if request.search is not None:
        return _judge_sort(request, limits) or (
            _judge_filter(request.search.filter) if limits.odd_filters else None
        )
    return None


def _judge_name(dn: str, limits: Limits) -> Refusal | None:
    try:
        parsed = DN.parse(dn)
    except ValueError:
        return None  # the server knows what to say
    kind, value = parsed.rdn[0]
    units = len(value.encode("utf-16-le")) // 2
    if kind.upper() not in {"CN", "OU"} or units <= limits.rdn_units:
        return None
    problem = f"problem 1005 (CONSTRAINT_ATT_TYPE), data 0, Att 3 ({kind.lower()}):len {2 * units}"
    return Refusal(
        CONSTRAINT_VIOLATION, f"00002082: AtrErr: DSID-03151D5F, #1: 0: 00002082: DSID-03151D5F, {problem}"
    )


def _judge_sort(request: LdapRequest, limits: Limits) -> Refusal | None:
    control = request.find_control(SORT_OID)
    if control is None or not control.critical or len(sort_keys(control)) <= limits.sort_keys:
        return None
    return Refusal(
        UNAVAILABLE_CRITICAL_EXTENSION, "00000057: LdapErr: DSID-0C090A2E, comment: too many sort keys"
    )


def sort_keys(control: LdapControl) -> list[str]:
    """The attributes that a sort control names ([RFC2891])."""
    keys = BerReader.of(control.value or b"").enter(SEQUENCE, "SortKeyList")
    found = []
    while keys.has_more():
        found.append(keys.enter(SEQUENCE, "key").name("attributeType"))
    return found


def leaves(node: LdapFilter) -> Iterator[LdapFilter]:
    """The comparisons that a filter consists of."""
    if isinstance(node, (And, Or)):
        for operand in node.operands:
            yield from leaves(operand)
    elif isinstance(node, Not):
        yield from leaves(node.operand)
    else:
        yield node


def _judge_filter(search_filter: LdapFilter) -> Refusal | None:
    for leaf in leaves(search_filter):
        if problem := odd_value(leaf):
            return Refusal(UNWILLING_TO_PERFORM, f"odd filter: {problem}")
    return None


def odd_value(leaf: LdapFilter) -> str:
    """Say what is wrong with the value of one comparison; nothing where it is as it must be."""
    if isinstance(leaf, Substrings):
        octets = leaf.attribute.lower() in _GUIDS
        return f"substrings of {leaf.attribute}, which is octets" if octets else ""
    if isinstance(leaf, Extensible) or not isinstance(leaf, (Equal, GreaterOrEqual, LessOrEqual)):
        return ""
    name, value = leaf.attribute.lower(), leaf.value
    if name in _GUIDS and len(value) != 16:
        return f"{leaf.attribute} is 16 octets, not {value!r}"
    if name in _TIMES and not _TIME.fullmatch(value):
        return f"{leaf.attribute} is YYYYMMDDHHMMSS.0Z, not {value!r}"
    if name in _BOOLEANS and value not in {b"TRUE", b"FALSE"}:
        return f"{leaf.attribute} is TRUE or FALSE, not {value!r}"
    if name in _INTEGERS and not (_INTEGER.fullmatch(value) and -(2**31) <= int(value) < 2**31):
        return f"{leaf.attribute} is a signed number of 32 bits, not {value!r}"
    return ""


def passed_on(request: LdapRequest, search: SearchRequest, limits: Limits) -> tuple[bytes, SearchState]:
    """The search that goes to the server, and how to cut what it answers."""
    state = SearchState(refer=limits.references and search.scope is not SearchScope.BASE)
    state.partial = limits.catalog and bool(request.dn or search.scope is not SearchScope.BASE)
    controls: list[LdapControl] = []
    paged = False
    for control in request.controls:
        if control.oid == PAGED_RESULTS_OID:
            paged = True
            size, cookie = read_paging(control)
            controls.append(
                make_paged_control(min(size, limits.page_entries), cookie, critical=control.critical)
            )
        elif control.oid == SORT_OID and len(sort_keys(control)) > limits.sort_keys:
            continue  # not critical, or it would have been refused
        else:
            controls.append(control)
            if control.oid == SORT_OID:
                state.sort_is_critical = control.critical
    if not paged:
        state.entries_max = limits.page_entries
    if search.size_limit:
        state.entries_max = min(state.entries_max, search.size_limit)
    if state.sort_is_critical:
        state.held = []
    attributes = []
    for name in search.attributes:
        if found := _RANGE.fullmatch(name):
            name = found.group(1)  # noqa: PLW2901
            end = None if found.group(3) == "*" else int(found.group(3))
            state.ranges[name.lower().encode()] = (int(found.group(2)), end)
        attributes.append(name)
    message = encode_search(
        request.id,
        request.dn,
        search.scope,
        encode(limits_forest.partial_filter(search.filter) if state.partial else search.filter),
        # no names is all of them on the wire; our encoder asks for none then
        attributes or ["*"],
        size_limit=search.size_limit,
        time_limit=search.time_limit,
        types_only=search.types_only,
        controls=controls,
    )
    return message, state


def cut_entry(buffer: bytes, message: MessageBounds, state: SearchState, limits: Limits) -> bytes:
    """The entry as a message of its own, its long attributes split and its names as Windows writes them."""
    name, pairs = parse_entry(buffer, message.start, message.end)
    if state.partial:
        pairs = limits_forest.partial_entry(pairs)
    written = []
    for description, values in pairs:
        if limits.windows_escapes and description.lower() in _DN_VALUED:
            values = [windows_escapes(value) for value in values]  # noqa: PLW2901
        for label, part in _ranged(description, values, state, limits):
            written.append(sequence(octet_string(label), tlv(SET, b"".join(map(octet_string, part)))))
    if limits.windows_escapes:
        name = windows_escapes(name)
    entry = tlv(SEARCH_ENTRY, octet_string(name) + tlv(SEQUENCE, b"".join(written)))
    return sequence(integer(message.id), entry, buffer[message.end : message.stop])


def _ranged(
    description: bytes, values: list[bytes], state: SearchState, limits: Limits
) -> list[tuple[bytes, list[bytes]]]:
    asked = state.ranges.get(description.lower())
    if asked is None and len(values) <= limits.range_values:
        return [(description, values)]
    start, end = asked or (0, None)
    if start >= len(values):
        return []
    stop = min(start + limits.range_values, len(values) if end is None else end + 1)
    last = "*" if stop >= len(values) else str(stop - 1)
    part = (b"%s;range=%d-%s" % (description, start, last.encode()), values[start:stop])
    return [part] if asked else [(description, []), part]  # Windows names the attribute, without values


def windows_escapes(dn: bytes) -> bytes:
    r"""A DN with ``\=`` and ``\;`` where Samba writes ``\3D`` and ``\3B``."""
    return _SAMBA_ESCAPE.sub(lambda found: {b"3D": b"\\=", b"3B": b"\\;"}.get(found[1], found[0]), dn)
