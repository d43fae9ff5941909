"""Distinguished names: parsing, canonical text, comparison, and what is refused (M3, M36)."""

import pickle

import pytest

from mqdssm.model.dn import DN, escape_value, first_values, normalize

QUEUE = "cn=q1,cn=msmq,cn=m1,cn=computers,dc=example,dc=com"


def test_parts_of_a_plain_dn():
    dn = DN.parse(QUEUE)
    assert str(dn) == QUEUE
    assert dn.name == "q1"
    assert dn.rdn == (("cn", "q1"),)
    assert len(dn) == 6
    assert str(dn.parent.parent) == "cn=m1,cn=computers,dc=example,dc=com"
    assert str(dn.parent.child("CN", "a,b")) == "CN=a\\,b,cn=msmq,cn=m1,cn=computers,dc=example,dc=com"
    assert str(DN.of(("CN", "x"), ("CN", "msmq"))) == "CN=x,CN=msmq"


def test_the_root():
    assert str(DN()) == "" == str(DN.parse("")) == str(DN.parse("  "))
    assert len(DN()) == 0
    assert DN().rdn == ()
    assert DN().name == ""
    assert DN.parse("DC=com").parent == DN()
    assert str(DN.parse("DC=a\\,b").parent) == ""
    with pytest.raises(ValueError, match="no parent"):
        _ = DN().parent
    with pytest.raises(ValueError, match="no parent"):
        _ = DN.parse("").parent


@pytest.mark.parametrize(
    ("text", "value", "canonical"),
    [
        (r"CN=a\,b,DC=x", "a,b", r"CN=a\,b,DC=x"),
        (r"CN=a\2Cb,DC=x", "a,b", r"CN=a\,b,DC=x"),
        (r"CN=a\3Bb\3Db,DC=x", "a;b=b", r"CN=a\;b\=b,DC=x"),
        (r"CN=\#x,DC=x", "#x", r"CN=\#x,DC=x"),
        (r"CN=a\#x,DC=x", "a#x", "CN=a#x,DC=x"),
        (r"CN=a\\b,DC=x", "a\\b", r"CN=a\\b,DC=x"),
        (r"CN=a\/b,DC=x", "a/b", "CN=a/b,DC=x"),
        (r"CN=a\0Ab,DC=x", "a\nb", r"CN=a\0Ab,DC=x"),
        (r"CN=a\00b,DC=x", "a\0b", r"CN=a\00b,DC=x"),
        (r"CN=\ ,DC=x", " ", r"CN=\ ,DC=x"),
        (r"CN=\  ab,DC=x", "  ab", r"CN=\  ab,DC=x"),
        (r"CN=ab\ ,DC=x", "ab ", r"CN=ab\ ,DC=x"),
        (r"CN=ab\ \ ,DC=x", "ab  ", r"CN=ab \ ,DC=x"),
        (r"CN=ab\20  ,DC=x", "ab ", r"CN=ab\ ,DC=x"),
        (r"CN=\C3\BCb,DC=x", "üb", "CN=üb,DC=x"),
        ("CN=üb,DC=x", "üb", "CN=üb,DC=x"),
        ("  CN = a b , DC = x ", "a b", "CN=a b,DC=x"),
        ('CN="a,b+c;d \\"e\\" ",DC=x', 'a,b+c;d "e" ', r"CN=a\,b\+c\;d \"e\"\ ,DC=x"),
        ('CN="" ,DC=x', "", "CN=,DC=x"),
        ("CN=,DC=x", "", "CN=,DC=x"),
        ("CN=#04024869,DC=x", "Hi", "CN=Hi,DC=x"),
        ("CN=#0C02C3BC,DC=x", "ü", "CN=ü,DC=x"),
        ("CN=#1E0200FC,DC=x", "ü", "CN=ü,DC=x"),
        ("CN=#0481024869 ,DC=x", "Hi", "CN=Hi,DC=x"),
        ("OID.2.5.4.3=x,DC=x", "x", "2.5.4.3=x,DC=x"),
        ("CN=a=b,DC=x", "a=b", r"CN=a\=b,DC=x"),
        ("CN=a#b,DC=x", "a#b", "CN=a#b,DC=x"),
        ("CN=*)(objectClass=*,DC=x", "*)(objectClass=*", r"CN=*)(objectClass\=*,DC=x"),
    ],
)
def test_one_canonical_text_whatever_the_escapes(text, value, canonical):
    dn = DN.parse(text)
    assert dn.name == value
    assert str(dn) == canonical
    assert dn.parent == DN.parse("DC=x")
    again = DN.parse(canonical)
    assert again.rdns == dn.rdns
    assert first_values(text, 2) == (value, "x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("CN=a;b", "';' must be escaped"),
        ("CN=a<b", "'<' must be escaped"),
        ('CN=a"b', "must be escaped"),
        ("CN=a\0b", "must be escaped"),
        ("CN=a,", "attribute type"),
        (",CN=a", "attribute type"),
        ("CN", "'=' should stand here"),
        ("CN a=b", "'=' should stand here"),
        ("=a", "attribute type"),
        ("1=a", "attribute type"),
        ("CN=a\\", "without anything to escape"),
        ("CN=a\\x", "without anything to escape"),
        ("CN=a\\4", "without anything to escape"),
        ("CN=\\FF", "no UTF-8"),
        ("CN=\\C3x", "no UTF-8"),
        ('CN="a', "closing quote"),
        ('CN="a"b', "',' should stand here"),
        ("CN=#", "pairs of hexadecimal digits"),
        ("CN=#4", "pairs of hexadecimal digits"),
        ("CN=#04", "no BER encoding"),
        ("CN=#0403AA", "no BER encoding"),
        ("CN=#0401FF", "no BER encoding"),
        ("CN=#020101", "no BER encoding"),
        ("CN=#04024869x", "',' should stand here"),
        ("CN=\ud800", "surrogate"),
        ("CN=a+", "attribute type"),
    ],
)
def test_what_is_no_dn_is_refused_with_the_reason(text, why):
    with pytest.raises(ValueError, match=why):
        DN.parse(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CN=Web01,CN=Computers", "cn=web01, cn = COMPUTERS"),
        ("2.5.4.3=x,0.9.2342.19200300.100.1.25=y", "commonName=x,domainComponent=y"),
        ("CN=a  b", "CN= A b"),
        (r"CN=\  ab\ ", "CN=ab"),
        ("CN=STRAßE", "CN=straße"),
        ("CN=\u212a", "CN=k"),
        ("CN=e\u0301", "CN=\u00e9"),
        ("CN=\ufb01x", "CN=FIX"),
        ("CN=a+OU=b,DC=x", "OU=B+cn=A,dc=X"),
        (r"CN=a\,b", 'CN="a,b"'),
        ("CN=ΟΔΟΣ", "CN=οδοσ"),
    ],
)
def test_names_of_one_object_are_equal(one, other):
    assert DN.parse(one) == DN.parse(other)
    assert hash(DN.parse(one)) == hash(DN.parse(other))
    assert normalize(one) == normalize(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CN=a,CN=b", "CN=b,CN=a"),
        ("CN=a", "OU=a"),
        (r"CN=a\,CN=b", "CN=a,CN=b"),
        (r"CN=a\+OU=b", "CN=a+OU=b"),
        (r"CN=\ ", "CN="),
        ("CN=ab", "CN=a b"),
        (r"CN=a\\2cb", r"CN=a\,b"),
        # slapd holds each of these two beside the other
        ("CN=strasse", "CN=straße"),
        ("CN=iv", "CN=\u2163"),
        ("CN=οδος", "CN=ΟΔΟΣ"),
        ("CN=i\u0307", "CN=\u0130"),
        ("CN=STRA\u1e9eE", "CN=straße"),
    ],
)
def test_names_of_different_objects_differ(one, other):
    assert DN.parse(one) != DN.parse(other)


