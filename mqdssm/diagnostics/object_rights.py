"""Rights on queues and queue managers as people ask for them.

The questions are: who may use an object, and by which membership; and what a user may do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mqdssm.diagnostics.accounts import Account, AccountDirectory, Membership, TooMany
from mqdssm.directory.entries import Entry
from mqdssm.directory.session import Session
from mqdssm.errors import DecodeError, MqdssmError
from mqdssm.model.queuenames import name_of
from mqdssm.tables.access import KINDS
from mqdssm.tables.access_check import CheckedAccess, check_access
from mqdssm.wire.acl import Ace, AceFlags, AceType
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import MachineAccess, QueueAccess
from mqdssm.wire.sid import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, Sid

DESCRIPTOR: Final = "nTSecurityDescriptor"
RIGHTS: Final[Mapping[str, Mapping[str, int]]] = {
    "mSMQQueue": {
        "Send": int(QueueAccess.WRITE_MESSAGE),
        "Receive": int(QueueAccess.RECEIVE_MESSAGE),
        "Peek": int(QueueAccess.PEEK_MESSAGE),
        "ReceiveJournal": int(QueueAccess.RECEIVE_JOURNAL_MESSAGE),
        "GetProperties": int(QueueAccess.GET_QUEUE_PROPERTIES),
        "SetProperties": int(QueueAccess.SET_QUEUE_PROPERTIES),
        "Delete": int(QueueAccess.DELETE_QUEUE),
        "GetPermissions": int(QueueAccess.GET_QUEUE_PERMISSIONS),
        "ChangePermissions": int(QueueAccess.CHANGE_QUEUE_PERMISSIONS),
        "TakeOwnership": int(QueueAccess.TAKE_QUEUE_OWNERSHIP),
    },
    "mSMQConfiguration": {
        "CreateQueue": int(MachineAccess.CREATE_QUEUE),
        "ReceiveDeadLetter": int(MachineAccess.RECEIVE_DEADLETTER_MESSAGE),
        "PeekDeadLetter": int(MachineAccess.PEEK_DEADLETTER_MESSAGE),
        "ReceiveJournal": int(MachineAccess.RECEIVE_JOURNAL_QUEUE_MESSAGE),
        "PeekJournal": int(MachineAccess.PEEK_JOURNAL_QUEUE_MESSAGE),
        "GetProperties": int(MachineAccess.GET_MACHINE_PROPERTIES),
        "SetProperties": int(MachineAccess.SET_MACHINE_PROPERTIES),
        "Delete": int(MachineAccess.DELETE_MACHINE),
        "GetPermissions": int(MachineAccess.GET_MACHINE_PERMISSIONS),
        "ChangePermissions": int(MachineAccess.CHANGE_MACHINE_PERMISSIONS),
        "TakeOwnership": int(MachineAccess.TAKE_MACHINE_OWNERSHIP),
    },
}
"""Rights on objects of a class, by name, and the bits that each needs ([MS-MQMQ] 2.2.23, 2.2.24)."""
_EVERYBODY: Final = (EVERYONE, AUTHENTICATED_USERS, ANONYMOUS)
DESCRIPTORS_KEPT: Final = 10_000
_COLUMNS: Final = ("cn", "mSMQQueueNameExt", DESCRIPTOR)


@dataclass(frozen=True, slots=True)
class ObjectAccess:
    """The access control of one object, with MSMQ's masks.

    Attributes:
        name: of the object, for people.
        dn: its DN.
        ldap_class: its class.
        owner: its owner.
        entries: of the DACL, in their order, inherited ones too; None without a DACL.
        problem: reason why there is nothing; empty if there is a descriptor.
    """

    name: str
    dn: str
    ldap_class: str
    owner: Sid | None
    entries: tuple[Ace, ...] | None
    problem: str = ""

    def check(self, sids: Iterable[Sid]) -> CheckedAccess:
        """Return the rights of a user with some SIDs."""
        kind = KINDS[self.ldap_class].rights
        if self.problem:
            return CheckedAccess(0, {})
        return check_access(self.entries, self.owner, frozenset(sids), kind)


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights of one account on an object, with the reasons.

    Attributes:
        account: the account.
        rights: names of the rights.
        by: for each right, the account of the entry that decided, with the membership, in words.
        refused: rights that an entry refuses, and the words for it.
    """

    account: Account
    rights: tuple[str, ...]
    by: Mapping[str, str]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ObjectRights:
    """Rights of all accounts on one object.

    Attributes:
        access: of the object.
        grants: what accounts may do.
        not_expanded: groups that were not expanded, and the reasons.
    """

    access: ObjectAccess
    grants: Sequence[Grant]
    not_expanded: Mapping[str, str]


