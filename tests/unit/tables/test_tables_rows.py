"""The rows against the specification's own tables, copied as facts to tests/vectors."""

from dataclasses import replace
from uuid import UUID

import pytest
from support.wire.vector_files import read_vectors

from mqdssm.model.elements import ConnectedNetwork, Queue, QueueManager, Site
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.tables import TABLES, table_of
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import NO_DEFAULT, Access, Computed, Holder, Missing, Row, convert_to_snake_case
from mqdssm.tables.syntax import BOOLEAN, UNICODE

EVENTS = read_vectors("mqdssm-event-tables.csv")
KEPT = read_vectors("mqdssm-elements.csv")
CREATE, WRITE, FILTER, READ = (
    {"3.1.6.1.1": "QueueManager", "3.1.6.1.2": "Queue", "3.1.6.1.3": "Site", "3.1.6.1.4": "RoutingLink"},
    {
        "3.1.6.7.1": "QueueManager",
        "3.1.6.7.2": "Queue",
        "3.1.6.7.3": "Enterprise",
        "3.1.6.7.4": "Site",
        "3.1.6.7.5": "RoutingLink",
        "3.1.6.7.6": "User",
    },
    {
        "3.1.6.4.1": "QueueManager",
        "3.1.6.4.2": "Queue",
        "3.1.6.4.3": "Enterprise",
        "3.1.6.4.4": "Site",
        "3.1.6.4.5": "RoutingLink",
        "3.1.6.4.6": "User",
    },
    {
        "3.1.6.10.1": "QueueManager",
        "3.1.6.10.2": "Queue",
        "3.1.6.10.3": "Enterprise",
        "3.1.6.10.4": "Site",
        "3.1.6.10.5": "RoutingLink",
        "3.1.6.10.6": "User",
    },
)


def stated(prefix):
    """(attribute, LDAP attribute) pairs that sections below a prefix list."""
    return {(e["adm"], e["ldap"]) for e in EVENTS if e["section"].startswith(f"{prefix}.")}


def sent(table, access):
    return {(row.adm, ldap) for row in table.rows if access in row.access for ldap in row.written or row.ldap}


@pytest.mark.parametrize(("prefix", "name"), CREATE.items())
def test_a_create_stores_what_the_specification_lists(prefix, name):
    assert sent(table_of(name), Access.CREATE) == stated(prefix)


@pytest.mark.parametrize(("prefix", "name"), WRITE.items())
def test_a_write_changes_what_the_specification_lists(prefix, name):
    assert sent(table_of(name), Access.WRITE) == stated(prefix)


@pytest.mark.parametrize(("prefix", "name"), FILTER.items())
def test_filters_reach_the_directory_for_what_the_specification_lists(prefix, name):
    table = table_of(name)
    ours = {(row.adm, row.ldap[0]) for row in table.rows if Access.FILTER in row.access}
    assert ours == stated(prefix)


@pytest.mark.parametrize("name", ["Enterprise", "User"])
def test_elements_that_cannot_be_created_have_no_attribute_to_create(name):
    assert not table_of(name).names(Access.CREATE)  # M44


@pytest.mark.spec("MS-MQDSSM 3.1.6.10")
@pytest.mark.spec("MS-MQDSSM 3.1.6.10.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.10.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.10.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.10.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.10.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.10.6")
@pytest.mark.parametrize(("section", "name"), READ.items())
def test_the_ldap_attribute_list_is_that_of_the_specification(section, name):
    table = table_of(name)
    expected = [(e["adm"], e["ldap"]) for e in EVENTS if e["section"] == section and e["ldap"]]
    assert sorted(table.list_ldap_pairs(table.names())) == sorted(expected)
    for adm in table.names():  # one attribute asked for gives its own pairs and no others
        assert table.list_ldap_pairs([adm]) == tuple(pair for pair in expected if pair[0] == adm)


