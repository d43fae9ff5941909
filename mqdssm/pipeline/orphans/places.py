"""Places where orphans can be, and where a plan may delete them.

Active Directory makes an object only below the objects that its schema allows. So a queue without a queue
manager, for example, can only be below CN=LostAndFound, where replication moves it ([MS-ADTS] 6.1.1.4.1).
OpenLDAP has no such rule and no such container.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mqdssm.model.dn import DN
from mqdssm.model.elements import RoutingLink
from mqdssm.tables import TABLES, places
from mqdssm.tables.dependent_objects import SETTINGS_CLASS, SETTINGS_NAME
from mqdssm.tables.schema import MANAGER_CLASS, QUEUE_CLASS

LINK_CLASS: Final = TABLES[RoutingLink].ldap_class
ORPHAN_CLASSES: Final = (QUEUE_CLASS, MANAGER_CLASS, SETTINGS_CLASS, LINK_CLASS)
"""Classes of the objects that may be orphans."""

_NAMES: Final[Mapping[str, str]] = {
    MANAGER_CLASS.lower(): places.QUEUE_MANAGER_NAME,
    SETTINGS_CLASS.lower(): SETTINGS_NAME,
}
"""Object class -> name of all its objects."""
_DEPTHS: Final[Mapping[str, int]] = {SETTINGS_CLASS.lower(): 4, LINK_CLASS.lower(): 2}
"""Object class -> levels of its objects below CN=Sites or CN=Services."""
_CLASSES: Final = frozenset(name.lower() for name in ORPHAN_CLASSES)


@dataclass(frozen=True, slots=True)
class OrphanPlaces:
    """Places of orphans in a directory.

    Attributes:
        root: DN below which computers, queue managers and queues are.
        configuration: the configuration naming context.
        restricts_parents: the server makes an object only below a parent of the right class.
    """

    root: DN
    configuration: DN
    restricts_parents: bool

    def accepts(self, ldap_class: str, dn: DN) -> bool:
        """Return True if an orphan of a class can be at a DN."""
        name = ldap_class.lower()
        if name not in _CLASSES or not self._is_named(name, dn):
            return False
        if name in _DEPTHS:
            return dn.is_below(self.configuration) and self._is_in_configuration(name, dn)
        if dn.is_at_or_below(self.configuration):
            return False
        return dn.is_below(places.lost_dn(self.root) if self.restricts_parents else self.root)

    @staticmethod
    def _is_named(ldap_class: str, dn: DN) -> bool:
        usual = _NAMES.get(ldap_class)
        return usual is None or places.name_before_conflict(dn.name).lower() == usual.lower()

    def _is_in_configuration(self, ldap_class: str, dn: DN) -> bool:
        if not self.restricts_parents or dn.is_below(places.lost_configuration_dn(self.configuration)):
            return True
        base = places.search_base("site", self.root, self.configuration)
        if ldap_class == LINK_CLASS.lower():
            base = places.services_dn(self.root, self.configuration)
        return dn.is_below(base) and len(dn) == len(base) + _DEPTHS[ldap_class]
