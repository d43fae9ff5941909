"""Accounts of a directory: names, members of groups, groups of an account.

Every walk through groups visits a group once, so cycles end it, and has a limit.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Equal, LdapFilter, all_of, any_of
from mqdssm.directory.session import Session
from mqdssm.errors import DecodeError, ObjectNotFound
from mqdssm.model.dn import DN, normalize
from mqdssm.tables.account_names import WELL_KNOWN_NAMES, find_known_name
from mqdssm.wire.sid import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, Sid

MEMBERS_MAX: Final = 10_000
"""Maximum number of members that are read of one group with all groups in it."""
GROUPS_MAX: Final = 5_000
"""Maximum number of groups of one account."""
_BATCH: Final = 50
"""Conditions of one filter."""
_SECURITY_ENABLED: Final = 0x8000_0000  # groupType, [MS-ADTS] 2.2.12
_ATTRIBUTES: Final = (
    "groupType",
    "objectSid",
    "sAMAccountName",
    "cn",
    "objectClass",
    "primaryGroupID",
    "userPrincipalName",
)
_AUTHORITIES: Final = frozenset({"builtin", "nt authority"})
"""Names in front of accounts that every domain has."""
_NUMBER: Final = re.compile(r"-?\d{1,10}")
_DOMAIN_ATTRIBUTES: Final = ("securityIdentifier", "flatName", "trustPartner")


@dataclass(frozen=True, slots=True)
class Account:
    """A user, computer or group.

    Attributes:
        sid: its SID.
        name: its name; the SID if it has none.
        kind: ``user``, ``computer``, ``group``, ``well-known``, ``foreign``, ``unknown``, or ``distribution
            group``, which gives no rights.
        dn: its DN; empty if the directory does not have it.
        primary_group: relative identifier of its primary group; None without one.
    """

    sid: Sid
    name: str
    kind: str
    dn: str = ""
    primary_group: int | None = None

    @property
    def title(self) -> str:
        """Name and SID."""
        return self.name if self.name == self.sid.text else f"{self.name} ({self.sid})"


@dataclass(frozen=True, slots=True)
class Membership:
    """An account and the groups through which it belongs to another group.

    Attributes:
        account: the account.
        path: groups, from the one that the account is a member of up to the outermost group.
    """

    account: Account
    path: tuple[Account, ...] = ()

    @property
    def words(self) -> str:
        """The path in words."""
        return " in ".join(group.name for group in self.path)


class TooMany(Exception):  # noqa: N818  as EndOfData
    """A group has more members, or an account more groups, than are read."""


class AccountDirectory:
    """Accounts of one directory.

    Args:
        session: of the directory.
        members_max: maximum number of members that are read of a group.
    """

    def __init__(self, session: Session, *, members_max: int = MEMBERS_MAX) -> None:
        self._session = session
        self._members_max = members_max
        self._by_sid: dict[Sid, Account] = {}
        self._members: dict[str, list[Account]] = {}

    # -- one account

    def by_sid(self, sid: Sid) -> Account:
        """Return the account of a SID, with the best name that is visible here."""
        if sid not in self._by_sid:
            self._by_sid[sid] = self._read_account(sid)
        return self._by_sid[sid]

    def find(self, text: str) -> Account:
        r"""Find an account by SID, DN, user principal name or account name.

        An account name may have the directory's domain in front, as ``CONTOSO\ann``.

        Raises:
            ObjectNotFound: there is none, there are several, or the domain is another one.
            DirectoryError: the directory cannot be read.
        """
        for sid_text, name in WELL_KNOWN_NAMES.items():
            if text.casefold() == name.casefold():
                return self.by_sid(Sid(sid_text))
        if text.upper().startswith("S-1-"):
            return self.by_sid(Sid.parse(text))
        entries = list(self._search_text(text))
        if len(entries) != 1:
            hint = "; ".join(entry.dn for entry in entries[:5])
            problem = "several accounts have this name" if entries else "there is no such account with a SID"
            raise ObjectNotFound(problem, dn=text, hint=hint)
        account = _make_account(entries[0])
        if account is None:
            raise ObjectNotFound("this account has no SID: no entry can name it", dn=entries[0].dn)
        return account

    def _search_text(self, text: str) -> Iterator[Entry]:
        if "=" in text and _is_dn(text):
            yield self._session.get(text, _ATTRIBUTES)
            return
        domain, _, name = text.rpartition("\\")
        if domain:
            self._check_domain(domain, text)
        candidates: list[LdapFilter] = [Equal("sAMAccountName", name.encode())]
        candidates.append(Equal("sAMAccountName", f"{name}$".encode()))
        if "@" in name:
            candidates.append(Equal("userPrincipalName", name.encode()))
        else:
            candidates.append(Equal("cn", name.encode()))
        entries = [
            entry
            for entry in self._session.find(self._session.naming.root, any_of(*candidates), _ATTRIBUTES)
            if entry.first("objectSid") is not None
        ]
        exact = [
            entry for entry in entries if _decode_text(entry, "sAMAccountName").casefold() == name.casefold()
        ]
        yield from exact or entries

    def _check_domain(self, name: str, text: str) -> None:
        """Refuse the name of another domain, which may have an account of that name, too.

        Raises:
            ObjectNotFound: it is not the domain of the directory.
        """
        own: DN = self._session.naming.default
        labels = [rdn[0][1] for rdn in own.rdns]
        if name.casefold() in {*_AUTHORITIES, own.name.casefold(), ".".join(labels).casefold()}:
            return
        of_name = all_of(Equal("objectClass", b"crossRef"), Equal("nETBIOSName", name.encode()))
        for entry in self._session.find(self._session.naming.configuration, of_name, ["nCName"]):
            if normalize(_decode_text(entry, "nCName")) == own.normalized:
                return
        raise ObjectNotFound(
            f"{name} is not the domain of this directory, {'.'.join(labels)}",
            dn=text,
            hint="give the SID of an account of another domain",
        )

    def _read_account(self, sid: Sid) -> Account:
        well_known = WELL_KNOWN_NAMES.get(sid.text, "")
        if well_known and not sid.text.startswith("S-1-5-32-"):
            return Account(sid, well_known, "well-known")
        foreign_dn = ""
        for entry in self._search_sid(sid):
            account = _make_account(entry)
            if account is not None and account.kind != "foreign":
                return replace(account, name=well_known or account.name)
            foreign_dn = entry.dn
        name = find_known_name(sid.text)
        domain = "" if sid.domain is None else self._domains.get(sid.domain, "")
        if domain:
            return Account(sid, f"{domain}\\{name or sid.rid}", "foreign", foreign_dn)
        return Account(sid, name or sid.text, "foreign" if foreign_dn else "unknown", foreign_dn)

    def _search_sid(self, sid: Sid) -> Iterator[Entry]:
        """Search an account, also in the global catalog."""
        search_filter = Equal("objectSid", bytes(sid))
        yield from self._session.find(self._session.naming.root, search_filter, _ATTRIBUTES)
        catalog = self._session.catalog
        if catalog is not None:
            yield from catalog.find(catalog.naming.root, search_filter, _ATTRIBUTES)

    @cached_property
    def _domains(self) -> Mapping[Sid, str]:
        """Names of trusted domains, by SID."""
        names: dict[Sid, str] = {}
        search_filter = Equal("objectClass", b"trustedDomain")
        for entry in self._session.find(self._session.naming.root, search_filter, _DOMAIN_ATTRIBUTES):
            sid = _parse_sid(entry.first("securityIdentifier"))
            if sid is not None:
                names[sid] = _decode_text(entry, "flatName") or _decode_text(entry, "trustPartner")
        return names

    # -- members of groups

    def members(self, group: Account) -> list[Membership]:
        """Return all accounts in a group, also in groups in it.

        Each account has its shortest path. Groups are returned, too: an entry can name them.

        Raises:
            TooMany: the group has more members than are read.
            DirectoryError: the directory cannot be read.
        """
        memberships: dict[Sid, Membership] = {}
        waiting: list[tuple[Account, tuple[Account, ...]]] = [(group, (group,))]
        seen = {group.sid}
        while waiting:
            current, path = waiting.pop(0)
            for account in self._list_direct_members(current):
                if account.sid in seen:
                    continue
                seen.add(account.sid)
                memberships[account.sid] = Membership(account, path)
                if len(memberships) > self._members_max:
                    raise TooMany(f"more than {self._members_max} members")
                if account.kind == "group":
                    waiting.append((account, (account, *path)))
        return list(memberships.values())

    def _list_direct_members(self, group: Account) -> list[Account]:
        if not group.dn:
            return []
        key = normalize(group.dn)
        if key not in self._members:
            self._members[key] = list(self._read_members(group))
        return self._members[key]

    def _read_members(self, group: Account) -> Iterator[Account]:
        try:
            names = self._session.get(group.dn, ["member"]).all("member")
        except ObjectNotFound:
            return
        if len(names) > self._members_max:
            raise TooMany(f"more than {self._members_max} members")
        for entry in self._read_entries(group.dn, names):
            account = _make_account(entry)
            if account is not None:
                yield self.by_sid(account.sid) if account.kind == "foreign" else account
        for count, entry in enumerate(self._find_primary_members(group)):
            if count >= self._members_max:
                raise TooMany(f"more than {self._members_max} members")
            account = _make_account(entry)
            if account is not None:
                yield account

    def _find_primary_members(self, group: Account) -> Iterator[Entry]:
        """Yield the accounts with a primary group, which `member` does not have."""
        if group.sid.domain is None:
            return
        search_filter = Equal("primaryGroupID", str(group.sid.rid).encode())
        for entry in self._session.find(self._session.naming.root, search_filter, _ATTRIBUTES):
            sid = _parse_sid(entry.first("objectSid"))
            if sid is not None and sid.domain == group.sid.domain:
                yield entry

    def _read_entries(self, group: str, names: Iterable[bytes]) -> Iterator[Entry]:
        """Yield the members of a group, in one search if possible (decision M76).

        Members that were deleted, or that the server does not have, are left out.
        """
        listed = self._session.find_named(group, "member", _ATTRIBUTES)
        if listed is not None:
            yield from listed
            return
        for name in names:
            with contextlib.suppress(ObjectNotFound):
                yield self._session.get(name.decode(), _ATTRIBUTES)

    # -- groups of an account

    def groups(self, account: Account) -> list[Membership]:
        """Return all groups of an account, each with its path.

        Everyone, and for all but Anonymous Authenticated Users, are among them.

        Raises:
            TooMany: the account has more groups than are read.
            DirectoryError: the directory cannot be read.
        """
        memberships: dict[Sid, Membership] = {}
        waiting = [Membership(account)]
        for sid in (EVERYONE,) if account.sid == ANONYMOUS else (EVERYONE, AUTHENTICATED_USERS):
            if sid != account.sid:
                everybody = self.by_sid(sid)
                memberships[sid] = Membership(everybody, (everybody,))
                waiting.append(memberships[sid])
        while waiting:
            level = waiting[:_BATCH]
            del waiting[:_BATCH]
            for group, member in self._find_groups_above(level):
                if group.kind == "group" and group.sid not in memberships and group.sid != account.sid:
                    path = (*member.path, group)
                    memberships[group.sid] = Membership(group, path)
                    waiting.append(Membership(group, path))
                    if len(memberships) > GROUPS_MAX:
                        raise TooMany(f"more than {GROUPS_MAX} groups")
        return list(memberships.values())

    def _find_groups_above(self, members: Iterable[Membership]) -> Iterator[tuple[Account, Membership]]:
        """Yield the groups that some accounts are direct members of."""
        by_name = {
            normalize(name): member for member in members for name in self._list_member_names(member.account)
        }
        if by_name:
            search_filter = any_of(*(Equal("member", name.encode()) for name in by_name))
            columns = (*_ATTRIBUTES, "member")
            for entry in self._session.find(self._session.naming.root, search_filter, columns):
                group = _make_account(entry)
                if group is None:
                    continue
                for name in entry.all("member"):
                    member = by_name.get(normalize(name.decode()))
                    if member is not None:
                        yield group, member
                        break
        for member in members:
            group_id, domain = member.account.primary_group, member.account.sid.domain
            if group_id is not None and domain is not None:
                yield self.by_sid(Sid(f"{domain}-{group_id}")), member

    def _list_member_names(self, account: Account) -> list[str]:
        """Return the DNs under which groups name an account.

        The DN of its foreignSecurityPrincipal is one of them.
        """
        search_filter = all_of(
            Equal("objectClass", b"foreignSecurityPrincipal"), Equal("objectSid", bytes(account.sid))
        )
        foreign = (
            entry.dn for entry in self._session.find(self._session.naming.root, search_filter, ["objectSid"])
        )
        return [*([account.dn] if account.dn else []), *foreign]


def _make_account(entry: Entry) -> Account | None:
    """Return the account of an entry; None if it has no SID."""
    sid = _parse_sid(entry.first("objectSid"))
    if sid is None:
        return None
    classes = {value.decode("utf-8", "replace").casefold() for value in entry.all("objectClass")}
    kinds = {"foreignsecurityprincipal": "foreign", "group": "group", "computer": "computer"}
    kind = next((kind for ldap_class, kind in kinds.items() if ldap_class in classes), "user")
    group_type = _decode_text(entry, "groupType")
    if kind == "group" and _NUMBER.fullmatch(group_type) and not int(group_type) & _SECURITY_ENABLED:
        kind = "distribution group"
    name = _decode_text(entry, "sAMAccountName") or _decode_text(entry, "cn") or sid.text
    primary = _decode_text(entry, "primaryGroupID")
    return Account(sid, name, kind, entry.dn, int(primary) if primary.isdecimal() else None)


def _parse_sid(image: bytes | None) -> Sid | None:
    try:
        return None if image is None else Sid.from_bytes(image)
    except DecodeError:
        return None


def _decode_text(entry: Entry, name: str) -> str:
    return (entry.first(name) or b"").decode("utf-8", "replace")


def _is_dn(text: str) -> bool:
    try:
        return len(DN.parse(text)) > 0
    except ValueError:
        return False
