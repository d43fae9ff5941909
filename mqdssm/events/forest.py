"""Access to objects of all domains through a global catalog (decisions M8, M73).

A catalog holds each object of the forest, with a part of its attributes. What it does not hold is read from
the domain controller where the object is of its domain; of other domains it is not known, which is never
taken for "unset".
"""

from collections.abc import Sequence
from uuid import UUID

from mqdssm.directory.entries import Entry, parse_name
from mqdssm.directory.filters import LdapFilter
from mqdssm.directory.session import Session
from mqdssm.errors import ObjectNotFound
from mqdssm.events.context import Context
from mqdssm.model.dn import DN
from mqdssm.tables.places import is_in_configuration


def choose_search_session(ctx: Context, ldap_class: str) -> Session:
    """Return the session for searching objects of a class.

    The global catalog is searched, if there is one.
    """
    return (None if is_in_configuration(ldap_class) else ctx.session.catalog) or ctx.session


def is_elsewhere(ctx: Context, dn: str | DN) -> bool:
    """Return True if a name belongs to another domain.

    Only the catalog has such an object.
    """
    if not ctx.session.options.forest:
        return False
    parsed = dn if isinstance(dn, DN) else parse_name(dn)
    return ctx.session.naming.find_other_domain(parsed) is not None


def choose_object_session(ctx: Context, dn: str | DN) -> Session:
    """Return the session that reads the object with a name."""
    return (ctx.session.catalog if is_elsewhere(ctx, dn) else None) or ctx.session


def get(ctx: Context, target: str | DN | UUID, attributes: Sequence[str], object_filter: LdapFilter) -> Entry:
    """Read one object of the forest.

    An object of the own domain is whole. Of another one's object the part is read that catalogs hold.

    Args:
        ctx: of the directory.
        target: its DN or its objectGUID.
        attributes: to return.
        object_filter: condition that the object must satisfy, of attributes that a catalog holds.

    Raises:
        ObjectNotFound: there is no such object.
    """
    if not isinstance(target, UUID):
        return choose_object_session(ctx, target).get(target, attributes, object_filter=object_filter)
    if not ctx.session.options.forest:
        return ctx.session.get(target, attributes, object_filter=object_filter)
    try:
        # an objectGUID anywhere counts more than one that an object of this domain had elsewhere (M37)
        return ctx.session.get(target, attributes, object_filter=object_filter, only_own=True)
    except ObjectNotFound:
        catalog = ctx.session.catalog or ctx.session
        entry = catalog.get(target, attributes, object_filter=object_filter)
    if is_elsewhere(ctx, entry.dn):
        return entry
    return ctx.session.get(entry.dn, attributes, object_filter=object_filter)
