"""The columns of the MQIS tables against the property tables of [MS-MQMQ] 2.3."""

import pytest
from support.wire.vector_files import read_vectors

from mqdssm.model.propids import INTEGERS, Variant
from mqdssm.tables import TABLES
from mqdssm.tables.mqis import MQIS_TABLES

NUMBERS = {
    "Queue": (101, 126, 1101, 1103),
    "Machine": (201, 243, 1201, 1205),
    "Site": (301, 312, 1301, 1303),
    "ConnectedNetwork": (501, 505, 1501, 1501),
    "Enterprise": (601, 618, 1601, 1601),
    "User": (701, 706, 701, 706),
    "RoutingLink": (801, 813, 801, 813),
    "Deleted": (1401, 1405, 1401, 1405),
}
ELEMENTS = {"QueueManager": "Machine", "DeletedObject": "Deleted"}


def test_columns_are_the_properties():
    ours = {
        (column.name, column.propid, column.section.strip("[]").replace("] ", " "))
        for table in MQIS_TABLES.values()
        for column in table.columns
    }
    known = {(line["name"], int(line["value"]), line["section"]) for line in read_vectors("mqmq-propids.csv")}
    assert known - ours == set()
    # what the vectors leave out has no attribute in any model
    extra = {name for name, *_ in ours - known}
    carried = {c.name for t in MQIS_TABLES.values() for c in t.columns if c.row is not None}
    assert not extra & carried


@pytest.mark.parametrize("name", MQIS_TABLES)
def test_numbers_are_in_the_ranges_of_their_type(name):
    low, high, private_low, private_high = NUMBERS[name]
    for column in MQIS_TABLES[name].columns:
        assert low <= column.propid <= high or private_low <= column.propid <= private_high
    assert len({column.propid for column in MQIS_TABLES[name].columns}) == len(MQIS_TABLES[name].columns)
    assert MQIS_TABLES[name].column(MQIS_TABLES[name].key).variant is Variant.CLSID


def test_columns_hold_the_attributes_that_the_properties_stand_for():
    named = {line["name"]: line["attribute"] for line in read_vectors("mqmq-propids.csv")}
    other = {"PROPID_QM_SITE_ID": "SiteIdentifierList", "PROPID_L_COST": "ActualCost"}
    other |= {"PROPID_QM_SIGN_PK": "PublicSigningKeyList", "PROPID_QM_ENCRYPT_PK": "PublicEncryptionKeyList"}
    for table in MQIS_TABLES.values():
        for column in table.columns:
            if column.row is None or column.bits:
                continue
            assert column.adm == other.get(column.name, named.get(column.name)), column.name
            assert column.row in TABLES[table.element].rows


def test_attributes_that_a_directory_keeps_have_a_column():
    without = {
        "QueueManager": {"RemoteAccessServer", "OperatingSystemVersion", "DirectoryServerType"},
        "Enterprise": {"NonLDAPCapableQueueManagerNotification"},
        "User": {"FullPath"},
    }
    for table in MQIS_TABLES.values():
        if table.element is not None:
            held = {row.adm for row in TABLES[table.element].rows if table.list_holding(row.adm)}
            missing = {row.adm for row in TABLES[table.element].rows} - held
            assert missing == without.get(table.element.element_name, set())


def test_the_propertys_own_column_comes_first():
    machine = MQIS_TABLES["Machine"]
    assert [c.name for c in machine.list_holding("SiteIdentifierList")] == [
        "PROPID_QM_SITE_IDS",
        "PROPID_QM_SITE_ID",
    ]
    cost = MQIS_TABLES["RoutingLink"].list_holding("ActualCost")
    assert [c.name for c in cost] == ["PROPID_L_ACTUAL_COST", "PROPID_L_COST"]


def test_columns_are_found_in_any_case():
    assert MQIS_TABLES["Queue"].column("propid_q_label").propid == 108
    with pytest.raises(ValueError, match="Queue of MQIS has no column 'PROPID_Q_LABLE'"):
        MQIS_TABLES["Queue"].column("PROPID_Q_LABLE")


def test_integers_have_the_limits_of_their_size():
    assert INTEGERS[Variant.UI4] == (0, 4_294_967_295)
    assert INTEGERS[Variant.I2] == (-32_768, 32_767)
