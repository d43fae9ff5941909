"""Queues of a sample enterprise, by machine."""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from mqdssm.model.elements import QUOTA_UNLIMITED, Queue
from mqdssm.model.enums import PrivacyLevel
from mqdssm.model.queuenames import lower_each
from mqdssm.samples import sample_names, security
from mqdssm.samples.elements import draw_times
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.samples.seeded_random import SeededRandom

LONG_IN: Final = 50  # one queue name in so many is longer than 63 characters
MULTICAST_IN: Final = 100
OWNERS: Final = 3  # users who own queues on one machine
OLD_OWNERS_IN: Final = 4  # on one machine in so many, administrators of a former domain own queues
PRIVACY: Final = (PrivacyLevel.OPTIONAL, PrivacyLevel.OPTIONAL, PrivacyLevel.NONE, PrivacyLevel.BODY)
QUOTAS: Final = (QUOTA_UNLIMITED, QUOTA_UNLIMITED, 1024, 65_536, 1_048_576, 3_000_000_000)
PRIORITIES: Final = (0, 0, 0, 0, 1, 3, -2, 100, -32_768, 32_767)
NAMES: Final = len(sample_names.AREAS) * len(sample_names.STEPS) * len(sample_names.VARIANTS)
STRIDE: Final = 37  # not a divisor of NAMES: every combination of words comes once


class Queues:
    """Iterable of the queues of one machine.

    Args:
        plan: the enterprise.
        machine: number of the machine.
    """

    def __init__(self, plan: EnterprisePlan, machine: int) -> None:
        self._plan = plan
        self._machine = machine
        self._prefix = f"{lower_each(plan.name_machine(machine))}\\"
        self._place = plan.name_site(plan.site_of(machine)).name
        self._first_name = plan.make_rng("names", machine).draw_below(NAMES)
        self._security = cache(self._make_security)

    def __iter__(self) -> Iterator[Queue]:
        """Make every queue that the plan has on the machine."""
        first = self._plan.count_queues_before(self._machine)
        for ordinal in range(first, self._plan.count_queues_before(self._machine + 1)):
            yield self.make_queue(ordinal, number=ordinal - first)

    def make_queue(self, ordinal: int, *, number: int | None = None, name: str | None = None) -> Queue:
        """Make one queue.

        Args:
            ordinal: its number among all queues.
            number: its number on the machine; its name follows from it.
            name: the name, instead of `number`.
        """
        rng = self._plan.make_rng("queue", ordinal)
        area, multicast = rng.of(sample_names.AREAS), rng.draw_one_in(MULTICAST_IN)
        values: dict[str, Any] = {
            "identifier": self._plan.compute_guid("queue", ordinal),
            "label": rng.of(sample_names.LABEL_FORMS).format(
                area=area, step=rng.of(sample_names.STEPS), site=self._place
            ),
            **draw_times(rng),
            "type": self._plan.compute_guid("type", area),
            "pathname": self._prefix + (name or self._make_name(number or 0, rng)),
            "journaling": rng.draw_one_in(3),
            "quota": rng.of(QUOTAS),
            "journal_quota": rng.of(QUOTAS),
            "authentication": rng.draw_one_in(6),
            "privacy_level": rng.of(PRIVACY),
            "transactional": not multicast and rng.draw_one_in(3),  # MSMQ allows no transactions by multicast
            "multicast_address": _draw_multicast(rng) if multicast else "",
            "security": self._security(rng.draw_below(OWNERS + 1), rng.draw_below(security.QUEUE_FORMS)),
            "base_priority": rng.of(PRIORITIES),
        }
        return Queue.from_directory(values)

    def _make_name(self, number: int, rng: SeededRandom) -> str:
        """Return the name of the n-th queue of the machine; all names differ."""
        again, index = divmod(number, NAMES)
        index, area = divmod((self._first_name + STRIDE * index) % NAMES, len(sample_names.AREAS))
        variant, step = divmod(index, len(sample_names.STEPS))
        name = f"{sample_names.AREAS[area]}.{sample_names.STEPS[step]}{sample_names.VARIANTS[variant]}"
        name += f".{again}" if again else ""
        if rng.draw_one_in(LONG_IN):
            return f"{sample_names.LONG_PREFIX}{name}{rng.of(sample_names.LONG_SUFFIXES)}"
        return name

    def _make_security(self, owner: int, form: int) -> bytes:
        """Make a descriptor for queues of this machine.

        Each of its few owners has many queues.
        """
        plan = self._plan
        sid = plan.make_sid(security.DOMAIN_ADMINS_RID)
        if owner == 0 and plan.make_rng("old owner", self._machine).draw_one_in(OLD_OWNERS_IN):
            sid = plan.make_old_sid(security.DOMAIN_ADMINS_RID)
        elif owner < OWNERS and plan.users:
            sid = plan.make_user_sid((self._machine * OWNERS + owner) % plan.users)
        return security.make_queue_security(
            sid, plan.make_computer_sid(self._machine), plan.make_sid(security.DOMAIN_USERS_RID), form
        )


def _draw_multicast(rng: SeededRandom) -> str:
    second, third, last = rng.draw_below(256), rng.draw_below(256), rng.draw_between(1, 254)
    return f"234.{second}.{third}.{last}:{rng.draw_between(1024, 65535)}"
