"""Queue names survive writing and reading, whatever they contain and wherever the cut falls (M7)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqdssm.model.queuenames import (
    check_new_name,
    check_stored_name,
    hash_string,
    list_rdn_candidates,
    lower_each,
    name_of,
    rdn_of,
    units_of,
)

SPECIAL = "\n/#><="
CLEF = "\U0001d11e"


def stored_characters() -> st.SearchStrategy[str]:
    plain = st.sampled_from("aZ0-.f")
    special = st.sampled_from(SPECIAL)
    odd = st.sampled_from([" ", ",", "+", '"', "ß", "İ", "Σ", "ς", "\u0301", CLEF, "\U00010400"])
    anything = st.characters(exclude_categories=["Cs"], exclude_characters="\0\\;")
    return plain | special | odd | anything


def fits(name: str) -> bool:
    try:
        check_stored_name(name)
    except ValueError:
        return False
    return True


# the interesting lengths lie around 55 and 63 units: a head of plain characters puts them there
STORED_NAMES = (
    st.tuples(
        st.text(stored_characters(), max_size=12),
        st.integers(0, 70).map("x".__mul__),
        st.text(stored_characters(), max_size=24),
        st.integers(0, 90).map("y".__mul__),
    )
    .map("".join)
    .filter(fits)
)
NEW_NAMES = st.text(
    st.sampled_from([chr(c) for c in range(0x21, 0x80) if chr(c) not in '"+,;\\']), min_size=1, max_size=124
)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.1")
@given(STORED_NAMES)
@example("x" * 54 + "/" + "y" * 9)
@example("x" * 54 + CLEF + "y" * 90)
@example("#" * 147)
@example("abc-0123abcd")
def test_every_form_reads_back_as_the_name(name):
    for cn, extension in list_rdn_candidates(name):
        assert name_of(cn, extension) == lower_each(name)
        assert units_of(cn) <= 64
        assert extension is None or 1 <= units_of(extension) <= 92
        cn.encode()
        (extension or "").encode()


@given(NEW_NAMES)
def test_what_may_be_created_can_be_stored(name):
    check_new_name(name)
    check_stored_name(name)
    assert name_of(*rdn_of(name)) == name.lower()


@given(STORED_NAMES)
def test_the_name_that_was_read_leads_to_the_same_object(name):
    read = name_of(*rdn_of(name))
    assert [lower_each(form.cn) for form in list_rdn_candidates(read)] == [
        lower_each(form.cn) for form in list_rdn_candidates(name)
    ]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
@given(STORED_NAMES)
def test_the_first_form_is_the_one_that_windows_computes(name):
    """The steps of 3.1.6.1.2.5, taken literally on UTF-16; where they cut a character, ours is another."""
    with_backslashes = "".join("\\" + c if c in SPECIAL else c for c in name).encode("utf-16-le")
    if len(with_backslashes) // 2 <= 63:
        assert rdn_of(name) == (name, None)
        return
    head = with_backslashes[:110].decode("utf-16-le", "surrogatepass")
    rest = with_backslashes[110:].decode("utf-16-le", "surrogatepass")
    legal = head[-1] != "\\" and not "\ud800" <= head[-1] <= "\udbff" and units_of(rest) <= 92
    if legal:
        digits = hash_string(with_backslashes.decode("utf-16-le"))
        assert rdn_of(name) == (f"{head.replace(chr(92), '')}-{digits}", rest)
    else:
        assert len(list_rdn_candidates(name)) == 1
        assert "\\" not in (rdn_of(name).extension or "")


@pytest.mark.spec("MS-MQDSSM 2.2.5")
@given(st.text(max_size=40), st.text(max_size=40))
def test_the_hash_goes_on_where_it_stopped(first, second):
    """The hash is a register of 32 bits without a final step: feeding it in two parts is the same."""
    from mqdssm.model.queuenames import HASH_TABLE

    value = int(hash_string(first), 16)
    for byte in lower_each(second).encode("utf-16-be", "surrogatepass"):
        value = value >> 8 ^ HASH_TABLE[(value ^ byte) & 0xFF]
    assert hash_string(first + second) == f"{value:08x}"
