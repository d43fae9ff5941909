"""What a server can compare, read out of its schema."""

from mqdssm.directory.entries import Entry
from mqdssm.errors import GenericDirectoryError
from mqdssm.spark.pushdown import Matching

SLAPD = [
    "( 2.5.4.41 NAME 'name' EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX 1.3 )",
    "( 2.5.4.3 NAME ( 'cn' 'commonName' ) DESC 'a NAME ''x'' of it' SUP name )",
    "( 1.2.1 NAME 'quota' EQUALITY integerMatch SYNTAX 1.3 SINGLE-VALUE )",
    "( 1.2.2 NAME 'ring' SUP ring )",
    "( 1.2.3 NAME 'orphan' SUP nothing )",
    "broken NAME 'broken'",
]
ACTIVE_DIRECTORY = [
    "( 1.2.840.113556.1.4.919 NAME 'mSMQQuota' SYNTAX '1.3.6.1.4.1.1466.115.121.1.27' SINGLE-VALUE )"
]


def test_rules_are_inherited() -> None:
    matching = Matching.parse(SLAPD, ["CN", "quota"])
    assert matching.can_compare("cn", "EQUALITY")
    assert matching.can_compare("CommonName", "SUBSTR") is False  # not asked for
    assert matching.can_compare("cn", "SUBSTR")
    assert not matching.can_compare("cn", "ORDERING")
    assert matching.can_compare("QUOTA", "EQUALITY")
    assert not matching.can_compare("quota", "ORDERING")


def test_what_is_not_known_cannot_be_compared() -> None:
    matching = Matching.parse(SLAPD, ["missing", "ring", "orphan", "broken"])
    assert not any(matching.can_compare(name, "EQUALITY") for name in ("missing", "ring", "orphan", "broken"))
    assert not Matching({}, publishes_rules=False).can_compare("cn", "EQUALITY")


def test_a_server_that_publishes_no_rules_compares_what_it_knows() -> None:
    matching = Matching.parse(ACTIVE_DIRECTORY, ["mSMQQuota", "mSMQLabelEx"])
    assert matching.can_compare("msmqquota", "ORDERING")
    assert not matching.can_compare("mSMQLabelEx", "EQUALITY")


class Hidden:
    """A session with a server whose schema this user may not see."""

    def __init__(self, **attributes: list[bytes]) -> None:
        self.root_dse = Entry("", attributes)

    def get(self, *_: object) -> Entry:
        raise GenericDirectoryError("refused")


def test_a_hidden_schema_lets_nothing_be_asked() -> None:
    for session in (Hidden(), Hidden(subschemasubentry=[b"cn=Subschema"])):
        assert not Matching.of(session, ["cn"]).can_compare("cn", "EQUALITY")
