"""New objects and their GUIDs: ours, one that the object had before, or the server's (decision M37)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from mqdssm.errors import DirectoryError, ObjectAlreadyExists, ObjectNotFound

if TYPE_CHECKING:
    from mqdssm.directory.session import Session


class Identities:
    """Finds out once whether a directory keeps a GUID that we send, and acts on it."""

    def __init__(self, session: "Session") -> None:
        """Nothing is known yet."""
        self._session = session
        self._keeps: bool | None = None

    @property
    def keeps_guids(self) -> bool:
        """Whether an objectGUID sent with an add may become the object's.

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
        """Add an object, with its GUID where the directory lets us.

        Args:
            dn: its name.
            ldap_class: its class.
            attributes: all others.
            identifier: a GUID that it shall keep, or at least say that it had.

        Returns:
            Its objectGUID, None where the server made it.

        Raises:
            DirectoryError: as `Session.add`.
        """
        profile = self._session.profile
        asks = identifier is not None or profile.makes_guid
        keeps = asks and self.keeps_guids
        identity = profile.identity(ldap_class, identifier, keeps_guids=keeps)
        complete = {**attributes, "objectClass": (ldap_class.encode(),)}
        try:
            self._session.add(dn, complete | identity)
        except (ObjectAlreadyExists, ObjectNotFound):
            raise
        except DirectoryError as error:
            if not keeps or not profile.refuses_guid(error):
                raise
            # is it the GUID? then the object goes in without; else the next error is the one that counts
            identity = profile.identity(ldap_class, identifier, keeps_guids=False)
            self._session.add(dn, complete | identity)
            self._keeps = False
        sent = identity.get("objectGUID")
        return UUID(bytes_le=sent[0]) if sent else None
