"""What of Spark's filters is asked of a server, and in which words."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from pyspark.sql import datasource as ds

from mqdssm.directory.filters import Equal, to_text
from mqdssm.directory.profiles import PROFILES
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.spark.pushdown import VALUES_MAX, Matching, attributes_of, term_of, to_ldap
from mqdssm.tables import schema

NEW_YEAR = datetime(2020, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
GUID = "6dc5e2a1-0000-4000-8000-2a2829285c00"


class Equality(Matching):
    """A server that has no rules for order and for parts of texts: such filters find nothing there."""

    def can_compare(self, attribute: str, rule: str) -> bool:
        return bool(attribute) and rule == "EQUALITY"


class Everything(Matching):
    """A server that can compare everything."""

    def can_compare(self, attribute: str, rule: str) -> bool:
        assert rule in {"EQUALITY", "ORDERING", "SUBSTR"}
        return attribute.lower() in schema.ATTRIBUTES or attribute.endswith("Timestamp")


EVERYTHING = Everything({}, publishes_rules=False)


def asked(
    offered: ds.Filter, frame: str = "queue", profile: str = "openldap", matching: Matching = EVERYTHING
) -> str | None:
    term = term_of(offered)
    if term is None:
        return None
    found = to_ldap(term, FRAME_TYPES[frame], PROFILES[profile], matching)
    return None if found is None else to_text(found)


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        (ds.EqualTo(("Label",), "Größe (1)"), "(mSMQLabelEx=Größe \\281\\29)"),
        (ds.EqualNullSafe(("Label",), "x"), "(mSMQLabelEx=x)"),
        (ds.In(("Label",), ["x", None, "y"]), "(|(mSMQLabelEx=x)(mSMQLabelEx=y))"),
        (ds.StringStartsWith(("Label",), "orders"), "(mSMQLabelEx=order*)"),
        (ds.StringStartsWith(("Label",), "or é"), "(mSMQLabelEx=or*)"),
        (ds.StringStartsWith(("Label",), "é"), "(mSMQLabelEx=*)"),
        (ds.StringStartsWith(("Label",), " x"), "(mSMQLabelEx=*)"),
        (ds.StringStartsWith(("Label",), " xy"), "(mSMQLabelEx=*)"),
        (ds.StringStartsWith(("Label",), "a  b"), "(mSMQLabelEx=a*)"),  # servers join blanks
        (ds.StringStartsWith(("Label",), "a*b"), "(mSMQLabelEx=a\\2a*)"),
        (ds.EqualTo(("Quota",), 7), "(mSMQQueueQuota=7)"),
        (ds.EqualTo(("Quota",), 2**32 - 2), "(|(mSMQQueueQuota=-2)(mSMQQueueQuota=4294967294))"),
        (ds.EqualTo(("Quota",), -1), "(!(objectClass=*))"),
        (ds.LessThan(("Quota",), 7), "(&(mSMQQueueQuota>=0)(mSMQQueueQuota<=6))"),
        (ds.GreaterThan(("BasePriority",), 0), "(&(mSMQBasePriority>=1)(mSMQBasePriority<=2147483647))"),
        (ds.EqualTo(("BasePriority",), 2**31), "(!(objectClass=*))"),
        (ds.EqualTo(("Journaling",), True), "(mSMQJournal=TRUE)"),
        (ds.EqualTo(("PrivacyLevel",), "Body"), "(mSMQPrivacyLevel=2)"),
        (ds.EqualTo(("PrivacyLevel",), "body"), "(!(objectClass=*))"),
        (ds.EqualTo(("Identifier",), GUID), to_text(Equal("objectGUID", UUID(GUID).bytes_le))),
        (ds.EqualTo(("Identifier",), GUID.upper()), "(!(objectClass=*))"),
        (ds.IsNotNull(("Identifier",)), "(objectGUID=*)"),
        (ds.EqualTo(("FullPath",), "CN=a\\,b,DC=x"), "(entryDN=CN=a\\5c,b,DC=x)"),
        (
            ds.GreaterThanOrEqual(("ModifyTime",), NEW_YEAR),
            "(modifyTimestamp>=20200101000000.0Z)",
        ),
        (
            ds.EqualTo(("ModifyTime",), NEW_YEAR),
            "(&(modifyTimestamp>=20200101000000.0Z)(modifyTimestamp<=20200101000001.0Z))",
        ),
        (ds.EqualTo(("ModifyTime",), NEW_YEAR.replace(microsecond=1)), "(!(objectClass=*))"),
    ],
)
def test_words(offered: ds.Filter, words: str) -> None:
    assert asked(offered) == words


@pytest.mark.parametrize(
    "offered",
    [
        ds.Not(ds.EqualTo(("Label",), "x")),
        ds.IsNull(("Label",)),
        ds.IsNull(("Security",)),
        ds.EqualTo(("Label",), ""),  # the default
        ds.EqualTo(("Quota",), 2**32 - 1),
        ds.GreaterThan(("Quota",), 5),
        ds.In(("Quota",), [5, 2**32 - 1]),
        ds.EqualTo(("Journaling",), False),
        ds.EqualTo(("Type",), str(UUID(int=0))),
        ds.EqualTo(("PrivacyLevel",), "Optional"),
        ds.IsNotNull(("Label",)),  # never NULL
        ds.EqualTo(("Label",), "tab\t"),
        ds.EqualTo(("Label",), "\ud800"),
        ds.GreaterThan(("Label",), "x"),
        ds.GreaterThan(("Identifier",), GUID),
        ds.StringStartsWith(("Identifier",), "6dc5"),
        ds.StringEndsWith(("Label",), "x"),
        ds.StringContains(("Label",), "x"),
        ds.EqualTo(("Identifier",), "no GUID"),
        ds.EqualTo(("Pathname",), "a\\b"),
        ds.EqualTo(("QualifiedPathname",), "a\\b"),
        ds.EqualTo(("DirectoryPath",), "LDAP://CN=x"),
        ds.EqualTo(("FullPath",), "no DN"),
        ds.StringStartsWith(("FullPath",), "CN=x"),
        ds.EqualTo(("Security",), b"\x01"),
        ds.EqualTo(("Unreadable",), ["x"]),
        ds.EqualTo(("OriginalIdentifier",), GUID),
        ds.EqualTo(("Label", "x"), "y"),
        ds.EqualTo(("Quota",), True),
        ds.EqualTo(("ModifyTime",), NEW_YEAR.replace(tzinfo=None)),
        ds.In(("Label",), [str(n) for n in range(VALUES_MAX + 1)]),
        ds.In(("Label",), [None]),
        ds.EqualTo(("Label",), None),
    ],
)
def test_what_is_never_asked(offered: ds.Filter) -> None:
    assert asked(offered) is None


def test_many_values_are_asked_for_as_long_as_a_server_bears_them() -> None:
    words = asked(ds.In(("Label",), [str(n) for n in range(1, VALUES_MAX + 1)]))
    assert words is not None
    assert words.count("mSMQLabelEx=") == VALUES_MAX


def test_other_frames() -> None:
    assert asked(ds.EqualTo(("dn",), "DC=x"), "ldap") == "(entryDN=DC=x)"
    assert asked(ds.EqualTo(("objectClass",), ["top"]), "ldap") is None
    assert asked(ds.EqualTo(("Name",), "Paris"), "site") == "(cn=Paris)"
    assert asked(ds.EqualTo(("AccountName",), "w$"), "computer") == "(sAMAccountName=w$)"
    assert asked(ds.EqualTo(("Sid",), "S-1-5-18"), "computer", "activedirectory") is not None
    assert asked(ds.EqualTo(("Sid",), "nobody"), "computer") is None
    assert asked(ds.EqualTo(("QualifiedComputerName",), "a.b"), "queue-manager") is None
    assert asked(ds.EqualTo(("Site1Identifier",), GUID), "routing-link") is None
    assert asked(ds.EqualTo(("FullPath",), "DC=x"), "user", "activedirectory") == "(distinguishedName=DC=x)"
    assert (
        asked(ds.EqualTo(("PublicEncryptionKeyList",), b"\x00a"), "queue-manager") == "(mSMQEncryptKey=\\00a)"
    )
    assert asked(ds.LessThan(("CreateTime",), NEW_YEAR), "queue", "activedirectory") == (
        "(&(whenCreated>=16010101000000.0Z)(whenCreated<=20200101000000.0Z))"
    )


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        (ds.EqualTo(("Quota",), 2**32 - 2), "(mSMQQueueQuota=-2)"),
        (ds.EqualTo(("Quota",), 2**31 - 1), "(mSMQQueueQuota=2147483647)"),
        (ds.LessThan(("Quota",), 7), "(&(mSMQQueueQuota>=0)(mSMQQueueQuota<=6))"),
        (
            ds.LessThan(("Quota",), 2**31 + 2),
            "(|(&(mSMQQueueQuota>=-2147483648)(mSMQQueueQuota<=-2147483647))(mSMQQueueQuota>=0))",
        ),
        (ds.GreaterThan(("Services",), 2**31 + 1), "(&(mSMQServices>=-2147483646)(mSMQServices<=-1))"),
    ],
)
def test_a_domain_controller_gets_no_number_that_it_would_wrap(offered: ds.Filter, words: str) -> None:
    frame = "settings" if offered.attribute == ("Services",) else "queue"
    assert asked(offered, frame, "activedirectory") == words


@pytest.mark.parametrize("year", [1601, 1969, 2020, 2300, 9998])
def test_a_microsecond_before_a_second(year: int) -> None:
    """As floats, times of the year 2300 are exact to some microseconds only."""
    second = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
    before, after = second - MICROSECOND, second + MICROSECOND
    this, last = f"{year}1231235959.0Z", f"{year}1231235958.0Z"
    following = f"{year + 1}0101000000.0Z"
    for test, value, words in [
        (ds.GreaterThan, before, f"(ModifyTime>={this})"),
        (ds.GreaterThan, second, f"(ModifyTime>={following})"),
        (ds.GreaterThanOrEqual, before, f"(ModifyTime>={this})"),
        (ds.GreaterThanOrEqual, after, f"(ModifyTime>={following})"),
        (ds.LessThan, second, f"(ModifyTime<={this})"),  # the second after the last one that counts
        (ds.LessThan, after, f"(ModifyTime<={following})"),
        (ds.LessThanOrEqual, before, f"(ModifyTime<={this})"),
        (ds.LessThanOrEqual, second, f"(ModifyTime<={following})"),
    ]:
        assert words.replace("ModifyTime", "modifyTimestamp") in str(asked(test(("ModifyTime",), value)))
    for value in (before, after):
        assert asked(ds.EqualTo(("ModifyTime",), value)) == "(!(objectClass=*))"
    assert last not in str(asked(ds.EqualTo(("ModifyTime",), second)))


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        (ds.EqualTo(("Quota",), 7), "(mSMQQueueQuota=7)"),
        (
            ds.In(("Quota",), [7, 2**32 - 2]),
            "(|(mSMQQueueQuota=7)(|(mSMQQueueQuota=-2)(mSMQQueueQuota=4294967294)))",
        ),
        (ds.GreaterThanOrEqual(("BasePriority",), 2**31 - 1), "(mSMQBasePriority=2147483647)"),
        (ds.EqualTo(("Quota",), -1), "(!(objectClass=*))"),
        (ds.GreaterThan(("BasePriority",), 0), None),
        (ds.LessThan(("Quota",), 7), None),
        (ds.EqualTo(("ModifyTime",), NEW_YEAR), None),  # the second has a beginning and an end
        (ds.StringStartsWith(("Label",), "orders"), "(mSMQLabelEx=*)"),
    ],
)
def test_a_server_without_rules_for_order_and_parts(offered: ds.Filter, words: str | None) -> None:
    assert asked(offered, matching=Equality({}, publishes_rules=True)) == words


def test_what_the_schema_cannot_compare_is_not_asked() -> None:
    frame, profile = FRAME_TYPES["queue"], PROFILES["openldap"]
    unable = Matching({}, publishes_rules=True)
    for offered in (
        ds.EqualTo(("Label",), "x"),
        ds.EqualTo(("Quota",), 5),
        ds.LessThan(("Quota",), 5),
        ds.LessThan(("CreateTime",), NEW_YEAR),
    ):
        term = term_of(offered)
        assert term is not None
        assert attributes_of(term, frame, profile)
        assert to_ldap(term, frame, profile, unable) is None
