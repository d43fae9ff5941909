"""Names of SIDs: of well-known SIDs, and of the accounts in the source."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mqdssm.model.dn import DN
from mqdssm.wire.sid import WELL_KNOWN, Sid

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.datasets import Dataset

_BATCH_ROWS: Final = 65_536
_EVERYWHERE: Final = {sid.text: name.replace("_", " ").title() for name, sid in WELL_KNOWN.items()}
DOMAIN_ACCOUNTS: Final[Mapping[int, str]] = MappingProxyType(
    {
        500: "Administrator",
        501: "Guest",
        502: "krbtgt",
        512: "Domain Admins",
        513: "Domain Users",
        514: "Domain Guests",
        515: "Domain Computers",
        516: "Domain Controllers",
        517: "Cert Publishers",
        518: "Schema Admins",
        519: "Enterprise Admins",
        520: "Group Policy Creator Owners",
    }
)
"""Accounts that every domain has, by their relative identifiers ([MS-DTYP] 2.4.2.4)."""
SOURCES: Final = (("computer", "Sid", "AccountName"), ("user", "SecurityIdentifier", "FullPath"))
"""Types with SIDs: the type, the column of the SID, the column of the name."""


def names_of(sids: Collection[str], sets: "Mapping[str, Dataset]") -> dict[str, str]:
    """Find the names of SIDs, as far as they are known; the accounts are read in batches."""
    found = {sid: name for sid in sids if (name := everywhere(sid))}
    return found | dict(_accounts(sids, sets))


def everywhere(sid: str) -> str:
    """Return the name of a well-known SID or domain account; empty for any other SID."""
    known = _EVERYWHERE.get(sid)
    if known is not None:
        return known
    try:
        parsed = Sid(sid)
    except ValueError:
        return ""
    return DOMAIN_ACCOUNTS.get(parsed.rid, "") if parsed.domain is not None else ""


def _accounts(sids: Collection[str], sets: "Mapping[str, Dataset]") -> Iterator[tuple[str, str]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted(sids), pa.string())
    for name, key, called in SOURCES:
        if name not in sets or not {key, called} <= set(sets[name].types):
            continue
        for batch in sets[name].batches([key, called], _BATCH_ROWS):
            few = batch.filter(pc.is_in(batch.column(key).cast(pa.string()), value_set=wanted))
            for row in few.to_pylist():
                if row[called]:
                    yield row[key], _name(row[called]) if called == "FullPath" else row[called]


def _name(dn: str) -> str:
    try:
        return DN.parse(dn).name
    except ValueError:
        return dn
