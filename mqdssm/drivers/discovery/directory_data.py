"""Data of a discovery server from the directory, kept up to date.

See [MS-MQSD] 2.3 and 3.2.1.1.

The directory is read when the server starts, at an interval, and whenever somebody says that something has
changed. While it cannot be read, what was known before counts.
A watch of the directory reports changes at once. If the server does not report changes, or not to this user,
the interval remains. This is reported once and tried again at intervals: the server may be replaced.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Final, Protocol

from mqdssm.directory.filters import And, Equal
from mqdssm.engines.discovery.values import Knowledge
from mqdssm.errors import ConfigError, MappingError, MqdssmError, ObjectNotFound
from mqdssm.events.facade import Directory
from mqdssm.events.references import key_of
from mqdssm.events.watching.watch import Watch
from mqdssm.model.discovery import DirectoryServiceServer, check_netbios_name
from mqdssm.model.elements import QueueManager, Site
from mqdssm.model.filters import Filter
from mqdssm.model.guid import Guid
from mqdssm.store.ldap.places import DirectoryPlaces
from mqdssm.store.ldap.stored_entry import stored_entry_of
from mqdssm.tables.property_rows import GUIDS

log: Final = logging.getLogger(__name__)

REFRESH_S: Final = 300.0
"""How often the directory is read where nobody says that it has changed."""
PAUSE_S: Final = 1.0
"""The least time between two readings, so that a thousand changes are not a thousand readings."""
RETRY_S: Final = 10.0
"""When it is read again after it could not be: what is waited for may be known to nobody else."""
CONCERNED: Final = frozenset({"queue-manager", "site"})
"""Types of objects that an answer is made of."""
_ADDRESSES: Final = "mqisAddresses"
_NETWORKS: Final = "mqisConnectedNetworks"
_NETWORK_CLASS: Final = "mqisConnectedNetwork"
_NETWORK_ATTRIBUTES: Final = ("objectClass", "objectGUID", "mqisObjectID", "cn")
# TA_ADDRESS ([MS-MQMQ] 2.2.4): AddressLength, AddressType, Address
_TA_HEAD: Final = 4
_IP_TYPES: Final = frozenset({1, 2})
_IPX_TYPE: Final = 3


class WatchedChange(Protocol):
    """Change of an object in a watched directory.

    `mqdssm.model.watching.ObjectChange` has this form.
    """

    @property
    def type(self) -> str:
        """Type of the object, as on the command line."""


def protocols_of(addresses: bytes) -> tuple[bool, bool]:
    """Return which of (IP, IPX) a machine's addresses belong to.

    No address means IP (decision S11).

    Args:
        addresses: TA_ADDRESS structures, one behind the other ([MS-MQMQ] 2.2.4); what is damaged ends them.
    """
    kinds = set()
    at = 0
    while at + _TA_HEAD <= len(addresses):
        kinds.add(int.from_bytes(addresses[at + 2 : at + 4], "little"))
        at += _TA_HEAD + int.from_bytes(addresses[at : at + 2], "little")
    ip, ipx = not kinds.isdisjoint(_IP_TYPES), _IPX_TYPE in kinds
    return ip or not ipx, ipx


class DiscoveryReader:
    """Reads the data for the answers of one discovery server.

    Args:
        directory: connected.
        site: name of the server's site.
        computer: name of the server's computer.
        networks: its connected networks; none: those that the directory has.
    """

    def __init__(
        self, directory: Directory, *, site: str, computer: str, networks: Sequence[Guid] = ()
    ) -> None:
        self._directory, self._site, self._computer = directory, site, computer
        self._networks = tuple(networks)

    def read(self) -> Knowledge:
        """Read the servers of the site and the connected networks.

        Raises:
            ObjectNotFound: there is no such site.
            DirectoryError: the directory cannot be read.
        """
        name = [Filter("Name", "==", self._site)]
        try:
            site = self._directory.read(Site, name, attributes=["Identifier"])
        except ObjectNotFound:
            raise ObjectNotFound(
                f"there is no site {self._site!r}", hint="'mqdssm list site' shows them"
            ) from None
        if site.identifier is None:
            raise ObjectNotFound(f"site {self._site!r} has no GUID that can be read")
        machines = sorted(
            self._search_machines(), key=lambda machine: (not self._is_own(machine), _key_of(machine))
        )
        beside = self._read_mqis_attributes()
        servers: list[DirectoryServiceServer] = []
        for machine in machines:
            if site.identifier in machine.site_identifier_list:
                addresses, _ = beside.get(key_of(machine.full_path or ""), (b"", ()))
                servers += _build_entry(machine, addresses)
        return Knowledge(
            site=Guid.of(site.identifier),
            servers=tuple(servers),
            networks=self._networks
            or self._find_own_networks(machines, beside)
            or tuple(self._search_networks()),
        )

    def is_listed(self, knowledge: Knowledge) -> bool:
        """Return True if the server's own computer is among the servers in its answers."""
        return self._computer.casefold() in {server.name.casefold() for server in knowledge.servers}

    def _search_machines(self) -> Iterator[QueueManager]:
        """Search the queue managers that are directory servers."""
        filters = [Filter("DirectoryServer", "==", True)]
        attributes = ["ComputerName", "FullPath", "SiteIdentifierList"]
        return self._directory.search(QueueManager, filters, attributes=attributes)

    def _read_mqis_attributes(self) -> dict[str, tuple[bytes, tuple[Guid, ...]]]:
        """Return attributes of machines that only MQIS has, by DN.

        Addresses and connected networks are such attributes.
        """
        session = self._directory.session
        of_class = And((Equal("objectClass", b"mSMQConfiguration"), Equal("mSMQDsServices", b"TRUE")))
        by_dn = {}
        for entry in session.find(session.naming.root, of_class, [_ADDRESSES, _NETWORKS]):
            addresses = entry.attributes.get(_ADDRESSES.lower(), [b""])[0]
            networks: tuple[Guid, ...] = ()
            if raws := entry.attributes.get(_NETWORKS.lower()):
                with suppress(ValueError):  # no list of GUIDs
                    networks = GUIDS.load(raws)
            by_dn[key_of(entry.dn)] = addresses, networks
        return by_dn

    def _find_own_networks(
        self, machines: Sequence[QueueManager], beside: dict[str, tuple[bytes, tuple[Guid, ...]]]
    ) -> tuple[Guid, ...]:
        own_dns = (key_of(machine.full_path or "") for machine in machines if self._is_own(machine))
        return next((beside[dn][1] for dn in own_dns if dn in beside), ())

    def _search_networks(self) -> Iterator[Guid]:
        """Yield the GUIDs of all connected networks (decisions M44, S6).

        Only MQIS has such objects.
        """
        session = self._directory.session
        of_class = Equal("objectClass", _NETWORK_CLASS.encode())
        try:
            entries = list(session.find(DirectoryPlaces(session).networks, of_class, _NETWORK_ATTRIBUTES))
        except ObjectNotFound:  # a directory without MQIS
            return
        for entry in sorted(entries, key=lambda item: item.dn.casefold()):
            with suppress(MappingError):
                identifier = stored_entry_of(entry).identifier
                if identifier is not None:
                    yield identifier

    def _is_own(self, machine: QueueManager) -> bool:
        return _key_of(machine) == self._computer.casefold()


