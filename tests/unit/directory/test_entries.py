"""Entries: the generic decoder, and the entry of a post-read control."""

import pytest

from mqdssm.directory import entries
from mqdssm.directory.ber import NAME_BYTES_MAX, tlv
from mqdssm.directory.entries import PartialValues, decode_entry
from mqdssm.directory.requests import LdapControl
from mqdssm.directory.responses import split_messages
from mqdssm.errors import DecodeError


def short(tag, content):
    return tlv(tag, content)


def long(tag, content):
    """Constructed elements as Active Directory writes them."""
    if tag == 0x04:
        return tlv(tag, content)
    return bytes((tag, 0x84)) + len(content).to_bytes(4, "big") + content


def attribute(name, *values, form=short):
    content = form(0x31, b"".join(form(0x04, value) for value in values))
    return form(0x30, form(0x04, name) + content)


def entry(dn, *attributes, form=short):
    """The content of a SearchResultEntry."""
    return form(0x04, dn) + form(0x30, b"".join(attributes))


def decoded(content):
    return decode_entry(content, 0, len(content))


@pytest.mark.parametrize("form", [short, long])
def test_an_entry(form):
    content = entry(
        "CN=Größe,DC=x".encode(),
        attribute(b"objectClass", b"top", b"mSMQQueue", form=form),
        attribute(b"objectGUID", bytes(range(16)), form=form),
        attribute(b"mSMQSites", form=form),
        attribute(b"nTSecurityDescriptor", bytes(300), form=form),
        form=form,
    )
    found = decode_entry(b"before" + content + b"behind", 6, 6 + len(content))
    assert found.dn == "CN=Größe,DC=x"
    assert found.attributes == {
        "objectclass": [b"top", b"mSMQQueue"],
        "objectguid": [bytes(range(16))],
        "msmqsites": [],
        "ntsecuritydescriptor": [bytes(300)],
    }
    assert found.controls == ()
    assert found.first("objectClass") == b"top"
    assert found.first("OBJECTCLASS") == b"top"
    assert found.first("mSMQSites") is None
    assert found.first("cn") is None
    assert found.all("ObjectClass") == [b"top", b"mSMQQueue"]
    assert found.all("cn") == []


@pytest.mark.parametrize("size", [0, 1, 2, 127, 128, 129, 130, 131, 255, 256, 65535, 65536, 70000])
def test_values_of_every_length_form(size):
    content = entry(b"CN=a", attribute(b"x", bytes(size)), attribute(b"y", b"a", bytes(size)))
    assert decoded(content).attributes == {"x": [bytes(size)], "y": [b"a", bytes(size)]}


def test_an_entry_without_attributes():
    found = decoded(entry(b""))
    assert (found.dn, found.attributes) == ("", {})


def test_controls_of_the_message():
    control = tlv(0xA0, tlv(0x30, tlv(0x04, b"1.2") + tlv(0x04, b"v")))
    octets = tlv(0x30, b"\x02\x01\x05" + tlv(0x64, entry(b"CN=a", attribute(b"cn", b"a"))) + control)
    (message,), _ = split_messages(octets)
    found = decode_entry(octets, message.start, message.end, message.stop)
    assert found.controls == (LdapControl("1.2", critical=False, value=b"v"),)
    assert decode_entry(octets, message.start, message.end).controls == ()


def test_every_truncation_and_one_octet_more():
    content = entry(b"CN=a", attribute(b"cn", b"a"), attribute(b"x", b"1", b"22"), attribute(b"y"))
    for cut in range(len(content)):
        with pytest.raises(DecodeError):
            decode_entry(content, 0, cut)  # what follows is still in the buffer
        with pytest.raises(DecodeError):
            decode_entry(content[:cut], 0, cut)
        with pytest.raises(DecodeError):
            decode_entry(content[:cut], 0, len(content))
    with pytest.raises(DecodeError):
        decoded(content + b"\0")


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("0500" + "3000", "objectName"),
        ("0401ff" + "3000", "objectName"),  # no UTF-8
        ("0400" + "3100", "attributes"),
        ("0400" + "3001" + "00", "PartialAttribute"),
        ("0400" + "3000" + "30050401613100", "attributes"),  # the list ends before the entry
        ("0400" + "3080" + "0000", "attributes"),
        ("0400" + "3007" + "3080" + "0401613100", "PartialAttribute"),
        ("0400" + "3007" + "3006" + "0401613100", "PartialAttribute"),
        ("0400" + "3008" + "3005" + "0401613100" + "00", "PartialAttribute"),
        ("0400" + "3007" + "3005" + "0501613100", "type"),
        ("0400" + "3007" + "3005" + "0401613000", "vals"),
        ("0400" + "3007" + "3005" + "0401613101", "vals"),
        ("0400" + "3007" + "3005" + "0403613100", "vals"),
        ("0400" + "3007" + "3005" + "0407613100", "vals"),
        ("0400" + "3006" + "3004" + "04003100", "type"),  # empty description
        ("0400" + "3007" + "3005" + "0401203100", "type"),  # a blank
        ("0400" + "3007" + "3005" + "0401ff3100", "type"),
        ("0400" + "3009" + "3007" + "0401613102" + "0500", "value"),
        ("0400" + "3009" + "3007" + "0401613102" + "0401", "value"),
        ("0400" + "3009" + "3007" + "0401613102" + "0480", "value"),
        ("0400" + "3009" + "3005" + "0401613102" + "0400", "vals"),  # the set leaves the attribute
        ("0400" + "3009" + "3007" + "0401613100" + "0400", "vals"),  # and the attribute the set
    ],
)
def test_what_is_no_entry(content, field):
    with pytest.raises(DecodeError) as caught:
        decoded(bytes.fromhex(content))
    assert caught.value.field == field
    assert "RFC4511" in str(caught.value)


