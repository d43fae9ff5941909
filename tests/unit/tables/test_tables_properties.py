"""Properties of MQIS in entries: what stands where, and what is refused."""

from dataclasses import replace

import pytest
from support.store.stored_properties import properties_of

from mqdssm.errors import MappingError
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.tables import ldif, numbering, schema_mqis
from mqdssm.tables.numbering import Numbering
from mqdssm.tables.properties import (
    EXACT,
    PROPERTY_TABLES,
    attributes_of,
    changes_of,
    entry_of,
    identity_of,
    references_of,
)
from mqdssm.tables.property_rows import CHANGED, RESERVED, make_queue_rdn
from mqdssm.tables.schema_compare import compare_replication

GUID = Guid(bytes(range(16)))
OTHER = Guid(bytes(16 * [7]))
QUEUE, MACHINE = ObjectType.QUEUE, ObjectType.MACHINE


def test_what_the_adapter_keeps_exactly_is_kept_once():
    values = {Propid.Q_LABEL: "Orders", Propid.Q_JOURNAL: 1, Propid.Q_QUOTA: 0xFFFF_FFFF}
    assert entry_of(QUEUE, values.items()) == {
        "mSMQLabelEx": (b"Orders",),
        "mSMQJournal": (b"TRUE",),
        "mSMQQueueQuota": (b"-1",),
    }


@pytest.mark.parametrize(
    ("propid", "value", "shown", "octets"),
    [
        (Propid.Q_JOURNAL, 7, {"mSMQJournal": (b"FALSE",)}, "00000068 07"),
        (Propid.Q_LABEL, "", {}, "0000006c 0000"),
        (Propid.Q_PRIV_LEVEL, 9, {}, "00000070 09000000"),
        (Propid.Q_SECURITY, b"\1", {}, "0000044d 01000000 01"),
        (Propid.Q_FULL_PATH, "CN=q", {}, "00000079 43004e003d0071000000"),
    ],
)
def test_what_it_cannot_give_back_stands_besides(propid, value, shown, octets):
    """Decision R27."""
    entry = entry_of(QUEUE, [(propid, value)])
    assert entry == {**shown, EXACT: (bytes.fromhex(octets),)}
    assert properties_of(QUEUE, entry) == {propid: value}


def test_signing_keys_are_on_the_queue_managers_own_entry():
    """Decision R29."""
    assert entry_of(MACHINE, [(Propid.QM_SIGN_PK, b"keys")]) == {"mSMQSignKey": (b"keys",)}


@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
def test_the_cost_is_the_one_that_is_stored():
    entry = entry_of(ObjectType.ROUTING_LINK, [(Propid.L_COST, 1_000_002)])
    assert entry == {"mSMQCost": (b"1000002",)}
    assert properties_of(ObjectType.ROUTING_LINK, entry) == {Propid.L_COST: 1_000_002}


def test_services_are_shown_as_roles():
    entry = entry_of(MACHINE, [(Propid.QM_SERVICE, 0x8)])
    assert entry["mSMQRoutingServices"] == (b"FALSE",)
    assert entry["mSMQDsServices"] == (b"TRUE",)
    assert properties_of(MACHINE, entry) == {Propid.QM_SERVICE: 0x8}


def test_numbers_and_other_types_are_not_stored():
    values = {Propid.Q_SEQNUM: bytes(8), Propid.Q_PARTITIONID: OTHER, Propid.QM_QUOTA: 1, Propid.Q_SCOPE: 0}
    assert entry_of(QUEUE, values.items()) == {"mqisScope": (b"0",)}
    numbers = Numbering(GUID, SequenceNumber(0x1_02))
    entry = entry_of(QUEUE, values.items(), numbers)
    assert entry == {"mqisScope": (b"0",), **numbers.values()}
    assert entry[numbering.BUCKET] == (GUID + bytes((0, 0, 0, 0, 0, 0, 0, 1)),)
    found = properties_of(QUEUE, entry)
    assert found == {
        Propid.Q_SCOPE: 0,
        Propid.Q_PARTITIONID: GUID,
        Propid.Q_SEQNUM: bytes((0, 0, 0, 0, 0, 0, 1, 2)),
    }


def test_entries_in_lower_case_are_read_too():
    entry = {name.lower(): raws for name, raws in entry_of(QUEUE, [(Propid.Q_LABEL, "")]).items()}
    assert properties_of(QUEUE, entry) == {Propid.Q_LABEL: ""}


@pytest.mark.parametrize(
    ("propid", "value"),
    [(Propid.Q_JOURNAL, 256), (Propid.Q_QUOTA, -1), (Propid.Q_LABEL, b"x"), (Propid.Q_TYPE, b"x")],
)
def test_values_of_another_variant_are_refused(propid, value):
    with pytest.raises(MappingError, match=propid.spec_name):
        entry_of(QUEUE, [(propid, value)])


@pytest.mark.parametrize(
    "entry",
    [
        {"mSMQInterval1": (b"70000",)},  # a number that the adapter takes and VT_UI2 does not
        {"mSMQInterval1": (b"x",)},
        {"mqisPscName": (b"\xff",)},
        {EXACT: (b"\0\0\0\0x",)},
        {EXACT: (b"\0\0\1\x31",)},  # PROPID_S_INTERVAL1 without a value
        {"mqisSiteGates": (b"short",)},
        {numbering.PARTITION: (b"x",), numbering.NUMBER: (b"1",)},
        {numbering.NUMBER: (b"18446744073709551616",)},
    ],
)
def test_entries_that_hold_something_else_are_refused(entry):
    with pytest.raises(MappingError):
        properties_of(ObjectType.SITE, entry)


