"""DNs of the store's entries.

Objects are placed as in [MS-MQDSSM] 2.2.1, other entries in containers of their own.

The other entries are below ``CN=MQIS,CN=MsmqServices,CN=Services,CN=Configuration``::

    CN=Partitions   CN=<partition>      state of a partition; below it its tombstones, CN=<object's GUID>
    CN=Neighbors    CN=<psc|bsc>-<hash of the name>
    CN=Networks     CN=<name>           connected networks, which [MS-MQDSSM] has no place for (decision M44)
    CN=Others       CN=<GUID>           queues and machines on no computer that the directory could hold
    CN=Missing                          empty; names below it stand in for objects to come (decision R54)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from uuid import UUID, uuid5

from mqdssm.directory.profile import Profile
from mqdssm.directory.session import Session
from mqdssm.model.dn import DN
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.store.rules import name_key
from mqdssm.tables import compute, places
from mqdssm.tables.property_rows import make_queue_rdn
from mqdssm.tables.schema_attributes import OWN_UUID

CONTAINERS: Final = ("Partitions", "Neighbors", "Networks", "Missing", "Others")
_NAMES: Final = UUID(OWN_UUID)
NAME_CHARS_MAX: Final = 64
"""Longest name that is used in a DN; an object with a longer name is named by its GUID."""
NAME_BYTES_MAX: Final = 192
"""The same limit in octets of UTF-8: slapd accepts 242."""
_NAMES_KEPT: Final = 4096
"""Size of the cache of checked names: each change looks up its own name three times."""


_UTF_16: Final = "UTF-16LE:"
"""Prefix of names that are stored as hexadecimal digits of their UTF-16 units."""


def encode_name(name: str) -> str:
    """Return a machine's name as a text that every directory can store (R93).

    UTF-8 cannot express half of a surrogate pair, but names of objects, and so of servers, may contain one.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        pass
    else:
        if not name.startswith(_UTF_16):
            return name
    return _UTF_16 + name.encode("utf-16-le", "surrogatepass").hex()


def decode_name(text: str) -> str:
    """Return the name from a text of `encode_name`.

    Raises:
        ValueError: the text does not come from `encode_name`.
    """
    if not text.startswith(_UTF_16):
        return text
    return bytes.fromhex(text.removeprefix(_UTF_16)).decode("utf-16-le", "surrogatepass")


@dataclass(frozen=True, slots=True)
class StoredPlace:
    """DN of an object, and the computer above it.

    Attributes:
        dn: its DN.
        computer: name of the computer above it; empty if there is none.
    """

    dn: DN
    computer: str = ""