def test_below():
    root = DN.parse("DC=example,DC=com")
    queue = DN.parse(QUEUE)
    assert queue.is_below(root)
    assert queue.is_at_or_below(root)
    assert queue.is_below(queue.parent)
    assert not queue.is_below(queue)
    assert queue.is_at_or_below(DN.parse(QUEUE.upper()))
    assert not root.is_below(queue)
    assert queue.is_below(DN())
    assert not DN().is_below(DN())
    assert not DN.parse("CN=x,DC=notexample,DC=com").is_below(root)
    # a comma inside a value separates nothing
    assert not DN.parse(r"CN=x\,DC=com").is_below(DN.parse("DC=com"))


def test_dns_are_values():
    dn = DN.parse(r"CN=a\,b,DC=x")
    assert pickle.loads(pickle.dumps(dn)) == dn
    assert pickle.loads(pickle.dumps(DN.parse(QUEUE))).rdns == DN.parse(QUEUE).rdns
    assert {dn: 1}[DN.parse('cn="A,B",dc=X')] == 1
    assert dn != str(dn)
    assert repr(dn) == r"DN('CN=a\\,b,DC=x')"
    with pytest.raises(AttributeError, match="never changes"):
        dn.rdns = ()
    with pytest.raises(AttributeError, match="never changes"):
        del dn._text


def test_a_dn_is_not_made_of_what_no_directory_takes():
    for value in ("", "\ud800"):
        with pytest.raises(ValueError):
            DN().child("CN", value)
        with pytest.raises(ValueError):
            DN.of(("CN", value))
    with pytest.raises(ValueError, match="attribute type"):
        DN().child("C N", "x")


def test_first_values_looks_only_where_it_must():
    assert first_values(QUEUE, 3) == ("q1", "msmq", "m1")
    assert first_values(QUEUE, 10) == ("q1", "msmq", "m1", "computers", "example", "com")
    assert first_values("CN=x , CN = MSMQ Settings,DC=y", 2) == ("x", "MSMQ Settings")
    assert first_values("", 1) == ()
    with pytest.raises(ValueError, match="no distinguished name"):
        first_values("CN=x,y", 2)


def test_a_value_is_escaped_only_where_servers_want_it():
    assert escape_value("a=b/c#d e") == "a\\=b/c#d e"
    assert escape_value("  ") == "\\ \\ "
    assert escape_value("# ") == "\\#\\ "
    assert escape_value("") == ""
    assert escape_value("\x7f\x1f") == "\\7F\\1F"
