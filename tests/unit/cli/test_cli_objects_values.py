"""What is typed as attributes, filters and sort orders, as the model takes it."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import display
from mqdssm.cli.objects.arguments import (
    CommandType,
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
    assert {kind.element for kind in CommandType} == set(TABLES)
    assert {kind.element_name for kind in CommandType} == set(display.LIST_COLUMNS)
    for kind in CommandType:
        assert set(display.LIST_COLUMNS[kind.element_name]) <= {row.adm for row in kind.table.rows}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (CommandType.QUEUE, "Label=a=b", "a=b"),
        (CommandType.QUEUE, "Label=", ""),
        (CommandType.QUEUE, "Label= x,y ", " x,y "),
        (CommandType.QUEUE, " Label =x", "x"),
        (CommandType.QUEUE, "Label=a\nb", "a\nb"),
        (CommandType.QUEUE, r"Pathname=m\a=<>!b", r"m\a=<>!b"),
        (CommandType.QUEUE, "Quota=0x10", 16),
        (CommandType.QUEUE, "BasePriority=-7", -7),
        (CommandType.QUEUE, "Journaling=TRUE", True),
        (CommandType.QUEUE, "PrivacyLevel=body", PrivacyLevel.BODY),
        (CommandType.QUEUE, "PrivacyLevel=2", PrivacyLevel.BODY),
        (CommandType.QUEUE_MANAGER, "OperatingSystemType=Windows95", OperatingSystemType.WIN95),
        (CommandType.QUEUE, f"Identifier={A}", A),
        (CommandType.QUEUE, "CreateTime=86400", 86_400),
        (CommandType.QUEUE, "CreateTime=1970-01-02", 86_400),
        (CommandType.QUEUE, "CreateTime=1970-01-02T00:00:00Z", 86_400),
        (CommandType.QUEUE, "CreateTime=1970-01-02T02:00:00+02:00", 86_400),
        (CommandType.QUEUE_MANAGER, "PublicEncryptionKeyList=AAEC", b"\0\1\2"),
        (CommandType.QUEUE_MANAGER, f"SiteIdentifierList={A},{B}", (A, B)),
        (CommandType.QUEUE_MANAGER, f"SiteIdentifierList={A}, {B}", (A, B)),
        (CommandType.QUEUE_MANAGER, "SiteIdentifierList=", ()),
        (CommandType.SITE, f"Security={SDDL}", bytes(SecurityDescriptor.from_sddl(SDDL))),
        (CommandType.USER, "CertificateDigestList=" + "00" * 16, (b"\0" * 16,)),
        (CommandType.USER, "SecurityIdentifier=S-1-5-21-1-2-3-4", "S-1-5-21-1-2-3-4"),
    ],
)
def test_values(kind, text, value):
    obj = made(kind, text)
    (name,) = obj.populated
    assert getattr(obj, obj.field_name(name)) == value


def test_lists_by_repetition():
    obj = made(CommandType.QUEUE_MANAGER, f"SiteIdentifierList={A}", f"SiteIdentifierList={B}")
    assert obj.site_identifier_list == (A, B)


def test_values_from_files(tmp_path):
    descriptor = bytes(SecurityDescriptor.from_sddl(SDDL))
    for name, data in (("binary", descriptor), ("text", f"{SDDL}\n".encode())):
        (tmp_path / name).write_bytes(data)
        assert made(CommandType.SITE, f"Security=@{tmp_path / name}").security == descriptor
    (tmp_path / "blob").write_bytes(b"\0\xff")
    assert made(CommandType.USER, f"Certificates=@{tmp_path / 'blob'}").certificates == b"\0\xff"
    with pytest.raises(FileNotFoundError):
        made(CommandType.USER, f"Certificates=@{tmp_path / 'none'}")
    with (tmp_path / "big").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    with pytest.raises(UsageProblem, match="no attribute holds that"):
        made(CommandType.USER, f"Certificates=@{tmp_path / 'big'}")


@pytest.mark.parametrize("text", ["O:XX", "D:(A;;", "not base64!", "AAAA", ""])
def test_descriptors_that_are_none(text):
    with pytest.raises(UsageProblem, match=r"^Security is neither SDDL nor a security descriptor: "):
        made(CommandType.SITE, f"Security={text}")


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
    assert filter_of(CommandType.QUEUE, text) == Filter(*wanted)


def test_filters_of_times_and_lists():
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert filter_of(CommandType.QUEUE, "CreateTime>=2026-01-31T12:00:00") == Filter(
        "CreateTime", ">=", moment
    )
    one = filter_of(CommandType.QUEUE_MANAGER, f"SiteIdentifierList=={A}")
    assert one == Filter("SiteIdentifierList", "==", str(A))
    several = filter_of(CommandType.QUEUE_MANAGER, f"SiteIdentifierList=={A},{B}")
    assert several == Filter("SiteIdentifierList", "==", (str(A), str(B)))
    assert filter_of(CommandType.QUEUE_MANAGER, "SiteIdentifierList==").value == ()
    given = assignments_of(CommandType.QUEUE, ["Label=a=b", "Quota=5"])
    assert equal_filters(CommandType.QUEUE, given) == [
        Filter("Label", "==", "a=b"),
        Filter("Quota", "==", "5"),
    ]


@pytest.mark.parametrize("text", ["Label", "Label=x", "Label~x", "", "==x", "La bel==x"])
def test_filters_that_are_none(text):
    with pytest.raises(UsageProblem, match="is no filter, as Label==Orders"):
        filter_of(CommandType.QUEUE, text)


def test_sort_orders():
    assert sort_of(CommandType.QUEUE, None) == ()
    assert sort_of(CommandType.QUEUE, "Quota,-Label") == (
        SortKey("Quota", priority=2, ascending=True),
        SortKey("Label", priority=1, ascending=False),
    )
    assert sort_of(CommandType.QUEUE, " -Quota ") == (SortKey("Quota", priority=1, ascending=False),)
    with pytest.raises(ValueError, match="no attribute"):
        sort_of(CommandType.QUEUE, "Colour")
    with pytest.raises(UsageProblem):
        sort_of(CommandType.QUEUE, "Quota,-")


def test_lists_of_names():
    assert names_of(CommandType.QUEUE, None) is None
    assert names_of(CommandType.QUEUE, "Label, Quota") == ("Label", "Quota")
    with pytest.raises(UsageProblem):
        names_of(CommandType.QUEUE, "")
    with pytest.raises(GenericDirectoryError):
        names_of(CommandType.SITE, "PrimarySiteController")
