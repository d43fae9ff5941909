"""Pages to columns: the same as the row decoder, whatever entries look like, also where they are damaged."""

import random

import pyarrow as pa
import pytest
from support.directory.ber_reference import element, element84, entry_content, message
from support.directory.random_entries import random_content

from mqdssm.directory.responses import split_messages
from mqdssm.directory.rows import RowDecoder
from mqdssm.errors import DecodeError, GenericDirectoryError
from mqdssm.pipeline.frames import bulk_pages
from mqdssm.pipeline.frames.bulk_pages import EntryDecoder, gather_pages

COLUMNS = ["mSMQLabelEx", "cn", "objectGUID", "mSMQSites", "a"]
NAMES = [name.encode() for name in COLUMNS]


def page(contents):
    octets = b"".join(message(element(0x64, content)) for content in contents)
    return octets, split_messages(octets)[0]


def rows_of(entries):
    return list(
        zip(entries.names.to_pylist(), *(column.to_pylist() for column in entries.columns), strict=True)
    )


def reference(octets, messages):
    decoder = RowDecoder(COLUMNS)
    return [decoder.decode_generic_row(octets, one.start, one.end) for one in messages]


def outcome(decode):
    try:
        return decode()
    except DecodeError:
        return DecodeError


def regular(chance, form=element):
    """An entry as servers send them by the thousand: some attributes are left out, the order is the same."""
    attributes = [
        (name, [chance.randbytes(chance.choice([0, 3, 16, 16, 40, 127, 128, 300]))])
        for name in NAMES
        if chance.randrange(8)
    ]
    return entry_content(b"CN=%d,DC=x" % chance.randrange(10**9), attributes, form)


@pytest.mark.slow
@pytest.mark.parametrize("make", [random_content, regular])
def test_columns_are_the_rows(make):
    chance = random.Random(20_261_121)
    decoder = EntryDecoder(COLUMNS)
    for _ in range(40):
        more = (NAMES,) if make is random_content else (chance.choice([element, element84]),)
        contents = [make(chance, *more) for _ in range(chance.randrange(1, 200))]
        octets, messages = page(contents)
        assert rows_of(decoder.entries([(octets, messages)])) == reference(octets, messages)


def test_regular_entries_need_no_reference(monkeypatch):
    chance = random.Random(7)
    monkeypatch.setattr(bulk_pages.RowDecoder, "rows", lambda *_: pytest.fail("the slow way"))
    for form in (element, element84):
        octets, messages = page([regular(chance, form) for _ in range(300)])
        decoder = EntryDecoder(COLUMNS)
        for _ in range(2):  # the second time it knows what to expect
            assert rows_of(decoder.entries([(octets, messages)])) == reference(octets, messages)


def test_parts_of_a_page_follow_each_other():
    chance = random.Random(8)
    parts = [page([regular(chance) for _ in range(count)]) for count in (1, 5, 2)]
    expected = [row for part in parts for row in reference(*part)]
    assert rows_of(EntryDecoder(COLUMNS).entries(parts)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("form", [element, element84])
def test_damaged_entries_are_refused_or_decoded_as_the_reference_does(form):
    chance = random.Random(20_261_122)
    decoder = EntryDecoder(COLUMNS)
    refused = 0
    for _ in range(500):
        octets, messages = page([regular(chance, form) for _ in range(chance.randrange(1, 6))])
        damaged = bytearray(octets)
        for _ in range(chance.randrange(1, 4)):
            one = chance.choice(messages)
            damaged[chance.randrange(one.start, one.end)] = chance.choice(
                [0, 1, 4, 0x30, 0x31, 0x7F, 0x80, 0x81, 0x84, 0x85, 0xFF, chance.randrange(256)]
            )
        whole = bytes(damaged)
        expected = outcome(lambda whole=whole, messages=messages: reference(whole, messages))
        found = outcome(lambda whole=whole, messages=messages: rows_of(decoder.entries([(whole, messages)])))
        assert found == expected
        refused += expected is DecodeError
    assert 33 < refused < 467


@pytest.mark.parametrize(("rows_max", "bytes_max"), [(1, 10**9), (7, 10**9), (100, 10**9), (100, 1)])
def test_pages_become_batches_of_bounded_size(rows_max, bytes_max):
    chance = random.Random(9)
    pages = [page([regular(chance) for _ in range(count)]) for count in (10, 3, 1, 25)]
    decoder = EntryDecoder(COLUMNS)
    portions = [decoder.entries([one]) for one in pages]
    batches = list(gather_pages(iter(portions), rows_max, bytes_max))
    assert [row for one in batches for row in rows_of(one)] == [
        row for part in pages for row in reference(*part)
    ]
    assert max(map(len, batches)) <= rows_max
    assert len(batches) == (39 if bytes_max == 1 else -(-39 // rows_max))


def test_a_batch_ends_with_the_entry_that_fills_it():
    sizes = [10, 10, 500, 10, 10, 10, 600, 700, 5]
    octets, messages = page(
        [entry_content(b"CN=x", [(b"cn", [bytes(size)]), (b"a", [b""])]) for size in sizes]
    )
    entries = EntryDecoder(COLUMNS).entries([(octets, messages)])
    found = [
        [len(value) for value in one.columns[1].to_pylist()]
        for one in gather_pages(iter([entries]), 100, 500)
    ]
    assert found == [[10, 10, 500], [10, 10, 10, 600], [700], [5]]


def test_a_page_that_is_too_large_is_refused(monkeypatch):
    octets, messages = page([entry_content(b"CN=x", [], element)])
    monkeypatch.setattr(bulk_pages, "_PAGE_BYTES_MAX", len(octets))
    with pytest.raises(GenericDirectoryError, match="smaller pages"):
        EntryDecoder(COLUMNS).entries([(octets, messages)])


def test_what_tells_objects_apart_and_some_of_them():
    chance = random.Random(10)
    octets, messages = page([regular(chance) for _ in range(20)])
    entries = EntryDecoder(COLUMNS).entries([(octets, messages)])
    dns, guids = entries.list_identities()
    rows = reference(octets, messages)
    assert list(dns) == [row[0] for row in rows]
    assert list(guids) == [row[3] for row in rows]
    assert rows_of(entries.select_only([3, 7])) == [rows[3], rows[7]]
    assert entries.names.type == pa.string()