@pytest.mark.spec("MS-MQDSSM 3.1.6.10")
@pytest.mark.spec("MS-MQDSSM 3.1.6.10.1")
def test_names_without_an_attribute_in_the_entry_are_ignored():
    table = table_of("QueueManager")
    names = ["Clustered", "NoSuchName", "ConnectedNetworkIdentifierList", "Identifier", "DirectoryServerType"]
    assert table.list_ldap_pairs(names) == (
        ("Identifier", "objectGUID"),
        ("DirectoryServerType", "mSMQDsServices"),
        ("DirectoryServerType", "mSMQServiceType"),
    )


@pytest.mark.spec("MS-MQDSSM 3.1.6.10.2")
def test_ldap_attributes_come_in_order_and_once():
    names = ["DirectoryPath", "Pathname", "Label", "QualifiedPathname", "Label"]
    attributes = table_of(Queue).list_ldap_attributes(names)
    assert attributes == ("mSMQLabelEx", "distinguishedName", "mSMQQueueNameExt")


@pytest.mark.spec("MS-MQDSSM 3.1.6.10.3")
def test_the_name_of_the_enterprise_is_in_no_attribute_and_cannot_be_sorted_by():
    table = table_of("Enterprise")
    assert table.row("Name").ldap == ()
    assert table.row("Name").computed is Computed.ENTERPRISE_NAME
    assert "Name" not in table.names(Access.SORT)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_results_can_be_sorted_by_what_the_ldap_attribute_list_holds(table):
    expected = {row.adm for row in table.rows if row.holder is Holder.OWN and row.ldap}
    assert set(table.names(Access.SORT)) == expected  # 3.1.6.4: others are removed from the sort order


@pytest.mark.spec("MS-MQDSSM 3.1.6.20.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.6")
@pytest.mark.parametrize(("section", "name"), dict.fromkeys((e["section"], e["element"]) for e in KEPT))
def test_every_attribute_is_kept_where_the_specification_says(section, name):
    table = table_of(name)
    kept = {e["adm"]: e["kept"] for e in KEPT if e["section"] == section}
    ours = {row.adm: "own" if row.holder is Holder.OWN else "computer" for row in table.rows}
    unsupported = {adm for adm, where in kept.items() if where == "unsupported"}
    assert ours == {adm: where for adm, where in kept.items() if where != "unsupported"}
    assert unsupported <= table.unsupported


@pytest.mark.spec("MS-MQDSSM 3.1.6.20.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.4")
@pytest.mark.parametrize(
    ("element", "name"),
    [
        (QueueManager, "ConnectedNetworkIdentifierList"),
        (Queue, "Scope"),
        (Site, "PrimarySiteController"),
        (Site, "PublicSigningKeyList"),
        (Site, "PublicSigningKey"),
    ],
)
def test_unsupported_attributes_are_refused_by_name(element, name):
    with pytest.raises(ValueError, match=rf"{element.element_name}\.{name} cannot be kept in the directory"):
        table_of(element).row(name)


@pytest.mark.spec("MS-MQDSSM 3.1.6.20.2")
def test_transactional_is_stored_by_a_create_and_never_changed():
    row = table_of("Queue").row("Transactional")
    assert Access.CREATE in row.access
    assert Access.WRITE not in row.access


