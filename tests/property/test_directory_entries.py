"""Entries: the generic decoder against ldap3's, the row decoder against the generic one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldap3.operation.search import search_result_entry_response_to_dict_fast
from ldap3.utils.asn1 import decode_message_fast
from support.directory.ber_reference import element, element84, entry_content, message, read_all
from support.directory.random_entries import random_content

from mqdssm.directory.entries import decode_entry
from mqdssm.directory.responses import split_messages
from mqdssm.directory.rows import SHAPE_SEEN_MIN, RowDecoder

FORMS = st.sampled_from([element, element84])
DNS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,20}", fullmatch=True)
# 0x30, the digit 0, is what a header begins with
VALUES = st.binary(max_size=30) | st.sampled_from(
    [b"", b"0", b"0000", b"0\x05\x04\x01a1\x00", bytes(130), bytes(70000)]
)
ATTRIBUTES = st.lists(
    st.tuples(NAMES, st.lists(VALUES, max_size=4)), max_size=8, unique_by=lambda pair: pair[0].lower()
)


def message_of(dn, attributes, form=element):
    content = entry_content(dn.encode(), [(name.encode(), values) for name, values in attributes], form)
    return message(form(0x64, content), form=form)


def our_entry(octets):
    (found,), _ = split_messages(octets)
    return decode_entry(octets, found.start, found.end, found.stop)


@given(DNS, ATTRIBUTES, FORMS)
def test_entries_as_ldap3_decodes_them(dn, attributes, form):
    octets = message_of(dn, attributes, form)
    ours = our_entry(octets)
    theirs = search_result_entry_response_to_dict_fast(
        decode_message_fast(octets)["payload"], None, None, False
    )
    raw = theirs["raw_attributes"]
    assert ours.dn.encode() == theirs["raw_dn"]
    assert ours.attributes == {name.lower(): raw[name] or [] for name in raw}
    assert ours.attributes == {name.lower(): values for name, values in attributes}


@given(DNS, ATTRIBUTES, FORMS, st.data())
def test_rows_are_the_entrys_values(dn, attributes, form, data):
    octets = message_of(dn, attributes, form)
    ours = our_entry(octets)
    present = [name for name, _ in attributes]
    columns = data.draw(st.lists(st.sampled_from([*present, "xAbsent"]), unique=True))
    multi = frozenset(data.draw(st.lists(st.sampled_from(columns), unique=True)) if columns else ())
    expected = tuple(
        ours.attributes.get(name.lower()) if name in multi else ours.first(name) for name in columns
    )
    decoder = RowDecoder(columns, multi)
    for _ in range(SHAPE_SEEN_MIN + 1):  # first by the generic decoder, then by the pattern
        (found,), _ = split_messages(octets)
        assert decoder.rows(octets, [(found.start, found.end)]) == [(ours.dn, *expected)]


@pytest.mark.slow
def test_rows_equal_the_generic_decoder_on_random_entries_with_planted_headers():
    chance = random.Random(20_260_102)
    names = [b"cn", b"objectGUID", b"mSMQLabelEx", b"mSMQSites", b"a"]
    decoder = RowDecoder(["mSMQLabelEx", "cn", "mSMQSites", "objectGUID"], frozenset({"mSMQSites"}))
    fast = 0
    for _ in range(15):
        octets = b"".join(
            message(element(0x64, random_content(chance, names))) for _ in range(chance.randrange(1, 200))
        )
        messages, _ = split_messages(octets)
        spans = [(one.start, one.end) for one in messages]
        generic = [decoder.decode_generic_row(octets, start, end) for start, end in spans]
        assert decoder.rows(octets, spans) == generic
        for start, end in spans[:20]:  # whatever a pattern accepts is right
            for _, match, make in decoder._shapes:
                found = match(octets, start, end)
                row = None if found is None else make(found.groups(), end - start)
                fast += row is not None
                assert row in (None, decoder.decode_generic_row(octets, start, end))
    assert fast > 100


def test_the_generic_decoder_agrees_with_the_reference_on_random_entries():
    chance = random.Random(20_260_103)
    names = [b"cn", b"objectGUID", b"mSMQLabelEx", b"mSMQSites", b"a"]
    for _ in range(2000):
        content = random_content(chance, names)
        dn, (_, attributes) = read_all(content)
        found = decode_entry(content, 0, len(content))
        assert found.dn.encode() == dn[1]
        expected = {}
        for _, ((_, name), (_, values)) in attributes:
            expected[name.decode().lower()] = [value for _, value in values]
        assert found.attributes == expected
