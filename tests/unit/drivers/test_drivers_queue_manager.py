"""The network in one process: every negative acknowledgement that can occur in it, faults and limits."""

from dataclasses import replace

import pytest
from support.replication.queue_managers import (
    SIGNED,
    World,
    guid_of,
    key_of,
    nack,
    received,
    signed,
    wait_until,
)

from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.authentication.signatures import Distrust
from mqdssm.drivers.queue_manager import inbox as inbox_module
from mqdssm.drivers.queue_manager import local_queue_manager as queue_manager
from mqdssm.drivers.queue_manager.local_queue_manager import ARRIVING_MAX, QueueManagerSettings
from mqdssm.drivers.queue_manager.outgoing import OutgoingLimits
from mqdssm.drivers.transport import NOTIFICATION, REPLICATION, LocalQueue
from mqdssm.errors import TransportError
from mqdssm.model.names import DirectFormatName, DirectProtocol, PathKind, parse_format_name
from mqdssm.model.transport import (
    Acknowledgements,
    AuthenticationLevel,
    Message,
    MessageClass,
    SenderIdentifierType,
    own_replication_queue,
    replication_queue,
)

RIGHT = replication_queue("RIGHT")
ARRIVAL = Acknowledgements.POSITIVE_ARRIVAL
SMALL = LocalQueue(
    name=REPLICATION.name, number=REPLICATION.number, authenticated=True, messages_max=2, bytes_max=1_000
)


@pytest.fixture
def hosts(world):
    return world.add("LEFT"), world.add("RIGHT")


@pytest.mark.spec("MS-MQQB 3.1.5.8.2")
def test_bad_dest_queue(hosts):
    left, _ = hosts
    own = left.open(REPLICATION)
    left.send(signed("LEFT"), RIGHT)
    assert nack(own) is MessageClass.NACK_BAD_DEST_QUEUE


@pytest.mark.spec("MS-MQQB 3.1.7.1.2")
def test_reach_queue_timeout_where_nobody_is(world):
    left = world.add("LEFT")
    own = left.open(REPLICATION)
    left.send(signed("LEFT", time_to_reach_queue_s=10), replication_queue("NOBODY"))
    world.advance(10.9)
    assert own.receive(0.05) is None, "whole seconds: a message of 12:00:00.9 has its ten seconds, too"
    world.advance(0.1)
    back = received(own)
    assert back.message_class == MessageClass.NACK_REACH_QUEUE_TIMEOUT
    assert back.sent_at == int(world.clock.now)
    assert back.response_queue == replication_queue("NOBODY")


def test_reach_queue_timeout_under_way(world, hosts):
    left, right = hosts
    own, inbox = left.open(REPLICATION), right.open(REPLICATION)

    def slow(_source, target, message):
        if target == "RIGHT":
            world.clock.now += 100
        return (message,)

    world.network.fault = slow
    left.send(signed("LEFT", time_to_reach_queue_s=10), RIGHT)
    assert nack(own) is MessageClass.NACK_REACH_QUEUE_TIMEOUT
    assert inbox.receive(0) is None


@pytest.mark.spec("MS-MQQB 3.1.5.8.8")
def test_exceed_quota_by_messages_and_by_octets(hosts):
    left, right = hosts
    own, inbox = left.open(REPLICATION), right.open(SMALL)
    for body in (b"one", b"two", b"three"):
        left.send(signed("LEFT", body), RIGHT)
    assert nack(own) is MessageClass.NACK_QUEUE_EXCEED_QUOTA
    assert received(inbox).body == b"one"
    left.send(signed("LEFT", bytes(850)), RIGHT)
    assert nack(own) is MessageClass.NACK_QUEUE_EXCEED_QUOTA
    assert received(inbox).body == b"two"
    assert inbox.receive(0) is None


@pytest.mark.parametrize("part", ["signature", "sender", "label", "response_queue"])
def test_signatures_and_senders_count_for_the_quota(world, part):
    """Queues that want no signatures keep them, too, and strangers choose their sizes."""
    left, right = world.add("LEFT"), world.network.add("PLAIN", guid_of("PLAIN"))
    small = LocalQueue(name="small", number=9, bytes_max=1_000)
    own, inbox = left.open(NOTIFICATION), right.open(small)
    address = DirectFormatName(DirectProtocol.OS, "PLAIN", kind=PathKind.PRIVATE, queue="small")
    name = DirectFormatName(DirectProtocol.OS, "LEFT", kind=PathKind.PRIVATE, queue=NOTIFICATION.name)
    values = {
        "signature": bytes(600),
        "sender": bytes(600),
        "label": "x" * 240,
        "response_queue": replace(name, queue="q" * 120),
    }
    change = {part: values[part]}
    for _ in range(4):
        left.send(Message(acknowledgements=SIGNED, administration_queue=name, **change), address)
    assert nack(own) is MessageClass.NACK_QUEUE_EXCEED_QUOTA
    assert received(inbox).body == b""


