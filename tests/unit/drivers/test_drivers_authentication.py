"""Which messages are believed ([MS-MQQB] 3.1.5.8.3; [MC-MQDSRP] 3.1.7.2.1, decisions R17, R57-R59)."""

import hashlib
from dataclasses import replace

import pytest
from support.replication.queue_managers import START, guid_of, key_of, sender_of

from mqdssm.drivers.authentication import signatures as authentication
from mqdssm.drivers.authentication.keyring import KEYS_TRIED_MAX, PinnedKeys, TrustedSender
from mqdssm.drivers.authentication.private_key import PrivateKey, is_signed
from mqdssm.drivers.authentication.signatures import Distrust, SignaturePolicy, Signer, Verified, Verifier
from mqdssm.errors import DecodeError, DirectoryNotConnected, MappingError
from mqdssm.model.messages import (
    AlreadyPurgedMessage,
    BSCAckMessage,
    ChangePropagationMessage,
    ChangeReplyMessage,
    ChangeRequestMessage,
    Command,
    DirectoryChange,
    PSCAckMessage,
    SyncReplyMessage,
    SyncRequestMessage,
)
from mqdssm.model.propids import Propid
from mqdssm.model.replication import Service
from mqdssm.model.seqnum import MIN
from mqdssm.model.transport import (
    AuthenticationLevel,
    HashAlgorithm,
    Message,
    MessageId,
    SenderIdentifierType,
    own_replication_queue,
    replication_queue,
)
from mqdssm.wire.keys import RSA_BLOB, KeyAlgorithm, PublicKey, RsaBlob
from mqdssm.wire.mqdsrp import decode, encode
from mqdssm.wire.signing import select_signed_bytes

SIG10, SIG20 = AuthenticationLevel.SIG10, AuthenticationLevel.SIG20
SITE = {"site_id": guid_of("site")}
PARTITION = {"partition_id": guid_of("partition")}
CHANGE = DirectoryChange(
    command=Command.UPDATE, path_name="PSC1\\q", **PARTITION, properties=((Propid.Q_LABEL, "label"),)
)
BODIES = [
    ChangeRequestMessage(
        **SITE, **PARTITION, request_identifier=1, requester_name="PSC1", directory_change=CHANGE
    ),
    ChangeReplyMessage(**SITE, request_identifier=1, result=0, requester_name="PSC1"),
    SyncRequestMessage(
        **SITE,
        **PARTITION,
        from_seq_number=MIN,
        to_seq_number=MIN,
        known_purged_seq_number=MIN,
        requester_name="PSC1",
    ),
    SyncReplyMessage(**SITE, **PARTITION, from_seq_number=MIN, to_seq_number=MIN, purged_seq_number=MIN),
    BSCAckMessage(**SITE, bsc_machine_id=guid_of("BSC1"), bsc_name="BSC1"),
    PSCAckMessage(
        **SITE,
        psc_site_id=guid_of("site"),
        acked_partition_id=guid_of("partition"),
        acked_seq_number=MIN,
        psc_name="PSC1",
    ),
    AlreadyPurgedMessage(**SITE, **PARTITION, purged_seq_number=MIN),
    ChangePropagationMessage(**SITE),
    ChangePropagationMessage(**SITE, directory_changes=(CHANGE,)),
]


def message(level=SIG20, algorithm=HashAlgorithm.MD5, *, key=None, **changes) -> Message:
    given = {
        "body": b"body",
        "identifier": MessageId(guid_of("PSC1"), 1),
        "sent_at": int(START),
        "destination": replication_queue("PSC2"),
        "authentication_level": level,
        "hash_algorithm": algorithm,
    }
    return Signer(guid_of("PSC1"), key or key_of("PSC1")).sign(Message(**given | changes))


