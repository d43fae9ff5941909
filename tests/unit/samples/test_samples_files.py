"""Sample enterprises as files: the same bytes for the same arguments, defects that are listed."""

import hashlib
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdssm.errors import ConfigError
from mqdssm.samples.fault_table import FAULTS
from mqdssm.samples.faults import LDIF, MQIS, EnterpriseForm, count_copies, plant
from mqdssm.samples.forms import FAULTS_NAME, LoadingMode, SampleForm, TableForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.tables.mqis import MQIS_TABLES

PLAN = EnterprisePlan(sites=3, machines=12, queues=80, users=6, seed=1)


def digest(folder):
    found = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


# these change when what is made changes, and never else: not with Python, pyarrow, cryptography, the machine
PINNED = {
    (SampleForm.MQIS, TableForm.CSV, LoadingMode.LDAPADD): "4a8f27dddfb0401c",
    (SampleForm.MQIS, TableForm.JSONL, LoadingMode.LDAPADD): "ca25d992eaf71208",
    (SampleForm.LDIF, TableForm.PARQUET, LoadingMode.LDAPADD): "f60fe4dcce586b60",
    (SampleForm.LDIF, TableForm.PARQUET, LoadingMode.SLAPADD): "9eb2f2a9520cb45e",
}


@pytest.mark.slow
@pytest.mark.parametrize("form", PINNED, ids="-".join)
def test_the_same_arguments_give_the_same_bytes(form, tmp_path):
    kind, tables, loader = form
    generate(PLAN, tmp_path / "one", kind, table_form=tables, loader=loader, faults=True)
    assert digest(tmp_path / "one") == PINNED[form]


