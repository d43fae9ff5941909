"""``mqdssm discover``: find directory servers ([MS-MQSD] 3.1)."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli import exits
from mqdssm.cli.discovery.endpoints import endpoint, guid
from mqdssm.cli.output import ProgressBar
from mqdssm.cli.run import CommandRun, command_app, print_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mqdssm.engines.discovery.client import Broadcast
    from mqdssm.engines.discovery.values import DiscoveryResult, Network
    from mqdssm.errors import MqdssmError

WAIT_MAX_S: Final = 3600.0
Broadcasts = Annotated[
    list[str] | None,
    typer.Option(
        "--broadcast",
        metavar="ADDRESS[:PORT]",
        help="Address of the request: a broadcast address or a server. Repeatable. Default: all "
        "networks of this machine.",
    ),
]
SiteId = Annotated[
    str | None,
    typer.Option(
        "--site",
        metavar="GUID",
        help="Site of this machine. Without it every server answers with its list of servers.",
    ),
]
EnterpriseId = Annotated[
    str | None, typer.Option("--enterprise", metavar="GUID", help="Enterprise of this machine.")
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        min=0.01,
        max=WAIT_MAX_S,
        metavar="SECONDS",
        help="How long to wait for answers in each network.",
    ),
]


def discover(
    run: CommandRun,
    *,
    broadcast: Broadcasts = None,
    site: SiteId = None,
    enterprise: EnterpriseId = None,
    wait: Wait = 15.0,
) -> int:
    r"""Find directory servers by broadcast (\[MS-MQSD]).

    Exit code 1 if no server answers.
    The networks are asked one after the other. A server of this machine's own site sends no list: the list
    that the machine has is valid. An answer with a list has precedence.
    """
    import asyncio

    from mqdssm.drivers.discovery import DiscoveryDriver
    from mqdssm.engines.discovery.client import DiscoveryClient
    from mqdssm.model.guid import NULL_GUID

    networks = _networks(broadcast)
    client = DiscoveryClient(
        enterprise_id=NULL_GUID if enterprise is None else guid("--enterprise", enterprise),
        site_id=NULL_GUID if site is None else guid("--site", site),
        wait_s=wait,
    )
    with run.output.bar("asking") as bar:
        driver = DiscoveryDriver(client, asking=lambda action: _asking(run, bar, action))
        result = asyncio.run(driver.discover(networks))
    if result is not None:
        if run.output.is_json:
            run.output.document(_document(result))
        else:
            run.output.pairs(_pairs(result))
        return exits.ExitCode.FINE
    error = _nobody(networks, wait, unsent=driver.counts.seen().get("request not sent", 0))
    return print_error(error, exits.ExitCode.FINDINGS, is_json=run.output.is_json)


def _networks(broadcast: "Sequence[str] | None") -> "tuple[Network, ...]":
    """Return the networks on which servers are asked.

    Raises:
        UsageProblem: an address that is none, or no network.
    """
    from mqdssm.cli.run import usage_problems
    from mqdssm.drivers.interfaces import connected_networks
    from mqdssm.engines.discovery.values import Network
    from mqdssm.model.discovery import IP_PORT

    if broadcast:
        return tuple(Network(*endpoint("--broadcast", text, IP_PORT)) for text in broadcast)
    with usage_problems():
        networks = connected_networks()
    if not networks:
        raise exits.UsageProblem("this machine is connected to no network: say with --broadcast where to ask")
    return networks


def _asking(run: CommandRun, bar: "ProgressBar | None", action: "Broadcast") -> None:
    if bar is not None:
        bar(action.number - 1, action.total, f"asking on {action.network}")
    elif action.total > 1:
        run.output.note(f"asking on {action.network} ({action.number} of {action.total})")


def _nobody(networks: "Sequence[Network]", wait: float, *, unsent: int) -> "MqdssmError":
    from mqdssm.errors import TransportError

    where = ", ".join(map(str, networks))
    if unsent >= len(networks):
        return TransportError(f"nobody could be asked on {where}: this machine has no way there")
    return TransportError(
        f"no directory server answered on {where} within {wait:g} s: is one running, does UDP get through?"
    )


def _document(result: "DiscoveryResult") -> dict[str, Any]:
    return {
        "answered_by": result.answered_by,
        "network": str(result.network),
        "site": str(result.site),
        "is_own_site": result.is_own_site,
        "own_site_server": result.own_site_server or None,
        "servers": [{"name": server.name, "ip": server.ip, "ipx": server.ipx} for server in result.servers],
        "connected_networks": [str(network) for network in result.connected_networks],
    }


def _pairs(result: "DiscoveryResult") -> "Iterator[tuple[str, str]]":
    yield "answered by", f"{result.answered_by}, asked on {result.network}"
    yield "site", f"{result.site}, this machine's own" if result.is_own_site else str(result.site)
    if result.own_site_server and not result.is_own_site:
        yield "own site", f"answered by {result.own_site_server}, without a list"
    for server in result.servers:
        protocols = [name for name, has in (("IP", server.ip), ("IPX", server.ipx)) if has]
        yield "directory server", f"{server.name} ({', '.join(protocols) or 'no protocol'})"
    for network in result.connected_networks:
        yield "connected network", str(network)


app = command_app(
    discover,
    connects=False,
    examples=(
        "mqdssm discover",
        "mqdssm discover --broadcast 10.1.0.255 --broadcast 10.2.0.255:1801 -o json",
        "mqdssm discover --site 7f1e5d0a-6c1b-4c58-9a53-0c6a5ff1b2c4 --wait 3",
    ),
)
