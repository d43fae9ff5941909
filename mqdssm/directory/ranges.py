"""Range retrieval of attributes with many values (decision M14).

See [MS-ADTS] 3.1.1.3.1.3.3.

Active Directory returns 1,500 values, with the range in the attribute description: ``member;range=0-1499``.
The next values are requested with ``member;range=1500-*``. The object may change in between, so all values
are read again until its change counter does not change.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mqdssm.directory.entries import Entry, PartialValues
from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError, ObjectNotFound

ATTEMPTS: Final = 10
"""Maximum number of attempts to read the values of an object that changes meanwhile."""
RANGES_MAX: Final = 10_000
"""Maximum ranges of one attribute: with 1,500 values each, more than any object of Active Directory has."""

Read = Callable[[str, Sequence[str]], Entry]
"""Reads the object with a DN; raises ObjectNotFound if it does not exist any more."""


@dataclass(frozen=True, slots=True)
class OneServer:
    """Server from which ranges are read.

    Attributes:
        url: of the server.
        read: asks that server and no other: positions and counters are its own.
    """

    url: str
    read: Read


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Completes attributes of which only a range of values was returned.

    Attributes:
        server: says which server is in use now.
        counter: an attribute that differs after every change of an object; None: there is none.
    """

    server: Callable[[], OneServer]
    counter: str | None

    def complete(self, entry: Entry) -> Entry:
        """Return the entry with all its values."""
        for name, values in entry.attributes.items():
            if isinstance(values, PartialValues):
                entry.attributes[name] = self.values(entry.dn, name, values)
        return entry

    def complete_rows(
        self, rows: Iterable[tuple[Any, ...]], columns: Sequence[str], multi: frozenset[str]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows with all their values.

        The first item is the DN, the others are the columns.
        """
        lists = [(place, name) for place, name in enumerate(columns, 1) if name in multi]
        for row in rows:
            completed = row
            for place, name in lists:
                if type(row[place]) is PartialValues:
                    whole = self.values(row[0], name, row[place])
                    completed = (*completed[:place], whole, *completed[place + 1 :])
            yield completed

    def values(self, dn: str, name: str, some: PartialValues) -> list[bytes]:
        """Return all values of an attribute.

        If the object was deleted meanwhile, these are the values seen before.

        If the connection is lost, all values are read again from another server.

        Raises:
            GenericDirectoryError: the object changes too often.
            DirectoryNotConnected: no server is left.
        """
        server = self.server()
        for _ in range(ATTEMPTS):
            try:
                values = self._read_all_values(server.read, dn, name)
            except ObjectNotFound:
                return list(some)
            except DirectoryNotConnected:
                lost, server = server, self.server()
                if server.url == lost.url:
                    raise
                continue
            if values is not None:
                return values
        raise GenericDirectoryError(
            f"{name} changes faster than its values can be read", dn=dn, hint="try again later"
        )

    def _read_all_values(self, read: Read, dn: str, name: str) -> list[bytes] | None:
        """Return all values; None if the object changed while they were read."""
        all_values: list[bytes] = []
        before: bytes | None = None
        start = 0
        for number in range(RANGES_MAX):
            requested = [f"{name};range={start}-*", *([] if self.counter is None else [self.counter])]
            entry = read(dn, requested)
            count = None if self.counter is None else entry.first(self.counter)
            if number and count != before:
                return None
            before = count
            values = entry.all(name)
            all_values += values
            start = getattr(values, "next_index", 0)
            if not start:
                return all_values
            if start != len(all_values):
                return None  # a server that counts otherwise than it sends: begin again
        raise GenericDirectoryError(f"the values of {name} do not come to an end", dn=dn)
