"""What stores share: numbers in order, sizes and values."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.store.property_strategies import some_of

from mqdssm.model.guid import NULL_GUID
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Properties
from mqdssm.model.propids import ObjectType, Propid, Variant
from mqdssm.model.seqnum import MAX, MIN
from mqdssm.store import rules
from mqdssm.tables.creation import DEFAULTS, REQUIRED
from mqdssm.tables.property_rows import CHANGED
from mqdssm.testing.memory_store.number_index import STALE_MAX, NumberIndex
from mqdssm.wire.mqdsrp import DIRECTORY_CHANGE

ALL_CHANGED = [propid for propids in CHANGED.values() for propid in propids]


class TestNumberIndex:
    @given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=300), st.integers(0, 40))
    def test_it_is_a_sorted_dictionary(self, steps, after) -> None:
        index: NumberIndex[object] = NumberIndex()
        model: defaultdict[int, list[object]] = defaultdict(list)
        for number, comes in steps:
            if comes:
                entry = object()
                index.put(number, entry)
                model[number].append(entry)
            elif model[number]:
                index.remove(number, model[number].pop())
        there = {number: tuple(entries) for number, entries in sorted(model.items()) if entries}
        assert dict(index.list_between(0, 40)) == there
        assert list(index.list_between(after, 30)) == [one for one in there.items() if after < one[0] <= 30]
        assert index.find_highest() == max(there, default=0)
        assert bool(index) == bool(there)
        assert all(index.list_at(number) == there.get(number, ()) for number in range(41))

    def test_what_is_gone_takes_no_room(self) -> None:
        index: NumberIndex[object] = NumberIndex()
        entry = object()
        for number in range(1, 10_000):
            index.put(number, entry)
            if number > 3:
                index.remove(number - 3, entry)
        assert [number for number, _ in index.list_between(0, 10_000)] == [9997, 9998, 9999]
        assert len(index._numbers) <= 2 * 3 + STALE_MAX + 1


class TestValues:
    @given(some_of(Propid))
    def test_values_of_the_variant_are_values(self, values) -> None:
        known = {propid: value for propid, value in values.items() if propid.variant is not Variant.VARIANTS}
        assert all(rules.is_value(propid, value) for propid, value in known.items())

    @pytest.mark.parametrize(
        ("propid", "value"),
        [
            (Propid.Q_QUOTA, 2**32),
            (Propid.Q_QUOTA, 1.0),
            (Propid.Q_JOURNAL, False),
            (Propid.Q_BASEPRIORITY, -(2**15) - 1),
            (Propid.Q_LABEL, b"bytes"),
            (Propid.Q_LABEL, "x" * (rules.TEXT_CHARS_MAX + 1)),
            (Propid.Q_SECURITY, None),
            (Propid.Q_TYPE, bytes(15)),
            (Propid.QM_CNS, [NULL_GUID]),
            (Propid.QM_CNS, (bytes(17),)),
            (Propid.L_GATES_DN, ("x\0",)),
        ],
    )
    def test_others_are_not(self, propid, value) -> None:
        assert not rules.is_value(propid, value)

    @given(some_of(ALL_CHANGED))
    def test_a_change_takes_no_more_than_its_bound(self, values) -> None:
        properties: Properties = tuple(values.items()) or ((Propid.U_ID, NULL_GUID),)
        change = rules.make_object_change(NULL_GUID, NULL_GUID, MAX, MIN, properties)
        assert len(DIRECTORY_CHANGE.encode(change)) <= rules.measure_at_most(properties)

    def test_an_object_that_no_message_could_carry_is_refused(self) -> None:
        half = b"x" * (rules.OBJECT_BYTES_MAX // 2)
        given_ = ((Propid.E_ID, NULL_GUID), (Propid.E_NAME, "e"), (Propid.E_CRL, half))
        assert rules.find_creation_problem(ObjectType.ENTERPRISE, None, given_) is None
        both = (*given_, (Propid.E_SECURITY, half))
        assert rules.find_creation_problem(ObjectType.ENTERPRISE, None, both) == Hresult.MQ_ERROR_PROPERTY
        more = ((Propid.E_SECURITY, half),)
        refused = rules.update_problem(ObjectType.ENTERPRISE, NULL_GUID, dict(given_), more)
        assert refused == Hresult.MQ_ERROR_PROPERTY

    def test_path_names_are_bounded(self) -> None:
        for length, expected in (
            (rules.PATH_CHARS_MAX, None),
            (rules.PATH_CHARS_MAX + 1, Hresult.MQ_ERROR_PROPERTY),
        ):
            given_ = ((Propid.CN_GUID, NULL_GUID),)
            assert rules.find_creation_problem(ObjectType.CN, "x" * length, given_) == expected


class TestCreation:
    @pytest.mark.parametrize("object_type", list(DEFAULTS))
    def test_defaults_are_values_that_replicate(self, object_type) -> None:
        defaults = DEFAULTS[object_type]
        assert list(defaults) == [one for one in CHANGED[object_type] if one in defaults]
        assert all(rules.is_value(propid, value) for propid, value in defaults.items())

    def test_every_type_has_its_required_properties(self) -> None:
        assert REQUIRED.keys() == DEFAULTS.keys() == CHANGED.keys()
        for object_type, propids in REQUIRED.items():
            assert set(propids) <= set(CHANGED[object_type])
            assert not set(propids) & set(DEFAULTS[object_type])

    @pytest.mark.parametrize("object_type", list(REQUIRED))
    def test_each_required_property_is_demanded(self, object_type) -> None:
        samples = {Variant.LPWSTR: "x", Variant.CLSID: NULL_GUID, Variant.BLOB: b"", Variant.UI4: 1}
        every = {propid: samples.get(propid.variant, ()) for propid in REQUIRED[object_type]}
        identity = (rules.IDENTITY[object_type], NULL_GUID)
        assert rules.find_creation_problem(object_type, None, (identity, *every.items())) is None
        for missing in every:
            left = (identity, *(one for one in every.items() if one[0] is not missing))
            problem = rules.find_creation_problem(object_type, None, left)
            assert problem == Hresult.MQ_ERROR_INSUFFICIENT_PROPERTIES