def test_bad_signature_of_a_wrong_key(world):
    left, right = world.add("LEFT", key=PrivateKey.generate(1024)), world.add("RIGHT")
    own, inbox = left.open(REPLICATION), right.open(REPLICATION)
    left.send(signed("LEFT"), RIGHT)
    assert nack(own) is MessageClass.NACK_BAD_SIGNATURE
    assert inbox.receive(0) is None
    assert right.counts.copy()[f"distrusted: {Distrust.WRONG.value}"] == 1


def test_bad_signature_of_an_altered_body(world, hosts):
    left, right = hosts
    own, inbox = left.open(REPLICATION), right.open(REPLICATION)
    world.network.fault = lambda _source, target, message: (
        (replace(message, body=b"bad" + message.body),) if target == "RIGHT" else (message,)
    )
    left.send(signed("LEFT", b"good"), RIGHT)
    back = received(own)
    assert (back.message_class, back.body) == (MessageClass.NACK_BAD_SIGNATURE, b"badgood")
    assert inbox.receive(0) is None


def test_bad_signature_of_an_unknown_machine(world, hosts):
    stranger = world.network.add("STRANGER", guid_of("STRANGER"), signer=None, verifier=None)
    assert guid_of("STRANGER") not in world.known
    _, right = hosts
    right.open(REPLICATION)
    own = stranger.open(NOTIFICATION)
    with pytest.raises(TransportError, match="no key"):
        stranger.send(signed("STRANGER"), RIGHT)
    with pytest.raises(ValueError, match="nobody verifies"):
        stranger.open(REPLICATION)
    forged = replace(
        signed("STRANGER", authentication_level=AuthenticationLevel.NONE),
        signature=b"x" * 128,
        sender=bytes(guid_of("STRANGER")),
        sender_type=SenderIdentifierType.QUEUE_MANAGER,
        administration_queue=replace(own_replication_queue(guid_of("STRANGER")), number=NOTIFICATION.number),
    )
    stranger.send(forged, RIGHT)
    assert nack(own) is MessageClass.NACK_BAD_SIGNATURE
    assert right.counts.copy()[f"distrusted: {Distrust.UNKNOWN.value}"] == 1


def test_a_repeated_message_is_dropped_without_an_answer(world, hosts):
    left, right = hosts
    own, inbox = left.open(REPLICATION), right.open(REPLICATION)
    world.network.fault = lambda _source, _target, message: (
        message,
        message,
        replace(message, identifier=replace(message.identifier, number=message.identifier.number + 1000)),
    )
    left.send(signed("LEFT", b"once"), RIGHT)
    assert received(inbox).body == b"once"
    wait_until(lambda: len(right.counts.copy()) == 2)
    assert right.counts.copy() == {
        "dropped: came twice": 1,
        # level 2 covers the source, and the number is none of its own: the date and signature tell
        f"distrusted: {Distrust.REPLAYED.value}": 1,
    }
    assert inbox.receive(0) is None
    assert own.receive(0.05) is None


@pytest.mark.parametrize("forged_to", [NOTIFICATION, REPLICATION], ids=["another queue", "the same queue"])
def test_a_forged_identifier_hides_no_message(world, hosts, forged_to):
    """Identifiers are covered by no signature: what is believed makes one known, and in its queue alone."""
    left, right = hosts
    inbox = right.open(REPLICATION)
    other = right.open(NOTIFICATION)
    evil = world.network.add("EVIL", guid_of("EVIL"))
    address = DirectFormatName(DirectProtocol.OS, "RIGHT", kind=PathKind.PRIVATE, queue=forged_to.name)
    world.network.fault = lambda source, _target, message: (
        (replace(message, identifier=replace(message.identifier, source=guid_of("LEFT"))),)
        if source == "EVIL"
        else (message,)
    )
    for _ in range(5):
        evil.send(Message(body=b"forged"), address)
    if forged_to is NOTIFICATION:
        assert [received(other).body for _ in range(5)] == [b"forged"] * 5
    else:
        wait_until(lambda: right.counts.copy().get("refused: NACK_BAD_SIGNATURE") == 5)
    for number in range(1, 8):
        left.send(signed("LEFT", b"%d" % number), RIGHT)
    assert [received(inbox).body for _ in range(7)] == [b"%d" % number for number in range(1, 8)]
    assert "dropped: came twice" not in right.counts.copy()


