"""When two values are one (decision M81), and which attributes refer to other objects."""

from uuid import UUID

import pytest

from mqdssm.tables import TABLES
from mqdssm.tables.equality import DEFAULTS, are_equal, find_differences, has_expected_values, key_of
from mqdssm.tables.references import REFERENCES, ReferenceForm
from mqdssm.wire.dtyp import EVERYONE, Ace, AceFlags, DescriptorControl, SecurityDescriptor, Sid, allow, deny

ADMINS, GUESTS = Sid("S-1-5-32-544"), Sid("S-1-5-32-546")
FULL, SEND = allow(ADMINS, 0xF003F), allow(EVERYONE, 0x24)
NOT_GUESTS = deny(GUESTS, 0xF003F)


def image(*aces: Ace, owner: Sid | None = ADMINS, group: Sid | None = None, control: int = 0) -> bytes:
    return bytes(SecurityDescriptor.build(owner=owner, group=group, dacl=aces, control=control))


@pytest.mark.parametrize(
    ("attribute", "one", "other"),
    [
        ("mSMQSite1", b"CN=A,CN=Sites,DC=x", b"cn=a, cn=sites, dc=X"),
        ("mSMQLabelEx", b"Orders  of May", b" orders of may"),
        ("mSMQLabelEx", b"a   b    c", b"a b c"),
        ("mSMQLabelEx", b" ", b"   "),
        ("mSMQSite1", b"CN=A   B,DC=x", b"CN=a b,DC=x"),
        ("mSMQLabelEx", "Aufträge".encode(), "AUFTRA\u0308GE".encode()),
        ("mSMQQueueQuota", b"-1", b"4294967295"),
        ("mSMQPrivacyLevel", b"2", b"2"),
        ("mSMQJournal", b"TRUE", b"true"),
        ("whenCreated", b"20260101120000.0Z", b"20260101120000Z"),
        ("mSMQCSPName", b"Y", b"y"),
        ("nTSecurityDescriptor", image(FULL, SEND), image(SEND, FULL)),
        ("nTSecurityDescriptor", image(FULL, FULL), image(FULL)),
    ],
)
def test_one_value_in_two_spellings(attribute, one, other):
    assert are_equal(attribute, (one,), (other,))
    assert are_equal(attribute.upper(), [other], [one])


@pytest.mark.parametrize(
    ("attribute", "one", "other"),
    [
        ("mSMQSite1", b"CN=A,DC=x", b"CN=B,DC=x"),
        ("mSMQLabelEx", "Straße".encode(), b"Strasse"),
        (
            "mSMQLabelEx",
            b"orders of May",
            b"ordersofMay",
        ),  # how many blanks does not count, that they are does
        ("mSMQLabelEx", b"a b", b"ab"),
        ("mSMQSite1", b"CN=A B,DC=x", b"CN=AB,DC=x"),
        ("mSMQQueueQuota", b"-1", b"1"),
        ("mSMQQueueQuota", b"4294967296", b"0"),
        ("objectGUID", UUID(int=1 << 127).bytes_le, UUID(int=1 << 127).bytes),
        ("mSMQEncryptKey", b"abc", b"ABC"),
        ("objectSid", bytes(ADMINS), bytes(GUESTS)),
        ("whenCreated", b"20260101120000.0Z", b"20260101120001.0Z"),
        ("unknownAttribute", b"a", b"A"),
        ("nTSecurityDescriptor", image(FULL), image(FULL, owner=GUESTS)),
        ("nTSecurityDescriptor", image(NOT_GUESTS, FULL), image(FULL, NOT_GUESTS)),  # order says who wins
        ("nTSecurityDescriptor", image(FULL), image(FULL, control=DescriptorControl.DACL_PROTECTED)),
        (
            "nTSecurityDescriptor",
            image(),
            bytes(SecurityDescriptor(DescriptorControl.SELF_RELATIVE | 4, ADMINS)),
        ),
    ],
)
def test_two_values(attribute, one, other):
    assert not are_equal(attribute, (one,), (other,))


