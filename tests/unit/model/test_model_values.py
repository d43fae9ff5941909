"""Values of elements: what is accepted, what is refused and how it is said, JSON."""

import json
import uuid
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from mqdssm.model.dn import DN
from mqdssm.model.elements import (
    Queue,
    QueueManager,
    RoutingLink,
    Site,
    User,
)
from mqdssm.model.enums import DirectoryServerType, OperatingSystemType, PrivacyLevel
from mqdssm.model.names import PathName

GUID = uuid.UUID("5eefd5c9-3f2a-4b6c-9d8e-0123456789ab")
NIL = uuid.UUID(int=0)


def refused(make) -> str:
    with pytest.raises(ValidationError) as caught:
        make()
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


# -- values -------------------------------------------------------------------------------------


def test_limits_are_named_with_the_length():
    assert "Label is 125 UTF-16 code units long: the limit is 124" in refused(lambda: Queue(label="x" * 125))
    assert "Label is 126 UTF-16" in refused(lambda: Queue(label="\U0001d11e" * 63))
    assert Queue(label="\U0001d11e" * 62).is_populated("Label")
    assert "Name is 65 UTF-16" in refused(lambda: Site(name="x" * 65))
    assert "Description is 1025 UTF-16" in refused(lambda: RoutingLink(description="x" * 1025))
    big = b"x" * 1_048_577
    assert "Certificates is 1048577 bytes long: the limit is 1048576" in refused(
        lambda: User(certificates=big)
    )
    assert "PublicSigningKeyList is 1048577" in refused(lambda: QueueManager(public_signing_key_list=big))
    assert User(certificates=big[1:]).is_populated("Certificates")


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: Queue(label=None), "Label may not be None: leave it out"),
        (lambda: Queue(label=b"x"), "Label must be text, not bytes"),
        (lambda: Queue(label=1), "Label must be text, not int"),
        (lambda: Queue(label="a\0"), "Label contains NUL"),
        (lambda: Queue(label="\ud800"), "Label contains half of a surrogate pair"),
        (lambda: Site(name=""), "Name may not be empty"),
        (lambda: QueueManager(computer_name="x" * 65), "ComputerName is 65"),
        (lambda: Queue(quota=-1), "Quota is -1: 0 to 4294967295"),
        (lambda: Queue(quota=1 << 32), "Quota is 4294967296: 0 to 4294967295"),
        (lambda: Queue(quota=True), "Quota must be a whole number"),
        (lambda: Queue(quota=1.0), "Quota must be a whole number"),
        (lambda: Queue(quota="1_0"), "Quota must be a whole number"),
        (lambda: Queue(quota=" 7\n"), "Quota must be a whole number"),
        (lambda: Queue(quota="١"), "Quota must be a whole number"),
        (lambda: Queue(base_priority=32768), "BasePriority is 32768: -32768 to 32767"),
        (lambda: Queue(base_priority=-32769), "BasePriority is -32769"),
        (lambda: RoutingLink(actual_cost=0), "ActualCost is 0: 1 to 999999"),
        (lambda: RoutingLink(actual_cost=1_000_000), "ActualCost is 1000000"),
        (lambda: Queue(journaling=1), "Journaling must be true or false"),
        (lambda: Queue(journaling="yes"), "Journaling must be true or false"),
        (lambda: Queue(privacy_level=3), "PrivacyLevel is 3: one of None, Optional, Body"),
        (lambda: Queue(privacy_level="Base"), "PrivacyLevel is 'Base'"),
        (lambda: Queue(privacy_level=True), "PrivacyLevel is True"),
        (lambda: Queue(privacy_level="01"), "PrivacyLevel is '01'"),
        (
            lambda: QueueManager(operating_system_type=1),
            "Other, Foreign, Win95, WinClient, WinServer, WinEnt",
        ),
        (lambda: Queue(identifier=GUID.bytes), "Identifier must be a GUID"),
        (lambda: Queue(identifier="5eefd5c9"), "Identifier must be a GUID"),
        (lambda: Queue(identifier=str(GUID).replace("-", "")), "Identifier must be a GUID"),
        (lambda: QueueManager(site_identifier_list=GUID), "SiteIdentifierList must be a list"),
        (lambda: QueueManager(site_identifier_list="ab"), "SiteIdentifierList must be a list"),
        (lambda: QueueManager(site_identifier_list=[1]), "SiteIdentifierList must be a GUID"),
        (lambda: Queue(security="@"), "Security must be bytes, or base64 text"),
        (lambda: Queue(security=5), "Security must be bytes, or base64 text"),
        (lambda: Queue(security=GUID), "Security must be bytes, or base64 text"),
        (lambda: User(certificate_digest_list=[b"x"]), "CertificateDigestList is 1 bytes long"),
        (lambda: User(security_identifier="S-1"), "SecurityIdentifier must be a SID"),
        (lambda: User(security_identifier="S-2-5-18"), "SecurityIdentifier must be a SID"),
        (
            lambda: User(security_identifier="S-1-5-4294967296"),
            "'S-1-5-4294967296' is no SID",
        ),
        (lambda: User(security_identifier="S-1-5" + "-1" * 16), "is no SID"),
        (lambda: Queue(pathname="orders"), "Pathname 'orders' is no path name"),
        (lambda: Queue(pathname=""), "Pathname '' is no path name"),
        (lambda: Queue(qualified_pathname="orders"), "QualifiedPathname 'orders' is no path name"),
        (
            lambda: Queue(multicast_address="10.0.0.1:1"),
            "'10.0.0.1:1' is no multicast address",
        ),
        (lambda: Queue(full_path="CN=a;b"), "FullPath must be a distinguished name"),
        (lambda: Queue(full_path=""), "FullPath may not be empty"),
        (lambda: Queue(create_time=datetime(2020, 1, 1)), "CreateTime is a datetime without a time zone"),  # noqa: DTZ001  that is the point
        (lambda: Queue(create_time=253402300800), "CreateTime is 253402300800"),
    ],
)
def test_refused_values_name_attribute_and_limit(make, part):
    assert part in refused(make)


