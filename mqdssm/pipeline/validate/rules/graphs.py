"""Checks over all objects of small types at once: sites, links, settings objects.

A drawing gets columns of some types as Arrow tables (with FullPath if there is one) and yields findings.
Sites, links and servers come in thousands. Queue managers may come in millions: of these only few become
Python objects.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from mqdssm.model.dn import DN
from mqdssm.model.enums import DirectoryServerType
from mqdssm.model.fieldtypes import spec_name
from mqdssm.pipeline.validate.rules.rule import SERVICE
from mqdssm.tables.dependent_objects import COPIED

if TYPE_CHECKING:
    import pyarrow as pa

    Tables = Mapping[str, "pa.Table"]

T = TypeVar("T", str, int)
Row = Mapping[str, Any]
BATCH_ROWS: Final = 10_000
"""Queue managers that are Python objects at a time, where every one may be concerned."""
ROUTING_LISTS: Final = ("OutRoutingServerIdentifierList", "InRoutingServerIdentifierList")
_PRIMARY: Final = spec_name(DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER)


class GraphFinding(NamedTuple):
    """One finding of a drawing.

    Attributes:
        rule: id of the rule.
        type: of the object.
        row: the object: its Identifier and FullPath; empty if there is none.
        message: what is wrong.
    """

    rule: str
    type: str
    row: Row
    message: str


Drawing = Callable[["Tables"], Iterable[GraphFinding]]


# -- the enterprise


def check_enterprise(tables: "Tables") -> Iterator[GraphFinding]:
    """Find no enterprise object, or more than one."""
    rows = tables["enterprise"].to_pylist()
    if not rows:
        yield GraphFinding("enterprise-single", "enterprise", {}, "there is no enterprise object")
    if len(rows) > 1:
        for row in rows:
            yield GraphFinding(
                "enterprise-single", "enterprise", row, f"there are {len(rows)} enterprise objects"
            )


# -- sites


def check_sites(tables: "Tables") -> Iterator[GraphFinding]:
    """Find unreachable sites, and sites whose systems do not match them.

    A site is unreachable if no path of links reaches it.
    """
    rows = {row["Identifier"]: row for row in tables["site"].to_pylist()}
    native, foreign = _count_members(tables["queue-manager"])
    links = _list_ends(tables["routing-link"])
    used = {guid for guid in rows if guid in native or guid in foreign} | {
        end for ends in links for end in ends
    }
    parts = _find_components([guid for guid in rows if guid in used], links)
    for part in parts[1:]:
        for guid in part:
            words = (
                f"no way of routing links leads to the {len(parts[0])} sites that are joined to each other"
            )
            yield GraphFinding("site-unreachable", "site", rows[guid], words)
    for guid, row in rows.items():
        if row["ForeignSite"] and native[guid]:
            words = (
                f"a foreign site, yet {native[guid]} queue managers in it are no foreign systems or routers"
            )
            yield GraphFinding("site-foreign-consistent", "site", row, words)
    yield from _find_unconnected_sites(rows, tables["queue-manager"])


def _count_members(managers: "pa.Table") -> tuple[defaultdict[Any, int], defaultdict[Any, int]]:
    """Count for each site the native systems that do not route, and all others."""
    import pyarrow.compute as pc

    counts: list[defaultdict[Any, int]] = []
    other_mask = pc.or_(
        pc.fill_null(managers["ForeignSystem"], False), pc.fill_null(managers["RoutingServer"], False)
    )
    for mask in (pc.invert(other_mask), other_mask):
        flat = pc.list_flatten(managers["SiteIdentifierList"].filter(mask))
        site_counts: defaultdict[Any, int] = defaultdict(int)
        for item in pc.value_counts(flat).to_pylist():
            site_counts[item["values"]] += item["counts"]
        counts.append(site_counts)
    return counts[0], counts[1]


def _find_unconnected_sites(rows: Mapping[str, Row], managers: "pa.Table") -> Iterator[GraphFinding]:
    """Find native sites of foreign systems that are in no foreign site."""
    import pyarrow.compute as pc

    counts: defaultdict[str, int] = defaultdict(int)
    foreign = managers.filter(pc.fill_null(managers["ForeignSystem"], False))
    for listed in foreign["SiteIdentifierList"].to_pylist():
        site_guids = [guid for guid in listed or () if guid in rows]
        if not any(rows[guid]["ForeignSite"] for guid in site_guids):
            for guid in site_guids:
                counts[guid] += 1
    for guid, count in counts.items():
        words = f"no foreign site, yet {count} foreign systems are in it and in no foreign site"
        yield GraphFinding("site-foreign-consistent", "site", rows[guid], words)


def _list_ends(links: "pa.Table") -> list[tuple[str, str]]:
    return [
        (row["Site1Identifier"], row["Site2Identifier"])
        for row in links.to_pylist()
        if row["Site1Identifier"] and row["Site2Identifier"]
    ]


def _find_components(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the connected parts of an undirected graph, the largest first."""
    near: dict[str, set[str]] = {node: set() for node in nodes}
    for start, other in edges:
        if start in near and other in near:
            near[start].add(other)
            near[other].add(start)
    return find_components(near) or [[]]


