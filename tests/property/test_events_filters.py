"""Searches with any filters, conditions and sort orders over any small enterprise, against plain Python.

``search(filters) == [o for o in search() if all of them hold]``, where the right side is evaluated by
`reference_filters` on what a search without filters returned. Decisions M17, M33, M34 and M35.
"""

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.directory.condition_strategies import conditions_over, values_of
from support.directory.reference_filters import OPERATORS, matching, names, ordered
from support.enterprises.strategies import Values, enterprises, standing
from support.watching.kinds import KINDS

import mqdssm
from mqdssm import Filter, Queue, QueueManager, RoutingLink, Site, SortKey, User
from mqdssm.tables import table_of
from mqdssm.tables.row import Access
from mqdssm.testing import OpenLdapServer

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def directory() -> Iterator[mqdssm.Directory]:
    """A directory of its own: examples are drawn from all that it holds, and other tests leave objects."""
    with OpenLdapServer(durable=False) as server, KINDS["openldap"].connect(server) as connected:
        yield connected


def filters_over(kind, objects) -> st.SearchStrategy[Filter]:
    """Expressions on attributes that at least one object has."""
    known: Mapping[str, list[object]] = {
        name: values for name in table_of(kind).names() if (values := values_of(kind, objects, name))
    }
    return st.sampled_from(sorted(known)).flatmap(
        lambda name: st.builds(
            Filter, st.just(name), st.sampled_from(sorted(OPERATORS)), st.sampled_from(known[name])
        )
    )


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
@pytest.mark.parametrize("kind", [Queue, QueueManager, Site, RoutingLink, User])
def test_filters_find_what_the_reference_finds(directory, kind, caplog) -> None:
    caplog.set_level("ERROR", logger="mqdssm")

    @given(st.data())
    def check(data: st.DataObject) -> None:
        with standing(directory, data.draw(enterprises())):
            objects = list(directory.search(kind))
            if not objects:
                return
            expressions = filters_over(kind, objects)
            for filters in data.draw(st.lists(st.lists(expressions, min_size=1, max_size=3), max_size=12)):
                expected = matching(objects, filters)
                found = list(directory.search(kind, filters))
                assert names(found) == names(expected), filters
                assert all(obj in expected for obj in found)

    check()


@pytest.mark.parametrize("kind", [Queue, QueueManager, Site, RoutingLink, User])
def test_conditions_find_what_the_reference_finds(directory, kind, caplog) -> None:
    """Decision M111: what LDAP is asked for loses no object, below NOT either, and the results are exact."""
    caplog.set_level("ERROR", logger="mqdssm")

    @given(st.data())
    def check(data: st.DataObject) -> None:
        with standing(directory, data.draw(enterprises())):
            objects = list(directory.search(kind))
            if not objects:
                return
            for condition in data.draw(st.lists(conditions_over(kind, objects), min_size=1, max_size=12)):
                expected = matching(objects, [condition])
                found = list(directory.search(kind, condition))
                assert names(found) == names(expected), condition
                assert all(obj in expected for obj in found)

    check()


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
@pytest.mark.parametrize("kind", [Queue, QueueManager])
def test_sort_orders_are_those_of_the_reference(directory, kind, caplog) -> None:
    caplog.set_level("ERROR", logger="mqdssm")
    sortable = [row.adm for row in table_of(kind).rows if row.access & Access.SORT]
    keys = st.builds(SortKey, st.sampled_from(sortable), st.integers(0, 3), st.booleans())

    @given(enterprises(), st.lists(keys, max_size=4))
    def check(entries: list[tuple[str, str, Values]], sort: list[SortKey]) -> None:
        with standing(directory, entries):
            objects = list(directory.search(kind))
            assert list(directory.search(kind, sort=sort)) == ordered(objects, sort)

    check()
