"""GUIDs of new objects: generated, kept, or made by the server (decision M37)."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from mqdssm.directory.filters import any_of
from mqdssm.directory.requests import make_entry
from mqdssm.errors import DirectoryError, ObjectAlreadyExists, ObjectNotFound

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

log = logging.getLogger(__name__)


class Identities:
    """Adds objects with their GUIDs, if the directory keeps a GUID that is sent."""

    def __init__(self, session: "Session") -> None:
        """Initialize without any request."""
        self._session = session
        self._keeps: bool | None = None

    @property
    def keeps_guids(self) -> bool:
        """True if the server keeps an objectGUID that is sent with an add.

        Raises:
            DirectoryError: it cannot be found out.
        """
        if self._keeps is None:
            self._keeps = self._session.profile.keeps_guids(self._session)
        return self._keeps

    def create(
        self,
        dn: str,
        ldap_class: str,
        attributes: Mapping[str, Sequence[bytes]],
        identifier: UUID | None = None,
    ) -> UUID | None:
        """Add an object, with its GUID if the directory allows it.

        Args:
            dn: its name.
            ldap_class: its class.
            attributes: all others.
            identifier: a GUID that it shall keep, or at least say that it had.

        Returns:
            Its objectGUID, None where the server made it.

        Raises:
            ObjectAlreadyExists: an object of that name, or one that is found by that GUID, exists.
            DirectoryError: as `Session.add`.
            ValueError: the null GUID.
        """
        if identifier is not None and not identifier.int:
            raise ValueError(f"{dn}: the null GUID identifies nothing")
        profile = self._session.profile
        asks = identifier is not None or profile.makes_guid
        keeps = asks and self.keeps_guids
        identity = profile.identity(ldap_class, identifier, keeps_guids=keeps)
        if identifier is not None and identity:
            self._refuse_taken(dn, identifier)
        complete = make_entry((ldap_class,), attributes)
        try:
            self._session.add(dn, complete | identity)
        except (ObjectAlreadyExists, ObjectNotFound):
            raise
        except DirectoryError as error:
            if not keeps or not profile.is_guid_refusal(error):
                raise
            # if the GUID was refused, the add works without it; otherwise its error is raised
            identity = profile.identity(ldap_class, identifier, keeps_guids=False)
            self._session.add(dn, complete | identity)
            self._keeps = False
        if identifier is not None and not identity:
            log.warning(
                "%s: this server makes GUIDs itself, and the object has no place for the one it brought: "
                "nothing will find it by %s, so refer to it by its new one",
                dn,
                identifier,
            )
        sent = identity.get("objectGUID")
        return UUID(bytes_le=sent[0]) if sent else None

    def _refuse_taken(self, dn: str, identifier: UUID) -> None:
        """Raise ObjectAlreadyExists if a GUID finds an object.

        The server checks objectGUID itself.
        """
        session = self._session
        target = session.profile.build_guid_target(session.naming, identifier)
        if target.otherwise is None:
            return
        search_filter = any_of(target.filter, target.otherwise.filter)
        for base in target.otherwise.bases:
            for entry in session.find(base, search_filter, ["1.1"]):
                raise ObjectAlreadyExists(
                    f"add failed: another object has, or had, the GUID {identifier}",
                    dn=dn,
                    hint=f"it is {entry.dn}; leave the Identifier out, and the server makes a new one",
                )
