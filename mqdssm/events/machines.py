"""Look-up of computer objects ([MS-MQDSSM] 2.2.1; decision M16)."""

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, LdapFilter, Substrings, any_of
from mqdssm.directory.session import Session
from mqdssm.errors import DecodeError, GenericDirectoryError, ObjectNotFound
from mqdssm.events import forest
from mqdssm.events.context import Context, Machine
from mqdssm.tables.places import computer_dn
from mqdssm.wire.sid import Sid

T = TypeVar("T")

COMPUTER_CLASS = "computer"
ACCOUNT_CHARACTERS_MAX: Final = 15
"""Maximum characters of a computer's name in its account name, as in NetBIOS."""


def find_machine(ctx: Context, name: str) -> Machine:
    """Find the computer with a name: at the place of 2.2.1, else by one search.

    Raises:
        ObjectNotFound: there is none.
        GenericDirectoryError: several computers have that name.
        ValueError: a name that cannot be one.
    """
    if not name:
        raise ValueError("ComputerName is empty: it names no computer")
    cached = ctx.machines.get(name)
    if cached is not None:
        return cached
    place = _read_at_usual_place(ctx, name)
    entry = (
        place if place is not None and _has_account(ctx, place, name) else _search_machine(ctx, name, place)
    )
    machine = Machine(entry.name, _sid_of(entry))
    ctx.machines.put(name, machine)
    return machine


def _sid_of(entry: Entry) -> Sid | None:
    """Return the SID of a computer, if it has one.

    Raises:
        GenericDirectoryError: it is damaged.
    """
    raw = entry.first("objectSid")
    try:
        return None if raw is None else Sid.from_bytes(raw)
    except DecodeError as error:
        raise GenericDirectoryError(f"objectSid of the computer is damaged: {error}", dn=entry.dn) from error


def call_with_machine(ctx: Context, name: str, work: Callable[[Machine], T]) -> T:
    """Call `work` with a computer, and again if the cached computer was moved.

    Raises:
        ObjectNotFound: there is no such computer, or what `work` looked for is not there.
    """
    remembered = ctx.machines.get(name)
    try:
        return work(find_machine(ctx, name))
    except ObjectNotFound:
        ctx.machines.forget(name)
        if remembered is None or find_machine(ctx, name) == remembered:
            raise
    return work(find_machine(ctx, name))


def _read_at_usual_place(ctx: Context, name: str) -> Entry | None:
    place = computer_dn(ctx.root, name)
    try:
        return forest.get(
            ctx, place, _list_attributes(ctx), ctx.session.profile.build_class_filter(COMPUTER_CLASS)
        )
    except ObjectNotFound:
        return None


def _search_machine(ctx: Context, name: str, place: Entry | None) -> Entry:
    """Return the computer with this account name, at this place or with this cn.

    The three are tried in this order.
    """
    session = forest.choose_search_session(ctx, COMPUTER_CLASS)
    search_filter = session.profile.build_computer_filter(name)
    entries = list(session.find(session.naming.root, search_filter, _list_attributes(ctx)))
    accounts = [entry for entry in entries if _has_account(ctx, entry, name)]
    entries = accounts or ([place] if place is not None else entries)
    if not entries:
        raise ObjectNotFound(
            f"there is no computer named {name!r}",
            dn=str(computer_dn(ctx.root, name)),
            hint="create the computer object first; it belongs to the domain, not to MSMQ",
        )
    if len(entries) > 1:
        places = "; ".join(entry.dn for entry in entries)
        raise GenericDirectoryError(f"{len(entries)} computers are named {name!r}: {places}")
    return entries[0]


def _has_account(ctx: Context, entry: Entry, name: str) -> bool:
    """Return True if the computer's account has that name.

    Also True if the server has no such accounts.
    """
    attribute = ctx.session.profile.computer_account
    if attribute is None:
        return True
    account = (entry.first(attribute) or b"").decode(errors="replace").lower()
    return account in {f"{name}$".lower(), f"{name[:ACCOUNT_CHARACTERS_MAX]}$".lower()}


def _list_attributes(ctx: Context) -> list[str]:
    account = ctx.session.profile.computer_account
    return ["objectSid"] if account is None else ["objectSid", account]


log: Final = logging.getLogger(__name__)

_ALIKE_MAX: Final = 3
"""Maximum computers that a warning names."""


def find_computer_names(session: Session, names: Iterable[str]) -> tuple[frozenset[str], dict[str, str]]:
    """Find computers by their names, as all events find them (decision M16).

    Returns:
        The names that the entries of these computers have, in lower case. For each name that no computer has:
        a warning.
    """
    ctx = Context(session)
    computers: set[str] = set()
    warnings: dict[str, str] = {}
    for name in names:
        try:
            computers.add(find_machine(ctx, name).dn.name.lower())
        except ObjectNotFound:
            warnings[name] = _make_warning(session, name)
        except GenericDirectoryError as error:
            if error.ldap_code is not None:
                raise  # a refusal of the server
            log.info("%s: only its name counts", error)
    return frozenset(computers), warnings


def _make_warning(session: Session, name: str) -> str:
    alike = _find_similar_names(session, name)
    suggestion = f"; did you mean {' or '.join(alike)}?" if alike else ""
    return f"there is no computer named {name!r}: nothing is told of it until there is one{suggestion}"


def _find_similar_names(session: Session, name: str) -> list[str]:
    """Return the names of computers with a similar DNS or NetBIOS name."""
    label = name.partition(".")[0].encode()
    tests: list[LdapFilter] = [Equal("dNSHostName", name.encode())]
    if label:
        longer = label + b"."
        tests += [Equal("cn", label), Substrings("cn", longer), Substrings("dNSHostName", longer)]
    search_filter = And((session.profile.build_class_filter(COMPUTER_CLASS), any_of(*tests)))
    entries = list(session.find(session.naming.root, search_filter, ["cn"]))
    return [entry.name.name for entry in entries[:_ALIKE_MAX]]
