"""Hypothesis strategies for replication messages, and the hand-made vectors."""

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from mqdssm.model.guid import Guid
from mqdssm.model.messages import (
    AlreadyPurgedMessage,
    BSCAckMessage,
    ChangePropagationMessage,
    ChangeReplyMessage,
    ChangeRequestMessage,
    Command,
    CompleteSync0,
    DirectoryChange,
    PartitionSeqNumbers,
    PSCAckMessage,
    ReplicationMessage,
    Scope,
    SeqNumberHeader,
    SyncReplyMessage,
    SyncRequestMessage,
)
from mqdssm.model.propids import INTEGERS, Propid, Variant
from mqdssm.model.seqnum import SequenceNumber

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "replication.json").read_text(encoding="utf-8")
)
"""Messages made by hand, field by field: see tests/vectors/sources.md."""

GUIDS = st.binary(min_size=16, max_size=16).map(Guid)
NUMBERS = st.integers(0, 2**64 - 1).map(SequenceNumber)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
NAMES = TEXT
U32 = st.integers(0, 2**32 - 1)

VALUES: dict[Variant, st.SearchStrategy[Any]] = {
    **{variant: st.integers(*limits) for variant, limits in INTEGERS.items()},
    Variant.BOOL: st.booleans(),
    Variant.LPWSTR: TEXT,
    Variant.CLSID: GUIDS,
    Variant.BLOB: st.binary(max_size=30),
    Variant.BYTES: st.binary(max_size=30),
    Variant.UI4S: st.lists(U32, max_size=4).map(tuple),
    Variant.CLSIDS: st.lists(GUIDS, max_size=4).map(tuple),
    Variant.LPWSTRS: st.lists(TEXT, max_size=4).map(tuple),
}
"""Values of every variant that has a form in bytes."""


@st.composite
def property_lists(draw: st.DrawFn) -> tuple[Any, ...]:
    """At least one property, none twice, each with a value of its variant."""
    chosen = draw(st.lists(st.sampled_from(list(Propid)), min_size=1, max_size=8, unique=True))
    return tuple((one, draw(VALUES[one.variant])) for one in chosen)


def changes() -> st.SearchStrategy[DirectoryChange]:
    """Directory changes of every kind."""
    names: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({"path_name": TEXT})
    names |= st.fixed_dictionaries({"guid_identifier": GUIDS})
    return st.builds(
        lambda name, **rest: DirectoryChange(**name, **rest),
        names,
        command=st.sampled_from(Command),
        partition_id=GUIDS,
        previous_seq_number=NUMBERS,
        seq_number=NUMBERS,
        purged_seq_number=NUMBERS,
        properties=property_lists(),
    )


@st.composite
def seq_number_headers(draw: st.DrawFn) -> SeqNumberHeader:
    """Headers with and without partitions."""
    one = st.builds(
        PartitionSeqNumbers, partition_id=GUIDS, last_seq_number=NUMBERS, purged_seq_number=NUMBERS
    )
    found = tuple(draw(st.lists(one, max_size=3)))
    return SeqNumberHeader(machine_name=draw(NAMES) if found else "", partition_seq_numbers=found)


CHANGES = st.lists(changes(), max_size=3).map(tuple)
MESSAGES: st.SearchStrategy[ReplicationMessage] = st.one_of(
    st.builds(
        ChangePropagationMessage,
        site_id=GUIDS,
        flush=st.booleans(),
        directory_changes=CHANGES,
        seq_number_header=seq_number_headers(),
    ),
    st.builds(
        ChangeRequestMessage,
        site_id=GUIDS,
        partition_id=GUIDS,
        request_identifier=U32,
        requester_name=NAMES,
        psc_name=st.none() | NAMES,
        directory_change=changes(),
    ),
    st.builds(ChangeReplyMessage, site_id=GUIDS, request_identifier=U32, result=U32, requester_name=NAMES),
    st.builds(
        SyncRequestMessage,
        site_id=GUIDS,
        partition_id=GUIDS,
        from_seq_number=NUMBERS,
        to_seq_number=NUMBERS,
        known_purged_seq_number=NUMBERS,
        is_sync0=st.booleans(),
        scope=st.sampled_from(Scope),
        requester_name=NAMES,
    ),
    st.builds(
        SyncReplyMessage,
        site_id=GUIDS,
        partition_id=GUIDS,
        from_seq_number=NUMBERS,
        to_seq_number=NUMBERS,
        purged_seq_number=NUMBERS,
        complete_sync0=st.sampled_from(CompleteSync0),
        directory_changes=CHANGES,
    ),
    st.builds(BSCAckMessage, site_id=GUIDS, bsc_machine_id=GUIDS, bsc_name=NAMES),
    st.builds(
        PSCAckMessage,
        site_id=GUIDS,
        psc_site_id=GUIDS,
        acked_partition_id=GUIDS,
        acked_seq_number=NUMBERS,
        psc_name=NAMES,
    ),
    st.builds(AlreadyPurgedMessage, site_id=GUIDS, partition_id=GUIDS, purged_seq_number=NUMBERS),
)
"""Messages of all eight kinds."""


def image_of(vector: dict[str, Any]) -> bytes:
    """The bytes of a vector."""
    return bytes.fromhex("".join(part for _, part in vector["parts"]))
