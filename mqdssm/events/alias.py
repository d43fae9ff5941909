"""Resolve Queue Alias and Resolve Distribution List.

See [MS-MQDSSM] 3.1.6.8 and 3.1.6.9.
"""

import logging
from collections.abc import Iterator, Sequence
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import any_of
from mqdssm.errors import AttributeNotFound, GenericDirectoryError
from mqdssm.events import forest
from mqdssm.events.context import Context
from mqdssm.events.references import BATCH_TERMS, key_of, split_into_batches
from mqdssm.model.dn import DN
from mqdssm.model.names import DistributionListFormatName, PublicFormatName, parse_format_name
from mqdssm.tables.schema import ALIAS_CLASS, ALIAS_FORMAT_NAME, GROUP_CLASS, GROUP_MEMBER, QUEUE_CLASS

log = logging.getLogger(__name__)

_MEMBER_ATTRIBUTES = ("objectClass", "objectGUID", ALIAS_FORMAT_NAME, GROUP_MEMBER)


def resolve_queue_alias(ctx: Context, full_path: str) -> str:
    """Return the format name of a queue alias ([MS-MQDSSM] 3.1.6.8).

    Args:
        ctx: the surroundings.
        full_path: DN of the msMQ-Custom-Recipient object.

    Raises:
        ObjectNotFound: nothing is there.
        AttributeNotFound: the object has no format name.
        ValueError: no DN.
    """
    dn = DN.parse(full_path)
    if not dn:
        raise ValueError("the distinguished name of the queue alias is empty")
    entry = ctx.session.get(dn, [ALIAS_FORMAT_NAME])
    try:
        return _format_name(entry)
    except AttributeNotFound as error:
        error.hint = ctx.session.profile.hidden_hint
        raise


def resolve_distribution_list(ctx: Context, format_name: str) -> list[str]:
    """Return the queues of a distribution list ([MS-MQDSSM] 3.1.6.9).

    Queues of nested lists are included.

    Each queue is returned once, in the order of its first occurrence; a list may contain itself (M19).
    Missing members are skipped (M40).

    Args:
        ctx: the surroundings.
        format_name: ``DL=<GUID>``.

    Raises:
        ObjectNotFound: there is no such list.
        GenericDirectoryError: a member is neither queue, alias nor list.
        ValueError: no distribution list format name.
    """
    identifier = _list_identifier(format_name)
    of_class = ctx.session.profile.build_class_filter(GROUP_CLASS)
    group = ctx.session.get(identifier, [GROUP_MEMBER], object_filter=of_class)
    format_names: dict[str, None] = {}
    seen = {key_of(group.dn)}
    # not recursion: nested lists may be as deep as there are groups
    pending: list[Iterator[Entry]] = [_read_members(ctx, group)]
    while pending:
        member = next(pending[-1], None)
        if member is None:
            pending.pop()
        elif _is(member, GROUP_CLASS):
            key = key_of(member.dn)
            if key not in seen:
                seen.add(key)
                pending.append(_read_members(ctx, member))
        else:
            format_names[_make_queue_format_name(member)] = None
    return list(format_names)


def _list_identifier(format_name: str) -> UUID:
    match parse_format_name(format_name):
        case DistributionListFormatName(guid=guid):
            return guid
        case _:
            raise ValueError(f"{format_name!r} is no distribution list: DL=<GUID> is expected")


def _read_members(ctx: Context, group: Entry) -> Iterator[Entry]:
    """Yield the existing members of a group, in the group's order.

    One search reads all members if the server supports it (decision M76). The rest is read in batches by
    name.
    """
    names = [value.decode(errors="replace") for value in group.all(GROUP_MEMBER)]
    entries_by_name = _read_dereferenced(ctx, group) if names else {}
    for batch in split_into_batches(names, BATCH_TERMS):
        other_entries = _find_members(ctx, [name for name in batch if key_of(name) not in entries_by_name])
        for name in batch:
            key = key_of(name)
            entry = entries_by_name.get(key) or other_entries.get(key)
            if entry is None:
                log.warning("%s: member %s does not exist any more", group.dn, name)
            else:
                yield entry


def _read_dereferenced(ctx: Context, group: Entry) -> dict[str, Entry]:
    """Read the members that the server returns in one search."""
    entries_by_name: dict[str, Entry] = {}
    try:
        for entry in ctx.session.find_named(group.dn, GROUP_MEMBER, _MEMBER_ATTRIBUTES) or ():
            if not forest.is_elsewhere(ctx, entry.dn):
                entries_by_name[key_of(entry.dn)] = entry
    except GenericDirectoryError as error:
        if error.ldap_code is None:
            raise
        # members of another domain can cause this error: they are found by name
        log.info("%s: its members are looked up by name: %s", group.dn, error)
    return entries_by_name


def _find_members(ctx: Context, names: Sequence[str]) -> dict[str, Entry]:
    if not names:
        return {}
    entries: dict[str, Entry] = {}
    elsewhere = [name for name in names if forest.is_elsewhere(ctx, name)]
    local_names = [name for name in names if name not in elsewhere]
    for session, listed in ((ctx.session, local_names), (ctx.session.catalog, elsewhere)):
        if session is None or not listed:
            continue
        search_filter = any_of(*(session.profile.build_dn_filter(name) for name in listed))
        for base in session.naming.guid_bases:
            for entry in session.find(base, search_filter, _MEMBER_ATTRIBUTES):
                entries[key_of(entry.dn)] = entry
    for name in elsewhere:
        member = entries.get(key_of(name))
        if member is not None and not _is(member, QUEUE_CLASS):
            raise GenericDirectoryError(
                "a member of the distribution list is in another domain and no queue: a global catalog does "
                "not hold what it stands for",
                dn=member.dn,
                hint="connect to a domain controller of that domain",
            )
    return entries


def _is(entry: Entry, ldap_class: str) -> bool:
    """Return True if a class is among the values of objectClass (M20)."""
    return any(
        value.decode(errors="replace").lower() == ldap_class.lower() for value in entry.all("objectClass")
    )


def _make_queue_format_name(member: Entry) -> str:
    if _is(member, QUEUE_CLASS):
        raw = member.first("objectGUID")
        if raw is None or len(raw) != 16:
            raise GenericDirectoryError("a member of the distribution list has no objectGUID", dn=member.dn)
        return str(PublicFormatName(UUID(bytes_le=raw)))
    if _is(member, ALIAS_CLASS):
        try:
            return _format_name(member)
        except AttributeNotFound as error:
            raise GenericDirectoryError(
                "an alias in the distribution list has no format name", dn=member.dn
            ) from error
    classes = ", ".join(value.decode(errors="replace") for value in member.all("objectClass"))
    raise GenericDirectoryError(
        f"a member of the distribution list is neither queue, alias nor group but {classes}", dn=member.dn
    )


def _format_name(entry: Entry) -> str:
    value = entry.first(ALIAS_FORMAT_NAME)
    if value is None:
        raise AttributeNotFound(
            f"the object has no {ALIAS_FORMAT_NAME}: it is no usable queue alias", dn=entry.dn
        )
    return value.decode()
