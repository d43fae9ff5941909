"""Client of the control socket of a directory server."""

import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError

from mqdssm.engines.replication.settings import Role
from mqdssm.errors import (
    ConfigError,
    DirectoryError,
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectNotFound,
    OutcomeUnknown,
)
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Site
from mqdssm.model.hresults import Hresult, is_failure, name_of
from mqdssm.server import control_protocol as protocol
from mqdssm.server.snapshot import ServerSnapshot

T = TypeVar("T")

REPLY_S: Final = 150.0
"""Seconds that a client waits for a reply: longer than a directory server waits for an owner."""

_EXISTS: Final = frozenset({Hresult.MQ_ERROR_QUEUE_EXISTS, Hresult.MQ_ERROR_MACHINE_EXISTS})
_NOT_FOUND: Final = frozenset(
    {Hresult.MQ_ERROR_QUEUE_NOT_FOUND, Hresult.MQ_ERROR_MACHINE_NOT_FOUND, Hresult.MQDS_OBJECT_NOT_FOUND}
)
_ADVICE: Final = {
    Hresult.MQ_ERROR_ACCESS_DENIED: "make this change at the server that owns the "
    "partition, which mqdssm status names",
    Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE: "the server, or the owner of the object, is not ready: try again",
    Hresult.MQ_ERROR_ILLEGAL_OPERATION: "mqdssm status shows who owns the partition",
}


