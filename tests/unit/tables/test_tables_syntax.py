"""Values on the wire and what they stand for: strict, in both directions."""

from uuid import UUID

import pytest

from mqdssm.errors import MappingError
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.tables import TABLES, syntax, table_of
from mqdssm.tables import adsyntax as ad
from mqdssm.tables.dependent_objects import COPIED

GUID_TEXT = "16ed6a7d-1b8e-4ae8-b37e-5c1d8b8f0a11"
SID_BYTES = bytes.fromhex("010500000000000515000000010000000200000003000000f4010000")

GOOD = [
    (syntax.BOOLEAN, b"TRUE", True),
    (syntax.BOOLEAN, b"FALSE", False),
    (syntax.INT32, b"0", 0),
    (syntax.INT32, b"-32768", -32768),
    (syntax.INT32, b"2147483647", 2**31 - 1),
    (syntax.INT32, b"-2147483648", -(2**31)),
    (syntax.UINT32, b"0", 0),
    (syntax.UINT32, b"2147483647", 2**31 - 1),
    (syntax.UINT32, b"-2147483648", 2**31),
    (syntax.UINT32, b"-1", 0xFFFFFFFF),  # M11
    (syntax.UNICODE, "größe 🐘".encode(), "größe 🐘"),
    (syntax.TELETEX, b"Y", "Y"),
    (syntax.OCTETS, b"\x00\xff", b"\x00\xff"),
    (syntax.OCTETS16, b"0123456789abcdef", b"0123456789abcdef"),
    (syntax.DESCRIPTOR, b"\x01\x00", b"\x01\x00"),
    (syntax.GUID, bytes.fromhex("7d6aed168e1be84ab37e5c1d8b8f0a11"), UUID(GUID_TEXT)),
    (syntax.SID, SID_BYTES, "S-1-5-21-1-2-3-500"),
    (syntax.DN_TEXT, b"CN=S1,CN=Sites", "CN=S1,CN=Sites"),
    (syntax.TIME, b"19700101000000.0Z", 0),
    (syntax.TIME, b"20261121001513.0Z", 1795220113),
    (syntax.TIME, b"20240229235959.0Z", 1709251199),
    (syntax.TIME, b"16010101000000.0Z", -11_644_473_600),
    (syntax.TIME, b"99991231235959.0Z", 253_402_300_799),
]


@pytest.mark.parametrize(("kind", "raw", "value"), GOOD)
def test_values_go_both_ways(kind, raw, value):
    assert kind.load(raw) == value
    assert type(kind.load(raw)) is type(value)
    assert kind.dump(value) == raw


READ_ONLY_FORMS = [
    (syntax.TIME, b"20261121001513Z", 1795220113),  # slapd's own
    (syntax.TIME, b"20261121001513.617504Z", 1795220113),
    (syntax.TIME, b"20261121001513,9Z", 1795220113),
    # all that [RFC4517] 3.3.13 allows
    (syntax.TIME, b"20261121011513+0100", 1795220113),
    (syntax.TIME, b"20261120191513.5-0500", 1795220113),
    (syntax.TIME, b"20261121001513+00", 1795220113),
    (syntax.TIME, b"202611210015Z", 1795220100),
    (syntax.TIME, b"202611210015.5Z", 1795220130),
    (syntax.TIME, b"2026112100Z", 1795219200),
    (syntax.TIME, b"2026112100,25Z", 1795220100),
    (syntax.TIME, b"2026112106.3" + b"3" * 5000 + b"+0600", 1795220399),
    (syntax.TIME, b"20261121001460Z", 1795220100),  # a leap second
    (syntax.TIME, b"99991231235959-0000", 253_402_300_799),
    (syntax.UINT32, b"4294967295", 0xFFFFFFFF),  # what others wrote into a server without a limit
]


