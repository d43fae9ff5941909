"""Clients of directory servers as processes, which know what has to be there in the end.

A client changes queues of its own through the control socket of one server. A change whose outcome is unknown
is requested again until it is known, so nothing is in doubt in the end.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import mqdssm
from mqdssm.errors import DirectoryError, ObjectAlreadyExists, ObjectNotFound, OutcomeUnknown
from mqdssm.model.elements import Queue
from mqdssm.model.filters import Filter
from mqdssm.server.control_client import ControlClient
from support.servers.enterprise import Member

PATIENCE_S: Final = 300.0
"""How long a client requests one change."""
AGAIN_S: Final = 0.2


@dataclass
class KnownQueue:
    """A queue that a client has created: its name and label; without a label it is deleted."""

    name: str
    label: str | None


class RecordingClient:
    """Changes queues through one server until `stop`, and records what was acknowledged.

    Args:
        name: of the client; its choices follow from it.
        server: its server.
        machines: machines whose queues it creates.
        pause_s: between two changes.
        changes_max: changes that it makes.
        patience_s: how long it requests one change.
        creating: share of its changes that create a queue; of the others 40 % delete one, 60 % change one.
    """

    def __init__(
        self,
        name: str,
        server: Member,
        machines: Iterable[str],
        *,
        pause_s: float = 0.0,
        changes_max: int | None = None,
        patience_s: float = PATIENCE_S,
        creating: float = 0.5,
    ) -> None:
        self.name: Final = name
        self.queues: dict[UUID, KnownQueue] = {}
        self.acknowledged = self.repeated = 0
        self.failure: BaseException | None = None
        self._socket, self._url, self._machines = server.socket, server.ldapi_url, tuple(machines)
        self._pause_s, self._changes_max, self._patience_s = pause_s, changes_max, patience_s
        self._changing = 1 - creating
        self._random = random.Random(name)
        self._stopping = threading.Event()
        self._client: ControlClient | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish the current change, and raise what went wrong."""
        self._stopping.set()
        self._thread.join(self._patience_s + 60)
        if self.failure is not None:
            raise self.failure
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set() and self.acknowledged != self._changes_max:
                self._change_something()
                self.acknowledged += 1
                self._stopping.wait(self._pause_s)
        except BaseException as error:  # noqa: BLE001  raised by `stop`
            self.failure = error
        finally:
            self._disconnect()

    def _change_something(self) -> None:
        present = [identifier for identifier, queue in self.queues.items() if queue.label is not None]
        chosen, chance = self._random.choice(present) if present else None, self._random.random()
        if chosen is None or chance > self._changing or not self._has_come(chosen):
            self._create()
        elif chance < 0.4 * self._changing:
            self._delete(chosen)
        else:
            self._write(chosen)

    def _has_come(self, identifier: UUID) -> bool:
        """Whether the server has a queue yet: only then its absence says later that it was deleted."""
        try:
            with mqdssm.connect(self._url) as directory:
                found = directory.search(Queue, Filter("Identifier", "==", identifier), attributes=["Label"])
                return any(True for _ in found)
        except DirectoryError:
            return False

    def _create(self) -> None:
        identifier = UUID(int=self._random.getrandbits(128), version=4)
        machine = self._random.choice(self._machines)
        name, label = rf"{machine}\{self.name}-{len(self.queues)}".lower(), f"first {identifier}"
        made = Queue(identifier=identifier, pathname=name, label=label)
        self._until_known(lambda client: client.create(made), made_if=ObjectAlreadyExists)
        self.queues[identifier] = KnownQueue(name, label)

    def _write(self, identifier: UUID) -> None:
        label = f"changed {self._random.getrandbits(64)}"
        changed = Queue(identifier=identifier, label=label)
        self._until_known(lambda client: client.write(changed))
        self.queues[identifier].label = label

    def _delete(self, identifier: UUID) -> None:
        self._until_known(lambda client: client.delete(Queue(identifier=identifier)), made_if=ObjectNotFound)
        self.queues[identifier].label = None

    def _until_known(
        self, change: Callable[[ControlClient], object], made_if: type[DirectoryError] | None = None
    ) -> None:
        """Request a change until it is made.

        Args:
            change: requests it.
            made_if: the answer to a further request that says that an earlier one made it.
        """
        until, is_unknown = time.monotonic() + self._patience_s, False
        while (error := self._request(change)) is not None:
            if is_unknown and made_if is not None and isinstance(error, made_if):
                return
            assert time.monotonic() < until, f"{self.name}: {error}"
            assert not isinstance(error, ObjectAlreadyExists), f"{self.name}: {error}"
            is_unknown |= isinstance(error, OutcomeUnknown)
            self.repeated += 1
            time.sleep(AGAIN_S)

    def _request(self, change: Callable[[ControlClient], object]) -> DirectoryError | None:
        """Request a change once; the error, if there is one."""
        try:
            if self._client is None:
                self._client = ControlClient(self._socket)
            change(self._client)
        except DirectoryError as error:
            self._disconnect()
            return error
        return None

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def differences(clients: Iterable[RecordingClient], url: str) -> list[str]:
    """How the queues of a directory differ from what clients were told; each queue is there once."""
    with mqdssm.connect(url) as directory:
        found = list(directory.search(Queue, attributes=["Identifier", "Pathname", "Label"]))
    labels = {queue.identifier: queue.label for queue in found}
    times = Counter((queue.pathname or "").lower() for queue in found)
    wrong = [f"{name} is there {number} times" for name, number in times.items() if number > 1]
    for client in clients:
        for identifier, queue in client.queues.items():
            label = labels.pop(identifier, None)
            if label != queue.label:
                wrong.append(f"{queue.name} has the label {label!r}, not {queue.label!r}")
    return [*wrong, *(f"{identifier} was never created" for identifier in labels)]
