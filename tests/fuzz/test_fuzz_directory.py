"""Answers that a broken or hostile server might send: DecodeError or a value, never anything else."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.directory.ber_reference import element, element84, entry_content, message

from mqdssm.directory.entries import decode_entry
from mqdssm.directory.requests import LdapControl, encode_delete, make_deref_control, make_paged_control
from mqdssm.directory.responses import (
    RESULT_TAGS,
    SEARCH_ENTRY,
    LdapResult,
    MessageSplitter,
    decode_controls,
    decode_deref,
    decode_result,
    parse_paged_cookie,
    split_messages,
)
from mqdssm.directory.rows import SHAPE_SEEN_MIN, RowDecoder
from mqdssm.errors import DecodeError

SEED = 20_260_104
COLUMNS = ["cn", "objectGUID", "mSMQSites"]
MULTI = frozenset({"mSMQSites"})
# Octets that mean something: tags and length forms
TELLING = b"\x00\x01\x04\x0a\x30\x31\x64\x7f\x80\x81\x82\x84\x85\xff"


def controls(*several):
    octets = encode_delete(1, "", several)
    (found,), _ = split_messages(octets)
    return octets[found.end : found.stop]


def deref_value():
    partial = element(0x30, element(4, b"objectGUID") + element(0x31, element(4, bytes(16))))
    one = element(0x30, element(4, b"mSMQSite1") + element(4, b"CN=s") + element(0xA0, partial))
    return element(0x30, one + one)


def samples():
    """Sound answers of every kind, in both servers' forms."""
    attributes = [
        (b"cn", [b"q1"]),
        (b"objectGUID", [bytes(range(16))]),
        (b"mSMQSites", [b"a", b"b", b"0" * 130]),
    ]
    result = element(0x0A, b"\0") + element(4, b"DC=x") + element(4, b"text")
    referral = element(0xA3, element(4, b"ldap://a") + element(4, b"ldap://b"))
    deref = LdapControl(make_deref_control({}).oid, value=deref_value())
    found = []
    for form in (element, element84):
        entry = form(0x64, entry_content(b"CN=q1,DC=x", attributes, form))
        found += [
            message(entry, form=form),
            message(entry, controls=controls(deref), form=form),
            message(form(0x65, result), controls=controls(make_paged_control(0, b"\1\2\3")), form=form),
            message(form(0x69, result + referral), form=form),
            message(form(0x78, result + element(0x8A, b"1.2.3") + element(0x8B, b"v")), 0, form=form),
        ]
    return found


def consume(octets, decoder):
    """Do with a stream all that a session does with it; how many of its parts were sound."""
    sound = 0
    messages, _ = split_messages(octets)
    for one in messages:
        try:
            if one.tag == SEARCH_ENTRY:
                entry = decode_entry(octets, one.start, one.end, one.stop)
                decode_deref(entry.controls)
            elif one.tag in RESULT_TAGS:
                parse_paged_cookie(decode_result(octets, one))
            sound += 1
        except DecodeError:
            pass
        if one.tag == SEARCH_ENTRY:
            same_rows(octets, one, decoder)
    return sound


def same_rows(octets, one, decoder):
    """Both decoders accept the same entries, and find the same in them."""
    try:
        generic = [decoder.decode_generic_row(octets, one.start, one.end)]
    except DecodeError:
        with pytest.raises(DecodeError):
            decoder.rows(octets, [(one.start, one.end)])
    else:
        assert decoder.rows(octets, [(one.start, one.end)]) == generic


def mutated(chance, octets):
    """One to four changes: an octet, a bit, a piece out, in, or twice."""
    octets = bytearray(octets)
    for _ in range(chance.randrange(1, 5)):
        position = chance.randrange(len(octets) + 1)
        match chance.randrange(6):
            case 0 if position < len(octets):
                octets[position] = chance.choice(
                    [0, 1, 4, 0x30, 0x31, 0x7F, 0x80, 0x81, 0x82, 0x84, 0x85, 0xFF]
                )
            case 1 if position < len(octets):
                octets[position] ^= 1 << chance.randrange(8)
            case 2:
                del octets[position : position + chance.randrange(1, 9)]
            case 3:
                octets[position:position] = chance.randbytes(chance.randrange(1, 9))
            case 4:
                octets[position:position] = octets[position : position + chance.randrange(1, 30)]
            case _ if position < len(octets):
                octets[position] = (octets[position] + chance.choice([-1, 1])) & 0xFF
    return bytes(octets)


def attack(count, seed):
    chance = random.Random(seed)
    sound_samples = samples()
    decoder = RowDecoder(COLUMNS, MULTI)
    for octets in sound_samples * SHAPE_SEEN_MIN:
        assert consume(octets, decoder) == 1
    assert decoder._shapes
    sound = refused = 0
    for number in range(count):
        octets = mutated(chance, chance.choice(sound_samples))
        if chance.randrange(4) == 0:
            octets += chance.choice(sound_samples)
        try:
            sound += consume(octets, decoder)
        except DecodeError:
            refused += 1
        except Exception as error:
            error.add_note(f"mutation {number} of seed {seed}: {octets.hex()}")
            raise
    assert sound > count // 50
    assert refused > count // 50


def test_mutated_answers():
    attack(8_000, SEED)


@pytest.mark.soak
def test_mutated_answers_for_long():
    attack(400_000, SEED + 1)


@given(st.binary(max_size=200))
def test_any_octets(octets):
    decoder = RowDecoder(COLUMNS, MULTI)
    works = [
        lambda: split_messages(octets),
        lambda: MessageSplitter().feed(octets),
        lambda: decode_entry(octets, 0, len(octets)),
        lambda: decoder.rows(octets, [(0, len(octets))]),
        lambda: decode_controls(octets, 0, len(octets)),
        lambda: decode_deref((LdapControl(make_deref_control({}).oid, value=octets),)),
        lambda: parse_paged_cookie(
            LdapResult(0, controls=(make_paged_control(0), LdapControl("1.2", value=octets)))
        ),
    ]
    for work in works:
        try:
            work()
        except DecodeError:
            continue


@given(st.lists(st.integers(1, 40), max_size=30), st.randoms(use_true_random=False))
def test_mutated_streams_in_pieces_give_what_they_give_whole(sizes, chance):
    stream = b"".join(chance.choice(samples()) for _ in range(4))
    if chance.randrange(2):
        stream = mutated(chance, stream)
    try:
        whole, _ = split_messages(stream)
    except DecodeError:
        whole = None
    splitter, found, position = MessageSplitter(), [], 0
    try:
        for size in [*sizes, len(stream)]:
            buffer, messages = splitter.feed(stream[position : position + size])
            found += [buffer[one.start : one.stop] for one in messages]
            position += size
    except DecodeError:
        assert whole is None
    else:
        assert whole is not None
        assert found == [stream[one.start : one.stop] for one in whole]


@pytest.mark.parametrize("value", [b"", b"x", b"xy"])
def test_a_million_tiny_elements_stay_within_bounds(value):
    """What costs two octets on the wire must not cost a hundred in memory without an end."""
    attribute = element(0x30, element(4, b"a") + element(0x31, element(4, value)))
    many_attributes = element(4, b"") + element(0x30, attribute * 200_000)
    many_values = element(0x30, element(4, b"a") + element(0x31, element(4, value) * 200_000))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="more than 10000"):
            decode_entry(many_attributes, 0, len(many_attributes))
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 10_000_000
        content = element(4, b"") + element(0x30, many_values)
        assert len(decode_entry(content, 0, len(content)).all("a")) == 200_000
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 25_000_000
    finally:
        tracemalloc.stop()
