"""Change hints from Active Directory by its update sequence numbers.

See [MS-ADTS] 3.1.1.1.9.

The notification control ([MS-ADTS] 3.1.1.3.4.1.9) only triggers a search: it does not report earlier changes,
and covers one naming context. Deleted objects leave tombstones, which are found by the same search with a
control that shows them ([MS-ADTS] 3.1.1.3.4.1.14), also after they left the Recycle Bin ([MS-ADTS]
3.1.1.3.4.1.26).
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Final
from uuid import UUID

from mqdssm.directory.channel import ConnectionBroken
from mqdssm.directory.filters import TRUE, Equal, GreaterOrEqual, LdapFilter, all_of, any_of, encode
from mqdssm.directory.profiles.active_directory import SHOW_DELETED_OID
from mqdssm.directory.requests import LdapControl, SearchScope
from mqdssm.directory.searching import Search
from mqdssm.directory.watching.hints import NOTHING, Hints, Rhythm, TouchedEntry, list_classes, version_of
from mqdssm.directory.watching.link import GoingOn, Link, end_of
from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError, ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.model.guid import GUID_BYTES
from mqdssm.tables.places import is_in_configuration

log = logging.getLogger(__name__)

SHOW_RECYCLED_OID: Final = "1.2.840.113556.1.4.2064"
"""LDAP_SERVER_SHOW_RECYCLED_OID: with a Recycle Bin, the other control hides objects that left it."""
NOTIFICATION_OID: Final = "1.2.840.113556.1.4.528"
"""LDAP_SERVER_NOTIFICATION_OID."""
TOMBSTONES_S: Final = 30 * 86_400.0
"""Seconds for which deleted objects are expected to be shown: half of the lifetime of tombstones where
nobody set another one, 60 days ([MS-ADTS] 6.1.1.2.4.1.1)."""
_DAY_S: Final = 86_400.0
_LIFETIME: Final = "tombstoneLifetime"
_LIFETIME_AT: Final = ("Services", "Windows NT", "Directory Service")  # below the configuration
_NOTIFY: Final = LdapControl(NOTIFICATION_OID, critical=True)
_DELETED_OBJECTS: Final = "Deleted Objects"
_LISTED: Final = ("objectGUID", "objectClass")
_WANTED: Final = (*_LISTED, "isDeleted")
_RIGHTS: Final = (
    'log in as a domain administrator, or let the user list {dn}: dsacls "{dn}" /takeOwnership, then '
    'dsacls "{dn}" /G DOMAIN\\user:LCRP (docs/watching.md)'
)


class UsnNumbers:
    """Update sequence numbers of one controller, with their validity.

    See [MS-ADTS] 3.1.1.1.9 and decision W1.
    """

    def __init__(self, server: str, url: str, *, lasting_s: float = TOMBSTONES_S) -> None:
        """Initialize for one server.

        Args:
            server: its invocationId: one that was restored from a copy has another one.
            url: of the server, for messages.
            lasting_s: expected time for which tombstones are shown, in seconds.
        """
        self._server = server
        self._url = url
        self._read_tombstone_lifetime_s = lasting_s

    def place(self, number: int, now: float) -> str:
        """Return the place behind a number.

        Args:
            number: of the last change that is known.
            now: seconds since 1970.
        """
        return f"{self._server}:{number}:{int(now)}"

    def number_in(self, place: str | None, now: float) -> int | None:
        """Return the number in a place.

        None if it is another server's, or too old to show all deletions.

        Args:
            place: from an earlier `place`, perhaps of another server.
            now: seconds since 1970.
        """
        if place is None:
            return None
        server, number, written = (*place.split(":"), "", "")[:3]
        if server != self._server or not number.isdecimal() or not written.isdecimal():
            log.warning("%s: the numbers of changes are another server's: all is compared", self._url)
            return None
        if abs(now - int(written)) > self._read_tombstone_lifetime_s:
            log.warning("%s was not watched for long: all is compared", self._url)
            return None
        return int(number)


class UpdateNumbers:
    """Hints by update numbers, for some classes in domain and configuration."""

    def __init__(self, link: Link, classes: Sequence[str], listed: LdapFilter, rhythm: Rhythm) -> None:
        """Watch nothing yet.

        Args:
            link: to the domain controller.
            classes: object classes of entries that matter.
            listed: filter of the entries of these classes that can be known.
            rhythm: see `Rhythm`.

        Raises:
            GenericDirectoryError: this user may not see deleted objects.
            DirectoryNotConnected: the connection was lost.
        """
        self._link = link
        self._classes = any_of(*(Equal("objectClass", name.encode()) for name in classes))
        self._listed = listed
        self._listing_is_due = 0.0
        self._rhythm = rhythm
        naming = link.naming
        places = {
            naming.configuration if is_in_configuration(class_name) else naming.default: None
            for class_name in classes
        }
        self._contexts = tuple(places)
        offered = SHOW_RECYCLED_OID.encode() in link.root_dse.all("supportedControl")
        self._show_deleted = LdapControl(SHOW_RECYCLED_OID if offered else SHOW_DELETED_OID, critical=True)
        for context in self._contexts:
            self._check_rights(context.child("CN", _DELETED_OBJECTS))
        self._numbers = UsnNumbers(
            self._read_invocation(), link.url, lasting_s=self._read_tombstone_lifetime_s()
        )

    def read_hints(self, place: str | None) -> Iterator[Hints]:
        """See `Source`."""
        start = self._numbers.number_in(place, time.time())
        last = self._read_newest()
        hints = Hints(full=True) if start is None else self._find_hints_since(start, last)
        # a wrongly restored server reuses numbers: the number of each object is compared
        place = self._numbers.place(last, time.time())
        yield replace(hints, listing=self._list, place=place, is_current=True)
        with ExitStack() as stack:
            bell = _Bell(self._link, self._rhythm)
            stack.callback(bell.close)
            bell.hang()
            while True:
                newest = self._read_newest()
                hints, last = self._find_hints_since(last, newest), newest
                is_due = hints.is_empty and time.monotonic() >= self._listing_is_due
                yield Hints(listing=self._list) if is_due else hints
                for _ in bell.wait(self._rhythm.poll_s):
                    yield NOTHING

    def _find_hints_since(self, number: int, newest: int) -> Hints:
        """Return hints at changes after a number."""
        if newest == number:
            return NOTHING
        place = self._numbers.place(newest, time.time())
        if newest < number:
            log.warning("%s was set back to an older state: all is compared", self._link.url)
            return Hints(full=True, listing=self._list, has_gap=True, place=place)
        return Hints(touched=tuple(self._find_newer(number)), place=place)

    def _find_newer(self, number: int) -> Iterator[TouchedEntry]:
        """Yield objects changed or deleted after a number.

        Changes made meanwhile may be among them.
        """
        newer = all_of(GreaterOrEqual("uSNChanged", str(number + 1).encode()), self._classes)
        controls = (self._show_deleted, *self._link.profile.search_controls())
        for context in self._contexts:
            yield from self._find_touched(context, newer, _WANTED, controls)

    def _list(self) -> Iterator[TouchedEntry]:
        """List all existing objects."""
        for context in self._contexts:
            yield from self._find_touched(
                context, self._listed, _LISTED, self._link.profile.search_controls()
            )
        self._listing_is_due = time.monotonic() + self._rhythm.compare_s

    def _find_touched(
        self,
        context: DN,
        search_filter: LdapFilter,
        attributes: Sequence[str],
        controls: Sequence[LdapControl],
    ) -> Iterator[TouchedEntry]:
        versions = self._link.profile.watch_versions
        for entry in self._link.find(str(context), search_filter, (*attributes, *versions), controls):
            guid = entry.first("objectGUID")
            if guid is None or len(guid) != GUID_BYTES:
                continue  # hidden from this user
            is_deleted = (entry.first("isDeleted") or b"").upper() == b"TRUE"
            yield TouchedEntry(
                key=str(UUID(bytes_le=guid)),
                dn=None if is_deleted else entry.dn,  # a deleted object has another name than before
                classes=list_classes(entry),
                gone=is_deleted,
                version=version_of(map(entry.first, versions)),
            )

    def _read_newest(self) -> int:
        """Return highestCommittedUSN: all changes up to this number can be read."""
        value = self._link.get("", ["highestCommittedUSN"]).first("highestCommittedUSN")
        if value is None or not value.isdigit():
            raise GenericDirectoryError(
                f"{self._link.url} does not tell the number of its last change (highestCommittedUSN)",
                hint="may this user read the root DSE?",
            )
        return int(value)

    def _read_invocation(self) -> str:
        """Return the invocationId, which changes when a backup is restored."""
        service = self._link.get("", ["dsServiceName"]).first("dsServiceName")
        if service is None:
            raise GenericDirectoryError(f"{self._link.url} does not say which server it is (dsServiceName)")
        try:
            value = self._link.get(service.decode(errors="replace"), ["invocationId"]).first("invocationId")
        except ObjectNotFound:
            value = None
        if value is None or len(value) != GUID_BYTES:
            raise GenericDirectoryError(
                "the domain controller does not show whose numbers its changes have (invocationId)",
                dn=service.decode(errors="replace"),
                hint="let the user read the configuration naming context, as every account may by default",
            )
        return str(UUID(bytes_le=value))

    def _read_tombstone_lifetime_s(self) -> float:
        """Return half the seconds for which the forest keeps tombstones.

        For so long tombstones are expected to exist.
        """
        place = self._link.naming.configuration
        for name in _LIFETIME_AT:
            place = place.child("CN", name)
        days = None
        with suppress(ObjectNotFound):  # hidden from this user
            days = self._link.get(str(place), [_LIFETIME]).first(_LIFETIME)
        if days is None or not days.isdigit():
            return TOMBSTONES_S
        return min(TOMBSTONES_S, int(days) * _DAY_S / 2)

    def _check_rights(self, deleted: DN) -> None:
        """Raise GenericDirectoryError if this user may not see deleted objects.

        Raises:
            GenericDirectoryError: deleted objects are hidden from this user.
        """
        dn = str(deleted)
        with suppress(ObjectNotFound):
            if self._link.get(dn, ["objectClass"], (self._show_deleted,)).first("objectClass") is not None:
                return  # by default, users who may read the container may list it
        raise GenericDirectoryError(
            "this user may not see deleted objects, so deletions would go unnoticed",
            dn=dn,
            hint=_RIGHTS.format(dn=dn),
        )


class _Bell:
    """Waits for a change notification of the server, or for a time."""

    def __init__(self, link: Link, rhythm: Rhythm) -> None:
        self._link = link
        self._rhythm = rhythm
        self._stack = ExitStack()
        self._going_on: GoingOn | None = None
        self._hung = 0.0

    def hang(self) -> None:
        """Begin the notification search on the domain, where nearly all changes happen."""
        self.close()
        root = str(self._link.naming.default)
        search = Search(root, SearchScope.SUBTREE, encode(TRUE), ("objectGUID",), (_NOTIFY,))
        self._going_on = self._stack.enter_context(self._link.begin_search(search))
        self._hung = time.monotonic()

    def wait(self, wait_s: float) -> Iterator[None]:
        """Wait for a notification or for `wait_s`; yield now and then.

        Raises:
            DirectoryNotConnected: the connection was lost.
        """
        end = time.monotonic() + wait_s
        if time.monotonic() - self._hung >= self._rhythm.renew_s:
            self.hang()
        while (remaining_s := end - time.monotonic()) > 0:
            if self._has_rung(min(remaining_s, self._rhythm.tick_s)):
                return
            yield

    def _has_rung(self, wait_s: float) -> bool:
        if self._going_on is None:
            time.sleep(wait_s)
            return False
        try:
            buffer, messages = self._going_on.receive_some(wait_s)
        except ConnectionBroken as broken:
            raise DirectoryNotConnected(
                f"the connection to {self._link.url} was lost: {broken.words}"
            ) from broken
        result = end_of(buffer, messages)
        if result is not None:
            log.info("%s tells of no changes (LDAP result %d): it is asked", self._link.url, result.code)
            self.close()
        if not messages or result is not None:
            return False
        time.sleep(self._rhythm.settle_s)  # more changes follow: not each of them needs a search
        return True

    def close(self) -> None:
        """End the notification search."""
        self._going_on = None
        self._stack.close()
