"""Queue names: the hash of 2.2.5, the split of 3.1.6.1.2.5, reading back, on UTF-16 units (M1, M7)."""

from pathlib import Path

import pytest

from mqdssm.model.queuenames import (
    HASH_TABLE,
    QueueRdn,
    check_new_name,
    check_stored_name,
    hash_string,
    list_rdn_candidates,
    lower_each,
    name_of,
    rdn_of,
    units_of,
)

PUBLISHED = Path(__file__).parents[2] / "vectors" / "mqdssm-2.2.5-table.txt"
HUNDRED = "abcdefghij/" + ("abcdefghij" * 9)[:89]  # ten letters, a slash, 89 letters
CLEF = "\U0001d11e"  # two UTF-16 units


def published_table() -> list[str]:
    lines = PUBLISHED.read_text(encoding="ascii").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert [int(index) for index, _ in rows] == list(range(256))
    return [value for _, value in rows]


@pytest.mark.spec("MS-MQDSSM 2.2.5")
def test_the_generated_table_is_the_published_one_but_for_the_misprint():
    published = published_table()
    assert published[87] == "0xAF3050F"  # seven digits (M1)
    ours = [f"0x{value:08X}" for value in HASH_TABLE]
    assert ours[87] == "0xAFE3050F"
    assert ours[:87] + ours[88:] == published[:87] + published[88:]


@pytest.mark.spec("MS-MQDSSM 2.2.5")
@pytest.mark.parametrize(
    ("name", "digits"),
    [
        # computed by two writers of one queue, with and without the inserted backslash
        (HUNDRED.replace("/", "\\/"), "00e7e4fe"),
        (HUNDRED, "74abd631"),
        ("", "00000000"),
        ("\x00", "00000000"),
        ("\x01", "82e0fe45"),  # entry 1
        ("a" * 64, "3f309b2f"),
    ],
)
def test_worked_hashes(name, digits):
    assert hash_string(name) == digits


@pytest.mark.spec("MS-MQDSSM 2.2.5")
def test_the_hash_takes_the_high_byte_of_each_unit_first():
    def by_steps(name: str) -> str:
        value = 0
        for unit in name:
            value = value >> 8 ^ HASH_TABLE[ord(unit) >> 8 ^ value & 0xFF]
            value = value >> 8 ^ HASH_TABLE[ord(unit) & 0xFF ^ value & 0xFF]
        return f"{value:08x}"

    assert hash_string("übung") == by_steps("übung")
    assert hash_string("\u0416") == by_steps("\u0436")  # lower-cased first
    assert hash_string(CLEF) == by_steps("\ud834\udd1e")


@pytest.mark.spec("MS-MQDSSM 2.2.5")
def test_the_hash_is_the_same_in_any_case():
    assert hash_string("Orders-ÄÖ") == hash_string("oRDERS-äö")
    assert hash_string("Σ") == hash_string("σ") != hash_string("ς")  # no look at the context
    assert hash_string("İ") != hash_string("i")  # has no lower-case form of one unit


def test_lower_case_keeps_the_number_of_units():
    assert lower_each("ΟΔΟΣ") == "οδοσ"
    assert "ΟΔΟΣ".lower() == "οδος"
    assert lower_each("İX") == "İx"
    assert lower_each("\U00010400") == "\U00010400"  # a pair of units, each of which is itself


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
@pytest.mark.parametrize("name", ["q", "a,b", "#x", "a/b#c", "x" * 63, " lead", "ü" * 63, CLEF * 31])
def test_a_name_that_fits_is_stored_whole(name):
    assert rdn_of(name) == QueueRdn(name, None)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
def test_a_longer_name_is_cut_after_55_units():
    name = "x" * 55 + "y" * 9
    assert rdn_of(name) == QueueRdn("x" * 55 + "-" + hash_string(name), "y" * 9)
    assert len(rdn_of(name).cn) == 64


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
def test_backslashes_count_for_length_cut_and_hash_but_are_not_stored_in_cn():
    first, raw = list_rdn_candidates(HUNDRED)
    assert first == QueueRdn(
        "abcdefghij/" + "abcdefghij" * 4 + "abc-00e7e4fe", "defghij" + ("abcdefghij" * 9)[50:89]
    )
    assert raw.cn == "abcdefghij/" + "abcdefghij" * 4 + "abcd-74abd631"
    # 63 units, of which one needs a backslash: one too many
    name = "/" + "x" * 62
    first, raw = list_rdn_candidates(name)
    assert first == QueueRdn("/" + "x" * 53 + "-" + hash_string("\\" + name), "x" * 9)
    assert raw == QueueRdn(name, None)
    # in the rest the backslashes stay
    assert rdn_of("x" * 60 + "#<>").extension == "x" * 5 + "\\#\\<\\>"


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
@pytest.mark.parametrize("special", ["\n", "/", "#", ">", "<", "="])
def test_each_special_character_gets_its_backslash(special):
    name = "x" * 62 + special
    assert rdn_of(name).extension == "x" * 7 + "\\" + special


