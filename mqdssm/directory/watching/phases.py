"""What the messages of syncrepl amount to: a refresh, then changes as they are made ([RFC4533] 3)."""

from mqdssm.directory.watching.hints import NOTHING, Hints, Touched
from mqdssm.directory.watching.sync import EntryState, IdSet, Info, NewCookie, PhaseEnds, SyncState


class Phases:
    """Gathers messages until they can be acted on; knows no connection.

    A cookie counts only once the refresh is over, and then together with all that was told before it.

    Attributes:
        refreshing: the refresh is not over yet.
    """

    def __init__(self, cookie: bytes | None) -> None:
        """Begin.

        Args:
            cookie: that was sent; without one everything comes, and tells nothing of what is gone. Where
                nothing happened since, no other one comes.
        """
        self.refreshing = True
        self._has_cookie = cookie is not None
        self._touched: list[Touched] = []
        self._mentioned: set[str] = set()
        self._was_present_phase = False
        self._cookie = cookie

    def entry(self, dn: str, classes: frozenset[str], said: SyncState) -> None:
        """Take what is said of an entry ([RFC4533] 3.3.1, 3.3.2, 3.4)."""
        self._cookie = said.cookie or self._cookie
        if self.refreshing and not self._has_cookie:
            return
        self._mention(said.key, deleted=said.state is EntryState.DELETE)
        if said.state is not EntryState.PRESENT:
            self._touched.append(Touched(said.key, dn, classes, said.state is EntryState.DELETE))

    def info(self, said: Info) -> None:
        """Take what is said of the refresh, or of many entries."""
        self._cookie = said.cookie or self._cookie
        if isinstance(said, NewCookie):
            return
        if isinstance(said, PhaseEnds):
            self._was_present_phase = self._was_present_phase or said.present
            self.refreshing = self.refreshing and not said.done
            return
        if self.refreshing and not self._has_cookie:
            return
        self._many(said)

    def _many(self, said: IdSet) -> None:
        for key in said.keys:
            self._mention(key, deleted=said.deletes)
            if said.deletes:
                self._touched.append(Touched(key, gone=True))

    def _mention(self, key: str, *, deleted: bool) -> None:
        if self.refreshing and not deleted:
            self._mentioned.add(key)

    def take(self) -> Hints:
        """What can be acted on now; nothing while the refresh goes on."""
        if self.refreshing:
            return NOTHING
        full, self._has_cookie = not self._has_cookie, True
        present = frozenset(self._mentioned) if self._was_present_phase and not full else None
        cookie = None if self._cookie is None else self._cookie.decode("latin-1")
        has_gap = full or present is not None
        hints = Hints(touched=tuple(self._touched), present=present, full=full, has_gap=has_gap, place=cookie)
        self._touched, self._cookie, self._was_present_phase = [], None, False
        self._mentioned = set()
        return hints
