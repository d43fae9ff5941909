"""Validation of queues in Parquet files: [validate], [validate-local], [validate-growth].

The yardstick checks the same queues by the same rules, row by row with a pydantic model, as a program of a
few lines does: descriptors are decoded once for each distinct one there, too.
"""

import re
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from benchmarks.growing import GOAL, GROWN, GROWN_QUICK, grown
from benchmarks.harness import Goal, Outcome, Timing, interleaved
from benchmarks.world import World
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.validate.datasets import read_dataset
from mqdssm.pipeline.validate.rules import examiners
from mqdssm.pipeline.validate.rules.rule import FRAMES
from mqdssm.pipeline.validate.run import apply_rules
from mqdssm.pipeline.validate.sources import ValidationSource
from mqdssm.spark.runner import SparkRunner
from mqdssm.spark.session import spark_session
from mqdssm.wire.acl import allow
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import EVERYONE, Sid

QUEUES: Final = 1_000_000
PER_MACHINE: Final = 50
OWNERS: Final = 500
"""Distinct security descriptors."""
SLICE: Final = 50_000
"""Queues that the yardstick checks; its time for all of them follows."""
PLANTED_EVERY: Final = 10_000
"""Queues of which one has each planted defect."""
TRANSACTIONAL: Final = 4998
"""Number, among those, of the transactional queue with a multicast address."""
QUICK: Final = 20
"""By this the sizes are divided for a quick look."""
NOW: Final = datetime(2026, 6, 1, tzinfo=UTC)
ROOT: Final = "CN=Computers,DC=example,DC=com"

VALIDATE: Final = Goal(
    name="validate",
    title="all rules over 1,000,000 queues and 20,000 queue managers in Parquet files",
    against="the same rules of queues as a per-row pydantic loop",
    goal=10,
    direction="at_least",
)
LOCAL: Final = Goal(
    name="validate-local",
    title="all rules over 1,000,000 queues and 20,000 queue managers in Parquet files, local runner",
    against="Spark's runner, the start of both apart",
    goal=1.2,
    direction="at_least",
)
GROWTH: Final = Goal(
    name="validate-growth",
    title="time for an object among 100,000, and largest memory of a worker: the larger of both",
    against="among 10,000 objects",
    goal=GOAL,
    direction="at_most",
    quantity="time and memory",
)


class Queue(BaseModel):
    """A queue with the rules that one row shows."""

    Identifier: Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]
    Label: str | None
    CreateTime: datetime
    ModifyTime: datetime
    Pathname: str
    Type: Annotated[str | None, Field(min_length=36, max_length=36)]
    Quota: Annotated[int | None, Field(ge=0, lt=2**32)]
    JournalQuota: Annotated[int | None, Field(ge=0, lt=2**32)]
    BasePriority: Annotated[int | None, Field(ge=-32768, le=32767)]
    PrivacyLevel: Annotated[str | None, Field(pattern="^(None|Optional|Body)$")]
    Transactional: bool | None
    MulticastAddress: str | None
    Unreadable: None
    mSMQQueueNameExt: str | None  # noqa: N815  as the column
    Security: Annotated[bytes, Field(min_length=1)]
    FullPath: str

    @field_validator("Identifier")
    @classmethod
    def _guid(cls, value: str) -> str:
        if value == _NO_GUID:
            raise ValueError("GUID")
        return value

    @field_validator("Label")
    @classmethod
    def _label(cls, value: str | None) -> str | None:
        if value and len(value) > 62 and len(value.encode("utf-16-be")) > 248:
            raise ValueError("label")
        return value

    @field_validator("Pathname")
    @classmethod
    def _name(cls, value: str) -> str:
        name = value.rpartition("\\")[2]
        if _PRIVATE.match(value) or not _LEGAL.match(value) or len(name) > 124:
            raise ValueError("path name")
        return value

    @field_validator("MulticastAddress")
    @classmethod
    def _multicast(cls, value: str | None) -> str | None:
        if value and not _MULTICAST.match(value):
            raise ValueError("multicast address")
        return value

    @field_validator("FullPath")
    @classmethod
    def _place(cls, value: str) -> str:
        if _RENAMED.search(value) and not _RENAMED.search(_PARENT.sub("", value, count=1)):
            raise ValueError("renamed")
        return value

    @model_validator(mode="after")
    def _together(self) -> "Queue":
        if self.ModifyTime < self.CreateTime:
            raise ValueError("times")
        if self.Transactional and self.MulticastAddress:
            raise ValueError("transactional, with a multicast address")
        if self.mSMQQueueNameExt is not None or (len(self.Pathname) > 64 and _HASHED.match(self.Pathname)):
            names = (self.FullPath, self.mSMQQueueNameExt)
            if list(examiners.examine_queue_name(examiners.Case("queue", names, NOW))):
                raise ValueError("name and its hash")
        return self


