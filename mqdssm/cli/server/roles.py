"""Commands of ``mqdssm enterprise`` that change roles of directory servers.

The moves are those of docs/directory-servers.md, "Changing roles".
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.run import Command, CommandRun, convert_usage_problems, declare_command
from mqdssm.cli.server.control import open_control_client
from mqdssm.cli.server.plans import DryRun, print_plan

if TYPE_CHECKING:
    from mqdssm.engines.replication.settings import Role
    from mqdssm.server.snapshot import PartitionSnapshot, ServerSnapshot

Server = Annotated[
    Path, typer.Option("--server", metavar="SOCKET", help="Control socket of the directory server that acts.")
]
SiteOption = Annotated[str, typer.Option("--site", metavar="NAME", help="The partition of this site.")]
Enterprise = Annotated[bool, typer.Option("--enterprise", help="The partition of the enterprise.")]
Machine = Annotated[str, typer.Option("--machine", metavar="NAME", help="Machine of the other server.")]
Incomplete = Annotated[
    bool, typer.Option("--incomplete", help="Also if the server's copy lacks changes: they are lost.")
]
FromRunningOwner = Annotated[
    bool,
    typer.Option("--from-running-owner", help="Also if the owner answers: changes that it makes are lost."),
]


_TAKE_OVER_HINT = "choose a server that has more, or add --incomplete if there is none"


def take_over(
    run: CommandRun,
    *,
    server: Server,
    site: SiteOption = "",
    enterprise: Enterprise = False,
    incomplete: Incomplete = False,
    from_running_owner: FromRunningOwner = False,
    dry_run: DryRun = False,
) -> None:
    """Make a server the owner of a partition whose owner is lost for good.

    The server asks the owner first, for up to 30 seconds: from an owner that answers nothing is taken over.
    Changes that the lost server acknowledged and did not send are lost. A site is taken over by one of its
    BSCs, the enterprise by a PSC.
    """
    with open_control_client(server) as client:
        snapshot = client.status()
        partition = _find_partition(snapshot, site, is_enterprise=enterprise)
        own = snapshot.machine_name
        _require(not partition.is_ours, f"{own} owns the partition of {partition.label} already")
        lack = "" if incomplete else _lack_of(partition)
        _require(not lack, f"{own} {lack}: {_TAKE_OVER_HINT}")
        step = f"{own} becomes the owner of {partition.label} in place of {partition.owner or 'nobody'}"
        if partition.is_enterprise:
            afterwards = [
                f"at every other PSC: mqdssm enterprise name-authority --enterprise --machine {own}"
            ]
        else:
            afterwards = [f"at the PEC: mqdssm enterprise name-psc --site {site} --machine {own}"]
        if partition.owner and not from_running_owner:
            run.output.note(f"asking {partition.owner} first, for up to 30 seconds")
        take = partial(client.take_over, partition.partition_id, from_running_owner=from_running_owner)
        if dry_run:
            take(dry_run=True)
        _perform(run, [step], afterwards, dry_run=dry_run, act=take)


def name_authority(
    run: CommandRun,
    *,
    server: Server,
    machine: Machine,
    site: SiteOption = "",
    enterprise: Enterprise = False,
    dry_run: DryRun = False,
) -> None:
    """Make a server accept another one as the owner of a partition.

    If the server owns the partition itself, it steps down, and copies everything from the other server.
    """
    with open_control_client(server) as client:
        snapshot = client.status()
        partition = _find_partition(snapshot, site, is_enterprise=enterprise)
        own = snapshot.machine_name
        _require(machine.casefold() != own.casefold(), f"{own} itself is named: use take-over")
        step = f"{own} accepts {machine} as the owner of {partition.label}"
        if partition.is_ours:
            step += ", steps down, and copies the partition from there"
        _perform(
            run,
            [step],
            [],
            dry_run=dry_run,
            act=lambda: client.name_authority(partition.partition_id, machine),
        )


def resynchronize(
    run: CommandRun,
    *,
    server: Server,
    site: SiteOption = "",
    enterprise: Enterprise = False,
    dry_run: DryRun = False,
) -> None:
    """Begin a full synchronization of a replica from the owner of its partition."""
    with open_control_client(server) as client:
        snapshot = client.status()
        partition = _find_partition(snapshot, site, is_enterprise=enterprise)
        own = snapshot.machine_name
        _require(
            not partition.is_ours, f"{own} owns the partition of {partition.label}: nobody has it better"
        )
        step = f"{own} copies all objects of {partition.label} from {partition.owner}"
        afterwards = ["mqdssm status shows NORMAL as the partition's state when it is done"]
        _perform(
            run, [step], afterwards, dry_run=dry_run, act=lambda: client.resynchronize(partition.partition_id)
        )


def hand_over(
    run: CommandRun,
    *,
    server: Server,
    machine: Machine,
    enterprise: Enterprise = False,
    dry_run: DryRun = False,
) -> None:
    """Hand a partition over to another server that runs.

    The PSC of a site hands the site over to one of its BSCs, and becomes a BSC. With --enterprise the PEC
    hands the enterprise over to a PSC, and becomes a PSC. Nothing is lost. A PSC that is far behind is
    refused: nobody would own the enterprise until it has everything.
    """
    from mqdssm.engines.replication.settings import Role

    role = Role.PEC if enterprise else Role.PSC
    with open_control_client(server) as client:
        snapshot = client.status()
        own = snapshot.machine_name
        site = "" if enterprise else snapshot.site_name
        partition = _find_partition(snapshot, site, is_enterprise=enterprise)
        _require(
            partition.is_ours, f"{own} does not own {partition.label}: ask {partition.owner or 'its owner'}"
        )
        former_role = Role.PSC if enterprise else Role.BSC
        _require(
            machine.casefold() in _list_machines(snapshot, former_role, "" if enterprise else site),
            f"{machine} is no {'PSC' if enterprise else f'BSC of {site}'} that {own} knows",
        )
        if dry_run:
            client.change_role(machine, role, dry_run=True)
        step = f"{own} hands {partition.label} over to {machine}, which becomes the {role.value}"
        _perform(run, [step], [], dry_run=dry_run, act=lambda: client.change_role(machine, role))


def demote(run: CommandRun, *, server: Server, machine: Machine, dry_run: DryRun = False) -> None:
    """Make a BSC an ordinary machine; the PSC of its site acts."""
    from mqdssm.engines.replication.settings import Role

    with open_control_client(server) as client:
        snapshot = client.status()
        _require(
            machine.casefold() in _list_machines(snapshot, Role.BSC, snapshot.site_name),
            f"{machine} is no BSC of {snapshot.site_name}, the site of {snapshot.machine_name}",
        )
        step = f"{machine} is no directory server any more, and receives no further changes"
        afterwards = [f"stop the server of {machine}, and remove its folder"]
        _perform(run, [step], afterwards, dry_run=dry_run, act=lambda: client.change_role(machine, None))


def remove_server(run: CommandRun, *, server: Server, machine: Machine, dry_run: DryRun = False) -> None:
    """Remove a BSC with its machine; the PSC of its site acts.

    The machine must have no queues left. The PSC of a site first hands the site over, the PEC the enterprise.
    """
    with open_control_client(server) as client:
        with convert_usage_problems():
            client.remove_server(machine, dry_run=True)
        snapshot = client.status()
        steps = [f"{client.machine_name} deletes the machine {machine}, and sends it nothing any more"]
        afterwards = [f"stop the server of {machine}, and remove its folder"]
        afterwards += _naming_of_pec(snapshot, f"{machine} was the PEC before")
        _perform(run, steps, afterwards, dry_run=dry_run, act=lambda: client.remove_server(machine))


def rename(
    run: CommandRun,
    *,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the server, which is stopped.")],
    machine: Annotated[str, typer.Option("--machine", metavar="NAME", help="New name of its machine.")],
    dry_run: DryRun = False,
) -> None:
    """Give the machine of a directory server another name.

    Stop the server first. It tells the others its name after its next start.
    """
    from mqdssm.server.folder import DirectoryServerFolder
    from mqdssm.server.renaming import rename_server

    place = DirectoryServerFolder(folder.absolute())
    with convert_usage_problems():
        config = rename_server(place, machine, dry_run=True)
    steps = [f"the {config.server.role.value} of {config.server.site} in {folder} is called {machine}"]
    afterwards = [
        f"mqdssm serve {place.config}",
        f"where server.toml alone has its address: mqdssm enterprise add-host {machine} ADDRESS:PORT",
    ]
    _perform(run, steps, afterwards, dry_run=dry_run, act=lambda: rename_server(place, machine))


def name_psc(
    run: CommandRun,
    *,
    server: Server,
    site: Annotated[str, typer.Option("--site", metavar="NAME", help="The site.")],
    machine: Machine,
    dry_run: DryRun = False,
) -> None:
    """Let the PEC name another PSC of a site, which has taken the site over."""
    from mqdssm.engines.replication.settings import Role

    with open_control_client(server) as client:
        snapshot = client.status()
        _require(snapshot.role is Role.PEC, f"{snapshot.machine_name} is not the PEC: ask the PEC")
        step = f"the PEC names {machine} as the PSC of {site}"
        _perform(run, [step], [], dry_run=dry_run, act=lambda: client.name_psc(site, machine))


def add_site(
    run: CommandRun,
    *,
    server: Server,
    site: Annotated[str, typer.Option("--site", metavar="NAME", help="Name of the new site.")],
    intra_site_s: Annotated[
        int | None,
        typer.Option(
            "--intra-site-interval", min=0, metavar="S", help="Seconds between two changes to BSCs."
        ),
    ] = None,
    inter_site_s: Annotated[
        int | None,
        typer.Option("--inter-site-interval", min=0, metavar="S", help="Seconds between two to other sites."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Add a site that has no directory server yet; the PEC acts.

    The PSC of the site is added later: enterprise add-server --role psc. Until then the site
    can hold no machines.
    """
    from mqdssm.model.elements import Site

    intervals = {
        "intra_site_replication_interval": intra_site_s,
        "inter_site_replication_interval": inter_site_s,
    }
    given = {name: seconds for name, seconds in intervals.items() if seconds is not None}
    with open_control_client(server) as client, convert_usage_problems():
        new = Site.model_validate({"name": site, **given})
        client.add_site(new, dry_run=True)
        steps = [f"the PEC creates the site {site}, and every server gets its partition"]
        afterwards = [f"add its PSC: mqdssm enterprise add-server DIR --role psc --site {site} …"]
        _perform(run, steps, afterwards, dry_run=dry_run, act=lambda: client.add_site(new))