@pytest.mark.parametrize(("kind", "raw", "value"), READ_ONLY_FORMS)
def test_other_forms_that_servers_hold_are_read(kind, raw, value):
    assert kind.load(raw) == value


WRONG_BYTES = [
    (syntax.BOOLEAN, [b"", b"true", b"True", b"1", b"0", b"\x01", b"\x00", b"TRUE ", b"yes"]),
    (syntax.INT32, [b"", b"1_0", b" 7", b"7\n", b"+5", b"010", b"-0", b"0x10", b"2147483648", b"\xd9\xa1"]),
    (syntax.INT32, [b"-2147483649", b"99999999999", b"1.0", b"--1"]),
    (syntax.UINT32, [b"", b"4294967296", b"-2147483649", b"1_0", b"9" * 5000]),
    (syntax.UNICODE, [b"\xff", b"\xc3", b"\xed\xa0\x80"]),
    (syntax.OCTETS16, [b"", b"x" * 15, b"x" * 17]),
    (syntax.GUID, [b"", b"x" * 15, b"x" * 17, b"{16ed6a7d}"]),
    (syntax.SID, [b"", SID_BYTES[:-1], SID_BYTES + b"\x00", b"\x02" + SID_BYTES[1:], b"S-1-5-18"]),
    (syntax.DN_TEXT, [b"\xff"]),
    (
        syntax.TIME,
        [
            *(b"", b"1577836800", b"20261121001513", b"20261321001513.0Z", b"20260230001513.0Z"),
            *(b"20261121241513.0Z", b"20261121006013.0Z", b"20261121001561Z", b"20261121001513.Z"),
            *(
                b"00000101000000.0Z",
                b"16001231235959.0Z",
                b"20261121001513.0z",
                b"20261121001513+2400",
                b"20261121001513+01:00",
                b"20261121.5+01",
                b"16010101000000+0001",
                b"2026-11-21T00:15Z",
            ),
        ],
    ),
]


@pytest.mark.parametrize(("kind", "raw"), [(kind, raw) for kind, raws in WRONG_BYTES for raw in raws])
def test_anything_else_is_refused(kind, raw):
    with pytest.raises(MappingError, match=r"^is no "):
        kind.load(raw)


WRONG_VALUES = [
    (syntax.BOOLEAN, [1, 0, None, "TRUE", 2]),
    (syntax.INT32, [2**31, -(2**31) - 1, True, "1", 1.0, None]),
    (syntax.UINT32, [-1, 2**32, False, "1", None]),
    (syntax.UNICODE, [b"x", None, 1, "\ud800"]),
    (syntax.OCTETS, ["x", None, [1]]),
    (syntax.OCTETS16, [b"x", "0123456789abcdef"]),
    (syntax.GUID, [GUID_TEXT, b"0123456789abcdef", None]),
    (syntax.SID, ["", "S-1", "S-2-5-18", "S-1-5-x", None]),
    (syntax.DN_TEXT, [b"CN=x", "\udfff"]),
    (syntax.TIME, [-11_644_473_601, 253_402_300_800, "0", 1.5, True, None]),
    (syntax.enumeration(PrivacyLevel, ad.ENUMERATION), [0, "Body", None, OperatingSystemType.OTHER]),
]


@pytest.mark.parametrize(("kind", "value"), [(kind, v) for kind, values in WRONG_VALUES for v in values])
def test_values_of_another_type_or_range_are_refused(kind, value):
    with pytest.raises(MappingError, match=r"^is no "):
        kind.dump(value)


def test_a_long_wrong_value_is_not_repeated_in_full():
    with pytest.raises(MappingError) as caught:
        syntax.INT32.load(b"x" * 10_000)
    assert len(str(caught.value)) < 200


# -- the enumeration tables of the specification, on their rows -------------------------------------

