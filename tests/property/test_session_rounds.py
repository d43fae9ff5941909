"""Two queue managers, any order of messages, faults and time; and peers that send anything."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.session.bench import (
    CLIENT,
    SessionBench,
    header,
    open_acceptor,
    open_initiator,
    parameters,
    request,
)

from mqdssm.engines.session import actions as do
from mqdssm.engines.session.timers import SessionState
from mqdssm.model.packets import SessionAck, SessionHeader
from mqdssm.testing.session_simulation.options import SessionOptions
from mqdssm.testing.session_simulation.world import SessionWorld

NAMES = ("A", "B")


class Sessions(RuleBasedStateMachine):
    """Messages in both directions; the world checks each step, and at the end all arrivals."""

    world: SessionWorld

    @initialize(
        seed=st.integers(0, 1000),
        window=st.sampled_from([1, 2, 64]),
        has_shared_sessions=st.booleans(),
        are_counts_high=st.booleans(),
        are_octets=st.booleans(),
        has_pings=st.booleans(),
    )
    def begin(self, seed, window, **flags):
        options = SessionOptions(
            machines=len(NAMES),
            window_sizes=(1, window),
            delay_s=1.0,
            store_s=5.0,
            **flags,
        )
        self.world = SessionWorld(seed, options)

    @rule(source=st.sampled_from(NAMES), is_recoverable=st.booleans(), messages=st.integers(1, 40))
    def send(self, source, is_recoverable, messages):
        for _ in range(messages):
            self.world.send(source, "B" if source == "A" else "A", is_recoverable=is_recoverable)

    @rule(seconds=st.sampled_from([0.1, 1.0, 15.0, 400.0]))
    def wait(self, seconds):
        self.world.run(seconds)

    @rule()
    def cut(self):
        self.world.cut_connection()

    @rule()
    def hear(self):
        self.world.report_neighbour()

    @rule(name=st.sampled_from(NAMES))
    def crash(self, name):
        self.world.crash(name)

    @rule(are_down=st.booleans())
    def links(self, are_down):
        self.world.are_links_down = are_down

    @rule(name=st.sampled_from(NAMES))
    def malformed(self, name):
        """A driver closes the session, as for a packet with a wrong signature."""
        for endpoint in self.world.machines[name].endpoints():
            endpoint.handle(do.CloseSession(detail="malformed packet"))

    @rule(name=st.sampled_from(NAMES))
    def stop(self, name):
        self.world.stop(name)

    @rule(name=st.sampled_from(NAMES))
    def lose_disk(self, name):
        self.world.lose_disk(name)

    @rule(source=st.sampled_from(NAMES))
    def withdraw(self, source):
        self.world.withdraw(source, "B" if source == "A" else "A")

    def teardown(self):
        if hasattr(self, "world"):
            self.world.finish()


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)

NUMBERS = st.one_of(st.integers(0, 5), st.integers(0xFFF0, 0xFFFF), st.integers(0, 0xFFFF))
HEADERS = st.builds(
    SessionHeader,
    ack_sequence_number=NUMBERS,
    recoverable_ack_sequence_number=NUMBERS,
    recoverable_ack_flags=st.one_of(st.integers(0, 7), st.integers(0, 2**32 - 1)),
    user_message_sequence_number=NUMBERS,
    recoverable_message_sequence_number=NUMBERS,
    window_size=NUMBERS,
)
PACKETS = st.one_of(
    st.builds(lambda session: SessionAck(session=session), HEADERS),
    st.builds(lambda ack: SessionAck(session=header(ack)), st.integers(0, 3)),
    st.sampled_from([request(), request(CLIENT), parameters(0)]),
)
EVENTS = st.one_of(
    st.builds(lambda packet: do.PacketReceived(packet=packet), PACKETS),
    st.builds(
        do.MessageReceived,
        token=st.integers(0, 20),
        is_recoverable=st.booleans(),
        session_header=st.none() | HEADERS,
    ),
    st.builds(do.MessageStored, token=st.integers(0, 20)),
    st.sampled_from(
        [do.MessagesWaiting(), do.NothingWaiting(), do.NeighborHeard(), do.CloseSession(detail="x")]
    ),
    st.floats(0.0, 400.0),
)


@pytest.mark.slow
@given(is_initiator=st.booleans(), events=st.lists(EVENTS, max_size=60))
@settings(max_examples=150, deadline=None)
def test_no_peer_makes_a_session_raise_or_forget_a_message(is_initiator, events):
    bench: SessionBench = open_initiator() if is_initiator else open_acceptor()
    under_way: set[int] = set()
    for number, event in enumerate(events):
        actions: list[Any] = list(bench.send(number, is_recoverable=number % 2 == 0))
        under_way.add(number)
        if isinstance(event, float):
            actions += bench.wait(event)
        elif isinstance(event, do.PacketReceived):
            actions += bench.receive(event.packet)
        elif isinstance(event, do.MessageReceived):
            actions += bench.message(is_recoverable=event.is_recoverable, session_header=event.session_header)
        else:
            actions += bench.step(event)
        for action in actions:
            if isinstance(action, do.MessagesAcknowledged | do.MessagesReturned):
                assert under_way.issuperset(action.numbers), "each message leaves once"
                under_way.difference_update(action.numbers)
        assert len(under_way) == bench.session.unacknowledged <= 64
        if bench.session.state is not SessionState.OPEN:
            assert not under_way


@pytest.mark.slow
def test_a_session_outlives_a_wrap_of_its_numbers():
    """Decision T21, from the first message on; the simulation begins shortly before a wrap."""
    messages, acknowledged = 65_536 + 100, 0
    sender, receiver = open_initiator(), open_acceptor()
    for number in range(messages):
        assert sender.session.send_capacity, "half a window is acknowledged at once"
        sender.send(number, is_recoverable=True)
        actions = receiver.message(is_recoverable=True) + receiver.step(do.MessageStored(token=number + 1))
        if number == messages - 1:
            actions += receiver.wait(1.0)
        for action in actions:
            if isinstance(action, do.SendPacket):
                acknowledged += sum(
                    len(answer.numbers)
                    for answer in sender.receive(action.packet)
                    if isinstance(answer, do.MessagesAcknowledged)
                )
    assert acknowledged == messages
    assert sender.session.state is receiver.session.state is SessionState.OPEN
