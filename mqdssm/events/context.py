"""What every event of [MS-MQDSSM] 3.1.6 works with: session, options, what is known of computers."""

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from mqdssm.directory.session import Session
from mqdssm.model.dn import DN
from mqdssm.wire.sid import Sid

MACHINES_REMEMBERED_MAX: Final = 4096
MACHINE_REMEMBERED_S: Final = 30.0
"""How long a computer's DN and SID are believed, in seconds: long enough for a bulk of creates, short
enough that a computer that was made anew is noticed."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A computer object.

    Attributes:
        dn: where it is.
        sid: its objectSid, if it has one.
    """

    dn: DN
    sid: Sid | None


class Machines:
    """Computers found lately, by name; bounded in number and age, safe for threads.

    Letter by letter: which names are the same is the server's to say.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[str, tuple[float, Machine]] = OrderedDict()

    def get(self, name: str) -> Machine | None:
        """The computer of that name, if it was found a moment ago."""
        with self._lock:
            found = self._known.get(name)
            if found is None:
                return None
            if time.monotonic() - found[0] > MACHINE_REMEMBERED_S:
                del self._known[name]
                return None
            return found[1]

    def put(self, name: str, machine: Machine) -> None:
        """Remember it, forget the oldest when there are too many."""
        with self._lock:
            self._known[name] = (time.monotonic(), machine)
            while len(self._known) > MACHINES_REMEMBERED_MAX:
                self._known.popitem(last=False)

    def forget(self, name: str) -> None:
        """It was not where it was believed to be."""
        with self._lock:
            self._known.pop(name, None)


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of an event.

    Attributes:
        session: the LDAP session.
        create_server_objects: make the ``Servers`` and ``server`` objects that mSMQSettings needs where they
            are missing (decision M6).
        machines: computers found lately.
    """

    session: Session
    create_server_objects: bool = True
    machines: Machines = field(default_factory=Machines)

    @property
    def root(self) -> DN:
        """The common root of the objects' names ([MS-MQDSSM] 2.2.1)."""
        return self.session.naming.root

    @property
    def configuration(self) -> DN:
        """CachedConfigurationNamingContext ([MS-MQDSSM] 3.1.1.5)."""
        return self.session.naming.configuration

    @property
    def forest_root(self) -> DN:
        """The parent of the configuration naming context: sites, links and the enterprise are below it."""
        return self.configuration.parent
