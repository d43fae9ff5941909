"""What is typed as attributes, filters and sort orders, as the model takes it."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from mqdssm.cli import human
from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import (
    ObjectType,
    assignments_of,
    equal_filters,
    filter_of,
    names_of,
    object_of,
    sort_of,
)
from mqdssm.errors import GenericDirectoryError
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.model.filters import Filter, SortKey
from mqdssm.tables import TABLES
from mqdssm.wire.dtyp import SecurityDescriptor

A, B = UUID(int=1), UUID(int=2)
SDDL = "O:BAG:BAD:(A;;0x3f;;;WD)"


def made(kind, *texts):
    return object_of(kind, assignments_of(kind, texts))


def test_every_type_has_a_table():
    assert {kind.element for kind in ObjectType} == set(TABLES)
    assert {kind.element_name for kind in ObjectType} == set(human.LIST_COLUMNS)
    for kind in ObjectType:
        assert set(human.LIST_COLUMNS[kind.element_name]) <= {row.adm for row in kind.table.rows}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ObjectType.QUEUE, "Label=a=b", "a=b"),
        (ObjectType.QUEUE, "Label=", ""),
        (ObjectType.QUEUE, "Label= x,y ", " x,y "),
        (ObjectType.QUEUE, " Label =x", "x"),
        (ObjectType.QUEUE, "Label=a\nb", "a\nb"),
        (ObjectType.QUEUE, r"Pathname=m\a=<>!b", r"m\a=<>!b"),
        (ObjectType.QUEUE, "Quota=0x10", 16),
        (ObjectType.QUEUE, "BasePriority=-7", -7),
        (ObjectType.QUEUE, "Journaling=TRUE", True),
        (ObjectType.QUEUE, "PrivacyLevel=body", PrivacyLevel.BODY),
        (ObjectType.QUEUE, "PrivacyLevel=2", PrivacyLevel.BODY),
        (ObjectType.QUEUE_MANAGER, "OperatingSystemType=Windows95", OperatingSystemType.WIN95),
        (ObjectType.QUEUE, f"Identifier={A}", A),
        (ObjectType.QUEUE, "CreateTime=86400", 86_400),
        (ObjectType.QUEUE, "CreateTime=1970-01-02", 86_400),
        (ObjectType.QUEUE, "CreateTime=1970-01-02T00:00:00Z", 86_400),
        (ObjectType.QUEUE, "CreateTime=1970-01-02T02:00:00+02:00", 86_400),
        (ObjectType.QUEUE_MANAGER, "PublicEncryptionKeyList=AAEC", b"\0\1\2"),
        (ObjectType.QUEUE_MANAGER, f"SiteIdentifierList={A},{B}", (A, B)),
        (ObjectType.QUEUE_MANAGER, f"SiteIdentifierList={A}, {B}", (A, B)),
        (ObjectType.QUEUE_MANAGER, "SiteIdentifierList=", ()),
        (ObjectType.SITE, f"Security={SDDL}", bytes(SecurityDescriptor.from_sddl(SDDL))),
        (ObjectType.USER, "CertificateDigestList=" + "00" * 16, (b"\0" * 16,)),
        (ObjectType.USER, "SecurityIdentifier=S-1-5-21-1-2-3-4", "S-1-5-21-1-2-3-4"),
    ],
)
def test_values(kind, text, value):
    obj = made(kind, text)
    (name,) = obj.populated
    assert getattr(obj, obj.field_name(name)) == value


def test_lists_by_repetition():
    obj = made(ObjectType.QUEUE_MANAGER, f"SiteIdentifierList={A}", f"SiteIdentifierList={B}")
    assert obj.site_identifier_list == (A, B)


def test_values_from_files(tmp_path):
    descriptor = bytes(SecurityDescriptor.from_sddl(SDDL))
    for name, data in (("binary", descriptor), ("text", f"{SDDL}\n".encode())):
        (tmp_path / name).write_bytes(data)
        assert made(ObjectType.SITE, f"Security=@{tmp_path / name}").security == descriptor
    (tmp_path / "blob").write_bytes(b"\0\xff")
    assert made(ObjectType.USER, f"Certificates=@{tmp_path / 'blob'}").certificates == b"\0\xff"
    with pytest.raises(FileNotFoundError):
        made(ObjectType.USER, f"Certificates=@{tmp_path / 'none'}")
    with (tmp_path / "big").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    with pytest.raises(UsageProblem, match="no attribute holds that"):
        made(ObjectType.USER, f"Certificates=@{tmp_path / 'big'}")


@pytest.mark.parametrize("text", ["O:XX", "D:(A;;", "not base64!", "AAAA", ""])
def test_descriptors_that_are_none(text):
    with pytest.raises(UsageProblem, match=r"^Security is neither SDDL nor a security descriptor: "):
        made(ObjectType.SITE, f"Security={text}")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Label==Orders", ("Label", "==", "Orders")),
        ("Label == Orders", ("Label", "==", "Orders")),
        ("Label== Orders", ("Label", "==", " Orders")),
        ("Label ==  Orders", ("Label", "==", " Orders")),
        ("Label==a==b", ("Label", "==", "a==b")),
        ("Label==", ("Label", "==", "")),
        ("Label!=x", ("Label", "!=", "x")),
        ("Label==*)(objectClass=*", ("Label", "==", "*)(objectClass=*")),
        ("Quota<=5", ("Quota", "<=", "5")),
        ("Quota<5", ("Quota", "<", "5")),
        ("Quota >= 5", ("Quota", ">=", "5")),
        ("Quota>5", ("Quota", ">", "5")),
    ],
)
def test_filters(text, wanted):
    assert filter_of(ObjectType.QUEUE, text) == Filter(*wanted)


def test_filters_of_times_and_lists():
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert filter_of(ObjectType.QUEUE, "CreateTime>=2026-01-31T12:00:00") == Filter(
        "CreateTime", ">=", moment
    )
    one = filter_of(ObjectType.QUEUE_MANAGER, f"SiteIdentifierList=={A}")
    assert one == Filter("SiteIdentifierList", "==", str(A))
    several = filter_of(ObjectType.QUEUE_MANAGER, f"SiteIdentifierList=={A},{B}")
    assert several == Filter("SiteIdentifierList", "==", (str(A), str(B)))
    assert filter_of(ObjectType.QUEUE_MANAGER, "SiteIdentifierList==").value == ()
    given = assignments_of(ObjectType.QUEUE, ["Label=a=b", "Quota=5"])
    assert equal_filters(ObjectType.QUEUE, given) == [
        Filter("Label", "==", "a=b"),
        Filter("Quota", "==", "5"),
    ]


@pytest.mark.parametrize("text", ["Label", "Label=x", "Label~x", "", "==x", "La bel==x"])
def test_filters_that_are_none(text):
    with pytest.raises(UsageProblem, match="is no filter, as Label==Orders"):
        filter_of(ObjectType.QUEUE, text)


def test_sort_orders():
    assert sort_of(ObjectType.QUEUE, None) == ()
    assert sort_of(ObjectType.QUEUE, "Quota,-Label") == (
        SortKey("Quota", priority=2, ascending=True),
        SortKey("Label", priority=1, ascending=False),
    )
    assert sort_of(ObjectType.QUEUE, " -Quota ") == (SortKey("Quota", priority=1, ascending=False),)
    with pytest.raises(ValueError, match="no attribute"):
        sort_of(ObjectType.QUEUE, "Colour")
    with pytest.raises(UsageProblem):
        sort_of(ObjectType.QUEUE, "Quota,-")


def test_lists_of_names():
    assert names_of(ObjectType.QUEUE, None) is None
    assert names_of(ObjectType.QUEUE, "Label, Quota") == ("Label", "Quota")
    with pytest.raises(UsageProblem):
        names_of(ObjectType.QUEUE, "")
    with pytest.raises(GenericDirectoryError):
        names_of(ObjectType.SITE, "PrimarySiteController")
