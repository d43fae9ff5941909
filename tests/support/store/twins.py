"""Two stores that are given the same must have the same: the one in memory, and another one."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from hypothesis import strategies as st

from mqdssm.engines.replication import operations as ops
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.store import rules
from mqdssm.store.performer import Store
from mqdssm.tables.property_rows import CHANGED, NAMES
from mqdssm.testing.memory_store.store import MemoryStore
from mqdssm.testing.simulation.stores import look_up_everything
from support.store.property_strategies import SID, some_of

KINDS: Final = tuple(one for one in ObjectType if one in CHANGED)
LOOK: Final = ops.FindForeign(after="", count_max=1000)
OBJECTS: Final = 3
"""Of each type."""
_STRANGE: Final = (
    "a", "A", "b", "", " ", " lead", "trail ", "a,b", "a=b", 'q"q', "#a", "a\\b", "a/b", "a*b(c)", "<>;+",
    "\x01", "Größe", "GRÖSSE", "ß", "東京", "😀", "\ud800", "e\u0301", "\u00e9", "İ", "ı", "\u200b", "x" * 64,
    "x" * 65, "é" * 100, "x" * 600, "CN=a", "..", "msmq", "a\nb", "a\tb", "a  b", "\u00a0",
)  # fmt: skip
"""Names that somebody might have given: a directory has to hold what it is told (decision R53)."""
NAME_TEXTS: Final = st.sampled_from(_STRANGE) | st.text(
    st.characters(exclude_characters="\0"), min_size=1, max_size=12
)


def number(value: int) -> SequenceNumber:
    """A number."""
    return SequenceNumber(value)


@dataclass
class Twins:
    """Does everything twice, and compares.

    Attributes:
        mine: the store under test.
        model: the one in memory.
        sites: two partitions that no other pair knows.
    """

    mine: Store
    model: MemoryStore
    sites: tuple[Guid, Guid]
    last: dict[Guid, int] = field(default_factory=dict)
    seen: str = ""

    def perform(self, operation: ops.Operation) -> Any:
        """Perform an operation on both; both have to say the same."""
        mine, model = self.mine.perform(operation), self.model.perform(operation)
        assert mine == model, f"{mine}\n{model}"
        return mine

    def next(self, site: Guid) -> SequenceNumber:
        """The next number of a partition."""
        self.last[site] = self.last.get(site, 0) + 1
        return number(self.last[site])

    def compare(self) -> None:
        """Both have the same of both partitions, object by object."""
        for site in self.sites:
            for scope in (False, True):
                self.perform(look_up_everything(site, enterprise_scope=scope))
            self.perform(ops.HasObjects(partition_id=site))
            self.perform(ops.Recover(partition_id=site))
        # what a store writes itself is no change of another program (decision R112)
        mine = self.mine.perform(replace(LOOK, seen=self.seen))
        assert mine == self.model.perform(LOOK)
        self.seen = max(self.seen, mine.newest)


@st.composite
def drafts(draw: st.DrawFn) -> tuple[Command, ObjectType, int, str, dict[Propid, Any]]:
    """A change: command, type, which object, a name, values."""
    kind = draw(st.sampled_from(KINDS))
    command = draw(st.sampled_from([*[Command.SYNC] * 4, Command.CREATE, Command.UPDATE, Command.DELETE]))
    values = draw(some_of([one for one in CHANGED[kind] if one not in NAMES]))
    if kind is ObjectType.USER:
        values[Propid.U_SID] = draw(st.sampled_from([SID, b"", b"sid", SID[:-1] + b"\1"]))
    name = draw(NAME_TEXTS)
    if kind is ObjectType.QUEUE:
        name += "\\" + draw(NAME_TEXTS)
    return command, kind, draw(st.integers(0, OBJECTS - 1)), name, values


def identifier(twins: Twins, kind: ObjectType, which: int) -> Guid:
    """The GUID of an object of this pair."""
    return Guid(bytes(twins.sites[0])[:14] + bytes((kind, which)))


def change(
    twins: Twins, site: Guid, draft: tuple[Command, ObjectType, int, str, dict[Propid, Any]]
) -> DirectoryChange:
    """The change with the next number."""
    command, kind, which, name, values = draft
    properties: Properties
    if command is Command.DELETE:
        properties = ((Propid.D_SCOPE, int(Scope.ENTERPRISE)), (Propid.D_OBJTYPE, int(kind)))
    else:
        own = rules.NAME[kind]
        named = {} if own is None else {own: name}
        properties = tuple((named | values).items()) or (
            (rules.IDENTITY[kind], identifier(twins, kind, which)),
        )
    return DirectoryChange(
        command=command,
        guid_identifier=identifier(twins, kind, which),
        partition_id=site,
        seq_number=twins.next(site),
        properties=properties,
    )


DRAFTS: Final = st.lists(st.tuples(st.integers(0, 1), drafts()), min_size=1, max_size=14)
REPLICA_STEPS: Final = st.lists(st.sampled_from(["apply", "again", "mark", "sweep", "purge"]), max_size=4)


def check_replica_twins(twins: Twins, planned: list[Any], steps: list[str]) -> None:
    """Changes of all types, in batches, with full synchronizations and purges in between."""
    steps = [*steps, "apply"]
    size = -(-len(planned) // len(steps))
    for at, step in enumerate(steps):
        batch = planned[at * size : (at + 1) * size]
        for index in (0, 1):
            site = twins.sites[index]
            changes = [change(twins, site, draft) for which, draft in batch if which == index]
            while changes:
                applied = twins.perform(ops.ApplyChanges(partition_id=site, changes=changes))
                if step == "again":
                    twins.perform(ops.ApplyChanges(partition_id=site, changes=changes[: applied.count]))
                changes = changes[applied.count + (applied.status != Hresult.MQ_OK) :]
            twins.compare()
            if step == "mark":
                twins.perform(ops.MarkPartition(partition_id=site))
            if step == "sweep":
                twins.perform(ops.SweepPartition(partition_id=site))
            if step == "purge":
                twins.perform(
                    ops.PurgeDeletedObjects(partition_id=site, up_to=number(twins.last.get(site, 1)))
                )
    twins.compare()
