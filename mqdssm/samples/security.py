"""Security descriptors of sample objects, with MSMQ's access masks.

See [MS-MQMQ] 2.2.23 to 2.2.26.
"""

from collections.abc import Iterable
from typing import Final

from mqdssm.samples.plan import EnterprisePlan
from mqdssm.wire.dtyp import EVERYONE, Ace, SecurityDescriptor, Sid, allow, deny
from mqdssm.wire.masks import EnterpriseAccess, MachineAccess, QueueAccess, SiteAccess
from mqdssm.wire.sid import BUILTIN_ADMINISTRATORS, BUILTIN_GUESTS

DOMAIN_ADMINS_RID: Final = 512
DOMAIN_USERS_RID: Final = 513
QUEUE_FORMS: Final = 3


def make_descriptor(owner: Sid | None, aces: Iterable[Ace] | None, group: Sid | None = None) -> bytes:
    """Make a self-relative descriptor; without `aces` it has no DACL."""
    return bytes(SecurityDescriptor.build(owner=owner, group=group, dacl=aces))


def make_public_security(plan: EnterprisePlan, rights: type[EnterpriseAccess | SiteAccess]) -> bytes:
    """Make the descriptor of an enterprise or a site.

    Everyone may read, administrators have all rights.
    """
    admins = plan.make_sid(DOMAIN_ADMINS_RID)
    aces = [allow(EVERYONE, rights.GENERIC_READ), allow(admins, rights.GENERIC_ALL)]
    return make_descriptor(admins, aces, plan.make_sid(DOMAIN_USERS_RID))


def make_machine_security(plan: EnterprisePlan, machine: int) -> bytes:
    """Make a machine's descriptor for an installation by an administrator.

    See [MS-MQDSSM] 3.1.6.1.1.8.
    """
    admins, machine_sid = plan.make_sid(DOMAIN_ADMINS_RID), plan.make_computer_sid(machine)
    aces = [
        allow(EVERYONE, MachineAccess.WORLD_RIGHTS),
        allow(machine_sid, MachineAccess.GENERIC_ALL),
        allow(admins, MachineAccess.GENERIC_ALL),
    ]
    return make_descriptor(admins, aces, plan.make_sid(DOMAIN_USERS_RID))


def make_queue_security(owner: Sid, computer: Sid, users: Sid, form: int) -> bytes:
    """Make a queue's descriptor.

    Args:
        owner: owner with all rights; the computer and the administrators have them too.
        computer: SID of the queue's computer.
        users: SID of the users of the domain.
        form: 0: everyone may send; 1: guests may not; 2: users of the domain may send and peek.
    """
    world = allow(EVERYONE, QueueAccess.GENERIC_WRITE)
    aces = [
        [world],
        [deny(BUILTIN_GUESTS, QueueAccess.GENERIC_ALL), world],
        [allow(users, QueueAccess.GENERIC_WRITE | QueueAccess.PEEK_MESSAGE)],
    ][form]
    full = [allow(sid, QueueAccess.GENERIC_ALL) for sid in (computer, owner, BUILTIN_ADMINISTRATORS)]
    return make_descriptor(owner, aces + full, users)