class KnowsItsBytes:
    def __bytes__(self) -> bytes:
        return b"\x01\x02"


class IsASid:
    def __str__(self) -> str:
        return "S-1-5-21-1-2-3-1001"


@pytest.mark.parametrize(
    ("element", "field", "given", "held"),
    [
        (Queue, "quota", "4294967295", 0xFFFFFFFF),
        (Queue, "quota", "0xFFFFFFFF", 0xFFFFFFFF),
        (Queue, "quota", 0, 0),
        (Queue, "base_priority", "-32768", -32768),
        (RoutingLink, "actual_cost", 999999, 999999),
        (Queue, "journaling", "TRUE", True),
        (Queue, "journaling", "false", False),
        (Queue, "privacy_level", "None", PrivacyLevel.NONE),
        (Queue, "privacy_level", 2, PrivacyLevel.BODY),
        (Queue, "privacy_level", "2", PrivacyLevel.BODY),
        (Queue, "privacy_level", "body", PrivacyLevel.BODY),
        (QueueManager, "operating_system_type", "Unknown", OperatingSystemType.OTHER),
        (QueueManager, "operating_system_type", "Other", OperatingSystemType.OTHER),
        (QueueManager, "operating_system_type", "Windows 95", OperatingSystemType.WIN95),
        (QueueManager, "operating_system_type", "Win95", OperatingSystemType.WIN95),
        (QueueManager, "operating_system_type", "WIN_SERVER", OperatingSystemType.WIN_SERVER),
        (QueueManager, "operating_system_type", "0x500", OperatingSystemType.WIN_ENT),
        (QueueManager, "directory_server_type", 8, DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER),
        (Queue, "identifier", "{5EEFD5C9-3F2A-4B6C-9D8E-0123456789AB}", GUID),
        (QueueManager, "site_identifier_list", [str(GUID), NIL], (GUID, NIL)),
        (Queue, "security", "AQI=", b"\x01\x02"),
        (Queue, "security", bytearray(b"\x01\x02"), b"\x01\x02"),
        (Queue, "security", memoryview(b"\x01\x02"), b"\x01\x02"),
        (Queue, "security", KnowsItsBytes(), b"\x01\x02"),
        (User, "certificate_digest_list", [GUID, "00" * 16], (GUID.bytes_le, bytes(16))),
        (User, "certificate_digest_list", (bytes(16),), (bytes(16),)),
        (User, "security_identifier", "s-1-5-18", "S-1-5-18"),
        (User, "security_identifier", "S-1-0x0000000000FF-1", "S-1-0x0000000000FF-1"),
        (User, "security_identifier", IsASid(), "S-1-5-21-1-2-3-1001"),
        (Queue, "pathname", PathName("web01", "orders"), r"web01\orders"),
        (Queue, "pathname", "web 01\\ a,b", "web 01\\ a,b"),
        (Queue, "qualified_pathname", "", ""),
        (Queue, "multicast_address", "234.1.1.1:8001", "234.1.1.1:8001"),
        (Queue, "multicast_address", "", ""),
        (Queue, "full_path", DN.parse("CN=a , DC=b"), "CN=a,DC=b"),
        (Queue, "full_path", "CN=a, DC=b", "CN=a, DC=b"),
        (Queue, "create_time", datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC), 1_000_000_000),
        (Queue, "create_time", -11_644_473_600, -11_644_473_600),
    ],
)
def test_what_is_accepted_and_how_it_is_held(element, field, given, held):
    made = element(**{field: given})
    value = getattr(made, field)
    assert value == held
    assert type(value) is type(held)
    assigned = element()
    setattr(assigned, field, given)
    assert assigned == made
    assert element(**{element.adm_name(field): given}) == made


