"""Where a server stands, so that an export can tell what changed while it ran.

LDAP has no snapshot over several operations. A domain controller counts its changes (highestCommittedUSN, and
uSNChanged of each object, [MS-ADTS] 3.1.1.1.9); slapd stamps them (contextCSN of the root, entryCSN of each
entry). Where neither can be read, times must do.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict

from mqdssm.errors import DirectoryError, DirectoryNotConnected

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

CLOCK_DIFFERENCE_MAX: Final = timedelta(minutes=5)
"""How far the server's clock may be behind ours; Kerberos allows as much."""


class ChangeCounter(StrEnum):
    """By what a server tells its changes apart."""

    USN = "usn"
    CSN = "csn"
    TIME = "time"


STAMPS: Final[Mapping[ChangeCounter, tuple[str, ...]]] = {
    ChangeCounter.USN: ("uSNChanged",),
    ChangeCounter.CSN: ("entryCSN",),
    ChangeCounter.TIME: ("modifyTimestamp", "whenChanged"),
}
"""The attributes of an object that say when it was changed, by what the server counts with."""


class Marks(BaseModel):
    """Where a server stood at some time.

    Attributes:
        counter: what the values are.
        server: whose values they are: another controller counts for itself. Empty where all servers of a
            directory count alike.
        values: the USN, or for each server id of slapd the newest CSN; nothing for times.
        time: when they were read, by our clock.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    counter: ChangeCounter
    server: str = ""
    values: Mapping[str, str] = {}
    time: AwareDatetime

    @classmethod
    def read(cls, session: "Session") -> Self:
        """Ask the server.

        Raises:
            DirectoryError: it cannot be reached.
        """
        now = datetime.now(UTC)
        root = session.get("", ["highestCommittedUSN", "dsServiceName"])
        usn = root.first("highestCommittedUSN")
        if usn is not None:
            name = (root.first("dsServiceName") or b"").decode(errors="replace")
            return cls(counter=ChangeCounter.USN, server=name, values={"usn": usn.decode()}, time=now)
        try:
            values = session.get(session.naming.forest, ["contextCSN"]).all("contextCSN")
        except DirectoryNotConnected:
            raise
        except DirectoryError:
            values = []  # the root is hidden from this user
        if values:
            return cls(
                counter=ChangeCounter.CSN,
                values={_server_id(csn.decode()): csn.decode() for csn in values},
                time=now,
            )
        return cls(counter=ChangeCounter.TIME, time=now)

    def same_as(self, other: "Marks") -> bool:
        """Whether nothing was changed between the two: never sure where there are times only."""
        mine, others = (self.counter, self.server, self.values), (other.counter, other.server, other.values)
        return self.counter is not ChangeCounter.TIME and mine == others

    def changes_since(self, earlier: "Marks") -> "Since":
        """How to tell, at this server, what was changed since an earlier time.

        Values of another server, or of another kind, cannot be compared: then times must do.
        """
        comparable = (self.counter, self.server) == (earlier.counter, earlier.server)
        return Since(earlier, self.counter if comparable else ChangeCounter.TIME)


class Since:
    """Tells objects that were changed after some marks from the others.

    Args:
        marks: the earlier ones.
        counter: what to compare by.

    Attributes:
        stamps: attributes that have to be read.
    """

    def __init__(self, marks: Marks, counter: ChangeCounter) -> None:
        self._marks = marks
        self._counter = counter
        self.stamps = STAMPS[counter]

    def is_changed(self, stamps: Sequence[bytes | None]) -> bool | None:
        """Whether an object with these stamps was changed; None of one that shows this user no stamp."""
        value = next((one.decode(errors="replace") for one in stamps if one is not None), None)
        if value is None:
            return None
        if self._counter is ChangeCounter.USN:
            return int(value) > int(self._marks.values["usn"])
        if self._counter is ChangeCounter.CSN:
            known = self._marks.values.get(_server_id(value))
            return known is None or value > known
        return _time(value) >= self._marks.time - CLOCK_DIFFERENCE_MAX


def _server_id(csn: str) -> str:
    """The server id within a CSN, as ``20261121001513.617504Z#000000#000#000000``."""
    parts = csn.split("#")
    return parts[2] if len(parts) > 2 else ""  # time, count, server, modification


def _time(value: str) -> datetime:
    """A GeneralizedTime of a server, which are all in UTC, to the second."""
    return datetime.strptime(value[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
