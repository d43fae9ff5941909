"""Objects of MQIS in a real slapd: every value comes back, ranges are found, and the adapter reads them."""

import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.store.property_strategies import DESCRIPTOR, SID, TEXTS, some_of
from support.store.stored_properties import properties_of

import mqdssm
from mqdssm.directory.filters import And, Equal, GreaterOrEqual, LessOrEqual, Or
from mqdssm.directory.requests import make_entry
from mqdssm.directory.schema_check import differences_of, replication_differences_of
from mqdssm.model.dn import DN
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.tables import ldif, numbering, places, schema_mqis
from mqdssm.tables.numbering import Numbering
from mqdssm.tables.properties import (
    PROPERTY_TABLES,
    changes_of,
    entry_of,
    identity_of,
    references_of,
)
from mqdssm.tables.property_rows import CHANGED, make_queue_rdn
from mqdssm.testing import OpenLdapServer

ROOT = DN.parse("dc=example,dc=com")
ORDERS = places.queue_manager_dn(ROOT, "WEB01").child("CN", "Orders")
ENTERPRISE = places.enterprise_dn(ROOT)
STATE = places.services_dn(ROOT).child("CN", "MQIS")
MACHINE, SITE1, SITE2, QUEUE, LINK, USER, NETWORK, GONE = (Guid(bytes([n]) * 16) for n in range(1, 9))
STORED = [one for one in ObjectType if one is not ObjectType.ENTERPRISE]  # which is there, and one alone


@pytest.fixture(scope="module")
def server():
    """A slapd with the schema of the replication store."""
    with OpenLdapServer(durable=False, replication=True) as one:
        yield one


@pytest.fixture(scope="module")
def directory(server):
    """The adapter, as its administrator."""
    with mqdssm.connect(server.ldapi_url) as one:
        yield one


@pytest.fixture(scope="module")
def session(directory):
    """Its LDAP session, with a computer, its queue manager and a container for state."""
    session = directory._context.session
    session.add(STATE, {"objectClass": (b"top", b"container")})
    session.add(places.computer_dn(ROOT, "WEB01"), {"objectClass": (b"top", b"user", b"computer")})
    return session


def stored(session, dn):
    """The attributes of an entry as the server returns them."""
    return session.get(dn, ["*"]).attributes


def add(session, object_type, dn, values, numbers=None, **more):
    """Add an object; what it refers to is not there, so required references dangle."""
    table = PROPERTY_TABLES[object_type]
    entry = make_entry(table.classes, {**entry_of(object_type, values.items(), numbers), **more})
    for reference, guids in references_of(object_type, values.items()):
        if reference.required:
            entry[reference.ldap] = tuple(str(places.site_dn(ROOT, str(one))).encode() for one in guids)
    session.add(dn, entry)
    return stored(session, dn)


def test_the_index_of_the_start_script_is_that_of_the_schema(server):
    configuration = (server.folder / "conf" / "slapd.conf").read_text()
    assert f"index     {','.join(schema_mqis.INDEXED)} eq\n" in configuration


def test_the_schema_is_published_as_it_is_written(session):
    assert differences_of(session) == []
    assert replication_differences_of(session) == []


def test_the_config_form_loads_after_the_other(tmp_path):
    folder = tmp_path / "config"
    folder.mkdir()
    core = "include: file:///etc/ldap/schema/core.ldif\n\n"
    head = "dn: cn=config\nobjectClass: olcGlobal\ncn: config\n\n"
    top = "dn: cn=schema,cn=config\nobjectClass: olcSchemaConfig\ncn: schema\n\n"
    parts = "\n".join(ldif.format_openldap_config(part) for part in (ldif.MSMQ, ldif.REPLICATION))
    done = subprocess.run(
        ["/usr/sbin/slapadd", "-n0", "-F", folder],
        input=head + top + core + parts,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert list(folder.rglob("*mqis.ldif"))


@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
@pytest.mark.parametrize("object_type", STORED)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_server_keeps_what_is_stored(session, object_type, data):
    table = PROPERTY_TABLES[object_type]
    storable = [row.propid for row in table.rows if not row.is_numbering]
    must = {Propid.L_COST: 1, Propid.L_NEIGHBOR1: SITE1, Propid.L_NEIGHBOR2: SITE2} | {
        table.identity: data.draw(st.binary(min_size=16, max_size=16).map(Guid))
    }
    values = {one: value for one, value in must.items() if one in storable}
    values = data.draw(some_of(storable)) | values
    dn = STATE.child("CN", str(values[table.identity]))
    numbers = Numbering(SITE1, SequenceNumber(data.draw(st.integers(0, numbering.NUMBER_MAX))))
    entry = add(session, object_type, dn, values, numbers)
    try:
        assert properties_of(object_type, entry, storable) == values
        assert numbering.numbering_of(entry) == numbers
        change = {one: value for one, value in data.draw(some_of(storable)).items() if one not in must}
        session.modify(dn, changes_of(object_type, entry, change.items(), numbers))
        assert properties_of(object_type, stored(session, dn), storable) == values | change
    finally:
        session.delete(dn)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(TEXTS, st.sampled_from([" ", "  a ", "\t", "\u00ad", "\ufeff", "\uffff", "İ", "ｱ"])))
