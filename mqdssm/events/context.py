"""Context of the events of [MS-MQDSSM] 3.1.6.

A context has the session, the options and a cache of computers.
"""

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
    """Computer object.

    Attributes:
        dn: where it is.
        sid: its objectSid, if it has one.
    """

    dn: DN
    sid: Sid | None


class Machines:
    """Cache of computers by name, limited in number and age; thread-safe.

    Names are compared exactly: only the server knows which names are equal.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._machines: OrderedDict[str, tuple[float, Machine]] = OrderedDict()

    def get(self, name: str) -> Machine | None:
        """Return the computer with a name, if it was found recently."""
        with self._lock:
            machine = self._machines.get(name)
            if machine is None:
                return None
            if time.monotonic() - machine[0] > MACHINE_REMEMBERED_S:
                del self._machines[name]
                return None
            return machine[1]

    def put(self, name: str, machine: Machine) -> None:
        """Add a computer, and remove the oldest ones if there are too many."""
        with self._lock:
            self._machines[name] = (time.monotonic(), machine)
            while len(self._machines) > MACHINES_REMEMBERED_MAX:
                self._machines.popitem(last=False)

    def forget(self, name: str) -> None:
        """Remove a computer that was not found at its cached place."""
        with self._lock:
            self._machines.pop(name, None)


@dataclass(frozen=True, slots=True)
class Context:
    """Context of an event.

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
        """Common root of the objects' names ([MS-MQDSSM] 2.2.1)."""
        return self.session.naming.root

    @property
    def configuration(self) -> DN:
        """CachedConfigurationNamingContext ([MS-MQDSSM] 3.1.1.5)."""
        return self.session.naming.configuration

    @property
    def forest_root(self) -> DN:
        """Parent of the configuration naming context, with sites, links and enterprise."""
        return self.configuration.parent
