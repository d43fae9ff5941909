"""``mqdssm enterprise``: make directory servers, and change their roles."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command
from mqdssm.cli.server.control import open_control_client
from mqdssm.cli.server.plans import DryRun, print_plan
from mqdssm.cli.server.roles import add_role_commands
from mqdssm.cli.server.tokens import AddedRole, add_token_commands, make_token_client

app = typer.Typer(
    add_completion=False, help="Make the directory servers of an enterprise.", no_args_is_help=True
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="New folder of the server.")]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the enterprise.")]
Site = Annotated[str, typer.Option("--site", metavar="NAME", help="Site of the server.")]
Machine = Annotated[str, typer.Option("--machine", metavar="NAME", help="Machine of the server.")]
Listen = Annotated[
    str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Address for messages of other servers.")
]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        help="Directory of the server: a slapd with the schemas msmq and mqis. Default: a private one.",
    ),
]
User = Annotated[str, typer.Option("--user", metavar="DN", help="With --url: who logs in.")]
PasswordFile = Annotated[
    Path | None, typer.Option("--password-file", metavar="FILE", help="With --url: the password.")
]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", metavar="FILE", help="With --url: authorities to trust, PEM.")
]


def _answer(run: CommandRun, config_file: Path, steps: Sequence[str] = (), *, dry_run: bool = False) -> None:
    """Print the configuration file of a new server, and the command to start it.

    Of a dry run, print the steps.
    """
    if dry_run:
        print_plan(run, [*steps, f"make {config_file}"], [f"mqdssm serve {config_file}"])
        return
    run.output.answer(
        {"config": str(config_file)}, f"made {config_file}", f"Start the server: mqdssm serve {config_file}"
    )


NewRole = Annotated[
    AddedRole | None, typer.Option("--role", help="psc for a new site, bsc for a further server.")
]
NewSite = Annotated[str, typer.Option("--site", metavar="NAME", help="Its site. A token names it.")]
NewMachine = Annotated[str, typer.Option("--machine", metavar="NAME", help="Its machine. A token names it.")]
ThroughOrToken = Annotated[
    Path | None,
    typer.Option(
        "--through", metavar="SOCKET", help="Control socket of a server on this host, which admits."
    ),
]
Address = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="ADDRESS:PORT",
        help="Where the other servers reach it, also by a DNS name. Default: where it listens.",
    ),
]
Token = Annotated[
    Path | None,
    typer.Option(
        "--token", metavar="FILE", help="Join token of a server on another host; - for standard input."
    ),
]
Through = Annotated[
    Path, typer.Option("--through", metavar="SOCKET", help="Control socket of a directory server that runs.")
]
MachineArgument = Annotated[str, typer.Argument(metavar="MACHINE", help="Name of the machine.")]
AddressArgument = Annotated[str, typer.Argument(metavar="ADDRESS:PORT", help="Where it listens.")]


def init(
    run: CommandRun,
    *,
    folder: Folder,
    name: Name,
    site: Site,
    machine: Machine,
    listen: Listen = "0.0.0.0:1801",
    url: Url = "",
    user: User = "",
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    dry_run: DryRun = False,
) -> None:
    """Make the folder of the first directory server, the PEC of a new enterprise.

    Nothing is started. The server makes the enterprise, its site and its machine at its first start.
    """
    from mqdssm.server.config import StoreSection
    from mqdssm.server.setup import make_pec

    store = StoreSection(
        url=url,
        user=user,
        password_file=password_file.absolute() if password_file else None,
        ca_file=ca_file.absolute() if ca_file else None,
    )
    with convert_usage_problems():
        config_file = make_pec(
            folder.absolute(),
            enterprise=name,
            site=site,
            machine_name=machine,
            listen=listen,
            store=store,
            dry_run=dry_run,
        )
    _answer(run, config_file, [f"make a key in {folder}"], dry_run=dry_run)


declare_command(
    init,
    group=app,
    connects=False,
    examples=("mqdssm enterprise init pec --name Contoso --site Berlin --machine PEC01",),
)


def add_server(
    run: CommandRun,
    *,
    folder: Folder,
    listen: Listen,
    address: Address = "",
    role: NewRole = None,
    site: NewSite = "",
    machine: NewMachine = "",
    through: ThroughOrToken = None,
    token: Token = None,
    dry_run: DryRun = False,
) -> None:
    """Make the folder of another directory server, and its objects.

    A server that runs makes the objects. The PEC adds a PSC and its site, the PSC of a site its BSCs. The
    servers know each other's keys afterwards. Nothing is started. The server that admits is on this host
    (--through), or it has made a join token (make-token), which names role, site and machine. A dry run asks
    a server on this host if it admits the new one; one on another host is not asked.
    """
    from mqdssm.server import setup
    from mqdssm.server.folder import DirectoryServerFolder

    if (through is None) is (token is None):
        raise UsageProblem("give --through SOCKET or --token FILE")
    with ExitStack() as closing, convert_usage_problems():
        admitter: setup.Admitter
        checker: setup.Checker | None = None
        if token is not None:
            key_file = DirectoryServerFolder(folder.absolute()).key
            admitter, claims = make_token_client(run, token, key_file, listen, (role, site, machine))
            new_role, site, machine = claims.role, claims.site, claims.machine_name
        elif through is None or role is None or not site or not machine:
            raise UsageProblem("give --role, --site and --machine of the new server")
        else:
            admitter = checker = closing.enter_context(open_control_client(through))
            new_role = role.server_role
        names = {"site": site, "machine_name": machine, "listen": listen, "address": address}
        if dry_run:
            config_file = setup.check_addition(folder.absolute(), checker, role=new_role, **names)
        else:
            config_file = setup.add_server(folder.absolute(), admitter, role=new_role, **names)
    admitting = "the server that the token names" if checker is None else str(through)
    admits = f"have {admitting} admit {machine} as a {new_role.value} of {site}"
    steps = [f"make a key in {folder}", admits]
    _answer(run, config_file, steps, dry_run=dry_run)


declare_command(
    add_server,
    group=app,
    name="add-server",
    connects=False,
    examples=(
        "mqdssm enterprise add-server psc --role psc --site Paris --machine PSC01 …",
        "mqdssm enterprise add-server psc --listen 10.0.0.6:1801 --token psc01.token",
    ),
)


def add_host(
    run: CommandRun,
    *,
    machine: MachineArgument,
    address: AddressArgument,
    through: Through,
    dry_run: DryRun = False,
) -> None:
    """Let a directory server that runs remember the address of a machine, beside DNS."""
    with open_control_client(through) as client, convert_usage_problems():
        client.add_host(machine, address, dry_run=dry_run)
    if dry_run:
        print_plan(run, [f"{client.machine_name} remembers that {machine} is at {address}"], [])
        return
    run.output.answer({"machine": machine, "address": address}, f"{machine} is at {address}")


declare_command(
    add_host,
    group=app,
    name="add-host",
    connects=False,
    examples=("mqdssm enterprise add-host PSC02 10.0.0.8:1801 --through psc/control.sock",),
)

Source = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the directory server.")]
Target = Annotated[Path, typer.Option("--to", metavar="FILE", help="New file for the backup.")]
Backup = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]
NewFolder = Annotated[Path, typer.Argument(metavar="DIR", help="New folder of the directory server.")]


def backup(run: CommandRun, *, folder: Source, to: Target, dry_run: DryRun = False) -> None:
    """Back up a directory server with a private directory, also while it runs.

    The file has the directory, the configuration and the private key: keep it as secret as the key.
    """
    from mqdssm.server.backup import back_up, check_back_up
    from mqdssm.server.folder import DirectoryServerFolder

    if dry_run:
        with convert_usage_problems():
            config = check_back_up(DirectoryServerFolder(folder.absolute()), to.absolute())
        print_plan(run, [f"write {to} with the directory and the key of {config.server.machine_name}"], [])
        return
    with convert_usage_problems():
        back_up(DirectoryServerFolder(folder.absolute()), to.absolute())
    run.output.answer({"backup": str(to), "octets": to.stat().st_size}, f"wrote {to}")


def restore(run: CommandRun, *, file: Backup, folder: NewFolder, dry_run: DryRun = False) -> None:
    """Make the folder of a directory server from a backup.

    Never start it while the original server runs. Its first start needs --restored: the server then asks
    the others before it gives numbers.
    """
    from mqdssm.server.backup import check_restore
    from mqdssm.server.backup import restore as restore_backup

    if dry_run:
        with convert_usage_problems():
            config = check_restore(file, folder.absolute())
        start = f"mqdssm serve {folder / 'server.toml'} --restored"
        print_plan(run, [f"make {folder}, the {config.server.role} {config.server.machine_name}"], [start])
        return
    with convert_usage_problems():
        restored = restore_backup(file, folder.absolute())
    start = f"mqdssm serve {restored.config} --restored"
    run.output.answer(
        {"config": str(restored.config), "start_once": start},
        f"restored {restored.path}",
        f"Start it once with: {start}",
    )


add_token_commands(app)
add_role_commands(app)
declare_command(
    backup, group=app, connects=False, examples=("mqdssm enterprise backup pec --to pec-monday.backup",)
)
declare_command(
    restore, group=app, connects=False, examples=("mqdssm enterprise restore pec-monday.backup pec",)
)


@app.callback()
def _group() -> None:
    """Make the directory servers of an enterprise."""
