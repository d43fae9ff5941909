"""Rows of MQIS as elements: roles, gates, columns that say the same twice, and what is refused."""

from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdssm.model.enums import DirectoryServerType
from mqdssm.pipeline.migrate import shared_lookups
from mqdssm.pipeline.migrate.rows import Reason, is_carried, key_of, read_row
from mqdssm.pipeline.migrate.staging import SOURCE_NAME, STAGED
from mqdssm.pipeline.mqis.folder import ROW
from mqdssm.tables.mqis import MACHINE, MQIS_TABLES, QUEUE, ROUTING_LINK, SITE, USER

GUID = "01234567-89ab-cdef-0123-456789abcdef"
PARIS, OSLO, WEB = (UUID(int=number) for number in (1, 2, 3))


def read(table, problems=None, *, keeps_create_time=True, gates=None, **cells):
    named = {f"PROPID_{name}": value for name, value in cells.items()}
    return read_row(table, named, problems or {}, keeps_create_time=keeps_create_time, gates=gates)


def machine(**cells):
    return read(MACHINE, QM_MACHINE_ID=GUID, QM_PATHNAME="web01", **cells)


@pytest.mark.parametrize(
    ("cells", "roles"),
    [
        ({"QM_SERVICE": "0"}, (False, False, None)),
        ({"QM_SERVICE": "1"}, (True, False, None)),
        ({"QM_SERVICE": "4"}, (False, True, DirectoryServerType.PRIMARY_SITE_CONTROLLER)),
        ({"QM_SERVICE": "9"}, (True, True, DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER)),
        ({"QM_SERVICE": "8", "QM_SERVICE_DSSERVER": "0"}, (False, False, None)),
        ({"QM_SERVICE": "0", "QM_SERVICE_DSSERVER": "1"}, (False, True, DirectoryServerType.STANDALONE)),
        ({"QM_SERVICE": "0", "QM_SERVICE_ROUTING": "1"}, (True, False, None)),
    ],
)
def test_roles_of_the_service_and_of_columns_of_their_own(cells, roles):
    element = machine(**cells).element
    assert (element.routing_server, element.directory_server, element.directory_server_type) == roles


@pytest.mark.parametrize(
    ("cells", "is_lost"),
    [
        ({"QM_SERVICE": "8", "QM_SERVICE_DSSERVER": "0"}, True),
        ({"QM_SERVICE": "12"}, True),  # two roles: the higher one counts
        ({"QM_SERVICE": "32"}, True),
        ({"QM_SERVICE": "17"}, False),
        ({"QM_SERVICE": "4", "QM_SERVICE_DSSERVER": "1"}, False),
    ],
)
def test_bits_that_the_directory_will_not_have_are_counted(cells, is_lost):
    assert ("PROPID_QM_SERVICE" in machine(**cells).lost) == is_lost


def test_two_columns_for_one_attribute():
    same = machine(QM_SITE_ID=str(PARIS), QM_SITE_IDS=f'["{PARIS}", "{OSLO}"]')
    assert (same.element.site_identifier_list, same.lost) == ((PARIS, OSLO), {})
    other = machine(QM_SITE_ID=str(WEB), QM_SITE_IDS=f'["{PARIS}"]')
    assert (other.element.site_identifier_list, other.lost) == ((PARIS,), {"PROPID_QM_SITE_ID": str(WEB)})
    assert machine(QM_SITE_ID=str(WEB)).element.site_identifier_list == (WEB,)
    link = read(
        ROUTING_LINK,
        L_ID=GUID,
        L_NEIGHBOR1=str(PARIS),
        L_NEIGHBOR2=str(OSLO),
        L_COST="7",
        L_ACTUAL_COST="9",
    )
    assert (link.element.actual_cost, link.lost) == (9, {"PROPID_L_COST": "7"})


def test_gates_of_sites_go_to_links_that_name_none():
    ends = {"L_ID": GUID, "L_NEIGHBOR1": str(PARIS), "L_NEIGHBOR2": str(OSLO), "L_COST": "7"}
    gates = {PARIS: (WEB, OSLO), OSLO: (WEB,)}
    assert read(ROUTING_LINK, gates=gates, **ends).element.site_gate_identifier_list == (WEB, OSLO)
    none = read(ROUTING_LINK, gates=gates, L_GATES="[]", **ends)  # a list without gates names none
    assert none.element.site_gate_identifier_list == (WEB, OSLO)
    own = read(ROUTING_LINK, gates=gates, L_GATES=f'["{GUID}"]', **ends)
    assert own.element.site_gate_identifier_list == (UUID(GUID),)
    site = read(SITE, S_SITEID=GUID, S_PATHNAME="Paris", S_GATES=f'["{WEB}"]')
    assert site.lost == {}
    assert read(SITE, S_SITEID=GUID, S_PATHNAME="Paris", S_GATES="x").reasons[0].attribute == "PROPID_S_GATES"