_PRIVATE: Final = re.compile(r"^[^\\]+\\private\$\\", re.IGNORECASE)
_LEGAL: Final = re.compile(r"^[^\\]+\\(?:private\$\\)?[!#-*\-./0-9:<-\[\]-\x7e]+\Z", re.IGNORECASE)
_OCTET: Final = r"(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
_PORT: Final = (
    r"(?:[0-9]|[1-9][0-9]{1,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
)
_MULTICAST: Final = re.compile(rf"^(?:22[4-9]|23[0-9])(?:\.{_OCTET}){{3}}:{_PORT}\Z")
_NO_GUID: Final = str(uuid.UUID(int=0))
_RENAMED: Final = re.compile(r"(?:\\0A|\n)(?:DEL|CNF):")
_HASHED: Final = re.compile(r"^[^\\]+\\[^\\]{55}-[0-9a-f]{8}\Z")
_PARENT: Final = re.compile(r"^(?:[^,\\]|\\.)*,")


def machines(count: int) -> pa.Table:
    """Queue managers."""
    rows = [
        {
            "Identifier": str(uuid.UUID(int=2**64 + number)),
            "ComputerName": f"pc{number}",
            "OperatingSystemType": "WinServer",
            "CreateTime": NOW,
            "ModifyTime": NOW,
            "FullPath": f"CN=msmq,CN=pc{number},{ROOT}",
            "SiteIdentifierList": [str(uuid.UUID(int=1))],
            "Security": _descriptor(number),
        }
        for number in range(count)
    ]
    return pa.Table.from_pylist(rows, make_arrow_schema(FRAMES["queue-manager"]))


def queues(first: int, count: int) -> pa.Table:
    """Queues, two of 10,000 with a defect: a quota that cannot be, a transactional one for many.

    `planted` counts them.
    """
    rows = [
        {
            "Identifier": str(uuid.UUID(int=2**96 + number * 7919)),
            "Label": f"Queue number {number}",
            "CreateTime": NOW,
            "ModifyTime": NOW,
            "Type": str(uuid.UUID(int=number % 5)),
            "Pathname": f"pc{number // PER_MACHINE}\\queue{number}",
            "Journaling": number % 2 == 0,
            "Quota": -1 if number % PLANTED_EVERY == 9999 else 10_000 + number,
            "JournalQuota": 5000,
            "Authentication": False,
            "PrivacyLevel": "Optional",
            "Transactional": number % 3 == 1 or number % PLANTED_EVERY == TRANSACTIONAL,
            "MulticastAddress": "234.1.1.1:8001"
            if number % 3 == 0 or number % PLANTED_EVERY == TRANSACTIONAL
            else "",
            "Security": _descriptor(number),
            "BasePriority": number % 7,
            "FullPath": f"CN=queue{number},CN=msmq,CN=pc{number // PER_MACHINE},{ROOT}",
        }
        for number in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, make_arrow_schema(FRAMES["queue"]))


def _descriptor(number: int) -> bytes:
    owner = Sid(f"S-1-5-21-1-2-3-{1000 + number % OWNERS}")
    aces = [allow(EVERYONE, QueueAccess.GENERIC_WRITE), allow(owner, QueueAccess.GENERIC_ALL)]
    return bytes(SecurityDescriptor.build(owner=owner, dacl=aces))


def planted(count: int) -> dict[str, int]:
    """The findings among so many queues, by rule."""
    each = count // PLANTED_EVERY
    return {"queue-quota-range": each, "queue-multicast-transactional": each}


