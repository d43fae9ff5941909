"""Field by field: values are one by their attribute's matching rule; nothing that differs is passed over."""

import json
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.pipeline.diff.comparable_columns import compared_of
from mqdssm.pipeline.diff.fields import (
    KEY,
    SCHEMA,
    SIDE,
    FieldByField,
    Ground,
    ObjectDifferenceKind,
    choose_sameness,
    strip_root,
)
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.wire.dtyp import SecurityDescriptor

GUID = "00000000-0000-0000-0000-00000000000a"
OTHER = "00000000-0000-0000-0000-00000000000b"
TREE = Ground("DC=example,DC=com")
MQIS = Ground("", is_mqis=True)


def rule(type_name: str, column: str, a: Ground = TREE, b: Ground = TREE):
    (field,) = compared_of(type_name, [column]).fields
    return choose_sameness(field, a, b)


def image(sddl: str) -> bytes:
    return bytes(SecurityDescriptor.from_sddl(sddl))


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("Label", "Zoë", "ZOË"),
        ("Label", "Orders", "ORDERS"),
        ("Label", None, ""),
        ("Pathname", r"web01\orders", r"WEB01\Orders"),
        ("Quota", None, 0xFFFFFFFF),
        ("Journaling", None, False),
        ("FullPath", "CN=a, CN=b,DC=example,DC=com", "cn=A,cn=B,dc=EXAMPLE,dc=com"),
        (
            "Security",
            image("O:BAG:BAD:(A;;0x1;;;WD)(A;;0x2;;;BA)"),
            image("O:BAG:BAD:(A;;0x2;;;BA)(A;;0x1;;;WD)"),
        ),
        ("Security", image("O:BAG:BAD:(A;;0x1;;;WD)"), image("O:BAG:BAD:(A;;0x1;;;WD)(A;ID;0x2;;;BA)")),
    ],
)
def test_one_value_in_two_spellings(column, one, other):
    same = rule("queue", column)
    assert same(one, other)
    assert same(other, one)


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("Label", "Orders", "Orders2"),
        ("Label", None, "x"),
        ("Quota", None, 0),
        ("Journaling", True, False),
        ("Type", GUID, OTHER),
        ("FullPath", "CN=a,DC=example,DC=com", "CN=a,CN=b,DC=example,DC=com"),
        ("Security", image("O:BAG:BAD:(A;;0x1;;;WD)"), image("O:BAG:BAD:(A;;0x3;;;WD)")),
        ("Security", image("O:BAG:BAD:(A;;0x1;;;WD)"), None),
        ("Security", b"\0", b"\1"),
    ],
)
def test_two_values(column, one, other):
    same = rule("queue", column)
    assert not same(one, other)
    assert not same(other, one)


def test_lists_are_sets():
    same = rule("computer", "ServicePrincipalNames")
    assert same(["HOST/a", "HOST/B"], ["host/b", "HOST/A", "HOST/a"])
    assert same([], None)
    assert not same(["HOST/a"], [])


def test_names_are_compared_below_the_roots_of_the_trees():
    same = rule("queue", "FullPath", TREE, Ground("DC=other"))
    assert same("CN=a,DC=example,DC=com", "cn=A,dc=other")
    assert not same("CN=a,DC=example,DC=com", "CN=a,DC=example,DC=com")
    assert strip_root("no name", "DC=example") == "no name"


def test_references_are_called_as_the_other_side_calls_them():
    renamed = Ground("DC=example,DC=com", names={GUID: OTHER})
    assert rule("queue-manager", "SiteIdentifierList", renamed, TREE)([GUID], [OTHER])
    assert not rule("queue-manager", "SiteIdentifierList", TREE, TREE)([GUID], [OTHER])
    assert rule("routing-link", "Site1Identifier", TREE, renamed)(OTHER, GUID)


def test_what_a_table_does_not_say_of_an_attribute_that_must_be_there_is_no_difference():
    assert rule("queue", "Security", MQIS, TREE)(None, image("O:BAG:BAD:"))
    assert not rule("queue", "Security", TREE, TREE)(None, image("O:BAG:BAD:"))
    assert not rule("queue", "Label", MQIS, TREE)(None, "x")


def test_a_server_may_complete_the_descriptor_of_a_table():
    one, other = image("D:(A;;0x1;;;WD)"), image("O:BAG:BAD:(A;;0x1;;;WD)")
    assert rule("queue", "Security", MQIS, TREE)(one, other)
    assert rule("queue", "Security", TREE, MQIS)(other, one)
    assert not rule("queue", "Security", TREE, TREE)(one, other)


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.5")
def test_no_directory_server_is_a_standalone_one():
    same = rule("queue-manager", "DirectoryServerType")
    assert same(None, "Standalone")
    assert not same(None, "BackupSiteController")