def test_when_an_object_was_made_is_kept_where_the_server_lets_us():
    cells = {"Q_INSTANCE": GUID, "Q_PATHNAME": "web01\\q", "Q_CREATE_TIME": "7", "Q_MODIFY_TIME": "8"}
    kept = read(QUEUE, **cells)
    assert (kept.element.create_time, set(kept.lost)) == (7, {"PROPID_Q_MODIFY_TIME"})
    lost = read(QUEUE, keeps_create_time=False, **cells)
    assert set(lost.lost) == {"PROPID_Q_CREATE_TIME", "PROPID_Q_MODIFY_TIME"}
    assert not lost.element.is_populated("CreateTime")


def test_every_reason_is_told():
    found = read(QUEUE, Q_QUOTA="x", Q_TYPE="y", Q_PATHNAME="web01\\q")
    assert found.element is None
    assert {one.attribute for one in found.reasons} == {
        "PROPID_Q_QUOTA",
        "PROPID_Q_TYPE",
        "PROPID_Q_INSTANCE",
    }
    whole = read(QUEUE, {ROW: "no JSON"}, Q_INSTANCE=GUID)
    assert whole.reasons == [Reason(ROW, "no JSON")]
    bad = read(
        QUEUE, {"PROPID_Q_LABEL": "its bytes are no text"}, Q_INSTANCE=GUID, Q_PATHNAME="a\\b", Q_LABEL="ff"
    )
    assert bad.reasons == [Reason("PROPID_Q_LABEL", "its bytes are no text")]
    path = read(QUEUE, Q_INSTANCE=GUID, Q_PATHNAME="nothing")
    assert path.reasons == [
        Reason("PROPID_Q_PATHNAME", "'nothing' is no path name: computer\\queue is expected")
    ]


def test_keys():
    queue = key_of(QUEUE, {"PROPID_Q_INSTANCE": GUID, "PROPID_Q_PATHNAME": "\\\\WEB01\\Orders"})
    assert (queue.guid, queue.name, queue.computer) == (UUID(GUID), "web01\\orders", "WEB01")
    assert key_of(QUEUE, {"PROPID_Q_INSTANCE": "x", "PROPID_Q_PATHNAME": "a\\private$\\b"}).name is None
    ends = {"PROPID_L_NEIGHBOR1": str(OSLO), "PROPID_L_NEIGHBOR2": str(PARIS)}
    assert key_of(ROUTING_LINK, ends).name == f"{PARIS}-{OSLO}"
    assert key_of(USER, {"PROPID_U_SID": "AAAA"}).name is None


def test_what_a_directory_keeps():
    lost = {
        column.name
        for table in MQIS_TABLES.values()
        for column in table.columns
        if column.row is not None and not is_carried(column)
    }
    assert lost == {
        "PROPID_E_NAME",
        "PROPID_S_FULL_NAME",
        "PROPID_L_FULL_PATH",
        "PROPID_QM_MODIFY_TIME",
        "PROPID_QM_FULL_PATH",
        "PROPID_QM_PATHNAME_DNS",
        "PROPID_QM_GROUP_IN_CLUSTER",
        "PROPID_Q_MODIFY_TIME",
        "PROPID_Q_FULL_PATH",
        "PROPID_Q_PATHNAME_DNS",
        "PROPID_Q_ADS_PATH",
    }


def test_duplicates_are_found_in_shares_that_bound_memory(tmp_path, monkeypatch):
    """Some rows share a GUID, some a name in another case, one both, and some have neither."""
    for table, count in (("Site", 40), ("Queue", 400)):
        folder = tmp_path / SOURCE_NAME / table
        folder.mkdir(parents=True)
        guids = [None if n % 97 == 96 else UUID(int=n - (n % 50 == 49)).bytes_le for n in range(count)]
        names = [None if n % 97 == 96 else f"{'QA'[n % 2]}{n - (n % 70 == 69) * 2}" for n in range(count)]
        names[1:3] = ["same", "SAME"]
        rows = [{"guid": guid, "name": name} for guid, name in zip(guids, names, strict=True)]
        for start in range(0, count, 100):
            part = pa.Table.from_pylist(rows[start : start + 100], STAGED)
            pq.write_table(part, folder / f"part-{start:05d}.parquet")
    real, held = shared_lookups._group_rows, []

    def groups(keys, by):
        held.append(keys.num_rows)
        return real(keys, by)

    monkeypatch.setattr(shared_lookups, "_group_rows", groups)
    whole = shared_lookups.find_duplicates(tmp_path, str.lower)
    assert len(held) == 2
    assert whole["Queue", 2] == "the same GUID as Site row 2; the same path name as Queue row 3"
    assert whole["Queue", 70] == "the same path name as Queue row 68"
    monkeypatch.setattr(shared_lookups, "KEYS_HELD_MAX", 44)
    assert shared_lookups.find_duplicates(tmp_path, str.lower) == whole
    assert len(held) == 2 + 2 * 10
    assert sum(held[2:]) == sum(held[:2])
    assert max(held[2:]) < 100