def test_names_have_a_limit():
    at_limit = entry(b"a" * NAME_BYTES_MAX, attribute(b"b" * NAME_BYTES_MAX, b"v"))
    assert decoded(at_limit).attributes == {"b" * NAME_BYTES_MAX: [b"v"]}
    with pytest.raises(DecodeError):
        decoded(entry(b"a" * (NAME_BYTES_MAX + 1)))
    with pytest.raises(DecodeError):
        decoded(entry(b"a", attribute(b"b" * (NAME_BYTES_MAX + 1), b"v")))


def test_attributes_and_values_have_a_limit(monkeypatch):
    monkeypatch.setattr(entries, "ATTRIBUTES_MAX", 3)
    monkeypatch.setattr(entries, "VALUES_MAX", 4)
    names = [b"a", b"b", b"c", b"d"]
    assert len(decoded(entry(b"", *map(attribute, names[:3]))).attributes) == 3
    with pytest.raises(DecodeError, match="more than 3"):
        decoded(entry(b"", *map(attribute, names)))
    assert decoded(entry(b"", attribute(b"a", *names))).all("a") == names
    with pytest.raises(DecodeError, match="more than 4 values"):
        decoded(entry(b"", attribute(b"a", *names, b"e")))


def test_the_memory_for_names_is_bounded(monkeypatch):
    monkeypatch.setattr(entries, "KEYS_MAX", 10)
    monkeypatch.setattr(entries, "_keys", {})
    for number in range(100):
        assert entries.parse_attribute_key(b"A%d" % number) == (f"a{number}", 0)
        assert len(entries._keys) <= 10
    long_name = b"x" * (entries.KEY_BYTES_MAX + 1)
    assert entries.parse_attribute_key(long_name) == (long_name.decode(), 0)
    assert long_name not in entries._keys


@pytest.mark.parametrize(
    ("description", "key"),
    [
        (b"CN", ("cn", 0)),
        (b"userCertificate;Binary", ("usercertificate", 0)),
        (b"description;lang-DE", ("description;lang-de", 0)),
        (b"member;range=0-1499", ("member", 1500)),
        (b"member;Range=1500-*", ("member", 0)),
        (b"x;binary;lang-de;range=0-0", ("x;lang-de", 1)),
        (b"2.5.4.3", ("2.5.4.3", 0)),
    ],
)
def test_descriptions_with_options(description, key):
    assert entries.parse_attribute_key(description) == key
    assert entries.parse_attribute_key(description) == key  # remembered


def test_a_range_of_values_is_never_taken_for_all_of_them():
    """Active Directory sends the name without values beside the range."""
    for order in (1, -1):
        pair = [attribute(b"member"), attribute(b"member;range=0-1", b"a", b"b")][::order]
        found = decoded(entry(b"CN=g", *pair)).attributes["member"]
        assert found == [b"a", b"b"]
        assert isinstance(found, PartialValues)
        assert found.next_index == 2
    last = decoded(entry(b"CN=g", attribute(b"member;range=2-*", b"c"))).attributes["member"]
    assert last == [b"c"]
    assert not isinstance(last, PartialValues)


def test_an_attribute_that_comes_twice_keeps_all_values():
    found = decoded(entry(b"", attribute(b"cn", b"a"), attribute(b"CN", b"b")))
    assert found.attributes == {"cn": [b"a", b"b"]}