def verifier(policy: SignaturePolicy | None = None, *, started_at=START, keys=None) -> Verifier:
    known = PinnedKeys({guid_of(name): sender_of(name) for name in ("PSC1", "PSC2")})
    return Verifier(keys or known, started_at, policy or SignaturePolicy())


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
def test_a_signed_message_names_its_sender_and_its_date():
    signed = message()
    assert signed.sender_type is SenderIdentifierType.QUEUE_MANAGER
    assert signed.sender == guid_of("PSC1")
    assert signed.hash_algorithm is HashAlgorithm.MD5
    assert signed.application_tag == int(START)
    assert message(application_tag=7).application_tag == 7
    assert signed.correlation == signed.identifier
    other = MessageId(guid_of("PSC2"), 5)
    assert message(correlation=other).correlation == other
    second = message(identifier=MessageId(guid_of("PSC1"), 2))
    assert signed.signature != second.signature, "the same words twice in a second are two messages"


@pytest.mark.parametrize("algorithm", HashAlgorithm, ids=lambda one: one.name)
@pytest.mark.parametrize("level", [SIG10, SIG20], ids=lambda one: one.name)
def test_a_good_signature(level, algorithm):
    verdict = verifier().verify(message(level, algorithm), START)
    assert verdict == Verified(sender=sender_of("PSC1"), level=level)


@pytest.mark.parametrize(
    ("changes", "distrust"),
    [
        ({"body": b"bodY"}, Distrust.WRONG),
        ({"body": b"body "}, Distrust.WRONG),
        ({"label": "x"}, Distrust.WRONG),
        ({"destination": replication_queue("PSC3")}, Distrust.WRONG),
        ({"application_tag": int(START) + 1}, Distrust.WRONG),
        ({"hash_algorithm": HashAlgorithm.SHA1}, Distrust.WRONG),
        ({"signature": b"\0" * 128}, Distrust.WRONG),
        ({"signature": b"x"}, Distrust.WRONG),
        ({"signature": b""}, Distrust.UNSIGNED),
        ({"signature": b"x" * 3000}, Distrust.REFUSED),
        ({"sender": guid_of("PSC2")}, Distrust.WRONG),
        ({"sender": guid_of("nobody")}, Distrust.UNKNOWN),
        ({"sender": b"\1\5"}, Distrust.UNSIGNED),
        ({"sender_type": SenderIdentifierType.SID}, Distrust.UNSIGNED),
        ({"sender_type": SenderIdentifierType.NONE, "sender": b""}, Distrust.UNSIGNED),
    ],
    ids=lambda value: f"{value!s:.60}",
)
def test_what_is_not_believed_and_said_to_be_so(changes, distrust):
    good = message()
    judge = verifier()
    assert judge.verify(replace(good, **changes), START) is distrust
    assert distrust.is_bad_signature
    assert isinstance(judge.verify(good, START), Verified), "the forged one does not spoil the true one"


def test_a_wrong_key():
    signed = message(key=key_of("somebody else"))
    assert verifier().verify(signed, START) is Distrust.WRONG


def test_a_recorded_message_is_not_believed_again():
    judge, good = verifier(), message()
    assert isinstance(judge.verify(good, START), Verified)
    again = replace(good, identifier=MessageId(guid_of("PSC1"), 99), sent_at=good.sent_at + 60)
    assert judge.verify(again, START + 60) is Distrust.REPLAYED
    assert not Distrust.REPLAYED.is_bad_signature
    assert judge.verify(good, START + 3601) is Distrust.STALE
    undated = replace(good, application_tag=0)
    assert judge.verify(undated, START) is Distrust.WRONG, "the date is signed"


def test_a_recorded_message_is_not_believed_again_when_its_sender_has_another_name():
    """Decision R162: the directory says a new name of the machine with that identifier and key."""
    known = {guid_of("PSC1"): sender_of("PSC1")}
    judge, good = verifier(keys=PinnedKeys(known)), message()
    assert isinstance(judge.verify(good, START), Verified)
    known[guid_of("PSC1")] = replace(sender_of("PSC1"), machine_name="BERLIN1")
    assert judge.verify(good, START + 60) is Distrust.REPLAYED
    fresh = message(identifier=MessageId(guid_of("PSC1"), 2), sent_at=int(START) + 60)
    assert isinstance(judge.verify(fresh, START + 60), Verified)


def test_a_message_to_another_server_is_not_believed_here():
    elsewhere = replace(message(), destination=replication_queue("PSC9"))
    assert verifier().verify(elsewhere, START) is Distrust.WRONG