class ControlClient:
    """Connection to the control socket of a directory server.

    The class is a context manager that closes the connection, and not thread-safe.

    Args:
        path: of the socket.
        reply_s: seconds to wait for a reply.

    Attributes:
        machine_name: machine of the server.

    Raises:
        DirectoryNotConnected: no server listens there.
        ConfigError: this user may not use the socket, or the server has another version.
    """

    def __init__(self, path: Path, *, reply_s: float = REPLY_S) -> None:
        self._path = path
        self._socket: Final = _connect(path)
        self._socket.settimeout(reply_s)
        with ExitStack() as closing:
            closing.callback(self._socket.close)
            hello: protocol.Hello = self._receive(protocol.HELLOS)
            if problem := hello.problem():
                raise ConfigError(f"the server at {path} cannot be asked: {problem}")
            self._send(protocol.Hello.own())
            closing.pop_all()
        self.machine_name: Final[str] = hello.machine_name

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def status(self) -> ServerSnapshot:
        """Return the state of the server.

        Raises:
            DirectoryNotConnected: the server has stopped.
        """
        reply = self._ask(protocol.StatusRequest())
        if not isinstance(reply, protocol.StatusReply):
            raise self._convert_refusal(reply)
        return reply.snapshot

    def create(self, obj: DirectoryObject) -> UUID:
        """Create an object through the server, and return its Identifier.

        Raises:
            DirectoryError: the change was refused, or its outcome is unknown (`OutcomeUnknown`).
            ValueError: the server cannot make such an object.
        """
        identifier = self._change("create", obj)
        if identifier is None:
            raise GenericDirectoryError(f"{self.machine_name} has not named the Identifier of the new object")
        return identifier

    def write(self, obj: DirectoryObject) -> None:
        """Change the populated attributes of an object; one of them identifies it.

        Raises:
            DirectoryError: as `create`.
            ValueError: as `create`.
        """
        self._change("write", obj)

    def delete(self, obj: DirectoryObject) -> None:
        """Delete an object; its only populated attribute identifies it.

        Raises:
            DirectoryError: as `create`.
            ValueError: as `create`.
        """
        self._change("delete", obj)

    def take_over(self, partition: UUID, *, from_running_owner: bool = False, dry_run: bool = False) -> None:
        """Make the server the owner of a partition whose owner is lost for good.

        The server asks the owner first.

        Args:
            partition: its identifier.
            from_running_owner: True to take it also from an owner that answers.
            dry_run: True to ask the owner only.

        Raises:
            DirectoryError: the server refuses, or the owner answers.
        """
        request = protocol.TakeOverRequest(
            partition=partition, from_running_owner=from_running_owner, dry_run=dry_run
        )
        self._perform(request, "take over the partition")

    def name_authority(self, partition: UUID, machine_name: str) -> None:
        """Make the server accept another one as the owner of a partition.

        If the server owns the partition, it steps down.

        Raises:
            DirectoryError: the server refuses.
        """
        request = protocol.NameAuthorityRequest(partition=partition, machine_name=machine_name)
        self._perform(request, f"accept {machine_name} as the owner")

    def resynchronize(self, partition: UUID) -> None:
        """Begin a full synchronization of a partition at the server.

        Raises:
            DirectoryError: the server refuses.
        """
        self._perform(protocol.ResynchronizeRequest(partition=partition), "resynchronize the partition")

    def add_site(self, site: Site, *, dry_run: bool = False) -> None:
        """Let the PEC create a site that has no PSC yet.

        Args:
            site: its name and other attributes.
            dry_run: True to check only if it can be created.

        Raises:
            ValueError: the server is not the PEC, or an attribute that a new site cannot have.
            DirectoryError: the site exists, or the outcome is unknown.
        """
        request = protocol.SiteRequest(attributes=_attributes_of(site))
        self._perform(request, f"add the site {site.name}", dry_run=dry_run)

    def add_host(self, machine_name: str, address: str, *, dry_run: bool = False) -> None:
        """Let the server remember the address of a machine.

        Args:
            machine_name: the machine.
            address: its address and port.
            dry_run: True to check only if it can be kept.

        Raises:
            ValueError: no address.
            DirectoryError: the server cannot keep it.
        """
        request = protocol.HostRequest(machine_name=machine_name, address=address)
        self._perform(request, f"remember the address of {machine_name}", dry_run=dry_run)

    def check(self, request: protocol.AdmissionRequest | protocol.TokenRequest) -> None:
        """Check that the server can carry out a request; nothing is changed.

        Raises:
            ValueError: the server cannot admit it.
            DirectoryError: its site or its machine exists already, or the directory cannot be read.
        """
        self._perform(request, f"admit {request.machine_name}", dry_run=True)

    def admit(self, request: protocol.AdmissionRequest) -> protocol.AdmissionReply:
        """Let the server make the objects of a new directory server.

        Raises:
            ValueError: the server cannot admit it; nothing was made.
            GenericDirectoryError: a change was refused; nothing was made.
            OutcomeUnknown: the objects may have been made; the same request may be repeated.
            DirectoryNotConnected: the request was not sent.
        """
        reply = self._ask(request)
        if not isinstance(reply, protocol.AdmissionReply):
            raise self._convert_refusal(reply)
        return reply

    def change_role(self, machine_name: str, role: Role | None, *, dry_run: bool = False) -> None:
        """Give a machine another role; see `RoleRequest`.

        Args:
            machine_name: the machine.
            role: its new role; None: it is no directory server any more.
            dry_run: True to check only if it can have the role.

        Raises:
            DirectoryError: the server refuses, or the outcome is unknown.
            ValueError: the machine cannot have the role.
        """
        task = f"give {machine_name} another role"
        self._perform(protocol.RoleRequest(machine_name=machine_name, role=role), task, dry_run=dry_run)

    def name_psc(self, site: str, machine_name: str) -> None:
        """Let the PEC name another PSC of a site, whose PSC is lost for good.

        Args:
            site: name of the site.
            machine_name: its new PSC; empty: none, if the PSC never started.

        Raises:
            DirectoryError: the server refuses, or the outcome is unknown.
            ValueError: the machine belongs to another site, or the PSC has started.
        """
        request = protocol.SitePscRequest(site=site, machine_name=machine_name)
        self._perform(request, f"name {machine_name or 'nobody'} as the PSC of {site}")

    def remove_server(self, machine_name: str, *, dry_run: bool = False) -> None:
        """Let the PSC of a site remove a BSC: its machine is deleted.

        Args:
            machine_name: machine of the BSC.
            dry_run: True to check only if it can be removed.

        Raises:
            DirectoryError: the server refuses, or the outcome is unknown.
            ValueError: the machine is no BSC of the server's site, or has queues.
        """
        request = protocol.ServerRemovalRequest(machine_name=machine_name, dry_run=dry_run)
        self._perform(request, f"remove {machine_name}")

    def make_token(self, request: protocol.TokenRequest) -> protocol.TokenReply:
        """Let the server make a join token for a new server on another host.

        Raises:
            ValueError: another server admits it, or nobody can connect to the address.
            GenericDirectoryError: the server cannot make it.
        """
        reply = self._ask(request)
        if not isinstance(reply, protocol.TokenReply):
            raise self._convert_refusal(reply)
        return reply

    def withdraw_token(self, machine_name: str, *, dry_run: bool = False) -> None:
        """Let the server withdraw the join token for a machine.

        Args:
            machine_name: the machine.
            dry_run: True to check only if there is one.

        Raises:
            ObjectNotFound: there is none.
            GenericDirectoryError: the server cannot withdraw it.
        """
        request = protocol.TokenWithdrawalRequest(machine_name=machine_name)
        self._perform(request, f"withdraw the token for {machine_name}", dry_run=dry_run)

    def stop(self) -> None:
        """Stop the server; it may run for some seconds yet."""
        self._perform(protocol.ServerStopRequest(), "stop")

    def _change(self, command: Any, obj: DirectoryObject) -> UUID | None:
        request = protocol.ObjectChangeRequest(
            command=command, element=obj.element_name, attributes=_attributes_of(obj)
        )
        return self._perform(request, f"{command} the {obj.element_name}")

    def _perform(self, request: protocol.Request, task: str, *, dry_run: bool = False) -> UUID | None:
        """Send a request for a change; return the identifier of its outcome.

        A dry run has the request checked only.

        Raises:
            DirectoryError: the change was not made, or its outcome is unknown.
            ValueError: the request is wrong.
        """
        sent = protocol.DryRunRequest.model_validate({"checked": request}) if dry_run else request
        reply = self._ask(sent)
        if not isinstance(reply, protocol.OutcomeReply):
            raise self._convert_refusal(reply)
        if is_failure(reply.status):
            raise _error_of(reply.status, f"{self.machine_name} does not {task}")
        return reply.identifier

    def _ask(self, request: protocol.Request) -> protocol.Reply:
        """Send a request and return the reply.

        Raises:
            OutcomeUnknown: a request for a change was sent, and no whole reply has come.
            DirectoryNotConnected: the request was not sent; or the state of the server cannot be read.
            ConfigError: the request is too long; or no state of this version.
        """
        self._send(request)
        try:
            reply: protocol.Reply = self._receive(protocol.REPLIES)
        except (ConfigError, DirectoryNotConnected) as error:
            if isinstance(request, protocol.StatusRequest):
                raise
            raise OutcomeUnknown(
                f"{error}; a change may have been made; mqdssm status --server shows if the server works"
            ) from error
        return reply

    def _convert_refusal(self, reply: protocol.Reply) -> Exception:
        """Return the error for a refusal."""
        if not isinstance(reply, protocol.RefusedReply):
            return ConfigError(f"{self._path} answers with {reply.reply!r}")
        return error_of_refusal(reply, self.machine_name)

    def _send(self, document: BaseModel) -> None:
        try:
            protocol.send_document(self._socket, document, protocol.REQUEST_BYTES_MAX)
        except OSError as error:
            raise self._make_connection_error(error) from error

    def _receive(self, documents: TypeAdapter[T]) -> T:
        try:
            data = protocol.receive_document(self._socket, protocol.REPLY_BYTES_MAX)
        except OSError as error:
            raise self._make_connection_error(error) from error
        if data is None:
            raise DirectoryNotConnected(
                f"the directory server at {self._path} has closed the connection: it stops, or serves too "
                "many clients"
            )
        try:
            return protocol.read_leniently(documents, data)
        except ValidationError as error:
            raise ConfigError(
                f"{self._path} sends no reply of this version: {protocol.problem_of(error)}"
            ) from None

    def _make_connection_error(self, error: OSError) -> DirectoryNotConnected:
        reason = "does not answer" if isinstance(error, TimeoutError) else "has closed the connection"
        return DirectoryNotConnected(f"the directory server at {self._path} {reason}")