def test_texts_of_every_kind_are_kept(session, text):
    dn = STATE.child("CN", "texts")
    values = {Propid.S_SITEID: SITE1, Propid.S_PATHNAME: text, Propid.S_PSC: text}
    try:
        assert properties_of(ObjectType.SITE, add(session, ObjectType.SITE, dn, values)) == values
    finally:
        session.delete(dn)


def test_a_range_of_numbers_is_found_by_its_buckets(session):
    parent = STATE.child("CN", "range")
    session.add(parent, {"objectClass": (b"top", b"container")})
    numbers = [0, 1, 255, 256, 257, 511, 512, 16_384, 2**63, numbering.NUMBER_MAX]
    for number in numbers:
        values = {Propid.D_IDENTIFIER: Guid(number.to_bytes(16, "big")), Propid.D_OBJTYPE: 1}
        at = Numbering(SITE2, SequenceNumber(number))
        add(session, ObjectType.DELETED_OBJECT, parent.child("CN", str(number)), values, at)
    for first, last in ((0, 0), (1, 256), (256, 512), (0, 16_384), (2**63 - 5, 2**63 + 5)):
        found = []
        for part in numbering.split_range(SITE2, first, last):
            wanted = And(
                (
                    Or(tuple(Equal(numbering.BUCKET, bucket) for bucket in part.buckets)),
                    GreaterOrEqual(numbering.NUMBER, numbering.number_value(part.first)),
                    LessOrEqual(numbering.NUMBER, numbering.number_value(part.last)),
                )
            )
            found += session.find(ROOT, wanted, [numbering.NUMBER])
        assert sorted(numbering.number_of(one.first(numbering.NUMBER)) for one in found) == [
            number for number in numbers if first <= number <= last
        ]
    assert not list(session.find(ROOT, Equal(numbering.BUCKET, numbering.bucket_of(SITE1, 0)), ["cn"]))


QUEUE_VALUES = {
    Propid.Q_INSTANCE: QUEUE,
    Propid.Q_PATHNAME: r"WEB01\Orders",
    Propid.Q_LABEL: "Orders of today",
    Propid.Q_JOURNAL: 7,  # no boolean: False to the adapter, 7 to replicas
    Propid.Q_QUOTA: 0xFFFF_FFFF,
    Propid.Q_PRIV_LEVEL: 2,
    Propid.Q_BASEPRIORITY: -3,
    Propid.Q_CREATE_TIME: 900_000_000,
    Propid.Q_SCOPE: 1,
    Propid.Q_QMID: MACHINE,
    Propid.Q_SECURITY: DESCRIPTOR,
}
MACHINE_VALUES = {
    Propid.QM_MACHINE_ID: MACHINE,
    Propid.QM_PATHNAME: "WEB01",
    Propid.QM_SITE_ID: SITE1,
    Propid.QM_SERVICE: 0x1 | 0x4,
    Propid.QM_OS: 0x400,
    Propid.QM_CNS: (NETWORK, NETWORK),
    Propid.QM_OUTFRS: (),
    Propid.QM_MACHINE_TYPE: "",
    Propid.QM_CREATE_TIME: 800_000_000,
}


@pytest.fixture(scope="module")
def objects(session):
    """One object of each type, where the adapter looks for it."""
    manager = places.queue_manager_dn(ROOT, "WEB01")
    add(session, ObjectType.MACHINE, manager, MACHINE_VALUES)
    rdn = make_queue_rdn(QUEUE_VALUES[Propid.Q_PATHNAME])
    add(session, ObjectType.QUEUE, manager.child("CN", rdn.cn), QUEUE_VALUES)
    for name, guid in (("Paris", SITE1), ("Lyon", SITE2)):
        values = {Propid.S_SITEID: guid, Propid.S_PATHNAME: name, Propid.S_INTERVAL1: 5, Propid.S_PSC: "psc"}
        add(session, ObjectType.SITE, places.site_dn(ROOT, name), values)
    link = {Propid.L_ID: LINK, Propid.L_COST: 3, Propid.L_NEIGHBOR1: SITE1, Propid.L_NEIGHBOR2: SITE2}
    entry = entry_of(ObjectType.ROUTING_LINK, link.items())
    names = {b"mSMQSite1": "Paris", b"mSMQSite2": "Lyon"}
    entry |= {key.decode(): (str(places.site_dn(ROOT, name)).encode(),) for key, name in names.items()}
    classes = PROPERTY_TABLES[ObjectType.ROUTING_LINK].classes
    session.add(ENTERPRISE.child("CN", "link"), make_entry(classes, entry))
    user = {
        Propid.U_ID: USER,
        Propid.U_SID: SID,
        Propid.U_DIGEST: (GONE, NULL_GUID),
        Propid.U_SIGN_CERT: b"x",
    }
    add(session, ObjectType.USER, places.user_dn(ROOT, "alice"), user, objectGUID=(bytes(USER),))