@pytest.mark.parametrize("body", BODIES, ids=lambda one: type(one).__name__)
def test_a_level_2_signature_passed_off_as_level_1_makes_a_body_that_nobody_decodes(body):
    """The bytes of level 2 begin with those of level 1: a longer body may have the same signature."""
    good = message(body=encode(body))
    tail = select_signed_bytes(good, SIG20)[len(select_signed_bytes(good, SIG10)) :]
    longer = replace(good, body=good.body + tail)
    assert select_signed_bytes(longer, SIG10) == select_signed_bytes(good, SIG20)
    verdict = verifier().verify(longer, START)
    assert isinstance(verdict, Verified)
    assert verdict.level is SIG10
    with pytest.raises(DecodeError):
        decode(longer.body)
    narrow = SignaturePolicy(levels=frozenset({SIG20}))
    assert verifier(narrow).verify(longer, START) is Distrust.WRONG


@pytest.mark.parametrize("body", BODIES, ids=lambda one: type(one).__name__)
def test_octets_moved_between_body_and_queues_make_a_body_that_nobody_decodes(body):
    """Fields have no bounds in the hash (decision R57): what one loses, another may get."""
    own, data = own_replication_queue(guid_of("PSC1")), encode(body)
    good = message(body=data, response_queue=own, administration_queue=own)
    image = select_signed_bytes(good, SIG20)
    begin, queue = image.index(data), 20
    for taken in (1, 2):  # one queue or both become body
        longer = data + image[begin + len(data) :][: taken * queue]
        names = {"response_queue": None, "administration_queue": own if taken == 1 else None}
        forged = replace(good, body=longer, **names)
        assert isinstance(verifier().verify(forged, START), Verified)
        with pytest.raises(DecodeError):
            decode(longer)
    for taken in (1, 2):  # the end of the body becomes queues
        tail = data[-taken * queue :]
        if len(tail) < taken * queue:
            continue
        with pytest.raises(DecodeError):
            decode(data[: -taken * queue])


def test_a_sender_whose_object_cannot_be_read_is_not_judged():
    """Its object is not what ours are: this is no defect of the queue manager, which has to live on."""

    class Odd:
        def find_senders(self, queue_manager):
            raise MappingError("PROPID_QM_SERVICE is 'x'")

    assert Verifier(Odd(), START).verify(message(), START) is Distrust.UNAVAILABLE


def test_no_more_senders_are_tried_than_an_enterprise_has(monkeypatch):
    monkeypatch.setattr(authentication, "SENDERS_TRIED_MAX", 3)

    class Many:
        def find_senders(self, queue_manager):
            yield from [sender_of("PSC2")] * self.before
            yield sender_of("PSC1")

    ring = Many()
    ring.before = 2
    assert isinstance(verifier(keys=ring).verify(message(), START), Verified)
    ring.before = 3
    assert verifier(keys=ring).verify(message(), START) is Distrust.WRONG


