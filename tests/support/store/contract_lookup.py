"""The contract of stores: Begin, Next and End Directory Lookup ([MS-MQDS] 3.1.6.7 to 3.1.6.9)."""

from typing import Any

import pytest

from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import Propid
from mqdssm.store.lookup import (
    ITEMS_MAX,
    LOOKUPS_MAX,
    Columns,
    Lookups,
    LookupSortKey,
    Relation,
    Restriction,
)
from support.store.world import OK, Harness, World, guid, number

LABELS = ("b", "A", "c", None)


def restriction(relation: int, propid: Propid, value: Any) -> Restriction:
    return Restriction(relation=relation, propid=propid, value=value)


def here(world: World) -> Restriction:
    """Only the world's own partition."""
    return restriction(Relation.PREQ, Propid.Q_PARTITIONID, world.site)


def lookups_of(harness: Harness) -> Lookups:
    return Lookups(harness.store)


def rows(lookups: Lookups, *given: Any) -> list[Columns]:
    """All that a lookup gives, one by one."""
    status, descriptor = lookups.begin(*given)
    assert status == OK
    assert descriptor is not None
    found: list[Columns] = []
    while True:
        status, more = lookups.next(descriptor)
        assert status == OK
        assert len(more) <= 1
        if not more:
            break
        found += more
    assert lookups.next(descriptor) == (OK, ()), "the end stays the end"
    assert lookups.end(descriptor) == OK
    assert lookups.next(descriptor)[0] == Hresult.MQ_ERROR_INVALID_HANDLE
    return found


def queues(world: World) -> list[Guid]:
    """Queues with the numbers 1 to 4, labels and quotas 10 to 40; the last one names its machine."""
    ids = [guid() for _ in LABELS]
    for at, (identifier, label) in enumerate(zip(ids, LABELS, strict=True), 1):
        more = {"LABEL": label} if label is not None else {"QMID": ids[0], "LABEL": "ab"}
        properties = world.queue(identifier, rf"web\q{at}", QUOTA=10 * at, **more)
        assert world.apply(world.sync(identifier, at, properties)).status == OK
    return ids


