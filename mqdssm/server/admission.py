"""Admission of a new directory server by one that works.

The new server gets its objects and the facts that it needs. The PEC makes the site of a new PSC, and the
PSC of a site the machine of a new BSC ([MC-MQDSRP] 1.3.1.1, decision R107). The new server's key comes
from its own folder, through the control socket.
"""

from base64 import b64decode, b64encode
from typing import Final

from mqdssm.drivers.replication.directory_server import DirectoryServer
from mqdssm.drivers.store_thread import list_objects, read_object
from mqdssm.engines.replication.properties import get_text, get_value
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.state import key_of
from mqdssm.errors import DecodeError, GenericDirectoryError, OutcomeUnknown
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult, is_failure, name_of
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import Service
from mqdssm.model.socket_addresses import parse_socket_address
from mqdssm.server.config import ServerConfig, encode_keys
from mqdssm.server.control_protocol import AdmissionReply, AdmissionRequest, KnownKey
from mqdssm.server.current_roles import pec_name_of, role_of_running
from mqdssm.server.first_objects import machine_of, site_of
from mqdssm.server.hosts import HostTable
from mqdssm.server.new_sites import check_enterprise, first_psc_of, has_psc
from mqdssm.server.object_changes import RequestedChange
from mqdssm.wire.keys import PublicKeys


