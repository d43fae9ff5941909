"""What a directory holds around the objects that are compared: server objects, what stands below others."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mqdssm.directory.filters import TRUE
from mqdssm.errors import ObjectNotFound
from mqdssm.model.dn import DN

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

HOLDS_OTHERS: Final = frozenset({"site", "computer", "queue-manager", "user"})
"""Types below whose objects others may stand."""
CONTAINERS_ABOVE: Final = 2
"""Above mSMQSettings: the server object and the container of the site (decision M6)."""


class Leftover:
    """Asks a directory for objects that no type of the comparison is about.

    Args:
        directory: None where B is an export: then what must be above is added, and nothing is known below.
    """

    def __init__(self, directory: "Directory | None") -> None:
        self._directory = directory
        self._made: set[DN] = set()
        self._gone: set[DN] = set()

    def missing_above(self, settings: DN) -> Iterator[DN]:
        """The containers above a settings object that there are not, the highest first."""
        above = [settings.parent, settings.parent.parent][:CONTAINERS_ABOVE]
        for dn in reversed(above):
            if dn not in self._made and not self._exists(dn):
                self._made.add(dn)
                yield dn

    def below(self, dn: DN, type_name: str) -> Iterator[DN]:
        """What stands below an object that is to be deleted, the deepest first."""
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
        """Containers that hold nothing more when an object is gone: a server object without settings."""
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
