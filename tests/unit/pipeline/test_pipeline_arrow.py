"""Objects to Arrow record batches."""

from datetime import UTC, datetime
from itertools import count, islice
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.spark.element_batches import batches, columns_of

from mqdssm.errors import MappingError
from mqdssm.model.elements import Queue, QueueManager, User
from mqdssm.model.enums import PrivacyLevel
from mqdssm.pipeline.frames.arrow import BATCH_ROWS, make_arrow_schema
from mqdssm.pipeline.frames.columns import TYPES

GUIDS = [UUID(int=n) for n in range(1, 5)]


def queue(n: int = 1, **values) -> Queue:
    return Queue.from_directory({"identifier": UUID(int=n), **values})


def table(objects, element, *names: str) -> list[dict]:
    columns = columns_of(element, names or None)
    return pa.Table.from_batches(batches(objects, columns), make_arrow_schema(columns)).to_pylist()


def test_one_of_each_kind() -> None:
    found = queue(
        label="Größe",
        quota=0xFFFFFFFF,
        base_priority=-32768,
        journaling=True,
        privacy_level=PrivacyLevel.BODY,
        create_time=1_700_000_000,
        type=GUIDS[2],
        security=b"\x01\x00\xff",
        full_path="CN=q",
    )
    names = ["Label", "Quota", "BasePriority", "Journaling", "PrivacyLevel", "CreateTime", "Type", "Security"]
    assert table([found], Queue, "Identifier", "FullPath", *names) == [
        {
            "Identifier": "00000000-0000-0000-0000-000000000001",
            "FullPath": "CN=q",
            "Label": "Größe",
            "Quota": 4294967295,
            "BasePriority": -32768,
            "Journaling": True,
            "PrivacyLevel": "Body",
            "CreateTime": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
            "Type": "00000000-0000-0000-0000-000000000003",
            "Security": b"\x01\x00\xff",
        }
    ]


def test_lists() -> None:
    machines = [
        QueueManager.from_directory({"identifier": GUIDS[0], "site_identifier_list": tuple(GUIDS[1:3])}),
        QueueManager.from_directory({"identifier": GUIDS[1], "site_identifier_list": ()}),
        QueueManager.from_directory({"identifier": GUIDS[2]}),
    ]
    found = [row["SiteIdentifierList"] for row in table(machines, QueueManager, "SiteIdentifierList")]
    assert found == [[str(GUIDS[1]), str(GUIDS[2])], [], None]
    user = User.from_directory({"certificate_digest_list": (b"0" * 16, b"1" * 16)})
    assert table([user], User, "CertificateDigestList") == [{"CertificateDigestList": [b"0" * 16, b"1" * 16]}]


def test_what_is_not_populated_is_null_even_where_the_model_has_a_default() -> None:
    assert table([queue()], Queue, "Label", "Quota", "PrivacyLevel", "CreateTime", "Security") == [
        {"Label": None, "Quota": None, "PrivacyLevel": None, "CreateTime": None, "Security": None}
    ]


@pytest.mark.parametrize("element", TYPES.values())
def test_every_column_of_every_type_can_be_null(element) -> None:
    row = table([element.from_directory({})], element)[0]
    assert list(row) == [column.name for column in columns_of(element)]
    assert set(row.values()) == {None}


def test_batches_are_bounded_and_nothing_is_read_ahead() -> None:
    taken = count(1)
    endless = (queue(next(taken), label="x") for _ in count())
    columns = columns_of(Queue, ["Identifier", "Label"])
    first, second = islice(batches(endless, columns, rows_max=3), 2)
    assert (first.num_rows, second.num_rows) == (3, 3)
    assert next(taken) == 7  # not one more than the two batches hold


def test_batches_end_early_when_their_values_are_large() -> None:
    users = [
        User.from_directory({"certificates": b"x" * 600, "certificate_digest_list": (b"y" * 200,) * 2})
        for _ in range(5)
    ]
    columns = columns_of(User, ["Certificates", "CertificateDigestList"])
    assert [batch.num_rows for batch in batches(users, columns, bytes_max=2000)] == [2, 2, 1]


def test_nothing_is_no_batch_and_the_bound_is_ten_thousand() -> None:
    columns = columns_of(Queue, ["Identifier"])
    assert list(batches([], columns)) == []
    assert [batch.num_rows for batch in batches([queue()] * (BATCH_ROWS + 1), columns)] == [10_000, 1]


def test_every_batch_has_the_same_schema() -> None:
    columns = columns_of(Queue)
    found = list(batches([queue(label="x"), queue()], columns, rows_max=1))
    assert [batch.schema for batch in found] == [make_arrow_schema(columns)] * 2


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"label": "\ud800"}, "Label of Queue 00000000-0000-0000-0000-000000000002"),
        ({"quota": 2**64}, "Quota of Queue 00000000-0000-0000-0000-000000000002"),
        ({"create_time": 2**62}, "CreateTime of Queue 00000000-0000-0000-0000-000000000002"),
        ({"journaling": "yes"}, "Journaling of Queue 00000000-0000-0000-0000-000000000002"),
    ],
)
def test_the_one_bad_value_is_named(values, words: str) -> None:
    good = queue(1, label="x", quota=1, create_time=1, journaling=True)
    columns = columns_of(Queue, ["Label", "Quota", "CreateTime", "Journaling"])
    with pytest.raises(MappingError, match=words):
        list(batches([good, queue(2, **values), good], columns))


@given(st.integers(-11_644_473_600, 253_402_300_799))
def test_times_are_exact(seconds: int) -> None:
    columns = columns_of(Queue, ["CreateTime"])
    (batch,) = batches([queue(create_time=seconds)], columns)
    assert batch.column(0).cast(pa.int64()).to_pylist() == [seconds * 1_000_000]
