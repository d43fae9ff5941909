"""One directory server without a network: what it is given, and what it does."""

from dataclasses import replace
from typing import Any

from mqdssm.engines.actions import Note, StartTimer, StopTimer, TimerFired
from mqdssm.engines.replication.actions import (
    Action,
    ChangeObject,
    Event,
    Nacked,
    Perform,
    Performed,
    Received,
    Reply,
    Send,
    Started,
)
from mqdssm.engines.replication.engine import ReplicationEngine
from mqdssm.engines.replication.operations import LoadState, PersistedState, ReadObject
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.model.guid import Guid
from mqdssm.model.messages import (
    ChangePropagationMessage,
    Command,
    DirectoryChange,
    Properties,
    ReplicationMessage,
    SyncReplyMessage,
)
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryPartition, PurgeState, Service
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.testing.memory_store.store import MemoryStore
from support.replication.network import guid_of, machine_properties

HOME = guid_of("site Home")
AWAY = guid_of("site Away")


def numbered(number: int, previous: int | None = None, **given) -> DirectoryChange:
    """A connected network as a change: an object that nobody depends on."""
    name = given.pop("name", f"cn{number}")
    fields: dict[str, Any] = {
        "command": Command.SYNC,
        "guid_identifier": guid_of(name),
        "partition_id": PEC_PARTITION_ID,
        "previous_seq_number": SequenceNumber(number - 1 if previous is None else previous),
        "seq_number": SequenceNumber(number),
        "properties": ((Propid.CN_PROTOCOLID, 1), (Propid.CN_NAME, name)),
    }
    return DirectoryChange(**(fields | given))


def machine(number: int, name: str, site_id: Guid, service: Service | None = None) -> DirectoryChange:
    """A machine of a site as a change."""
    return numbered(
        number,
        partition_id=site_id,
        guid_identifier=guid_of(f"machine {name}"),
        properties=machine_properties(name, site_id, service),
    )


def site(number: int, name: str, psc: str, command: Command = Command.SYNC) -> DirectoryChange:
    """A site as a change."""
    return numbered(
        number,
        command=command,
        guid_identifier=guid_of(f"site {name}"),
        properties=((Propid.S_PATHNAME, name), (Propid.S_PSC, psc)),
    )


