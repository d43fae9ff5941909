"""Phases of syncrepl: a refresh, then changes as they happen ([RFC4533] 3)."""

from dataclasses import replace

from mqdssm.directory.watching.commits import find_csns
from mqdssm.directory.watching.hints import NOTHING, Hints, TouchedEntry
from mqdssm.directory.watching.sync import EntryState, IdSet, Info, NewCookie, PhaseEnds, SyncState


class Phases:
    """Collects sync messages until they can be acted on.

    A cookie counts only once the refresh is over, and then together with all that was told before it.

    Attributes:
        refreshing: the refresh is not over yet.
    """

    def __init__(self, cookie: bytes | None) -> None:
        """Begin a refresh.

        Args:
            cookie: that was sent; without one everything comes, and tells nothing of what is gone. Where
                nothing happened since, no other one comes.
        """
        self.refreshing = True
        self._has_cookie = cookie is not None
        self._touched: list[TouchedEntry] = []
        self._changed: list[TouchedEntry] = []
        self._was_present_phase = False
        self._cookie = cookie
        self._newest = ""

    def entry(self, dn: str, classes: frozenset[str], sync_state: SyncState, version: str = "") -> None:
        """Take the sync state of an entry ([RFC4533] 3.3.1, 3.3.2, 3.4).

        Args:
            dn: of the entry.
            classes: its object classes in lower case.
            sync_state: the state control.
            version: its entryCSN; empty: none came.
        """
        self._take_cookie(sync_state.cookie)
        if self.refreshing and not self._has_cookie:
            return
        if sync_state.state is EntryState.PRESENT:
            return
        is_deleted = sync_state.state is EntryState.DELETE
        # an entry of a refresh was read as it is; all else is told, perhaps before the commit
        entries = self._touched if self.refreshing and not is_deleted else self._changed
        entries.append(TouchedEntry(sync_state.key, dn, classes, is_deleted, version or self._newest))

    def info(self, info_message: Info) -> None:
        """Take a sync info message on the refresh or on many entries."""
        self._take_cookie(info_message.cookie)
        if isinstance(info_message, NewCookie):
            return
        if isinstance(info_message, PhaseEnds):
            self._was_present_phase = self._was_present_phase or info_message.present
            self.refreshing = self.refreshing and not info_message.done
            return
        if self.refreshing and not self._has_cookie:
            return
        self._take_many(info_message)

    def _take_cookie(self, cookie: bytes | None) -> None:
        if cookie is not None:
            self._cookie = cookie
            self._newest = max(find_csns(cookie.decode("latin-1")), default="")

    def _take_many(self, id_set: IdSet) -> None:
        if id_set.deletes:
            self._changed.extend(TouchedEntry(key, gone=True, version=self._newest) for key in id_set.keys)

    def take(self) -> Hints:
        """Return the hints that can be acted on now; none during a refresh."""
        if self.refreshing:
            return NOTHING
        full, self._has_cookie = not self._has_cookie, True
        cookie = None if self._cookie is None else self._cookie.decode("latin-1")
        has_gap = full or self._was_present_phase
        hints = Hints(touched=tuple(self._touched), full=full, has_gap=has_gap, place=cookie)
        self._touched, self._cookie, self._was_present_phase = [], None, False
        return hints

    def take_touched(self) -> tuple[TouchedEntry, ...]:
        """Return the changes that have to be confirmed by reading; none during a refresh."""
        if self.refreshing:
            return ()
        changes, self._changed = self._changed, []
        # what was deleted before the refresh is told without its number: the newest one is not older
        return tuple(
            change if change.version else replace(change, version=self._newest) for change in changes
        )
