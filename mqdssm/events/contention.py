"""Handling of concurrent changes by other programs, and of incomplete changes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from mqdssm.directory.entries import Entry
from mqdssm.errors import DirectoryError, ObjectChanged, ObjectNotFound
from mqdssm.events.context import Context
from mqdssm.events.identification import locate
from mqdssm.model.base import DirectoryObject
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.ldap_results import NO_SUCH_OBJECT

T = TypeVar("T")

ATTEMPTS_MAX: Final = 100
"""Maximum attempts at a change; each failed one is due to a change by another program."""
IDENTITY: Final = ("objectGUID",)
"""Attributes to read of an entry before a change, so that no other object is changed instead."""


def change_located(
    ctx: Context,
    table: ElementTable,
    obj: DirectoryObject,
    attributes: Sequence[str],
    change: Callable[[Entry], T],
) -> T:
    """Find the entry of an element and change it (decision M92).

    The change is tried again if the entry was changed in between.

    Args:
        ctx: the surroundings.
        table: of the element.
        obj: says which object.
        attributes: to read of the entry, objectGUID among them.
        change: raises ObjectChanged or ObjectNotFound if the entry has changed.

    Raises:
        ObjectChanged: other programs were faster each time.
        DirectoryError: as `locate` and `change`.
    """
    vanished: Entry | None = None
    for attempt in range(1, ATTEMPTS_MAX + 1):
        entry = locate(ctx, table, obj, attributes)
        try:
            return change(entry)
        except ObjectChanged:
            if attempt == ATTEMPTS_MAX:
                raise
        except ObjectNotFound as error:
            if error.ldap_code != NO_SUCH_OBJECT or vanished == entry:
                raise
            vanished = entry
    raise AssertionError("unreachable")


@contextmanager
def explain_half_done(describe: Callable[[], str], next_step: str) -> Iterator[None]:
    """Add the completed steps and the next step to an error (decision M93).

    Args:
        describe: returns the changes that were made, as a sentence; empty for none.
        next_step: what to do then.
    """
    try:
        yield
    except DirectoryError as error:
        if not (words := describe()):
            raise
        error.message = f"{words}, then: {error.message}"
        error.hint = f"{error.hint}; {next_step}" if error.hint else next_step
        raise
