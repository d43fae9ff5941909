"""Search filters: the examples of [RFC4515], what must be escaped, what is no filter."""

import string

import pytest

from mqdssm.directory import filters
from mqdssm.directory.filters import (
    FALSE,
    FILTER_DEPTH_MAX,
    TRUE,
    And,
    Approx,
    Equal,
    Extensible,
    GreaterOrEqual,
    LessOrEqual,
    Not,
    Or,
    Present,
    Substrings,
    all_of,
    any_of,
    encode,
    escape,
    parse_text,
    to_text,
)

# [RFC4515] 4, with the octets of [RFC4511] 4.5.1.7 worked out by hand
EXAMPLES = [
    ("(cn=Babs Jensen)", Equal("cn", b"Babs Jensen"), "a311 0402 636e 040b 42616273204a656e73656e"),
    ("(!(cn=Tim Howes))", Not(Equal("cn", b"Tim Howes")), "a211 a30f 0402 636e 0409 54696d20486f776573"),
    (
        "(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))",
        And(
            (
                Equal("objectClass", b"Person"),
                Or((Equal("sn", b"Jensen"), Substrings("cn", initial=b"Babs J"))),
            )
        ),
        (
            "a037 a315 040b 6f626a656374436c617373 0406 506572736f6e"
            " a11e a30c 0402 736e 0406 4a656e73656e a40e 0402 636e 3008 8006 42616273204a"
        ),
    ),
    (
        "(o=univ*of*mich*)",
        Substrings("o", initial=b"univ", any=(b"of", b"mich")),
        "a415 0401 6f 3010 8004 756e6976 8102 6f66 8104 6d696368",
    ),
    ("(seeAlso=)", Equal("seeAlso", b""), "a30b 0407 736565416c736f 0400"),
    (
        "(cn:caseExactMatch:=Fred Flintstone)",
        Extensible("cn", "caseExactMatch", b"Fred Flintstone"),
        "a925 810e 6361736545786163744d61746368 8202 636e 830f 4672656420466c696e7473746f6e65".replace(
            "7 4", "74"
        ),
    ),
    (
        "(cn:=Betty Rubble)",
        Extensible("cn", None, b"Betty Rubble"),
        "a912 8202 636e 830c 426574747920527562626c65",
    ),
    (
        "(sn:dn:2.4.6.8.10:=Barney Rubble)",
        Extensible("sn", "2.4.6.8.10", b"Barney Rubble", dn_attributes=True),
        "a922 810a 322e342e362e382e3130 8202 736e 830d 4261726e657920527562626c65 8401ff",
    ),
    (
        "(o:dn:=Ace Industry)",
        Extensible("o", None, b"Ace Industry", dn_attributes=True),
        "a914 8201 6f 830c 41636520496e647573747279 8401ff",
    ),
    (
        "(:1.2.3:=Wilma Flintstone)",
        Extensible(None, "1.2.3", b"Wilma Flintstone"),
        "a919 8105 312e322e33 8310 57696c6d6120466c696e7473746f6e65",
    ),
    (
        r"(o=Parens R Us \28for all your parenthetical needs\29)",
        Equal("o", b"Parens R Us (for all your parenthetical needs)"),
        None,
    ),
    (r"(cn=*\2a*)", Substrings("cn", any=(b"*",)), "a409 0402 636e 3003 8101 2a"),
    (r"(filename=C:\5cMyFile)", Equal("filename", b"C:\\MyFile"), None),
    (r"(bin=\00\00\00\04)", Equal("bin", b"\0\0\0\x04"), "a30b 0403 62696e 0404 00000004"),
    ("(sn=Lučić)", Equal("sn", "Lučić".encode()), "a30d 0402 736e 0407 4c75c48d69c487"),
    (r"(1.3.6.1.4.1.1466.0=\04\02Hi)", Equal("1.3.6.1.4.1.1466.0", b"\x04\x02Hi"), None),
    ("(a>=5)", GreaterOrEqual("a", b"5"), "a506 0401 61 0401 35"),
    ("(a<=5)", LessOrEqual("a", b"5"), "a606 0401 61 0401 35"),
    ("(a~=5)", Approx("a", b"5"), "a806 0401 61 0401 35"),
    ("(cn=*)", Present("cn"), "8702 636e"),
    ("(cn=*a)", Substrings("cn", final=b"a"), "a409 0402 636e 3003 8201 61"),
    ("(userCertificate;binary=*)", Present("userCertificate;binary"), None),
]