@pytest.mark.spec("MS-MQQB 3.1.5.8.5")
def test_a_message_that_was_signed_for_another_machine_is_refused(world, hosts):
    """The signature is good; it covers the destination, and that is not here."""
    left, right = hosts
    inbox, own = right.open(REPLICATION), left.open(REPLICATION)
    there = world.add("THIRD").open(REPLICATION)
    recorded = []
    world.network.fault = lambda _source, _target, message: recorded.append(message) or (message,)
    left.send(signed("LEFT", b"for the third"), replication_queue("THIRD"))
    assert received(there).body == b"for the third"
    world.network.fault = None
    assert right.offer(recorded)
    assert nack(own) is MessageClass.NACK_BAD_DEST_QUEUE
    for name in ("PUBLIC=11111111-2222-4333-8444-555555555555", "DIRECT=OS:RIGHT\\mqis_queue$"):
        assert right.offer([replace(recorded[0], destination=parse_format_name(name))])
        assert nack(own) is MessageClass.NACK_BAD_DEST_QUEUE
    assert right.offer([replace(recorded[0], destination=RIGHT)])
    assert nack(own) is MessageClass.NACK_BAD_SIGNATURE
    assert inbox.receive(0) is None


@pytest.mark.spec("MS-MQQB 3.1.7.2")
@pytest.mark.spec("MS-MQQB 3.1.7.2.1")
def test_queue_purged_and_deleted(hosts):
    left, right = hosts
    own, inbox = left.open(REPLICATION), right.open(REPLICATION)
    arrival = Acknowledgements.FULL_RECEIVE | Acknowledgements.POSITIVE_ARRIVAL
    for reason, remove in [
        (MessageClass.NACK_QUEUE_PURGED, inbox.purge),
        (MessageClass.NACK_QUEUE_DELETED, lambda: right.delete(REPLICATION)),
    ]:
        left.send(replace(signed("LEFT", reason.name.encode()), acknowledgements=arrival), RIGHT)
        assert nack(own) is MessageClass.ACK_REACH_QUEUE
        remove()
        assert nack(own) is reason
    assert inbox.is_closed
    left.send(signed("LEFT"), RIGHT)
    assert nack(own) is MessageClass.NACK_BAD_DEST_QUEUE
    assert right.open(REPLICATION) is not inbox


@pytest.mark.spec("MS-MQQB 3.1.7.2")
def test_receive_timeout(world, hosts):
    left, right = hosts
    own, inbox = left.open(REPLICATION), right.open(REPLICATION)
    message = replace(
        signed("LEFT", time_to_be_received_s=30), acknowledgements=Acknowledgements.NACK_RECEIVE | ARRIVAL
    )
    left.send(message, RIGHT)
    assert nack(own) is MessageClass.ACK_REACH_QUEUE
    world.advance(31)
    assert nack(own) is MessageClass.NACK_RECEIVE_TIMEOUT
    assert inbox.receive(0) is None


def test_receive_timeout_is_noticed_by_who_receives(world, hosts):
    left, right = hosts
    own, inbox = left.open(REPLICATION), right.open(REPLICATION)
    message = replace(
        signed("LEFT", time_to_be_received_s=30), acknowledgements=Acknowledgements.NACK_RECEIVE | ARRIVAL
    )
    left.send(message, RIGHT)
    assert nack(own) is MessageClass.ACK_REACH_QUEUE
    world.clock.now += 31  # nobody is woken
    assert inbox.receive(0) is None
    assert nack(own) is MessageClass.NACK_RECEIVE_TIMEOUT


def test_purged_before_it_left(world):
    left = world.add("LEFT")
    own = left.open(REPLICATION)
    left.send(signed("LEFT"), RIGHT)
    left.purge_waiting(RIGHT)
    assert nack(own) is MessageClass.NACK_PURGED
    left.purge_waiting(replication_queue("NEVER"))