class Lone:
    """A server whose neighbours are the test."""

    def __init__(self, role: Role = Role.PSC, store: MemoryStore | None = None, **changes) -> None:
        self.settings = Settings(
            machine_name="Me",
            machine_id=guid_of("machine Me"),
            site_id=HOME,
            role=role,
            pec_name="Me" if role is Role.PEC else "PEC",
            psc_name="Boss" if role is Role.BSC else "",
            **changes,
        )
        self.store = store or MemoryStore()
        self.engine = ReplicationEngine(self.settings, first_request=77)
        self.now = 1000.0
        self.all: list[Action] = []
        self.due: dict[str, float] = {}  # when each running timer runs out
        self._request = 0
        self.did(Started())

    def again(self, **changes) -> "Lone":
        """The same server after a restart."""
        made = Lone.__new__(Lone)
        made.settings = replace(self.settings, **changes)
        made.store = self.store.restart()
        made.engine = ReplicationEngine(made.settings, first_request=9000)
        made.now = self.now + 1
        made.all = []
        made.due = {}
        made._request = 500
        made.did(Started())
        return made

    def did(self, event: Event, after_s: float = 0.0) -> list[Action]:
        """What the server does about an event, its operations performed and left out."""
        return self.did_together(event, after_s=after_s)

    def did_together(self, *events: Event, after_s: float = 0.0) -> list[Action]:
        """What the server does about events that come before its store has done anything."""
        self.now += after_s
        made: list[Action] = []
        waiting: list[Event] = [*events]
        while waiting:
            for action in self.engine.step(waiting.pop(0), self.now):
                if isinstance(action, Perform):
                    result = self.store.perform(action.operation)
                    waiting.append(Performed(token=action.token, result=result))
                    continue
                made.append(action)
                if isinstance(action, StartTimer):
                    self.due[action.name] = self.now + action.after_s
                elif isinstance(action, StopTimer):
                    self.due.pop(action.name, None)
        self.all += made
        return made

    def got(self, message: ReplicationMessage, sender: str = "PEC", after_s: float = 0.0) -> list[Action]:
        """What it does about a message."""
        return self.did(Received(message=message, sender=sender), after_s)

    def told(self, *changes: DirectoryChange, sender: str = "PEC", **given) -> list[Action]:
        """What it does about a propagation."""
        message = ChangePropagationMessage(site_id=AWAY, directory_changes=changes, **given)
        return self.got(message, sender)

    def answered(self, *changes: DirectoryChange, sender: str = "PEC", **given) -> list[Action]:
        """What it does about a synchronization reply.

        The first one of a full synchronization starts at MIN.
        """
        is_first = given.get("complete_sync0") and self.partition().purge_state is PurgeState.NORMAL
        fields: dict[str, Any] = {
            "site_id": AWAY,
            "partition_id": PEC_PARTITION_ID,
            "from_seq_number": MIN if is_first else self.partition().last,
            "to_seq_number": changes[-1].seq_number if changes else self.partition().last,
            "purged_seq_number": MIN,
            "directory_changes": changes,
        }
        return self.got(SyncReplyMessage(**(fields | given)), sender)

    def fired(self, timer: str, after_s: float = 0.0) -> list[Action]:
        """What it does when a timer runs out."""
        self.due.pop(timer, None)
        return self.did(TimerFired(name=timer), after_s)

    def passed(self, seconds: float) -> list[Action]:
        """What it does while time passes: its timers run out."""
        made: list[Action] = []
        end = self.now + seconds
        while self.due and min(self.due.values()) <= end:
            timer = min(self.due, key=lambda name: self.due[name])
            made += self.fired(timer, max(0.0, self.due[timer] - self.now))
        self.now = end
        return made

    def nacked(self, message: ReplicationMessage, destination: str, *, bad_signature=False) -> list[Action]:
        """What it does when a message comes back."""
        return self.did(Nacked(message=message, destination=destination, bad_signature=bad_signature))

    def change(self, command: Command, kind: ObjectType, partition_id: Guid, **given) -> list[Action]:
        """What it does about a client's change."""
        self._request += 1
        fields: dict[str, Any] = {"path_name": None, "identifier": None, "properties": ()}
        event = ChangeObject(
            request=self._request,
            command=command,
            object_type=kind,
            partition_id=partition_id,
            **(fields | given),
        )
        return self.did(event)

    def partition(self, partition_id: Guid = PEC_PARTITION_ID) -> DirectoryPartition:
        """What is persisted of a partition."""
        found = self.state().partitions
        return next(one for one in found if one.partition_id == partition_id)

    def state(self) -> PersistedState:
        """All that is persisted."""
        state: PersistedState = self.store.perform(LoadState())
        return state

    def has(self, name: str) -> Properties | None:
        """The properties of a connected network, or None where it is not there."""
        operation = ReadObject(object_type=ObjectType.CN, identifier=guid_of(name))
        properties: Properties | None = self.store.perform(operation).properties
        return properties


def sends(actions: list[Action]) -> list[Send]:
    """The messages among actions."""
    return [one for one in actions if isinstance(one, Send)]


def kinds(actions: list[Action]) -> list[tuple[str, str]]:
    """Kind and receiver of the messages among actions."""
    return [(type(one.message).__name__, one.destination) for one in sends(actions)]


def replies(actions: list[Action]) -> list[int]:
    """What clients were answered."""
    return [one.status for one in actions if isinstance(one, Reply)]


def timers(actions: list[Action]) -> dict[str, float]:
    """The timers that were started."""
    return {one.name: one.after_s for one in actions if isinstance(one, StartTimer)}


def notes(actions: list[Action]) -> list[str]:
    """What the operator was told."""
    return [one.what for one in actions if isinstance(one, Note)]
