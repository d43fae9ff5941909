"""Elements: every attribute and default, populated and assigned (M45), JSON, what is refused."""

import copy
import json
import pickle
import uuid
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from mqdssm.model.base import DirectoryObject
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
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.model.fieldtypes import TIME_MAX, attribute_name

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
    queue.unset("Journaling")  # a write removes it
    assert queue.assigned == {"Label", "Journaling"}
    assert queue.populated == {"Identifier", "Label", "Quota"}
    queue.forget("Journaling")  # a write leaves it alone
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


def test_times_as_datetimes() -> None:
    queue = Queue(create_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert queue.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert queue.create_time == 1767323045
    assert queue.modified_at is None
    assert QueueManager(modify_time=-1).modified_at == datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)
    last = QueueManager(create_time=TIME_MAX).created_at
    assert last == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    with pytest.raises(ValueError, match="did you mean create_time"):
        queue.created_at = last
