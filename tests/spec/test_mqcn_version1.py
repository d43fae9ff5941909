"""Version 1: whom a receiver believes, and what updates do ([MS-MQCN] 3.2.5.1)."""

from uuid import UUID

import pytest
from support.notification.receivers import (
    COMPUTER,
    OURS,
    START,
    ReceiverBench,
    deletion,
    manager,
    queue,
    update,
    updates,
)

from mqdssm.engines.notification import actions as do
from mqdssm.model.enums import PrivacyLevel
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Scope
from mqdssm.model.notification import NotificationCommand
from mqdssm.model.owned_objects import (
    OwnedQueue,
    QueueChanged,
    QueueCreated,
    QueueDeleted,
    QueueManagerChanged,
)
from mqdssm.model.propids import Propid
from mqdssm.model.transport import AuthenticationLevel, SenderIdentifierType
from mqdssm.wire.dtyp import SecurityDescriptor

CREATE, UPDATE, DELETE = NotificationCommand
NEW = UUID(int=77)
TYPE = UUID(int=0x7177)
SECURITY = bytes(SecurityDescriptor())
OTHER_SECURITY = bytes.fromhex("0100048000000000000000000000000000000000")

ATTRIBUTES = [
    (Propid.Q_TYPE, Guid.of(TYPE), "type", TYPE),
    (Propid.Q_INSTANCE, Guid.of(NEW), "identifier", NEW),
    (Propid.Q_BASEPRIORITY, -3, "base_priority", -3),
    (Propid.Q_JOURNAL, 1, "journaling", True),
    (Propid.Q_QUOTA, 1_000, "quota", 1_000),
    (Propid.Q_JOURNAL_QUOTA, 2_000, "journal_quota", 2_000),
    (Propid.Q_CREATE_TIME, 1_500_000_000, "create_time", 1_500_000_000),
    (Propid.Q_MODIFY_TIME, 1_600_000_000, "modify_time", 1_600_000_000),
    (Propid.Q_SECURITY, SECURITY, "security", SECURITY),
    (Propid.Q_PATHNAME, f"{COMPUTER}\\new", "pathname", f"{COMPUTER}\\new"),
    (Propid.Q_LABEL, "Orders", "label", "Orders"),
    (Propid.Q_AUTHENTICATE, 1, "authentication", True),
    (Propid.Q_PRIV_LEVEL, 2, "privacy_level", PrivacyLevel.BODY),
    (Propid.Q_TRANSACTION, 1, "transactional", True),
    (Propid.Q_SCOPE, 0, "scope", Scope.SITE),
]
"""Property, its value in a message, the attribute that it sets, the attribute's value."""
DEFAULTS = {
    "type": UUID(int=0),
    "base_priority": 0,
    "journaling": False,
    "quota": 0xFFFF_FFFF,
    "journal_quota": 0xFFFF_FFFF,
    "create_time": int(START),
    "modify_time": int(START),
    "security": None,
    "label": "",
    "authentication": False,
    "privacy_level": PrivacyLevel.OPTIONAL,
    "transactional": False,
    "scope": Scope.ENTERPRISE,
}
"""Set Queue Defaults ([MS-MQDMPR] 3.1.7.1.33)."""
CHANGEABLE = [
    row
    for row in ATTRIBUTES
    if row[2]
    in {
        "base_priority",
        "journaling",
        "quota",
        "journal_quota",
        "security",
        "authentication",
        "privacy_level",
    }
]
CREATION = tuple((propid, value) for propid, value, _, _ in ATTRIBUTES)
CREATED = OwnedQueue(**{name: value for _, _, name, value in ATTRIBUTES})


def creation(properties=CREATION):
    return update(CREATE, properties, path_name=f"{COMPUTER}\\new")


def at_once(*queues):
    """A receiver that processes each message when it comes, as Windows 2000 does."""
    return ReceiverBench(*queues, settle_s=0, interval_s=0)


@pytest.mark.spec("MS-MQCN 3.2.5.1")
class TestAuthentication:
    @pytest.mark.parametrize(
        ("values", "note"),
        [
            ({"sender_type": SenderIdentifierType.NONE}, "not from a queue manager"),
            ({"sender_type": SenderIdentifierType.SID}, "not from a queue manager"),
            ({"authentication_level": AuthenticationLevel.NONE}, "not signed"),
            ({"from_directory_server": False}, "not from a directory server"),
        ],
    )
    def test_who_is_not_believed(self, values, note):
        bench = ReceiverBench(queue(1))
        bench.step(updates(creation(), deletion(UUID(int=1)), **values))
        assert bench.notes == {f"dropped: {note}": 1}
        assert not bench.timers  # it does not even wait
        bench.advance(3600)
        assert bench.queues == {UUID(int=1): queue(1)}

    @pytest.mark.parametrize("level", [AuthenticationLevel.SIG10, AuthenticationLevel.SIG20])
    def test_a_signed_message_of_a_directory_server_is_believed(self, level):
        bench = ReceiverBench()
        bench.process(updates(creation(), authentication_level=level))
        assert bench.queues == {NEW: CREATED}

    def test_any_queue_manager_is_believed_where_the_administrator_says_so(self):
        bench = ReceiverBench(directory_servers_only=False)
        bench.process(updates(creation(), from_directory_server=False))
        assert bench.queues == {NEW: CREATED}