def _key_of(machine: QueueManager) -> str:
    return (machine.computer_name or "").casefold()


def _build_entry(machine: QueueManager, addresses: bytes) -> Iterator[DirectoryServiceServer]:
    """Yield the entry of a server (decision S20).

    There is none if its name is no NetBIOS name.
    """
    ip, ipx = protocols_of(addresses)
    try:
        check_netbios_name(machine.computer_name or "")
        yield DirectoryServiceServer.of(machine.computer_name or "", ip=ip, ipx=ipx)
    except ValueError as error:
        log.warning("%s is not told of: %s", machine.full_path, error)


class KnowledgeCache:
    """Reads the directory repeatedly, in an event loop, and passes on the result.

    Args:
        read: reads the directory; called in a thread.
        learn: takes what was read.
        refresh_s: how often, where nothing is said to have changed.
        pause_s: the least time between two readings.
        retry_s: how long to wait after a reading that failed, at most.
    """

    def __init__(
        self,
        read: Callable[[], Knowledge],
        learn: Callable[[Knowledge], None],
        *,
        refresh_s: float = REFRESH_S,
        pause_s: float = PAUSE_S,
        retry_s: float = RETRY_S,
    ) -> None:
        if not 0 < pause_s <= refresh_s:
            raise ConfigError(f"every {refresh_s:g} s is too often: {pause_s:g} s or more are needed")
        self._read, self._learn, self._refresh_s, self._pause_s = read, learn, refresh_s, pause_s
        self._retry_s = min(max(retry_s, pause_s), refresh_s)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stale: Final = asyncio.Event()

    async def refresh(self) -> Knowledge:
        """Read the directory once, and pass on the result.

        Raises:
            DirectoryError: the directory cannot be read.
        """
        self._loop = asyncio.get_running_loop()
        self._stale.clear()
        knowledge = await asyncio.to_thread(self._read)
        self._learn(knowledge)
        return knowledge

    async def run(self) -> None:
        """Read the directory at intervals and after changes, until cancelled."""
        self._loop = asyncio.get_running_loop()
        wait_s = self._refresh_s
        while True:
            await asyncio.sleep(self._pause_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stale.wait(), wait_s - self._pause_s)
            wait_s = self._refresh_s
            try:
                await self.refresh()
            except MqdssmError as error:
                wait_s = self._retry_s
                log.warning("the directory cannot be read, what was known before counts: %s", error)

    def invalidate(self) -> None:
        """Read the directory again soon, since it may have changed; from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._stale.set)

    def apply(self, change: WatchedChange) -> None:
        """Read the directory again soon if a changed object is part of the answers.

        Any thread may call this.
        """
        if change.type in CONCERNED:
            self.invalidate()


STOP_WAIT_S: Final = 2.0
"""How long its end is waited for, in seconds: one that cannot reach its server ends with the program."""


class KnowledgeWatch:
    """Passes changes of queue managers and sites to a cache, in a thread (S17).

    Args:
        directory: the one that is watched, by connections of the watch.
        cache: what is kept true.
        tell: gets a sentence each time that there is another reason why the directory is not watched.
        retry_s: when a watch that failed is tried again, in seconds.
    """

    def __init__(
        self,
        directory: Directory,
        cache: KnowledgeCache,
        *,
        tell: Callable[[str], None] = log.warning,
        retry_s: float = REFRESH_S,
    ) -> None:
        self._directory, self._cache, self._tell, self._retry_s = directory, cache, tell, retry_s
        self._thread = Thread(target=self._run, name="discovery watch", daemon=True)
        self._stopped = Event()
        self._lock = Lock()
        self._watch: Watch | None = None
        self._told = ""

    @contextmanager
    def run(self) -> Iterator[None]:
        """Watch the directory while the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            with self._lock:
                if self._watch is not None:
                    self._watch.stop()
            self._thread.join(STOP_WAIT_S)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._follow()
            except ConfigError as error:  # these options can never work
                self._say(error)
                return
            except MqdssmError as error:
                self._say(error)
                self._stopped.wait(self._retry_s)

    def _follow(self) -> None:
        with self._directory.watch(QueueManager, Site, on_ready=self._on_ready) as watch:
            with self._lock:
                self._watch = watch
                if self._stopped.is_set():
                    return
            for change in watch:
                self._cache.apply(change)

    def _on_ready(self, url: str) -> None:
        """Read the directory again.

        The watch does not report changes since the last reading.
        """
        log.info("%s is watched", url)
        self._told = ""
        self._cache.invalidate()

    def _say(self, error: MqdssmError) -> None:
        words = str(error)
        if words != self._told:
            self._told = words
            self._tell(words)
