"""Properties of MQIS in entries: what is stored comes back bit for bit, whatever changed before."""

import contextlib
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.store.property_strategies import GUIDS, VALUES, some_of
from support.store.stored_properties import properties_of

from mqdssm.errors import MappingError
from mqdssm.model.guid import Guid
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.tables import numbering
from mqdssm.tables.numbering import Numbering
from mqdssm.tables.properties import (
    EXACT,
    PROPERTY_TABLES,
    attributes_of,
    changes_of,
    entry_of,
)
from mqdssm.tables.property_rows import pack_value, unpack_value

NUMBERS = st.integers(0, numbering.NUMBER_MAX).map(SequenceNumber)
NUMBERINGS = st.builds(Numbering, GUIDS, NUMBERS)
TYPES = st.sampled_from(list(ObjectType))
GUID = Guid(bytes(range(16)))


def storable(object_type):
    """The properties of a type that are given, not numbered."""
    return [row.propid for row in PROPERTY_TABLES[object_type].rows if not row.is_numbering]


def shuffled(entry, seed):
    """The entry as a server may return it: values of an attribute have no order."""
    return {name: random.Random(seed).sample(raws, len(raws)) for name, raws in entry.items()}


@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
@pytest.mark.parametrize("object_type", ObjectType)
@given(data=st.data(), numbers=NUMBERINGS, seed=st.integers(0, 99))
def test_what_is_stored_comes_back_bit_for_bit(object_type, data, numbers, seed):
    given_values = data.draw(some_of(storable(object_type)))
    entry = shuffled(entry_of(object_type, given_values.items(), numbers), seed)
    assert all(raws and all(raws) for raws in entry.values())  # LDAP stores nothing empty
    assert all(len(set(raws)) == len(raws) for raws in entry.values())
    found = properties_of(object_type, entry)
    numbered = {one: found.pop(one) for one in list(found) if one not in storable(object_type)}
    assert found == given_values
    for propid, value in found.items():
        assert pack_value(propid, value) == pack_value(propid, given_values[propid])
    assert sorted(map(bytes, numbered.values())) == sorted((bytes(numbers.number), bytes(numbers.partition)))


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
@pytest.mark.parametrize("object_type", ObjectType)
@given(data=st.data(), numbers=NUMBERINGS)
def test_an_update_changes_what_it_names_and_nothing_else(object_type, data, numbers):
    identity = PROPERTY_TABLES[object_type].identity
    others = [one for one in storable(object_type) if one is not identity]
    before, change = data.draw(some_of(others)), data.draw(some_of(others))
    before[identity] = data.draw(GUIDS)
    entry = entry_of(object_type, before.items())
    replaced = changes_of(object_type, entry, change.items(), numbers)
    after = {name: raws for name, raws in {**entry, **replaced}.items() if raws}
    found = properties_of(object_type, after, storable(object_type))
    assert found == before | change
    assert numbering.numbering_of(after) == numbers
    assert all(set(raws) != set(entry.get(name, ())) for name, raws in replaced.items())


@given(object_type=TYPES, data=st.data())
def test_the_attributes_asked_for_suffice(object_type, data):
    values = data.draw(some_of(storable(object_type)))
    wanted = data.draw(st.lists(st.sampled_from(storable(object_type)), max_size=5))
    entry = entry_of(object_type, values.items())
    names = attributes_of(object_type, wanted)
    part = {name: raws for name, raws in entry.items() if name in names}
    assert properties_of(object_type, part, wanted) == {p: values[p] for p in wanted if p in values}


@given(propid=st.sampled_from(list(Propid)), data=st.data())
def test_octets_of_a_value_are_its_own(propid, data):
    value = data.draw(VALUES[propid.variant])
    octets = pack_value(propid, value)
    assert octets
    assert unpack_value(propid, octets) == value
    for damaged in (octets + b"\0", octets[:-1]):
        with contextlib.suppress(MappingError):
            assert pack_value(propid, unpack_value(propid, damaged)) == damaged


@given(propid=st.sampled_from(list(Propid)), octets=st.binary(max_size=60))
def test_octets_are_read_or_refused(propid, octets):
    try:
        value = unpack_value(propid, octets)
    except MappingError:
        return
    assert pack_value(propid, value) == octets


@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
@given(partition=GUIDS, first=NUMBERS, width=st.integers(0, 70_000), data=st.data())
def test_a_range_finds_its_numbers_and_no_others(partition, first, width, data):
    last = min(first + width, numbering.NUMBER_MAX)
    number = data.draw(st.integers(max(first - 300, 0), min(last + 300, numbering.NUMBER_MAX)))
    bucket = numbering.bucket_of(partition, number)
    found = [one for one in numbering.split_range(partition, first, last) if bucket in one.buckets]
    hits = [one for one in found if one.first <= number <= one.last]
    assert len(hits) == (first <= number <= last)


@given(first=NUMBERS, width=st.integers(0, 70_000))
def test_slices_ascend_without_gaps(first, width):
    last = min(first + width, numbering.NUMBER_MAX)
    found = list(numbering.split_range(GUID, first, last))
    assert found[0].first == first
    assert found[-1].last == last
    assert all(one.last + 1 == two.first for one, two in pairwise(found))
    assert all(0 < len(one.buckets) <= numbering.SLICE_BUCKETS for one in found)


@given(number=st.integers(1, numbering.NUMBER_MAX))
def test_a_ceiling_is_a_step_at_most_above_its_number(number):
    ceiling = numbering.compute_ceiling(number)
    assert number <= ceiling < number + numbering.CEILING_STEP


@pytest.mark.parametrize("object_type", ObjectType)
@given(data=st.data())
def test_what_somebody_else_wrote_counts(object_type, data):
    """An attribute that the adapter has written since is read, not the octets beside it (decision R27)."""
    rows = [row for row in PROPERTY_TABLES[object_type].rows if row.carrier and not row.is_numbering]
    row = data.draw(st.sampled_from(rows))
    old, new = data.draw(VALUES[row.propid.variant]), data.draw(VALUES[row.propid.variant])
    entry = entry_of(object_type, [(row.propid, old)])
    raws, octets = row.encode_stored(new)
    if not raws or octets is not None or set(raws) == set(entry.get(row.ldap, ())):
        return  # nothing that an attribute alone could say
    assert properties_of(object_type, {**entry, row.ldap: raws}) == {row.propid: new}
    assert EXACT not in entry or properties_of(object_type, entry)[row.propid] == old