@pytest.mark.parametrize("bits", [16_384, 16_416, 65_536])
def test_a_huge_key_of_the_directory_verifies_nothing_and_breaks_nothing(bits):
    blob = RsaBlob(
        algorithm=KeyAlgorithm.CALG_RSA_SIGN,
        bits=bits,
        exponent=0xFFFF_FFFF,
        modulus=b"\xff" * (bits // 8),
    )
    huge = PublicKey(blob=RSA_BLOB.encode(blob))
    ring = PinnedKeys(
        {guid_of("PSC1"): TrustedSender(machine_name="PSC1", service=Service.PSC, keys=(huge,))}
    )
    long = replace(message(), signature=b"\x01" * min(bits // 8, 2048))
    assert verifier(keys=ring).verify(long, START) is Distrust.WRONG


def test_nothing_from_before_the_start():
    assert not Distrust.STALE.is_bad_signature
    assert verifier(started_at=START + 10).verify(message(), START + 10) is Distrust.STALE


def test_messages_of_windows_have_no_date():
    unsigned = Message(
        body=b"body",
        identifier=MessageId(guid_of("PSC1"), 1),
        destination=replication_queue("PSC2"),
        sender_type=SenderIdentifierType.QUEUE_MANAGER,
        sender=guid_of("PSC1"),
    )
    signature = key_of("PSC1").sign(select_signed_bytes(unsigned, SIG10), HashAlgorithm.MD5)
    undated = replace(unsigned, signature=signature)
    judge = verifier()
    for _ in range(2):  # nothing tells a repetition
        assert isinstance(judge.verify(undated, START), Verified)
    assert verifier(SignaturePolicy(dated_only=True)).verify(undated, START) is Distrust.REFUSED


def test_a_narrower_policy():
    policy = SignaturePolicy(hash_algorithms=frozenset({HashAlgorithm.SHA256}))
    assert verifier(policy).verify(message(), START) is Distrust.REFUSED
    assert isinstance(verifier(policy).verify(message(algorithm=HashAlgorithm.SHA256), START), Verified)
    only_20 = SignaturePolicy(levels=frozenset({SIG20}))
    assert verifier(only_20).verify(message(SIG10), START) is Distrust.WRONG


def test_any_key_of_the_sender_and_no_more_than_a_few():
    good = key_of("PSC1").public_keys().keys[0]
    other = key_of("PSC2").public_keys().keys[0]
    broken = PublicKey(blob=b"no key")
    for keys, believed in [
        ((broken, other, good), True),
        ((other,) * (KEYS_TRIED_MAX - 1) + (good,), True),
        ((other,) * KEYS_TRIED_MAX + (good,), False),
        ((), False),
    ]:
        ring = PinnedKeys(
            {guid_of("PSC1"): TrustedSender(machine_name="PSC1", service=Service.PSC, keys=keys)}
        )
        assert isinstance(verifier(keys=ring).verify(message(), START), Verified) is believed


def test_a_weak_key_is_no_key():
    """512 bits, as Windows NT made them: anybody can find the other half, as this test has it."""
    p = 0xF774EB5248DB40AF72158370D269A9A5AE658F33FE3B890B93F448B3A5AA3C81
    q = 0xDE7D6B377936D536243D35702C1EEA1F265974A7CC966F46C6AA7D550101B811
    modulus, length = p * q, 64
    data = select_signed_bytes(message(), SIG20)
    info = bytes.fromhex("3020300c06082a864886f70d020505000410")
    padded = (info + hashlib.md5(data, usedforsecurity=False).digest()).rjust(length - 3, b"\xff")
    padded = b"\0\1" + padded.replace(info, b"\0" + info)
    number = pow(int.from_bytes(padded, "big"), pow(65537, -1, (p - 1) * (q - 1)), modulus)
    assert len(padded) == length
    good = replace(message(), signature=number.to_bytes(length, "little"))
    blob = RsaBlob(
        algorithm=KeyAlgorithm.CALG_RSA_SIGN,
        bits=8 * length,
        exponent=65537,
        modulus=modulus.to_bytes(length, "little"),
    )
    weak = PublicKey(blob=RSA_BLOB.encode(blob))
    assert is_signed(weak.rsa(), data, good.signature, HashAlgorithm.MD5)
    ring = PinnedKeys(
        {guid_of("PSC1"): TrustedSender(machine_name="PSC1", service=Service.PSC, keys=(weak,))}
    )
    assert verifier(keys=ring).verify(good, START) is Distrust.WRONG


def test_a_directory_that_is_down_is_no_verdict():
    class Down:
        def find_senders(self, queue_manager):
            raise DirectoryNotConnected("down")

    judge = Verifier(Down(), START)
    assert judge.verify(message(), START) is Distrust.UNAVAILABLE
    assert not Distrust.UNAVAILABLE.is_bad_signature


@pytest.mark.spec("MS-MQQB 3.1.7.1.4")
def test_a_signer_signs_with_a_generated_key():
    key = PrivateKey.generate(2048)
    ring = PinnedKeys(
        {
            guid_of("PSC1"): TrustedSender(
                machine_name="PSC1", service=Service.PSC, keys=key.public_keys().keys
            )
        }
    )
    assert isinstance(verifier(keys=ring).verify(message(key=key), START), Verified)


def test_what_is_not_to_be_signed():
    with pytest.raises(ValueError, match="no signature"):
        message(AuthenticationLevel.NONE)
