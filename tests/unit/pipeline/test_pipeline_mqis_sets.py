"""MQIS tables as sets of objects: equal to what they hold, whatever the form; bad cells are reported."""

import base64
import json
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.mqis.tables import read_rows, read_sets, write_jsonl
from support.spark.element_batches import batches, columns_of

from mqdssm.errors import ConfigError
from mqdssm.pipeline.frames.columns import TYPES
from mqdssm.samples import elements
from mqdssm.samples.forms import SampleForm, TableForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.samples.queues import Queues
from mqdssm.wire.sid import Sid

PLAN = EnterprisePlan(sites=4, machines=30, queues=400, users=12, seed=3)
OBJECTS = {
    "enterprise": [elements.make_enterprise(PLAN)],
    "site": [elements.make_site(PLAN, number) for number in range(4)],
    "routing-link": [elements.make_link(PLAN, *ends) for ends in PLAN.list_links()],
    "queue-manager": [elements.make_machine(PLAN, number).manager for number in range(30)],
    "queue": [queue for number in range(30) for queue in Queues(PLAN, number)],
    "user": [elements.make_user(PLAN, number) for number in range(12)],
}
ABSENT = {
    "enterprise": {"NonLDAPCapableQueueManagerNotification"},
    "site": {"FullPath"},
    "routing-link": {"FullPath"},
    "queue-manager": {"Clustered", "FullPath", "OperatingSystemVersion", "QualifiedComputerName"},
    "queue": {"DirectoryPath", "FullPath", "QualifiedPathname"},
    "user": {"FullPath"},
}
BESIDE = {"mSMQServiceType", "Unreadable"}
GUID = "01234567-89ab-cdef-0123-456789abcdef"
OTHER = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize("form", TableForm)
def test_sets_hold_the_objects_that_were_written(tmp_path, form):
    generate(PLAN, tmp_path / "x", SampleForm.MQIS, table_form=form)
    sets = read_sets(tmp_path / "x")
    assert sets.keys() == OBJECTS.keys()
    for name, table in sets.items():
        columns = columns_of(TYPES[name])
        assert {column.name for column in columns} - set(table.column_names) == ABSENT[name]
        assert table.column_names[-1] == "Unreadable"
        if name == "queue-manager":
            bits = [service_type(row) for row in table.to_pylist()]
            assert table["mSMQServiceType"].to_pylist() == bits
            assert len(set(bits)) > 1
        got = table.select([one for one in table.column_names if one not in BESIDE])
        present = [column for column in columns if column.name in got.column_names]
        assert [column.name for column in present] == got.column_names
        wanted = pa.Table.from_batches(batches(OBJECTS[name], present))
        assert got.schema.types == wanted.schema.types
        found = sorted(got.to_pylist(), key=lambda row: row["Identifier"])
        if name == "queue":  # MSMQ 1.0 wrote computers in upper case
            assert any(row["Pathname"].partition("\\")[0].isupper() for row in found)
            found = [row | {"Pathname": row["Pathname"].lower()} for row in found]
        assert found == sorted(wanted.to_pylist(), key=lambda row: row["Identifier"])
        assert table["Unreadable"].null_count == table.num_rows


def service_type(row):
    """The stored roles, as [MS-MQDSSM] 3.1.6.1.1.5 computes them."""
    types = {"BackupSiteController": 2, "PrimarySiteController": 4, "PrimaryEnterpriseController": 8}
    roles = row["RoutingServer"] + 16 * row["RemoteAccessServer"]
    return roles + types.get(row["DirectoryServerType"], 0)


def only(rows):
    (row,) = rows
    return row


BAD_CELLS = {
    "PROPID_Q_TYPE": ("{" + GUID, "Type"),
    "PROPID_Q_JOURNAL": (7, "Journaling"),
    "PROPID_Q_QUOTA": ("1e3", "Quota"),
    "PROPID_Q_CREATE_TIME": (-99_999_999_999, "CreateTime"),
    "PROPID_Q_SECURITY": ("AAA", "Security"),
    "PROPID_Q_BASEPRIORITY": ("", "BasePriority"),
}


def test_cells_that_cannot_be_read_are_null_and_listed(tmp_path):
    bad = {column: value for column, (value, _) in BAD_CELLS.items()}
    row = {"PROPID_Q_INSTANCE": GUID, "PROPID_Q_LABEL": "fine", **bad}
    write_jsonl(tmp_path / "x", "queue.jsonl", row)
    found = only(read_rows(tmp_path / "x", "queue"))
    assert {one.partition(":")[0] for one in found["Unreadable"]} == {adm for _, adm in BAD_CELLS.values()}
    assert all(found[adm] is None for _, adm in BAD_CELLS.values())
    assert found["Label"] == "fine"
    assert "Journaling: 7 is no 0 or 1 (PROPID_Q_JOURNAL)" in found["Unreadable"]
    assert "Quota: 1e3 is no VT_UI4 (PROPID_Q_QUOTA)" in found["Unreadable"]


