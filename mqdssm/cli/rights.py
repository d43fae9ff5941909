"""``mqdssm rights``: who may use an object, and what a user may do."""

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.exits import ExitCode, UsageProblem
from mqdssm.cli.objects.arguments import CommandType, assignments_of
from mqdssm.cli.objects.filters import build_equal_filters
from mqdssm.cli.run import CommandRun, declare_command

if TYPE_CHECKING:
    from mqdssm.diagnostics.object_rights import Grant, ObjectAccess, ObjectRights
    from mqdssm.events.facade import Directory


class RightsType(StrEnum):
    """Type of object whose rights can be asked for."""

    QUEUE = "queue"
    QUEUE_MANAGER = "queue-manager"


NAMES: Final = {RightsType.QUEUE: "Pathname", RightsType.QUEUE_MANAGER: "ComputerName"}
CLASSES: Final = {RightsType.QUEUE: "mSMQQueue", RightsType.QUEUE_MANAGER: "mSMQConfiguration"}
ACCOUNTS: Final = ("account", "kind", "right", "by")
OBJECTS: Final = ("object", "right", "by")
MEMBERS: Final = 1_000


def rights(
    run: CommandRun,
    *,
    kind: Annotated[
        RightsType | None, typer.Argument(metavar="[TYPE]", help="Type of object: queue or queue-manager.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help=r"Path name of the queue, as web01\orders, or name of the computer; or Attribute=Value.",
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option("--of", metavar="USER", help="What this user may do: a name, user@domain, DN or SID."),
    ] = None,
    right: Annotated[
        str | None, typer.Option("--right", metavar="NAME", help="Only this right, as Send or Receive.")
    ] = None,
    members: Annotated[
        int,
        typer.Option(
            "--members", metavar="N", min=1, help="Members of a group above which it is not expanded."
        ),
    ] = MEMBERS,
) -> int:
    """Show who may use a queue or a machine, or what a user may do.

    Groups are expanded, also groups in groups. Nothing is changed.
    """
    if kind is None and of is None:
        raise UsageProblem("name a queue or a queue-manager, or a user with --of")
    if kind is not None and name is None and of is None:
        raise UsageProblem(f"which {kind.value}? give its name, or a user with --of")
    kinds = list(RightsType) if kind is None else [kind]
    _check_right(kinds, right)
    with run.connect() as directory:
        if of is not None:
            _show_user(run, directory, kinds, (name, of, right))
            return ExitCode.FINE
        from mqdssm.diagnostics.accounts import AccountDirectory
        from mqdssm.diagnostics.object_rights import AccessReader, find_object_rights

        access = AccessReader(directory.session).read(
            CLASSES[kinds[0]], _find_dn(directory, kinds[0], name or "")
        )
        accounts = AccountDirectory(directory.session, members_max=members)
        owner = None if access.owner is None else accounts.by_sid(access.owner).title
        _show_object(run, find_object_rights(access, accounts), right, owner=owner)
    return ExitCode.FINE


def _check_right(kinds: list[RightsType], right: str | None) -> None:
    from mqdssm.diagnostics.object_rights import RIGHTS

    names = dict.fromkeys(name for kind in kinds for name in RIGHTS[CLASSES[kind]])
    if right is not None and right not in names:
        raise UsageProblem(f"{right!r} is no right: use one of {', '.join(names)}")


def _find_dn(directory: "Directory", kind: RightsType, name: str) -> str:
    command_type = CommandType(kind.value)
    text = name if "=" in name else f"{NAMES[kind]}={name}"
    filters = build_equal_filters(command_type, assignments_of(command_type, [text]))
    target: Any = directory.read(command_type.element, filters, attributes=["FullPath"])
    return str(target.full_path)


# -- one object


def _show_object(run: CommandRun, answer: "ObjectRights", right: str | None, *, owner: str | None) -> None:
    access, output = answer.access, run.output
    if output.is_json:
        output.document(
            {
                "object": access.name,
                "dn": access.dn,
                "owner": owner,
                "problem": access.problem or None,
                "accounts": [_record(grant, right) for grant in answer.grants if _is_about(grant, right)],
                "not_expanded": dict(answer.not_expanded),
            }
        )
        return
    output.rows(ACCOUNTS, _build_account_rows(answer.grants, right))
    if access.problem:
        output.note(f"warning: {access.problem}: who may use {access.name} is not known")
    for group, reason in answer.not_expanded.items():
        output.note(f"not expanded: {group}: {reason}; --members sets the limit")
    output.note(f"owner of {access.name}: {owner or 'none'}")


def _build_account_rows(grants: "Iterable[Grant]", right: str | None) -> Iterator[tuple[str, ...]]:
    for grant in grants:
        for names, reason in _group_by_reason(grant, right):
            yield grant.account.title, grant.account.kind, names, reason


def _group_by_reason(grant: "Grant", right: str | None) -> Iterator[tuple[str, str]]:
    """Yield rights that have one reason together, then refusals."""
    for sign, reasons in (("", grant.by), ("not ", grant.refused)):
        by_reason: dict[str, list[str]] = {}
        for name, reason in reasons.items():
            if right in {None, name}:
                by_reason.setdefault(reason, []).append(f"{sign}{name}")
        for reason, names in by_reason.items():
            yield ", ".join(names), reason


def _is_about(grant: "Grant", right: str | None) -> bool:
    return right is None or right in grant.by or right in grant.refused


def _record(grant: "Grant", right: str | None) -> dict[str, Any]:
    return {
        "account": grant.account.name,
        "sid": grant.account.sid.text,
        "kind": grant.account.kind,
        "dn": grant.account.dn or None,
        **_build_record(grant, right),
    }


def _build_record(grant: "Grant", right: str | None) -> dict[str, Any]:
    return {
        "rights": {name: reason for name, reason in grant.by.items() if right in {None, name}},
        "refused": {name: reason for name, reason in grant.refused.items() if right in {None, name}},
    }


# -- one user


def _show_user(
    run: CommandRun,
    directory: "Directory",
    kinds: list[RightsType],
    question: tuple[str | None, str, str | None],
) -> None:
    from mqdssm.diagnostics.accounts import AccountDirectory
    from mqdssm.diagnostics.object_rights import AccessReader, UserRights

    name, user, right = question
    accounts = AccountDirectory(directory.session)
    user_rights = UserRights(accounts.find(user), accounts)
    reader = AccessReader(directory.session)

    def grants() -> "Iterator[tuple[ObjectAccess, Grant]]":
        for kind in kinds:
            ldap_class = CLASSES[kind]
            several = (
                reader.read_all(ldap_class)
                if name is None
                else [reader.read(ldap_class, _find_dn(directory, kind, name))]
            )
            for access in several:
                grant = user_rights.on(access)
                if any(True for _ in _group_by_reason(grant, right)):
                    yield access, grant

    output = run.output
    if output.is_json:
        output.json_array(
            json.dumps(
                {"object": access.name, "dn": access.dn, **_build_record(grant, right)}, ensure_ascii=False
            )
            for access, grant in grants()
        )
        return
    count = output.rows(
        OBJECTS,
        (
            (access.name, names, reason)
            for access, grant in grants()
            for names, reason in _group_by_reason(grant, right)
        ),
    )
    groups = ", ".join(sorted(membership.account.name for membership in user_rights.memberships))
    output.note(f"{user_rights.account.title}, in {groups}: {count} line{'' if count == 1 else 's'}")


app = declare_command(
    rights,
    examples=(
        r"mqdssm rights queue 'web01\orders'",
        r"mqdssm rights queue 'web01\orders' --right Send -o json",
        "mqdssm rights --of ann@contoso.test",
        "mqdssm rights queue-manager web01 --of 'Domain Users'",
    ),
)
