"""Examiners of values that need a program.

The values are descriptors, certificates, keys and cut queue names.
An examiner gets the values of some columns of one object, and yields the rules that they break. Values repeat
in thousands of objects: the caller caches the results, so that each distinct value is examined once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from mqdssm.model.dn import DN
from mqdssm.model.queuenames import HASH_DIGITS, list_rdn_candidates, name_of
from mqdssm.pipeline.frames.columns import TYPES
from mqdssm.tables import TABLES
from mqdssm.tables.access import KINDS, AccessKind, is_raw, map_ace_from_directory
from mqdssm.wire.acl import Ace, AceFlags, AceType
from mqdssm.wire.certificates import UserSignCert, UserSignCerts, digest_of
from mqdssm.wire.dtyp import AclForm, SecurityDescriptor
from mqdssm.wire.keys import PublicKeys
from mqdssm.wire.masks import DELETE, WRITE_DAC, WRITE_OWNER, MachineAccess, QueueAccess, map_generic
from mqdssm.wire.sid import (
    ANONYMOUS,
    AUTHENTICATED_USERS,
    BUILTIN_GUESTS,
    BUILTIN_USERS,
    EVERYONE,
    Sid,
)

Verdict = tuple[str, str]
"""Id of a broken rule, and a message."""

UNKNOWN_PEOPLE: Final[Mapping[Sid, str]] = MappingProxyType(
    {EVERYONE: "Everyone", ANONYMOUS: "Anonymous", AUTHENTICATED_USERS: "Authenticated Users"}
)
WIDE_GROUPS: Final[Mapping[Sid, str]] = MappingProxyType({BUILTIN_USERS: "Users", BUILTIN_GUESTS: "Guests"})
_DOMAIN_GROUPS: Final[Mapping[str, str]] = MappingProxyType({"513": "Domain Users", "514": "Domain Guests"})
"""Names of groups by the last part of the SID ([MS-DTYP] 2.4.2.4)."""
_OF_ALL: Final = (EVERYONE, AUTHENTICATED_USERS)
_GROUPS_OF: Final[Mapping[str, tuple[Sid, ...]]] = MappingProxyType(
    {
        "Everyone": (),
        "Anonymous": (EVERYONE,),  # by a policy of Windows; before Windows XP without one
        "Authenticated Users": (EVERYONE,),
        "Users": _OF_ALL,
        "Guests": (EVERYONE,),
        "Domain Users": (*_OF_ALL, BUILTIN_USERS),
        "Domain Guests": (EVERYONE, BUILTIN_GUESTS),
    }
)
"""Groups whose rights and denials every member of a group has, too, as Windows makes the groups."""
_DOMAIN: Final = "S-1-5-21-"
SET_PROPERTIES: Final = int(QueueAccess.SET_QUEUE_PROPERTIES)  # the same bit for every kind of object
_CHANGES: Final = ((DELETE, "delete it"), (SET_PROPERTIES, "set its properties"))
_RECEIVES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "queue": int(QueueAccess.RECEIVE_MESSAGE | QueueAccess.RECEIVE_JOURNAL_MESSAGE),
        "queue-manager": int(
            MachineAccess.RECEIVE_DEADLETTER_MESSAGE | MachineAccess.RECEIVE_JOURNAL_QUEUE_MESSAGE
        ),
    }
)
_ALLOWS: Final = frozenset(
    {AceType.ACCESS_ALLOWED, AceType.ACCESS_ALLOWED_OBJECT, AceType.ACCESS_ALLOWED_CALLBACK}
)
_DENIES: Final = frozenset({AceType.ACCESS_DENIED, AceType.ACCESS_DENIED_OBJECT})
REFUSALS: Final = frozenset(
    {
        *_DENIES,
        AceType.ACCESS_DENIED_CALLBACK,
        AceType.ACCESS_DENIED_CALLBACK_OBJECT,
    }
)


@dataclass(frozen=True, slots=True)
class Case:
    """Input of an examiner.

    Attributes:
        type: of the object, as on the command line.
        values: of the columns that the rule names, in its order.
        now: the moment of the validation, with a time zone.
    """

    type: str
    values: tuple[Any, ...]
    now: datetime


Examiner = Callable[[Case], Iterable[Verdict]]


# -- security descriptors


def examine_descriptor(case: Case) -> Iterator[Verdict]:
    """Examine a descriptor by MSMQ's access masks."""
    try:
        descriptor = SecurityDescriptor.from_bytes(case.values[0])
    except ValueError as error:
        yield "security-parses", f"Security is no descriptor: {error}"
        return
    if descriptor.owner is None:
        yield "security-owner", "Security has no owner"
    elif (who := name_of_many(descriptor.owner)) is not None:
        yield "everyone-owns", f"{who} ({descriptor.owner}) owns it"
    if descriptor.dacl is None:
        form = "a NULL DACL" if descriptor.dacl_form is AclForm.NULL else "no DACL"
        yield "security-dacl", f"Security has {form}: everybody may do everything"
        return
    if not _is_canonical(descriptor.dacl.aces):
        yield "security-dacl-order", "entries of Security are not in canonical order: tools may reorder them"
    yield from _find_excessive_rights(case.type, descriptor.dacl.aces)


