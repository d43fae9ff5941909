"""One run of sessions: messages and faults for some minutes, then checks."""

import traceback
from collections.abc import Callable
from functools import partial

from mqdssm.testing.session_simulation.options import SessionOptions, session_options_of
from mqdssm.testing.session_simulation.world import SessionWorld
from mqdssm.testing.simulation.run import RunReport
from mqdssm.testing.simulation.trace import Violation


def simulate_sessions(
    seed: int, trace: Callable[[str], None] | None = None, *, options: SessionOptions | None = None
) -> RunReport:
    """Run one seed.

    Args:
        seed: all chance follows from it.
        trace: writes a line of the trace, or None.
        options: other options than those of the seed.
    """
    world = SessionWorld(seed, options or session_options_of(seed), trace)
    violation = ""
    try:
        _fill(world)
        world.run(world.options.minutes * 60.0)
        world.finish()
    except Violation as error:
        violation = str(error)
    except Exception:  # noqa: BLE001  whatever a session raises is a finding
        violation = traceback.format_exc()
    return RunReport(
        seed=seed,
        violation=violation,
        simulated_s=world.now,
        steps=world.steps,
        requests=len(world.messages),
        counts=dict(world.counts),
    )


def _fill(world: SessionWorld) -> None:
    """Schedule the messages and faults of a run."""
    rng, names, seconds = world.rng, list(world.machines), world.options.minutes * 60

    def schedule_at_random(action: Callable[[], None]) -> None:
        world.after(world.share() * seconds, action)

    def pair() -> tuple[str, str]:
        source = rng.of(names)
        return source, rng.of([name for name in names if name != source])

    for _ in range(world.options.messages):
        schedule_at_random(partial(world.send, *pair(), is_recoverable=rng.draw_one_in(2)))
    for action, most in (
        (world.cut_connection, 20),
        (world.report_neighbour, 20),
        (world.close_session, 3),
        (lambda: world.withdraw(*pair()), 3),
        (lambda: world.crash(rng.of(names)), 3),
        (lambda: world.stop(rng.of(names)), 2),
        (lambda: world.lose_disk(rng.of(names)), 1),
    ):
        for _ in range(rng.draw_between(0, most)):
            schedule_at_random(action)
    for _ in range(rng.draw_between(0, 2)):
        start_s, length_s = world.share() * seconds, rng.of((5.0, 120.0))
        world.after(start_s, partial(setattr, world, "are_links_down", True))
        world.after(start_s + length_s, partial(setattr, world, "are_links_down", False))