class AccessReader:
    """Reader of access control.

    Args:
        session: of the directory.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._entries: dict[tuple[str, bytes], tuple[Ace, ...]] = {}

    def read(self, ldap_class: str, dn: str) -> ObjectAccess:
        """Read the access control of an object.

        Raises:
            ObjectNotFound: there is no such object.
            DirectoryError: the directory cannot be read.
        """
        return self._build_access(ldap_class, self._session.get(dn, _COLUMNS))

    def read_all(self, ldap_class: str) -> Iterator[ObjectAccess]:
        """Read the access control of all objects of a class.

        Raises:
            DirectoryError: the directory cannot be read.
        """
        search_filter = self._session.profile.build_class_filter(ldap_class)
        for entry in self._session.find(self._session.naming.root, search_filter, _COLUMNS):
            yield self._build_access(ldap_class, entry)

    def _build_access(self, ldap_class: str, entry: Entry) -> ObjectAccess:
        name = _format_object_name(ldap_class, entry)
        image = entry.first(DESCRIPTOR)
        if image is None:
            return ObjectAccess(name, entry.dn, ldap_class, None, (), "its descriptor is missing or hidden")
        try:
            stored = SecurityDescriptor.from_bytes(image)
        except DecodeError as error:
            return ObjectAccess(name, entry.dn, ldap_class, None, (), f"its descriptor is damaged: {error}")
        if stored.dacl is None:
            return ObjectAccess(name, entry.dn, ldap_class, stored.owner, None)
        key = (ldap_class, image)
        if key not in self._entries:
            if len(self._entries) >= DESCRIPTORS_KEPT:
                self._entries.clear()
            self._entries[key] = tuple(
                own for ace in stored.dacl.aces for own in self._convert_entry(ldap_class, ace)
            )
        return ObjectAccess(name, entry.dn, ldap_class, stored.owner, self._entries[key])

    def _convert_entry(self, ldap_class: str, ace: Ace) -> Iterator[Ace]:
        """Yield the entries with MSMQ's masks for a stored entry (decision M121).

        An inherited entry counts as one of the object; its flag is kept for people. Entries that are only for
        objects below are left out.
        """
        if ace.flags & AceFlags.INHERIT_ONLY:
            return
        own = replace(ace, flags=ace.flags & ~AceFlags.INHERITED)
        if ace.inherited and ace.inherited_object_type is not None:  # the server compared the class
            own = replace(own, inherited_object_type=None)
        image = bytes(SecurityDescriptor.build(dacl=[own]))
        translated = SecurityDescriptor.from_bytes(self._session.profile.decode_security(ldap_class, image))
        for entry in translated.dacl.aces if translated.dacl is not None else ():
            yield replace(entry, flags=entry.flags | (ace.flags & AceFlags.INHERITED))


def _format_object_name(ldap_class: str, entry: Entry) -> str:
    name = entry.name
    if ldap_class != "mSMQQueue":
        return name.parent.name if len(name) > 1 else entry.dn
    extension = entry.first("mSMQQueueNameExt")
    queue = name_of(name.name, None if extension is None else extension.decode("utf-8", "replace"))
    return f"{name.parent.parent.name}\\{queue}" if len(name) > 2 else entry.dn


# -- who may


def find_object_rights(access: ObjectAccess, accounts: AccountDirectory) -> ObjectRights:
    """Find all accounts that the entries of an object concern, with their rights.

    Groups are expanded. Everyone, Authenticated Users and Anonymous are not: they are answered as themselves.

    Raises:
        DirectoryError: the directory cannot be read.
    """
    named = _collect_sids(access)
    paths: dict[Sid, dict[Sid, Membership]] = {}  # account -> SID of an entry -> membership
    account_of: dict[Sid, Account] = {}
    not_expanded: dict[str, str] = {}
    refused = {ace.sid for ace in access.entries or () if ace.type == AceType.ACCESS_DENIED}
    for sid in named:
        account = accounts.by_sid(sid)
        if account.kind == "distribution group":
            not_expanded[account.title] = "it is a distribution group, which gives no rights"
            continue
        account_of[sid] = account
        paths.setdefault(sid, {})[sid] = Membership(account)
        if account.kind != "group":
            continue
        try:
            members = accounts.members(account)
        except TooMany as error:
            loss = "; its members may lack rights that they seem to have here" if sid in refused else ""
            not_expanded[account.title] = f"{error}{loss}"
            continue
        for member in members:
            account_of.setdefault(member.account.sid, member.account)
            paths.setdefault(member.account.sid, {}).setdefault(sid, member)
    grants = [_grant(access, account_of[sid], paths) for sid in paths]
    concerned = [grant for grant in grants if grant.rights or grant.refused]
    order = sorted(
        concerned, key=lambda grant: (grant.account.sid not in _EVERYBODY, grant.account.name.casefold())
    )
    return ObjectRights(access, order, not_expanded)


def _collect_sids(access: ObjectAccess) -> list[Sid]:
    """Return the SIDs of the entries and of the owner; without a DACL, everybody."""
    entries = access.entries
    if access.problem:
        return []
    sids = [EVERYONE, ANONYMOUS] if entries is None else [ace.sid for ace in entries if ace.sid is not None]
    return list(dict.fromkeys([*sids, *([access.owner] if access.owner is not None else [])]))


def _grant(access: ObjectAccess, account: Account, paths: Mapping[Sid, Mapping[Sid, Membership]]) -> Grant:
    """Return the rights of an account.

    Args:
        access: of the object.
        account: the account.
        paths: memberships of all accounts; those of Everyone and Authenticated Users, as in the group Users,
            are memberships of others, too.
    """
    always = _sids_of_every_token(account)
    memberships: dict[Sid, Membership] = {}
    for sid in (EVERYONE, AUTHENTICATED_USERS):
        if sid in always:
            memberships |= paths.get(sid, {})
    memberships |= paths[account.sid]
    return grant_of(access, account, access.check({account.sid, *memberships} | always), memberships)


def _sids_of_every_token(account: Account) -> frozenset[Sid]:
    """Return the SIDs that every token of an account has."""
    if account.sid == EVERYONE:
        return frozenset()
    if account.sid == ANONYMOUS:
        return frozenset({EVERYONE})
    return frozenset({EVERYONE, AUTHENTICATED_USERS})


def grant_of(
    access: ObjectAccess, account: Account, checked: CheckedAccess, memberships: Mapping[Sid, Membership]
) -> Grant:
    """Describe the result of an access check."""
    names = RIGHTS[access.ldap_class]
    granted = tuple(name for name, mask in names.items() if checked.has(mask))
    by = {
        name: _explain_access(access, checked.entries(names[name]), account, memberships) for name in granted
    }
    refused = {}
    for name, mask in names.items():
        entries = [
            entry
            for entry in checked.entries(mask)
            if entry is not None and entry.type == AceType.ACCESS_DENIED
        ]
        if entries:
            refused[name] = _explain_access(access, entries, account, memberships)
    return Grant(account, granted, by, refused)


def _explain_access(
    access: ObjectAccess,
    entries: Sequence[Ace | None],
    account: Account,
    memberships: Mapping[Sid, Membership],
) -> str:
    reasons = []
    for entry in entries:
        if entry is None:
            reasons.append("there is no DACL" if access.entries is None else "it is the owner")
            continue
        membership = memberships.get(entry.sid) if entry.sid is not None else None
        if entry.sid == account.sid:
            words = "an entry for the account"
        elif membership is not None and membership.path and entry.sid not in _EVERYBODY:
            words = f"a member of {membership.words}"
        else:
            words = f"an entry for {_EVERYBODY_NAMES.get(entry.sid, entry.sid)}"
        reasons.append(f"{words}{' (inherited)' if entry.inherited else ''}")
    return "; ".join(dict.fromkeys(reasons))


_EVERYBODY_NAMES: Final[Mapping[Sid | None, str]] = {
    EVERYONE: "Everyone",
    AUTHENTICATED_USERS: "Authenticated Users",
    ANONYMOUS: "Anonymous",
}


# -- what may a user


class UserRights:
    """Rights of membership user on many objects.

    Attributes:
        account: the user.
        memberships: all groups.

    Args:
        account: the user.
        accounts: of the directory.

    Raises:
        DirectoryError: the directory cannot be read.
    """

    def __init__(self, account: Account, accounts: AccountDirectory) -> None:
        self.account = account
        try:
            self.memberships = accounts.groups(account)
        except TooMany as error:
            raise MqdssmError(f"{account.title} has {error}") from error
        self._by_sid = {membership.account.sid: membership for membership in self.memberships} | {
            account.sid: Membership(account)
        }

    def on(self, access: ObjectAccess) -> Grant:
        """Return the rights on an object."""
        return grant_of(access, self.account, access.check(self._by_sid), self._by_sid)
