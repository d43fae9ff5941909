"""Directory server as a process: all its parts, from one configuration."""

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, TypeVar

from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.session import Session
from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.authentication.replay_marks import ReplayMarks
from mqdssm.drivers.queue_manager.message_store import MessageStore
from mqdssm.drivers.replication.directory_server import DirectoryServer, start_directory_server
from mqdssm.drivers.tcp.name_resolution import DirectoryMachines
from mqdssm.drivers.tcp.network import TcpNetwork
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError, DirectoryNotConnected
from mqdssm.events.facade import Directory
from mqdssm.model.guid import Guid
from mqdssm.model.socket_addresses import SocketAddress, parse_socket_address
from mqdssm.server.admission import Admission
from mqdssm.server.config import ServerConfig, ServerSection
from mqdssm.server.control_server import ControlServer
from mqdssm.server.control_service import ControlService
from mqdssm.server.current_roles import identity_of_running, read_current_identity
from mqdssm.server.discovery import DiscoveryThread
from mqdssm.server.first_objects import build_first_objects, make_first_objects
from mqdssm.server.folder import DirectoryServerFolder
from mqdssm.server.hosts import HostTable
from mqdssm.server.http_server import HttpServer
from mqdssm.server.identity_file import write_identity
from mqdssm.server.join_tokens import JoinTokens
from mqdssm.server.local_pages import pages_of
from mqdssm.server.notifications import NotificationThread
from mqdssm.server.own_objects import OwnChange, OwnObjects
from mqdssm.server.private_directory import directory_of, end_of
from mqdssm.server.problems import FolderProblems
from mqdssm.server.service_manager import Watchdog, notify_manager
from mqdssm.server.snapshot_reader import SnapshotReader
from mqdssm.server.token_admission import TokenAdmission
from mqdssm.store.ldap import LdapStore, Owner

if TYPE_CHECKING:
    from mqdssm.testing.openldap import OpenLdapServer

T = TypeVar("T")

log: Final = logging.getLogger(__name__)

RETRY_FIRST_S: Final = 1.0
"""Seconds before a directory that cannot be reached is tried again, doubled each time."""
RETRY_MAX_S: Final = 15.0
"""The longest time between two attempts."""
FIRST_OBJECTS_S: Final = 0.5
"""Seconds between two attempts to make the server's own objects."""
REPORT_S: Final = 60.0
"""Seconds between two reports that the own objects cannot be made yet."""
FOLLOW_S: Final = 5.0
"""Seconds between two comparisons of the role with that in the configuration file."""
ALIVE_S: Final = 0.5
"""Interval of the checks whether the server still works."""


