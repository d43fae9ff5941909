"""Elements: every attribute and default, populated and assigned (M45), JSON, what is refused."""

import copy
import json
import pickle
import uuid
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import (
    ELEMENTS,
    ConnectedNetwork,
    Enterprise,
    Queue,
    QueueManager,
    RoutingLink,
    Site,
    User,
    element_of,
)
from mqdssm.model.enums import DirectoryServerType, OperatingSystemType, PrivacyLevel
from mqdssm.model.fieldtypes import attribute_name
from mqdssm.model.names import PathName

GUID = uuid.UUID("5eefd5c9-3f2a-4b6c-9d8e-0123456789ab")
NIL = uuid.UUID(int=0)
NO_DEFAULT = None

# [MS-MQDSSM] 3.1.6.20 in its order, with the defaults of 3.1.6.11 and notes <10> to <17>; M12 for Site
DEFAULTS = {
    QueueManager: {
        "Identifier": NO_DEFAULT,
        "ComputerName": NO_DEFAULT,
        "QueueManagerVersion": "",
        "OperatingSystemType": OperatingSystemType.Unknown,
        "QualifiedComputerName": NO_DEFAULT,
        "CreateTime": NO_DEFAULT,
        "ModifyTime": NO_DEFAULT,
        "DirectoryServerType": NO_DEFAULT,
        "RemoteAccessServer": False,
        "QueueManagerQuota": 0x00100000,
        "JournalQuota": 0xFFFFFFFF,
        "ForeignSystem": False,
        "FullPath": NO_DEFAULT,
        "SiteIdentifierList": (),
        "ConnectedNetworkIdentifierList": (),
        "OutRoutingServerIdentifierList": (),
        "InRoutingServerIdentifierList": (),
        "RoutingServer": False,
        "DirectoryServer": False,
        "SupportingServer": False,
        "PublicEncryptionKeyList": b"",
        "PublicSigningKeyList": b"",
        "Security": NO_DEFAULT,
        "Clustered": NO_DEFAULT,
        "OperatingSystemVersion": "",
    },
    Queue: {
        "Identifier": NO_DEFAULT,
        "Label": "",
        "CreateTime": NO_DEFAULT,
        "ModifyTime": NO_DEFAULT,
        "Type": NIL,
        "Pathname": NO_DEFAULT,
        "QualifiedPathname": NO_DEFAULT,
        "Journaling": False,
        "Quota": 0xFFFFFFFF,
        "JournalQuota": 0xFFFFFFFF,
        "Authentication": False,
        "PrivacyLevel": PrivacyLevel.OPTIONAL,
        "Transactional": False,
        "MulticastAddress": "",
        "Security": NO_DEFAULT,
        "BasePriority": 0,
        "FullPath": NO_DEFAULT,
        "DirectoryPath": NO_DEFAULT,
    },
    Enterprise: {
        "Identifier": NO_DEFAULT,
        "Name": NO_DEFAULT,
        "WeakenedSecurity": False,
        "NonLDAPCapableQueueManagerNotification": True,
        "DefaultTimeToLive": 345600,
        "OldDirectory": True,
        "Security": NO_DEFAULT,
    },
    Site: {
        "Identifier": NO_DEFAULT,
        "Name": NO_DEFAULT,
        "PrimarySiteController": NO_DEFAULT,
        "IntraSiteReplicationInterval": 2,
        "InterSiteReplicationInterval": 10,
        "FullPath": NO_DEFAULT,
        "ForeignSite": False,
        "PublicSigningKeyList": b"",
        "MigratedFromMsmq10": False,
        "Security": NO_DEFAULT,
    },
    RoutingLink: {
        "Identifier": NO_DEFAULT,
        "Description": "",
        "FullPath": NO_DEFAULT,
        "ActualCost": NO_DEFAULT,
        "Site1Identifier": NO_DEFAULT,
        "Site2Identifier": NO_DEFAULT,
        "SiteGateIdentifierList": (),
    },
    User: {
        "Identifier": NO_DEFAULT,
        "SecurityIdentifier": NO_DEFAULT,
        "CertificateDigestList": (),
        "Certificates": b"",
        "FullPath": NO_DEFAULT,
    },
    ConnectedNetwork: {"Identifier": NO_DEFAULT, "Name": NO_DEFAULT, "Security": NO_DEFAULT},
}
IN_311 = ["QueueManager", "Queue", "Enterprise", "Site", "RoutingLink", "User"]