def test_insecure_nacks_can_be_forbidden(world):
    left, right = world.add("LEFT"), world.add("RIGHT", settings=QueueManagerSettings(insecure_nacks=False))
    own = left.open(REPLICATION)
    left.send(signed("LEFT"), RIGHT)
    wait_until(right.counts.copy)
    assert right.counts.copy() == {"refused: NACK_BAD_DEST_QUEUE": 1}
    assert own.receive(0.05) is None


def test_a_cut_link_and_a_healed_one(world, hosts):
    left, right = hosts
    own, inbox = left.open(REPLICATION), right.open(REPLICATION)
    third = world.add("THIRD")
    there = third.open(REPLICATION)
    world.network.cut("left", "RIGHT")
    left.send(signed("LEFT", b"first", time_to_reach_queue_s=10), RIGHT)
    left.send(signed("LEFT", b"elsewhere"), replication_queue("THIRD"))
    assert received(there).body == b"elsewhere"
    assert inbox.receive(0.05) is None
    world.advance(11)
    assert nack(own) is MessageClass.NACK_REACH_QUEUE_TIMEOUT
    left.send(signed("LEFT", b"second"), RIGHT)
    world.network.heal()
    assert received(inbox).body == b"second"


def test_messages_wait_for_a_machine_that_is_not_there_yet(world, hosts):
    left, _ = hosts
    left.send(signed("LEFT", b"early"), replication_queue("THIRD"))
    world.network.cut("LEFT", "THIRD")
    inbox = world.add("THIRD").open(REPLICATION)
    assert inbox.receive(0.05) is None
    world.network.heal()
    assert received(inbox).body == b"early"


def test_messages_of_a_machine_that_starts_again_are_no_repetitions(world, hosts):
    """Numbers go on: others drop for hours what comes under one that they know ([MS-MQQB] 3.1.5.8.2)."""
    left, right = hosts
    inbox = right.open(REPLICATION)
    for body in (b"first life", b"second life"):
        left.send(signed("LEFT", body), RIGHT)
        assert received(inbox).body == body
        left.close()
        left = world.add("LEFT")
    assert not right.counts.copy()


def test_too_many_wait(world):
    left = world.add(
        "LEFT", settings=QueueManagerSettings(outgoing=OutgoingLimits(messages_max=3, bytes_max=1_000))
    )
    for _ in range(3):
        left.send(signed("LEFT"), RIGHT)
    with pytest.raises(TransportError, match="too many"):
        left.send(signed("LEFT"), RIGHT)
    left.send(signed("LEFT"), replication_queue("THIRD"))
    left.purge_waiting(RIGHT)
    with pytest.raises(TransportError, match="too many"):
        left.send(signed("LEFT", bytes(1001)), RIGHT)


def test_acknowledgements_that_lead_nowhere_are_dropped(hosts):
    left, right = hosts
    inbox = right.open(REPLICATION)
    message = signed("LEFT")
    nowhere = parse_format_name("PUBLIC=11111111-2222-4333-8444-555555555555")
    left.send(replace(message, administration_queue=nowhere, acknowledgements=ARRIVAL), RIGHT)
    assert received(inbox).body == b"body"


def test_a_flood_of_messages_that_are_refused_fills_nothing(world):
    """Whoever is refused says where the acknowledgement goes; nobody is there, and it waits for ever."""
    small = OutgoingLimits(acknowledgements_max=5)
    right, left = world.add("RIGHT", settings=QueueManagerSettings(outgoing=small)), world.add("LEFT")
    own = left.open(REPLICATION)
    for number in range(50):
        nowhere = replication_queue(f"NOWHERE{number}")
        left.send(replace(signed("LEFT"), administration_queue=nowhere), RIGHT)
    wait_until(lambda: right.counts.copy().get("given up: acknowledgement") == 45)
    assert len(right._outgoing.addresses) == 5
    left.send(signed("LEFT"), RIGHT)
    assert nack(own) is MessageClass.NACK_BAD_DEST_QUEUE, "the newest is not given up"


@pytest.mark.parametrize("message_class", [MessageClass.REPORT, MessageClass.ORDER_ACK, 0x0100, 0xE1FF])
def test_only_acknowledgements_need_no_signature(hosts, message_class):
    left, right = hosts
    own, inbox = left.open(REPLICATION), right.open(REPLICATION)
    unsigned = signed("LEFT", authentication_level=AuthenticationLevel.NONE, message_class=message_class)
    left.send(unsigned, RIGHT)
    assert nack(own) is MessageClass.NACK_BAD_SIGNATURE
    assert inbox.receive(0) is None


