"""LDIF: what is written is what was there (RFC 2849), and what each kind of server takes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.directory.ldif_reader import read_ldif

from mqdssm.pipeline.ldif import (
    REFERENCES_SERIES,
    as_stored,
    class_of,
    count_rdns,
    make_ad_translation,
    record,
    select_for_openldap,
    to_ad,
    to_openldap,
)
from mqdssm.tables.access import KINDS, to_directory
from mqdssm.wire.dtyp import SecurityDescriptor

QUEUE = [
    ("cn", [b"orders"]),
    ("objectGUID", [bytes(range(16))]),
    ("objectClass", [b"top", b"msmqADTop", b"mSMQQueue"]),
    ("mSMQLabelEx", ["Größe".encode()]),
]
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,20}", fullmatch=True).filter(
    lambda n: n.lower() not in {"dn", "version"}
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
VALUES = st.one_of(
    st.binary(max_size=300), TEXTS.map(str.encode), st.sampled_from([b"", b" ", b":a", b"<b", b"a ", b"\0"])
)


@given(dn=TEXTS, attributes=st.dictionaries(NAMES, st.lists(VALUES, min_size=1, max_size=4), max_size=6))
def test_every_value_comes_back(dn, attributes) -> None:
    text = record(dn, list(attributes.items()))
    assert all(len(line) <= 76 for line in text.split(b"\n"))
    assert re.fullmatch(rb"[\x01-\x7e]*", text)  # no octet that a mail or an editor would change
    expected: dict[str, list[bytes]] = {}
    for name, values in attributes.items():
        expected.setdefault(name.lower(), []).extend(values)
    assert list(read_ldif(text)) == [(dn, expected)]


@pytest.mark.parametrize(
    ("dn", "parts"),
    [
        ("dc=com", 1),
        ("dc=example,dc=com", 2),
        (r"cn=a\,b,dc=example,dc=com", 3),
        (r"cn=a\\,dc=example,dc=com", 3),
        (r"cn=a\2Cb+sn=c,dc=com", 2),
        ('cn="a,b",dc=com', 2),
    ],
)
def test_parents_have_fewer_parts(dn: str, parts: int) -> None:
    assert count_rdns(dn) == parts


def test_slapd_gets_the_entry_as_it_is_classes_first() -> None:
    (made,) = to_openldap("cn=orders,dc=com", QUEUE, as_stored)
    assert made.series == 2
    assert made.data.startswith(b"dn: cn=orders,dc=com\nobjectClass: top\n")
    ((_, attributes),) = read_ldif(made.data)
    assert attributes == {name.lower(): values for name, values in QUEUE}


def test_certificates_travel_in_binary_transfer() -> None:
    (made,) = to_openldap("cn=u,dc=com", [("objectClass", [b"user"]), ("userCertificate", [b"0"])], as_stored)
    assert b"userCertificate;binary: 0\n" in made.data
    (made,) = to_openldap("cn=u,dc=com", [("userCertificate;binary", [b"0"])], as_stored)
    assert b"userCertificate;binary: 0\n" in made.data


def test_active_directory_gets_no_guid_and_no_class_of_ours() -> None:
    (made,) = to_ad("CN=orders,DC=com", [*QUEUE, ("uSNChanged", [b"7"]), ("whenCreated", [b"x"])], as_stored)
    assert made.data.startswith(b"dn: CN=orders,DC=com\nchangetype: add\nobjectClass: top\n")
    ((_, attributes),) = read_ldif(made.data)
    assert set(attributes) == {"changetype", "objectclass", "cn", "msmqlabelex"}
    assert attributes["objectclass"] == [b"top", b"mSMQQueue"]


def test_references_are_set_when_all_objects_are_there() -> None:
    servers = [b"CN=msmq,CN=a,DC=com", b"CN=msmq,CN=b,DC=com"]
    attributes = [
        ("objectClass", [b"top", b"mSMQConfiguration"]),
        ("mSMQOutRoutingServers", servers),
        ("mSMQInRoutingServers", servers[:1]),
    ]
    made, later = to_ad("CN=msmq,CN=c,DC=com", attributes, as_stored)
    assert b"RoutingServers" not in made.data
    assert later.series == REFERENCES_SERIES > made.series
    assert later.data.decode() == (
        "dn: CN=msmq,CN=c,DC=com\nchangetype: modify\n"
        "replace: mSMQOutRoutingServers\nmSMQOutRoutingServers: CN=msmq,CN=a,DC=com\n"
        "mSMQOutRoutingServers: CN=msmq,CN=b,DC=com\n-\n"
        "replace: mSMQInRoutingServers\nmSMQInRoutingServers: CN=msmq,CN=a,DC=com\n-\n\n"
    )


def test_the_ends_of_a_link_are_named_at_once() -> None:
    link = [("objectClass", [b"mSMQSiteLink"]), ("mSMQSite1", [b"CN=a"]), ("mSMQSite2", [b"CN=b"])]
    (made,) = to_ad("CN=l,DC=com", link, as_stored)
    assert b"mSMQSite1: CN=a\nmSMQSite2: CN=b\n" in made.data


def test_descriptors_are_translated_for_active_directory() -> None:
    image = SecurityDescriptor.from_sddl("O:SYG:SYD:(A;;0x1;;;WD)")
    stored = bytes(to_directory(image, KINDS["mSMQQueue"]))
    assert stored != bytes(image)
    (made,) = to_ad("CN=q,DC=com", [*QUEUE, ("nTSecurityDescriptor", [bytes(image)])], make_ad_translation())
    ((_, attributes),) = read_ldif(made.data)
    assert attributes["ntsecuritydescriptor"] == [stored]
    (made,) = to_ad("CN=q,DC=com", [*QUEUE, ("nTSecurityDescriptor", [b"broken"])], make_ad_translation())
    assert b"nTSecurityDescriptor: broken\n" in made.data


def test_from_active_directory_comes_what_our_schema_has() -> None:
    stored = [
        ("objectClass", [b"top", b"person", b"organizationalPerson", b"user", b"computer"]),
        ("cn", [b"web01"]),
        ("objectGUID", [bytes(16)]),
        ("badPwdCount", [b"0"]),
    ]
    assert class_of(stored) == "computer"
    assert select_for_openldap("CN=web01,DC=com", stored) == [
        ("objectClass", [b"top", b"computer"]),
        ("cn", [b"web01"]),
        ("objectGUID", [bytes(16)]),
    ]


@pytest.mark.parametrize(
    ("dn", "made"),
    [
        (r"CN=a\,b,DC=com", [("objectClass", [b"top", b"container"]), ("CN", [b"a,b"])]),
        ("DC=@,DC=com", [("objectClass", [b"top", b"domainDNS"]), ("DC", [b"@"])]),
        ("OU=x,DC=com", [("objectClass", [b"top", b"organizationalUnit"]), ("OU", [b"x"])]),
        ("L=x,DC=com", None),
    ],
)
def test_a_class_that_we_do_not_have_leaves_a_place(dn, made) -> None:
    stored = [("objectClass", [b"top", b"strange"]), ("cn", [b"x"]), ("objectGUID", [bytes(16)])]
    assert select_for_openldap(dn, stored) == made
