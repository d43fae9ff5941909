"""Check that a plan for the replacement of a server does nothing else.

Such a plan moves one queue manager. All other operations have to follow from the move.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from mqdssm.events.encode import DESCRIPTOR
from mqdssm.model.dn import DN, domain_of
from mqdssm.model.elements import RoutingLink
from mqdssm.model.names import DirectFormatName, parse_format_name
from mqdssm.pipeline.migrate.moves import Move, is_queue_manager_place, move_values
from mqdssm.pipeline.migrate.plan_file import PlanAction, PlanOperation
from mqdssm.tables import TABLES
from mqdssm.tables.dependent_objects import SERVER_CLASS, SETTINGS_CLASS, SETTINGS_OWNER
from mqdssm.tables.references import REFERENCES, ReferenceForm
from mqdssm.tables.schema import (
    ALIAS_CLASS,
    ALIAS_FORMAT_NAME,
    GROUP_CLASS,
    GROUP_MEMBER,
    MANAGER_CLASS,
    QUEUE_CLASS,
)
from mqdssm.tables.syntax import GUID

OF_INSTALLATION: Final = ("mSMQEncryptKey", "mSMQOSType", "mSMQComputerTypeEx")
"""Attributes that the installation of MSMQ on a computer writes: those of the new computer count."""

ALLOWED_ACTIONS: Final[Mapping[str, frozenset[str]]] = {
    MANAGER_CLASS.lower(): frozenset({PlanAction.MOVE, PlanAction.MODIFY, PlanAction.DELETE}),
    QUEUE_CLASS.lower(): frozenset({PlanAction.MODIFY}),
    SETTINGS_CLASS.lower(): frozenset({PlanAction.ADD, PlanAction.MODIFY, PlanAction.DELETE}),
    SERVER_CLASS: frozenset({PlanAction.ADD, PlanAction.DELETE}),
    TABLES[RoutingLink].ldap_class.lower(): frozenset({PlanAction.MODIFY}),
    GROUP_CLASS.lower(): frozenset({PlanAction.MODIFY}),
    ALIAS_CLASS.lower(): frozenset({PlanAction.MODIFY}),
}
"""Object class -> actions that a plan for a replacement may have for it."""
_REFERENCES: Final[Mapping[str, frozenset[str]]] = {
    GROUP_CLASS.lower(): frozenset({GROUP_MEMBER}),
    **{
        ldap_class.lower(): frozenset(
            reference.attribute
            for reference in references.values()
            if reference.form is ReferenceForm.DN and reference.ldap_class == MANAGER_CLASS
        )
        for ldap_class, references in REFERENCES.items()
    },
}
"""Object class -> its attributes with DNs of queue managers or queues."""


def find_foreign(operations: Iterable[PlanOperation], root: DN, configuration: DN) -> str:
    """Return the first operation that does not follow from the move of a plan.

    The result is in words; it is empty if there is none.

    Args:
        operations: all operations of the plan; their classes and places were checked.
        root: DN below which computers are.
        configuration: the configuration naming context.
    """
    listed = list(operations)
    moves = [operation for operation in listed if operation.action == PlanAction.MOVE]
    if not listed:
        return ""
    if len(moves) != 1:
        return f"move {len(moves)} queue managers"
    try:
        move = Move.of(moves[0])
    except ValueError as error:
        return f"move {moves[0].dn}: {error}"
    is_in_domain = move.new.is_below(root) and not move.new.is_at_or_below(configuration)
    if not (is_in_domain and is_queue_manager_place(move.new) and domain_of(move.new) == domain_of(move.old)):
        return f"move {move.old} to {move.new}"
    for operation in listed:
        if operation.action != PlanAction.MOVE and not _matches_move(operation, move):
            return f"{operation.action} {operation.dn}, of class {operation.ldap_class}"
    return ""


def _matches_move(operation: PlanOperation, move: Move) -> bool:
    """Return True if an operation follows from a move."""
    dn, ldap_class = DN.parse(operation.dn), operation.ldap_class.lower()
    if operation.later:
        return False
    if ldap_class in {SETTINGS_CLASS.lower(), SERVER_CLASS}:
        server = dn if ldap_class == SERVER_CLASS else dn.parent
        is_new = server.name.lower() == move.new.parent.name.lower()
        is_old = server.name.lower() == move.old.parent.name.lower()
        if operation.action == PlanAction.DELETE:
            return is_new or is_old
        is_owned = tuple(operation.values.get(SETTINGS_OWNER, ())) == (GUID.dump(move.guid),)
        return is_new and (ldap_class == SERVER_CLASS or is_owned)
    if operation.action == PlanAction.DELETE:
        return dn == move.new and operation.guid is not None and operation.guid != move.guid
    if ldap_class == ALIAS_CLASS.lower():
        return set(operation.values) == {ALIAS_FORMAT_NAME} and _is_renamed_alias(operation, move)
    own = {DESCRIPTOR, *OF_INSTALLATION} if dn == move.new else set()
    own = {DESCRIPTOR} if dn.is_below(move.new) else own
    return all(name in own or _is_moved(name, operation, move, ldap_class) for name in operation.values)


def is_host_of(host: str, computer: str) -> bool:
    """Return True if a host name, with or without domain, is that of a computer."""
    return host.partition(".")[0].lower() == computer.lower()


def _is_renamed_alias(operation: PlanOperation, move: Move) -> bool:
    """Return True if an alias changes to the name of the new computer alone."""
    try:
        old, new = (
            parse_format_name(b"".join(values.get(ALIAS_FORMAT_NAME, ())).decode())
            for values in (operation.before, operation.values)
        )
    except ValueError:
        return False
    if not (isinstance(old, DirectFormatName) and isinstance(new, DirectFormatName)):
        return False
    (old_host, _, old_port), (new_host, _, new_port) = (name.address.partition(":") for name in (old, new))
    is_of_move = is_host_of(old_host, move.old.parent.name) and is_host_of(new_host, move.new.parent.name)
    return is_of_move and old_port == new_port and replace(old, address=new.address) == new


def _is_moved(name: str, operation: PlanOperation, move: Move, ldap_class: str) -> bool:
    """Return True if new values differ from the present ones by the move alone."""
    before = operation.before.get(name, ())
    is_reference = name in _REFERENCES.get(ldap_class, ())
    return is_reference and tuple(operation.values[name]) == move_values([move], before)