def find_components(near: Mapping[T, set[T]]) -> list[list[T]]:
    """Return the connected parts of a graph, sorted: the largest part first.

    Args:
        near: node -> its neighbours.
    """
    parts: list[list[T]] = []
    seen: set[T] = set()
    for node in sorted(near):
        if node in seen:
            continue
        part, waiting = [], [node]
        seen.add(node)
        while waiting:
            current = waiting.pop()
            part.append(current)
            fresh = near[current] - seen
            seen |= fresh
            waiting += fresh
        parts.append(sorted(part))
    return sorted(parts, key=lambda part: (-len(part), part))


def check_links(tables: "Tables") -> Iterator[GraphFinding]:
    """Find several links of one pair of sites, and wrong gates."""
    rows = tables["routing-link"].to_pylist()
    sites_of = _sites_of({gate for row in rows for gate in row["SiteGateIdentifierList"] or ()}, tables)
    sites = frozenset(tables["site"]["Identifier"].to_pylist())
    pairs: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        ends = (row["Site1Identifier"], row["Site2Identifier"])
        if all(ends) and ends[0] != ends[1]:
            pairs[tuple(sorted(ends))].append(row)
            yield from _check_gates(row, ends, sites_of, sites)
    for group in pairs.values():
        if len(group) > 1:
            for row in group:
                yield GraphFinding(
                    "link-duplicate", "routing-link", row, f"{len(group)} links join these two sites"
                )


