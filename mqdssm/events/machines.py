"""Finding computer objects ([MS-MQDSSM] 2.2.1; decision M16)."""

from collections.abc import Callable
from typing import TypeVar

from mqdssm.directory.filters import LdapFilter
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.events import forest
from mqdssm.events.context import Context, Machine
from mqdssm.model.dn import DN
from mqdssm.tables.places import computer_dn
from mqdssm.wire.sid import Sid

T = TypeVar("T")

COMPUTER_CLASS = "computer"


def find_machine(ctx: Context, name: str) -> Machine:
    """The computer of that name: where 2.2.1 says, else wherever one search finds it.

    Raises:
        ObjectNotFound: there is none.
        GenericDirectoryError: several computers have that name.
        ValueError: a name that cannot be one.
    """
    if not name:
        raise ValueError("ComputerName is empty: it names no computer")
    known = ctx.machines.get(name)
    if known is not None:
        return known
    machine = _at_its_place(ctx, name) or _by_search(ctx, name)
    ctx.machines.put(name, machine)
    return machine


def with_machine(ctx: Context, name: str, work: Callable[[Machine], T]) -> T:
    """Do something below a computer; once more where the computer is no longer where it was.

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


def _at_its_place(ctx: Context, name: str) -> Machine | None:
    place = computer_dn(ctx.root, name)
    try:
        entry = forest.get(ctx, place, ["objectSid"], _class(ctx))
    except ObjectNotFound:
        return None
    return _machine(entry.dn, entry.first("objectSid"))


def _by_search(ctx: Context, name: str) -> Machine:
    session = forest.searched(ctx, COMPUTER_CLASS)
    wanted = session.profile.computer_filter(name)
    found = [
        _machine(entry.dn, entry.first("objectSid"))
        for entry in session.find(session.naming.root, wanted, ["objectSid"])
    ]
    if not found:
        raise ObjectNotFound(
            f"there is no computer named {name!r}",
            dn=str(computer_dn(ctx.root, name)),
            hint="create the computer object first; it belongs to the domain, not to MSMQ",
        )
    if len(found) > 1:
        places = "; ".join(str(machine.dn) for machine in found)
        raise GenericDirectoryError(f"{len(found)} computers are named {name!r}: {places}")
    return found[0]


def _class(ctx: Context) -> LdapFilter:
    return ctx.session.profile.class_filter(COMPUTER_CLASS)


def _machine(dn: str, sid: bytes | None) -> Machine:
    return Machine(DN.parse(dn), None if sid is None else Sid.from_bytes(sid))