def remove_site(
    run: CommandRun,
    *,
    server: Server,
    site: Annotated[str, typer.Option("--site", metavar="NAME", help="The site.")],
    dry_run: DryRun = False,
) -> None:
    """Remove a site that has no objects left; the PEC acts.

    Delete the queues and machines of the site at its PSC before, the PSC's own machine last. A site whose
    PSC never started has none: the PEC then takes the name of the PSC from the site first.
    """
    from mqdssm.engines.replication.settings import Role
    from mqdssm.model.elements import Site

    with open_control_client(server) as client:
        snapshot = client.status()
        _require(snapshot.role is Role.PEC, f"{snapshot.machine_name} is not the PEC: ask the PEC")
        _require(site.casefold() != snapshot.site_name.casefold(), f"{site} is the site of the PEC itself")
        steps = [f"the PEC deletes the site {site}, and every server forgets its partition"]
        partitions = (part for part in snapshot.partitions if part.site_name.casefold() == site.casefold())
        is_unused = any(part.last_number == 0 for part in partitions)
        if is_unused:
            steps.insert(0, f"{site} has no PSC any more: the PEC has received nothing from its PSC")

        def act() -> None:
            if is_unused:
                client.name_psc(site, "")
            client.delete(Site(name=site))

        afterwards = [f"stop the servers of {site}, and remove their folders"]
        afterwards += _naming_of_pec(snapshot, f"the PSC of {site} was the PEC before")
        _perform(run, steps, afterwards, dry_run=dry_run, act=act)


