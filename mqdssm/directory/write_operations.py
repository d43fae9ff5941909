"""Changes, each sent to a server once.

If the answer is lost, the result is read back.

A request that could not be sent completely was not carried out and is tried again on another connection. A
complete request is never sent a second time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from mqdssm.directory.channel import ConnectionBroken
from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import TRUE
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.pool import Pool
from mqdssm.directory.profile import Guard, has_never_changed
from mqdssm.directory.read_operations import ReadOperations
from mqdssm.directory.recovery import Fate, ReadBack, is_as_sent
from mqdssm.directory.requests import ChangeType, Modification, encode_delete, encode_modify, encode_modify_dn
from mqdssm.directory.responses import (
    ADD_RESPONSE,
    DELETE_RESPONSE,
    MODIFY_DN_RESPONSE,
    MODIFY_RESPONSE,
    LdapResult,
)
from mqdssm.directory.server_info import ServerInfo
from mqdssm.errors import (
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectChanged,
    ObjectNotFound,
    OutcomeUnknown,
)
from mqdssm.model.dn import DN
from mqdssm.tables import places

WRITE_ATTEMPTS: Final = 3
"""Maximum attempts of a change that could not be sent completely; a sent change is never repeated."""

_MACHINE_NAME: Final = "mqisMachineName"

_RESULT_TAGS: Final = {
    "add": ADD_RESPONSE,
    "modify": MODIFY_RESPONSE,
    "delete": DELETE_RESPONSE,
    "rename": MODIFY_DN_RESPONSE,
}

_UNSEEN: Final = {
    "add": "there is no such object: it was not carried out, or somebody has deleted the object since",
    "modify": "the object does not hold the new values: "
    "it was not carried out, or somebody has overwritten them since",
    "delete": "there is such an object: it was not carried out, or somebody has made it anew since",
    "rename": "the object is not the one of the new name: "
    "it was not carried out, or somebody has renamed it since",
}
"""Texts for changes that reading back does not find, by operation."""

Look = Callable[[float, str | None], bool]
"""Returns True if a change was made: gets a deadline and the only server to ask (None: any)."""


class WriteOperations:
    """Sends changes over the channels of a pool.

    Attributes:
        read_back: how long to look for the fate of a change whose answer was lost.
    """

    def __init__(
        self, pool: Pool, options: ConnectionOptions, knowledge: ServerInfo, reading: ReadOperations
    ) -> None:
        """Initialize changes over `pool`, with reading back by `reading`."""
        self._pool = pool
        self._options = options
        self._knowledge = knowledge
        self._reading = reading
        self.read_back = ReadBack()
        self._replicating_server: str | None = None  # None: not searched yet; "": there is none

    def refuse_other_domains(self, operation: str, dn: str) -> None:
        """Raise GenericDirectoryError for a change in another domain (decision M73).

        Raises:
            GenericDirectoryError: naming the domain.
        """
        if not self._options.forest or not self._knowledge.is_there:
            return
        domain = self._knowledge.naming.find_other_domain(DN.parse(dn))
        if domain is not None:
            raise GenericDirectoryError(
                f"{operation} failed: the object is in another domain, {domain}: "
                f"{self._pool.current_url} cannot change it",
                dn=dn,
                hint=f"connect to a domain controller of {domain}",
            )

    def refuse_if_read_only(self, operation: str, dn: str) -> None:
        """Raise GenericDirectoryError if the session is read-only.

        Raises:
            GenericDirectoryError: the session is read-only.
        """
        if self._options.read_only:
            raise GenericDirectoryError(
                f"{operation} refused: this session is read only", dn=dn, hint="nothing was sent"
            )

    def refuse_if_replicated(self, operation: str, dn: str) -> None:
        """Raise GenericDirectoryError for a replicating server's directory.

        See decision R106.

        The session looks for such a server once, at its first change.

        Raises:
            GenericDirectoryError: the directory is that of a replicating server.
            DirectoryError: the server cannot be asked.
        """
        if self._options.allow_replicated or self._knowledge.profile.no_replication:
            return
        if self._replicating_server is None:
            self._replicating_server = self._find_replicating_server()
        if self._replicating_server:
            raise GenericDirectoryError(
                f"{operation} refused: this is the directory of the replicating server "
                f"{self._replicating_server}, which would not number the change: its replicas would differ",
                dn=dn,
                hint="nothing was sent. Make the change at the directory server, through the control socket "
                "in its folder: mqdssm create, write and delete do so with --server DIR/control.sock; "
                "allow_replicated=True allows it here all the same",
            )

    def _find_replicating_server(self) -> str:
        naming = self._knowledge.naming
        entry = places.replication_server_dn(naming.forest, naming.configuration)
        try:
            entries = self._reading.get_all(str(entry), (_MACHINE_NAME,), TRUE)
        except ObjectNotFound:
            return ""
        return (entries[0].first(_MACHINE_NAME) or b"?").decode(errors="replace") if entries else ""

    def modify(
        self, target: str | DN | Entry, replacements: Mapping[str, Sequence[bytes]], unchanged: Sequence[str]
    ) -> None:
        """Replace attributes; see `Session.modify`."""
        profile, guard = self._knowledge.profile, self._guard(target, unchanged)
        controls = (*guard.controls, *profile.write_controls(replacements))
        new = {**guard.old, **replacements}  # attributes that are only compared get their old value again
        changes = changes_of(guard, new)
        if not changes:
            return  # values that are absent are removed
        identity = {} if guard.identity is None else {"objectGUID": (guard.identity,)}
        self.send(
            "modify",
            name_of(target),
            lambda number: encode_modify(number, guard.name, changes, controls),
            lambda end, url: self.was_modified(guard.name, {**replacements, **identity}, end, url),
            guard.shows_change,
        )

    def delete(self, target: str | DN | Entry) -> None:
        """Delete an object; see `Session.delete`."""
        guard = self._guard(target, ())
        self.send(
            "delete",
            name_of(target),
            lambda number: encode_delete(number, guard.name, guard.controls),
            lambda end, url: self.was_deleted(guard.name, end, url),
            guard.shows_change,
        )

    def rename(self, target: str | DN | Entry, new: DN, new_rdn: str, superior: str | None) -> None:
        """Rename an object; see `Session.rename`."""
        name, guard = name_of(target), self._guard(target, ())
        self.send(
            "rename",
            name,
            lambda number: encode_modify_dn(
                number, guard.name, new_rdn, new_superior=superior, controls=guard.controls
            ),
            lambda end, url: self.was_renamed(name, new, end, url),
            guard.shows_change,
        )

    def _guard(self, target: str | DN | Entry, unchanged: Sequence[str]) -> Guard:
        if isinstance(target, Entry):
            return self._knowledge.profile.guard(target, unchanged)
        return Guard(str(target))

    def send(
        self,
        operation: str,
        dn: str,
        encoded: Callable[[int], bytes],
        look: Look,
        shows_change: Callable[[LdapResult], bool] = has_never_changed,
    ) -> None:
        """Send a change to a server, and read it back if the answer is lost.

        Args:
            operation: ``add``, ``modify``, ``delete`` or ``rename``.
            dn: the object.
            encoded: the request for a message id.
            look: whether the change is there.
            shows_change: as `Guard.shows_change`.

        Raises:
            ValueError: it cannot be encoded.
            ObjectChanged: the entry is not as it was read.
            DirectoryNotConnected: it was not carried out.
            OutcomeUnknown: nobody knows.
            DirectoryError: the server refused it.
        """
        self.refuse_if_read_only(operation, dn)
        self.refuse_other_domains(operation, dn)
        self.refuse_if_replicated(operation, dn)
        result = self._send_change(operation, dn, encoded, look)
        if result is not None and shows_change(result):
            raise ObjectChanged(
                f"{operation} failed: another program changed the object after it was read",
                dn=dn,
                ldap_code=result.code,
                server_text=result.text,
                hint="nothing was written: read the object and try again",
            )
        if result is not None and result.code != 0:
            raise self._knowledge.error_of(result, operation, dn)

    def _send_change(
        self, operation: str, dn: str, encoded: Callable[[int], bytes], look: Look
    ) -> LdapResult | None:
        """Return the server's result.

        None if the answer was lost, but the change was found made.
        """
        deadline = self._reading.compute_deadline()
        attempt = 0
        while True:
            attempt += 1
            with self._pool.lease(deadline) as channel:
                number = channel.choose_id()
                request = encoded(number)
                try:
                    result = channel.request(number, request, _RESULT_TAGS[operation], deadline)
                except ConnectionBroken as broken:
                    lost, url = broken, channel.url
                else:
                    if result.code == 0:
                        self._pool.note_change_on(channel.url)
                    return result
            if lost.timed_out:
                self._pool.suspect(url)
            if lost.request_left:
                self._find_out(operation, dn, look, url, lost)
                return None
            if lost.timed_out or attempt == WRITE_ATTEMPTS:
                raise DirectoryNotConnected(
                    f"{operation} was not carried out: it could not be handed to {url}: {lost.words}", dn=dn
                )

    def _find_out(self, operation: str, dn: str, look: Look, url: str, lost: ConnectionBroken) -> None:
        """Read a change back: return if it was made, else raise an error.

        A missing change counts as not made only on the server that received the request, and only if that
        server closed the connection: a silent server may still make the change, and a replica may not have it
        yet.
        """
        asked_others = False

        def look_here_then_there(deadline: float) -> bool:
            nonlocal asked_others
            try:
                result = look(deadline, url)
                asked_others = False
            except DirectoryNotConnected:
                if len(self._options.endpoints) == 1:
                    raise
                result = look(deadline, None)
                asked_others = True
            return result

        fate, problem = self.read_back.find_out(look_here_then_there)
        if fate is Fate.MADE:
            return
        if fate is Fate.NOT_MADE and not lost.timed_out and not asked_others:
            raise DirectoryNotConnected(
                f"{operation}: the answer of {url} was lost ({lost.words}), "
                f"and reading back shows: {_UNSEEN[operation]}",
                dn=dn,
                hint="nothing was repeated: it may be tried again if the object still needs it",
            )
        why = f"and reading back failed: {problem}" if problem else "and reading back does not show it (yet)"
        raise OutcomeUnknown(
            f"{operation}: the answer of {url} was lost ({lost.words}), {why}",
            dn=dn,
            hint="nothing was repeated: read the object before you try again",
        ) from problem

    # checks for a change

    def was_added(
        self, dn: str, attributes: Mapping[str, Sequence[bytes]], deadline: float, url: str | None
    ) -> bool:
        """Return True if the added object exists with all values.

        The object is found by name, and by objectGUID if one was sent.

        The values count with an objectGUID as well: the caller may have brought one that an older
        object of that name has (M37). One that was the same in everything cannot be told apart.

        Raises:
            ObjectAlreadyExists: somebody else's object has the name, or the objectGUID.
        """
        guid = next((values[0] for name, values in attributes.items() if name.lower() == "objectguid"), None)
        if guid is not None and len(guid) == 16:
            object_guid = UUID(bytes_le=bytes(guid))
            entries = self._reading.get_all(
                object_guid, tuple(attributes), deadline=deadline, url=url, only_own=True
            )
            for entry in entries:
                if entry.name == DN.parse(dn):
                    return _is_made_as_sent(entry, attributes, dn)
            if entries:  # a GUID that the caller brought, and that another object has
                raise ObjectAlreadyExists(
                    "add failed: another object has the same objectGUID",
                    dn=dn,
                    hint=f"it is {entries[0].dn}, which was there before or has been renamed since",
                )
        stored = self._read_entry(dn, tuple(attributes), deadline, url)
        if stored is None:
            return False
        if guid is None:
            return _is_made_as_sent(stored, attributes, dn)
        raise ObjectAlreadyExists(
            "add failed: an object of that name exists already", dn=dn, hint="it has another objectGUID"
        )

    def was_modified(
        self, dn: str, replacements: Mapping[str, Sequence[bytes]], deadline: float, url: str | None
    ) -> bool:
        """Return True if the object has the new values.

        Raises:
            ObjectNotFound: there is no such object.
        """
        stored = self._read_entry(dn, tuple(replacements), deadline, url)
        if stored is None:
            raise ObjectNotFound("modify failed: there is no such object", dn=dn)
        return self._knowledge.profile.holds(stored.attributes, replacements)

    def was_deleted(self, dn: str, deadline: float, url: str | None) -> bool:
        """Return True if the object does not exist any more."""
        return self._read_entry(dn, ("1.1",), deadline, url) is None

    def was_renamed(self, old: str, new: DN, deadline: float, url: str | None) -> bool:
        """Return True if the object has exactly its new name.

        The old name must not exist.
        """
        stored = self._read_entry(str(new), ("1.1",), deadline, url)
        if stored is None or stored.name.name != new.name:
            return False
        return DN.parse(old) == new or self._read_entry(old, ("1.1",), deadline, url) is None

    def _read_entry(
        self, dn: str, attributes: Sequence[str], deadline: float, url: str | None
    ) -> Entry | None:
        try:
            entries = self._reading.get_all(dn, attributes, deadline=deadline, url=url)
        except ObjectNotFound:
            return None
        return entries[0] if entries else None


def name_of(target: str | DN | Entry) -> str:
    """Return the DN of an object that is to be changed."""
    return target.dn if isinstance(target, Entry) else str(target)


def changes_of(guard: Guard, replacements: Mapping[str, Sequence[bytes]]) -> list[Modification]:
    """Return the modifications to new values.

    Guarded attributes must have their old values.
    """
    changes = []
    for attribute, new in replacements.items():
        if attribute in guard.old:
            pairs = ((ChangeType.DELETE, guard.old[attribute]), (ChangeType.ADD, new))
            changes += [Modification(kind, attribute, values) for kind, values in pairs if values]
        else:
            changes.append(Modification(ChangeType.REPLACE, attribute, new))
    return changes


def _is_made_as_sent(stored: Entry, sent: Mapping[str, Sequence[bytes]], dn: str) -> bool:
    """Return True if an object has the sent values.

    ObjectAlreadyExists is raised otherwise.
    """
    if is_as_sent(stored.attributes, sent):
        return True
    raise ObjectAlreadyExists(
        "add failed: an object of that name exists, with other values",
        dn=dn,
        hint="it was there before, or somebody has changed it since it was made here",
    )