class DirectoryPlaces:
    """The DNs of one directory."""

    def __init__(self, session: Session) -> None:
        """Get the naming contexts from the session.

        Raises:
            DirectoryError: no server can be reached.
        """
        naming = session.naming
        self._profile: Profile = session.profile
        self._name: Final = lru_cache(maxsize=_NAMES_KEPT)(self._clean_name)
        self.root = naming.root
        self.forest_root = naming.configuration.parent
        self.bases = naming.guid_bases
        self.enterprise = places.enterprise_dn(self.forest_root)
        self.state = places.replication_dn(self.forest_root)
        self.partitions, self.neighbors, self.networks, self.missing, self.others = (
            self.state.child("CN", name) for name in CONTAINERS
        )

    @property
    def server(self) -> DN:
        """DN of the entry of the directory's owner."""
        return places.replication_server_dn(self.forest_root)

    def place_partition(self, partition: Guid) -> DN:
        """Return the DN of a partition's state."""
        return self.partitions.child("CN", str(partition))

    def place_tombstone(self, partition: Guid, identifier: Guid) -> DN:
        """Return the DN of a tombstone."""
        return self.place_partition(partition).child("CN", str(identifier))

    def place_neighbor(self, machine_name: str, *, is_bsc: bool) -> DN:
        """Return the DN of a neighbour; names of machines are compared without case."""
        kind = "bsc" if is_bsc else "psc"
        return self.neighbors.child("CN", f"{kind}-{uuid5(_NAMES, encode_name(name_key(machine_name)))}")

    @property
    def nowhere(self) -> DN:
        """DN for a mandatory reference that the object does not have (decision R65)."""
        return self.missing.child("CN", "None")

    def place_stand_in(self, identifier: Guid) -> DN:
        """Return the DN that stands in for a referenced, still missing object (M40)."""
        return self.missing.child("CN", str(identifier))

    def of_object(
        self,
        object_type: ObjectType,
        identifier: Guid,
        path_name: str | None,
        properties: Mapping[Propid, PropertyValue],
        computers: Mapping[str, DN | None],
    ) -> StoredPlace | None:
        """Return the DN of an object ([MS-MQDSSM] 2.2.1); None if its type has none.

        Args:
            object_type: its type.
            identifier: its GUID, which names it if the directory cannot store its own name.
            path_name: its path name.
            properties: all its properties.
            computers: lower-case name -> DN of the computer; None for the usual DN.
        """
        match object_type:
            case ObjectType.QUEUE:
                return self._place_queue(identifier, path_name, computers)
            case ObjectType.MACHINE:
                return self._place_machine(identifier, path_name, computers)
            case ObjectType.SITE:
                return self._place_below(places.sites_dn(self.forest_root), path_name or None, identifier)
            case ObjectType.CN:
                return self._place_below(self.networks, path_name, identifier)
            case ObjectType.ENTERPRISE:
                return StoredPlace(self.enterprise)
            case ObjectType.USER:
                return StoredPlace(places.user_dn(self.root, str(identifier)))
            case ObjectType.ROUTING_LINK:
                return self._place_link(identifier, properties)
        return None

    def _place_machine(
        self, identifier: Guid, path_name: str | None, computers: Mapping[str, DN | None]
    ) -> StoredPlace:
        name = self._name(path_name)
        if not name:
            return StoredPlace(self.others.child("CN", str(identifier)))
        return StoredPlace(places.queue_manager_of(self.place_computer(name, computers)), name)

    def _place_link(self, identifier: Guid, properties: Mapping[Propid, PropertyValue]) -> StoredPlace:
        sites = [properties.get(propid) for propid in (Propid.L_NEIGHBOR1, Propid.L_NEIGHBOR2)]
        guids = [Guid(site).uuid for site in sites if isinstance(site, bytes) and len(site) == GUID_BYTES]
        name = compute.link_name(*guids) if len(guids) == len(sites) else str(identifier)
        return StoredPlace(places.link_dn(self.forest_root, name))

    def place_computer(self, name: str, computers: Mapping[str, DN | None]) -> DN:
        """Return the DN of a computer."""
        return computers.get(name.casefold()) or places.computer_dn(self.root, name)

    def find_computer_name(self, object_type: ObjectType, path_name: str | None) -> str:
        """Return the computer of an object; empty if it has none."""
        if object_type is ObjectType.QUEUE:
            return self._name((path_name or "").partition("\\")[0])
        return self._name(path_name) if object_type is ObjectType.MACHINE else ""

    def _place_queue(
        self, identifier: Guid, path_name: str | None, computers: Mapping[str, DN | None]
    ) -> StoredPlace:
        computer = self.find_computer_name(ObjectType.QUEUE, path_name)
        if not computer or path_name is None:
            return StoredPlace(self.others.child("CN", str(identifier)))
        rdn = make_queue_rdn(path_name)
        parent = places.queue_manager_of(self.place_computer(computer, computers))
        name = None if rdn is None else rdn.cn
        return StoredPlace(self._place_below(parent, name, identifier).dn, computer)

    def _place_below(self, parent: DN, name: str | None, identifier: Guid) -> StoredPlace:
        return StoredPlace(parent.child("CN", self._name(name) or str(identifier)))

    def _clean_name(self, name: str | None) -> str:
        """Return the name if it is valid in the directory, else an empty text."""
        if not name or len(name) > NAME_CHARS_MAX or name != name.strip():
            return ""
        try:
            if len(name.encode()) > NAME_BYTES_MAX:
                return ""
            self._profile.check_name(str(self.root.child("CN", name)))
        except ValueError:  # half of a surrogate pair, among others
            return ""
        return name


def domain_of(root: DN) -> str:
    """Return the DNS domain of a directory's root."""
    return ".".join(value for ((name, value), *_) in root.rdns if name.lower() == "dc")