def refused(make) -> str:
    with pytest.raises(ValidationError) as caught:
        make()
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


@pytest.mark.spec("MS-MQDSSM 3.1.1.1")
def test_the_elements_are_those_of_the_specification():
    assert list(ELEMENTS) == [*IN_311, "ConnectedNetwork"]
    for name, element in ELEMENTS.items():
        assert element_of(name) is element
        assert element.element_name == name
        assert issubclass(element, DirectoryObject)
    with pytest.raises(ValueError, match="no element 'queue'"):
        element_of("queue")


@pytest.mark.spec("MS-MQDSSM 3.1.1")
@pytest.mark.spec("MS-MQDSSM 3.1.1.1")
@pytest.mark.parametrize("element", DEFAULTS, ids=lambda element: element.element_name)
def test_every_attribute_with_its_default(element):
    fresh = element()
    assert element.adm_names() == tuple(DEFAULTS[element])
    for adm, default in DEFAULTS[element].items():
        value = getattr(fresh, element.field_name(adm))
        assert value == default
        assert type(value) is type(default)
    assert fresh.populated == frozenset()


@pytest.mark.spec("MS-MQDSSM 3.1.1.4")
def test_a_user_has_a_full_path():
    user = User(full_path="CN=u,CN=Users,DC=example,DC=com")
    assert user.populated == {"FullPath"}
    assert User.from_json(user.to_json()).full_path == "CN=u,CN=Users,DC=example,DC=com"


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
def test_names_both_ways(element):
    for adm in element.adm_names():
        field = element.field_name(adm)
        assert element.adm_name(field) == adm
        assert attribute_name(field) == adm  # what an error message calls it
    assert element.unsupported_names - set(element.adm_names()) <= {"Scope", "PublicSigningKey"}


def test_fields_are_named_as_promised():
    assert RoutingLink.field_name("Site1Identifier") == "site1_identifier"
    assert RoutingLink.field_name("Site2Identifier") == "site2_identifier"
    assert Site.field_name("MigratedFromMsmq10") == "migrated_from_msmq10"
    assert Queue.field_name("QualifiedPathname") == "qualified_pathname"
    assert (
        Enterprise.field_name("NonLDAPCapableQueueManagerNotification")
        == "non_ldap_capable_queue_manager_notification"
    )


@pytest.mark.parametrize(
    ("element", "name", "likely"),
    [
        (Queue, "Lable", "Label"),
        (Queue, "label", "Label"),
        (Queue, "QualifiedPathName", "QualifiedPathname"),
        (Queue, "qualified_pathname", "QualifiedPathname"),
        (Site, "Foreign", "ForeignSite"),
        (QueueManager, "Foreign", "ForeignSystem"),
    ],
)
def test_an_unknown_attribute_is_named_with_the_likely_one(element, name, likely):
    with pytest.raises(ValueError, match=f"{element.element_name} has no attribute '{name}': .*{likely}"):
        element.field_name(name)
    with pytest.raises(ValueError, match="has no attribute"):
        element().is_populated(name)
    with pytest.raises(ValueError, match="has no attribute"):
        element().unset(name)


def test_an_unknown_attribute_far_from_all_lists_them():
    with pytest.raises(ValueError, match="it has Identifier, Description, FullPath"):
        RoutingLink.field_name("Zzz")
    with pytest.raises(ValueError, match="has no attribute"):
        RoutingLink.field_name("")
    with pytest.raises(ValueError, match="did you mean label"):
        Queue.adm_name("lable")


def test_an_unknown_attribute_is_refused_everywhere():
    assert "did you mean Label" in refused(lambda: Queue(Lable="x"))
    assert "did you mean Label" in refused(lambda: Queue.from_json('{"Lable": "x"}'))
    queue = Queue()
    with pytest.raises(ValueError, match="did you mean label"):
        queue.lable = "x"
    with pytest.raises(ValueError, match="did you mean label"):
        del queue.lable
    assert queue.populated == frozenset()


# -- populated, assigned (M45) ------------------------------------------------------------------


