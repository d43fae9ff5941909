"""Attributes of computers that a directory has, and no export.

Active Directory keeps operating system, last log-on and the state of the account. Computers of OpenLDAP do
not have these attributes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from mqdssm.model.dn import normalize
from mqdssm.tables.dependent_objects import ACCOUNT_DISABLED

if TYPE_CHECKING:
    from mqdssm.directory.entries import Entry
    from mqdssm.directory.session import Session

ATTRIBUTES: Final = ("operatingSystem", "operatingSystemVersion", "lastLogonTimestamp", "userAccountControl")
LOGON_DAYS: Final = 14
"""Active Directory renews lastLogonTimestamp only after this time ([MS-ADA2] msDS-LogonTimeSyncInterval)."""
_FIRST: Final = datetime(1601, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ComputerFacts:
    """A computer in the directory.

    Attributes:
        system: operating system; empty: not known.
        version: its version; empty: not known.
        last_logon: last log-on that the directory knows, up to `LOGON_DAYS` too early; None: not known.
        is_disabled: True if the account is disabled; None: not known.
    """

    system: str = ""
    version: str = ""
    last_logon: datetime | None = None
    is_disabled: bool | None = None


def read_computers(session: "Session", names: Collection[str]) -> Mapping[str, ComputerFacts]:
    """Read computers from a directory.

    Args:
        session: of the directory.
        names: normalized DNs of the computers.

    Returns:
        What the directory knows, by normalized DN; computers without such attributes are left out.

    Raises:
        DirectoryError: the directory cannot be read.
    """
    computers: dict[str, ComputerFacts] = {}
    search_filter = session.profile.build_class_filter("computer")
    for entry in session.find(session.naming.root, search_filter, ATTRIBUTES):
        name = normalize(entry.dn)
        if name in names and (facts := _read_facts(entry)) != ComputerFacts():
            computers[name] = facts
    return computers


def _read_facts(entry: "Entry") -> ComputerFacts:
    control = _read_number(entry, "userAccountControl")
    return ComputerFacts(
        system=_read_text(entry, "operatingSystem"),
        version=_read_text(entry, "operatingSystemVersion"),
        last_logon=moment_of(_read_number(entry, "lastLogonTimestamp")),
        is_disabled=None if control is None else bool(control & ACCOUNT_DISABLED),
    )


def moment_of(file_time: int | None) -> datetime | None:
    """Return the time of a FILETIME ([MS-DTYP] 2.3.3).

    Returns None for None, for 0, and for an impossible time.
    """
    if file_time is None or file_time <= 0:
        return None
    try:
        return _FIRST + timedelta(microseconds=file_time // 10)
    except OverflowError:
        return None


def _read_text(entry: "Entry", name: str) -> str:
    return (entry.first(name) or b"").decode("utf-8", "replace")


def _read_number(entry: "Entry", name: str) -> int | None:
    value = entry.first(name)
    try:
        return None if value is None else int(value)
    except ValueError:
        return None