COMPUTER = ["QualifiedComputerName", "PublicSigningKeyList", "Clustered", "OperatingSystemVersion"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.20.1")
def test_the_computer_is_asked_for_what_it_holds():
    table = table_of("QueueManager")
    assert table.computer_attributes(["Identifier", "Security"]) == ()
    assert table.computer_attributes(COMPUTER) == (
        "dNSHostName",
        "mSMQSignCertificates",
        "servicePrincipalName",
        "operatingSystemVersion",
    )
    assert table.list_ldap_attributes(COMPUTER) == ()
    assert table_of("Queue").computer_attributes(["Pathname"]) == ()
    assert table_of("Queue").computer_attributes(["QualifiedPathname", "Label"]) == ("dNSHostName",)


UNSET = {  # [MS-MQDSSM] 3.1.6.11.1 to 3.1.6.11.6 and notes <10> to <17>; None: see DEVIATIONS
    "QueueManager": {
        "Identifier": Missing.ERROR,
        "ComputerName": Missing.ERROR,
        "QueueManagerVersion": "",
        "OperatingSystemType": OperatingSystemType.Unknown,
        "CreateTime": Missing.ERROR,
        "ModifyTime": Missing.ERROR,
        "QueueManagerQuota": 0x00100000,
        "JournalQuota": 0xFFFFFFFF,
        "ForeignSystem": False,
        "FullPath": Missing.ERROR,
        "SiteIdentifierList": (),
        "OutRoutingServerIdentifierList": (),
        "InRoutingServerIdentifierList": (),
        "RoutingServer": False,
        "DirectoryServer": False,
        "DirectoryServerType": Missing.UNPOPULATED,
        "RemoteAccessServer": False,
        "SupportingServer": False,
        "PublicEncryptionKeyList": b"",
        "PublicSigningKeyList": b"",
        "OperatingSystemVersion": "",
        "QualifiedComputerName": Missing.ERROR_IF_ASKED,  # M26
        "Clustered": Missing.ERROR_IF_ASKED,  # M26
        "Security": Missing.ERROR_IF_ASKED,  # M41
    },
    "Queue": {
        "Identifier": Missing.ERROR,
        "Label": "",
        "CreateTime": Missing.ERROR,
        "ModifyTime": Missing.ERROR,
        "Type": UUID(int=0),
        "Pathname": Missing.ERROR,
        "QualifiedPathname": "",
        "Journaling": False,
        "Quota": 0xFFFFFFFF,
        "JournalQuota": 0xFFFFFFFF,
        "Authentication": False,
        "PrivacyLevel": PrivacyLevel.Optional,
        "Transactional": False,
        "MulticastAddress": "",
        "Security": Missing.ERROR_IF_ASKED,  # M41
        "BasePriority": 0,
        "FullPath": Missing.ERROR,
        "DirectoryPath": Missing.ERROR,
    },
    "Enterprise": {
        "Identifier": Missing.ERROR,
        "Name": Missing.ERROR,
        "WeakenedSecurity": False,
        "NonLDAPCapableQueueManagerNotification": True,
        "DefaultTimeToLive": 345600,
        "OldDirectory": True,
        "Security": Missing.ERROR_IF_ASKED,  # M41
    },
    "Site": {
        "Identifier": Missing.ERROR,
        "Name": Missing.ERROR,
        "IntraSiteReplicationInterval": 2,
        "InterSiteReplicationInterval": 10,
        "FullPath": Missing.ERROR,
        "ForeignSite": False,
        "MigratedFromMsmq10": False,  # M12
        "Security": Missing.ERROR_IF_ASKED,  # M41
    },
    "RoutingLink": {
        "Identifier": Missing.ERROR,
        "Description": "",
        "FullPath": Missing.ERROR,
        "ActualCost": Missing.ERROR,
        "Site1Identifier": Missing.ERROR,
        "Site2Identifier": Missing.ERROR,
        "SiteGateIdentifierList": (),
    },
    "User": {
        "Identifier": Missing.ERROR,
        "SecurityIdentifier": Missing.ERROR,
        "CertificateDigestList": (),
        "Certificates": b"",
        "FullPath": Missing.ERROR,
    },
}


@pytest.mark.parametrize("name", UNSET)
def test_unset_attributes_mean_what_the_specification_says(name):
    rows = table_of(name).rows
    ours = {row.adm: row.default if row.has_default else row.missing for row in rows}
    assert ours == UNSET[name]
    assert {a: type(v) for a, v in ours.items()} == {a: type(v) for a, v in UNSET[name].items()}


def test_propids_are_those_of_the_property_tables():
    named = {}
    for line in read_vectors("mqmq-propids.csv"):
        named.setdefault((line["element"], line["attribute"].split(" /")[0]), set()).add(int(line["value"]))
    service = "RoutingServer, RemoteAccessServer, DirectoryServer, DirectoryServerType"
    for table in TABLES.values():
        for row in table.rows:
            known = named.get((table.name, service if row.adm == "DirectoryServerType" else row.adm), set())
            cost = {812} if row.adm == "ActualCost" else set()  # 803 adds 999999 for each foreign end
            assert row.propid in (cost or known or {None}), row.adm


def test_every_cited_section_is_in_the_index():
    import conformance

    sections = conformance.read_sections()
    for table in TABLES.values():
        for row in table.rows:
            assert row.sections
            for section in row.sections:
                assert f"MS-MQDSSM {section}" in sections, (row.adm, section)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_rows_name_the_fields_of_the_model(table):
    assert {row.adm for row in table.rows} | table.unsupported >= set(table.element.adm_names())
    for row in table.rows:
        assert row.field == table.element.field_name(row.adm) == convert_to_snake_case(row.adm)


def test_tables_are_found_by_class_and_by_name():
    assert table_of(Queue) is table_of("Queue") is TABLES[Queue]
    for unknown in (ConnectedNetwork, "ConnectedNetwork", "queue", ""):
        with pytest.raises(ValueError, match="is not kept in the directory"):
            table_of(unknown)


def test_rows_are_found_by_name_in_the_order_asked_for():
    table = table_of(Queue)
    assert [row.adm for row in table.find_rows(["Quota", "Label", "Quota"])] == ["Quota", "Label"]
    with pytest.raises(ValueError, match="Queue has no attribute 'label'; it has Identifier, Label"):
        table.find_rows(["label"])


LABEL = table_of(Queue).row("Label")
JOURNALING = table_of(Queue).row("Journaling")


def without(table, *names):
    return tuple(row for row in table.rows if row.adm not in names)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (LABEL, "an attribute has two rows"),
        (replace(LABEL, adm="Labl"), "Labl is in only one of table and model"),
        (replace(LABEL, propid=101), "two rows have the same PROPID"),
        (replace(LABEL, ldap=("mSMQLabl",)), "the schema does not allow mSMQLabl there"),
        (replace(LABEL, ldap=("mSMQSites",)), "the schema does not allow mSMQSites there"),
        (replace(LABEL, written=("mSMQSites",)), "the schema does not allow mSMQSites there"),
        (replace(LABEL, computer_ldap=("mSMQSites",)), "the schema does not allow mSMQSites in computer"),
        (replace(LABEL, syntax=BOOLEAN), "mSMQLabelEx is String(Unicode), not Boolean"),
        (replace(LABEL, multi=True), "mSMQLabelEx holds one value only"),
        (replace(LABEL, one_of_set=True), "mSMQLabelEx is single-valued in the schema"),
        (replace(LABEL, ldap=("description",)), "description is multi-valued in the schema"),
        (replace(LABEL, default=NO_DEFAULT), "it needs a default exactly if unset means the default"),
        (replace(LABEL, missing=Missing.ERROR), "it needs a default exactly if unset means the default"),
        (replace(LABEL, field="labels"), "the model calls it label, not labels"),
        (replace(LABEL, default="x" * 125), "its default does not pass its own syntax: mSMQLabelEx"),
        (replace(LABEL, default="new"), "its default is 'new' here and '' in the model"),
        (replace(JOURNALING, default=0), "its default is 0 here and False in the model"),
    ],
)
def test_a_table_that_contradicts_itself_is_never_imported(bad, problem):
    table = TABLES[Queue]
    rows = (*table.rows, bad) if bad is LABEL else (*without(table, "Label", bad.adm), bad)
    with pytest.raises(ValueError, match="table of Queue: ") as caught:
        ElementTable(element=Queue, ldap_class="mSMQQueue", rows=rows)
    assert problem in str(caught.value)


def test_a_default_that_comes_back_changed_is_never_imported():
    lossy = replace(UNICODE, load=lambda _: "other")
    rows = (*without(TABLES[Queue], "Label"), replace(LABEL, syntax=lossy, default="new"))
    with pytest.raises(ValueError, match="its default is not what comes back"):
        ElementTable(element=Queue, ldap_class="mSMQQueue", rows=rows)


def test_rows_are_values():
    assert isinstance(LABEL, Row)
    with pytest.raises(AttributeError):
        LABEL.adm = "Other"
