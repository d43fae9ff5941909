"""Broken bytes: either they decode and encode to themselves, or DecodeError comes out, and nothing else."""

import io
import json
from pathlib import Path
from random import Random

import pytest
from support.notification.strategies import IMAGES, PACKETS
from support.packets.captures import CapturedConnection, pcap_of, pcapng_of
from support.packets.strategies import PACKETS_PRINTED
from support.replication.strategies import VECTORS as MESSAGES
from support.replication.strategies import image_of
from support.wire.strategies import mutants

from mqdssm.diagnostics.capture import Capture
from mqdssm.errors import ConfigError, DecodeError
from mqdssm.wire import mqcn, mqdsrp, mqqb, mqsd, packet_view
from mqdssm.wire.certificates import UserSignCerts
from mqdssm.wire.dtyp import Ace, Acl, SecurityDescriptor, Sid
from mqdssm.wire.keys import RSA_BLOB, PublicKeys
from mqdssm.wire.show import to_json_value

FOLDER = Path(__file__).parents[1] / "vectors"
VECTORS = [
    *json.loads((FOLDER / "descriptors.json").read_text()),
    *json.loads((FOLDER / "keys.json").read_text()),
]
SEED = 20_130_625
MUTANTS = 8_000


def attempt(decode, data):
    """What is made of the data, or None for a refusal with all that it must have."""
    try:
        return decode(data)
    except DecodeError as error:
        refused = error
    assert type(refused) is DecodeError
    assert refused.section.startswith(("[MS-", "[MC-"))
    assert refused.field
    return None


def seeds(kind):
    return [bytes.fromhex(vector["hex"]) for vector in VECTORS if vector["kind"] == kind]


DESCRIPTORS = seeds("descriptor")
ACES = [
    *seeds("ace"),
    bytes.fromhex(
        "050028000001000001000000" + "0232bd063edfd1119c86006008764d0e" + "010100000000000100000000"
    ),
    bytes.fromhex("09031c00ffff1f00" + "010100000000000100000000" + "6172747800000000"),
]
ACLS = [bytes(Acl.of(map(Ace.from_bytes, ACES))), bytes(Acl()), bytes.fromhex("0200600004000000") + bytes(88)]
BLOBS = [key.blob for image in seeds("keys") for key in PublicKeys.from_bytes(image).keys]


@pytest.mark.parametrize(
    ("decode", "corpus", "share"),
    [
        pytest.param(SecurityDescriptor.from_bytes, DESCRIPTORS, 8, id="SecurityDescriptor"),
        pytest.param(Acl.from_bytes, ACLS, 3, id="Acl"),
        pytest.param(Ace.from_bytes, ACES, 2, id="Ace"),
        pytest.param(Sid.from_bytes, seeds("sid"), 1, id="Sid"),
        pytest.param(PublicKeys.from_bytes, seeds("keys"), 3, id="PublicKeys"),
        pytest.param(RSA_BLOB.decode, BLOBS, 1, id="RsaBlob"),
        pytest.param(UserSignCerts.from_bytes, seeds("certificates"), 2, id="UserSignCerts"),
    ],
)
def test_mutants(decode, corpus, share):
    accepted = 0
    for mutant in mutants(Random(SEED), corpus, MUTANTS * share // 20):
        made = attempt(decode, mutant)
        if made is None:
            continue
        accepted += 1
        if isinstance(made, SecurityDescriptor | Ace | Sid | PublicKeys | UserSignCerts):
            assert bytes(made) == mutant
        if isinstance(made, SecurityDescriptor):
            text = made.to_sddl()
            assert SecurityDescriptor.from_sddl(text).to_sddl() == text
    assert accepted > 0, "a corpus that is never accepted proves little"


def test_mutated_text():
    """Whatever people type, ValueError is all that comes out."""
    random = Random(SEED)
    texts = [vector["sddl"] for vector in VECTORS if "sddl" in vector]
    letters = "OGDS:();APRI0x19-#WDBASY\u0661 \n"
    for _ in range(4000):
        text = list(random.choice(texts))
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(text) + 1)
            text[at : at + random.randint(0, 3)] = random.choices(letters, k=random.randint(0, 4))
        try:
            made = SecurityDescriptor.from_sddl("".join(text))
        except ValueError:
            continue
        canonical = made.to_sddl()
        assert SecurityDescriptor.from_sddl(canonical).to_sddl() == canonical


@pytest.mark.parametrize("size", [0, 1, 19, 20, 4096, 200_000])
def test_noise_is_refused_quickly(size):
    noise = Random(SEED).randbytes(size)
    for decode in (SecurityDescriptor.from_bytes, Acl.from_bytes, Ace.from_bytes, PublicKeys.from_bytes):
        with pytest.raises(DecodeError):
            decode(noise)


def test_mutated_messages():
    """What is accepted encodes to the same bytes; what is refused is shown up to there, in the same words."""
    accepted = 0
    for mutant in mutants(Random(SEED), [image_of(vector) for vector in MESSAGES], MUTANTS // 4):
        made = attempt(mqdsrp.decode, mutant)
        shown = mqdsrp.show_message(mutant)
        json.dumps(to_json_value("", shown.fields))
        if made is None:
            with pytest.raises(DecodeError) as caught:
                mqdsrp.decode(mutant)
            assert str(shown.error) == str(caught.value)
            continue
        accepted += 1
        assert shown.error is None
        assert mqdsrp.encode(made) == mutant
    assert accepted > 0


@pytest.mark.parametrize(
    ("decode", "encode", "show", "corpus"),
    [
        pytest.param(
            mqcn.decode,
            mqcn.encode,
            mqcn.show_message,
            [image + b"\0" for image in IMAGES.values()],
            id="notification",
        ),
        pytest.param(mqsd.decode, mqsd.encode, mqsd.show_message, list(PACKETS.values()), id="topology"),
        pytest.param(
            mqqb.decode_packet, mqqb.encode_packet, packet_view.show_packet, PACKETS_PRINTED, id="session"
        ),
    ],
)
def test_mutated_notifications_and_packets(decode, encode, show, corpus):
    """What is accepted comes back as itself; what is refused is shown up to there, in the same words."""
    accepted = 0
    for mutant in mutants(Random(SEED), corpus, MUTANTS // 4):
        made = attempt(decode, mutant)
        shown = show(mutant)
        json.dumps(to_json_value("", shown.fields))
        if made is None:
            with pytest.raises(DecodeError) as caught:
                decode(mutant)
            assert str(shown.error) == str(caught.value)
            continue
        accepted += 1
        assert shown.error is None
        assert decode(encode(made)) == made
    assert accepted > 0


@pytest.mark.parametrize("write", [pcap_of, pcapng_of])
def test_mutated_captures(write):
    """A capture gives packets and problems, or is none; nothing else comes out."""
    connection = CapturedConnection().open()
    for number, image in enumerate(PACKETS_PRINTED):
        connection.send(image, by_server=number % 2 == 1, size=600)
    packets = 0
    for mutant in mutants(Random(SEED), [write(connection.close().frames)], MUTANTS // 20):
        try:
            packets += sum(bool(item.data) for item in Capture(1801).read(io.BytesIO(mutant)))
        except ConfigError:
            continue
    assert packets > 0