def _is_canonical(aces: Sequence[Ace]) -> bool:
    """Return True if the entries of an ACL are in canonical order.

    Own denials precede own grants; inherited entries (in any order) come last.
    """
    explicit_aces = [ace for ace in aces if not ace.inherited]
    if list(aces[: len(explicit_aces)]) != explicit_aces:
        return False
    ranks = [0 if ace.type in REFUSALS else 1 for ace in explicit_aces]
    return ranks == sorted(ranks)


def _find_excessive_rights(name: str, aces: Sequence[Ace]) -> Iterator[Verdict]:
    kind = kind_of(name)
    receives = _RECEIVES.get(name, 0)
    fully_granted = dict(_find_full_control(aces, kind))
    for words in fully_granted.values():
        yield "everyone-full-control", words
    for sid, who in UNKNOWN_PEOPLE.items():
        if sid in fully_granted:
            continue
        mask = find_granted_rights(sid, aces, kind)
        if mask & (WRITE_DAC | WRITE_OWNER):
            rights = [
                word
                for bit, word in ((WRITE_OWNER, "take ownership"), (WRITE_DAC, "change permissions"))
                if mask & bit
            ]
            yield "everyone-takes-ownership", f"{who} ({sid}) may {' and '.join(rights)}"
        if mask & (DELETE | SET_PROPERTIES):
            changes = " and ".join(word for bit, word in _CHANGES if mask & bit)
            yield "everyone-changes", f"{who} ({sid}) may {changes}"
        if mask & receives:
            yield "everyone-receives", f"{who} ({sid}) may receive or peek messages: {mask & receives:#x}"


def _find_full_control(aces: Sequence[Ace], kind: AccessKind) -> Iterator[tuple[Sid, str]]:
    """Yield groups of many whose members may do everything, with words to report.

    A member has the rights of the group and of the groups above. Where a group above has all rights already,
    the group adds nothing.
    """
    full: set[Sid] = set()
    named = dict.fromkeys([*UNKNOWN_PEOPLE, *(ace.sid for ace in aces if ace.sid is not None)])
    for sid in sorted(named, key=lambda sid: len(groups_of(sid))):
        who, groups = name_of_many(sid), groups_of(sid)
        if who is None:
            continue
        if find_granted_rights(sid, aces, kind) & kind.all == kind.all:
            words = f"{who} ({sid}) may do everything"
        elif full.isdisjoint(groups) and find_granted_rights(sid, aces, kind, *groups) & kind.all == kind.all:
            others = " and ".join(
                name_of_many(group) or "" for group in groups if find_granted_rights(group, aces, kind)
            )
            words = f"{who} ({sid}) may do everything, with the rights of {others}"
        else:
            continue
        full.add(sid)
        yield sid, words


def name_of_many(sid: Sid) -> str | None:
    """Return the name of unknown people, or of a group that nearly all users are in.

    Returns None for another SID.
    """
    domain, _, last = sid.text.rpartition("-")
    if domain.startswith(_DOMAIN):
        return _DOMAIN_GROUPS.get(last)
    return UNKNOWN_PEOPLE.get(sid) or WIDE_GROUPS.get(sid)


def groups_of(sid: Sid) -> tuple[Sid, ...]:
    """Return the wide groups that an account, or every member of a group, is in.

    The group itself is not among them.
    """
    who = name_of_many(sid)
    return _OF_ALL if who is None else _GROUPS_OF[who]


def find_granted_rights(sid: Sid, aces: Sequence[Ace], kind: AccessKind, *groups: Sid) -> int:
    """Return the rights that a DACL grants to one SID, by all entries together.

    Entries count in the order of the DACL: a right that an earlier entry denies to the SID, or to a wide
    group of all who have the SID, is not granted. Entries for objects below, and for one type of objects or
    one right, do not count.

    Args:
        sid: the account or group.
        aces: entries of the DACL.
        kind: access rights of the object.
        groups: more SIDs whose rights count.
    """
    allowed = denied = 0
    grantees, refused = {sid, *groups}, {sid, *groups_of(sid)}
    for ace in aces:
        if ace.flags & AceFlags.INHERIT_ONLY or ace.object_type or ace.inherited_object_type:
            continue
        mask = map_generic(ace.mask, kind.rights)
        if ace.type in _ALLOWS and ace.sid in grantees:
            allowed |= mask & ~denied
        elif ace.type in _DENIES and ace.sid in refused:
            denied |= mask & ~allowed
    return allowed


def kind_of(name: str) -> AccessKind:
    """Return the access rights of a type of objects."""
    return KINDS[TABLES[TYPES[name]].ldap_class]