def _naming_of_pec(snapshot: "ServerSnapshot", condition: str) -> list[str]:
    """Return what to do at servers that know only a removed PEC (decision R118)."""
    pec = next((partition.owner for partition in snapshot.partitions if partition.is_enterprise), "")
    command = f"mqdssm enterprise name-authority --enterprise --machine {pec}"
    return [f"if {condition}: at each server that still asks it: {command}"] if pec else []


def add_role_commands(group: typer.Typer) -> None:
    """Add the commands of this module to a group."""
    here = "--server control.sock"
    examples: dict[Command, str] = {
        take_over: f"take-over --site Paris {here}",
        name_authority: f"name-authority --enterprise --machine PSC01 {here}",
        resynchronize: f"resynchronize --site Paris {here}",
        hand_over: f"hand-over --machine BSC01 {here}",
        demote: f"demote --machine BSC01 {here}",
        remove_server: f"remove-server --machine BSC01 {here}",
        rename: "rename psc --machine PARIS01",
        name_psc: f"name-psc --site Paris --machine BSC01 {here}",
        add_site: f"add-site --site Paris {here}",
        remove_site: f"remove-site --site Paris {here}",
    }
    for function, words in examples.items():
        declare_command(
            function,
            group=group,
            name=words.partition(" ")[0],
            connects=False,
            examples=(f"mqdssm enterprise {words}",),
        )


