"""Requests: the octets of whole messages, by hand and as ldap3 2.9.1 would write them."""

import re

import pytest
from ldap3.operation.add import add_operation
from ldap3.operation.delete import delete_operation
from ldap3.operation.modify import modify_operation
from ldap3.operation.modifyDn import modify_dn_operation
from ldap3.operation.search import search_operation
from ldap3.protocol.convert import build_controls_list
from ldap3.protocol.rfc4511 import LDAPMessage, MessageID, ProtocolOp
from ldap3.utils.asn1 import encode as ldap3_encode
from support.directory.search_requests import encode_search

from mqdssm.directory import requests as lib
from mqdssm.directory.filters import Equal, encode, parse_text
from mqdssm.directory.requests import ChangeType, LdapControl, Modification, SearchScope

EVERYTHING = encode(parse_text("(objectClass=*)"))
DN = "CN=q\\,1,CN=msmq,CN=Größe,DC=example,DC=com"


def by_ldap3(message_id, kind, operation, controls=()):
    """The message as ldap3 puts it on the wire."""
    message = LDAPMessage()
    message["messageID"] = MessageID(message_id)
    message["protocolOp"] = ProtocolOp().setComponentByName(kind, operation)
    if controls:
        message["controls"] = build_controls_list(controls)
    return ldap3_encode(message)


@pytest.mark.spec("MS-MQDSSM 3.1.6.12")
@pytest.mark.spec("MS-MQDSSM 3.1.6.15")
def test_the_search_message_octet_by_octet():
    """Never an alias dereferenced, no size limit, values not types only."""
    octets = encode_search(7, "DC=x", SearchScope.BASE, EVERYTHING, ["objectClass"])
    assert octets == bytes.fromhex(
        "3036"
        "020107"  # messageID
        "6331"  # searchRequest
        "040444433d78"  # baseObject
        "0a0100"  # scope = baseObject
        "0a0100"  # derefAliases = neverDerefAliases
        "020100"  # sizeLimit
        "020100"  # timeLimit
        "010100"  # typesOnly = FALSE
        "870b6f626a656374436c617373"  # (objectClass=*)
        "300d040b6f626a656374436c617373"
    )


@pytest.mark.spec("MS-MQDSSM 3.1.6.15")
@pytest.mark.parametrize("scope", list(SearchScope))
def test_search_as_ldap3_writes_it(scope):
    text = r"(&(objectClass=mSMQQueue)(objectGUID=\00\5c\2a\28\29\ff)(!(mSMQLabelEx=a*b)))"
    attributes = ["cn", "objectGUID", "*", "+"]
    ours = encode_search(
        200,
        DN,
        scope,
        encode(parse_text(text)),
        attributes,
        size_limit=5,
        time_limit=120,
        types_only=True,
    )
    theirs = search_operation(DN, text, int(scope), 0, attributes, 5, 120, True, False, False, None)
    assert ours == by_ldap3(200, "searchRequest", theirs)


@pytest.mark.spec("MS-MQDSSM 3.1.6.12")
def test_add_as_ldap3_writes_it():
    attributes = {
        "objectClass": [b"top", b"mSMQQueue"],
        "objectGUID": [bytes(range(16))],
        "mSMQLabelEx": ["Große Körbe".encode()],
        "nTSecurityDescriptor": [bytes(300)],
    }
    theirs = by_ldap3(70000, "addRequest", add_operation(DN, attributes, False))
    assert lib.encode_add(70000, DN, attributes) == theirs


@pytest.mark.spec("MS-MQDSSM 3.1.6.16")
def test_modify_as_ldap3_writes_it():
    changes = [
        Modification(ChangeType.REPLACE, "mSMQLabelEx", [b"a"]),
        Modification(ChangeType.REPLACE, "mSMQQuota"),
        Modification(ChangeType.ADD, "mSMQSites", [bytes(16), b"\xff" * 16]),
        Modification(ChangeType.DELETE, "mSMQOwnerID"),
        Modification(ChangeType.INCREMENT, "mqisSequence", [b"1"]),
    ]
    theirs = modify_operation(
        DN, {c.attribute: [(f"MODIFY_{c.op.name}", list(c.values))] for c in changes}, False
    )
    assert lib.encode_modify(1, DN, changes) == by_ldap3(1, "modifyRequest", theirs)


@pytest.mark.spec("MS-MQDSSM 3.1.6.13")
def test_delete_as_ldap3_writes_it():
    assert lib.encode_delete(3, DN) == by_ldap3(3, "delRequest", delete_operation(DN))


@pytest.mark.parametrize("superior", [None, "CN=Servers,DC=example,DC=com"])
@pytest.mark.parametrize("delete_old", [True, False])
def test_modify_dn_as_ldap3_writes_it(superior, delete_old):
    ours = lib.encode_modify_dn(9, DN, "CN=neu", new_superior=superior, delete_old_rdn=delete_old)
    assert ours == by_ldap3(9, "modDNRequest", modify_dn_operation(DN, "CN=neu", delete_old, superior))


def test_a_message_without_an_answer():
    assert lib.encode_unbind(5).hex() == "30050201054200"


def test_extended():
    assert lib.encode_extended(1, "1.3.6.1.4.1.4203.1.11.3").hex() == (
        "301e0201017719" + "8017" + b"1.3.6.1.4.1.4203.1.11.3".hex()
    )
    assert lib.encode_extended(1, "1.2", b"\x30\x00").hex() == "300e0201017709" + "8003312e32" + "81023000"
    assert lib.encode_extended(1, "1.2", b"").hex() == "300c0201017707" + "8003312e32" + "8100"