def examine_stored_descriptor(case: Case) -> Iterator[Verdict]:
    """Examine a descriptor as Active Directory holds it.

    MSMQ masks that are not translated are found (decision M31), and full control by inherited entries, which
    Security does not have.
    """
    try:
        descriptor = SecurityDescriptor.from_bytes(case.values[0])
    except ValueError:
        return  # security-parses
    kind = kind_of(case.type)
    raw = [ace for ace in descriptor.explicit_aces() if is_raw(ace, kind)]
    if raw:
        examples = ", ".join(f"{ace.mask:#x} for {ace.sid}" for ace in raw[:3])
        yield "security-masks-untranslated", f"masks of MSMQ stand in the directory as they are: {examples}"
    aces = descriptor.dacl.aces if descriptor.dacl is not None else ()
    if any(ace.inherited for ace in aces):
        own = dict(
            _find_full_control(_translate_aces((ace for ace in aces if not ace.inherited), kind), kind)
        )
        for sid, words in _find_full_control(_translate_aces(aces, kind), kind):
            if sid not in own:
                yield "everyone-inherits-control", f"{words}, by entries that are inherited"


def _translate_aces(aces: Iterable[Ace], kind: AccessKind) -> list[Ace]:
    """Translate those entries of Active Directory that decide about an object.

    The type of objects that inherit an entry does not matter for the object itself.
    """
    effective = (
        replace(ace, inherited_object_type=None) for ace in aces if not ace.flags & AceFlags.INHERIT_ONLY
    )
    return [entry for ace in effective if (entry := map_ace_from_directory(ace, kind)) is not None]


# -- certificates and keys


def examine_certificates(case: Case) -> Iterator[Verdict]:
    """Examine the certificates of a user."""
    try:
        certs = UserSignCerts.from_bytes(case.values[0]).certificates
    except ValueError as error:
        yield "certificate-parses", f"Certificates is no list of certificates: {error}"
        return
    for number, cert in enumerate(certs, 1):
        yield from _examine_certificate(number, cert, case.now)


def _examine_certificate(number: int, cert: UserSignCert, now: datetime) -> Iterator[Verdict]:
    called = f"certificate {number} ({cert.digest.hex()})"
    try:
        x509 = cert.load_certificate()
        ends, begins = x509.not_valid_after_utc, x509.not_valid_before_utc
    except ValueError as error:
        yield "certificate-parses", f"{called} is no X.509 certificate: {error}"
        return
    if ends < now:
        yield "certificate-expired", f"{called} has expired on {ends:%Y-%m-%d}"
    if begins > now:
        yield "certificate-not-yet-valid", f"{called} is valid from {begins:%Y-%m-%d}"


def examine_digests(case: Case) -> Iterator[Verdict]:
    """Compare the digests of a user with the certificates."""
    image, listed = case.values
    try:
        stored = UserSignCerts.from_bytes(image).certificates if image else ()
    except ValueError:
        return  # certificate-parses
    listed_digests = frozenset(listed or ())
    computed = {digest_of(item.der) for item in stored}
    for cert in stored:
        if not cert.digest_matches:
            real = digest_of(cert.der).hex()
            yield "digests-match", f"a certificate says that its digest is {cert.digest.hex()}, it is {real}"
    for digest in sorted(listed_digests - computed):
        yield "digests-match", f"digest {digest.hex()} has no certificate"
    for digest in sorted(computed - listed_digests):
        yield "digests-match", f"certificate {digest.hex()} has no digest"


def examine_public_keys(case: Case) -> Iterator[Verdict]:
    """Examine a list of public keys.

    The list for signing may contain certificates instead.
    """
    image = case.values[0]
    try:
        PublicKeys.from_bytes(image)
    except ValueError as error:
        try:
            UserSignCerts.from_bytes(image)
        except ValueError:
            yield "queue-manager-public-key-form", f"the list of keys cannot be decoded: {error}"


# -- names


def examine_queue_name(case: Case) -> Iterator[Verdict]:
    """Compare the two parts of a long queue name with its hash (decision M7)."""
    dn, extension = case.values
    try:
        cn = DN.parse(dn).name
    except ValueError as error:
        yield "queue-name-hash", f"FullPath is no DN: {error}"
        return
    name = name_of(cn, extension)
    if any(
        rdn.cn.lower() == cn.lower() and _is_same_text(rdn.extension, extension)
        for rdn in list_rdn_candidates(name)
    ):
        return
    tail = cn[-HASH_DIGITS:]
    expected = (
        " or ".join(rdn.cn[-HASH_DIGITS:] for rdn in list_rdn_candidates(name) if rdn.extension) or "none"
    )
    yield (
        "queue-name-hash",
        f"the hash of {name} is {expected}, cn ends in {tail}, mSMQQueueNameExt is {extension or 'not set'}",
    )


def _is_same_text(first: str | None, second: str | None) -> bool:
    return (first or "").lower() == (second or "").lower()


EXAMINERS: Final[Mapping[str, Examiner]] = MappingProxyType(
    {
        "descriptor": examine_descriptor,
        "stored-descriptor": examine_stored_descriptor,
        "certificates": examine_certificates,
        "digests": examine_digests,
        "public-keys": examine_public_keys,
        "queue-name": examine_queue_name,
    }
)
"""Examiners by their name in rules."""
