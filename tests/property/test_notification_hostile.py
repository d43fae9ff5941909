"""Whatever a message says: the receiver takes it, and its state stays sound ([MS-MQCN] 3.2.5)."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.notification.receivers import (
    COMPUTER,
    OURS,
    ReceiverBench,
    body,
    deletion,
    queue,
    received,
    update,
)
from support.notification.strategies import DOMAIN_CONTROLLERS, IMAGES, updates
from support.store.property_strategies import some_of

from mqdssm.errors import DecodeError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Properties
from mqdssm.model.notification import (
    NotificationBody,
    NotificationCommand,
    NotificationEvent,
    NotificationUpdate,
    NotificationUpdates,
)
from mqdssm.model.owned_objects import OwnedQueue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.tables.notification import Use, rows_of
from mqdssm.wire.mqcn import decode, encode

IDENTIFIERS = st.sampled_from([queue(number).identifier for number in range(1, 5)])
PATHS = st.sampled_from([f"{COMPUTER}\\q{number}" for number in range(1, 5)] + ["web02\\q1"])
CREATED = some_of(rows_of(ObjectType.QUEUE, Use.CREATED)).flatmap(
    lambda values: st.builds(
        lambda path, identifier: tuple(
            (values | {Propid.Q_PATHNAME: path, Propid.Q_INSTANCE: Guid.of(identifier)}).items()
        ),
        PATHS,
        IDENTIFIERS,
    )
)
CHANGED = some_of([*rows_of(ObjectType.QUEUE, Use.CHANGED), *rows_of(ObjectType.MACHINE, Use.CHANGED)])


def changed(values: dict, identifier: object) -> NotificationUpdate:
    properties: Properties = tuple(values.items()) or ((Propid.Q_QUOTA, 1),)
    return update(NotificationCommand.UPDATE, properties, identifier)


LIKELY = st.one_of(
    st.builds(lambda properties: update(NotificationCommand.CREATE, properties, path_name="x\\y"), CREATED),
    st.builds(changed, CHANGED, IDENTIFIERS | st.just(OURS)),
    st.builds(deletion, IDENTIFIERS),
)
"""Updates that nearly always mean something."""
UPDATES = st.lists(LIKELY | updates(), max_size=4).map(lambda made: NotificationUpdates(updates=tuple(made)))
BODIES = st.builds(
    NotificationBody,
    event=st.sampled_from(NotificationEvent),
    object_guid=IDENTIFIERS.map(Guid.of),
    domain_controller=DOMAIN_CONTROLLERS,
)


def check(bench: ReceiverBench) -> None:
    """Names and identifiers of the state belong together, and everything is ours."""
    for identifier, held in bench.queues.items():
        assert held.identifier == identifier
        assert held.is_of(COMPUTER)
        assert bench.engine.state.find(None, held.pathname) == held


@given(messages=st.lists(UPDATES | BODIES, max_size=8), truth=st.sets(IDENTIFIERS))
def test_any_messages(messages, truth):
    bench = ReceiverBench(queue(1), queue(2))
    bench.directory = {one: queue(one.int) for one in truth}
    for message in messages:
        bench.step(received(message))
    bench.advance(3600)
    check(bench)


def images() -> Iterator[bytes]:
    """Messages that mean something, as bytes."""
    yield from IMAGES.values()
    held: OwnedQueue = queue(1)
    for event in NotificationEvent:
        of = OURS if event is NotificationEvent.CHANGE_QUEUE_MANAGER else held.identifier
        yield encode(body(event, of))
    creation = ((Propid.Q_INSTANCE, Guid.of(held.identifier)), (Propid.Q_PATHNAME, held.pathname))
    for made in (
        update(NotificationCommand.CREATE, (*creation, (Propid.Q_LABEL, "x")), path_name=held.pathname),
        changed({Propid.Q_QUOTA: 5, Propid.Q_JOURNAL: 1}, held.identifier),
        changed({Propid.QM_QUOTA: 5}, OURS),
        deletion(held.identifier),
    ):
        yield encode(NotificationUpdates(updates=(made,)))


@pytest.mark.parametrize(
    "count", [3_000, pytest.param(50_000, marks=[pytest.mark.soak, pytest.mark.timeout(600)])]
)
def test_mutated_messages(count):
    rng = random.Random(count)
    whole = list(images())
    bench = ReceiverBench(queue(1), queue(2), settle_s=0, interval_s=0)
    taken = 0
    for _ in range(count):
        image = bytearray(rng.choice(whole))
        for _ in range(rng.randrange(1, 4)):
            image[rng.randrange(len(image))] = rng.randrange(256)
        try:
            message = decode(bytes(image))
        except DecodeError:
            continue
        taken += 1
        bench.step(received(message))
        bench.advance(1)
    assert taken > count // 20
    check(bench)
