"""Plan of a sample enterprise: size and structure from a few numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple
from uuid import UUID

from mqdssm.errors import ConfigError
from mqdssm.model.dn import DN
from mqdssm.model.enums import DirectoryServerType
from mqdssm.samples.sample_names import PLACES, SampleSite
from mqdssm.samples.seeded_random import SeededRandom, compute_guid
from mqdssm.tables.ldif import SAMPLE_ROOT
from mqdssm.wire.sid import Sid

MACHINES_MAX: Final = 9_999_999  # a NetBIOS name has 15 characters
FIRST_RID: Final = 1103
FOREIGN_IN: Final = 8
FOREIGN_FIRST: Final = 2
"""Index of the first foreign site; one of `FOREIGN_IN` sites has another messaging system."""
OLD_IN: Final = 6
"""One user of so many has an account of a former domain."""
SHARES: Final = (3, 1, 0, 2, 9, 1, 0, 4)
"""Distribution of the queues: of 20 queues, so many are on each of eight consecutive machines."""


class MachineRole(NamedTuple):
    """Roles of a machine.

    Attributes:
        routing: True for a routing server.
        directory: the kind of directory server; None: no directory server.
        supporting: True for a supporting server, which dependent clients use.
        remote: True for a remote access server.
        server: True for a server's operating system.
    """

    routing: bool = False
    directory: DirectoryServerType | None = None
    supporting: bool = False
    remote: bool = False
    server: bool = False

    @property
    def has_settings(self) -> bool:
        """True if the machine has mSMQSettings objects in its sites.

        See [MS-MQDSSM] 3.1.6.20.1.
        """
        return self.routing or self.directory is not None or self.supporting


@dataclass(frozen=True, kw_only=True)
class EnterprisePlan:
    """Plan of an enterprise: numbers of objects, seed and root.

    Attributes:
        sites: number of sites.
        machines: number of machines; the first ones are the routing servers of the sites.
        queues: number of queues on all machines.
        users: number of users.
        seed: distinguishes enterprises of the same size.
        root: DN of the root domain, all of domain components.

    Raises:
        ConfigError: impossible numbers, or an invalid root.
    """

    sites: int
    machines: int
    queues: int
    users: int
    seed: int
    root: str = SAMPLE_ROOT

    def __post_init__(self) -> None:
        if self.sites < 1 or self.queues < 0 or self.users < 0:
            raise ConfigError("an enterprise needs at least one site, and no number is negative")
        if self.machines < self.sites:
            raise ConfigError(
                f"{self.machines} machines are too few for {self.sites} sites: each needs a routing server"
            )
        if self.machines > MACHINES_MAX:
            raise ConfigError(f"{self.machines} machines are too many: {MACHINES_MAX} names are possible")
        try:
            kinds = {kind.upper() for rdn in self.root_dn.rdns for kind, _ in rdn}
        except ValueError as error:
            raise ConfigError(f"{self.root!r} is no root of a directory: {error}") from error
        if kinds != {"DC"}:
            raise ConfigError(f"the root of the directory must be like {SAMPLE_ROOT}, not {self.root!r}")

    @cached_property
    def root_dn(self) -> DN:
        """DN of the root domain."""
        return DN.parse(self.root)

    @cached_property
    def domain(self) -> str:
        """DNS name of the root domain, as ``example.com``."""
        return ".".join(value for rdn in self.root_dn.rdns for _, value in rdn).lower()

    def make_rng(self, *names: object) -> SeededRandom:
        """Return the random choices for one part of the enterprise."""
        return SeededRandom(self.seed, *names)

    def compute_guid(self, *names: object) -> UUID:
        """Return the GUID of one part of the enterprise."""
        return compute_guid(self.seed, *names)

    # -- accounts

    @cached_property
    def domain_sid(self) -> Sid:
        """SID of the domain."""
        rng = self.make_rng("domain")
        return Sid.of(5, 21, *(rng.draw_between(2**30, 2**32 - 1) for _ in range(3)))

    def make_sid(self, rid: int) -> Sid:
        """Return the SID of an account of the domain."""
        return Sid.of(5, *self.domain_sid.subauthorities, rid)

    @cached_property
    def old_domain_sid(self) -> Sid:
        """SID of a former Windows NT domain.

        Some accounts and descriptors still have it.
        """
        rng = self.make_rng("old domain")
        return Sid.of(5, 21, *(rng.draw_between(2**20, 2**30) for _ in range(3)))

    def make_old_sid(self, rid: int) -> Sid:
        """Return the SID of an account of the former domain."""
        return Sid.of(5, *self.old_domain_sid.subauthorities, rid)

    def make_user_sid(self, number: int) -> Sid:
        """Return the SID of a user."""
        rid = FIRST_RID + 2 * number
        return (
            self.make_old_sid(rid)
            if self.make_rng("old account", number).draw_one_in(OLD_IN)
            else self.make_sid(rid)
        )

    def make_computer_sid(self, number: int) -> Sid:
        """Return the SID of the computer of a machine."""
        return self.make_sid(FIRST_RID + 1 + 2 * number)

    # -- sites

    def name_site(self, site: int) -> SampleSite:
        """Return name and code of a site; no two sites have the same name."""
        again, index = divmod(site, len(PLACES))
        name = PLACES[index].name
        if again:
            name = f"{name}-{again + 1}"
        return SampleSite(f"{name}-MQSeries" if self.is_foreign(site) else name, PLACES[index].code)

    def is_foreign(self, site: int) -> bool:
        """Return True if a site has another messaging system; planted sites do not."""
        return site < self.sites and site % FOREIGN_IN == FOREIGN_FIRST

    def list_links(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs of linked sites: every site can be reached from the first one.

        No route leads through a foreign site: it has a single link, to the site of its connector.
        """
        for site in range(1, self.sites):
            if self.is_foreign(site):
                yield self.home_of(site), site
                continue
            rng = self.make_rng("link", site)
            first = self._find_native(min(rng.draw_below(site), rng.draw_below(site)))
            yield first, site
            if site > FOREIGN_FIRST and rng.draw_one_in(3):
                other = self._find_native((first + 1 + rng.draw_below(site - 1)) % site)
                if other != first:
                    yield other, site

    def _find_native(self, site: int) -> int:
        return site - 1 if self.is_foreign(site) else site

    def home_of(self, site: int) -> int:
        """Return the site at the other end of a foreign site's connector.

        For other sites it is the site itself.
        """
        return 0 if self.is_foreign(site) else site

    def find_gate(self, site: int) -> int:
        """Return the gate of a site.

        The gate is the routing server, or the connector of a foreign site.
        """
        return site

    # -- machines

    def site_of(self, machine: int) -> int:
        """Return the site of a machine; the first sites are the largest."""
        if machine < self.sites:
            return machine
        rng = self.make_rng("site of", machine)
        return min(rng.draw_below(self.sites), rng.draw_below(self.sites))

    def sites_of(self, machine: int) -> tuple[int, ...]:
        """Return all sites of a machine: connectors are in two."""
        site = self.site_of(machine)
        return (self.home_of(site), site) if machine < self.sites and self.is_foreign(site) else (site,)

    def is_foreign_machine(self, machine: int) -> bool:
        """Return True if a machine has another messaging system than MSMQ."""
        return self.sites <= machine < self.machines and self.is_foreign(self.site_of(machine))

    def choose_role(self, machine: int) -> MachineRole:
        """Return the roles of a machine.

        The first machine is the primary enterprise controller.
        """
        if machine == 0:
            return MachineRole(
                routing=True, directory=DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER, server=True
            )
        if machine < self.sites:
            kind = None if self.is_foreign(machine) else DirectoryServerType.PRIMARY_SITE_CONTROLLER
            return MachineRole(routing=True, directory=kind, server=True)
        if self.is_foreign_machine(machine):
            return MachineRole()
        draw = self.make_rng("role", machine).draw_below(100)
        if draw < 2:
            return MachineRole(
                routing=True, directory=DirectoryServerType.BACKUP_SITE_CONTROLLER, server=True
            )
        if draw < 4:
            return MachineRole(routing=True, server=True)
        if draw < 7:
            return MachineRole(supporting=True, server=True)
        return MachineRole(remote=draw == 7, server=draw < 45)

    def name_machine(self, machine: int, role: MachineRole | None = None, site: int | None = None) -> str:
        """Return the NetBIOS name of a machine, at most 15 characters.

        Args:
            machine: its number.
            role: its role, if it does not follow from the number.
            site: its site, if it does not follow from the number.
        """
        role = role or self.choose_role(machine)
        kind = "MQ" if role.routing else "SRV" if role.server else "WS"
        return f"{self.name_site(self.site_of(machine) if site is None else site).code}-{kind}{machine:04}"

    def find_routing_server(self, machine: int) -> int | None:
        """Return the routing server of a machine; None if it sends directly."""
        direct = self.choose_role(machine).routing or self.is_foreign_machine(machine)
        if direct or self.make_rng("direct", machine).draw_below(10) < 3:
            return None
        return self.find_gate(self.site_of(machine))

    # -- queues

    def count_queues_before(self, machine: int) -> int:
        """Return the number of queues on all machines before a machine."""
        return self.queues * _add_weights(machine) // _add_weights(self.machines)


def _add_weights(machine: int) -> int:
    rounds, rest = divmod(machine, len(SHARES))
    return rounds * sum(SHARES) + sum(SHARES[:rest])
