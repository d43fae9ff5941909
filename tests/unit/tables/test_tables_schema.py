"""The schema against the lists of the specification, and the definitions made of it."""

import pytest
from support.wire.vector_files import read_vectors

from mqdssm.tables import adsyntax as ad
from mqdssm.tables import ldif, schema, schema_attributes, schema_classes
from mqdssm.tables.schema_attributes import AttributeType
from mqdssm.tables.schema_classes import ObjectClass

LISTS = read_vectors("mqdssm-schema-lists.csv")
EVERYWHERE = {"distinguishedName"}  # the DN of an entry; no class lists it


def listed(section):
    return [(line["class"], line["attribute"]) for line in LISTS if line["section"] == section]


@pytest.mark.spec("MS-MQDSSM 2.2.2")
@pytest.mark.spec("MS-MQDSSM 2.4")
@pytest.mark.parametrize("section", ["2.2.2", "2.4"])
def test_every_class_and_attribute_of_the_lists_is_there(section):
    pairs = listed(section)
    assert len(pairs) > 60
    for class_name, attribute_name in pairs:
        cls = schema.find_object_class(class_name)
        attribute = schema.attribute(attribute_name)
        assert attribute.name == attribute_name
        assert attribute_name in schema.list_allowed_attributes(cls.name) | EVERYWHERE, (
            class_name,
            attribute_name,
        )


@pytest.mark.spec("MS-MQDSSM 2.2.4")
def test_the_unused_attributes_are_there():
    names = [attribute for _, attribute in listed("2.2.4")]
    assert set(names) == schema.UNUSED_ATTRIBUTES
    text = " ".join(ldif.format_openldap_schema().split())
    for name in names:
        assert schema.attribute(name).name == name
        assert f"NAME '{name}'" in text


@pytest.mark.spec("MS-MQDSSM 2.2.4")
def test_the_mapping_reads_and_writes_none_of_the_unused_attributes():
    from mqdssm.tables import TABLES

    used = {ldap for table in TABLES.values() for row in table.rows for ldap in (*row.ldap, *row.written)}
    assert not used & schema.UNUSED_ATTRIBUTES


@pytest.mark.parametrize(
    ("name", "oid", "syntax", "single", "bounds"),
    [  # read from a directory server's own schema
        ("mSMQLabelEx", "1.2.840.113556.1.4.1415", "2.5.5.12", True, (0, 124)),
        ("mSMQQueueNameExt", "1.2.840.113556.1.4.1243", "2.5.5.12", True, (0, 92)),
        ("mSMQPrivacyLevel", "1.2.840.113556.1.4.924", "2.5.5.9", True, (0, 2)),
        ("MSMQ-MulticastAddress", "1.2.840.113556.1.4.1714", "2.5.5.12", True, (9, None)),
        ("mSMQSites", "1.2.840.113556.1.4.927", "2.5.5.10", False, (16, 16)),
        ("mSMQNt4Stub", "1.2.840.113556.1.4.960", "2.5.5.9", False, (None, None)),
        ("mSMQSiteForeign", "1.2.840.113556.1.4.961", "2.5.5.8", False, (None, None)),
        ("mSMQNameStyle", "1.2.840.113556.1.4.939", "2.5.5.8", True, (None, None)),
        ("mSMQCSPName", "1.2.840.113556.1.4.940", "2.5.5.4", True, (None, None)),
        ("mSMQSignCertificates", "1.2.840.113556.1.4.947", "2.5.5.10", True, (None, 1048576)),
        ("msMQ-Recipient-FormatName", "1.2.840.113556.1.4.1695", "2.5.5.12", True, (1, 255)),
        ("objectGUID", "1.2.840.113556.1.4.2", "2.5.5.10", True, (16, 16)),
        ("objectSid", "1.2.840.113556.1.4.146", "2.5.5.17", True, (0, 28)),
        ("whenCreated", "1.2.840.113556.1.2.2", "2.5.5.11", True, (None, None)),
        ("nTSecurityDescriptor", "1.2.840.113556.1.2.281", "2.5.5.15", True, (0, 132096)),
        ("uSNChanged", "1.2.840.113556.1.2.120", "2.5.5.16", True, (None, None)),
        ("member", "2.5.4.31", "2.5.5.1", False, (None, None)),
    ],
)
def test_attributes_are_microsofts(name, oid, syntax, single, bounds):
    attribute = schema.attribute(name)
    assert (attribute.oid, attribute.syntax.attribute_syntax, attribute.single) == (oid, syntax, single)
    assert (attribute.lower, attribute.upper) == bounds