def test_numbers_out_of_range_stay_for_the_rules_that_name_them(tmp_path):
    row = {
        "PROPID_Q_INSTANCE": GUID,
        "PROPID_Q_QUOTA": 5_000_000_000,
        "PROPID_Q_JOURNAL_QUOTA": -1,  # a signed column of a database
        "PROPID_Q_PRIV_LEVEL": 7,
        "PROPID_Q_BASEPRIORITY": 40_000,
    }
    write_jsonl(tmp_path / "x", "Queue.jsonl", row)
    found = only(read_rows(tmp_path / "x", "queue"))
    assert found["Unreadable"] is None
    assert (found["Quota"], found["JournalQuota"]) == (5_000_000_000, 2**32 - 1)
    assert (found["PrivacyLevel"], found["BasePriority"]) == ("7", 40_000)


def test_guids_and_lists_in_all_their_forms(tmp_path):
    machine = {
        "PROPID_QM_MACHINE_ID": "{" + GUID.upper() + "}",
        "PROPID_QM_SITE_ID": OTHER,
        "PROPID_QM_OUTFRS": json.dumps([GUID, OTHER]),  # a text that holds a list
        "PROPID_QM_INFRS": [GUID, "nonsense"],
    }
    write_jsonl(tmp_path / "x", "Machine.jsonl", machine)
    found = only(read_rows(tmp_path / "x", "queue-manager"))
    assert found["Identifier"] == GUID
    assert found["SiteIdentifierList"] == [OTHER]
    assert found["OutRoutingServerIdentifierList"] == [GUID, OTHER]
    assert found["InRoutingServerIdentifierList"] is None
    assert [one.partition(":")[0] for one in found["Unreadable"]] == ["InRoutingServerIdentifierList"]


def test_parquet_may_hold_guids_as_octets(tmp_path):
    (tmp_path / "x").mkdir()
    table = pa.table({"PROPID_Q_INSTANCE": [UUID(GUID).bytes_le, b"short"], "PROPID_Q_LABEL": ["a", "b"]})
    pq.write_table(table, tmp_path / "x" / "Queue.parquet")
    rows = {row["Label"]: row for row in read_rows(tmp_path / "x", "queue")}
    assert rows["a"]["Identifier"] == GUID
    assert rows["b"]["Identifier"] is None
    assert rows["b"]["Unreadable"] == ["Identifier: 73686f7274 is no VT_CLSID (PROPID_Q_INSTANCE)"]


SIDS = ["S-1-1-0", "S-1-5-21-4294967295-0-7-500", "S-1-0", "S-1-0x123456789ABC-1", f"S-1-5{'-7' * 15}"]


def test_sids_are_written_as_their_text(tmp_path):
    images = {sid: bytes(Sid(sid)) for sid in SIDS}
    wrong = [
        b"",
        b"\x01",
        images["S-1-1-0"] + b"\0",
        b"\x02" + images["S-1-1-0"][1:],
        b"\x01\x10" + bytes(70),
    ]
    rows = [
        {"PROPID_U_ID": str(UUID(int=number + 1)), "PROPID_U_SID": base64.b64encode(image).decode()}
        for number, image in enumerate([*images.values(), *wrong])
    ]
    write_jsonl(tmp_path / "x", "User.jsonl", *rows)
    found = read_rows(tmp_path / "x", "user")
    assert [row["SecurityIdentifier"] for row in found] == [*SIDS, *[None] * len(wrong)]
    assert [row["Unreadable"] is None for row in found] == [True] * len(SIDS) + [False] * len(wrong)


def test_service_bits_are_the_roles(tmp_path):
    rows = [
        {"PROPID_QM_MACHINE_ID": str(UUID(int=bits + 1)), "PROPID_QM_SERVICE": bits}
        for bits in (0, 1, 2, 5, 8, 16)
    ]
    write_jsonl(tmp_path / "x", "Machine.jsonl", *rows)
    found = read_rows(tmp_path / "x", "queue-manager")
    names = ("RoutingServer", "DirectoryServer", "DirectoryServerType", "RemoteAccessServer")
    assert [row["mSMQServiceType"] for row in found] == [0, 1, 2, 5, 8, 16]
    assert [tuple(row[name] for name in names) for row in found] == [
        (False, False, None, False),
        (True, False, None, False),
        (False, True, "BackupSiteController", False),
        (True, True, "PrimarySiteController", False),
        (False, True, "PrimaryEnterpriseController", False),
        (False, False, None, True),
    ]