@pytest.mark.parametrize("entry", [{numbering.NUMBER: (b"1",)}, {numbering.PARTITION: (bytes(16),)}])
def test_half_a_numbering_is_refused(entry):
    with pytest.raises(MappingError):
        numbering.numbering_of(entry)


def test_an_object_keeps_its_guid():
    entry = entry_of(QUEUE, [(Propid.Q_INSTANCE, GUID)])
    assert identity_of(QUEUE, entry) == GUID
    assert changes_of(QUEUE, entry, [(Propid.Q_INSTANCE, GUID), (Propid.Q_SCOPE, 1)]) == {
        "mqisScope": (b"1",)
    }
    with pytest.raises(MappingError, match="keeps its GUID"):
        changes_of(QUEUE, entry, [(Propid.Q_INSTANCE, OTHER)])


def test_users_and_tombstones_have_guids_of_their_own():
    """Decision R28."""
    assert entry_of(ObjectType.USER, [(Propid.U_ID, GUID)]) == {"mqisUserID": (GUID,)}
    assert entry_of(ObjectType.DELETED_OBJECT, [(Propid.D_IDENTIFIER, GUID)]) == {"mqisDeletedID": (GUID,)}


def test_an_update_deletes_octets_that_are_over():
    entry = entry_of(QUEUE, [(Propid.Q_LABEL, ""), (Propid.Q_JOURNAL, 7)])
    change = changes_of(QUEUE, entry, [(Propid.Q_LABEL, "x")])
    assert change == {"mSMQLabelEx": (b"x",), EXACT: (bytes.fromhex("00000068 07"),)}
    change = changes_of(QUEUE, entry | change, [(Propid.Q_JOURNAL, 0)])
    assert change == {EXACT: ()}


def test_references_are_the_callers_to_resolve():
    values = {Propid.QM_OUTFRS: (GUID, GUID), Propid.QM_INFRS: (), Propid.QM_QUOTA: 1}
    found = {one.ldap: (one.ldap_class, guids) for one, guids in references_of(MACHINE, values.items())}
    assert found == {
        "mSMQOutRoutingServers": ("mSMQConfiguration", (GUID, GUID)),
        "mSMQInRoutingServers": ("mSMQConfiguration", ()),
    }
    (one, _), _ = references_of(
        ObjectType.ROUTING_LINK, [(Propid.L_NEIGHBOR1, GUID), (Propid.L_NEIGHBOR2, OTHER)]
    )
    assert one.required


def test_a_queue_is_named_as_the_adapter_names_it():
    name = "q" * 70
    assert make_queue_rdn(rf"web01\{name}").extension == "q" * 15
    assert entry_of(QUEUE, [(Propid.Q_PATHNAME, rf"web01\{name}")])["mSMQQueueNameExt"] == (b"q" * 15,)
    for path_name in ("web01", "web01\\", r"web01\a;b", rf"web01\{'q' * 148}"):
        assert make_queue_rdn(path_name) is None


@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
@pytest.mark.parametrize("object_type", CHANGED)
def test_what_a_synchronization_reads(object_type):
    table = PROPERTY_TABLES[object_type]
    assert all(table.by_propid[one].ldap for one in CHANGED[object_type])
    assert set(attributes_of(object_type, set(CHANGED[object_type]) - RESERVED)) <= {*table.attributes, EXACT}


def test_rows_that_contradict_each_other_are_refused():
    table = PROPERTY_TABLES[ObjectType.SITE]
    psc = table.by_propid[Propid.S_PSC]
    with pytest.raises(ValueError, match="mqisScope"):
        replace(table, rows=(*table.rows[:-1], replace(psc, propid=table.rows[-1].propid, ldap="mqisScope")))
    with pytest.raises(ValueError, match="keeps two properties"):
        replace(table, rows=(*table.rows[:-1], replace(psc, propid=table.rows[-1].propid)))
    with pytest.raises(ValueError, match="PROPID_S_PSC has no row"):
        replace(table, rows=tuple(row for row in table.rows if row is not psc))


def definitions():
    part = ldif.REPLICATION
    return list(map(ldif.format_attribute_definition, part.attributes)), list(
        map(ldif.format_class_definition, part.classes)
    )


def test_a_schema_is_compared():
    attributes, classes = definitions()
    assert compare_replication(attributes, classes) == []
    found = {str(one) for one in compare_replication(attributes[1:], classes)}
    assert found == {"attribute mqisPartitionID: is missing"}
    shorter = [one.replace("mqisBucket $ ", "") for one in classes]
    found = {str(one) for one in compare_replication(attributes, shorter)}
    assert "class mqisNumbered: does not allow mqisBucket" in found
    assert len(compare_replication([], [])) == len(attributes) + len(classes)


def test_all_numbers_of_the_schema_are_our_own_and_none_stands_twice():
    oids = [one.oid for one in (*schema_mqis.ATTRIBUTES, *schema_mqis.CLASSES)]
    assert len(set(oids)) == len(oids)
    assert all(oid.startswith((schema_mqis.ATTRIBUTE_ARC, schema_mqis.CLASS_ARC)) for oid in oids)


def test_a_null_partition_has_buckets_too():
    assert numbering.bucket_of(NULL_GUID, 255) == bytes(24)