@pytest.mark.parametrize(("text", "value", "octets"), EXAMPLES, ids=[text for text, _, _ in EXAMPLES])
def test_examples_three_ways(text, value, octets):
    assert parse_text(text) == value
    assert to_text(value) == text
    if octets is not None:
        assert encode(value) == bytes.fromhex(octets)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(&)", TRUE),
        ("(|)", FALSE),
        (r"(sn=Lu\c4\8di\c4\87)", Equal("sn", "Lučić".encode())),
        (r"(a=\2A)", Equal("a", b"*")),
        ("(a= b )", Equal("a", b" b ")),
        ("(a=b=c>=d)", Equal("a", b"b=c>=d")),
        ("(cn:DN:=x)", Extensible("cn", None, b"x", dn_attributes=True)),
        ("(:dn:1.2:=x)", Extensible(None, "1.2", b"x", dn_attributes=True)),
        ("(&(a=b))", And((Equal("a", b"b"),))),
    ],
)
def test_other_forms_are_read(text, value):
    assert parse_text(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cn=a",
        "(cn=a",
        "cn=a)",
        "()",
        "(cn)",
        "(=a)",
        "(cn=a))",
        "(cn=a)(cn=b)",
        "((cn=a))",
        " (cn=a)",
        "(cn=a) ",
        "( cn=a)",
        "(cn =a)",
        "(& (cn=a))",
        "(&(cn=a) (cn=b))",
        "(!)",
        "(!(a=b)(c=d))",
        "(cn=a(b)",
        "(cn=a\\)",
        "(cn=\\2)",
        "(cn=\\zz)",
        "(cn=\\ 2a)",
        "(cn=a\0b)",
        "(cn=a**b)",
        "(cn=**)",
        "(cn>=a*)",
        "(cn<=*)",
        "(cn~=(a))",
        "(:=a)",
        "(:dn:=a)",
        "(cn:1.2:dn:=a)",
        "(cn:=a*b)",
        "(c n=a)",
        "(1a=b)",
        "(01.2=b)",
        "(1=b)",
        "(ä=b)",
        "(cn;=b)",
        "(cn;a_b=c)",
        "(cn=\ud800)",
        "(&(cn=a)",
        "(&cn=a)",
        "(cn=１)x",
    ],
)
def test_what_is_no_filter(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_text(text)


@pytest.mark.parametrize("octet", range(256))
def test_every_octet_comes_back_and_none_can_end_a_value(octet):
    for value in (bytes((octet,)), b"a" + bytes((octet,)) + b"b", bytes((octet, octet))):
        text = escape(value)
        assert not set(text) & set("()*\0")
        assert text.isprintable()
        assert text == text.strip()
        assert parse_text(f"(cn={text})") == Equal("cn", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", ""),
        (b" ", r"\20"),
        (b"  a b ", r"\20\20a b\20"),
        (b"*)(objectClass=*", r"\2a\29\28objectClass=\2a"),
        (b"a,CN=b", "a,CN=b"),
        (rb"\00", r"\5c00"),
        (b"#x", "#x"),
        (b"\x7f\x80", r"\7f\80"),
        ("Ä\u00a0".encode(), r"\c3\84\c2\a0"),
        ("Ä*".encode(), r"Ä\2a"),
        (b"\xff a", r"\ff\20a"),
        (b"line\nbreak", r"line\0abreak"),
    ],
)
def test_escapes(value, text):
    assert escape(value) == text