def _lack_of(partition: "PartitionSnapshot") -> str:
    """Return what the copy of a partition lacks, in words; empty if nothing is known."""
    if partition.is_new:
        return f"never had a complete copy of {partition.label}"
    if partition.missing:
        return f"lacks {partition.missing} changes of {partition.label} that another server has reported"
    return ""


def _find_partition(snapshot: "ServerSnapshot", site: str, *, is_enterprise: bool) -> "PartitionSnapshot":
    """Return the partition that the options name.

    Raises:
        UsageProblem: not exactly one is named, or the server does not have it.
    """
    if bool(site) is is_enterprise:
        raise UsageProblem("name one partition: --site NAME or --enterprise")
    for partition in snapshot.partitions:
        is_of_site = partition.site_name.casefold() == site.casefold()
        if partition.is_enterprise is is_enterprise and (is_enterprise or is_of_site):
            return partition
    names = ", ".join(sorted(partition.label for partition in snapshot.partitions))
    raise UsageProblem(
        f"{snapshot.machine_name} has no partition of {site or 'the enterprise'}: it has {names}"
    )


def _list_machines(snapshot: "ServerSnapshot", role: "Role", site_name: str) -> set[str]:
    """Return the machines with a role, of a site or of all sites."""
    return {
        server.machine_name.casefold()
        for site in snapshot.sites
        if not site_name or site.name.casefold() == site_name.casefold()
        for server in site.servers
        if server.role is role
    }


def _require(condition: bool, problem: str) -> None:
    """Raise GenericDirectoryError with a problem unless a condition holds."""
    from mqdssm.errors import GenericDirectoryError

    if not condition:
        raise GenericDirectoryError(f"{problem}; nothing was changed")


def _perform(
    run: CommandRun,
    steps: Sequence[str],
    afterwards: Sequence[str],
    *,
    dry_run: bool,
    act: Callable[[], object],
) -> None:
    """Perform a change unless it is a dry run.

    The steps are printed, and what is to be done afterwards.
    """
    if not dry_run:
        with convert_usage_problems():
            act()
    print_plan(run, steps, afterwards, dry_run=dry_run)
