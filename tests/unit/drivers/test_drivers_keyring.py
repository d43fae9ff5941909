"""Who may sign for a queue manager (decision R58)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.replication.queue_managers import guid_of, key_of, sender_of

from mqdssm.drivers.authentication import keyring
from mqdssm.drivers.authentication.keyring import (
    BELIEVED_S,
    OUTAGE_S,
    UNKNOWN_S,
    DirectoryKeys,
    KeyRings,
    PinnedKeys,
)
from mqdssm.engines.replication.operations import (
    ApplyChanges,
    CreateObject,
    Done,
    ListObjects,
    ObjectRead,
    ObjectsListed,
    ReadObject,
    SweepPartition,
    UpdateObject,
)
from mqdssm.engines.replication.properties import with_identifier
from mqdssm.errors import DirectoryNotConnected, MappingError
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties, Scope, make_deletion_properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import SequenceNumber

ONCE = 5
"""Questions to the directory: its sites, the controllers of three of them, a machine."""


def blob(name: str) -> bytes:
    return bytes(key_of(name).public_keys())


class Directory:
    """Objects for the operations that a key ring uses."""

    def __init__(self) -> None:
        self.machines: dict[tuple[Guid | None, Guid | None], ObjectRead] = {}  # by GUID and site
        self.sites: dict[bytes, Properties] = {}
        self.asked: list[object] = []
        self.is_down = False

    def machine(
        self, name: str, service: int, signing_keys: bytes, site: str = "Berlin", *, identifier: str = ""
    ) -> None:
        properties: Properties = (
            (Propid.QM_PATHNAME, name),
            (Propid.QM_SERVICE, service),
            (Propid.QM_SIGN_PK, signing_keys),
        )
        made = ObjectRead(
            status=Hresult.MQ_OK,
            identifier=guid_of(identifier or name),
            partition_id=guid_of(site),
            properties=properties,
        )
        self.machines[made.identifier, made.partition_id] = made

    def site(self, name: str, controller: str, signing_keys: bytes) -> None:
        self.sites[guid_of(name)] = ((Propid.S_PSC, controller), (Propid.S_PSC_SIGNPK, signing_keys))

    def perform(self, operation):
        self.asked.append(operation)
        if self.is_down:
            raise DirectoryNotConnected("down")
        if isinstance(operation, ReadObject):
            assert operation.object_type is ObjectType.MACHINE
            found = [one for one in self.machines.values() if one.identifier == operation.identifier]
            return found[-1] if found else ObjectRead(status=Hresult.MQDS_OBJECT_NOT_FOUND)  # the newest
        assert isinstance(operation, ListObjects)
        if operation.object_type is ObjectType.MACHINE:
            return ObjectsListed(objects=tuple(self.controllers(operation.partition_id)))
        objects = (
            ObjectRead(status=Hresult.MQ_OK, identifier=one, properties=properties)
            for one, properties in self.sites.items()
        )
        return ObjectsListed(objects=tuple(objects))

    def controllers(self, site: Guid) -> Iterator[ObjectRead]:
        for (_, home), one in self.machines.items():
            if home == site and dict(one.properties)[Propid.QM_SERVICE] & (Service.PSC | Service.PEC):
                yield one


@pytest.fixture
def directory() -> Directory:
    made = Directory()
    made.machine("PSC1", Service.PSC, blob("PSC1"))
    made.machine("CLIENT", Service.NONE, blob("CLIENT"))
    made.site("Berlin", "psc1", blob("PSC1-old"))
    made.site("Paris", "PSC2", blob("PSC2"))
    made.site("Rome", "PSC3", b"")
    return made


def test_a_machine_of_the_directory(directory):
    ring = DirectoryKeys(directory.perform)
    own, as_controller = ring.find_senders(guid_of("PSC1"))
    assert own == replace(sender_of("PSC1", Service.PSC), site_id=guid_of("Berlin"))
    assert (as_controller.machine_name, as_controller.keys) == ("psc1", key_of("PSC1-old").public_keys().keys)
    assert own.is_directory_server
    (client,) = ring.find_senders(guid_of("CLIENT"))
    assert not client.is_directory_server


@pytest.mark.parametrize(
    ("service", "is_server"),
    [(0, False), (1, False), (2, True), (4, True), (8, True), (16, False), (17, False), (20, True)],
)
def test_which_services_are_directory_servers(service, is_server):
    assert sender_of("X", Service(service)).is_directory_server is is_server


def test_an_unknown_machine_may_be_the_controller_of_a_site(directory):
    senders = list(DirectoryKeys(directory.perform).find_senders(guid_of("PSC2")))
    assert [one.machine_name for one in senders] == ["psc1", "PSC2"]
    assert all(one.service is Service.PSC for one in senders)


def test_answers_are_kept_for_a_while_and_no_longer(directory):
    now = 0.0
    ring = DirectoryKeys(directory.perform, clock=lambda: now)
    for _ in range(3):
        list(ring.find_senders(guid_of("CLIENT")))
    assert len(directory.asked) == ONCE
    directory.machine("CLIENT", Service.BSC, blob("new"))
    now = BELIEVED_S - 0.1
    assert next(iter(ring.find_senders(guid_of("CLIENT")))).service is Service.NONE
    now = BELIEVED_S
    assert next(iter(ring.find_senders(guid_of("CLIENT")))).keys == key_of("new").public_keys().keys
    del directory.machines[guid_of("CLIENT"), guid_of("Berlin")]
    now = 2 * BELIEVED_S
    assert all(one.machine_name != "CLIENT" for one in ring.find_senders(guid_of("CLIENT")))


def test_a_new_machine_is_seen_soon(directory):
    now = 0.0
    ring = DirectoryKeys(directory.perform, clock=lambda: now)
    list(ring.find_senders(guid_of("NEW")))
    directory.machine("NEW", Service.BSC, blob("NEW"))
    now = UNKNOWN_S
    assert next(iter(ring.find_senders(guid_of("NEW")))).machine_name == "NEW"


def created(object_type: ObjectType, identifier: Guid, partition_id: Guid, **properties: Any) -> CreateObject:
    values = tuple((Propid[name], value) for name, value in properties.items())
    return CreateObject(
        object_type=object_type,
        path_name=None,
        properties=with_identifier(object_type, identifier, values),
        partition_id=partition_id,
        seq_number=SequenceNumber(1),
    )


def applied(command: Command, identifier: Guid, partition_id: Guid, *properties: Any) -> ApplyChanges:
    change = DirectoryChange(
        command=command, guid_identifier=identifier, partition_id=partition_id, properties=properties
    )
    return ApplyChanges(partition_id=partition_id, changes=(change,))


NEW, BERLIN = guid_of("NEW"), guid_of("Berlin")
NEW_SITE = (ObjectType.SITE, guid_of("Madrid"), PEC_PARTITION_ID)
NEW_SERVER = {"QM_SERVICE": Service.BSC.value}
DELETION = make_deletion_properties(ObjectType.MACHINE, Scope.ENTERPRISE)


@pytest.mark.parametrize(
    "operation",
    [
        created(*NEW_SITE, S_PSC="NEW"),
        applied(Command.SYNC, *NEW_SITE[1:], (Propid.S_PSC, "NEW")),
        applied(Command.UPDATE, *NEW_SITE[1:], (Propid.S_PSC_SIGNPK, blob("NEW"))),
    ],
    ids=["created", "replicated", "with another key"],
)
def test_the_psc_of_a_new_site_is_known_at_once(directory, operation):
    """Decision T132: its first message would be refused, and repeated half a minute later."""
    ring = DirectoryKeys(directory.perform, clock=lambda: 0.0)
    list(ring.find_senders(NEW))
    directory.site("Madrid", "NEW", blob("NEW"))
    ring.notice(operation, Done())
    assert "NEW" in [sender.machine_name for sender in ring.find_senders(NEW)]


@pytest.mark.parametrize(
    "operation",
    [
        created(ObjectType.MACHINE, NEW, BERLIN, **NEW_SERVER),
        applied(Command.SYNC, NEW, BERLIN, (Propid.QM_SERVICE, Service.BSC.value)),
        applied(Command.UPDATE, NEW, BERLIN, (Propid.QM_SIGN_PK, blob("NEW"))),
        applied(Command.DELETE, NEW, BERLIN, *DELETION),
        UpdateObject(
            object_type=ObjectType.MACHINE,
            path_name=None,
            identifier=NEW,
            properties=(),
            partition_id=BERLIN,
            seq_number=SequenceNumber(1),
        ),
    ],
    ids=["created", "replicated", "with another key", "deleted", "updated"],
)
def test_a_machine_that_has_changed_is_read_again(directory, operation):
    ring = DirectoryKeys(directory.perform, clock=lambda: 0.0)
    before = list(ring.find_senders(NEW))
    directory.machine("NEW", Service.BSC, blob("NEW"))
    assert list(ring.find_senders(NEW)) == before
    ring.notice(operation, Done())
    assert [sender.machine_name for sender in ring.find_senders(NEW)] == ["NEW"]


def test_ordinary_machines_do_not_have_the_directory_asked_again(directory):
    """Thousands may be created: each message between would read the PSCs of all sites."""
    ring = DirectoryKeys(directory.perform, clock=lambda: 0.0)
    list(ring.find_senders(guid_of("PSC1")))
    directory.asked.clear()
    ring.notice(created(ObjectType.MACHINE, NEW, BERLIN, QM_SERVICE=0), Done())
    ring.notice(applied(Command.CREATE, NEW, BERLIN, (Propid.Q_LABEL, "a queue")), Done())
    list(ring.find_senders(guid_of("PSC1")))
    assert directory.asked == []
    ring.notice(SweepPartition(partition_id=BERLIN), Done())
    list(ring.find_senders(guid_of("PSC1")))
    assert directory.asked


def test_an_answer_from_before_a_change_is_not_kept(directory):
    ring = DirectoryKeys(directory.perform, clock=lambda: 0.0)
    perform = directory.perform

    def overtaken(operation):
        answer = perform(operation)
        if isinstance(operation, ReadObject):
            directory.machine("NEW", Service.BSC, blob("NEW"))
            ring.notice(created(ObjectType.MACHINE, NEW, BERLIN, **NEW_SERVER), Done())
        return answer

    ring._perform = overtaken
    assert "NEW" not in [sender.machine_name for sender in ring.find_senders(NEW)]
    ring._perform = perform
    assert "NEW" in [sender.machine_name for sender in ring.find_senders(NEW)]


def test_few_answers_are_kept(directory, monkeypatch):
    monkeypatch.setattr(keyring, "ANSWERS_MAX", 10)
    ring = DirectoryKeys(directory.perform)
    for number in range(100):
        list(ring.find_senders(guid_of(f"machine {number}")))
    assert len(ring._machines._kept) == 10


@pytest.mark.parametrize("broken", [b"\1", b"no keys at all", bytes(8)])
def test_keys_that_cannot_be_read_are_none(directory, caplog, broken):
    directory.machine("BROKEN", Service.PSC, broken)
    (sender,) = DirectoryKeys(directory.perform).find_senders(guid_of("BROKEN"))
    assert sender.keys == ()
    assert "cannot be read" in caplog.text


def test_a_directory_that_is_down_is_no_answer(directory):
    ring = DirectoryKeys(directory.perform)
    directory.is_down = True
    with pytest.raises(DirectoryNotConnected):
        list(ring.find_senders(guid_of("PSC1")))
    directory.is_down = False
    assert list(ring.find_senders(guid_of("PSC1")))


def test_an_outage_does_not_make_known_servers_unknown(directory):
    now = 0.0
    ring = DirectoryKeys(directory.perform, clock=lambda: now)
    known = list(ring.find_senders(guid_of("PSC1")))
    list(ring.find_senders(guid_of("NEW")))
    directory.is_down = True
    now = OUTAGE_S - 1
    assert list(ring.find_senders(guid_of("PSC1"))) == known
    with pytest.raises(DirectoryNotConnected):
        list(ring.find_senders(guid_of("NEW")))
    now = OUTAGE_S
    with pytest.raises(DirectoryNotConnected):
        list(ring.find_senders(guid_of("PSC1")))


def test_a_directory_that_is_away_is_not_asked_for_each_message(directory):
    """Each attempt may take seconds, in which no message comes through."""
    now = 0.0
    ring = DirectoryKeys(directory.perform, clock=lambda: now)
    known = list(ring.find_senders(guid_of("PSC1")))
    directory.is_down = True
    now = BELIEVED_S
    directory.asked.clear()
    for _ in range(5):
        assert list(ring.find_senders(guid_of("PSC1"))) == known
    assert len(directory.asked) == 4, "the sites and the PSC of each, once"
    now += UNKNOWN_S
    assert list(ring.find_senders(guid_of("PSC1"))) == known
    assert len(directory.asked) == 8
    directory.is_down = False
    directory.machine("PSC1", Service.BSC, blob("new"))
    now += UNKNOWN_S
    assert next(iter(ring.find_senders(guid_of("PSC1")))).service is Service.BSC


def test_the_pec_is_not_signed_for_by_a_machine_of_another_site(directory):
    """Decision R138: the PSC of Paris may put any machine, with any key, into its own partition."""
    directory.machine("PSC1", Service.PEC, blob("PSC2"), "Paris", identifier="Mine")
    assert list(DirectoryKeys(directory.perform).find_senders(guid_of("Mine"))) == []


def test_a_site_takes_no_machine_of_another_one_away(directory):
    """Decision R138: a machine of the same GUID, in a newer object, would hide the PEC's key."""
    before = list(DirectoryKeys(directory.perform).find_senders(guid_of("PSC1")))
    directory.machine("Other", Service.NONE, blob("PSC2"), "Paris", identifier="PSC1")
    assert list(DirectoryKeys(directory.perform).find_senders(guid_of("PSC1"))) == before