@pytest.mark.parametrize("value", [b"*)(objectClass=*", b")(|(cn=*))", rb"\00", b"\\2a", b"a)(b=c", b"*"])
def test_a_value_that_is_a_fragment_of_a_filter_stays_a_value(value):
    """A value goes out as octets with its own length, never as text."""
    octets = encode(And((Equal("objectClass", b"mSMQQueue"), Equal("cn", value))))
    assert octets.endswith(b"\x04\x02cn\x04" + bytes((len(value),)) + value)
    assert parse_text(to_text(Equal("cn", value))) == Equal("cn", value)


@pytest.mark.parametrize(
    "name",
    ["", " cn", "cn ", "c n", "cn)(x", "*", "cn=a", "1", "1.", ".1", "a_b", "ä", "cn\0", "cn;", "cn\n"],
)
def test_names_that_are_no_attribute(name):
    for node in (
        Equal(name, b"a"),
        Present(name),
        Substrings(name, b"a"),
        GreaterOrEqual(name, b"a"),
        Extensible(name, None, b"a"),
    ):
        with pytest.raises(ValueError, match="attribute description"):
            encode(node)
        with pytest.raises(ValueError, match="attribute description"):
            to_text(node)


@pytest.mark.parametrize(
    "name", ["cn", "mSMQNt4Stub", "x-1", "2.5.4.3", "0.1", "cn;lang-de;binary", string.ascii_letters]
)
def test_names_that_are_attributes(name):
    assert encode(Present(name)) == bytes((0x87, len(name))) + name.encode()


def test_matching_rules_are_checked():
    for rule in ("a b", "1.2:", "", "ä"):
        with pytest.raises(ValueError, match="matching rule"):
            encode(Extensible("cn", rule, b"a"))
        with pytest.raises(ValueError, match="matching rule"):
            to_text(Extensible("cn", rule, b"a"))
    with pytest.raises(ValueError, match="attribute or a matching rule"):
        Extensible(None, None, b"a")


def _nested(depth):
    node = Present("cn")
    for _ in range(depth - 1):
        node = Not(node)
    return node


def test_nesting_is_bounded():
    deep, too_deep = _nested(FILTER_DEPTH_MAX), _nested(FILTER_DEPTH_MAX + 1)
    assert parse_text(to_text(deep)) == deep
    assert encode(deep).endswith(b"\x87\x02cn")
    for work in (encode, to_text):
        with pytest.raises(ValueError, match="deeper than 100"):
            work(too_deep)
    with pytest.raises(ValueError, match="deeper than 100"):
        parse_text("(!" * FILTER_DEPTH_MAX + "(cn=*)" + ")" * FILTER_DEPTH_MAX)
    with pytest.raises(ValueError, match="deeper than 100"):
        parse_text("(&" * 100_000)


def test_long_text_is_refused(monkeypatch):
    monkeypatch.setattr(filters, "FILTER_TEXT_CHARS_MAX", 10)
    assert parse_text("(cn=12345)") == Equal("cn", b"12345")
    with pytest.raises(ValueError, match="11 characters, more than 10"):
        parse_text("(cn=123456)")


def test_sets_without_operands():
    one = Present("cn")
    assert all_of() == TRUE
    assert any_of() == FALSE
    assert all_of(one) is one
    assert any_of(one) is one
    assert all_of(one, one) == And((one, one))
    assert any_of(one, one) == Or((one, one))
    for kind in (And, Or):
        with pytest.raises(ValueError, match="at least one operand"):
            kind(())


@pytest.mark.parametrize(
    "parts", [{}, {"initial": b""}, {"any": (b"a", b"")}, {"initial": b"a", "final": b""}]
)
def test_substrings_need_parts(parts):
    with pytest.raises(ValueError, match="at least one part"):
        Substrings("cn", **parts)


def test_the_error_names_the_position():
    with pytest.raises(ValueError, match=r"at character 7 .*'\)' is missing"):
        parse_text("(&(cn=a(")