class Admission:
    """Admits new directory servers.

    Args:
        server: the server that works.
        config: its configuration.
        keys: its public keys.
        hosts: addresses of servers.

    Attributes:
        server: the server that works.
        hosts: addresses of servers.
    """

    def __init__(
        self, server: DirectoryServer, config: ServerConfig, keys: PublicKeys, hosts: HostTable
    ) -> None:
        self.server: Final = server
        self.hosts: Final = hosts
        self._config, self._keys = config, keys

    def check(self, role: Role, site: str, machine_name: str) -> None:
        """Check that this server can admit a new one, whose key is not known yet.

        Raises:
            ValueError: another server admits it.
            GenericDirectoryError: its site or its machine exists already, or the directory has no enterprise.
            DirectoryError: the directory cannot be read.
        """
        self._check_role(role, site)
        existing = read_object(self.server.store.lookup, ObjectType.SITE, path_name=site)
        if role is Role.PSC and existing is not None and has_psc(existing):
            raise GenericDirectoryError(f"site {site} exists already: choose another name")
        self._check_name(machine_name)

    def admit(self, request: AdmissionRequest, *, is_repeated: bool = False) -> AdmissionReply:
        """Make the objects of a new server; return the facts that it needs.

        Objects of an earlier request are found again.

        Args:
            request: names, key and address of the new server.
            is_repeated: True if it was admitted before: objects that were removed since are not made again.

        Raises:
            ValueError: keys or an address that cannot be used, or this server cannot admit it.
            GenericDirectoryError: a change was refused.
            OutcomeUnknown: the objects may have been made; the same request may be repeated.
            DirectoryError: the directory cannot be read.
        """
        address = parse_socket_address(request.address)
        if address.is_anywhere:
            raise ValueError(f"{request.address} is no address by which others reach {request.machine_name}")
        try:
            signing_key = bytes(PublicKeys.from_bytes(b64decode(request.public_keys, validate=True)))
        except DecodeError as error:
            raise ValueError(f"the public keys of {request.machine_name}: {error}") from error
        self._check_role(request.role, request.site)
        new_site = self._look_up_site_id(request) if request.role is Role.PSC else None
        self._check_name(request.machine_name, signing_key, site_id=new_site)
        machine_id = Guid.of(request.machine_id)
        self._check_identifier(machine_id, request.machine_name, signing_key)
        if new_site is not None:
            new = site_of(request.site, new_site, request.machine_name, signing_key)
            site_id = self._make(request, new, Propid.S_PSC, is_repeated=is_repeated)
        else:
            site_id = Guid.of(self._config.server.site_id)
            new = machine_of(request.machine_name, machine_id, site_id, Service.BSC, signing_key)
            self._make(request, new, Propid.QM_PATHNAME, is_repeated=is_repeated)
        return self._reply(request.role, site_id)

    def _check_role(self, role: Role, site: str) -> None:
        """Check that this server admits servers of a role and a site.

        Raises:
            ValueError: another server admits them.
            GenericDirectoryError: the directory has no enterprise.
        """
        own, current = self._config.server, role_of_running(self.server)
        if role is Role.PSC and current is not Role.PEC:
            raise ValueError(f"{own.machine_name} is a {current}: only the PEC adds a PSC and its site")
        if role is Role.PSC:
            check_enterprise(self.server)
        elif current is Role.BSC or own.site.casefold() != site.casefold():
            raise ValueError(
                f"{own.machine_name} is the {current} of {own.site}: the PSC of {site} adds its BSCs"
            )

    def _look_up_site_id(self, request: AdmissionRequest) -> Guid:
        """Return the identifier of the site of a new PSC.

        An existing site keeps its own.
        """
        site = read_object(self.server.store.lookup, ObjectType.SITE, path_name=request.site)
        return Guid.of(request.site_id) if site is None or site.identifier is None else site.identifier

    def _check_name(
        self, machine_name: str, signing_key: bytes | None = None, *, site_id: Guid | None = None
    ) -> None:
        """Refuse the name of another machine, whose address would be replaced.

        A PSC that never started is named by its site alone.

        Args:
            machine_name: the name.
            signing_key: key of the new machine; None: not known yet, and no machine may have the name.
            site_id: site that may name the machine as its PSC; None: no site may.

        Raises:
            GenericDirectoryError: another machine has the name.
        """
        name = key_of(machine_name)
        machine = read_object(self.server.store.lookup, ObjectType.MACHINE, path_name=machine_name)
        psc_names = [
            get_text(site.properties or (), Propid.S_PSC) or ""
            for site in list_objects(self.server.store.lookup, ObjectType.SITE)
            if site.identifier != site_id
        ]
        is_other = (
            machine is not None and get_value(machine.properties or (), Propid.QM_SIGN_PK) != signing_key
        )
        if is_other or name in map(key_of, (self._config.server.machine_name, *psc_names)):
            raise GenericDirectoryError(
                f"machine {machine_name} exists already, for another server: choose another name, or remove "
                "it first"
            )

    def _check_identifier(self, machine_id: Guid, machine_name: str, signing_key: bytes) -> None:
        """Refuse the identifier of another machine, whose address would be replaced.

        Raises:
            GenericDirectoryError: another machine has the identifier.
        """
        machine = read_object(self.server.store.lookup, ObjectType.MACHINE, identifier=machine_id)
        is_other = (
            machine is not None and get_value(machine.properties or (), Propid.QM_SIGN_PK) != signing_key
        )
        if is_other or machine_id == Guid.of(self._config.server.machine_id):
            raise GenericDirectoryError(
                f"another machine has the identifier {machine_id} of {machine_name}: make it in a new folder"
            )

    def _make(
        self, request: AdmissionRequest, new: RequestedChange, named: Propid, *, is_repeated: bool
    ) -> Guid:
        """Create an object, or find that of an earlier request; return its GUID.

        A site that was made without a PSC gets this one (decision T157).

        The address is known before the object is made, which makes this server send to the new one. A
        refused request leaves the address of the machine that has the name.

        Raises:
            GenericDirectoryError: refused, or another object has the name.
            OutcomeUnknown: the object may have been made.
        """
        read = read_object(self.server.store.lookup, new.object_type, path_name=new.path_name)
        lacks_psc = new.object_type is ObjectType.SITE and read is not None and not has_psc(read)
        if read is not None and read.identifier is not None and not lacks_psc:
            values = dict(read.properties or ())
            key = Propid.S_PSC_SIGNPK if new.object_type is ObjectType.SITE else Propid.QM_SIGN_PK
            is_same = values.get(named) == request.machine_name and read.identifier == new.identifier
            if is_same and values.get(key) == dict(new.properties)[key]:
                self.hosts.add(request.machine_name, request.machine_id, request.address)
                return read.identifier
            raise GenericDirectoryError(
                f"{new.title} exists already, for another server: choose another name, or remove it first"
            )
        if is_repeated:
            raise GenericDirectoryError(f"{new.title} was removed since {request.machine_name} was admitted")
        self.hosts.add(request.machine_name, request.machine_id, request.address)
        change = first_psc_of(new.identifier, new.properties) if lacks_psc and new.identifier else new
        outcome = change.perform(self.server.driver)
        if outcome.status == Hresult.MQDS_NO_RSP_FROM_OWNER:
            raise OutcomeUnknown(f"{new.title} may have been made, or not")
        if is_failure(outcome.status) or outcome.identifier is None:
            raise GenericDirectoryError(f"{new.title} cannot be made: {name_of(outcome.status)}")
        return outcome.identifier

    def _reply(self, role: Role, site_id: Guid) -> AdmissionReply:
        own = self._config.server
        pec_name = pec_name_of(self.server.driver.status()) or own.pec_name
        is_pec = key_of(pec_name) == key_of(own.machine_name)
        itself = KnownKey(
            machine_name=own.machine_name,
            machine_id=own.machine_id,
            role=Role.PEC if is_pec else Role.PSC,
            public_keys=encode_keys(self._keys),
        )
        pec = None if is_pec else self._key_of_pec(pec_name)
        listening = parse_socket_address(self._config.transport.listen, port_min=0)
        hosts = self.hosts.addresses()
        if listening.port and not listening.is_anywhere:
            hosts[own.machine_name.casefold()] = self._config.transport.listen
        return AdmissionReply(
            enterprise=own.enterprise,
            site_id=site_id.uuid,
            pec_name=pec_name,
            psc_name=own.machine_name if role is Role.BSC else "",
            keys=(itself,) if pec is None else (itself, pec),
            hosts=hosts,
        )

    def _key_of_pec(self, pec_name: str) -> KnownKey | None:
        """Return the PEC's key by the directory, else the configured one, if any."""
        read = read_object(self.server.store.lookup, ObjectType.MACHINE, path_name=pec_name)
        if read is not None and read.identifier is not None:
            stored_key = get_value(read.properties or (), Propid.QM_SIGN_PK)
            if isinstance(stored_key, bytes) and stored_key:
                return KnownKey(
                    machine_name=pec_name,
                    machine_id=read.identifier.uuid,
                    role=Role.PEC,
                    public_keys=b64encode(stored_key).decode(),
                )
        for pinned in self._config.pinned:
            if key_of(pinned.machine_name) == key_of(pec_name):
                return KnownKey(**{**pinned.model_dump(), "role": Role.PEC})
        return None