def test_a_cut_behind_an_inserted_backslash_names_nothing_so_the_raw_form_is_used():
    name = "x" * 54 + "/" + "y" * 20
    raw = QueueRdn("x" * 54 + "/-" + hash_string(name), "y" * 20)
    assert list_rdn_candidates(name) == (raw,)
    whole = "x" * 54 + "/" + "y" * 8  # 63 raw units
    assert list_rdn_candidates(whole) == (QueueRdn(whole, None),)


def test_a_cut_inside_a_surrogate_pair_moves_ahead_of_it():
    name = "x" * 54 + CLEF + "y" * 20
    assert list_rdn_candidates(name) == (QueueRdn("x" * 54 + "-" + hash_string(name), CLEF + "y" * 20),)
    # the backslash moves the cut: the form of Windows is legal again
    shifted = "/" + "x" * 53 + CLEF + "y" * 20
    first, raw = list_rdn_candidates(shifted)
    assert first == QueueRdn("/" + "x" * 53 + "-" + hash_string("\\" + shifted), CLEF + "y" * 20)
    assert raw == QueueRdn("/" + "x" * 53 + "-" + hash_string(shifted), CLEF + "y" * 20)
    assert units_of(raw.cn) == 54 + 9
    assert rdn_of("x" * 53 + CLEF + "y" * 20).cn[:-9] == "x" * 53 + CLEF  # the pair ends at the cut


def test_an_extension_that_the_schema_refuses_is_not_used():
    name = "x" + "#" * 123  # with backslashes 247 units: the cut is clean, but 192 would be left
    assert list_rdn_candidates(name) == (QueueRdn("x" + "#" * 54 + "-" + hash_string(name), "#" * 69),)
    fitting = "x" + "#" * 27 + "y" * 92
    assert rdn_of(fitting).extension == "y" * 92
    assert rdn_of(fitting).cn[:-9] == "x" + "#" * 27


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.1")
def test_a_name_is_joined_when_there_is_an_extension_and_a_hash():
    assert name_of("Abc-0123ABCD", "De\\/F") == "abcde/f"
    assert name_of("abc-0123abcd", None) == "abc-0123abcd"
    assert name_of("abc-0123abcd", "") == "abc-0123abcd"
    assert name_of("abc-0123abcg", "def") == "abc-0123abcg"
    assert name_of("x" * 64, None) == "x" * 64


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.1")
def test_a_name_is_lower_cased_character_by_character():
    assert name_of("ΟΔΟΣ", None) == "οδοσ"


def test_a_backslash_in_cn_is_part_of_the_name_so_that_it_can_be_found_again():
    assert name_of("a\\b", None) == "a\\b"
    assert rdn_of("a\\b").cn == "a\\b"


def test_an_empty_name_is_refused():
    for check in (rdn_of, list_rdn_candidates, check_new_name, check_stored_name):
        with pytest.raises(ValueError):
            check("")


@pytest.mark.parametrize("name", ["q", "!", "*)(objectClass=*", "\x7f", "x" * 124, "#x", "[](){}@:/"])
def test_names_that_may_be_created(name):
    check_new_name(name)
    check_stored_name(name)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a,CN=b", "U\\+002C"),
        ("a+b", "U\\+002B"),
        ('a"b', "U\\+0022"),
        ("a;b", "U\\+003B"),
        ("a\\b", "U\\+005C"),
        ("\x00", "U\\+0000"),
        (" x", "U\\+0020"),
        ("x ", "U\\+0020"),
        ("x\n", "U\\+000A"),
        ("ü", "U\\+00FC"),
        ("\x80", "U\\+0080"),
        ("x" * 125, "125 characters long: 1 to 124"),
    ],
)
def test_names_that_may_not_be_created(name, part):
    with pytest.raises(ValueError, match=part):
        check_new_name(name)


@pytest.mark.parametrize("name", [" x ", "a,b", 'a"b', "ü", "a\nb", "x" * 147, CLEF * 73, "#" * 147])
def test_names_that_a_directory_can_hold(name):
    check_stored_name(name)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a\0", "NUL"),
        ("a\\b", "backslash"),
        ("a;b", "semicolon"),
        ("\ud834", "surrogate"),
        ("\udd1e\ud834", "surrogate"),
        ("x" * 148, "148 UTF-16 units long: 1 to 147"),
        (CLEF * 74, "148 UTF-16 units long"),
        ("x" * 54 + CLEF + "y" * 91, "93 units after it exceed the 92"),
    ],
)
def test_names_that_no_directory_gives_back(name, part):
    with pytest.raises(ValueError, match=part):
        check_stored_name(name)
