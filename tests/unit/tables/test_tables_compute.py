"""Pure computations of the mapping: bits, names, paths."""

from uuid import UUID

import pytest

from mqdssm.model.dn import DN
from mqdssm.model.enums import DirectoryServerType
from mqdssm.tables import compute

T = DirectoryServerType


def service(routing=None, remote=None, directory=None, kind=None):
    return compute.compute_service_type(
        routing_server=routing,
        remote_access_server=remote,
        directory_server=directory,
        directory_server_type=kind,
    )


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, 0),
        ({"routing": True}, 0x01),
        ({"routing": False, "remote": False, "directory": False}, 0),
        ({"remote": True}, 0x10),
        ({"routing": True, "remote": True}, 0x11),
        ({"directory": True}, 0),
        ({"directory": True, "kind": T.STANDALONE}, 0),
        ({"directory": True, "kind": T.BACKUP_SITE_CONTROLLER}, 0x02),
        ({"directory": True, "kind": T.PRIMARY_SITE_CONTROLLER}, 0x04),
        ({"directory": True, "kind": T.PRIMARY_ENTERPRISE_CONTROLLER}, 0x08),
        ({"directory": False, "kind": T.PRIMARY_SITE_CONTROLLER}, 0),  # not a directory server
        ({"kind": T.PRIMARY_SITE_CONTROLLER}, 0),  # DirectoryServer not populated
        ({"routing": True, "remote": True, "directory": True, "kind": T.PRIMARY_ENTERPRISE_CONTROLLER}, 0x19),
    ],
)
def test_service_bits_are_computed(arguments, expected):
    assert service(**arguments) == expected


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.5")
@pytest.mark.parametrize(
    ("directory", "bits", "expected"),
    [
        (False, 0x0E, None),
        (True, 0x00, T.STANDALONE),
        (True, 0x11, T.STANDALONE),
        (True, 0x02, T.BACKUP_SITE_CONTROLLER),
        (True, 0x04, T.PRIMARY_SITE_CONTROLLER),
        (True, 0x08, T.PRIMARY_ENTERPRISE_CONTROLLER),
        (True, 0x0C, T.PRIMARY_ENTERPRISE_CONTROLLER),
        (True, 0x1B, T.PRIMARY_ENTERPRISE_CONTROLLER),
    ],
)
def test_the_directory_server_type_is_read_from_its_bit(directory, bits, expected):
    assert compute.compute_directory_server_type(directory_server=directory, service=bits) is expected


@pytest.mark.parametrize(("bits", "expected"), [(0x10, True), (0x1F, True), (0x0F, False), (0, False)])
def test_remote_access_is_bit_0x10(bits, expected):
    assert compute.is_remote_access_server(bits) is expected


@pytest.mark.parametrize("kind", list(T))
@pytest.mark.parametrize("remote", [True, False])
def test_service_bits_go_both_ways(kind, remote):
    bits = service(True, remote, True, kind)
    assert compute.compute_directory_server_type(directory_server=True, service=bits) is kind
    assert compute.is_remote_access_server(bits) is remote


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.1")
@pytest.mark.parametrize(
    ("dn", "name"),
    [
        ("CN=msmq,CN=Web01,CN=Computers,DC=example,DC=com", "Web01"),
        ("cn=msmq, cn=web01, cn=Computers", "web01"),
        (r"cn=msmq,cn=a\2Cb\\c,cn=Computers,dc=x", r"a,b\c"),
    ],
)
def test_the_computer_name_is_in_the_dn(dn, name):
    assert compute.read_computer_name(dn) == name


def test_a_dn_that_is_too_short_names_no_computer():
    with pytest.raises(ValueError, match="has 1 names, 2 are expected"):
        compute.read_computer_name("CN=msmq")
    with pytest.raises(ValueError, match="names, 3 are expected"):
        compute.read_queue_place("CN=q,CN=msmq")
    for wrong in ("", "no dn"):
        with pytest.raises(ValueError, match=r"."):
            compute.read_queue_place(wrong)


def test_the_place_of_a_queue_is_in_its_dn():
    place = compute.read_queue_place(r"cn=o\2Crders,cn=msmq,cn=WEB01,ou=dmz,dc=example,dc=com")
    assert (place.cn, place.computer) == ("o,rders", "WEB01")


LONG = "queue" + "x" * 55
CN, EXTENSION = LONG[:55] + "-0123abcd", r"Rest\#1"


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.1")
@pytest.mark.parametrize(
    ("cn", "extension", "queue"),
    [
        ("Orders", None, "orders"),
        ("Orders-0123abcd", None, "orders-0123abcd"),
        (CN, EXTENSION, LONG[:55] + "rest#1"),
        (CN, None, CN),
        ("Orders", "ignored", "orders"),
    ],
)
def test_path_names_are_made_of_computer_name_and_extension(cn, extension, queue):
    assert compute.build_pathname("WEB01", cn, extension) == "web01\\" + queue


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.2")
def test_qualified_path_names_use_the_dns_name():
    assert compute.build_qualified_pathname("Web01.Example.COM", CN, EXTENSION) == (
        "web01.example.com\\" + LONG[:55] + "rest#1"
    )
    assert compute.build_qualified_pathname(None, "Orders", None) == ""
    assert compute.build_qualified_pathname("", "Orders", None) == ""


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.6")
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], False),
        (["HOST/web01"], False),
        (["HOST/web01", "MSClusterVirtualServer/web01.example.com"], True),
        (["x/MSClusterVirtualServer"], True),
        (["MSClusterVirtual/Server"], False),
    ],
)
def test_a_cluster_is_told_by_its_service_principal_name(names, expected):
    assert compute.is_clustered(names) is expected


def test_directory_paths():  # M15
    dn = "CN=q,CN=msmq,CN=m1,CN=Computers,DC=example,DC=com"
    assert compute.build_directory_path(dn) == f"LDAP://{dn}"
    for path in (f"LDAP://{dn}", f"LDAP:///{dn}", f"ldap://dc1.example.com/{dn}", f"LDAP://dc1:389/{dn}"):
        assert compute.dn_of_directory_path(path) == DN.parse(dn)
    slashed = "CN=a/b,CN=msmq,CN=m1,DC=x"
    assert compute.dn_of_directory_path(f"LDAP://{slashed}").name == "a/b"
    assert compute.dn_of_directory_path(f"LDAP://server/{slashed}").name == "a/b"
    for wrong in (
        dn,
        "",
        "LDAP://",
        "LDAP:///",
        "LDAP://server",
        "LDAP://server/",
        "http://x/CN=q",
        "LDAP:CN=q",
    ):
        with pytest.raises(ValueError, match=r"."):
            compute.dn_of_directory_path(wrong)


def test_links_are_named_by_both_sites():
    one, two = UUID("16ED6A7D-1B8E-4AE8-B37E-5C1D8B8F0A11"), UUID(int=1)
    name = compute.link_name(one, two)
    assert name == "16ed6a7d1b8e4ae8b37e5c1d8b8f0a11" + "0" * 31 + "1"
    assert len(name) == 64  # the longest cn that Active Directory takes
