"""Elements survive JSON, copies and pickling, whatever they hold; an assignment is never lost (M45)."""

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.directory.element_strategies import BY_ATTRIBUTE, BYTES, GUIDS, UNSIGNED, values_of

from mqdssm.model.elements import ELEMENTS


@pytest.mark.spec("MS-MQDSSM 3.1.1.1")
@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
@given(data=st.data())
def test_json_copy_and_pickle(element, data):
    values = data.draw(values_of(element))
    made = element(**values)
    assert made.populated == {element.adm_name(field) for field in values}
    for field, value in values.items():
        assert getattr(made, field) == value
        assert type(getattr(made, field)) is type(value)
    assert element.from_json(made.to_json()) == made
    assert element.from_directory(values) == made
    assert made.model_copy() == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert element(**{element.adm_name(field): value for field, value in values.items()}) == made


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
@given(data=st.data())
def test_assigned_since_it_was_read(element, data):
    values, changes = data.draw(values_of(element)), data.draw(values_of(element))
    read = element.from_directory(values)
    for field, value in changes.items():
        setattr(read, field, value)
    assert read.assigned == {element.adm_name(field) for field in changes}
    assert read.populated == {element.adm_name(field) for field in values | changes}
    assert read == element(**values | changes)
    again = element.from_json(read.to_json())
    assert again == read
    assert (again.was_read, again.assigned) == (True, read.assigned)
    for adm in read.assigned:
        read.unset(adm)
    assert read.assigned == {element.adm_name(field) for field in changes}
    assert element.from_json(read.to_json()).assigned == read.assigned
    for adm in read.assigned:
        read.forget(adm)
    assert read.assigned == frozenset()
    assert read == element(**{field: value for field, value in values.items() if field not in changes})


ODD: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: UNSIGNED,
    str: st.text(st.characters(exclude_categories=["Cs"]), max_size=2_000),
    bytes: BYTES,
    tuple: GUIDS,
}


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
@given(data=st.data(), original=st.none() | st.uuids())
def test_what_was_read_survives_json_whatever_it_is(element, data, original):
    """A directory may hold what no assignment accepts."""
    of_type = {name: type(value) for name, value in element().model_copy().__dict__.items()}
    texts = {"Text", "Name", "ComputerName", "Pathname", "FullPath", "DirectoryPath", "SecurityIdentifier"}
    fields = {}
    for adm in element.adm_names():
        field = element.field_name(adm)
        known = BY_ATTRIBUTE.get(adm)
        odd = ODD.get(str if adm in texts else of_type[field])
        fields[field] = known if odd is None or (known is not None and adm not in texts) else odd
    for adm in ("BasePriority", "ActualCost"):
        if adm in element.adm_names():
            fields[element.field_name(adm)] = st.integers(-(2**31), 2**32 - 1)
    wanted = {name: one for name, one in fields.items() if one is not None}
    read = element.from_directory(data.draw(st.fixed_dictionaries({}, optional=wanted)), original)
    again = element.from_json(read.to_json())
    assert again == read
    assert (again.was_read, again.assigned, again.original_identifier) == (True, frozenset(), original)
