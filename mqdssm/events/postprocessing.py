"""Postprocessing of queue managers ([MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.2.1.3, 3.1.6.7.1.3)."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from mqdssm.events import settings
from mqdssm.events.contention import half_done
from mqdssm.events.context import Context
from mqdssm.events.encode import Values
from mqdssm.events.settings import Served
from mqdssm.model.dn import DN

REPEAT: Final = (
    "the entry stays as it is now: repeat the call when the cause is removed, "
    "it makes what is missing of the computer's keys and of the mSMQSettings objects"
)
DELETE_LEFT_OVER: Final = "delete the mSMQSettings objects that are left over"


def postprocess(
    ctx: Context,
    done: str,
    machine: DN,
    keys: Values,
    served: Served | None,
    *,
    before: Sequence[UUID] = (),
    new: bool = False,
) -> None:
    """Write the keys of the computer and the mSMQSettings objects of a queue manager.

    Args:
        ctx: the surroundings.
        done: what was done with its entry, as "created".
        machine: its computer.
        keys: values for the computer.
        served: as for `settings.settle`; None: roles and sites are as they were.
        before: as for `settings.settle`.
        new: as for `settings.settle`.

    Raises:
        DirectoryError: it says that the entry was changed, and how to go on.
    """
    with half_done(lambda: f"the queue manager was {done}", REPEAT):
        ctx.session.modify(machine, keys)
        if served is not None:
            settings.settle(ctx, served, before=before, new=new)


def remove_settings(ctx: Context, served: Served) -> None:
    """Delete the mSMQSettings objects of a queue manager that was deleted ([MS-MQDSSM] 3.1.6.2.1.3).

    Raises:
        DirectoryError: it says that the queue manager is deleted, and what is left over.
    """
    with half_done(lambda: "the queue manager was deleted", DELETE_LEFT_OVER):
        settings.remove_all(ctx, served)
