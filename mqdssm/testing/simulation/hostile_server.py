"""A hostile server (decision R107).

Any field of its messages may be false, but the signatures are valid.

It may harm the partitions that it owns and the servers of its site. All other partitions and servers are
checked.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from mqdssm.engines.replication.actions import Send
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.driven_server import DrivenServer
from mqdssm.testing.simulation.hostile_messages import HostileMessages
from mqdssm.testing.simulation.message_checks import LONG_S
from mqdssm.testing.simulation.options import PER_MILLE
from mqdssm.testing.simulation.server_list import ServerRegistry
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.world import World

_PRIORITY: Final = 3


class HostileServer:
    """A random server that turns hostile.

    The PEC is never chosen, because all other servers depend on it.

    Args:
        world: the enterprise.
        registry: who is there.

    Attributes:
        counts: number of lies, by kind of message.
    """

    def __init__(self, world: World, registry: ServerRegistry) -> None:
        self._world = world
        self._registry = registry
        self._rng = SeededRandom("liar", world.options.seed)
        self._lies: HostileMessages | None = None
        self.counts: Counter[str] = Counter()

    def begin(self) -> None:
        """Choose the hostile server, if the options ask for one.

        The chosen server sends lies until the run ends.
        """
        world = self._world
        servers = [controller for controller in self._registry.controllers() if controller is not world.pec]
        if not world.options.fault_options.is_hostile or not servers:
            return
        server = self._rng.of(servers)
        self._lies = HostileMessages(world, self._registry, server, self._rng)
        for partition in self._registry.owned_by(server):
            partition.foul = partition.partition_id != PEC_PARTITION_ID
        world.hostile_server = server
        world.falsify = self._falsify
        server.say("is hostile from now on")
        self._run(server)

    def _run(self, server: SimulatedServer) -> None:
        if server.retired:
            return
        if server.is_up:
            self._send_false_message(server)
        pace = self._world.options.fault_options.lies_every_ms
        self._world.schedule.after(self._rng.draw_between(1, 2 * pace) / 1000, lambda: self._run(server))

    def _send_false_message(self, server: SimulatedServer) -> None:
        """Send a lie to a random server."""
        other_servers = [other for other in self._world.servers if other is not server and not other.retired]
        if self._lies is None or not other_servers:
            return
        destination = self._rng.of(other_servers).name
        for message in self._lies.tell():
            self.counts[f"lie {type(message).__name__}"] += 1
            sent = Send(
                destination=destination,
                message=message,
                timeout_s=LONG_S,
                priority=_PRIORITY,
                ack_requested=False,
            )
            if self._world.trace is not None:
                server.say(f"lies to {destination}: {message}")
            if isinstance(server, DrivenServer):
                server.send_false_message(sent)
            else:
                self._world.network.send(server, sent)

    def _falsify(self, action: Send) -> Send:
        """Return a message of the engine, at random with a false field."""
        bent = self._world.options.fault_options.bent
        if self._lies is None or self._rng.draw_below(PER_MILLE) >= bent:
            return action
        message = self._lies.falsify(action.message)
        self.counts[f"lie {type(message).__name__}"] += 1
        return replace(action, message=message)
