"""``mqdssm enterprise``: make the directory servers of an enterprise."""

from pathlib import Path
from typing import Annotated

import typer

from mqdssm.cli.run import CommandRun, command_app, usage_problems

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
    with usage_problems():
        config_file = make_pec(
            folder.absolute(), enterprise=name, site=site, machine_name=machine, listen=listen, store=store
        )
    run.output.answer(
        {"config": str(config_file)}, f"made {config_file}", f"Start the server: mqdssm serve {config_file}"
    )


command_app(
    init,
    group=app,
    connects=False,
    examples=("mqdssm enterprise init pec --name Contoso --site Berlin --machine PEC01",),
)


@app.callback()
def _group() -> None:
    """Make the directory servers of an enterprise."""