@pytest.mark.parametrize(
    "controls",
    [
        [LdapControl("1.2.840.113556.1.4.319", critical=True, value=b"\x30\x05\x02\x01\x05\x04\x00")],
        [LdapControl("1.2.3", critical=True), LdapControl("1.2.4", critical=False, value=b"\xff")],
        [LdapControl("1.2.3", critical=True, value=b"x" * 200)],
    ],
)
def test_controls_as_ldap3_writes_them(controls):
    ours = lib.encode_delete(3, DN, controls)
    theirs = by_ldap3(3, "delRequest", delete_operation(DN), [(c.oid, c.critical, c.value) for c in controls])
    assert ours == theirs


def test_an_empty_control_value_is_not_an_absent_one():
    absent = lib.encode_delete(1, "", [LdapControl("1.2")])
    empty = lib.encode_delete(1, "", [LdapControl("1.2", value=b"")])
    assert absent.hex() == "300e0201014a00a007" + "30050403312e32"
    assert empty.hex() == "30100201014a00a009" + "30070403312e320400"


def test_paged_control():
    assert lib.make_paged_control(1000, b"\x01\x02") == LdapControl(
        "1.2.840.113556.1.4.319", critical=True, value=bytes.fromhex("3008020203e804020102")
    )


def test_assertion_control():
    condition = Equal("mSMQOwnerID", b"\0\1")
    assert lib.make_assertion_control(condition) == LdapControl(
        "1.3.6.1.1.12", critical=True, value=encode(condition)
    )


def test_deref_control():
    control = lib.make_deref_control({"member": ["cn", "sn"], "x": []})
    assert control.oid == "1.3.6.1.4.1.4203.666.5.16"
    assert not control.critical
    assert control.value == bytes.fromhex(
        "301b" + "3012" + "04066d656d626572" + "30080402636e0402736e" + "3005" + "040178" + "3000"
    )


def test_no_attribute_names_mean_no_attributes():
    """LDAP itself would return all of them."""
    octets = encode_search(1, "", SearchScope.BASE, EVERYTHING, [])
    assert octets.endswith(bytes.fromhex("3005" + "0403312e31"))


@pytest.mark.parametrize("name", ["", "c n", "cn)", "**", "cn=a", "@", "@c n", "1.1.", "ä"])
def test_names_that_are_no_attribute_are_refused_before_anything_is_sent(name):
    works = [
        lambda: encode_search(1, "", SearchScope.BASE, EVERYTHING, [name]),
        lambda: lib.encode_add(1, DN, {name: [b"a"]}),
        lambda: lib.encode_modify(1, DN, [Modification(ChangeType.REPLACE, name, [b"a"])]),
        lambda: lib.make_deref_control({name: ["cn"]}),
        lambda: lib.make_deref_control({"cn": [name]}),
    ]
    for work in works:
        with pytest.raises(ValueError, match="attribute description"):
            work()


@pytest.mark.parametrize("name", ["*", "+", "1.1", "@mSMQQueue", "cn;lang-de", "member"])
def test_selectors(name):
    octets = encode_search(1, "", SearchScope.BASE, EVERYTHING, [name])
    assert octets.endswith(b"\x04" + bytes((len(name),)) + name.encode())


def test_what_cannot_be_sent_is_refused():
    refused = {
        "has no value": lambda: lib.encode_add(1, DN, {"cn": []}),
        "needs a value": lambda: lib.encode_modify(1, DN, [Modification(ChangeType.ADD, "cn")]),
        "without any change": lambda: lib.encode_modify(1, DN, []),
        "message id 0": lambda: lib.encode_delete(0, DN),
        f"message id {2**31}": lambda: lib.encode_delete(2**31, DN),
        "message id -1": lambda: lib.encode_delete(-1, DN),
        "size limit -1": lambda: encode_search(1, "", SearchScope.BASE, EVERYTHING, [], size_limit=-1),
        f"time limit {2**31}": lambda: encode_search(
            1, "", SearchScope.BASE, EVERYTHING, [], time_limit=2**31
        ),
        "page size -5": lambda: lib.make_paged_control(-5),
        "no object identifier": lambda: lib.encode_extended(1, "1.2.x"),
        "'' is no object identifier": lambda: lib.encode_delete(1, DN, [LdapControl("")]),
        "65537 octets": lambda: lib.encode_delete(1, "a" * 65537),
        "surrogates": lambda: lib.encode_delete(1, "cn=\ud800"),
        "not a valid SearchScope": lambda: encode_search(1, "", 7, EVERYTHING, []),
        "not a valid ChangeType": lambda: lib.encode_modify(1, DN, [Modification(9, "cn", [b"a"])]),
    }
    for problem, work in refused.items():
        with pytest.raises(ValueError, match=re.escape(problem)):
            work()


def test_values_are_never_split_into_octets_by_mistake():
    for wrong in (b"abc", "abc"):
        with pytest.raises(TypeError):
            lib.encode_add(1, DN, {"cn": wrong})


@pytest.mark.parametrize("message_id", [1, 127, 128, 255, 256, 32767, 32768, 2**31 - 1])
def test_message_ids_are_positive_integers_on_the_wire(message_id):
    octets = lib.encode_unbind(message_id)
    width = octets[3]
    assert int.from_bytes(octets[4 : 4 + width], "big", signed=True) == message_id
