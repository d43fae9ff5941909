"""Names of the computers that a watch is limited to."""

import logging
from collections.abc import Iterable
from typing import Final

from mqdssm.directory.filters import And, Equal, LdapFilter, Substrings, any_of
from mqdssm.directory.session import Session
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.events.context import Context
from mqdssm.events.machines import COMPUTER_CLASS, find_machine

log: Final = logging.getLogger(__name__)

_ALIKE_MAX: Final = 3
"""Maximum computers that a warning names."""


def names_of_computers(session: Session, names: Iterable[str]) -> tuple[frozenset[str], dict[str, str]]:
    """Find computers by their names, as all events find them (decision M16).

    Returns:
        The names that the entries of these computers have, in lower case. For each name that no computer has:
        a warning.
    """
    ctx = Context(session)
    found: set[str] = set()
    warnings: dict[str, str] = {}
    for name in names:
        try:
            found.add(find_machine(ctx, name).dn.name.lower())
        except ObjectNotFound:
            warnings[name] = _warning(session, name)
        except GenericDirectoryError as error:
            if error.ldap_code is not None:
                raise  # a refusal of the server
            log.info("%s: only its name counts", error)
    return frozenset(found), warnings


def _warning(session: Session, name: str) -> str:
    alike = _names_alike(session, name)
    other = f"; did you mean {' or '.join(alike)}?" if alike else ""
    return f"there is no computer named {name!r}: nothing is told of it until there is one{other}"


def _names_alike(session: Session, name: str) -> list[str]:
    """Return the names of computers with a similar DNS or NetBIOS name."""
    label = name.partition(".")[0].encode()
    tests: list[LdapFilter] = [Equal("dNSHostName", name.encode())]
    if label:
        longer = label + b"."
        tests += [Equal("cn", label), Substrings("cn", longer), Substrings("dNSHostName", longer)]
    wanted = And((session.profile.class_filter(COMPUTER_CLASS), any_of(*tests)))
    found = list(session.find(session.naming.root, wanted, ["cn"]))
    return [entry.name.name for entry in found[:_ALIKE_MAX]]