def _attributes_of(obj: DirectoryObject) -> dict[str, Any]:
    """Return the populated attributes of an object by their names."""
    return obj.model_dump(mode="json", by_alias=True, exclude_unset=True)


def error_of_refusal(reply: protocol.RefusedReply, machine_name: str) -> Exception:
    """Return the error for the refusal of a server.

    Args:
        reply: the refusal.
        machine_name: machine of the server.
    """
    if reply.kind == "usage":
        return ValueError(reply.problem)
    if reply.kind == "unknown":
        return OutcomeUnknown(f"{machine_name}: {reply.problem}")
    error = ObjectNotFound if reply.kind == "not found" else GenericDirectoryError
    return error(f"{machine_name}: {reply.problem}")


def _connect(path: Path) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):
        raise ConfigError(
            f"this system has no Unix sockets for {path}: run this on the computer of the server, with Linux"
        )
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(10)
        connection.connect(os.fspath(path))
    except OSError as error:
        connection.close()
        if isinstance(error, PermissionError):
            raise ConfigError(
                f"you may not use the control socket {path}: run this as the server's user, or as root"
            ) from error
        raise DirectoryNotConnected(
            f"no directory server listens on {path} ({error.strerror or error}): start it with mqdssm serve"
        ) from error
    return connection


def _error_of(status: int, problem: str) -> DirectoryError:
    """Return the error of an HRESULT."""
    text = f"{problem}: {name_of(status)}"
    if status == Hresult.MQDS_NO_RSP_FROM_OWNER:
        return OutcomeUnknown(f"{text}: the change may have been made, or not; read the object again later")
    if status in _EXISTS:
        return ObjectAlreadyExists(text)
    if status in _NOT_FOUND:
        return ObjectNotFound(text)
    advice = _ADVICE.get(Hresult(status)) if status in list(Hresult) else None
    return GenericDirectoryError(f"{text}; {advice}" if advice else text)
