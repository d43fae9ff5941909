"""Requests of the control socket, carried out by a directory server."""

import logging
from collections.abc import Callable
from typing import Final, assert_never
from uuid import UUID

from mqdssm.drivers.replication.directory_server import DirectoryServer
from mqdssm.engines.replication import actions as do
from mqdssm.engines.replication.operations import ObjectOutcome
from mqdssm.errors import ObjectNotFound
from mqdssm.model.guid import Guid
from mqdssm.server import control_protocol as protocol
from mqdssm.server.admission import Admission
from mqdssm.server.hosts import HostTable
from mqdssm.server.new_sites import build_new_site
from mqdssm.server.object_changes import change_of
from mqdssm.server.owner_check import OWNER_WAIT_S, check_owner_is_silent
from mqdssm.server.role_changes import build_role_change, build_server_removal, build_site_psc_change
from mqdssm.server.snapshot import ServerSnapshot
from mqdssm.server.token_admission import TokenAdmission

log: Final = logging.getLogger(__name__)


STOPS: Final = protocol.OutcomeReply(status=0)
"""The reply to a `ServerStopRequest`, after which the server stops; no other reply is this object."""


class ControlService:
    """Carries out requests of clients; from any thread, several at a time.

    Args:
        server: the directory server.
        snapshot: returns its state (`SnapshotReader.read`).
        stop: begins to stop the process; called after the reply to a `ServerStopRequest`.
        admission: admits new servers; None: this server does not.
        token_admission: admits those of other hosts, and makes their tokens; None: likewise.
        hosts: addresses of other servers; None: they cannot be added.
        owner_wait_s: how long the owner of a partition that is taken over may take to answer.

    Attributes:
        machine_name: machine of the server.
    """

    def __init__(
        self,
        server: DirectoryServer,
        snapshot: Callable[[], ServerSnapshot],
        stop: Callable[[], object],
        *,
        admission: Admission | None = None,
        token_admission: TokenAdmission | None = None,
        hosts: HostTable | None = None,
        owner_wait_s: float = OWNER_WAIT_S,
    ) -> None:
        self.machine_name: Final = server.queue_manager.machine_name
        self.stop: Final = stop
        self._server, self._snapshot = server, snapshot
        self._admission, self._token_admission, self._hosts = admission, token_admission, hosts
        self._owner_wait_s = owner_wait_s

    def perform(self, data: bytes) -> protocol.Reply:
        """Carry out a request, given as the octets of its document; return the reply.

        A refusal says why nothing was done. The kind "unknown" of a refusal, and the status
        MQDS_NO_RSP_FROM_OWNER of an outcome, mean that the change may have been made, or not.
        """
        return protocol.reply_of(lambda: self._perform(protocol.REQUESTS.validate_json(data)))

    def _perform(self, request: protocol.Request) -> protocol.Reply:
        match request:
            case protocol.StatusRequest():
                return protocol.StatusReply(snapshot=self._snapshot())
            case (
                protocol.ObjectChangeRequest()
                | protocol.RoleRequest()
                | protocol.SitePscRequest()
                | protocol.ServerRemovalRequest()
                | protocol.SiteRequest()
            ):
                return self._make(request)
            case protocol.TakeOverRequest():
                return self._take_over(request)
            case protocol.ResynchronizeRequest() | protocol.NameAuthorityRequest():
                return self._ask(request)
            case protocol.HostRequest():
                return self._add_host(request)
            case protocol.AdmissionRequest() | protocol.TokenRequest() | protocol.TokenWithdrawalRequest():
                return self._admit(request)
            case protocol.DryRunRequest():
                self._check(request.checked)
                return protocol.OutcomeReply(status=0)
            case protocol.ServerStopRequest():
                return STOPS
            case _ as unreachable:
                assert_never(unreachable)

    def _check(
        self,
        request: protocol.SiteRequest
        | protocol.RoleRequest
        | protocol.HostRequest
        | protocol.AdmissionRequest
        | protocol.TokenRequest
        | protocol.TokenWithdrawalRequest,
    ) -> None:
        """Make the checks of a request, and change nothing.

        Raises:
            ValueError: the request is wrong.
            MqdssmError: the server cannot carry it out.
        """
        match request:
            case protocol.SiteRequest():
                build_new_site(request, self._server)
            case protocol.RoleRequest():
                build_role_change(request, self._server.store.lookup, self._server.driver.status())
            case protocol.HostRequest():
                self._keeps_hosts().check(request.machine_name, request.address)
            case protocol.AdmissionRequest():
                self._require_admission().check(request.role, request.site, request.machine_name)
            case protocol.TokenRequest():
                self._require_token_admission().check(request)
            case protocol.TokenWithdrawalRequest():
                if not self._require_token_admission().has(request.machine_name):
                    raise _make_no_token_error(request.machine_name)
            case _ as unreachable:
                assert_never(unreachable)

    def _require_admission(self) -> Admission:
        """Return what admits servers.

        Raises:
            ValueError: this server does not.
        """
        if self._admission is None:
            raise ValueError(f"{self.machine_name} does not admit servers")
        return self._admission

    def _keeps_hosts(self) -> HostTable:
        """Return the addresses of other servers.

        Raises:
            ValueError: this server keeps none.
        """
        if self._hosts is None:
            raise ValueError(f"{self.machine_name} keeps no addresses")
        return self._hosts

    def _require_token_admission(self) -> TokenAdmission:
        """Return what makes join tokens.

        Raises:
            ValueError: this server makes none.
        """
        if self._token_admission is None:
            raise ValueError(f"{self.machine_name} makes no join tokens")
        return self._token_admission

    def _add_host(self, request: protocol.HostRequest) -> protocol.OutcomeReply:
        self._keeps_hosts().add(request.machine_name, request.machine_id, request.address)
        return protocol.OutcomeReply(status=0)

    def _admit(
        self,
        request: protocol.AdmissionRequest | protocol.TokenRequest | protocol.TokenWithdrawalRequest,
    ) -> protocol.AdmissionReply | protocol.TokenReply | protocol.OutcomeReply:
        """Admit a server, or make or withdraw a join token."""
        if isinstance(request, protocol.AdmissionRequest):
            return self._require_admission().admit(request)
        tokens = self._require_token_admission()
        if isinstance(request, protocol.TokenRequest):
            return tokens.make(request)
        if not tokens.withdraw(request.machine_name):
            raise _make_no_token_error(request.machine_name)
        return protocol.OutcomeReply(status=0)

    def _make(
        self,
        request: protocol.ObjectChangeRequest
        | protocol.RoleRequest
        | protocol.SitePscRequest
        | protocol.ServerRemovalRequest
        | protocol.SiteRequest,
    ) -> protocol.OutcomeReply:
        """Make the change of an object that is requested; with `dry_run` check it only."""
        look_up = self._server.store.lookup
        match request:
            case protocol.ObjectChangeRequest():
                change = change_of(request, look_up)
            case protocol.RoleRequest():
                change = build_role_change(request, look_up, self._server.driver.status())
            case protocol.SitePscRequest():
                change = build_site_psc_change(request, look_up, self._server.driver.status())
            case protocol.ServerRemovalRequest():
                change = build_server_removal(request, self._server)
                if request.dry_run:
                    return protocol.OutcomeReply(status=0)
            case protocol.SiteRequest():
                change = build_new_site(request, self._server)
        return _reply(change.perform(self._server.driver))

    def _take_over(self, request: protocol.TakeOverRequest) -> protocol.OutcomeReply:
        """Own a partition, unless its owner answers (decision T144)."""
        if not request.from_running_owner:
            check_owner_is_silent(self._server, Guid.of(request.partition), wait_s=self._owner_wait_s)
        return protocol.OutcomeReply(status=0) if request.dry_run else self._ask(request)

    def _ask(
        self,
        request: protocol.TakeOverRequest | protocol.ResynchronizeRequest | protocol.NameAuthorityRequest,
    ) -> protocol.OutcomeReply:
        """Pass an operator's request for a partition to the engine."""
        partition = Guid.of(request.partition)

        def event(number: int) -> do.Event:
            match request:
                case protocol.TakeOverRequest():
                    return do.TakeOver(request=number, partition_id=partition)
                case protocol.ResynchronizeRequest():
                    return do.Resynchronize(request=number, partition_id=partition)
                case protocol.NameAuthorityRequest(machine_name=name):
                    return do.NameAuthority(request=number, partition_id=partition, machine_name=name)

        return _reply(self._server.driver.ask(event))


def _make_no_token_error(machine_name: str) -> ObjectNotFound:
    return ObjectNotFound(f"there is no join token for {machine_name}")


def _reply(outcome: ObjectOutcome) -> protocol.OutcomeReply:
    identifier: UUID | None = None if outcome.identifier is None else outcome.identifier.uuid
    return protocol.OutcomeReply(status=outcome.status, identifier=identifier)