class LookupContract:
    """Lookups by restriction."""

    def test_columns_in_their_order(self, harness: Harness) -> None:
        world = World(harness)
        ids = queues(world)
        columns = (Propid.Q_SEQNUM, Propid.Q_INSTANCE, Propid.Q_QMID, Propid.Q_PATHNAME, Propid.Q_PARTITIONID)
        found = rows(lookups_of(harness), (here(world),), columns)
        assert sorted(found) == sorted(
            (
                bytes(number(at)),
                identifier,
                ids[0] if at == 4 else None,
                world.name(rf"web\q{at}"),
                world.site,
            )
            for at, identifier in enumerate(ids, 1)
        )

    @pytest.mark.parametrize(
        ("relation", "value", "expected"),
        [
            (Relation.PRLT, 20, {1}),
            (Relation.PRLE, 20, {1, 2}),
            (Relation.PRGT, 20, {3, 4}),
            (Relation.PRGE, 20, {2, 3, 4}),
            (Relation.PREQ, 20, {2}),
            (Relation.PRNE, 20, {1, 3, 4}),
        ],
    )
    def test_relations_of_numbers(
        self, harness: Harness, relation: Relation, value: int, expected: set[int]
    ) -> None:
        world = World(harness)
        ids = queues(world)
        wanted = (restriction(relation, Propid.Q_QUOTA, value), here(world))
        found = rows(lookups_of(harness), wanted, (Propid.Q_INSTANCE,))
        assert {one for (one,) in found} == {ids[at - 1] for at in expected}

    @pytest.mark.parametrize(
        ("relation", "propid", "value", "expected"),
        [
            (Relation.PREQ, Propid.Q_LABEL, "a", {2}),
            (Relation.PRNE, Propid.Q_LABEL, "a", {1, 3, 4}),
            (Relation.PRLE, Propid.Q_LABEL, "AB", {2, 4}),
            (Relation.PRGT, Propid.Q_SEQNUM, bytes(number(2)), {3, 4}),
            (Relation.PRLE, Propid.Q_SEQNUM, bytes(number(2)), {1, 2}),
            (Relation.PRNE, Propid.Q_QMID, Guid(bytes(16)), {1, 2, 3, 4}),
        ],
    )
    def test_relations_of_other_values(
        self, harness: Harness, relation: Relation, propid: Propid, value: Any, expected: set[int]
    ) -> None:
        world = World(harness)
        ids = queues(world)
        wanted = (here(world), restriction(relation, propid, value))
        found = rows(lookups_of(harness), wanted, (Propid.Q_INSTANCE,))
        assert {one for (one,) in found} == {ids[at - 1] for at in expected}

    def test_what_is_not_there_equals_nothing(self, harness: Harness) -> None:
        world = World(harness)
        ids = queues(world)
        wanted = (here(world), restriction(Relation.PREQ, Propid.Q_QMID, ids[0]))
        assert rows(lookups_of(harness), wanted, (Propid.Q_INSTANCE,)) == [(ids[3],)]
        wanted = (here(world), restriction(Relation.PRGE, Propid.Q_CREATE_TIME, -(2**31)))
        assert rows(lookups_of(harness), wanted, (Propid.Q_INSTANCE,)) == []

    def test_by_identifier_and_by_name(self, harness: Harness) -> None:
        world = World(harness)
        ids = queues(world)
        for one in (
            restriction(Relation.PREQ, Propid.Q_INSTANCE, ids[1]),
            restriction(Relation.PREQ, Propid.Q_PATHNAME, world.name(r"WEB\Q2")),
        ):
            assert rows(lookups_of(harness), (one,), (Propid.Q_LABEL,)) == [("A",)]

    def test_the_lookup_of_a_synchronization(self, harness: Harness) -> None:
        """The restriction of [MC-MQDSRP] 3.2.7.8 finds what LookupChanges finds."""
        world = World(harness)
        ids = queues(world)
        world.apply(world.deletion(ids[2], 9))
        wanted = (
            here(world),
            restriction(Relation.PRGE, Propid.Q_SEQNUM, bytes(number(2))),
            restriction(Relation.PRLE, Propid.Q_SEQNUM, bytes(number(9))),
            restriction(Relation.PREQ, Propid.Q_SCOPE, 1),
        )
        found = rows(lookups_of(harness), wanted, (Propid.Q_INSTANCE,))
        assert sorted(found) == [(ids[1],), (ids[3],)]

    def test_tombstones(self, harness: Harness) -> None:
        world = World(harness)
        gone = guid()
        world.apply(world.deletion(gone, 3))
        wanted = (restriction(Relation.PREQ, Propid.D_PARTITIONID, world.site),)
        columns = (Propid.D_IDENTIFIER, Propid.D_OBJTYPE, Propid.D_SCOPE, Propid.D_SEQNUM)
        assert rows(lookups_of(harness), wanted, columns) == [(gone, 1, 1, bytes(number(3)))]

    def test_sorting(self, harness: Harness) -> None:
        world = World(harness)
        ids = queues(world)
        columns = (Propid.Q_LABEL,)

        def labels(*keys: LookupSortKey) -> list[Any]:
            return [one for (one,) in rows(lookups_of(harness), (here(world),), columns, keys)]

        assert labels(LookupSortKey(propid=Propid.Q_LABEL)) == ["A", "ab", "b", "c"]
        assert labels(LookupSortKey(propid=Propid.Q_QUOTA, descending=True)) == ["ab", "c", "A", "b"]
        world.apply(world.change(Command.UPDATE, ids[2], 9, ((Propid.Q_LABEL, "a"),)))
        keys = (LookupSortKey(propid=Propid.Q_LABEL), LookupSortKey(propid=Propid.Q_QUOTA, descending=True))
        assert labels(*keys) == ["a", "A", "ab", "b"]
        by_time = (LookupSortKey(propid=Propid.Q_CREATE_TIME), LookupSortKey(propid=Propid.Q_QUOTA))
        assert labels(*by_time) == ["b", "A", "a", "ab"], "what is not there is equal"

    def test_several_objects_at_a_time(self, harness: Harness) -> None:
        world = World(harness)
        queues(world)
        lookups = lookups_of(harness)
        status, descriptor = lookups.begin(
            (here(world),), (Propid.Q_QUOTA,), (LookupSortKey(propid=Propid.Q_QUOTA),)
        )
        assert status == OK
        assert descriptor is not None
        assert lookups.next(descriptor, 3) == (OK, ((10,), (20,), (30,)))
        assert lookups.next(descriptor, 3) == (OK, ((40,),))
        assert lookups.next(descriptor, 3) == (OK, ())

    @pytest.mark.parametrize(
        ("problem", "given"),
        [
            ("ILLEGAL_MQCOLUMNS", ((), ())),
            ("ILLEGAL_MQCOLUMNS", ((), (Propid.Q_LABEL, Propid.QM_OS))),
            ("ILLEGAL_MQCOLUMNS", ((), (Propid.SET_NAME,))),
            ("ILLEGAL_MQCOLUMNS", ((), (Propid.Q_LABEL,) * (ITEMS_MAX + 1))),
            (
                "INVALID_PARAMETER",
                ((restriction(4, Propid.Q_QUOTA, 1),) * (ITEMS_MAX + 1), (Propid.Q_LABEL,)),
            ),
            ("ILLEGAL_RESTRICTION_PROPID", ((restriction(4, Propid.QM_OS, 1),), (Propid.Q_LABEL,))),
            ("ILLEGAL_RELATION", ((restriction(6, Propid.Q_QUOTA, 1),), (Propid.Q_LABEL,))),
            ("ILLEGAL_RELATION", ((restriction(0, Propid.Q_QMID, Guid(bytes(16))),), (Propid.Q_LABEL,))),
            ("ILLEGAL_PROPERTY_VT", ((restriction(4, Propid.Q_QUOTA, "1"),), (Propid.Q_LABEL,))),
            ("ILLEGAL_SORT_PROPID", ((), (Propid.Q_LABEL,), (LookupSortKey(propid=Propid.QM_OS),))),
            ("ILLEGAL_SORT_PROPID", ((), (Propid.Q_LABEL,), (LookupSortKey(propid=Propid.Q_QMID),))),
            ("MULTI_SORT_KEYS", ((), (Propid.Q_LABEL,), (LookupSortKey(propid=Propid.Q_LABEL),) * 2)),
            (
                "ILLEGAL_SORT",
                ((), (Propid.Q_LABEL,), (LookupSortKey(propid=Propid.Q_LABEL),) * (ITEMS_MAX + 1)),
            ),
        ],
    )
    def test_what_is_refused(self, harness: Harness, problem: str, given: tuple[Any, ...]) -> None:
        assert lookups_of(harness).begin(*given) == (Hresult[f"MQ_ERROR_{problem}"], None)

    def test_lookups_are_bounded(self, harness: Harness) -> None:
        world = World(harness)
        lookups = lookups_of(harness)
        given = ((here(world),), (Propid.Q_LABEL,))
        descriptors = [lookups.begin(*given)[1] for _ in range(LOOKUPS_MAX)]
        assert len(set(descriptors)) == LOOKUPS_MAX
        assert lookups.begin(*given) == (Hresult.MQ_ERROR_INSUFFICIENT_RESOURCES, None)
        assert descriptors[0] is not None
        lookups.end(descriptors[0])
        assert lookups.begin(*given)[0] == OK
