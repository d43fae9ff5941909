"""Queues as ldapsearch shows them, read by hand: what a frame must hold of each, value by value."""

from typing import Any
from uuid import UUID

PRIVACY = {0: "None", 1: "Optional", 2: "Body"}


def expected_queue(entry: dict[str, list[bytes]]) -> dict[str, object]:
    """The columns of a queue from its LDAP attributes ([MS-MQDSSM] 2.2.2, 3.1.6.11.2)."""

    def one(name: str) -> bytes | None:
        return entry.get(name.lower(), [None])[0]

    def number(name: str, default: int) -> int:
        value = one(name)
        return default if value is None else int(value)

    def truth(name: str) -> bool:
        return one(name) == b"TRUE"

    kind = one("mSMQQueueType")
    return {
        "Identifier": str(UUID(bytes_le=entry["objectguid"][0])),
        "Label": (one("mSMQLabelEx") or b"").decode(),
        "Type": str(UUID(bytes_le=kind)) if kind else str(UUID(int=0)),
        "Journaling": truth("mSMQJournal"),
        "Quota": number("mSMQQueueQuota", -1) % 2**32,
        "JournalQuota": number("mSMQQueueJournalQuota", -1) % 2**32,
        "Authentication": truth("mSMQAuthenticate"),
        "PrivacyLevel": PRIVACY[number("mSMQPrivacyLevel", 1)],
        "Transactional": truth("mSMQTransactional"),
        "MulticastAddress": (one("MSMQ-MulticastAddress") or b"").decode(),
        "BasePriority": number("mSMQBasePriority", 0),
    }


def compare(
    raw: list[dict[str, Any]], found: list[dict[str, Any]], shown: dict[Any, Any], queues: int
) -> None:
    """Compare entries and queues with what ldapsearch showed."""
    held = {}
    for row in raw:
        values = {name.lower(): sorted(value) for name, value in row["attributes"]}
        held[row["dn"].lower()] = values | {"objectclass": sorted(one.encode() for one in row["objectClass"])}
    assert len(held) == len(raw)
    assert held == shown
    expected = {dn: entry for dn, entry in shown.items() if b"mSMQQueue" in entry["objectclass"]}
    assert len(found) == len(expected) == queues
    for row in found:
        entry = expected[row["FullPath"].lower()]
        wanted = expected_queue(entry)
        assert {name: row[name] for name in wanted} == wanted
        assert row.get("Security") in {entry["ntsecuritydescriptor"][0], None}
        assert row["Unreadable"] is None
