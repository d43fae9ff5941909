"""A sample enterprise as LDIF for OpenLDAP: the base tree and the objects, parents first."""

from collections.abc import Iterable, Iterator
from typing import Final

from mqdssm.events.made_entry import MadeEntry
from mqdssm.samples import elements
from mqdssm.samples.entries import SampleEntries
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.samples.queues import Queues
from mqdssm.tables.ldif import base_tree_entries

BASE_TREE: Final = "base-tree.ldif"
OBJECTS: Final = "objects.ldif"


def base_tree(
    plan: EnterprisePlan, enterprises: Iterable[MadeEntry]
) -> Iterator[Iterable[tuple[str, str | bytes]]]:
    """Yield the tree that holds the objects, with the enterprise object as its last entry, as pairs.

    Args:
        plan: the enterprise.
        enterprises: the entry of its enterprise object; two entries if that is the defect.
    """
    top, *containers, _ = base_tree_entries(plan.root)
    yield [*top, ("objectSid", bytes(plan.domain_sid))]
    yield from containers
    for entry in enterprises:
        yield entry.pairs()


def objects(plan: EnterprisePlan, entries: SampleEntries) -> Iterator[MadeEntry]:
    """Make all objects except the enterprise, parents first; each one on demand."""
    for number in range(plan.sites):
        yield from entries.site(elements.site(plan, number))
    for number in range(plan.users):
        yield entries.user(elements.user(plan, number), elements.user_name(plan, number))
    for number in range(plan.machines):
        made = elements.machine(plan, number)
        computer, manager = entries.machine(made)
        yield from (computer, manager)
        if made.role.has_settings:
            for site in plan.sites_of(number):
                yield from entries.settings(made, manager, plan.place(site).name)
        yield from map(entries.queue, Queues(plan, number))
    for first, second in plan.links():
        yield entries.link(elements.link(plan, first, second))
