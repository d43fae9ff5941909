"""Directory server of [MC-MQDSRP], put together from all its parts."""

import math
import time
from collections.abc import Callable, Mapping
from secrets import randbits
from types import MappingProxyType
from typing import Final, Protocol

from mqdssm.drivers.authentication.keyring import DirectoryKeys, KeyRings, PinnedKeys, TrustedSender
from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.authentication.replay_marks import ReplayMarks
from mqdssm.drivers.authentication.signatures import AS_SPECIFIED, SignaturePolicy, Signer, Verifier
from mqdssm.drivers.queue_manager.local_queue_manager import LocalQueueManager
from mqdssm.drivers.replication.driver import ReplicationDriver
from mqdssm.drivers.store_thread import RETRY_FIRST_S, StoreThread
from mqdssm.drivers.threads import WorkerThread
from mqdssm.engines.replication.engine import ReplicationEngine
from mqdssm.engines.replication.settings import Settings
from mqdssm.model.closeable import Closeable
from mqdssm.model.guid import Guid
from mqdssm.store.performer import Store


class QueueManagerNetwork(Protocol):
    """Network on which queue managers are started.

    An example is `mqdssm.testing.in_process_network`.
    """

    def add(
        self, machine_name: str, identifier: Guid, *, signer: Signer, verifier: Verifier
    ) -> LocalQueueManager:
        """Start the queue manager of a machine.

        Raises:
            ValueError: one of that name or identifier is on the network already.
        """


class DirectoryServer(Closeable):
    """Directory server at work, a context manager that closes it.

    `start_directory_server` starts it.

    Attributes:
        settings: names, first role and intervals of the server.
        driver: makes changes, reports the status, counts what was dropped or noted.
        store: performs operations of the store, and look-ups of other threads.
        queue_manager: sends and receives its messages.
    """

    def __init__(
        self,
        settings: Settings,
        driver: ReplicationDriver,
        store: StoreThread,
        queue_manager: LocalQueueManager,
    ) -> None:
        self.settings: Final = settings
        self.driver: Final = driver
        self.store: Final = store
        self.queue_manager: Final = queue_manager
        self._thread: Final = WorkerThread(driver.run, f"directory server {queue_manager.machine_name}")
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """True while the server works: it was not closed, and no defect has stopped it."""
        return self._thread.is_alive

    def close(self) -> None:
        """Stop the server and its queue manager after their current work.

        The store stays open.

        Raises:
            TransportError: the queue manager had stopped by itself.
            Exception: a defect that had stopped the server, its store or its queue manager.
        """
        self.driver.stop()
        try:
            self._thread.join()
        finally:
            self.queue_manager.close()


def start_directory_server(
    settings: Settings,
    store: Store,
    network: QueueManagerNetwork,
    *,
    key: PrivateKey,
    pinned: Mapping[Guid, TrustedSender] = MappingProxyType({}),
    policy: SignaturePolicy = AS_SPECIFIED,
    marks: ReplayMarks | None = None,
    retry_first_s: float = RETRY_FIRST_S,
    heard_at: Callable[[], float] = lambda: -math.inf,
) -> DirectoryServer:
    """Start a directory server in threads of its own.

    The server takes messages of directory servers whose keys are pinned or in its own directory.

    Args:
        settings: names, role and intervals of the server.
        store: the server's own directory; it is not closed with the server.
        network: where its queue manager is started.
        key: signs its messages.
        pinned: keys of servers that its directory may not have yet, by QueueManager.Identifier: of the PEC,
            and for a BSC of its PSC.
        policy: how messages are signed, and which signatures are accepted.
        marks: keeps replayed messages out after a restart; not closed with the server.
        retry_first_s: seconds before an operation that failed is repeated for the first time.
        heard_at: as of `StoreThread`.

    Raises:
        ValueError: the network has a queue manager of this name or identifier.
    """
    name = f"store of {settings.machine_name}"
    work = StoreThread(store, name, retry_first_s=retry_first_s, heard_at=heard_at)
    directory_keys = DirectoryKeys(work.lookup)
    work.watch(directory_keys.notice)
    keys = KeyRings((PinnedKeys(pinned), directory_keys))
    queue_manager = network.add(
        settings.machine_name,
        settings.machine_id,
        signer=Signer(settings.machine_id, key),
        verifier=Verifier(keys, time.time(), policy, marks=marks),
    )
    # numbers of requests begin elsewhere at each start, so that no late reply is taken for another (R33)
    engine = ReplicationEngine(settings, first_request=randbits(31))
    driver = ReplicationDriver(engine, work, queue_manager, policy=policy)
    return DirectoryServer(settings, driver, work, queue_manager)
