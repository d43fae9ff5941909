"""The sender: which message tells a change ([MS-MQCN] 3.3)."""

from dataclasses import replace
from uuid import UUID

import pytest

from mqdssm.engines.notification.sender import messages_of
from mqdssm.engines.notification.settings import SenderSettings
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Scope
from mqdssm.model.notice import Notice, NotifiedOperation
from mqdssm.model.notification import (
    NotificationBody,
    NotificationCommand,
    NotificationEvent,
    NotificationUpdates,
    NotificationVersion,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.transport import (
    Acknowledgements,
    AuthenticationLevel,
    DeliveryGuarantee,
    HashAlgorithm,
    MessageClass,
    SenderIdentifierType,
    notification_queue,
)
from mqdssm.tables.notification import ROWS, Use, rows_of
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.mqcn import decode

SENDER = Guid.of(UUID(int=0x5E))
OWNER = UUID(int=0xA1)
QUEUE = UUID(int=1)
TYPE = UUID(int=0x7177)
SECURITY = bytes(SecurityDescriptor())
V1 = SenderSettings(identifier=SENDER, version=NotificationVersion.UPDATES)
V2 = SenderSettings(identifier=SENDER)
CREATION, UPDATE, DELETION, MANAGER_UPDATE = NotifiedOperation


def a_queue(**values):
    whole = {
        "identifier": QUEUE,
        "pathname": "web01\\orders",
        "type": TYPE,
        "label": "Orders",
        "journaling": True,
        "quota": 10,
        "journal_quota": 20,
        "base_priority": -5,
        "authentication": True,
        "privacy_level": PrivacyLevel.BODY,
        "transactional": True,
        "security": SECURITY,
        "create_time": 1_500_000_000,
        "modify_time": 1_600_000_000,
        "multicast_address": "234.1.1.1:8001",
        "directory_path": "LDAP://dc1/CN=orders",
    }
    return Queue(**whole | values)


def a_manager(**values):
    whole = {
        "identifier": OWNER,
        "computer_name": "web01",
        "foreign_system": True,
        "queue_manager_quota": 30,
        "journal_quota": 40,
        "security": SECURITY,
    }
    return QueueManager(**whole | values)


def notice(operation=CREATION, element=None, **values):
    made = a_manager() if operation is MANAGER_UPDATE else a_queue()
    return Notice(
        **{
            "operation": operation,
            "element": element or made,
            "owner": OWNER,
            "machine": "web01",
            "server": "dc1.example.com",
        }
        | values
    )


def sent(settings, *notices):
    """What the bodies of the messages say."""
    return [decode(made.message.body) for made in messages_of(notices, settings)]


def update_for(*notices):
    (message,) = sent(V1, *notices)
    assert isinstance(message, NotificationUpdates)
    (made,) = message.updates
    return made


@pytest.mark.spec("MS-MQCN 3.3.5.1")
class TestVersion2:
    @pytest.mark.parametrize(
        ("operation", "event", "guid"),
        [
            (CREATION, NotificationEvent.CREATE_QUEUE, QUEUE),
            (UPDATE, NotificationEvent.CHANGE_QUEUE, QUEUE),
            (DELETION, NotificationEvent.DELETE_QUEUE, QUEUE),
            (MANAGER_UPDATE, NotificationEvent.CHANGE_QUEUE_MANAGER, OWNER),
        ],
    )
    def test_the_event_the_object_and_the_directory_server(self, operation, event, guid):
        assert sent(V2, notice(operation)) == [
            NotificationBody(event=event, object_guid=Guid.of(guid), domain_controller="dc1.example.com")
        ]

    def test_its_text(self):
        (made,) = messages_of([notice()], V2)
        text = (
            "<Notification><Event>1</Event><ObjectGuid>00000000-0000-0000-0000-000000000001</ObjectGuid>"
            "<DomainController>dc1.example.com</DomainController></Notification>"
        )
        assert made.message.body == b"\x02\x01" + text.encode("utf-16-le") + b"\0"

    def test_one_notification_at_a_time(self):
        messages = sent(V2, notice(), notice(UPDATE), notice(DELETION))
        assert [message.event.value for message in messages] == [1, 2, 3]

    @pytest.mark.parametrize("name", ["", "x" * 257, "dc 1", "dc<1", "dömain"])
    def test_a_name_that_cannot_be_one(self, name):
        with pytest.raises(ValueError, match="the name of a directory server"):
            sent(V2, notice(server=name))

    def test_an_object_without_guid(self):
        with pytest.raises(ValueError, match="the Queue of a QueueDeletion has no Identifier"):
            sent(V2, notice(DELETION, Queue(pathname="web01\\orders")))


@pytest.mark.spec("MS-MQCN 3.3.5.2")
class TestVersion1:
    def test_a_created_queue(self):
        made = update_for(notice(CREATION))
        assert made.command is NotificationCommand.CREATE
        assert made.path_name == "web01\\orders"
        assert made.guid_identifier is None
        assert made.guid_master_id == SENDER
        assert dict(made.properties) == {
            Propid.Q_TYPE: Guid.of(TYPE),
            Propid.Q_INSTANCE: Guid.of(QUEUE),
            Propid.Q_BASEPRIORITY: -5,
            Propid.Q_JOURNAL: 1,
            Propid.Q_QUOTA: 10,
            Propid.Q_JOURNAL_QUOTA: 20,
            Propid.Q_CREATE_TIME: 1_500_000_000,
            Propid.Q_MODIFY_TIME: 1_600_000_000,
            Propid.Q_SCOPE: Scope.ENTERPRISE,
            Propid.Q_SECURITY: SECURITY,
            Propid.Q_PATHNAME: "web01\\orders",
            Propid.Q_LABEL: "Orders",
            Propid.Q_AUTHENTICATE: 1,
            Propid.Q_PRIV_LEVEL: 2,
            Propid.Q_TRANSACTION: 1,
        }

    def test_the_directory_path_is_never_sent(self):
        for operation in (CREATION, UPDATE):
            changed = notice(operation, changed=frozenset(Queue.adm_names()))
            assert update_for(changed).get(Propid.Q_ADS_PATH) is None

    @pytest.mark.parametrize("name", ["create_time", "modify_time", "security"])
    def test_what_must_be_there_and_is_not_known(self, name):
        with pytest.raises(ValueError, match=r"is not known, so that PROPID_Q_.* cannot be sent"):
            sent(V1, notice(CREATION, a_queue(**{name: None})))

    @pytest.mark.parametrize(
        ("adm", "propid", "value"),
        [
            ("Journaling", Propid.Q_JOURNAL, 1),
            ("Quota", Propid.Q_QUOTA, 10),
            ("BasePriority", Propid.Q_BASEPRIORITY, -5),
            ("JournalQuota", Propid.Q_JOURNAL_QUOTA, 20),
            ("Security", Propid.Q_SECURITY, SECURITY),
            ("Authentication", Propid.Q_AUTHENTICATE, 1),
            ("PrivacyLevel", Propid.Q_PRIV_LEVEL, 2),
        ],
    )
    def test_a_changed_queue_with_its_owner_and_what_changed(self, adm, propid, value):
        made = update_for(notice(UPDATE, changed=frozenset({adm})))
        assert made.command is NotificationCommand.UPDATE
        assert made.path_name is None
        assert made.guid_identifier == Guid.of(QUEUE)
        assert made.properties == ((Propid.Q_QMID, Guid.of(OWNER)), (propid, value))

    @pytest.mark.parametrize("adm", ["Label", "Type", "MulticastAddress", "Transactional"])
    def test_what_a_version_1_receiver_does_not_know_is_not_told(self, adm):
        made = update_for(notice(UPDATE, changed=frozenset({adm})))
        assert made.properties == ((Propid.Q_QMID, Guid.of(OWNER)),)

    @pytest.mark.parametrize(
        ("adm", "propid", "value"),
        [
            ("QueueManagerQuota", Propid.QM_QUOTA, 30),
            ("JournalQuota", Propid.QM_JOURNAL_QUOTA, 40),
            ("Security", Propid.QM_SECURITY, SECURITY),
        ],
    )
    def test_a_changed_queue_manager(self, adm, propid, value):
        made = update_for(notice(MANAGER_UPDATE, changed=frozenset({adm, "SiteIdentifierList"})))
        assert made.command is NotificationCommand.UPDATE
        assert made.guid_identifier == Guid.of(OWNER)
        assert made.properties == (
            (Propid.QM_MACHINE_ID, Guid.of(OWNER)),
            (Propid.QM_FOREIGN, 1),
            (propid, value),
        )
        assert made.object_type is ObjectType.MACHINE

    def test_a_deleted_queue(self):
        made = update_for(notice(DELETION))
        assert made.command is NotificationCommand.DELETE
        assert made.guid_identifier == Guid.of(QUEUE)
        assert made.properties == ((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, 1))

    def test_several_updates_share_a_message(self):
        (message,) = sent(V1, notice(CREATION), notice(UPDATE), notice(DELETION))
        assert [made.command for made in message.updates] == list(NotificationCommand)

    def test_no_more_than_255_and_in_order(self):
        queues = [a_queue(identifier=UUID(int=number)) for number in range(1, 601)]
        messages = sent(V1, *(notice(DELETION, one) for one in queues))
        assert [len(message.updates) for message in messages] == [255, 255, 90]
        told = [made.guid_identifier for message in messages for made in message.updates]
        assert told == [Guid.of(one.identifier) for one in queues]

    def test_no_longer_than_the_limit(self):
        settings = replace(V1, message_bytes_max=1000)
        made = list(messages_of([notice(DELETION)] * 100, settings))
        assert len(made) > 5
        assert all(900 < len(one.message.body) <= 1000 for one in made[:-1])

    def test_one_that_is_longer_goes_alone(self):
        settings = replace(V1, message_bytes_max=100)
        assert [len(message.updates) for message in sent(settings, *[notice(CREATION)] * 3)] == [1, 1, 1]

    def test_owners_do_not_share(self):
        other = UUID(int=0xB2)
        made = list(messages_of([notice(), notice(owner=other), notice(UPDATE, owner=other)], V1))
        assert [one.destination for one in made] == [
            notification_queue(Guid.of(one)) for one in (OWNER, other)
        ]
        assert [len(decode(one.message.body).updates) for one in made] == [1, 2]

    def test_nothing_to_tell(self):
        assert sent(V1) == []

    @pytest.mark.parametrize("count", [0, 256])
    def test_a_message_holds_1_to_255(self, count):
        with pytest.raises(ValueError, match="1 to 255"):
            replace(V1, updates_max=count)


@pytest.mark.spec("MS-MQCN 3.3.5.3")
class TestMessage:
    @pytest.mark.parametrize("settings", [V1, V2], ids=["1", "2"])
    def test_its_attributes(self, settings):
        (made,) = messages_of([notice()], settings)
        message = made.message
        assert message.time_to_reach_queue_s == 300
        assert message.delivery is DeliveryGuarantee.EXPRESS
        assert message.message_class == MessageClass.NORMAL
        assert message.authentication_level is AuthenticationLevel.SIG20
        assert message.hash_algorithm is HashAlgorithm.SHA1
        assert message.acknowledgements is Acknowledgements.NONE
        assert message.sender_type is SenderIdentifierType.QUEUE_MANAGER
        assert message.sender == bytes(SENDER)  # the queue manager's that sends, not the object's
        assert message.body.endswith(b"\0")
        assert decode(message.body) == decode(message.body[:-1])  # the last byte is not used

    def test_msmq_1_signs_otherwise(self):
        old = replace(V1, hash_algorithm=HashAlgorithm.MD5, authentication_level=AuthenticationLevel.SIG10)
        (made,) = messages_of([notice()], old)
        assert made.message.hash_algorithm is HashAlgorithm.MD5
        assert made.message.authentication_level is AuthenticationLevel.SIG10

    def test_version_2_may_go_without_signature_and_then_names_no_sender(self):
        (made,) = messages_of([notice()], replace(V2, authentication_level=AuthenticationLevel.NONE))
        assert made.message.authentication_level is AuthenticationLevel.NONE
        assert made.message.sender_type is SenderIdentifierType.NONE
        assert made.message.sender == b""

    def test_version_1_may_not(self):
        with pytest.raises(ValueError, match="without a signature"):
            replace(V1, authentication_level=AuthenticationLevel.NONE)


@pytest.mark.spec("MS-MQCN 3.3.4")
@pytest.mark.spec("MS-MQCN 3.3.4.1")
@pytest.mark.parametrize("operation", list(NotifiedOperation))
@pytest.mark.parametrize("settings", [V1, V2], ids=["1", "2"])
def test_every_operation_is_a_message_to_the_owner(operation, settings):
    assert [one.value for one in NotifiedOperation] == [
        "QueueCreation",
        "QueueUpdate",
        "QueueDeletion",
        "QueueManagerUpdate",
    ]
    (made,) = messages_of([notice(operation)], settings)
    assert str(made.destination) == "PRIVATE=00000000-0000-0000-0000-0000000000A1\\3"
    assert decode(made.message.body).version is settings.version


@pytest.mark.spec("MS-MQCN 3.1.1.2")
class TestMapping:
    @pytest.mark.spec("MS-MQCN 3.1.1.2.1")
    def test_of_queue_managers(self):
        assert {row.propid: row.adm for row in ROWS[ObjectType.MACHINE] if row.adm} == {
            Propid.QM_MACHINE_ID: "Identifier",
            Propid.QM_FOREIGN: "ForeignSystem",
            Propid.QM_QUOTA: "QueueManagerQuota",
            Propid.QM_JOURNAL_QUOTA: "JournalQuota",
            Propid.QM_SECURITY: "Security",
            Propid.QM_CNS: "ConnectedNetworkIdentifierList",
            Propid.QM_MACHINE_TYPE: "QueueManagerVersion",
            Propid.QM_OS: "OperatingSystemType",
        }

    @pytest.mark.spec("MS-MQCN 3.1.1.3")
    def test_of_queues(self):
        assert {row.propid: row.adm for row in ROWS[ObjectType.QUEUE] if row.adm} == {
            Propid.Q_INSTANCE: "Identifier",
            Propid.Q_TYPE: "Type",
            Propid.Q_BASEPRIORITY: "BasePriority",
            Propid.Q_JOURNAL: "Journaling",
            Propid.Q_QUOTA: "Quota",
            Propid.Q_JOURNAL_QUOTA: "JournalQuota",
            Propid.Q_CREATE_TIME: "CreateTime",
            Propid.Q_MODIFY_TIME: "ModifyTime",
            Propid.Q_SECURITY: "Security",
            Propid.Q_PATHNAME: "Pathname",
            Propid.Q_LABEL: "Label",
            Propid.Q_AUTHENTICATE: "Authentication",
            Propid.Q_PRIV_LEVEL: "PrivacyLevel",
            Propid.Q_TRANSACTION: "Transactional",
            Propid.Q_MULTICAST_ADDRESS: "MulticastAddress",
            Propid.Q_ADS_PATH: "DirectoryPath",
            Propid.Q_SCOPE: "Scope",
        }

    def test_values_come_back(self):
        values = {
            Propid.QM_MACHINE_ID: OWNER,
            Propid.QM_FOREIGN: True,
            Propid.QM_QUOTA: 5,
            Propid.QM_CNS: (OWNER, QUEUE),
            Propid.QM_MACHINE_TYPE: "type",
            Propid.QM_OS: OperatingSystemType.WIN_SERVER,
            Propid.QM_SECURITY: SECURITY,
        }
        rows = {row.propid: row for row in ROWS[ObjectType.MACHINE]}
        assert {one: rows[one].load(rows[one].dump(value)) for one, value in values.items()} == values

    def test_names_in_python_are_those_of_the_elements(self):
        for element, object_type in ((Queue, ObjectType.QUEUE), (QueueManager, ObjectType.MACHINE)):
            known = {adm: element.field_name(adm) for adm in element.adm_names()} | {"Scope": "scope"}
            for row in ROWS[object_type]:
                assert row.field == ("" if row.adm is None else known[row.adm])

    def test_what_the_receiver_takes_is_what_the_sender_sends(self):
        assert len(rows_of(ObjectType.QUEUE, Use.CREATED)) == 15
        assert len(rows_of(ObjectType.QUEUE, Use.CHANGED)) == 7
        assert len(rows_of(ObjectType.MACHINE, Use.CHANGED)) == 3
        assert set(rows_of(ObjectType.QUEUE, Use.ALWAYS)) == {Propid.Q_QMID}
        assert set(rows_of(ObjectType.QUEUE, Use.FORBIDDEN)) == {Propid.Q_ADS_PATH}