OS_TYPES = [
    ("Other", 0x000),
    ("Unknown", 0x000),
    ("Foreign", 0x100),
    ("Win95", 0x200),
    ("WinClient", 0x300),
    ("WinServer", 0x400),
    ("WinEnt", 0x500),
]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.4")
@pytest.mark.parametrize(("name", "number"), OS_TYPES)
def test_operating_system_types_are_written_as_their_number(name, number):
    row = table_of("QueueManager").row("OperatingSystemType")
    assert row.ldap == ("mSMQOSType",)
    assert row.encode(OperatingSystemType[name]) == (b"%d" % number,)


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.2")
@pytest.mark.parametrize(("name", "number"), OS_TYPES)
def test_operating_system_types_are_read_from_their_number(name, number):
    row = table_of("QueueManager").row("OperatingSystemType")
    assert row.decode([b"%d" % number]) is OperatingSystemType[name]


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.2")
def test_other_operating_system_numbers_are_refused():
    row = table_of("QueueManager").row("OperatingSystemType")
    for raw in (b"1", b"256 ", b"1536", b"0x100"):
        with pytest.raises(MappingError, match="mSMQOSType is no OperatingSystemType"):
            row.decode([raw])


PRIVACY = [(0, PrivacyLevel.NONE), (1, PrivacyLevel.Optional), (2, PrivacyLevel.Body)]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.4")
@pytest.mark.parametrize(("number", "level"), PRIVACY)
def test_privacy_levels_are_written_as_their_number(number, level):
    row = table_of("Queue").row("PrivacyLevel")
    assert row.ldap == ("mSMQPrivacyLevel",)
    assert row.encode(level) == (b"%d" % number,)


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.3")
@pytest.mark.parametrize(("number", "level"), PRIVACY)
def test_privacy_levels_are_read_from_their_number(number, level):
    row = table_of("Queue").row("PrivacyLevel")
    assert row.decode([b"%d" % number]) is level
    with pytest.raises(MappingError, match="mSMQPrivacyLevel is no PrivacyLevel"):
        row.decode([b"3"])


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.3.2")
def test_weakened_security_is_read_from_the_name_style():
    row = table_of("Enterprise").row("WeakenedSecurity")
    assert row.ldap == ("mSMQNameStyle",)
    assert row.decode([b"FALSE"]) is False  # 0x00 in the text; the schema makes it a Boolean (M10)
    assert row.decode([b"TRUE"]) is True
    assert row.has_default
    assert row.default is False  # 0x02, internal default: the attribute is not set


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.3.4")
def test_weakened_security_is_filtered_by_the_name_style():
    row = table_of("Enterprise").row("WeakenedSecurity")
    assert (row.encode(False), row.encode(True)) == ((b"FALSE",), (b"TRUE",))


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.3.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.3.4")
def test_notification_is_written_as_y_or_n():
    row = table_of("Enterprise").row("NonLDAPCapableQueueManagerNotification")
    assert row.ldap == ("mSMQCSPName",)
    assert (row.encode(True), row.encode(False)) == ((b"Y",), (b"N",))


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.3.3")
def test_notification_is_read_from_y_or_n():
    row = table_of("Enterprise").row("NonLDAPCapableQueueManagerNotification")
    assert (row.decode([b"Y"]), row.decode([b"N"])) == (True, False)
    for raw in (b"y", b"", b"TRUE", b"Microsoft Base Cryptographic Provider v1.0"):
        with pytest.raises(MappingError, match="mSMQCSPName is no Y or N"):
            row.decode([raw])


def test_the_version_of_the_directory_tells_whether_it_is_old():
    row = table_of("Enterprise").row("OldDirectory")
    assert (row.decode([b"3"]), row.decode([b"200"])) == (True, False)
    assert (row.encode(True), row.encode(False)) == ((b"3",), (b"200",))


# -- rows: many values, lengths, empty values ---------------------------------------------------------