COLUMNS = ("Label", "Quota")


def rows(*of: tuple[str, int, str | None, int]) -> pa.RecordBatch:
    schema = make_arrow_schema(FRAME_TYPES["queue"].select(("Identifier", *COLUMNS)))
    keys, sides, labels, quotas = zip(*of, strict=True) if of else ((), (), (), ())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(keys, pa.string()),
            pa.array(sides, pa.int32()),
            pa.array(keys, pa.string()),
            pa.array(labels, pa.string()),
            pa.array(quotas, pa.int64()),
        ],
        names=[KEY, SIDE, *schema.names],
    )


def found(batches) -> list[tuple[str, str, list[str]]]:
    judge = FieldByField(compared_of("queue", COLUMNS), TREE, TREE)
    made = pa.Table.from_batches(judge.find_differences(batches), schema=SCHEMA).to_pylist()
    return [(row["what"], row["key"], row["attributes"]) for row in made]


def test_rows_of_both_sides():
    batch = rows(
        ("1", 0, "a", 1),
        ("1", 1, "A", 1),
        ("2", 0, "a", 1),
        ("2", 1, "b", 2),
        ("3", 0, "a", 1),
        ("4", 1, "a", 1),
    )
    assert found([batch]) == [
        ("different", "2", ["Label", "Quota"]),
        ("missing", "3", []),
        ("extra", "4", []),
    ]
    judge = FieldByField(compared_of("queue", COLUMNS), TREE, TREE)
    first, second, third = (row for made in judge.find_differences([batch]) for row in made.to_pylist())
    assert first["name"] == "2"
    assert json.loads(first["a"]) == {"Identifier": "2", "Label": "a", "Quota": 1}
    assert (second["b"], third["a"]) == (None, None)


def test_objects_that_are_there_twice():
    # one of two is equal; the other one is held against what is left, if anything is
    assert found([rows(("1", 0, "a", 1), ("1", 0, "b", 1), ("1", 1, "b", 1))]) == [("missing", "1", [])]
    assert found([rows(("1", 0, "a", 1), ("1", 0, "b", 1), ("1", 1, "b", 1), ("1", 1, "c", 1))]) == [
        ("different", "1", ["Label"])
    ]
    # what can be found by nothing is a pair only if it is the same
    unknown = [rows(("", 0, "a", 1), ("", 1, "b", 1))]
    assert found(unknown) == [("missing", "", []), ("extra", "", [])]
    assert found([rows(("", 0, "a", 1), ("", 0, "a", 1), ("", 1, "a", 1), ("", 1, "a", 1))]) == []


SIDES = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.sampled_from("xyz"), st.integers(0, 2)))


@given(SIDES, SIDES, st.lists(st.integers(1, 4), max_size=10))
def test_however_the_rows_are_cut_into_batches(a, b, cuts):
    listed = sorted([(key, 0, *a[key]) for key in a] + [(key, 1, *b[key]) for key in b])
    whole = rows(*listed)
    batches, start = [], 0
    for size in cuts:
        batches.append(whole.slice(start, size))
        start += size
    batches.append(whole.slice(start))
    expected = {key: "missing" for key in a if key not in b} | {key: "extra" for key in b if key not in a}
    expected |= {key: "different" for key in a if key in b and a[key] != b[key]}
    got = found(batches)
    assert {key: what for what, key, _ in got} == expected
    assert len(got) == len(expected)
    for what, key, attributes in got:
        if what == ObjectDifferenceKind.DIFFERENT:
            unlike = [name for name, x, y in zip(COLUMNS, a[key], b[key], strict=True) if x != y]
            assert attributes == unlike


def test_keys_of_users_that_are_no_users_of_msmq():
    columns = FRAME_TYPES["user"].select(("Identifier", "CertificateDigestList", "Certificates"))
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(["S-1", "S-2", "S-3"]),
            pa.array([1, 1, 0], pa.int32()),
            pa.array([str(UUID(int=n)) for n in range(3)]),
            pa.array([[], [b"x" * 16], []], make_arrow_schema(columns).field(1).type),
            pa.array([b"", None, b""], pa.binary()),
        ],
        names=[KEY, SIDE, *make_arrow_schema(columns).names],
    )
    compared = compared_of("user", ("CertificateDigestList", "Certificates"))
    made = [
        row
        for found in FieldByField(compared, MQIS, TREE).find_differences([batch])
        for row in found.to_pylist()
    ]
    assert [(row["what"], row["key"]) for row in made] == [("extra", "S-2"), ("missing", "S-3")]
    made = [
        row
        for found in FieldByField(compared, TREE, TREE).find_differences([batch])
        for row in found.to_pylist()
    ]
    assert len(made) == 3
