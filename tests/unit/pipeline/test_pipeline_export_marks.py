"""What tells that an object was changed, and what differs from the files."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import lock_file
from mqdssm.pipeline.export.file_writer import RowBatch, without
from mqdssm.pipeline.export.objects import KEY_SCHEMA
from mqdssm.pipeline.export.reconcile import _merge_changes, find_differences
from mqdssm.pipeline.export.server_position import ChangeCounter, Marks
from mqdssm.pipeline.manifest import ChangedObject, ChangeKind

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
GUIDS = [f"00000000-0000-0000-0000-00000000000{n}" for n in range(6)]


def usn(value: int, server: str = "CN=DC1") -> Marks:
    return Marks(counter=ChangeCounter.USN, server=server, values={"usn": str(value)}, time=NOW)


def csn(**values: str) -> Marks:
    return Marks(
        counter=ChangeCounter.CSN, values={name[1:]: value for name, value in values.items()}, time=NOW
    )


def test_equal_marks_say_that_nothing_changed() -> None:
    assert usn(7).is_same_as(usn(7))
    assert not usn(7).is_same_as(usn(8))
    assert not usn(7).is_same_as(usn(7, "CN=DC2"))  # each controller counts for itself
    times = Marks(counter=ChangeCounter.TIME, time=NOW)
    assert not times.is_same_as(times)
    assert Marks.model_validate_json(usn(7).model_dump_json()) == usn(7)


def test_update_sequence_numbers() -> None:
    since = usn(200).make_since(usn(99))
    assert since.stamps == ("uSNChanged",)
    assert [since.is_changed([one]) for one in (b"99", b"100", b"1000", b"98", None)] == [
        False,
        True,
        True,
        False,
        None,  # hidden from this user: nobody can say
    ]


def test_another_controllers_numbers_say_nothing() -> None:
    since = usn(200, "CN=DC2").make_since(usn(99))
    assert since.stamps == ("modifyTimestamp", "whenChanged")
    late, early = NOW, NOW - timedelta(minutes=6)
    stamps = [[None, f"{one:%Y%m%d%H%M%S}.0Z".encode()] for one in (late, early)]
    assert [since.is_changed(one) for one in stamps] == [True, False]


def test_change_sequence_numbers_of_several_servers() -> None:
    first, second = "20260131120000.000001Z#000000#001#000000", "20260131120000.000001Z#000000#002#000000"
    since = csn(s001=first, s002=second).make_since(csn(s001=first, s002=second))
    later = b"20260131120000.000002Z#000000#002#000000"
    elsewhere = b"20200101000000.000000Z#000000#003#000000"
    assert [since.is_changed([one]) for one in (first.encode(), later, elsewhere)] == [False, True, True]


def held(*rows: tuple[str, str | None]) -> pa.Table:
    keys, dns = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"key": pa.array(keys, pa.string()), "dn": pa.array(dns, pa.string())})


def found(*rows: tuple[str, str, bool]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"key": key, "dn": dn, "guid": key, "changed": changed} for key, dn, changed in rows],
        schema=KEY_SCHEMA,
    )


def told(*args: pa.Table) -> list[tuple[str, str | None, str]]:
    return [(one.key[-1], one.dn, one.kind) for one in find_differences(*args)]


def test_every_way_to_differ() -> None:
    files = held((GUIDS[0], "a"), (GUIDS[1], "b"), (GUIDS[2], "c"), (GUIDS[3], "d"))
    directory = found(
        (GUIDS[0], "a", False), (GUIDS[1], "b", True), (GUIDS[2], "moved", False), (GUIDS[4], "e", False)
    )
    assert told(files, directory) == [
        ("1", "b", "modified"),
        ("2", "moved", "modified"),
        ("3", "d", "deleted"),
        ("4", "e", "added"),
    ]
    assert told(files.slice(0, 1), directory.slice(0, 1)) == []
    assert told(held(), found()) == []


def test_an_object_that_was_seen_twice() -> None:
    files = held((GUIDS[0], "a"), (GUIDS[0], "a"), (GUIDS[1], "b"))
    assert told(files, found((GUIDS[0], "a", False), (GUIDS[1], "b", False))) == [("0", "a", "modified")]


def test_two_objects_of_one_guid_are_as_they_should_be() -> None:
    rows = [(GUIDS[0], "a"), (GUIDS[0], "b")]
    assert told(held(*rows), found(*((key, dn, False) for key, dn in rows))) == []


def test_of_two_objects_of_one_guid_only_the_one_in_a_finished_file_is_there() -> None:
    rows = RowBatch(pa.array(GUIDS[:1] * 2 + GUIDS[1:2]), pa.array(["a", "b", "c"]), [b"1", b"2", b"3"])
    assert list(without(rows, {0: {(GUIDS[0], "a")}}).data) == [b"2", b"3"]
    assert list(without(rows, {1: {(GUIDS[0], "a")}}).data) == [b"1", b"2", b"3"]  # of another series


@pytest.mark.parametrize(
    ("earlier", "now", "what"),
    [
        (None, "modified", "modified"),
        ("added", "modified", "added"),
        ("added", "deleted", "deleted"),
        ("modified", "deleted", "deleted"),
        ("modified", "added", "modified"),
    ],
)
def test_what_happened_in_the_end(earlier: ChangeKind | None, now: ChangeKind, what: ChangeKind) -> None:
    before = earlier and ChangedObject(type="queue", dn="a", guid=None, what=earlier)
    after = ChangedObject(type="queue", dn="b", guid=None, what=now)
    assert _merge_changes(before, after) == ChangedObject(type="queue", dn="b", guid=None, what=what)


def test_a_type_that_tells_no_names() -> None:
    assert told(held((GUIDS[0], None)), found((GUIDS[0], "cn=x", False))) == []
    assert told(held((GUIDS[0], None)), found((GUIDS[0], "cn=x", True))) == [("0", None, "modified")]


def test_a_lock_is_held_by_one(tmp_path) -> None:
    path = tmp_path / "lock"
    with (
        lock_file(path, wait_s=0, message=""),
        pytest.raises(ConfigError, match="taken"),
        lock_file(path, wait_s=0.2, message="taken"),
    ):
        pass
    with lock_file(path, wait_s=0, message=""):
        pass