def test_insecure_nacks_of_signatures_can_be_forbidden_too(world):
    right = world.add("RIGHT", settings=QueueManagerSettings(insecure_nacks=False))
    left, inbox = world.add("LEFT"), right.open(REPLICATION)
    own = left.open(REPLICATION)
    left.send(signed("LEFT", authentication_level=AuthenticationLevel.NONE), RIGHT)
    wait_until(lambda: "refused: NACK_BAD_SIGNATURE" in right.counts.copy())
    assert own.receive(0.05) is None
    assert inbox.receive(0) is None


def test_a_defect_stops_a_queue_manager_and_is_told(world, hosts, caplog):
    left, right = hosts
    inbox = right.open(REPLICATION)
    defect = RuntimeError("defect")

    def fail(*_):
        raise defect

    right._verifier.verify = fail
    left.send(signed("LEFT"), RIGHT)
    assert inbox.receive(10) is None
    assert inbox.is_closed
    assert "RIGHT has stopped" in caplog.text
    with pytest.raises(TransportError, match="closed"):
        right.send(signed("RIGHT"), replication_queue("LEFT"))
    third = world.add("THIRD").open(REPLICATION)
    with pytest.raises(RuntimeError, match="defect"):
        right.close()
    right.close()
    left.send(signed("LEFT"), replication_queue("THIRD"))
    assert received(third).body == b"body"


def test_a_network_closes_all_hosts_whatever_one_of_them_raises(world, hosts):
    left, right = hosts
    queues = [one.open(REPLICATION) for one in hosts]
    for host in hosts:
        host._thread._failure = RuntimeError(host.machine_name)
    with pytest.raises(RuntimeError):
        world.network.close()
    assert all(one.is_closed for one in queues)
    assert not left._thread.is_alive
    assert not right._thread.is_alive


def test_names_and_identifiers_are_taken_once(world, hosts):
    with pytest.raises(ValueError, match="already"):
        world.network.add("left", guid_of("new"))
    with pytest.raises(ValueError, match="already"):
        world.network.add("new", guid_of("LEFT"))
    hosts[0].close()
    world.add("LEFT")


def test_a_fast_sender_waits_for_a_slow_host_without_loss(world, hosts, monkeypatch):
    """More than a host takes in at once: the rest waits where it was sent, until there is room again."""
    monkeypatch.setattr(queue_manager, "RETRY_S", 3600)
    left, right = hosts
    inbox = right.open(REPLICATION)
    count = 5 * ARRIVING_MAX
    world.network.cut("LEFT", "RIGHT")
    for number in range(count):
        left.send(signed("LEFT", b"%d" % number), RIGHT)
    world.network.heal()  # all at once
    assert [int(received(inbox).body) for _ in range(count)] == list(range(count))
    assert right.counts.copy() == {}


def test_few_identifiers_are_remembered(hosts, monkeypatch):
    monkeypatch.setattr(inbox_module, "REMEMBERED_MAX", 10)
    left, right = hosts
    inbox = right.open(REPLICATION)
    for _ in range(30):
        left.send(signed("LEFT"), RIGHT)
        received(inbox)
    assert len(inbox._known) <= 10


def test_fifty_hosts():
    names = [f"HOST{number}" for number in range(50)]
    world = World([])
    try:
        shared = key_of("shared")
        inboxes = {}
        for name in names:
            world.known[guid_of(name)] = world.known.get(guid_of(name)) or _shared_sender(name, shared)
        for name in names:
            inboxes[name] = world.add(name, key=shared).open(REPLICATION)
        for number, name in enumerate(names):
            for step in (1, 2, 3):
                target = names[(number + step) % len(names)]
                host = world.network._queue_managers[guid_of(name)]
                host.send(signed(name, f"{name} {step}".encode()), replication_queue(target))
        for number, name in enumerate(names):
            bodies = {received(inboxes[name]).body.decode() for _ in range(3)}
            assert bodies == {f"{names[number - step]} {step}" for step in (1, 2, 3)}
    finally:
        world.network.close()


def _shared_sender(name, key):
    from mqdssm.drivers.authentication.keyring import TrustedSender
    from mqdssm.model.replication import Service

    return TrustedSender(machine_name=name, service=Service.BSC, keys=key.public_keys().keys)
