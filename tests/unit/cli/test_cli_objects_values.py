"""What is typed as attributes, filters and sort orders, as the model takes it."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import display
from mqdssm.cli.objects.arguments import (
    CommandType,
    assignments_of,
    names_of,
    object_of,
    sort_of,
)
from mqdssm.cli.objects.filters import DEPTH_MAX, build_equal_filters, filter_of
from mqdssm.errors import GenericDirectoryError
from mqdssm.model.elements import Queue, QueueManager
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
        ('Label=="*)(objectClass=*"', ("Label", "==", "*)(objectClass=*")),
        ("Label=='*'", ("Label", "==", "*")),
        ('Label == "a || b" ', ("Label", "==", "a || b")),
        ('Label=="say ""hi"""', ("Label", "==", 'say "hi"')),
        ('Label==Bob\'s (old) "one" & only|', ("Label", "==", 'Bob\'s (old) "one" & only|')),
        ("Label==a)", ("Label", "==", "a)")),
        ("(Label==a (b))", ("Label", "==", "a (b)")),
        (" ( ( Label==a ) ) ", ("Label", "==", "a")),
        ("!!Label==a", ("Label", "==", "a")),
        ('Label<"*"', ("Label", "<", "*")),
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
    assert build_equal_filters(CommandType.QUEUE, given) == [
        Filter("Label", "==", "a=b"),
        Filter("Quota", "==", "5"),
    ]


A_OR_B = (Queue.label == "a") | (Queue.label == "b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Label==a||Label==b", A_OR_B),
        (" Label == a  ||  Label == b", A_OR_B),
        ("(Label==a || Label==b)", A_OR_B),
        (
            "Label==a || Label==b && Quota>5",
            (Queue.label == "a") | (Queue.label == "b") & (Queue.quota > "5"),
        ),
        ("(Label==a || Label==b) && Quota>5", A_OR_B & (Queue.quota > "5")),
        ("Quota>5 && !(Label==a || Label==b)", (Queue.quota > "5") & ~A_OR_B),
        ("!Transactional==true", ~(Queue.transactional == "true")),
        ("Label==Paid*", Queue.label.startswith("Paid")),
        ("Label==*Paid", Queue.label.endswith("Paid")),
        ("Label==*Paid*", Queue.label.contains("Paid")),
        ("Label==**Paid**", Queue.label.contains("Paid")),
        ("Label!=*Paid*", ~Queue.label.contains("Paid")),
        ("QualifiedPathname!=*x*", ~Queue.qualified_pathname.contains("x")),
        ("Pathname!=*x", Queue.pathname.exists() & ~Queue.pathname.endswith("x")),
        (r"Pathname==web01\*", Queue.pathname.startswith("web01\\")),
        ('Label=="5*"*', Queue.label.startswith("5*")),
        ("Label==*'*'*", Queue.label.contains("*")),
        ("Label==* || Quota==1", Queue.label.exists() | (Queue.quota == "1")),
        ("Label==*", Queue.label.exists()),
        ("Label!=*", ~Queue.label.exists()),
    ],
)
def test_conditions(text, expected):
    assert filter_of(CommandType.QUEUE, text) == expected


def test_the_parts_of_a_pattern_stay_in_their_order():
    condition = filter_of(CommandType.QUEUE_MANAGER, "ComputerName==web*a*b")
    assert repr(condition) == "QueueManager.ComputerName like 'web*a*b'"
    assert filter_of(CommandType.QUEUE_MANAGER, "Clustered==*") == QueueManager.clustered.exists()


@pytest.mark.parametrize("text", ["Label", "Label=x", "Label~x", "", "==x", "La bel==x"])
def test_filters_that_are_none(text):
    with pytest.raises(UsageProblem, match="is no filter, as Label==Orders"):
        filter_of(CommandType.QUEUE, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Label==a || Quota", "at character 18 an operator is expected"),
        (
            "Label==a || Quota=5",
            "at character 18 an operator is expected: did you mean 'Label==a || Quota==5'?",
        ),
        ("Label==a ||", "at character 12 an attribute is expected"),
        ("Label==a && && Label==b", "at character 12 an attribute is expected"),
        ("Quota>1 && (Label==a || Label==b", "at character 12 a parenthesis is opened that is not closed"),
        ("(Label==a) )", "at character 12 a parenthesis is closed that was not opened"),
        ("(Label==a) Label==b", "at character 12 && or || is expected"),
        ('Label=="Paid', "at character 8 quotes are opened that are not closed"),
        ("Label==*'Paid", "at character 9 quotes are opened that are not closed"),
        ('Label=="a" b', "at character 11 an asterisk, an operator or the end is expected behind the quotes"),
        ("Label==a || Quota==x", "at character 13: Quota must be a whole number, not 'x'"),
        ("Label==a || Lable==x", "at character 13: Queue has no attribute 'Lable': did you mean Label?"),
        ("Label==a || Scope==x", "at character 13: Queue.Scope is not kept in an LDAP directory"),
        ("Label<a*", "an asterisk goes with == and !="),
        (f"{'(' * (DEPTH_MAX + 1)}Label==a", f"more than {DEPTH_MAX} parentheses are open"),
    ],
)
def test_mistakes_in_filters_are_told_with_their_place(text, words):
    with pytest.raises(UsageProblem) as failed:
        filter_of(CommandType.QUEUE, text)
    assert words in str(failed.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Quota==*", "Queue.Quota always has a value, 4294967295 where none is stored"),
        ("Quota==1*", "Queue.Quota has no text to look into"),
        ("Label==* *", "blanks alone cannot be looked for"),
    ],
)
def test_patterns_that_attributes_do_not_have(text, words):
    with pytest.raises(ValueError, match=words):
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
