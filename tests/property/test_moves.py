"""Names after a move: what was below the old name is below the new one, and all else stays."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mqdssm.model.dn import DN
from mqdssm.pipeline.migrate.moves import Move, move_values

VALUES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
NAMES = st.lists(st.tuples(st.sampled_from(["CN", "OU"]), VALUES), max_size=3)
OLD, NEW = (DN.of(("CN", "msmq"), ("CN", name), ("DC", "example")) for name in ("old", "new"))
MOVE = Move(guid=UUID(int=1), old=OLD, new=NEW, old_computer=None, new_computer=None)


def below(names: list[tuple[str, str]], parent: DN) -> DN:
    return DN((*DN.of(*names).rdns, *parent.rdns)) if names else parent


@given(NAMES)
def test_what_is_below_moves_and_comes_back(names: list[tuple[str, str]]) -> None:
    old, new = below(names, OLD), below(names, NEW)
    assert MOVE.move_dn(old) == new
    back = Move(guid=MOVE.guid, old=NEW, new=OLD, old_computer=None, new_computer=None)
    assert back.move_dn(MOVE.move_dn(old)) == old
    (value,) = move_values([MOVE], [str(old).encode()])
    assert DN.parse(value.decode()) == new


@given(NAMES.map(lambda names: below(names, DN.of(("CN", "xmsmq"), ("CN", "old"), ("DC", "example")))))
def test_all_else_stays(dn: DN) -> None:
    assert MOVE.move_dn(dn) == dn
    for value in (str(dn).encode(), str(OLD.parent).encode()):
        assert move_values([MOVE], [value]) == (value,)


@given(st.binary(max_size=12))
def test_values_that_are_no_names_stay(value: bytes) -> None:
    assert move_values([MOVE], [value]) == (value,)


def test_an_operation_holds_its_move() -> None:
    for computers in ((None, None), (UUID(int=2), UUID(int=3))):
        move = Move(guid=UUID(int=1), old=OLD, new=NEW, old_computer=computers[0], new_computer=computers[1])
        assert Move.of(move.make_operation("queue-manager", "Machine", 1)) == move
