"""Distinguished names survive printing and parsing, whatever their values contain (M3, M36)."""

import re
import string
from unicodedata import normalize as normalize_text

from hypothesis import example, given
from hypothesis import strategies as st

from mqdssm.model.dn import DN, first_values, normalize

NASTY = st.text(st.sampled_from(' \\,+"<>;=#\0\n\r\t\x7f/aé\u0301\u212aİßﬁ\u0345𝄞2C'), min_size=1, max_size=8)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
VALUES = NASTY | TEXTS
TYPES = st.sampled_from(["CN", "cn", "OU", "DC", "2.5.4.3", "uid", "x-attr"])
PAIRS = st.lists(st.tuples(TYPES, VALUES), max_size=5)
RDNS = st.lists(st.lists(st.tuples(TYPES, VALUES), min_size=1, max_size=2).map(tuple), max_size=4).map(tuple)


@given(RDNS)
def test_print_and_parse(rdns):
    dn = DN(rdns)
    again = DN.parse(str(dn))
    assert again.rdns == rdns
    assert str(again) == str(dn)
    assert again == dn
    assert len(dn) == len(rdns)


@given(PAIRS)
@example([("CN", " "), ("CN", "#")])
def test_every_way_to_escape_gives_the_same_name(pairs):
    dn = DN.of(*pairs)
    in_hex = ",".join(f"{t}=" + "".join(f"\\{byte:02x}" for byte in value.encode()) for t, value in pairs)
    quoted = " , ".join(
        f"{t} = " + '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for t, value in pairs
    )
    assert DN.parse(in_hex).rdns == dn.rdns
    assert DN.parse(quoted).rdns == dn.rdns
    assert str(DN.parse(in_hex)) == str(DN.parse(quoted)) == str(dn)
    assert first_values(str(dn), 3) == tuple(value for _, value in pairs[:3])


@given(RDNS)
def test_normalizing_again_changes_nothing(rdns):
    dn = DN(rdns)
    assert DN.parse(str(dn)).normalized == dn.normalized
    shouted = [tuple((t.upper(), re.sub("[a-z]", lambda c: c[0].upper(), v)) for t, v in rdn) for rdn in rdns]
    assert DN(tuple(shouted)).normalized == dn.normalized


@given(VALUES)
def test_composed_and_decomposed_text_is_one(value):
    value = value.replace("\u0130", "")  # its lower case is two characters, which slapd tells apart
    parts = DN.of(("CN", normalize_text("NFD", value) or "x"))
    assert DN.of(("CN", normalize_text("NFC", value) or "x")).normalized == parts.normalized


@given(PAIRS, TYPES, VALUES)
def test_a_child_lies_below_its_parent_and_nowhere_else(pairs, attribute, value):
    parent = DN.of(*pairs)
    child = parent.child(attribute, value)
    assert child.parent == parent
    assert child.name == value
    assert child.is_below(parent)
    assert not parent.is_below(child)
    other = DN.of(*pairs, ("DC", "other"))
    assert not child.is_below(other) or child.normalized.endswith(other.normalized)


@given(st.text(st.sampled_from(string.ascii_letters + ' ,=+"\\#<>;\0é4'), max_size=30))
def test_any_text_is_a_name_or_a_value_error(text):
    try:
        dn = DN.parse(text)
    except ValueError:
        return
    assert DN.parse(str(dn)).rdns == dn.rdns
    assert normalize(text) == dn.normalized
