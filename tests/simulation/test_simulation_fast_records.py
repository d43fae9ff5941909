"""Records that the processes of `make simulate` create faster are otherwise as they were."""

import inspect
import sys
from dataclasses import dataclass, field, fields, replace

import pytest

from mqdssm.engines.replication.actions import Send
from mqdssm.engines.replication.engine import ReplicationEngine
from mqdssm.model.frozen_records import make_init
from mqdssm.model.messages import DirectoryChange
from mqdssm.model.transport import Message
from mqdssm.testing.simulation import fast_records


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    size: int = 7
    doubled: int = field(init=False, default=0)
    parts: list[int] = field(default_factory=list, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self.size)


@dataclass(frozen=True, slots=True)
class Outer(Inner):
    flag: bool = field(default=False, kw_only=True)


@dataclass(slots=True)
class Changeable:
    name: str


@pytest.fixture
def original(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the classes of this module changed, and changed back."""
    monkeypatch.setattr(fast_records, "_PACKAGE", __name__)
    for record in (Inner, Outer):
        for name in ("__init__", "__setattr__", "__delattr__"):
            monkeypatch.setattr(record, name, getattr(record, name))


@pytest.mark.parametrize("record", [Inner, Outer])
def test_a_faster_record_is_otherwise_as_before(original, record) -> None:
    before = [record("a"), record("a", 8), record(name="a", size=8, parts=[1])]
    assert fast_records.replace_constructors() == [Inner, Outer]
    after = [record("a"), record("a", 8), record(name="a", size=8, parts=[1])]
    assert list(map(repr, after)) == list(map(repr, before))
    assert after == before
    assert after[0].parts is not record("a").parts
    assert [one.doubled for one in after] == [14, 16, 16]


def test_a_faster_record_is_still_told_from_others(original) -> None:
    fast_records.replace_constructors()
    record = Outer("a", 8, flag=True)
    changed = replace(record, size=9)
    assert (type(changed), changed.doubled, changed.flag) == (Outer, 18, True)
    assert changed != record
    with pytest.raises(AttributeError):
        object.__setattr__(record, "other", 1)


@pytest.mark.parametrize("given", [{}, {"name": "a", "flat": True}])
def test_a_faster_record_takes_the_same_arguments(original, given) -> None:
    fast_records.replace_constructors()
    with pytest.raises(TypeError, match=r"name|flat"):
        Outer(**given)


def test_every_record_of_the_engines_is_made_with_the_same_arguments() -> None:
    assert ReplicationEngine.__module__ in sys.modules
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("mqdssm.")]
    values = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    records = [value for value in values if fast_records._is_plain_record(value)]
    assert {Send, DirectoryChange, Message} <= set(records)
    for record in records:
        made = list(inspect.signature(make_init(record)).parameters.values())[1:]
        usual = list(inspect.signature(record).parameters.values())
        assert [(one.name, one.kind) for one in made] == [(one.name, one.kind) for one in usual], record
        required = {one.name for one in made if one.default is inspect.Parameter.empty}
        assert required == {one.name for one in usual if one.default is inspect.Parameter.empty}, record
        assert len({one.name for one in fields(record)}) >= len(made)