def test_gates_of_a_site_go_to_its_links(tmp_path):
    one, two, gate, other = (str(UUID(int=number)) for number in (1, 2, 3, 4))
    sites = [
        {"PROPID_S_SITEID": one, "PROPID_S_GATES": [gate]},
        {"PROPID_S_SITEID": two, "PROPID_S_GATES": [other]},
    ]
    write_jsonl(tmp_path / "x", "Site.jsonl", *sites)
    link = {"PROPID_L_NEIGHBOR1": one, "PROPID_L_NEIGHBOR2": two, "PROPID_L_COST": 3}
    links = [
        {"PROPID_L_ID": str(UUID(int=5)), **link},
        {"PROPID_L_ID": str(UUID(int=6)), **link, "PROPID_L_NEIGHBOR2": GUID},
        {"PROPID_L_ID": str(UUID(int=7)), **link, "PROPID_L_GATES": [GUID], "PROPID_L_ACTUAL_COST": 9},
    ]
    write_jsonl(tmp_path / "x", "RoutingLink.jsonl", *links)
    found = read_rows(tmp_path / "x", "routing-link")
    assert [row["SiteGateIdentifierList"] for row in found] == [[gate, other], [gate], [GUID]]
    assert [row["ActualCost"] for row in found] == [3, 3, 9]


def test_lines_that_cannot_be_taken_apart_are_listed(tmp_path):
    (tmp_path / "x").mkdir()
    file = tmp_path / "x" / "Queue.jsonl"
    file.write_text(json.dumps({"PROPID_Q_INSTANCE": GUID}) + "\n{broken\n")
    rows = read_rows(tmp_path / "x", "queue")
    ((words,),) = [row["Unreadable"] for row in rows if row["Identifier"] is None]
    assert words.startswith("row: it cannot be taken apart: no JSON: ")


def test_texts_keep_quotes_line_ends_and_emptiness_in_csv(tmp_path):
    (tmp_path / "x").mkdir()
    lines = [
        "PROPID_Q_INSTANCE,PROPID_Q_LABEL",
        f'{GUID},"a ""b"", c\nd\\"',
        f'{OTHER},""',
        f"{UUID(int=9)},",
    ]
    (tmp_path / "x" / "QUEUE.csv").write_text("\n".join(lines) + "\n")
    found = {r["Identifier"]: r["Label"] for r in read_rows(tmp_path / "x", "queue")}
    assert found == {GUID: 'a "b", c\nd\\', OTHER: "", str(UUID(int=9)): None}


def test_parts_in_a_folder_are_one_table(tmp_path):
    for number in range(3):
        (tmp_path / "x" / "Queue").mkdir(parents=True, exist_ok=True)
        row = {"PROPID_Q_INSTANCE": str(UUID(int=number + 1)), "propid_q_label": f"part {number}"}
        write_jsonl(tmp_path / "x" / "Queue", f"part-{number}.jsonl", row)
    (tmp_path / "x" / "Queue" / "_SUCCESS").write_text("")
    found = read_rows(tmp_path / "x", "queue")
    assert [row["Label"] for row in found] == ["part 0", "part 1", "part 2"]


def test_a_table_without_rows_has_its_columns(tmp_path):
    """Parquet files of such a table may have no row group at all."""
    schema = pa.schema([("PROPID_L_ID", pa.string()), ("PROPID_L_COST", pa.int64())])
    with pq.ParquetWriter(tmp_path / "RoutingLink.parquet", schema):
        pass
    table = read_sets(tmp_path)["routing-link"]
    assert table.num_rows == 0
    assert {"Identifier", "ActualCost"} <= set(table.column_names)


def test_a_key_that_comes_late_is_not_lost(tmp_path):
    rows = [{"PROPID_Q_INSTANCE": str(UUID(int=number + 1))} for number in range(2000)]
    rows[-1]["PROPID_Q_LABEL"] = "late"
    write_jsonl(tmp_path / "x", "Queue.jsonl", *rows)
    assert [row["Label"] for row in read_rows(tmp_path / "x", "queue")].count("late") == 1


def test_columns_that_mqis_does_not_know(tmp_path, caplog):
    write_jsonl(tmp_path / "x", "Queue.jsonl", {"PROPID_Q_INSTANCE": GUID, "id": 1})
    assert "Label" not in read_sets(tmp_path / "x")["queue"].column_names
    assert "columns of Queue that MQIS does not have are left out: id" in caplog.text
    write_jsonl(tmp_path / "y", "Queue.jsonl", {"PROPID_Q_INSTANCE": GUID, "PROPID_Q_LABLE": "x"})
    with pytest.raises(
        ConfigError, match="PROPID_Q_LABLE, which table Queue has not: did you mean PROPID_Q_LABEL"
    ):
        read_sets(tmp_path / "y")
    write_jsonl(tmp_path / "z", "Queue.jsonl", {"PROPID_Q_LABEL": "x"})
    with pytest.raises(ConfigError, match="has no column PROPID_Q_INSTANCE, which holds the GUIDs"):
        read_sets(tmp_path / "z")


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "Queue.parquet").write_bytes(b"PAR1 is not all of it")
    with pytest.raises(ConfigError, match=r"Queue\.parquet cannot be read as parquet"):
        read_sets(tmp_path)