@pytest.mark.spec("MS-MQCN 3.2.5.1")
class TestObjectTypes:
    @pytest.mark.parametrize("command", [CREATE, UPDATE])
    @pytest.mark.parametrize(
        ("propid", "value"),
        [
            (Propid.S_PATHNAME, "site"),  # 301: 3
            (Propid.S_SECURITY, b""),  # 1301: 3
            (Propid.D_SCOPE, 1),  # 1403: 4
            (Propid.CN_NAME, "net"),  # 501: 5
            (Propid.E_NAME, "ent"),
            (Propid.U_SID, b""),
            (Propid.L_COST, 1),
            (Propid.COM_FULL_PATH, "x"),  # 5201: 42
        ],
    )
    def test_what_is_no_queue_and_no_queue_manager_is_disregarded_with_its_message(
        self, command, propid, value
    ):
        bench = at_once(queue(1))
        names = {"path_name": "web01\\q1"} if command is CREATE else {"identifier": UUID(int=1)}
        wrong = update(command, ((propid, value), (Propid.Q_QUOTA, 5)), **names)
        bench.process(updates(deletion(UUID(int=1)), wrong, creation()))
        assert bench.queues == {UUID(int=1): queue(1)}
        assert bench.notes["disregarded"] == 1
        assert not bench.events

    @pytest.mark.parametrize(
        ("first", "value"),
        [(Propid.Q_QUOTA, 5), (Propid.Q_SECURITY, SECURITY), (Propid.Q_QMID, Guid.of(OURS))],
    )
    def test_the_first_property_tells_a_queue(self, first, value):
        bench = at_once(queue(1))
        properties = {first: value, Propid.Q_JOURNAL: 1}
        bench.process(updates(update(UPDATE, tuple(properties.items()), UUID(int=1))))
        assert bench.queues[UUID(int=1)].journaling

    @pytest.mark.parametrize(("first", "value"), [(Propid.QM_QUOTA, 5), (Propid.QM_SECURITY, SECURITY)])
    def test_the_first_property_tells_a_queue_manager(self, first, value):
        bench = at_once()
        bench.process(updates(update(UPDATE, ((first, value), (Propid.QM_JOURNAL_QUOTA, 6)), OURS)))
        assert bench.engine.state.manager.journal_quota == 6

    @pytest.mark.parametrize(
        "properties",
        [
            ((Propid.D_SCOPE, 1),),
            ((Propid.D_OBJTYPE, 1), (Propid.D_SCOPE, 2)),  # the second property's value counts
            ((Propid.D_SCOPE, 1), (Propid.D_IDENTIFIER, Guid.of(OURS))),
            ((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, 2)),
            ((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, 3)),
            ((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, 200)),
        ],
    )
    def test_a_deletion_is_of_a_queue_or_disregarded(self, properties):
        bench = at_once(queue(1))
        bench.process(updates(update(DELETE, properties, UUID(int=1)), creation()))
        assert bench.queues == {UUID(int=1): queue(1)}
        assert bench.notes["disregarded"] == 1

    @pytest.mark.parametrize(
        "properties",
        [
            ((Propid.D_OBJTYPE, 3), (Propid.D_SCOPE, 1)),
            ((Propid.D_SCOPE, 1), (Propid.Q_QUOTA, 1)),
            ((Propid.Q_QUOTA, 1), (Propid.Q_JOURNAL, 1), (Propid.D_OBJTYPE, 2)),
        ],
    )
    def test_the_second_value_tells_what_is_deleted_whatever_its_property(self, properties):
        bench = at_once(queue(1), queue(2))
        bench.process(updates(update(DELETE, properties, UUID(int=1))))
        assert bench.queues == {UUID(int=2): queue(2)}
        assert "disregarded" not in bench.notes

    def test_a_created_queue_manager_has_no_rule(self):
        bench = at_once()
        made = update(CREATE, ((Propid.QM_QUOTA, 5),), path_name="web01\\x")
        bench.process(updates(made, creation()))
        assert bench.queues == {NEW: CREATED}
        assert bench.notes["skipped"] == 1