@pytest.mark.parametrize("raw", [b"x", b"\xff", b"1_0", b""])
@pytest.mark.parametrize(
    "attribute", ["mSMQSite1", "mSMQQueueQuota", "whenCreated", "mSMQLabelEx", "nTSecurityDescriptor"]
)
def test_what_breaks_its_syntax_is_compared_as_octets(attribute, raw):
    assert key_of(attribute, raw) == key_of(attribute, raw)
    assert not are_equal(attribute, (raw,), (b"something else",))


def test_values_are_a_set():
    one, other = UUID(int=1).bytes_le, UUID(int=2).bytes_le
    assert are_equal("mSMQSites", (one, other), [other, one])
    assert not are_equal("mSMQSites", (one,), (one, other))
    assert not are_equal("mSMQSites", (), (one,))
    assert are_equal("mSMQSites", (), [])


def test_a_server_may_complete_a_descriptor():
    inherited = allow(GUESTS, 0x20094)
    inherited = Ace(inherited.type, AceFlags.INHERITED, inherited.mask, inherited.sid)
    there = image(FULL, inherited, group=ADMINS, control=DescriptorControl.DACL_AUTO_INHERITED)
    given = image(FULL, owner=None)
    assert has_expected_values("nTSecurityDescriptor", (given,), (there,))
    assert not are_equal("nTSecurityDescriptor", (given,), (there,))
    assert not has_expected_values("nTSecurityDescriptor", (there,), (given,))
    assert not has_expected_values("nTSecurityDescriptor", (given,), (image(SEND),))
    assert not has_expected_values("nTSecurityDescriptor", (given,), (b"rubbish",))
    assert not has_expected_values("nTSecurityDescriptor", (given,), ())


@pytest.mark.parametrize("hides_sacls", [True, False])
def test_a_sacl_that_is_absent_is_there_only_where_sacls_are_hidden(hides_sacls):
    audit, other = (
        bytes(SecurityDescriptor.from_sddl(f"O:BAD:(A;;0xf003f;;;BA)S:(AU;{flags};0x1;;;WD)"))
        for flags in ("SA", "FA")
    )
    name, plain = "nTSecurityDescriptor", image(FULL)
    assert has_expected_values(name, (audit,), (plain,), hides_sacls=hides_sacls) is hides_sacls
    wanted = {name: (audit,)}
    assert find_differences(wanted, {name: (plain,)}, hides_sacls=hides_sacls) == (
        () if hides_sacls else (name,)
    )
    assert has_expected_values(name, (audit,), (audit,), hides_sacls=hides_sacls)
    assert not has_expected_values(name, (audit,), (other,), hides_sacls=hides_sacls)  # another one is shown
    assert has_expected_values(name, (plain,), (audit,), hides_sacls=hides_sacls)  # nothing was said of it
    assert not are_equal(name, (audit,), (plain,))


def test_what_an_object_does_not_hold():
    wanted = {
        "mSMQLabelEx": (b"a",),
        "mSMQJournal": (b"FALSE",),
        "mSMQQueueType": (),
        "mSMQBasePriority": (b"3",),
    }
    found = {"msmqlabelex": [b"A"], "msmqqueuetype": [bytes(16)]}
    assert find_differences(wanted, found) == ("mSMQJournal", "mSMQQueueType", "mSMQBasePriority")
    assert find_differences(wanted, found, "mSMQQueue") == ("mSMQBasePriority",)
    assert find_differences({}, found) == ()


def test_absence_means_the_default_of_the_abstract_model():
    assert DEFAULTS["mSMQQueue"]["msmqqueuequota"] == (b"-1",)
    assert "msmqlabelex" not in DEFAULTS["mSMQQueue"]  # no directory holds an empty text
    assert DEFAULTS["site"]["msmqnt4stub"] == (b"0",)


def test_every_reference_of_the_tables_is_known():
    of_dn = {
        (ldap_class, name)
        for ldap_class, references in REFERENCES.items()
        for name, reference in references.items()
        if reference.form is ReferenceForm.DN
    }
    in_tables = {
        (table.ldap_class, row.ldap[0])
        for table in TABLES.values()
        for row in table.rows
        if row.syntax.name == "DN_TEXT" and row.kind == "GUID"
    }
    assert of_dn == in_tables
    assert REFERENCES["mSMQConfiguration"]["mSMQSites"].form is ReferenceForm.GUID
    assert REFERENCES["mSMQSettings"]["mSMQQMID"].ldap_class == "mSMQConfiguration"