def test_parquet_is_the_same_twice_and_holds_what_the_text_forms_hold(tmp_path):
    for name in ("one", "two"):
        generate(PLAN, tmp_path / name, SampleForm.MQIS)
    assert digest(tmp_path / "one") == digest(tmp_path / "two")
    generate(PLAN, tmp_path / "text", SampleForm.MQIS, table_form=TableForm.JSONL)
    for name in MQIS_TABLES:
        rows = pq.read_table(tmp_path / "one" / f"{name}.parquet").to_pylist()
        lines = (tmp_path / "text" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        assert [row.keys() for row in rows] == [json.loads(line).keys() for line in lines]
        key = MQIS_TABLES[name].key
        assert [row[key] for row in rows] == [json.loads(line)[key] for line in lines]


def test_another_seed_gives_another_enterprise(tmp_path):
    other = EnterprisePlan(sites=3, machines=12, queues=80, users=6, seed=2)
    for name, plan in (("one", PLAN), ("two", other)):
        generate(plan, tmp_path / name, SampleForm.LDIF)
    assert digest(tmp_path / "one") != digest(tmp_path / "two")


def test_faults_leave_the_sound_objects_alone(tmp_path):
    for name, faults in (("sound", False), ("faulty", True)):
        generate(PLAN, tmp_path / name, SampleForm.MQIS, faults=faults)
    for name in set(MQIS_TABLES) - {"Enterprise"}:
        sound, faulty = (pq.read_table(tmp_path / one / f"{name}.parquet") for one in ("sound", "faulty"))
        assert faulty.slice(0, sound.num_rows) == sound


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        generate(PLAN, tmp_path, SampleForm.MQIS)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    with pytest.raises(ConfigError, match=r"cannot write to .*: a file is there: name a folder"):
        generate(PLAN, tmp_path / "precious", SampleForm.MQIS)


def test_progress_is_reported_and_memory_is_not_needed(tmp_path):
    reported = []
    plan = EnterprisePlan(sites=1, machines=4, queues=6000, users=0, seed=1)
    written = generate(plan, tmp_path / "x", SampleForm.MQIS, report=reported.append)
    assert sum(written.objects.values()) - 500 < sum(reported) <= sum(written.objects.values())
    queues = pq.ParquetFile(tmp_path / "x" / "Queue.parquet")
    assert queues.metadata.num_row_groups == 2  # written piece by piece


# -- the truth about the defects


@pytest.mark.parametrize("form", EnterpriseForm)
def test_every_planted_object_has_one_defect(form, tmp_path):
    kind = SampleForm.MQIS if form is EnterpriseForm.MQIS else SampleForm.LDIF
    loader = LoadingMode.SLAPADD if form is EnterpriseForm.SLAPADD else LoadingMode.LDAPADD
    written = generate(PLAN, tmp_path / "x", kind, loader=loader, faults=True)
    lines = [json.loads(line) for line in (tmp_path / "x" / FAULTS_NAME).read_text().splitlines()]
    assert all(list(line) == ["rule", "type", "guid", "dn"] for line in lines)
    assert Counter(line["rule"] for line in lines) == written.faults
    objects = Counter((line["type"], line["guid"], line["dn"]) for line in lines if line["guid"])
    twice = {name for name, count in objects.items() if count > 1}
    shared = {"guid-unique", "queue-manager-cloned"}  # by their nature two objects with one GUID
    assert all(line["rule"] in shared for line in lines if (line["type"], line["guid"], line["dn"]) in twice)
    possible = {fault.rule for fault in FAULTS if form in fault.forms and not fault.whole}
    assert possible < set(written.faults)
    assert len(possible) >= 45
    whole = {fault.rule for fault in FAULTS if fault.whole}
    assert len(whole & set(written.faults)) == 1


def test_the_seed_decides_for_the_enterprises_defect():
    wholes = {fault.rule for fault in FAULTS if fault.whole}
    planted = set()
    for seed in range(len(wholes)):
        plan = EnterprisePlan(sites=1, machines=1, queues=0, users=0, seed=seed)
        planted |= {one.fault.rule for one in plant(plan, EnterpriseForm.MQIS, FAULTS)} & wholes
    assert planted == wholes


def test_more_objects_more_defects():
    small, large = (EnterprisePlan(sites=1, machines=1, queues=n, users=0, seed=1) for n in (10, 200_000))
    assert (count_copies(small), count_copies(large)) == (2, 6)
    assert count_copies(EnterprisePlan(sites=1, machines=1, queues=10**9, users=0, seed=1)) == 10


def test_every_fault_can_be_planted_somewhere():
    assert all(fault.forms for fault in FAULTS)
    assert {form for fault in FAULTS for form in fault.forms} == set(EnterpriseForm)
    assert any(fault.forms == MQIS for fault in FAULTS)
    assert any(fault.forms == LDIF for fault in FAULTS)


def test_defects_are_where_they_are_said_to_be(tmp_path):
    generate(PLAN, tmp_path / "x", SampleForm.MQIS, faults=True)
    lines = [json.loads(line) for line in (tmp_path / "x" / FAULTS_NAME).read_text().splitlines()]
    guids = {
        rule: {line["guid"] for line in lines if line["rule"] == rule} for rule in {x["rule"] for x in lines}
    }
    queues = pq.read_table(tmp_path / "x" / "Queue.parquet").to_pylist()

    def found(wrong):
        return {row["PROPID_Q_INSTANCE"] for row in queues if wrong(row)}

    assert found(lambda row: len(row["PROPID_Q_LABEL"]) > 124) == guids["queue-label-length"]
    assert found(lambda row: row["PROPID_Q_QUOTA"] >= 2**32) == guids["queue-quota-range"]
    assert found(lambda row: row["PROPID_Q_SECURITY"] is None) == guids["security-required"]
    assert found(lambda row: row["PROPID_Q_PRIV_LEVEL"] > 2) == guids["queue-privacy-level"]
    for name in ("PATHNAME", "CREATE_TIME", "MODIFY_TIME"):
        missing = guids[f"queue-{name.lower().replace('_', '-')}-required"]
        assert found(lambda row, column=f"PROPID_Q_{name}": row[column] is None) == missing
        queues = [row for row in queues if row["PROPID_Q_INSTANCE"] not in missing]
    assert (
        found(lambda row: row["PROPID_Q_CREATE_TIME"] > row["PROPID_Q_MODIFY_TIME"]) == guids["queue-times"]
    )
    assert found(lambda row: "private$" in row["PROPID_Q_PATHNAME"]) == guids["queue-public-only"]
    names = Counter(row["PROPID_Q_PATHNAME"].lower() for row in queues)
    assert found(lambda row: names[row["PROPID_Q_PATHNAME"].lower()] > 1) == guids["pathname-unique"]


def test_only_the_defects_share_a_guid(tmp_path):
    generate(PLAN, tmp_path / "x", SampleForm.MQIS, faults=True)
    lines = [json.loads(line) for line in (tmp_path / "x" / FAULTS_NAME).read_text().splitlines()]
    counts = Counter()
    for name, table in MQIS_TABLES.items():
        counts.update(pq.read_table(tmp_path / "x" / f"{name}.parquet")[table.key].to_pylist())
    shared = {line["guid"] for line in lines if line["rule"] in {"guid-unique", "queue-manager-cloned"}}
    assert {guid for guid, count in counts.items() if guid and count > 1} == shared


def test_columns_of_a_file_have_the_types_of_their_variants(tmp_path):
    generate(PLAN, tmp_path / "x", SampleForm.MQIS)
    schema = pq.read_schema(tmp_path / "x" / "Machine.parquet")
    assert schema.field("PROPID_QM_QUOTA").type == pa.int64()  # unsigned 32 bits
    assert schema.field("PROPID_QM_SITE_IDS").type == pa.list_(pa.string())
    assert schema.field("PROPID_QM_SECURITY").type == pa.binary()