@pytest.mark.spec("MS-MQCN 3.2.5.1")
class TestCreated:
    def test_every_attribute_comes_from_its_property(self):
        bench = at_once()
        bench.process(updates(creation()))
        assert bench.events == [QueueCreated(CREATED)]
        assert bench.queues == {NEW: CREATED}
        assert not bench.reads

    def test_properties_come_in_any_order(self):
        bench = at_once()
        bench.process(updates(creation(tuple(reversed(CREATION)))))
        assert bench.queues == {NEW: CREATED}

    @pytest.mark.parametrize("row", ATTRIBUTES, ids=lambda row: row[0].name if isinstance(row, tuple) else "")
    def test_a_missing_property_leaves_the_default(self, row):
        propid, _, name, _ = row
        bench = at_once()
        bench.process(updates(creation(tuple(pair for pair in CREATION if pair[0] != propid))))
        if name == "identifier":  # there is none by default
            assert not bench.queues
            assert bench.notes["disregarded"] == 1
            return
        expected = f"{COMPUTER}\\new" if name == "pathname" else DEFAULTS[name]  # PathName has it, too
        assert getattr(bench.queues[NEW], name) == expected

    def test_defaults_are_all_of_set_queue_defaults(self):
        bench = at_once()
        bench.process(updates(creation(((Propid.Q_INSTANCE, Guid.of(NEW)),))))
        made = bench.queues[NEW]
        assert {name: getattr(made, name) for name in DEFAULTS} == DEFAULTS

    @pytest.mark.parametrize(
        ("propid", "value"),
        [
            (Propid.Q_ADS_PATH, "LDAP://evil/CN=q"),
            (Propid.Q_MULTICAST_ADDRESS, "234.1.1.1:8001"),
            (Propid.Q_QMID, Guid.of(UUID(int=5))),
            (Propid.Q_PATHNAME_DNS, "evil.example.com\\q"),
            (Propid.Q_HASHKEY, 7),
        ],
    )
    def test_other_properties_are_ignored(self, propid, value):
        bench = at_once()
        bench.process(updates(creation((*CREATION, (propid, value)))))
        assert bench.queues == {NEW: CREATED}

    @pytest.mark.parametrize(
        ("propid", "value"),
        [
            (Propid.Q_JOURNAL, 2),
            (Propid.Q_AUTHENTICATE, 255),
            (Propid.Q_TRANSACTION, 3),
            (Propid.Q_PRIV_LEVEL, 3),
            (Propid.Q_SCOPE, 2),
            (Propid.Q_LABEL, "x" * 125),
            (Propid.Q_SECURITY, b"no descriptor"),
            (Propid.Q_PATHNAME, "no path"),
        ],
    )
    def test_a_value_that_the_attribute_cannot_have_is_disregarded_with_its_message(self, propid, value):
        bench = at_once(queue(1))
        properties = dict(CREATION) | {propid: value}
        bench.process(updates(deletion(UUID(int=1)), creation(tuple(properties.items()))))
        assert bench.queues == {UUID(int=1): queue(1)}
        assert bench.notes["disregarded"] == 1

    @pytest.mark.parametrize("path", ["web02\\new", "web01\\private$\\new", "web01.example.com\\new"])
    def test_a_queue_that_is_not_ours_is_skipped_and_the_others_count(self, path):
        bench = at_once(queue(1))
        foreign = creation(tuple((dict(CREATION) | {Propid.Q_PATHNAME: path}).items()))
        bench.process(updates(foreign, deletion(UUID(int=1))))
        assert bench.queues == {}
        assert bench.notes["skipped"] == 1

    def test_our_name_is_the_same_in_any_case(self):
        bench = at_once()
        bench.process(updates(creation(tuple((dict(CREATION) | {Propid.Q_PATHNAME: "WEB01\\new"}).items()))))
        assert bench.queues[NEW].pathname == "WEB01\\new"

    def test_told_twice_it_is_created_once(self):
        bench = at_once()
        bench.process(updates(creation()))
        bench.process(updates(creation()))
        assert bench.events == [QueueCreated(CREATED)]

    def test_a_queue_of_the_same_name_must_be_gone(self):
        old = queue(1, pathname=f"{COMPUTER}\\NEW")
        bench = at_once(old)
        bench.process(updates(creation()))
        assert bench.events == [QueueDeleted(old), QueueCreated(CREATED)]
        assert bench.queues == {NEW: CREATED}


