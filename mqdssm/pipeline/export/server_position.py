"""Position of a server in its changes.

By it an export finds the changes that came while it ran.
LDAP has no snapshot over several operations. A domain controller counts its changes (highestCommittedUSN, and
uSNChanged of each object, [MS-ADTS] 3.1.1.1.9). slapd stamps them (contextCSN of the root, entryCSN of each
entry). If neither can be read, modification times are compared.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from pydantic import AwareDatetime

from mqdssm.errors import DirectoryError, DirectoryNotConnected
from mqdssm.pipeline.documents import Document

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

CLOCK_DIFFERENCE_MAX: Final = timedelta(minutes=5)
"""Time that the server's clock may be behind the local clock, as in Kerberos."""


class ChangeCounter(StrEnum):
    """Kind of stamp by which changes of a server are compared."""

    USN = "usn"
    CSN = "csn"
    TIME = "time"


STAMPS: Final[Mapping[ChangeCounter, tuple[str, ...]]] = {
    ChangeCounter.USN: ("uSNChanged",),
    ChangeCounter.CSN: ("entryCSN",),
    ChangeCounter.TIME: ("modifyTimestamp", "whenChanged"),
}
"""Attributes of an object that hold its stamp, by the kind of stamp."""


class Marks(Document):
    """Position of a server in its changes at one time.

    Attributes:
        counter: kind of the values.
        server: dsServiceName of the domain controller, as each one has its own USNs; empty for other servers.
        values: the USN, or the newest CSN of each server id of slapd; empty for times.
        time: when the position was read, by the local clock.
    """

    counter: ChangeCounter
    server: str = ""
    values: Mapping[str, str] = {}
    time: AwareDatetime

    @classmethod
    def read(cls, session: "Session") -> Self:
        """Read the current position of a server.

        Raises:
            DirectoryError: the server cannot be reached.
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
                values={_parse_server_id(csn.decode()): csn.decode() for csn in values},
                time=now,
            )
        return cls(counter=ChangeCounter.TIME, time=now)

    def is_same_as(self, other: "Marks") -> bool:
        """Return True if nothing changed between two positions; always False for times."""
        mine, other_marks = (
            (self.counter, self.server, self.values),
            (other.counter, other.server, other.values),
        )
        return self.counter is not ChangeCounter.TIME and mine == other_marks

    def make_since(self, earlier: "Marks") -> "Since":
        """Return the test for objects that changed since an earlier position.

        Values of another server or kind cannot be compared, so times are used instead.
        """
        comparable = (self.counter, self.server) == (earlier.counter, earlier.server)
        return Since(earlier, self.counter if comparable else ChangeCounter.TIME)


class Since:
    """Test for objects that changed since an earlier position.

    Args:
        marks: the earlier position.
        counter: kind of stamp to compare.

    Attributes:
        stamps: attributes that `is_changed` needs, in its order.
    """

    def __init__(self, marks: Marks, counter: ChangeCounter) -> None:
        self._marks = marks
        self._counter = counter
        self.stamps = STAMPS[counter]

    def is_changed(self, stamps: Sequence[bytes | None]) -> bool | None:
        """Return True if an object with these stamps was changed.

        Returns None without a readable stamp.
        """
        value = next((stamp.decode(errors="replace") for stamp in stamps if stamp is not None), None)
        if value is None:
            return None
        if self._counter is ChangeCounter.USN:
            return int(value) > int(self._marks.values["usn"])
        if self._counter is ChangeCounter.CSN:
            mark = self._marks.values.get(_parse_server_id(value))
            return mark is None or value > mark
        return _parse_time(value) >= self._marks.time - CLOCK_DIFFERENCE_MAX


def _parse_server_id(csn: str) -> str:
    """Return the server id of a CSN.

    The form of a CSN is ``20261121001513.617504Z#000000#000#000000``.
    """
    parts = csn.split("#")
    return parts[2] if len(parts) > 2 else ""  # time, count, server, modification


def _parse_time(value: str) -> datetime:
    """Return a GeneralizedTime of a server, which is in UTC, to the second."""
    return datetime.strptime(value[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
