"""The yardstick of [validate] and our rules find the same: what is no equal work is no measurement."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.validate.datasets import read_dataset
from mqdssm.pipeline.validate.run import apply_rules
from mqdssm.pipeline.validate.sources import ValidationSource

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import validating


@pytest.mark.slow
def test_both_sides_of_the_validation_find_the_same() -> None:
    """The yardstick has all rules of queues: what each alone breaks is wrong to both."""
    count = 2 * validating.PLANTED_EVERY
    with validating.source(count) as made, LocalRunner(1) as runner:
        with apply_rules(runner, made, now=validating.NOW) as found:
            counts = {rule.id: rule.count for rule in found.summary.rules if rule.count}
        wrong = validating.by_rows(made.sets["queue"].paths[0], count, validating.parents_in(made))
    assert counts == validating.planted(count)
    assert wrong == sum(counts.values()) == 4


BREAKS = (
    {"Identifier": str(UUID(int=0))},
    {"Label": "😀" * 63},
    {"FullPath": "CN=q\\0ACNF:x,CN=msmq,CN=pc0,CN=Computers,DC=example,DC=com"},
    {"FullPath": "CN=q,CN=msmq,CN=pc9999,CN=Computers,DC=example,DC=com"},
    {"Pathname": "pc0\\private$\\q"},
    {"Pathname": "pc0\\" + "x" * 55 + "-0123abcd", "mSMQQueueNameExt": "y"},
    {"Pathname": "pc0\\queue1"},
    {"MulticastAddress": "224.1.1.256:1"},
    {"MulticastAddress": "224.1.1.1:65536"},
    {"MulticastAddress": "224.1.1.1:1", "Transactional": True},
    {"ModifyTime": datetime(2020, 1, 1, tzinfo=UTC)},
    {"CreateTime": None},
    {"Security": b""},
    {"Security": b"x"},
    {"Unreadable": ["Label: no"]},
    {"Quota": -1},
    {"JournalQuota": 2**32},
    {"BasePriority": 32768},
    {"PrivacyLevel": "Much"},
)


@pytest.mark.parametrize("change", BREAKS, ids=",".join)
def test_the_yardstick_of_the_validation_has_each_rule(tmp_path: Path, change: dict[str, Any]) -> None:
    sets = {}
    for name, table in (("queue", validating.queues(0, 2)), ("queue-manager", validating.machines(1))):
        first, *others = table.to_pylist()
        rows = [first | (change if name == "queue" else {}), *others]
        pq.write_table(pa.Table.from_pylist(rows, table.schema), tmp_path / f"{name}.parquet")
        sets[name] = read_dataset(name, [tmp_path / f"{name}.parquet"])
    made = ValidationSource("small", sets)
    with apply_rules(LocalRunner(1), made, now=validating.NOW) as found:
        assert found.summary.count > 0
    assert validating.by_rows(sets["queue"].paths[0], 2, validating.parents_in(made)) > 0