@pytest.mark.spec("MS-MQCN 3.2.5.1")
class TestUpdated:
    @pytest.mark.parametrize("row", CHANGEABLE, ids=lambda row: row[0].name if isinstance(row, tuple) else "")
    @pytest.mark.parametrize("by", ["GUID", "path name"])
    def test_what_changes(self, row, by):
        propid, value, name, expected = row
        bench = at_once(queue(1), queue(2))
        named = {"identifier": UUID(int=1)} if by == "GUID" else {"path_name": "WEB01\\Q1"}
        bench.process(updates(update(UPDATE, ((propid, value),), **named)))
        assert bench.events == [QueueChanged(queue(1), queue(1, **{name: expected}))]
        assert bench.queues[UUID(int=2)] == queue(2)
        assert not bench.reads

    @pytest.mark.parametrize(
        ("propid", "value"),
        [(propid, value) for propid, value, name, _ in ATTRIBUTES if (propid, value) not in
         {(row[0], row[1]) for row in CHANGEABLE}]
        + [(Propid.Q_QMID, Guid.of(UUID(int=9))), (Propid.Q_ADS_PATH, "LDAP://x"), (Propid.QM_QUOTA, 9)],
    )  # fmt: skip
    def test_all_other_properties_are_ignored(self, propid, value):
        bench = at_once(queue(1))
        bench.process(updates(update(UPDATE, ((Propid.Q_QUOTA, 5), (propid, value)), UUID(int=1))))
        assert bench.queues[UUID(int=1)] == queue(1, quota=5)

    def test_an_update_that_changes_nothing_tells_nothing(self):
        bench = at_once(queue(1, quota=5))
        bench.process(updates(update(UPDATE, ((Propid.Q_QUOTA, 5),), UUID(int=1))))
        assert not bench.events

    def test_of_a_queue_that_we_do_not_have_the_directory_tells_all(self):
        bench = at_once()
        bench.directory[UUID(int=8)] = queue(8, quota=5, label="told by the directory")
        bench.process(updates(update(UPDATE, ((Propid.Q_QUOTA, 6),), UUID(int=8))))
        assert bench.reads == [do.ReadQueue(identifier=UUID(int=8))]
        assert bench.events == [QueueCreated(queue(8, quota=5, label="told by the directory"))]

    @pytest.mark.parametrize(
        ("propid", "value", "name"),
        [
            (Propid.QM_QUOTA, 7, "queue_manager_quota"),
            (Propid.QM_JOURNAL_QUOTA, 8, "journal_quota"),
            (Propid.QM_SECURITY, OTHER_SECURITY, "security"),
        ],
    )
    def test_what_changes_of_the_queue_manager(self, propid, value, name):
        bench = at_once(queue(1))
        always = ((Propid.QM_MACHINE_ID, Guid.of(OURS)), (Propid.QM_FOREIGN, 0))
        bench.process(updates(update(UPDATE, (*always, (propid, value)), OURS)))
        assert bench.events == [QueueManagerChanged(manager(), manager(**{name: value}))]

    def test_other_properties_of_the_queue_manager_are_ignored(self):
        bench = at_once()
        others = (
            (Propid.QM_MACHINE_ID, Guid.of(UUID(int=3))),
            (Propid.QM_FOREIGN, 1),
            (Propid.QM_ADDRESS, b"address"),
            (Propid.QM_CNS, (Guid.of(UUID(int=4)),)),
            (Propid.QM_MACHINE_TYPE, "type"),
            (Propid.QM_OS, 0x300),
            (Propid.QM_PATHNAME, "web99"),
        )
        bench.process(updates(update(UPDATE, (*others, (Propid.QM_QUOTA, 5)), OURS)))
        assert bench.engine.state.manager == manager(queue_manager_quota=5)

    def test_another_queue_manager_is_none_of_ours(self):
        bench = at_once()
        bench.process(updates(update(UPDATE, ((Propid.QM_QUOTA, 5),), UUID(int=0xB2))))
        assert bench.engine.state.manager == manager()
        assert bench.notes["skipped"] == 1


@pytest.mark.spec("MS-MQCN 3.2.5.1")
class TestDeleted:
    def test_the_queue_of_the_guid_goes(self):
        bench = at_once(queue(1), queue(2))
        bench.process(updates(deletion(UUID(int=1))))
        assert bench.events == [QueueDeleted(queue(1))]
        assert bench.queues == {UUID(int=2): queue(2)}
        assert not bench.reads

    def test_a_queue_that_we_do_not_have(self):
        bench = at_once(queue(1))
        bench.process(updates(deletion(UUID(int=9))))
        assert not bench.events

    def test_updates_of_one_message_are_done_in_order(self):
        bench = at_once()
        change = update(UPDATE, ((Propid.Q_QUOTA, 3),), NEW)
        bench.process(updates(creation(), change, deletion(NEW), creation()))
        kinds = [type(event) for event in bench.events]
        assert kinds == [QueueCreated, QueueChanged, QueueDeleted, QueueCreated]
        assert bench.queues == {NEW: CREATED}
