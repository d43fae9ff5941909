"""Whatever happens to queues, in whatever order and when: the owner's state ends as the truth is."""

from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.notification.notified_world import replayed
from support.notification.receivers import COMPUTER, MINUTE, OURS, ReceiverBench, queue, received

from mqdssm.engines.notification.sender import messages_of
from mqdssm.engines.notification.settings import SenderSettings
from mqdssm.model.elements import Queue
from mqdssm.model.enums import PrivacyLevel
from mqdssm.model.guid import Guid
from mqdssm.model.notice import Notice, NotifiedOperation
from mqdssm.model.notification import NotificationVersion
from mqdssm.model.owned_objects import OwnedQueue
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.mqcn import decode

CREATION, UPDATE, DELETION, _ = NotifiedOperation
SETTINGS = {
    version: SenderSettings(identifier=Guid.of(UUID(int=0xD5)), version=version)
    for version in NotificationVersion
}
UNSIGNED = st.integers(0, 0xFFFF_FFFF)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "quota": UNSIGNED,
        "journal_quota": UNSIGNED,
        "journaling": st.booleans(),
        "authentication": st.booleans(),
        "base_priority": st.integers(-32768, 32767),
        "privacy_level": st.sampled_from(PrivacyLevel),
    },
)
"""What both versions tell of a change."""
NEW = st.fixed_dictionaries(
    {
        "type": st.uuids(),
        "label": st.text(st.characters(codec="utf-16-le", exclude_characters="\0"), max_size=60),
        "transactional": st.booleans(),
        "security": st.just(bytes(SecurityDescriptor())),
        "create_time": st.integers(0, 2**31 - 1),
        "modify_time": st.integers(0, 2**31 - 1),
    }
)
STEPS = st.lists(
    st.tuples(
        st.integers(1, 4), st.sampled_from([CREATION, UPDATE, DELETION]), NEW, CHANGES, st.floats(0, 1200)
    ),
    max_size=30,
)


def notice(operation: NotifiedOperation, held: OwnedQueue, changed: frozenset[str] = frozenset()) -> Notice:
    values = {name: getattr(held, name) for name in (*_FIELDS, "identifier", "pathname")}
    return Notice(
        operation=operation,
        element=Queue(**values),
        owner=OURS,
        machine=COMPUTER,
        server="dc1",
        changed=changed,
    )


_FIELDS = (
    *("type", "label", "transactional", "security", "create_time", "modify_time", "quota", "journal_quota"),
    *("journaling", "authentication", "base_priority", "privacy_level"),
)


@pytest.mark.slow
@given(steps=STEPS, version=st.sampled_from(NotificationVersion), messages_max=st.sampled_from([3, 100]))
def test_the_state_ends_as_the_truth(steps, version, messages_max):
    bench = ReceiverBench(messages_max=messages_max)
    truth = bench.directory
    for number, operation, new, changes, seconds in steps:
        held = truth.get(UUID(int=number))
        if (held is None) is not (operation is CREATION):
            continue
        if held is None:
            told = truth[UUID(int=number)] = queue(number, **new, **changes)
        elif operation is UPDATE:
            told = truth[held.identifier] = replace(held, **changes)
        else:
            told = truth.pop(held.identifier)
        changed = frozenset(Queue.adm_name(name) for name in changes)
        for made in messages_of([notice(operation, told, changed)], SETTINGS[version]):
            bench.step(received(decode(made.message.body)))
        bench.advance(seconds)
    bench.advance(31 * MINUTE)
    assert bench.queues == truth
    assert replayed(bench.events) == truth  # and what subscribers were told is how it came to that


@given(steps=st.lists(st.tuples(st.integers(0, 15), st.floats(0, 1000)), max_size=20))
def test_there_are_fifteen_minutes_between_two_times(steps):
    bench = ReceiverBench(queue(1), messages_max=10)
    times = []
    for count, seconds in steps:
        for _ in range(count):
            for made in messages_of([notice(UPDATE, queue(1))], SETTINGS[NotificationVersion.BODY]):
                bench.step(received(decode(made.message.body)))
        before = len(bench.reads)
        due = min(bench.timers.values(), default=None)
        bench.advance(seconds)
        if len(bench.reads) > before and due is not None:
            times.append(due)
            assert len(bench.reads) - before <= 1 + seconds // (15 * MINUTE)
    assert all(later - earlier >= 15 * MINUTE - 1e-3 for earlier, later in pairwise(times))
