"""Join tokens, with which a directory server on another host is added."""

import os
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command, open_standard_input
from mqdssm.cli.server.control import open_control_client
from mqdssm.cli.server.plans import DryRun, print_plan

if TYPE_CHECKING:
    from mqdssm.engines.replication.settings import Role
    from mqdssm.server.join_token import TokenClaims
    from mqdssm.server.token_client import TokenClient

HOURS: Final = 24
HOURS_MAX: Final = 168


class AddedRole(StrEnum):
    """Role of a directory server that is added."""

    PSC = "psc"
    BSC = "bsc"

    @property
    def server_role(self) -> "Literal[Role.PSC, Role.BSC]":
        """The role as servers name it."""
        from mqdssm.engines.replication.settings import Role

        return Role.PSC if self is AddedRole.PSC else Role.BSC


NewRole = Annotated[AddedRole, typer.Option("--role", help="psc for a new site, bsc for a further server.")]
Site = Annotated[str, typer.Option("--site", metavar="NAME", help="Site of the new server.")]
Machine = Annotated[str, typer.Option("--machine", metavar="NAME", help="Machine of the new server.")]
Server = Annotated[
    Path, typer.Option("--server", metavar="SOCKET", help="Control socket of the PEC, for a BSC of its PSC.")
]
To = Annotated[Path, typer.Option("--to", metavar="FILE", help="New file for the token; - prints it.")]
Address = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="ADDRESS:PORT",
        help="Where the new server reaches this one. Default: where it listens.",
    ),
]
Hours = Annotated[int, typer.Option("--hours", min=1, max=HOURS_MAX, help="Hours until the token expires.")]


def make_token(
    run: CommandRun,
    *,
    role: NewRole,
    site: Site,
    machine: Machine,
    server: Server,
    to: To,
    address: Address = "",
    hours: Hours = HOURS,
    dry_run: DryRun = False,
) -> None:
    """Make a join token for a directory server on another host.

    The token is secret, and can be used once (add-server --token). It names role, site and machine of the new
    server, the address of this one, and the fingerprint of its key. Another token for the same machine
    becomes worthless.
    """
    from pydantic import ValidationError

    from mqdssm.server.control_protocol import TokenRequest, problem_of

    try:
        request = TokenRequest(
            role=role.server_role,
            site=site,
            machine_name=machine,
            address=address,
            valid_s=hours * 3600,
        )
    except ValidationError as error:
        raise UsageProblem(problem_of(error)) from None
    is_printed = str(to) == "-"
    if not is_printed and to.exists():
        raise UsageProblem(f"--to {to} exists: name a new file")
    if dry_run:
        with open_control_client(server) as client, convert_usage_problems():
            client.check(request)
        print_plan(
            run,
            [
                f"make a join token for the {role} {machine} of {site}",
                "write it to standard output" if is_printed else f"write {to}",
            ],
            [],
        )
        return
    with open_control_client(server) as client, convert_usage_problems():
        reply = client.make_token(request)
    if is_printed:
        run.output.raw(reply.token + "\n")
        return
    _write(to, reply.token)
    expires = datetime.fromtimestamp(reply.expires, UTC)
    run.output.answer(
        {"token": str(to), "expires": expires.isoformat(), "fingerprint": reply.fingerprint},
        f"wrote {to}, which expires at {expires:%Y-%m-%d %H:%M} UTC",
        f"On the new host: mqdssm enterprise add-server DIR --token {to.name} --listen ADDRESS:PORT",
        f"The key of {client.machine_name} is {reply.fingerprint}",
    )


def _write(file: Path, token: str) -> None:
    """Write a token to a new file that only its owner can read.

    Raises:
        UsageProblem: it cannot be written.
    """
    try:
        with open(file, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
            opened.write(token + "\n")
    except OSError as error:
        raise UsageProblem(f"--to {file} cannot be written: {error.strerror}; make the token again") from None


def withdraw_token(run: CommandRun, *, machine: Machine, server: Server, dry_run: DryRun = False) -> None:
    """Withdraw the join token for a machine: it becomes worthless."""
    with open_control_client(server) as client:
        client.withdraw_token(machine, dry_run=dry_run)
    if dry_run:
        print_plan(run, [f"{client.machine_name} withdraws the join token for {machine}"], [])
        return
    run.output.answer({"machine": machine}, f"the join token for {machine} is withdrawn")


def make_token_client(
    run: CommandRun, file: Path, key_file: Path, listen: str, given: tuple[AddedRole | None, str, str]
) -> tuple["TokenClient", "TokenClaims"]:
    """Return the client of a join token, and what the token states.

    Args:
        run: the command, which prints the fingerprint of the other server's key.
        file: the token; "-" for standard input.
        key_file: private key of the new server.
        listen: where the new server listens.
        given: role, site and machine by the options; empty: as the token says.

    Raises:
        ConfigError: no token that can be used.
        UsageProblem: the token is for another role, site or machine.
    """
    from mqdssm.server.join_token import TOKEN_BYTES_MAX, JoinToken
    from mqdssm.server.token_client import TokenClient, read_token

    if str(file) == "-":
        data = open_standard_input().read(TOKEN_BYTES_MAX + 1)
        token = JoinToken.parse(data.decode("ascii", errors="replace"))
    else:
        token = read_token(file)
    claims = token.claims
    _check_claims(claims, *given)
    run.output.note(f"{claims.server_name} at {claims.address} has to prove its key {claims.fingerprint}")
    return TokenClient(token, key_file, listen=listen), claims


def _check_claims(claims: "TokenClaims", role: AddedRole | None, site: str, machine: str) -> None:
    """Compare a token with the options.

    Raises:
        UsageProblem: an option names another role, site or machine.
    """
    named = claims.role.value.lower()
    for given, name in ((role, named), (site, claims.site), (machine, claims.machine_name)):
        if given and given != name:
            raise UsageProblem(
                f"the join token is for the {named} {claims.machine_name} of {claims.site}, not for {given}"
            )


def add_token_commands(group: typer.Typer) -> None:
    """Add the commands of this module to a group."""
    named = "--role psc --site Paris --machine PSC01 --server pec/control.sock --to psc01.token"
    declare_command(
        make_token,
        group=group,
        name="make-token",
        connects=False,
        examples=(f"mqdssm enterprise make-token {named}",),
    )
    declare_command(
        withdraw_token,
        group=group,
        name="withdraw-token",
        connects=False,
        examples=("mqdssm enterprise withdraw-token --machine PSC01 --server pec/control.sock",),
    )
