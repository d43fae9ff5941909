"""The table of properties against [MS-MQMQ] 2.3, status codes against 2.4."""

import pytest
from support.wire.vector_files import read_vectors

from mqdssm.model import hresults
from mqdssm.model.hresults import Hresult
from mqdssm.model.propids import (
    PROPIDS,
    ObjectType,
    Propid,
    Variant,
    object_type_of,
    propid,
)
from mqdssm.tables import TABLES

# without those of local management, which are in no directory
FACTS = [fact for fact in read_vectors("mqmq-variants.csv") if not fact["name"].startswith("PROPID_MGMT_")]


@pytest.mark.spec("MC-MQDSRP 2.2.1")
def test_every_property_is_there_once_as_the_specification_has_it():
    found = {
        ("PROPID_" + name, int(one), one.variant.value, one.section)
        for name, one in Propid.__members__.items()
        if one.name == name
    }
    assert found == {
        (f["name"], int(f["value"]), f["variant"], f"[{f['section'].replace(' ', '] ')}") for f in FACTS
    }
    assert len(PROPIDS) == len(set(Propid)) == len(FACTS)


@pytest.mark.spec("MC-MQDSRP 3.1.1.4")
@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["name"])
def test_object_types(fact):
    expected = None if fact["object"] == "none" else ObjectType(int(fact["object"]))
    one = Propid[fact["name"].removeprefix("PROPID_")]
    assert object_type_of(one) is expected
    assert one.object_type is expected
    assert propid(fact["name"].lower()) is propid(one.name) is one
    assert one.spec_name == fact["name"]


@pytest.mark.spec("MC-MQDSRP 3.1.1.4")
@pytest.mark.parametrize("number", [0, 1, 99, 900, 999, 1000, 1099, 1900, 5101, -101, 2**32 - 1])
def test_numbers_of_no_type(number):
    assert object_type_of(number) is None


def test_numbers_within_a_type_need_no_property():
    assert object_type_of(199) is object_type_of(1199) is ObjectType.QUEUE


def test_names_that_nothing_defines_mean_what_the_events_need():
    assert propid("PROPID_S_ID") is Propid.S_SITEID
    assert (Propid.Q_ID, Propid.QM_ID, Propid.CN_ID) == (
        Propid.Q_INSTANCE,
        Propid.QM_MACHINE_ID,
        Propid.CN_GUID,
    )
    with pytest.raises(ValueError, match="'PROPID_Q_NONE' is no property"):
        propid("PROPID_Q_NONE")


def test_the_mapping_table_knows_no_other_number():
    numbers = {row.propid for table in TABLES.values() for row in table.rows if row.propid is not None}
    assert numbers <= PROPIDS.keys()


def test_object_types_have_the_specifications_names():
    assert {one.spec_name for one in ObjectType} >= {"MQDS_QUEUE", "MQDS_ROUTINGLINK", "MQDS_DELETEDOBJECT"}
    assert Variant("VT_VECTOR|VT_CLSID") is Variant.CLSIDS


def test_status_codes():
    known = {(fact["name"], int(fact["value"], 16)) for fact in read_vectors("mqmq-hresults.csv")}
    ours = {(name, int(one)) for name, one in Hresult.__members__.items()}
    assert ours - known == {("MQDS_NO_RSP_FROM_OWNER", 0xC00E0049), ("MQDS_OWNER_NOT_REACHED", 0xC00E004A)}
    assert known <= ours
    assert hresults.is_failure(Hresult.MQ_ERROR_QUEUE_EXISTS)
    assert not hresults.is_failure(Hresult.MQ_INFORMATION_PROPERTY)
    assert hresults.name_of(0xC00E0003) == "MQ_ERROR_QUEUE_NOT_FOUND"
    assert hresults.name_of(0x80070005) == "0x80070005"
