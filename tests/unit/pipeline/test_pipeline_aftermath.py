"""What the folder of a plan says about single rows."""

import json
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.pipeline.migrate.report import read_left_out, read_rejects

GUIDS = tuple(str(UUID(int=number)) for number in (1, 2))


def line(row, guid, **more):
    values = {"PROPID_Q_LABEL": "x"} | ({} if guid is None else {"PROPID_Q_INSTANCE": guid})
    return {"table": "Queue", "row": row, "values": values, "reason": "why", **more}


def test_rejects_of_the_plan_and_refusals_each_once(tmp_path):
    folder = tmp_path / "rejects"
    folder.mkdir()
    refused = [
        line(2, GUIDS[1], attributes=["mSMQLabelEx", "mSMQQuota"]),
        line(2, GUIDS[1], attributes=[]),
        line(0, None, attributes=[]),  # nothing of the tables
    ]
    planned = [line(1, GUIDS[0], attribute="PROPID_Q_LABEL"), line(3, None, attribute="PROPID_Q_INSTANCE")]
    for name, lines in (("applied", refused), ("Queue", planned)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    found = [(one.table.type_name, one.row, one.guid, one.columns) for one in read_rejects(tmp_path)]
    assert sorted(found, key=lambda one: one[1]) == [
        ("queue", 1, GUIDS[0], "PROPID_Q_LABEL"),
        ("queue", 2, GUIDS[1], "mSMQLabelEx, mSMQQuota"),
        ("queue", 3, None, "PROPID_Q_INSTANCE"),
    ]


def test_values_left_out_are_known_by_object_and_column(tmp_path):
    for table, guid in zip(("Queue", "Site"), GUIDS, strict=True):
        place = tmp_path / "not-carried" / table
        place.mkdir(parents=True)
        rows = [{"guid": guid, "column": f"PROPID_{table}", "value": "1", "row": 1}]
        pq.write_table(pa.Table.from_pylist(rows), place / "part-00000.parquet")
    assert set(read_left_out(tmp_path)) == {(GUIDS[0], "PROPID_Queue"), (GUIDS[1], "PROPID_Site")}


def test_a_folder_of_which_nothing_was_rejected(tmp_path):
    assert list(read_rejects(tmp_path)) == list(read_left_out(tmp_path)) == []