@contextmanager
def source(count: int) -> Iterator[ValidationSource]:
    """Files of so many queues and their queue managers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with pq.ParquetWriter(
            folder / "queue.parquet", make_arrow_schema(FRAMES["queue"]), compression="none"
        ) as file:
            for first in range(0, count, SLICE):
                file.write_table(queues(first, min(SLICE, count - first)))
        pq.write_table(machines(count // PER_MACHINE + 1), folder / "queue-manager.parquet")
        sets = {one: read_dataset(one, [folder / f"{one}.parquet"]) for one in ("queue", "queue-manager")}
        yield ValidationSource("bench", sets)


def by_rows(path: str, count: int, parents: frozenset[str]) -> int:
    """The yardstick: all rules of queues, row by row; gives how many queues are wrong."""
    wrong = 0
    guids: Counter[str] = Counter()
    names: Counter[str] = Counter()
    judged: dict[bytes, bool] = {}
    seen = 0
    for batch in pq.ParquetFile(path).iter_batches(batch_size=10_000):
        for row in batch.to_pylist():
            seen += 1
            wrong += _is_wrong(row, parents, judged)
            guids[row["Identifier"]] += 1
            names[row["Pathname"].lower()] += 1
        if seen >= count:
            break
    return wrong + sum(n > 1 for n in guids.values()) + sum(n > 1 for n in names.values())


def _is_wrong(row: dict[str, Any], parents: frozenset[str], judged: dict[bytes, bool]) -> bool:
    try:
        queue = Queue(**row)
    except ValidationError:
        return True
    image = queue.Security
    if image not in judged:
        judged[image] = bool(list(examiners.examine_descriptor(examiners.Case("queue", (image,), NOW))))
    return judged[image] or _PARENT.sub("", queue.FullPath, count=1).lower() not in parents


def parents_in(made: ValidationSource) -> frozenset[str]:
    """The DNs that queues may stand below, in lower case."""
    names = made.sets["queue-manager"].read_table(["FullPath"])["FullPath"].to_pylist()
    return frozenset(name.lower() for name in names)


def validate(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  it has files of its own
    count = QUEUES // QUICK if quick else QUEUES
    part = min(SLICE, count)
    with source(count) as made, spark_session("mqdssm bench") as spark:
        parents = parents_in(made)
        path = made.sets["queue"].paths[0]

        def theirs() -> None:
            if by_rows(path, part, parents) != sum(planted(part).values()):
                raise AssertionError("the yardstick found something else: this is no measurement")

        ours = partial(_judge, SparkRunner(spark), made, count)
        timing = interleaved(ours, theirs, 3 if quick else 7, warm=2)
    whole = tuple(seconds * count / part for seconds in timing.theirs)
    return Timing(timing.ours, whole).speed(VALIDATE, count, "objects")


def _judge(runner: Runner, made: ValidationSource, count: int) -> None:
    """Validate, and make sure that what was planted is found."""
    with apply_rules(runner, made, now=NOW) as found:
        counts = {rule.id: rule.count for rule in found.summary.rules if rule.count}
    if counts != planted(count):
        raise AssertionError(f"{counts}: this is no measurement")


def validate_local(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  it has files of its own
    count = QUEUES // QUICK if quick else QUEUES
    with source(count) as made, spark_session("mqdssm bench") as spark, LocalRunner() as local:
        ours = partial(_judge, local, made, count)
        theirs = partial(_judge, SparkRunner(spark), made, count)
        timing = interleaved(ours, theirs, 3 if quick else 7, warm=2)
    return timing.speed(LOCAL, count, "objects")


def growth(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  as above
    with ExitStack() as stack:
        spark = stack.enter_context(spark_session("mqdssm bench"))
        made = {size: stack.enter_context(source(size)) for size in (GROWN_QUICK if quick else GROWN)}

        def run(one: ValidationSource) -> None:
            with apply_rules(SparkRunner(spark), one, now=NOW):
                pass

        work = {size: partial(run, one) for size, one in made.items()}
        return grown(GROWTH, work, 2 if quick else 7)


ROWS: Final = {VALIDATE: validate, LOCAL: validate_local, GROWTH: growth}
