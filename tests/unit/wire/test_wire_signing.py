"""The bytes that signatures cover, [MS-MQMQ] 2.5.1 and 2.5.2, against hand-made vectors."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from mqdssm.drivers.authentication.private_key import PrivateKey, is_signed
from mqdssm.model.guid import Guid
from mqdssm.model.names import parse_format_name
from mqdssm.model.transport import (
    Acknowledgements,
    AuthenticationLevel,
    DeliveryGuarantee,
    HashAlgorithm,
    Message,
    MessageId,
)
from mqdssm.wire.signing import FIELDS, select_signed_bytes

FILE = json.loads((Path(__file__).parents[2] / "vectors" / "signatures.json").read_text(encoding="utf-8"))
CASES = [
    pytest.param(vector, AuthenticationLevel[level], id=f"{vector['id']}-{level}")
    for vector in FILE["messages"]
    for level in vector["levels"]
]


def key() -> rsa.RSAPrivateKey:
    n, e, d, p, q = (int(FILE["key"][name]) for name in "nedpq")
    public = rsa.RSAPublicNumbers(e, n)
    made = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public)
    return made.private_key()


def message_of(vector) -> Message:
    given = dict(vector["message"])
    for name in ("administration_queue", "response_queue", "destination"):
        given[name] = parse_format_name(given[name])
    given["body"] = bytes.fromhex(given["body"])
    given["identifier"] = MessageId(Guid.parse(given.pop("source")), given.pop("number"))
    if "correlation_source" in given:
        source = Guid.parse(given.pop("correlation_source"))
        given["correlation"] = MessageId(source, given.pop("correlation_number"))
        given["connector_type"] = Guid.parse(given["connector_type"])
    given["acknowledgements"] = Acknowledgements(given["acknowledgements"])
    given["delivery"] = DeliveryGuarantee(given.get("delivery", 0))
    return Message(**given)


@pytest.mark.parametrize(("vector", "level"), CASES)
def test_every_field_lies_where_it_should(vector, level):
    message = message_of(vector)
    expected = vector["levels"][level.name]["fields"]
    assert [(image(message).hex()) for _, image in FIELDS[level]] == [data for _, data in expected]
    assert select_signed_bytes(message, level) == bytes.fromhex("".join(data for _, data in expected))


@pytest.mark.spec("MS-MQQB 3.1.7.1.4")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
@pytest.mark.parametrize("algorithm", HashAlgorithm, ids=lambda one: one.name)
@pytest.mark.parametrize(("vector", "level"), CASES)
def test_signatures_are_those_of_the_vectors(vector, level, algorithm):
    data = select_signed_bytes(message_of(vector), level)
    expected = bytes.fromhex(vector["levels"][level.name]["signatures"][algorithm.name])
    assert PrivateKey(key()).sign(data, algorithm) == expected
    assert is_signed(key().public_key(), data, expected, algorithm)
    assert not is_signed(key().public_key(), data + b"\0", expected, algorithm)
    assert not is_signed(key().public_key(), data, expected[::-1], algorithm)


COVERED_10 = {
    "correlation": MessageId(Guid(bytes(range(16))), 3),
    "application_tag": 5,
    "body": b"other",
    "label": "other",
    "response_queue": parse_format_name("DIRECT=OS:other\\private$\\q"),
    "administration_queue": parse_format_name("DIRECT=OS:other\\private$\\q"),
}
COVERED_20 = COVERED_10 | {
    "identifier": MessageId(Guid(bytes(range(16))), 7),
    "delivery": DeliveryGuarantee.RECOVERABLE,
    "priority": 4,
    "positive_journaling": True,
    "negative_journaling": True,
    "acknowledgements": Acknowledgements.FULL_RECEIVE,
    "message_class": 1,
    "body_type": 8,
    "connector_type": Guid(bytes(range(16))),
    "destination": parse_format_name("DIRECT=OS:other\\private$\\q"),
}


@pytest.mark.parametrize(
    ("level", "covered"), [(AuthenticationLevel.SIG10, COVERED_10), (AuthenticationLevel.SIG20, COVERED_20)]
)
def test_a_changed_property_changes_the_bytes_exactly_when_it_is_covered(level, covered):
    base = message_of(FILE["messages"][0])
    free = {"time_to_reach_queue_s": 1, "time_to_be_received_s": 1, "sent_at": 9, "signature": b"x"}
    changes = COVERED_20 | free
    assert changes.keys() <= {field.name for field in fields(Message)}
    for name, value in changes.items():
        changed = select_signed_bytes(replace(base, **{name: value}), level) != select_signed_bytes(
            base, level
        )
        assert changed is (name in covered), name


def test_spelling_of_a_private_queue_does_not_matter():
    names = ["DIRECT=OS:a\\PRIVATE$\\q", "direct=os:a\\private$\\q"]
    images = {
        select_signed_bytes(Message(destination=parse_format_name(name)), AuthenticationLevel.SIG20)
        for name in names
    }
    assert len(images) == 1
    assert "a\\private$\\q\0".encode("utf-16-le") in images.pop()


def test_what_cannot_be_signed():
    with pytest.raises(ValueError, match="no signature"):
        select_signed_bytes(Message(), AuthenticationLevel.NONE)
    lists = Message(destination=parse_format_name("DL=11111111-2222-4333-8444-555555555555"))
    with pytest.raises(ValueError, match="cannot be signed"):
        select_signed_bytes(lists, AuthenticationLevel.SIG20)
    journal = parse_format_name("PRIVATE=11111111-2222-4333-8444-555555555555\\1;JOURNAL")
    with pytest.raises(ValueError, match="cannot be signed"):  # its bytes would be those of the queue
        select_signed_bytes(Message(response_queue=journal), AuthenticationLevel.SIG10)


def test_flags_are_those_of_the_packet():
    """[MS-MQMQ] 2.5.2: Flags & 0x0F, whatever else a message from the network has there."""
    asked = Message(acknowledgements=Acknowledgements.FULL_RECEIVE)
    more = Message(acknowledgements=Acknowledgements(Acknowledgements.FULL_RECEIVE | 0x130))
    images = [select_signed_bytes(one, AuthenticationLevel.SIG20) for one in (asked, more)]
    assert images[0] == images[1]
