"""Shares of a validation for workers.

Each worker reads files itself, and writes files of findings.
A runner only schedules: rows of objects and findings do not pass through its pipes or the JVM, which makes
this twice as fast as SQL.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa

from mqdssm.pipeline.runner import Job, StopRequest
from mqdssm.pipeline.validate.datasets import Dataset, Piece, merge_pieces, read, values_of
from mqdssm.pipeline.validate.finding_files import write_parts
from mqdssm.pipeline.validate.rules.rule import (
    Judged,
    MissingReference,
    Repeated,
    Rule,
    Undecodable,
    Unequal,
    Wrong,
)
from mqdssm.pipeline.validate.scan import ObjectBatch, Test, columns_of, find_repeated, tests_of
from mqdssm.pipeline.validate.translate import (
    Untranslatable,
    translate,
    translate_condition,
    translate_message,
)

BATCH_ROWS: Final = 16_384  # more rows need more memory and gain nothing
PIECE_ROWS: Final = 250_000  # of one task: enough to make its start negligible
TASK_WORK_MAX: Final = 500_000  # rows times rules of small pieces that share a task, to save starts
SMALL_WORK: Final = 20_000_000
"""Limit of rows times rules that one process judges sooner than workers start; about 500,000 objects."""
REPEATED_ROWS_MAX: Final = 3_000_000
"""Objects of one rule whose values are in a worker's memory (0.1 GB a million).

The local engine counts more in parts, Spark with its own groups, which spill to disk.
"""
TARGET_ROWS_MAX: Final = 500_000
"""Targets of a reference rule that a worker of Spark holds; more are joined by Spark.

