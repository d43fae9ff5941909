"""Bases of the searches for the objects of a type, and the meaning of a missing base."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from mqdssm.directory.session import Session
from mqdssm.errors import ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.pipeline.frames.columns import FrameType
from mqdssm.tables.places import search_base


@dataclass(frozen=True, slots=True)
class Base:
    """Base of a search.

    Attributes:
        dn: its name.
        named_by: how the user named it; empty if the user did not, and the type decides.
    """

    dn: DN
    named_by: str = ""

    @contextlib.contextmanager
    def perhaps_absent(self) -> Iterator[None]:
        """Search below the base: without its entry there are no objects ([MS-MQDSSM] 3.1.6.4.x.2).

        Raises:
            ObjectNotFound: the user named the base. A mistyped base must not look like a directory
                without objects.
        """
        try:
            yield
        except ObjectNotFound as error:
            if not self.named_by:
                return
            raise ObjectNotFound(
                f"{self.named_by} is not there, or this user may not see it",
                dn=str(self.dn),
                ldap_code=error.ldap_code,
                server_text=error.server_text,
                hint=error.hint,
            ) from error


def bases_of(session: Session, frame: FrameType, chosen: str | DN | None = None) -> tuple[Base, ...]:
    """Return the bases of the objects of a type ([MS-MQDSSM] 3.1.6.15): several only for raw entries.

    Args:
        session: with the server.
        frame: the type.
        chosen: base that the user chose; None: the type decides.
    """
    if chosen is not None:
        return (Base(chosen if isinstance(chosen, DN) else DN.parse(chosen), "the base of the search"),)
    naming = session.naming
    if frame.ldap_class is None:
        found = naming.guid_bases
    else:
        found = (search_base(frame.ldap_class, naming.root, naming.configuration),)
    was_chosen = session.options.naming_context is not None
    words = "the naming context that was chosen"
    return tuple(Base(one, words if was_chosen and one == naming.root else "") for one in found)