def read(directory, kind, guid):
    """What the adapter makes of the object with a GUID."""
    return directory.read(kind, mqdssm.Filter("Identifier", "==", guid.uuid))


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
class TestTheAdapterReads:
    @pytest.fixture(autouse=True)
    def _made(self, objects):
        """Everything is there."""

    def test_a_queue(self, directory, session):
        found = read(directory, mqdssm.Queue, QUEUE)
        assert found.pathname == r"web01\orders"
        assert found.label == "Orders of today"
        assert found.journaling is False
        assert found.quota == 0xFFFF_FFFF
        assert found.privacy_level == mqdssm.PrivacyLevel.BODY
        assert found.base_priority == -3
        assert found.create_time == 900_000_000
        assert found.security == DESCRIPTOR
        dn = ORDERS
        assert properties_of(ObjectType.QUEUE, stored(session, dn)) == QUEUE_VALUES

    def test_a_queue_manager(self, directory):
        found = read(directory, mqdssm.QueueManager, MACHINE)
        assert found.computer_name == "WEB01"
        assert found.site_identifier_list == (SITE1.uuid,)
        assert found.routing_server
        assert found.directory_server
        assert found.directory_server_type == mqdssm.DirectoryServerType.PRIMARY_SITE_CONTROLLER
        assert found.operating_system_type == mqdssm.OperatingSystemType.WIN_SERVER
        assert found.out_routing_server_identifier_list == ()

    def test_sites_and_a_link(self, directory):
        site = read(directory, mqdssm.Site, SITE1)
        assert (site.name, site.intra_site_replication_interval) == ("Paris", 5)
        link = read(directory, mqdssm.RoutingLink, LINK)
        assert (link.site1_identifier, link.site2_identifier, link.actual_cost) == (SITE1.uuid, SITE2.uuid, 3)

    def test_a_user(self, directory):
        user = read(directory, mqdssm.User, USER)
        assert user.security_identifier == "S-1-5-21-1-2-3-1001"
        assert set(user.certificate_digest_list) == {bytes(GONE), bytes(NULL_GUID)}

    def test_the_enterprise_that_is_there_becomes_that_of_mqis(self, directory, session):
        table = PROPERTY_TABLES[ObjectType.ENTERPRISE]
        values = {Propid.E_ID: GONE, Propid.E_NAME: "ACME", Propid.E_LONG_LIVE: 60, Propid.E_PECNAME: "pec"}
        new = entry_of(ObjectType.ENTERPRISE, values.items())
        cleared = dict.fromkeys(table.attributes, ())
        session.modify(ENTERPRISE, {**cleared, **make_entry(("top", *table.classes), new)})
        entry = stored(session, ENTERPRISE)
        assert properties_of(ObjectType.ENTERPRISE, entry) == values  # no E_VERSION of the base tree
        assert identity_of(ObjectType.ENTERPRISE, entry) == GONE
        found = read(directory, mqdssm.Enterprise, GONE)
        assert found.default_time_to_live == 60

    def test_what_the_adapter_writes_counts(self, directory, session):
        queue = read(directory, mqdssm.Queue, QUEUE)
        queue.journaling, queue.label = True, "New"
        directory.write(queue)
        found = properties_of(ObjectType.QUEUE, stored(session, ORDERS))
        assert (found[Propid.Q_JOURNAL], found[Propid.Q_LABEL]) == (1, "New")
        queue.journaling, queue.label = False, "Orders of today"
        directory.write(queue)
        found = properties_of(ObjectType.QUEUE, stored(session, ORDERS))
        assert found == QUEUE_VALUES


def test_every_carried_property_has_an_attribute_or_octets():
    for object_type, propids in CHANGED.items():
        rows = PROPERTY_TABLES[object_type].by_propid
        assert all(rows[one].ldap for one in propids)