The local engine holds any number: each worker takes 0.8 KB for a queue manager with its computer.
"""


@dataclass(frozen=True)
class ValidationPlan:
    """Plan for all workers. It is the same for all tasks, and holds no secret.

    Attributes:
        sets: the types.
        rules: for each type, the rules about single objects.
        unique: rules about repeated values.
        dns: DNs of types whose objects have no attribute with it.
        now: the moment of the validation.
        tasks: the pieces of work of each task, set by `divide_plan`.
    """

    sets: Mapping[str, Dataset]
    rules: Mapping[str, tuple[Rule, ...]]
    unique: tuple[tuple[Repeated, tuple[str, ...]], ...]
    dns: Mapping[str, str]
    now: datetime
    tasks: tuple[tuple["ValidationItem", ...], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ValidationItem:
    """A piece of work: some rows of a type, or a rule about repeated values.

    Attributes:
        type: of the rows; empty for a rule.
        piece: the rows.
        unique: number of the rule in the plan.
        rows: amount of work.
    """

    type: str
    piece: Piece | None
    unique: int
    rows: int


def check_translated(rule: Rule, types: Iterable[str], sets: Mapping[str, Dataset]) -> None:
    """Check that workers can evaluate a rule.

    Raises:
        Untranslatable: Arrow cannot evaluate a part.
    """
    for name in types:
        _try(rule, sets[name], sets)


def can(rule: Rule, types: Iterable[str], sets: Mapping[str, Dataset]) -> bool:
    """Return True if workers can evaluate a rule within the limits of their memory."""
    try:
        check_translated(rule, types, sets)
    except Untranslatable:
        return False
    if isinstance(rule, Repeated):
        return sum(sets[name].rows for name in types) <= REPEATED_ROWS_MAX
    return not isinstance(rule, MissingReference) or sets[rule.target].rows <= TARGET_ROWS_MAX


def _try(rule: Rule, source: Dataset, sets: Mapping[str, Dataset]) -> None:
    types = source.types
    if isinstance(rule, Repeated):
        key = translate(rule.key, types)
        inner = key.type.value_type if pa.types.is_list(key.type) else key.type
        if inner not in {pa.string(), pa.binary()}:
            raise Untranslatable(f"keys of type {inner}")
    elif isinstance(rule, MissingReference):
        target_types = sets[rule.target].types
        (
            translate(rule.key, target_types),
            translate(rule.value, types),
            translate_condition(rule.where, types),
        )
        extra = {"value": pa.string()}
        if isinstance(rule, Unequal):
            extra |= {f"other.{name}": target_types[name] for name in rule.list_other_columns()}
            translate_condition(rule.condition, types | extra)
        translate_message(rule.message, types | extra)
    elif isinstance(rule, Wrong):
        translate_condition(rule.condition, types), translate_message(rule.message, types)
    elif isinstance(rule, Judged):
        translate_condition(rule.where, types)
    elif not isinstance(rule, Undecodable):
        raise Untranslatable(f"a rule of kind {rule.kind}")


def divide_plan(plan: ValidationPlan) -> ValidationPlan:
    """Divide a plan into tasks, the largest first; small pieces of work share a task."""
    items = [
        ValidationItem(name, piece, -1, piece.rows * len(rules))
        for name, rules in plan.rules.items()
        for piece in merge_pieces(plan.sets[name].pieces, PIECE_ROWS)
    ]
    items += [
        ValidationItem("", None, number, sum(plan.sets[name].rows for name in types) * 10)
        for number, (_, types) in enumerate(plan.unique)
    ]
    tasks: list[tuple[ValidationItem, ...]] = []
    for item in sorted(items, key=lambda item: -item.rows):
        if tasks and sum(task_item.rows for task_item in tasks[-1]) + item.rows <= TASK_WORK_MAX:
            tasks[-1] += (item,)
        else:
            tasks.append((item,))
    return ValidationPlan(plan.sets, plan.rules, plan.unique, plan.dns, plan.now, tuple(tasks))


@dataclass(frozen=True, slots=True)
class RuleWork:
    """Application of rules to objects (`mqdssm.pipeline.runner.Work`).

    Attributes:
        plan: the tasks, each of which is a piece.
        folder: for files of findings.
    """

    plan: ValidationPlan
    folder: Path

    @contextlib.contextmanager
    def open(self, stop: StopRequest) -> Iterator[Callable[[int], tuple[Path, ...]]]:
        """See `Work`. The result of a piece is the paths of its files."""
        yield lambda number: write_parts(self._find_defects(number, stop), self.folder)

    def _find_defects(self, number: int, stop: StopRequest) -> Iterator[pa.RecordBatch]:
        for item in self.plan.tasks[number]:
            stop.check()
            yield from run_item(self.plan, item, stop)
            # else memory of one piece would add to the memory of the next
            pa.default_memory_pool().release_unused()


def make_rule_job(plan: ValidationPlan, folder: Path) -> Job:
    """Divide a plan into the pieces of a job.

    Args:
        plan: the objects and rules.
        folder: for files of findings; all workers see it.
    """
    whole = divide_plan(plan)
    names = tuple(", ".join(_describe_item(whole, item) for item in task) for task in whole.tasks)
    is_small = sum(item.rows for item in chain.from_iterable(whole.tasks)) <= SMALL_WORK
    return Job(RuleWork(whole, folder), names, is_small=is_small)


def _describe_item(plan: ValidationPlan, item: ValidationItem) -> str:
    if item.piece is None:
        return f"rule {plan.unique[item.unique][0].id}"
    return f"{item.type} in {item.piece.path}"


def run_here(plan: ValidationPlan) -> Iterator[pa.RecordBatch]:
    """Run the whole plan in this process, without Spark."""
    whole = divide_plan(plan)
    for item in chain.from_iterable(whole.tasks):
        yield from run_item(whole, item, StopRequest())


def run_item(plan: ValidationPlan, item: ValidationItem, stop: StopRequest) -> Iterator[pa.RecordBatch]:
    """Run one piece of work."""
    if item.piece is None:
        rule, types = plan.unique[item.unique]
        sets = {name: plan.sets[name] for name in types}
        yield from find_repeated(rule, sets, plan.dns, REPEATED_ROWS_MAX, stop)
        return
    target, rules = plan.sets[item.type], plan.rules[item.type]
    tests = _make_tests(rules, target, _Sets(tuple(plan.sets.items())), plan.now)
    column_names = columns_of(rules, target)
    dictionaries = [rule.looks_at[0] for rule in rules if isinstance(rule, Judged) and _is_simple(rule)]
    for record in read(item.piece, column_names, BATCH_ROWS, dictionaries=dictionaries):
        stop.check()
        columns = values_of(record, target.types)
        batch = ObjectBatch(item.type, columns, record.num_rows, plan.dns.get(item.type))
        for test in tests:
            yield from test(batch)


@dataclass(frozen=True)
class _Sets:
    """Datasets in a form that can be a key of a cache."""

    items: tuple[tuple[str, Dataset], ...]


@lru_cache(maxsize=8)
def _make_tests(rules: tuple[Rule, ...], target: Dataset, sets: _Sets, now: datetime) -> list[Test]:
    return tests_of(rules, target, dict(sets.items), now)


def _is_simple(rule: Judged) -> bool:
    """Return True if the rule examines every value that is set.

    The column's dictionary is then enough.
    """
    return len(rule.looks_at) == 1 and rule.where == f"length({rule.looks_at[0]}) > 0"
