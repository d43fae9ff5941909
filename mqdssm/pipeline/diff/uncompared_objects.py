"""Objects of a directory around the compared ones: server objects above, children below."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mqdssm.directory.filters import TRUE
from mqdssm.errors import ObjectNotFound
from mqdssm.model.dn import DN

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

HOLDS_OTHERS: Final = frozenset({"site", "computer", "queue-manager", "user"})
"""Types whose objects may have children."""
CONTAINERS_ABOVE: Final = 2
"""Number of containers above mSMQSettings: server object and the site's container (decision M6)."""


class Leftover:
    """Search for objects of B that no compared type covers.

    Args:
        directory: of B; None for an export: all containers count as missing, and no children are known.
    """

    def __init__(self, directory: "Directory | None") -> None:
        self._directory = directory
        self._made: set[DN] = set()
        self._gone: set[DN] = set()

    def missing_above(self, settings: DN) -> Iterator[DN]:
        """Yield the missing containers above a settings object, the highest first."""
        above = [settings.parent, settings.parent.parent][:CONTAINERS_ABOVE]
        for dn in reversed(above):
            if dn not in self._made and not self._exists(dn):
                self._made.add(dn)
                yield dn

    def below(self, dn: DN, type_name: str) -> Iterator[DN]:
        """Yield the objects below one that is to be deleted, the deepest first."""
        if self._directory is None or type_name not in HOLDS_OTHERS:
            return
        try:
            names = [DN.parse(one.dn) for one in self._directory.session.find(dn, TRUE, ["1.1"])]
        except ObjectNotFound:
            return
        for name in sorted(names, key=lambda one: -len(one)):
            if name != dn and name not in self._gone:
                self._gone.add(name)
                yield name

    def emptied(self, dn: DN, type_name: str) -> Iterator[DN]:
        """Yield the server object that is empty after its settings object was deleted, if any."""
        self._gone.add(dn)
        if type_name != "settings" or self._directory is None or dn.parent in self._gone:
            return
        names = [DN.parse(one.dn) for one in self._directory.session.find(dn.parent, TRUE, ["1.1"])]
        if all(name == dn.parent or name in self._gone for name in names):
            self._gone.add(dn.parent)
            yield dn.parent

    def _exists(self, dn: DN) -> bool:
        if self._directory is None:
            return False
        try:
            self._directory.session.get(dn, ["1.1"])
        except ObjectNotFound:
            return False
        return True