def test_who_hands_a_site_over_signs_for_it_until_the_enterprise_knows(directory):
    """Decision R38: it is no PSC any more, and goes on telling others."""
    directory.machine("PSC1", Service.BSC, blob("PSC1"))
    senders = list(DirectoryKeys(directory.perform).find_senders(guid_of("PSC1")))
    assert [one.machine_name for one in senders] == ["PSC1", "psc1"]


def test_a_machine_without_a_name_is_nobody(directory):
    directory.machine("", Service.PSC, blob("PSC1"))
    assert [one.machine_name for one in DirectoryKeys(directory.perform).find_senders(guid_of(""))] == [
        "psc1",
        "PSC2",
    ]


def test_what_the_administrator_says_comes_first(directory):
    pinned = PinnedKeys({guid_of("PSC1"): sender_of("pinned", Service.PEC)})
    ring = KeyRings((pinned, DirectoryKeys(directory.perform)))
    assert [one.machine_name for one in ring.find_senders(guid_of("PSC1"))] == ["pinned", "PSC1", "psc1"]
    assert [one.machine_name for one in ring.find_senders(guid_of("CLIENT"))] == ["CLIENT"]
    assert list(pinned.find_senders(guid_of("CLIENT"))) == []


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.12")
def test_a_pinned_machine_is_called_as_the_directory_calls_it(directory):
    """Decision R183: only with the key that is pinned, and while the directory is away as it was."""
    pinned = PinnedKeys({guid_of("PSC1"): replace(sender_of("PSC1"), machine_name="OLD")})
    ring = KeyRings((pinned, DirectoryKeys(directory.perform)))
    first = next(iter(ring.find_senders(guid_of("PSC1"))))
    assert (first.machine_name, first.machine_id) == ("PSC1", guid_of("PSC1"))
    other = PinnedKeys({guid_of("PSC1"): replace(sender_of("PSC2"), machine_name="OLD")})
    ring = KeyRings((other, DirectoryKeys(directory.perform)))
    assert next(iter(ring.find_senders(guid_of("PSC1")))).machine_name == "OLD"
    directory.is_down = True
    ring = KeyRings((pinned, DirectoryKeys(directory.perform)))
    assert next(iter(ring.find_senders(guid_of("PSC1")))).machine_name == "OLD"


def test_no_other_psc_gives_a_pinned_machine_its_name(directory):
    """Decisions R138, R183: identifiers and public keys are known to all; the PSC of Paris claims both."""
    directory.machine("PSC2", Service.PSC, blob("PSC1"), "Paris", identifier="PSC1")
    pinned = PinnedKeys({guid_of("PSC1"): replace(sender_of("PSC1"), machine_name="OLD")})
    ring = KeyRings((pinned, DirectoryKeys(directory.perform)))
    assert next(iter(ring.find_senders(guid_of("PSC1")))).machine_name == "OLD"


def test_a_damaged_entry_makes_no_pinned_machine_unknown(directory, monkeypatch):
    """Decisions R83, R183."""

    def damaged(_operation):
        raise MappingError("cn=PSC9", "objectGUID", "has 3 octets")

    pinned = PinnedKeys({guid_of("PSC1"): sender_of("PSC1")})
    monkeypatch.setattr(directory, "perform", damaged)
    ring = KeyRings((pinned, DirectoryKeys(directory.perform)))
    assert next(iter(ring.find_senders(guid_of("PSC1")))).machine_name == "PSC1"