class ServerProcess:
    """Directory server that is run by `run` until `stop`.

    Args:
        folder: its folder.
        config: its configuration.
        config_file: file of the configuration; None: server.toml in the folder.
        restored: True for the one start after a backup was restored (decision R70).
        on_ready: called with the address that it listens on when it works.
        on_report: called with what an operator should know, as that the directory cannot be reached.
        on_own_change: called with changes of the own machine's objects, if `[notification]` has `receive`.

    Attributes:
        config: the configuration, with the names and the role that the directory has.
    """

    def __init__(
        self,
        folder: DirectoryServerFolder,
        config: ServerConfig,
        *,
        config_file: Path | None = None,
        restored: bool = False,
        on_ready: Callable[[SocketAddress], object] = lambda _address: None,
        on_report: Callable[[str], object] = lambda _text: None,
        on_own_change: Callable[[OwnChange], object] = lambda _change: None,
    ) -> None:
        self._folder, self._restored = folder, restored
        self.config = config
        self._config_file = config_file or folder.config
        self._unwritten: ServerSection | None = None  # identity that could not be written into the file
        self._on_ready, self._on_report, self._on_own_change = on_ready, on_report, on_own_change
        self._stopping: Final = Event()
        self._server: DirectoryServer | None = None
        self._notifications: NotificationThread | None = None
        self._slapd: OpenLdapServer | None = None
        self._slapd_problem = ""

    def stop(self) -> None:
        """Let `run` stop everything and return; from any thread."""
        self._stopping.set()
        if self._server is not None:
            self._server.driver.stop()  # at once: it answers the clients that others wait for

    def run(self) -> None:
        """Run the server until `stop` is called.

        Raises:
            ConfigError: a setting or a file that cannot be used, or another role in the directory.
            TransportError: the address cannot be listened on.
            Exception: a defect that has stopped the server; everything else is stopped.
        """
        with ExitStack() as closing:
            self._folder.check_private()
            closing.enter_context(self._folder.lock())
            self._folder.record_format()
            key = PrivateKey.load(self._folder.key)
            options = closing.enter_context(self._open_directory())
            store = self._wait_for(lambda: self._open_store(options, bytes(key.public_keys())))
            if store is None:
                return  # stopped while the directory could not be reached
            closing.callback(store.close)
            marks = closing.enter_context(ReplayMarks(self._folder.marks))
            session = self._wait_for(lambda: Session.open(replace(options, read_only=True)))
            if session is None:
                return
            closing.callback(session.close)
            directory = Directory(session)
            hosts = self._build_host_table(directory)
            messages = closing.enter_context(MessageStore(self._folder.messages))
            network = self._build_network(hosts, messages)
            server = closing.enter_context(
                start_directory_server(
                    self.config.settings(restored=self._restored),
                    store,
                    network,
                    key=key,
                    pinned=self.config.trusted_senders(),
                    marks=marks,
                    heard_at=lambda: store.heard_at,
                )
            )
            self._server = server
            if self._stopping.is_set():
                return
            own_objects = self._receive_notifications(closing, directory, server)
            reader = SnapshotReader(
                server,
                sessions=network.sessions,
                transport_counts=network.counts,
                own_objects=own_objects,
                folder=lambda: self._collect_folder_problems(messages.problem or marks.problem, network),
            )
            self._open_local_port(closing, reader)
            admission = Admission(server, self.config, key.public_keys(), hosts)
            tokens = closing.enter_context(self._build_token_admission(admission, key, network.address))
            service = ControlService(
                server, reader.read, self.stop, admission=admission, token_admission=tokens, hosts=hosts
            )
            control = closing.enter_context(ControlServer(self._folder.control, service))
            closing.callback(server.driver.stop)  # before the control socket, which waits for its clients
            closing.enter_context(self._keep_making_first_objects(server, bytes(key.public_keys())))
            if self._stopping.is_set():
                return
            self._answer_searches(closing, directory)
            self._notify_owners(closing, directory, server, own_objects)
            self._on_ready(network.address)
            notify_manager("READY=1")
            self._wait_for_end(server, network, control)
            notify_manager("STOPPING=1")

    def _build_network(self, hosts: HostTable, messages: MessageStore) -> TcpNetwork:
        """Return the network that the server's queue manager is started on."""
        return TcpNetwork(
            parse_socket_address(self.config.transport.listen, port_min=0),
            self._folder.numbers,
            hosts.resolver,
            settings=self.config.tcp_settings(),
            store=messages,
            address_setting="listen in server.toml",
        )

    def _collect_folder_problems(self, messages: str, network: TcpNetwork) -> FolderProblems:
        notified = "" if self._notifications is None else self._notifications.problem
        return FolderProblems(
            messages=messages,
            numbers=network.numbers_problem,
            notified=notified,
            directory=self._slapd_problem,
        )

    def _open_directory(self) -> AbstractContextManager[ConnectionOptions]:
        """Return the directory of the store, whose private slapd is watched."""
        return directory_of(self.config.store, self._folder, on_start=self._watch_slapd)

    def _watch_slapd(self, slapd: "OpenLdapServer") -> None:
        self._slapd = slapd

    def _check_slapd(self) -> None:
        """Tell the operator once that the private directory's slapd is down for good."""
        if self._slapd is None or self._slapd_problem:
            return
        self._slapd_problem = end_of(self._slapd, self._folder, self._config_file)
        if self._slapd_problem:
            log.error("private directory: %s", self._slapd_problem)

    def _open_store(self, options: ConnectionOptions, signing_key: bytes) -> LdapStore:
        """Open the store, and take over the role that the directory has.

        Raises:
            ConfigError: the key is another one, or the machine has no role any more.
            DirectoryNotConnected: the directory cannot be reached.
        """
        identity = self.config.server
        owner = Owner(machine_id=Guid.of(identity.machine_id), machine_name=identity.machine_name)
        with ExitStack() as failing:
            store = LdapStore.open(options, owner=owner)
            failing.callback(store.close)
            current = read_current_identity(store, identity, signing_key, self._folder.path)
            failing.pop_all()
        self._follow(current)
        return store

    def _build_token_admission(
        self, admission: Admission, key: PrivateKey, listen: SocketAddress
    ) -> TokenAdmission:
        tokens = JoinTokens(self._folder.tokens)
        return TokenAdmission(admission, tokens, key, listen=listen, on_report=self._on_report)

    def _wait_for_end(self, server: DirectoryServer, network: TcpNetwork, control: ControlServer) -> None:
        """Wait for the end.

        Meanwhile the configuration file follows the role, and systemd gets its reports.
        """

        def probe(on_answer: Callable[[], object]) -> None:
            """Ask one thread after the other (decision T161)."""
            server.driver.probe(lambda: network.probe(lambda: control.probe(on_answer)))

        follow_at, watchdog = -math.inf, Watchdog.of_environment(probe)
        wait_s = ALIVE_S if watchdog is None else min(ALIVE_S, watchdog.interval_s / 2)
        while not self._stopping.wait(wait_s) and server.is_alive and control.is_alive:
            if watchdog is not None:
                watchdog.turn()
            if time.monotonic() >= follow_at:
                self._follow(identity_of_running(server, self.config.server))
                self._check_slapd()
                follow_at = time.monotonic() + FOLLOW_S

    def _follow(self, identity: ServerSection) -> None:
        """Take over names and role, and write them into the configuration file.

        If the file cannot be written, the operator is told once. The directory counts at each start.
        """
        if identity == self.config.server and self._unwritten is None:
            return
        self.config = self.config.model_copy(update={"server": identity})
        words = f"{identity.machine_name} is a {identity.role}"
        try:
            if write_identity(self._config_file, identity):
                self._on_report(f"{self._config_file} follows: {words}")
            self._unwritten = None
        except ConfigError as error:
            if identity != self._unwritten:
                self._on_report(f"{words} by its directory: {error}")
            self._unwritten = identity

    def _wait_for(self, attempt: Callable[[], T]) -> T | None:
        """Return the result of an attempt, repeated while the directory is away.

        Returns:
            None if the server is stopped meanwhile.
        """
        wait_s, problem = RETRY_FIRST_S, ""
        while True:
            try:
                return attempt()
            except DirectoryNotConnected as error:
                if str(error) != problem:
                    problem = str(error)
                    self._on_report(f"the directory cannot be reached, and is tried again: {problem}")
                self._check_slapd()
            if self._stopping.wait(wait_s):
                return None
            wait_s = min(2 * wait_s, RETRY_MAX_S)

    def _open_local_port(self, closing: ExitStack, reader: SnapshotReader) -> None:
        """Serve metrics, health and the status page, if `[metrics]` has an address."""
        metrics = self.config.metrics
        if metrics.listen is None:
            return
        hosts = (self.config.server.machine_name, *metrics.hosts)
        server = closing.enter_context(HttpServer(pages_of(reader), listen=metrics.listen, hosts=hosts))
        log.info("metrics and the status page are on http://%s:%d/", *server.address)

    def _answer_searches(self, closing: ExitStack, directory: Directory) -> None:
        """Run the discovery server, if `[discovery]` has an address."""
        discovery, server = self.config.discovery, self.config.server
        if discovery.listen:
            closing.enter_context(
                DiscoveryThread(
                    directory,
                    site=server.site,
                    computer=server.machine_name,
                    listen=discovery.addresses,
                    allow_from=discovery.allow_from,
                    on_report=self._on_report,
                )
            )

    def _receive_notifications(
        self, closing: ExitStack, directory: Directory, server: DirectoryServer
    ) -> OwnObjects | None:
        """Receive notifications about the own machine, if `[notification]` says so."""
        section = self.config.notification
        if not section.receive:
            return None
        return closing.enter_context(
            OwnObjects(directory, server.queue_manager, section=section, on_change=self._on_own_change)
        )

    def _notify_owners(
        self,
        closing: ExitStack,
        directory: Directory,
        server: DirectoryServer,
        own_objects: OwnObjects | None,
    ) -> None:
        """Notify the owners of changed objects, if `[notification]` says so.

        The watch for that also tells the own receiver what it sees.
        """
        notification = self.config.notification
        if notification.send:
            self._notifications = closing.enter_context(
                NotificationThread(
                    directory,
                    server.queue_manager,
                    version=notification.version,
                    state=self._folder.notified,
                    receiver=None if own_objects is None else own_objects.driver,
                    on_report=self._on_report,
                )
            )

    def _build_host_table(self, directory: Directory) -> HostTable:
        """Return the addresses of other servers."""
        identifiers = {pinned.machine_name.casefold(): pinned.machine_id for pinned in self.config.pinned}
        machines = DirectoryMachines(directory)
        return HostTable(self._folder.hosts, self.config.transport.hosts, identifiers, machines)

    @contextmanager
    def _keep_making_first_objects(self, server: DirectoryServer, signing_key: bytes) -> Iterator[None]:
        """Make the server's own objects in a thread, until all exist.

        A PEC asks nobody, and tries once before the block: clients find its enterprise.
        """
        ending, marker = Event(), self._folder.founded
        objects = tuple(build_first_objects(self.config.server, signing_key))
        reported_at = -math.inf if marker.exists() else time.monotonic()

        def make_once() -> str:
            nonlocal reported_at
            problem = make_first_objects(server, objects, marker)
            if problem and time.monotonic() >= reported_at + REPORT_S:
                reported_at = time.monotonic()
                self._on_report(f"the server's own objects are not complete yet: {problem}")
            return problem

        def make() -> None:
            while not ending.is_set() and server.is_alive and make_once():
                ending.wait(FIRST_OBJECTS_S)

        if self.config.server.role is not Role.PEC or make_once():
            Thread(target=make, name="first objects", daemon=True).start()
        try:
            yield
        finally:
            ending.set()