@pytest.mark.parametrize(
    ("name", "oid", "must", "parents"),
    [
        ("mSMQQueue", "1.2.840.113556.1.5.161", ("cn",), ("mSMQConfiguration",)),
        ("mSMQConfiguration", "1.2.840.113556.1.5.162", ("cn",), ("computer",)),
        ("mSMQEnterpriseSettings", "1.2.840.113556.1.5.163", ("cn",), ("container",)),
        (
            "mSMQSiteLink",
            "1.2.840.113556.1.5.164",
            ("cn", "mSMQSite1", "mSMQSite2", "mSMQCost"),
            ("mSMQEnterpriseSettings",),
        ),
        ("mSMQSettings", "1.2.840.113556.1.5.165", ("cn",), ("server",)),
        ("site", "1.2.840.113556.1.5.31", ("cn",), ("sitesContainer",)),
        ("computer", "1.2.840.113556.1.3.30", ("cn",), ("container", "organizationalUnit", "domainDNS")),
    ],
)
def test_classes_are_microsofts(name, oid, must, parents):
    cls = schema.find_object_class(name)
    assert (cls.oid, cls.must, cls.parents) == (oid, must, parents)


def test_a_computer_is_a_user_and_no_person():
    assert [c.name for c in schema.list_superiors("computer")] == ["computer", "user", "msmqADTop"]
    assert schema.list_required_attributes("computer") == {"cn"}
    assert {"objectGUID", "mSMQDigests", "dNSHostName"} <= schema.list_allowed_attributes("computer")


def test_own_definitions_are_below_our_own_arc():
    from uuid import UUID

    assert f"2.25.{UUID(schema_attributes.OWN_UUID).int}" == schema_attributes.OWN_ARC
    assert all(a.oid.startswith(f"{schema_attributes.OWN_ARC}.1.") for a in schema_attributes.ROOT_DSE)
    own = [c for c in schema_classes.ALL if c.own]
    assert [c.oid for c in own] == [f"{schema_attributes.OWN_ARC}.2.1"]


def test_names_are_found_whatever_their_case():
    assert schema.attribute("MSMQLABELEX").name == "mSMQLabelEx"
    assert schema.find_object_class("mSMQ-Custom-Recipient").name == "msMQ-Custom-Recipient"
    with pytest.raises(ValueError, match="the schema has no attribute 'mSMQXactEncryption'"):
        schema.attribute("mSMQXactEncryption")
    with pytest.raises(ValueError, match="the schema has no class 'nothing'"):
        schema.find_object_class("nothing")


GOOD = AttributeType(name="good", oid="1.2.3", syntax=ad.UNICODE)


@pytest.mark.parametrize(
    ("attributes", "classes", "problem"),
    [
        ((GOOD, AttributeType(name="other", oid="1.2.3", syntax=ad.DN)), (), "OID 1.2.3 is defined twice"),
        ((GOOD, AttributeType(name="GOOD", oid="1.2.4", syntax=ad.DN)), (), "a name is defined twice"),
        ((GOOD,), (ObjectClass(name="c", oid="1.1", superior="top"),), "c: no attribute cn"),
        ((GOOD,), (ObjectClass(name="c", oid="1.1", superior="x", must=()),), "c: no class x"),
        (
            (GOOD,),
            (ObjectClass(name="c", oid="1.1", superior="top", must=(), may=("Good",)),),
            "c: no attribute Good",
        ),
    ],
)
def test_a_schema_that_contradicts_itself_is_never_imported(attributes, classes, problem):
    with pytest.raises(ValueError, match=problem):
        schema.prove(attributes, classes)


def test_every_syntax_has_matching_rules():
    syntaxes = [syntax for syntax in vars(ad).values() if isinstance(syntax, ad.AdSyntax)]
    assert len(syntaxes) == 12
    for syntax in syntaxes:
        assert syntax.equality.endswith("Match")
        assert syntax.ldap_oid == f"1.3.6.1.4.1.1466.115.121.1.{syntax.ldap_syntax}"
    assert len({(s.attribute_syntax, s.om_syntax) for s in syntaxes}) == len(syntaxes)


def test_lengths_are_checked_with_the_name_in_the_message():
    label = schema.attribute("mSMQLabelEx")
    label.check_length(124)
    with pytest.raises(ValueError, match="mSMQLabelEx takes at most 124 UTF-16 units, not 125"):
        label.check_length(125)
    with pytest.raises(ValueError, match="objectGUID takes at least 16 bytes, not 15"):
        schema.attribute("objectGUID").check_length(15)
