"""Columns follow from the mapping table; none is typed by hand."""

import pickle

import pytest
from support.spark.element_batches import columns_of

from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.enums import DirectoryServerType, OperatingSystemType, PrivacyLevel
from mqdssm.pipeline.frames.columns import FRAME_TYPES, TYPES, UNREADABLE, Column, find_frame_type, name_enum
from mqdssm.tables import TABLES
from mqdssm.tables.row import Access
from mqdssm.tables.syntax import Kind


@pytest.mark.parametrize("element", TYPES.values())
def test_every_readable_attribute_is_a_column(element) -> None:
    readable = [row.adm for row in TABLES[element].rows if row.access & Access.READ]
    assert [column.name for column in columns_of(element)] == readable


@pytest.mark.parametrize("element", TYPES.values())
def test_every_type_has_an_identifier(element) -> None:
    assert columns_of(element, ["Identifier"]) == (Column("Identifier", "identifier", Kind.GUID),)


@pytest.mark.parametrize(
    ("element", "name", "kind", "many"),
    [
        (Queue, "Label", Kind.TEXT, False),
        (Queue, "Quota", Kind.INTEGER, False),
        (Queue, "BasePriority", Kind.INTEGER, False),
        (Queue, "Journaling", Kind.BOOLEAN, False),
        (Queue, "PrivacyLevel", Kind.ENUMERATION, False),
        (Queue, "CreateTime", Kind.TIME, False),
        (Queue, "Type", Kind.GUID, False),
        (Queue, "Security", Kind.BYTES, False),
        (Queue, "Pathname", Kind.TEXT, False),
        (Queue, "FullPath", Kind.DN, False),
        (QueueManager, "OperatingSystemType", Kind.ENUMERATION, False),
        (QueueManager, "DirectoryServerType", Kind.ENUMERATION, False),
        (QueueManager, "Clustered", Kind.BOOLEAN, False),
        (QueueManager, "RemoteAccessServer", Kind.BOOLEAN, False),
        (QueueManager, "SiteIdentifierList", Kind.GUID, True),
        (QueueManager, "OutRoutingServerIdentifierList", Kind.GUID, True),
        (QueueManager, "PublicSigningKeyList", Kind.BYTES, False),
        (RoutingLink, "ActualCost", Kind.INTEGER, False),
        (RoutingLink, "Site1Identifier", Kind.GUID, False),
        (RoutingLink, "SiteGateIdentifierList", Kind.GUID, True),
        (Site, "MigratedFromMsmq10", Kind.BOOLEAN, False),
        (Enterprise, "DefaultTimeToLive", Kind.INTEGER, False),
        (Enterprise, "OldDirectory", Kind.BOOLEAN, False),
        (User, "SecurityIdentifier", Kind.SID, False),
        (User, "CertificateDigestList", Kind.BYTES, True),
        (User, "Certificates", Kind.BYTES, False),
    ],
)
def test_kinds(element, name: str, kind: Kind, many: bool) -> None:
    (column,) = columns_of(element, [name])
    assert (column.kind, column.many) == (kind, many)


def test_chosen_columns_come_in_the_order_asked_for() -> None:
    assert [column.name for column in columns_of(Queue, ["Quota", "Label"])] == ["Quota", "Label"]


def test_unknown_and_repeated_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="Labell"):
        columns_of(Queue, ["Labell"])
    with pytest.raises(ValueError, match="ConnectedNetworkIdentifierList cannot be read"):
        columns_of(QueueManager, ["ConnectedNetworkIdentifierList"])
    with pytest.raises(ValueError, match="twice"):
        columns_of(Queue, ["Label", "Label"])


@pytest.mark.parametrize(
    ("name", "element"),
    [("queue", Queue), ("Queue", Queue), ("queue-manager", QueueManager), ("QUEUEMANAGER", QueueManager)],
)
def test_types_by_both_names(name: str, element) -> None:
    assert find_frame_type(name).element is element


@pytest.mark.parametrize("name", ["", "machine", "ConnectedNetwork"])
def test_no_such_type(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"is no type: use one of enterprise, site.*settings, computer, ldap"
    ):
        find_frame_type(name)


@pytest.mark.parametrize("name", TYPES)
def test_frames_of_elements_have_its_attributes_first(name: str) -> None:
    frame = FRAME_TYPES[name]
    attributes = columns_of(TYPES[name])
    assert frame.columns[: len(attributes)] == attributes
    assert frame.ldap_class == TABLES[TYPES[name]].ldap_class
    assert frame.columns[-1] == UNREADABLE


@pytest.mark.parametrize(
    ("name", "technical"),
    [
        ("queue", ["mSMQQueueNameExt", "OriginalIdentifier", "StoredSecurity", "Unreadable"]),
        ("queue-manager", ["mSMQServiceType", "OriginalIdentifier", "StoredSecurity", "Unreadable"]),
        ("site", ["StoredSecurity", "Unreadable"]),
        ("enterprise", ["FullPath", "StoredSecurity", "Unreadable"]),
        ("routing-link", ["Unreadable"]),
        ("user", ["Unreadable"]),
    ],
)
def test_technical_columns(name: str, technical: list[str]) -> None:
    attributes = {row.adm for row in TABLES[TYPES[name]].rows}
    names = [column.name for column in FRAME_TYPES[name].columns]
    assert [name for name in names if name not in attributes] == technical


def test_frames_of_what_is_no_element() -> None:
    assert [column.name for column in FRAME_TYPES["settings"].columns] == [
        "Identifier",
        "FullPath",
        "QueueManagerIdentifier",
        "Services",
        "RoutingServer",
        "DirectoryServer",
        "SupportingServer",
        "OriginalIdentifier",
        "Unreadable",
    ]
    assert [column.name for column in FRAME_TYPES["computer"].columns] == [
        "Identifier",
        "FullPath",
        "Name",
        "AccountName",
        "DnsHostName",
        "ServicePrincipalNames",
        "Sid",
        "OperatingSystemVersion",
        "Certificates",
        "CertificateDigestList",
        "Unreadable",
    ]
    assert [column.name for column in FRAME_TYPES["ldap"].columns] == ["dn", "objectClass", "attributes"]


def test_chosen_columns_of_a_frame() -> None:
    frame = FRAME_TYPES["computer"]
    assert [column.name for column in frame.select(["Sid", "Name"])] == ["Sid", "Name"]
    assert frame.select() == frame.columns
    with pytest.raises(ValueError, match="computer has no column 'Label'; it has Identifier"):
        frame.select(["Label"])
    with pytest.raises(ValueError, match="twice"):
        frame.select(["Name", "Name"])
    with pytest.raises(ValueError, match="cannot be read"):
        FRAME_TYPES["queue-manager"].select(["ConnectedNetworkIdentifierList"])


def test_frame_types_are_pickled_by_name() -> None:
    for frame in FRAME_TYPES.values():
        assert pickle.loads(pickle.dumps(frame)) is frame


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (PrivacyLevel.NONE, "None"),
        (PrivacyLevel.OPTIONAL, "Optional"),
        (PrivacyLevel.BODY, "Body"),
        (OperatingSystemType.OTHER, "Other"),
        (OperatingSystemType.WIN95, "Win95"),
        (OperatingSystemType.WIN_SERVER, "WinServer"),
        (DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER, "PrimaryEnterpriseController"),
        (0x700, "1792"),
    ],
)
def test_enumerations_by_the_specifications_name(value: int, name: str) -> None:
    assert name_enum(value) == name