def test_populated_is_what_was_set_whatever_the_value():
    queue = Queue(pathname=r"web01\orders", label="", quota=0xFFFFFFFF)
    assert queue.populated == {"Pathname", "Label", "Quota"}  # two of them equal their defaults
    assert queue.is_populated("Label")
    assert not queue.is_populated("JournalQuota")
    assert queue.journal_quota == 0xFFFFFFFF


def test_assignment_populates_and_unset_takes_back():
    queue = Queue(Pathname=r"web01\orders")
    queue.label = "Orders"
    assert queue.populated == {"Pathname", "Label"}
    queue.unset("Label")
    assert queue.populated == {"Pathname"}
    assert queue.label == ""
    del queue.pathname
    assert queue.populated == frozenset()
    assert queue.pathname is None


def test_an_object_that_was_never_read_sends_what_is_populated():
    queue = Queue(label="a")
    assert not queue.was_read
    assert queue.assigned == {"Label"}
    queue.quota = 1
    assert queue.assigned == {"Label", "Quota"}


def test_an_object_that_was_read_sends_what_was_assigned_since():
    queue = Queue.from_directory({"identifier": GUID, "label": "a", "quota": 7})
    assert queue.was_read
    assert queue.populated == {"Identifier", "Label", "Quota"}
    assert queue.assigned == frozenset()
    assert (queue.label, queue.quota, queue.journal_quota) == ("a", 7, 0xFFFFFFFF)
    queue.label = "a"  # the same value again is an assignment
    queue.journaling = True
    assert queue.assigned == {"Label", "Journaling"}
    queue.unset("Journaling")
    assert queue.assigned == {"Label"}
    queue.mark_written()
    assert queue.assigned == frozenset()
    queue.quota = 8
    assert queue.assigned == {"Quota"}


def test_a_refused_assignment_changes_nothing():
    queue = Queue.from_directory({"label": "a"})
    assert "Label" in refused(lambda: setattr(queue, "label", "x" * 125))
    assert queue.label == "a"
    assert queue.assigned == frozenset()
    with pytest.raises(ValueError):
        queue.quota = -1
    assert queue.populated == {"Label"}


def test_an_object_that_was_created_counts_as_read():
    queue = Queue(pathname=r"web01\orders")
    queue.mark_written()
    assert queue.was_read
    assert queue.assigned == frozenset()


def test_what_a_directory_holds_is_taken_as_it_is():
    queue = Queue.from_directory({"label": "x" * 1000, "pathname": "web 01\\ a;b", "base_priority": 99999})
    assert (queue.label, queue.pathname, queue.base_priority) == ("x" * 1000, "web 01\\ a;b", 99999)
    queue.quota = 1  # the odd values do not stand in the way of an assignment
    assert json.loads(queue.to_json())["BasePriority"] == 99999


def test_two_objects_share_nothing():
    values = {"label": "a"}
    one, other = Queue.from_directory(values), Queue.from_directory(values)
    one.label = "b"
    assert (other.label, other.assigned, values) == ("a", frozenset(), {"label": "a"})
    assert Queue().label == ""


# -- Python's own ways --------------------------------------------------------------------------


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda q: pickle.loads(pickle.dumps(q))])
def test_copies_are_equal_and_independent(twin):
    queue = Queue.from_directory({"identifier": GUID, "label": "a"})
    queue.quota = 1
    same = twin(queue)
    assert same == queue
    assert (same.was_read, same.assigned) == (True, {"Quota"})
    same.label = "b"
    assert same != queue
    assert (queue.label, queue.assigned) == ("a", {"Quota"})


def test_model_copy_validates_and_tracks_its_updates():
    queue = Queue.from_directory({"label": "a"})
    changed = queue.model_copy(update={"quota": "5"})
    assert (changed.quota, changed.assigned, queue.assigned) == (5, {"Quota"}, frozenset())
    with pytest.raises(ValueError):
        queue.model_copy(update={"quota": -1})


def test_equality_is_type_populated_set_and_values():
    assert Queue(label="a") == Queue(Label="a")
    assert Queue(label="a") == Queue.from_directory({"label": "a"})
    assert Queue(label="a") != Queue(label="b")
    assert Queue(label="") != Queue()  # populated or not
    assert Site(name="a") != Enterprise(name="a")
    assert Queue() != 1
    with pytest.raises(TypeError):
        hash(Queue())


def test_repr_shows_what_is_populated():
    assert repr(Queue(label="a")) == "Queue(label='a')"


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
