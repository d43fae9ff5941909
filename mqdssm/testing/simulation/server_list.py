"""Sites, controllers and machines that exist according to the ledger."""

from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.testing.simulation.ledger import CONTROLLER, NumberedChange, PartitionLedger
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.world import World


class ServerRegistry:
    """An administrator's view of an enterprise.

    Args:
        world: the enterprise.
        closing: sites that are about to be removed.
    """

    def __init__(self, world: World, closing: set[Guid]) -> None:
        self._world = world
        self._closing = closing

    def open_sites(self) -> list[Guid]:
        """Return the sites with a controller that are in use.

        Sites that are being removed, lost or hostile are left out.
        """
        partitions = self._world.ledger.partitions
        identifiers = []
        for site in partitions[PEC_PARTITION_ID].live(ObjectType.SITE):
            partition = partitions.get(site.identifier)
            if partition is None or partition.loose or partition.foul or site.identifier in self._closing:
                continue
            if self.machine(self.owner(site.identifier)):
                identifiers.append(site.identifier)
        return identifiers

    def owner(self, partition_id: Guid) -> SimulatedServer:
        """Return the authority of a partition."""
        return self._world.servers[self._world.ledger.partitions[partition_id].giver]

    def owned_by(self, server: SimulatedServer) -> list[PartitionLedger]:
        """Return the partitions of which a server is the authority."""
        return [
            partition
            for partition in self._world.ledger.partitions.values()
            if partition.giver == server.index
        ]

    def machine(self, server: SimulatedServer) -> NumberedChange | None:
        """Return the ledger's entry of a server's machine object.

        None if there is no such object.
        """
        partition = self._world.ledger.partitions.get(server.settings.site_id)
        entry = partition.latest.get(server.settings.machine_id) if partition is not None else None
        return entry if entry is not None and entry.content is not None else None

    def serves(self, server: SimulatedServer) -> int:
        """Return the `Service` bits of a server's machine object.

        0 if there is no such object.
        """
        machine = self.machine(server)
        service = (machine.content or {}).get(Propid.QM_SERVICE) if machine is not None else 0
        return service if isinstance(service, int) else 0

    def bscs_of(self, site_id: Guid) -> list[SimulatedServer]:
        """Return the backup controllers of a site, according to its machine objects."""
        return [
            server
            for server in self._world.servers
            if server.settings.site_id == site_id
            and self._is_there(server)
            and self.serves(server) & Service.BSC
        ]

    def controllers(self) -> list[SimulatedServer]:
        """Return the directory servers that have a machine object.

        Retired and hostile ones are left out.
        """
        roles = CONTROLLER | Service.BSC
        return [
            server for server in self._world.servers if self._is_there(server) and self.serves(server) & roles
        ]

    def _is_there(self, server: SimulatedServer) -> bool:
        return not server.retired and not self._world.is_foul(server)

    def all_know(self, site_id: Guid) -> bool:
        """Return True if every primary controller has the newest object of a site."""
        entry = self._world.ledger.partitions[PEC_PARTITION_ID].latest.get(site_id)
        owners = [self.owner(open_site) for open_site in self.open_sites()]
        return entry is None or all(
            owner is self._world.pec or owner.reached(PEC_PARTITION_ID) >= entry.number for owner in owners
        )

    def site_names(self, site_id: Guid, server: SimulatedServer) -> bool:
        """Return True if a site's object names a server as its PSC.

        Also True if there is no such object.
        """
        site = self._world.ledger.partitions[PEC_PARTITION_ID].latest.get(site_id)
        content = site.content if site is not None else None
        return content is None or str(content.get(Propid.S_PSC)).casefold() == server.name.casefold()