def _sites_of(guids: Iterable[str], tables: "Tables") -> dict[str, frozenset[str]]:
    """Return the sites of some queue managers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    managers = tables["queue-manager"]
    mask = pc.is_in(managers["Identifier"], value_set=pa.array(sorted(guids), pa.string()))
    return {
        row["Identifier"]: frozenset(row["SiteIdentifierList"] or ())
        for row in managers.filter(mask).select(["Identifier", "SiteIdentifierList"]).to_pylist()
    }


def _check_gates(
    row: Row, ends: tuple[str, str], sites_of: Mapping[str, frozenset[str]], sites: frozenset[str]
) -> Iterator[GraphFinding]:
    gates = row["SiteGateIdentifierList"] or ()
    for gate in gates:
        if gate in sites_of and not sites_of[gate] & set(ends):
            yield GraphFinding(
                "link-gate-site", "routing-link", row, f"gate {gate} is in neither of the two sites"
            )
    if not gates or not all(sites_of.get(gate, frozenset()) & set(ends) for gate in gates):
        return  # link-gates-exist or link-gate-site
    for end in ends:
        # link-sites-exist reports an end that does not exist: it can have no gate
        if end in sites and not any(end in sites_of[gate] for gate in gates):
            words = f"all gates are on one side: site {end} has none"
            yield GraphFinding("link-one-way", "routing-link", row, words)


# -- settings objects


class _Place(NamedTuple):
    """Place of a settings object: below the server object of a computer in a site."""

    site: str
    computer: str


def check_settings(tables: "Tables") -> Iterator[GraphFinding]:
    """Find missing, superfluous and wrong mSMQSettings objects."""
    site_of = {_extract_name(row["FullPath"], 0): row["Identifier"] for row in tables["site"].to_pylist()}
    placed = [(row, _find_place(row["FullPath"], site_of)) for row in tables["settings"].to_pylist()]
    servers = _select_servers(tables["queue-manager"])
    owners = _find_known_guids({row["QueueManagerIdentifier"] for row, _ in placed}, tables["queue-manager"])
    existing_places = {place for _, place in placed}
    known_sites = frozenset(site_of.values())
    needed: dict[_Place, Row] = {}
    for server in servers:
        computer = _extract_name(server["FullPath"], 1)
        for site in server["SiteIdentifierList"] or ():
            needed_place = _Place(site, computer)
            needed.setdefault(needed_place, server)
            if site in known_sites and needed_place not in existing_places:
                words = f"there is no mSMQSettings object for site {site}"
                yield GraphFinding("settings-exist", "queue-manager", server, words)
    for row, place in placed:
        yield from _check_settings_object(row, needed.get(place) if place else None, owners)


def _check_settings_object(row: Row, server: Row | None, owners: frozenset[str]) -> Iterator[GraphFinding]:
    owner = row["QueueManagerIdentifier"]
    if owner not in owners:
        words = f"there is no queue manager {owner}" if owner else "mSMQQMID is missing"
        yield GraphFinding("settings-queue-manager-exists", "settings", row, words)
    elif server is None:
        words = f"queue manager {owner} is no server of this site"
        yield GraphFinding("settings-superfluous", "settings", row, words)
    else:
        expected = {"QueueManagerIdentifier": server["Identifier"], "Services": server.get(SERVICE), **server}
        wrong = [
            f"{copied.adm} is {row[copied.adm]}, not {expected[copied.adm]}"
            for copied in COPIED
            if _is_different(row, expected, copied.adm)
        ]
        if wrong:
            yield GraphFinding("settings-equal", "settings", row, "; ".join(wrong))


def _is_different(row: Row, server: Row, name: str) -> bool:
    """Return True if two values differ.

    An unset flag is False, an unset number 0 (their defaults).
    """
    return (row[name] or False) != (server[name] or False)


def _select_servers(managers: "pa.Table") -> list[Row]:
    import pyarrow.compute as pc

    roles = [
        pc.fill_null(managers[name], False)
        for name in ("RoutingServer", "DirectoryServer", "SupportingServer")
    ]
    rows: list[Row] = managers.filter(pc.or_(pc.or_(roles[0], roles[1]), roles[2])).to_pylist()
    return rows


def _find_known_guids(guids: Iterable[str | None], managers: "pa.Table") -> frozenset[str]:
    import pyarrow as pa
    import pyarrow.compute as pc

    value_set = pa.array(sorted(guid for guid in guids if guid), pa.string())
    column = managers["Identifier"]
    return frozenset(column.filter(pc.is_in(column, value_set=value_set)).to_pylist())


def _find_place(dn: str | None, site_of: Mapping[str, str]) -> _Place | None:
    """Return the place of a settings object, from its DN ([MS-MQDSSM] 2.2.1).

    The DN is CN=MSMQ Settings,CN=<computer>,CN=Servers,CN=<site>,...
    """
    site = site_of.get(_extract_name(dn, 3))
    return _Place(site, _extract_name(dn, 1)) if site else None


def _extract_name(dn: str | None, above: int) -> str:
    """Return a name in a DN in lower case; empty if there is none.

    With 0 it is the object's own name.
    """
    try:
        place = DN.parse(dn or "")
        for _ in range(above):
            place = place.parent
        return place.name.lower()
    except (ValueError, IndexError):
        return ""


# -- queue managers and computers


def check_controllers(tables: "Tables") -> Iterator[GraphFinding]:
    """Find primary enterprise controllers, if there are several."""
    import pyarrow.compute as pc

    managers = tables["queue-manager"]
    is_primary = pc.equal(managers["DirectoryServerType"].cast("string"), _PRIMARY)
    rows = managers.filter(pc.fill_null(is_primary, False)).to_pylist()
    if len(rows) > 1:
        words = f"the enterprise has {len(rows)} primary enterprise controllers"
        yield from (
            GraphFinding("primary-enterprise-controller-single", "queue-manager", row, words) for row in rows
        )


def check_routing_servers(tables: "Tables") -> Iterator[GraphFinding]:
    """Find queue managers with a routing server that is in none of their sites."""
    import pyarrow.compute as pc

    managers = tables["queue-manager"]
    sizes = [pc.fill_null(pc.list_value_length(managers[name]), 0) for name in ROUTING_LISTS]
    served = managers.filter(pc.greater(pc.add(*sizes), 0))
    named = {guid for name in ROUTING_LISTS for guid in pc.list_flatten(served[name]).unique().to_pylist()}
    sites_of = _sites_of(named, tables)
    for batch in served.to_batches(BATCH_ROWS):
        for row in batch.to_pylist():
            yield from _check_routes(row, sites_of)


def _check_routes(row: Row, sites_of: Mapping[str, frozenset[str]]) -> Iterator[GraphFinding]:
    """Find the routing servers of one queue manager that are in none of its sites."""
    own_sites = frozenset(row["SiteIdentifierList"] or ())
    if not own_sites:
        return  # queue-manager-has-site
    for guid in dict.fromkeys(guid for name in ROUTING_LISTS for guid in row[name] or ()):
        if sites_of.get(guid) and not sites_of[guid] & own_sites:
            words = f"routing server {guid} is in none of its sites"
            yield GraphFinding("queue-manager-routing-server-site", "queue-manager", row, words)


def check_computers(tables: "Tables") -> Iterator[GraphFinding]:
    """Find computers with a queue manager that lack a name.

    The name is a DNS name or a service principal name.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = tables["computer"]
    lacks_dns = pc.equal(pc.fill_null(table["DnsHostName"], ""), "")
    lacks_spn = pc.equal(pc.fill_null(pc.list_value_length(table["ServicePrincipalNames"]), 0), 0)
    rows = table.filter(pc.or_(lacks_dns, lacks_spn)).to_pylist()
    managers = {f"cn=msmq,{(row['FullPath'] or '').lower()}": row for row in rows}
    paths = pc.utf8_lower(tables["queue-manager"]["FullPath"].cast("string"))
    manager_paths = paths.filter(pc.is_in(paths, value_set=pa.array(sorted(managers), pa.string())))
    for path in sorted(set(manager_paths.to_pylist())):
        row = managers[path]
        if not row["DnsHostName"]:
            words = "dNSHostName is missing: the whole name of its queue manager and queues is not known"
            yield GraphFinding("computer-dns-name", "computer", row, words)
        if not row["ServicePrincipalNames"]:
            words = "servicePrincipalName is missing: whether it is a cluster is not known, Kerberos fails"
            yield GraphFinding("computer-service-principal-names", "computer", row, words)


DRAWINGS: Final[Mapping[str, Drawing]] = MappingProxyType(
    {
        "enterprise": check_enterprise,
        "sites": check_sites,
        "links": check_links,
        "settings": check_settings,
        "controllers": check_controllers,
        "routing-servers": check_routing_servers,
        "computers": check_computers,
    }
)
"""Drawings by their name in rules."""