def test_lists_are_carried_value_by_value():
    row = table_of("QueueManager").row("SiteIdentifierList")
    guids = (UUID(int=1), UUID(int=2))
    assert row.encode(guids) == (UUID(int=1).bytes_le, UUID(int=2).bytes_le)
    assert row.decode(row.encode(guids)) == guids
    assert row.encode((guids[0], guids[1], guids[0])) == row.encode(guids)  # a set: a value twice is (20)


def test_empty_values_are_not_sent():  # M38
    assert table_of("Queue").row("Label").encode("") == ()
    assert table_of("QueueManager").row("PublicEncryptionKeyList").encode(b"") == ()
    assert table_of("QueueManager").row("SiteIdentifierList").encode(()) == ()


@pytest.mark.parametrize("name", ["ForeignSite", "MigratedFromMsmq10"])
def test_single_values_in_multi_valued_attributes_have_to_agree(name):  # M10
    row = table_of("Site").row(name)
    yes, no = row.encode(True)[0], row.encode(False)[0]
    assert row.decode([yes]) is True
    assert row.decode([no, no]) is False
    with pytest.raises(MappingError, match="holds 2 different values, one is expected"):
        row.decode([yes, no])
    with pytest.raises(MappingError, match="has no value"):
        row.decode([])


def test_the_stub_of_a_site_is_an_integer_and_its_foreign_flag_a_boolean():  # M10
    site = table_of("Site")
    assert (site.row("MigratedFromMsmq10").encode(True), site.row("ForeignSite").encode(True)) == (
        (b"1",),
        (b"TRUE",),
    )


@pytest.mark.parametrize(
    ("element", "adm", "longest", "unit"),
    [  # M28
        ("Queue", "Label", "ä" * 124, "UTF-16 units"),
        ("Queue", "Label", "🐘" * 62, "UTF-16 units"),
        ("Site", "Name", "s" * 64, "UTF-16 units"),
        ("RoutingLink", "Description", "d" * 1024, "UTF-16 units"),
        ("User", "Certificates", b"c" * 1_048_576, "bytes"),
        ("Queue", "Security", b"s" * 132_096, "bytes"),
    ],
)
def test_lengths_that_active_directory_refuses_are_refused_before(element, adm, longest, unit):
    row = table_of(element).row(adm)
    assert len(row.encode(longest)) == 1
    limit = len(longest) if isinstance(longest, bytes) else len(longest.encode("utf-16-le")) // 2
    with pytest.raises(MappingError, match=f"{row.ldap[0]} takes at most {limit} {unit}, not {limit + 1}"):
        row.encode(longest + (b"x" if isinstance(longest, bytes) else "x"))


def test_a_multicast_address_has_a_least_length():
    row = table_of("Queue").row("MulticastAddress")
    assert row.encode("1.2.3.4:5") == (b"1.2.3.4:5",)
    with pytest.raises(MappingError, match="MSMQ-MulticastAddress takes at least 9 UTF-16 units, not 8"):
        row.encode("1.2.3.4:")


def test_errors_name_the_attribute_and_the_value():
    with pytest.raises(MappingError, match=r"^mSMQQueueQuota is no UINT32: 4294967296 "):
        table_of("Queue").row("Quota").encode(4294967296)
    with pytest.raises(MappingError, match=r"^mSMQQueueQuota is no UINT32: b'many'$"):
        table_of("Queue").row("Quota").decode([b"many"])


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_every_default_goes_both_ways(table):
    for row in table.rows:
        if row.has_default and row.computed is None and row.default not in ("", b"", ()):
            assert row.decode(row.encode(row.default)) == row.default


def test_settings_repeat_attributes_of_the_queue_manager():
    assert [(c.settings, c.configuration) for c in COPIED] == [
        ("mSMQQMID", "objectGUID"),
        ("mSMQServices", "mSMQServiceType"),
        ("mSMQRoutingService", "mSMQRoutingServices"),
        ("mSMQDsService", "mSMQDsServices"),
        ("mSMQDependentClientService", "mSMQDependentClientServices"),
    ]
