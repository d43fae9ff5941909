"""``mqdssm discover`` and ``mqdssm discovery-server`` ([MS-MQSD]).

The client finds directory servers ([MS-MQSD] 3.1), the server answers searches for them (3.2).
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.endpoints import parse_endpoint, parse_guid, parse_network
from mqdssm.cli.exits import ExitCode, UsageProblem
from mqdssm.cli.output import ProgressBar, say
from mqdssm.cli.run import CommandRun, convert_usage_problems, declare_command, print_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mqdssm.drivers.discovery.directory_data import DiscoveryReader, KnowledgeCache, KnowledgeWatch
    from mqdssm.drivers.discovery.server import DiscoveryService
    from mqdssm.engines.discovery.answers import Answers
    from mqdssm.engines.discovery.client import Broadcast
    from mqdssm.engines.discovery.values import DiscoveryResult, Knowledge, Network
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

    from mqdssm.drivers.discovery.client import DiscoveryDriver
    from mqdssm.engines.discovery.client import DiscoveryClient
    from mqdssm.model.guid import NULL_GUID

    networks = _choose_networks(broadcast)
    client = DiscoveryClient(
        enterprise_id=NULL_GUID if enterprise is None else parse_guid("--enterprise", enterprise),
        site_id=NULL_GUID if site is None else parse_guid("--site", site),
        wait_s=wait,
    )
    with run.output.bar("asking") as bar:
        driver = DiscoveryDriver(client, asking=lambda action: _report_progress(run, bar, action))
        result = asyncio.run(driver.discover(networks))
    if result is not None:
        if run.output.is_json:
            run.output.document(_build_document(result))
        else:
            run.output.pairs(_list_pairs(result))
        return ExitCode.FINE
    error = _make_no_server_error(networks, wait, unsent=driver.counts.copy().get("request not sent", 0))
    return print_error(error, ExitCode.FINDINGS, is_json=run.output.is_json)


def _choose_networks(broadcast: "Sequence[str] | None") -> "tuple[Network, ...]":
    """Return the networks on which servers are asked.

    Raises:
        UsageProblem: an address that is none, or no network.
    """
    from mqdssm.drivers.discovery.interfaces import list_networks
    from mqdssm.engines.discovery.values import Network
    from mqdssm.model.discovery import IP_PORT

    if broadcast:
        return tuple(Network(*parse_endpoint("--broadcast", text, IP_PORT)) for text in broadcast)
    with convert_usage_problems():
        networks = list_networks()
    if not networks:
        raise UsageProblem("this machine is connected to no network: say with --broadcast where to ask")
    return networks


def _report_progress(run: CommandRun, bar: "ProgressBar | None", action: "Broadcast") -> None:
    if bar is not None:
        bar(action.number - 1, action.total, f"asking on {action.network}")
    elif action.total > 1:
        run.output.note(f"asking on {action.network} ({action.number} of {action.total})")


def _make_no_server_error(networks: "Sequence[Network]", wait: float, *, unsent: int) -> "MqdssmError":
    from mqdssm.errors import TransportError

    where = ", ".join(map(str, networks))
    if unsent >= len(networks):
        return TransportError(f"nobody could be asked on {where}: this machine has no way there")
    return TransportError(
        f"no directory server answered on {where} within {wait:g} s: is one running, does UDP get through?"
    )


def _build_document(result: "DiscoveryResult") -> dict[str, Any]:
    return {
        "answered_by": result.answered_by,
        "network": str(result.network),
        "site": str(result.site),
        "is_own_site": result.is_own_site,
        "own_site_server": result.own_site_server or None,
        "servers": [{"name": server.name, "ip": server.ip, "ipx": server.ipx} for server in result.servers],
        "connected_networks": [str(network) for network in result.connected_networks],
    }


def _list_pairs(result: "DiscoveryResult") -> "Iterator[tuple[str, str]]":
    yield "answered by", f"{result.answered_by}, asked on {result.network}"
    yield "site", f"{result.site}, this machine's own" if result.is_own_site else str(result.site)
    if result.own_site_server and not result.is_own_site:
        yield "own site", f"answered by {result.own_site_server}, without a list"
    for server in result.servers:
        protocols = [name for name, has in (("IP", server.ip), ("IPX", server.ipx)) if has]
        yield "directory server", f"{server.name} ({', '.join(protocols) or 'no protocol'})"
    for network in result.connected_networks:
        yield "connected network", str(network)


discover_app = declare_command(
    discover,
    connects=False,
    examples=(
        "mqdssm discover",
        "mqdssm discover --broadcast 10.1.0.255 --broadcast 10.2.0.255:1801 -o json",
        "mqdssm discover --site 7f1e5d0a-6c1b-4c58-9a53-0c6a5ff1b2c4 --wait 3",
    ),
)


REFRESH_MAX_S: Final = 86_400.0
EVERYWHERE: Final = ("0.0.0.0:1801",)
"""Default address: sockets bound to an address of the machine receive no broadcasts."""
Listen = Annotated[
    list[str] | None,
    typer.Option(
        "--listen",
        metavar="ADDRESS[:PORT]",
        help="UDP address to listen on. Repeatable. Default: 0.0.0.0:1801. Only 0.0.0.0 and "
        "broadcast addresses receive broadcasts.",
    ),
]
AllowFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-from",
        metavar="NETWORK",
        help="Also answer this IPv4 network, such as 10.2.0.0/16. Repeatable. Default: only the "
        "networks of this computer.",
    ),
]
SiteName = Annotated[str, typer.Option("--site", metavar="NAME", help="Site of the server.")]
ComputerName = Annotated[str, typer.Option("--computer", metavar="NAME", help="Computer of the server.")]
Networks = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        metavar="GUID",
        help="Connected network of the server. Repeatable. Default: those in the directory.",
    ),
]
Refresh = Annotated[
    float,
    typer.Option(
        "--refresh",
        min=1.0,
        max=REFRESH_MAX_S,
        metavar="SECONDS",
        help="Longest time between two readings of the directory.",
    ),
]


def discovery_server(
    run: CommandRun,
    *,
    site: SiteName,
    computer: ComputerName,
    listen: Listen = None,
    allow_from: AllowFrom = None,
    network: Networks = None,
    refresh: Refresh = 300.0,
) -> None:
    r"""Answer machines that look for a directory server (\[MS-MQSD]).

    The command runs until SIGTERM or Ctrl-C.
    Site, directory servers and connected networks come from the directory, which is watched. Only requests
    from the computer's own networks are answered. Do not make this port reachable from the Internet.
    """
    import asyncio
    from functools import partial

    from mqdssm.drivers.discovery.directory_data import DiscoveryReader, KnowledgeCache, KnowledgeWatch
    from mqdssm.drivers.discovery.interfaces import on_link_networks
    from mqdssm.drivers.discovery.server import DiscoveryService
    from mqdssm.engines.discovery.answers import Answers
    from mqdssm.model.discovery import IP_PORT, NETWORKS_MAX

    addresses = [
        parse_endpoint("--listen", text, IP_PORT, any_port=True)
        for text in dict.fromkeys(listen or EVERYWHERE)
    ]
    allowed = [parse_network("--allow-from", text) for text in dict.fromkeys(allow_from or ())]
    if not allowed:
        with convert_usage_problems():
            on_link_networks()
    networks = [parse_guid("--network", text) for text in dict.fromkeys(network or ())]
    if len(networks) > NETWORKS_MAX:
        raise UsageProblem(f"--network is given {len(networks)} times: an answer holds {NETWORKS_MAX}")
    for option, name in (("--site", site), ("--computer", computer)):
        if not name.strip():
            raise UsageProblem(f"{option}: the name is empty")
    with run.connect() as directory:
        reader = DiscoveryReader(directory, site=site, computer=computer, networks=networks)
        answers = Answers()
        cache = KnowledgeCache(reader.read, answers.learn, refresh_s=refresh)
        watch = KnowledgeWatch(directory, cache, tell=partial(_tell_unwatched, refresh))
        serve = partial(DiscoveryService, addresses, answers, allow_from=allowed, on_report=run.output.note)
        asyncio.run(_serve(run, reader, serve, answers=answers, cache=cache, watch=watch))


def _tell_unwatched(refresh_s: float, why: str) -> None:
    say(f"the directory is not watched, only read every {refresh_s:g} s: {why}")


async def _serve(
    run: CommandRun,
    reader: "DiscoveryReader",
    make_service: "Callable[[], DiscoveryService]",
    *,
    answers: "Answers",
    cache: "KnowledgeCache",
    watch: "KnowledgeWatch",
) -> None:
    import asyncio
    import signal
    from contextlib import suppress

    service = make_service()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt
            asyncio.get_running_loop().add_signal_handler(number, service.stop)
    knowledge = await cache.refresh()
    service.start()
    if service.is_listening:
        _tell(run, service, reader, knowledge, answers.left_out)
    keeping = asyncio.create_task(cache.run())
    try:
        with watch.run():
            await service.run()
    finally:
        keeping.cancel()
    counts = service.read_counts()
    run.output.note(", ".join(f"{name}: {count}" for name, count in counts.items()) or "nobody asked")


def _tell(
    run: CommandRun,
    service: "DiscoveryService",
    reader: "DiscoveryReader",
    knowledge: "Knowledge",
    left_out: int,
) -> None:
    where = [f"{address}:{port}" for address, port in service.addresses]
    document = {
        "listening": where,
        "answering": [str(network) for network in service.sources.networks],
        "site": str(knowledge.site),
        "servers": [
            {"name": server.name, "ip": server.ip, "ipx": server.ipx} for server in knowledge.servers
        ],
        "connected_networks": [str(network) for network in knowledge.networks],
    }
    servers = ", ".join(server.name for server in knowledge.servers) or "none"
    run.output.answer(
        document,
        f"listening on {', '.join(where)}; directory servers of the site: {servers}",
        f"answering computers of {service.sources}",
    )
    sys.stdout.flush()
    if not knowledge.servers:
        run.output.note("no queue manager of the site is a directory server: other sites get no answer")
    elif not reader.is_listed(knowledge):
        run.output.note(
            "this computer is no directory server of the site in the directory: it is not told of"
        )
    if left_out:
        run.output.note(f"{left_out} directory servers do not fit into an answer and are left out")


discovery_server_app = declare_command(
    discovery_server,
    examples=(
        "mqdssm discovery-server --listen 0.0.0.0:1801 --site Berlin --computer DC1",
        "mqdssm discovery-server --site Berlin --computer DC1 --allow-from 10.2.0.0/16",
        "mqdssm discovery-server --listen 10.1.0.5 --listen 10.1.0.255 --site Berlin --computer DC1",
    ),
)