# -- JSON ---------------------------------------------------------------------------------------


def test_json_uses_the_specifications_names_and_values():
    manager = QueueManager(
        identifier=GUID,
        operating_system_type=OperatingSystemType.WIN_SERVER,
        directory_server_type=DirectoryServerType.STANDALONE,
        site_identifier_list=[GUID],
        security=b"\x01\xff\xfe",
        clustered=False,
    )
    assert json.loads(manager.to_json()) == {
        "Identifier": str(GUID),
        "OperatingSystemType": "WinServer",
        "DirectoryServerType": "Standalone",
        "SiteIdentifierList": [str(GUID)],
        "Security": "Af/+",
        "Clustered": False,
    }
    assert QueueManager.from_json(manager.to_json()) == manager


@pytest.mark.parametrize(
    ("member", "name"),
    [
        *zip(PrivacyLevel, ["None", "Optional", "Body"], strict=True),
        *zip(
            OperatingSystemType,
            ["Other", "Foreign", "Win95", "WinClient", "WinServer", "WinEnt"],
            strict=True,
        ),
        *zip(
            DirectoryServerType,
            ["Standalone", "BackupSiteController", "PrimarySiteController", "PrimaryEnterpriseController"],
            strict=True,
        ),
    ],
)
def test_enumerations_are_written_by_name(member, name):
    fields = {
        PrivacyLevel: (Queue, "PrivacyLevel"),
        OperatingSystemType: (QueueManager, "OperatingSystemType"),
        DirectoryServerType: (QueueManager, "DirectoryServerType"),
    }
    element, adm = fields[type(member)]
    written = element(**{adm: member}).to_json()
    assert json.loads(written) == {adm: name}
    assert getattr(element.from_json(written), element.field_name(adm)) is member


def test_digests_are_written_in_hexadecimal():
    user = User(certificate_digest_list=[bytes(range(16))])
    assert json.loads(user.to_json()) == {"CertificateDigestList": ["000102030405060708090a0b0c0d0e0f"]}


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"Quota": null}', '{"Quota": 1.5}', '{"Label": 1}'])
def test_json_that_is_no_element(text):
    with pytest.raises(ValueError):
        Queue.from_json(text)
