"""Random GUIDs, SIDs and strings, byte for byte as they must stand in a request on the wire."""

import random

import pytest
from support.directory.ber_reference import element, read_all
from support.directory.search_requests import encode_search

from mqdssm.directory.filters import Equal, encode, parse_text, to_text
from mqdssm.directory.requests import SearchScope
from mqdssm.model.dn import DN

SEED = 20_260_101
ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz0123456789",
    ' \\,+"<>;=#*()/&|!~:\0\n\r\t\x7f',
    "äöüßéñçÅ𝄞𐍈日本語ЖяΩ\u0301\u200d\u212a\ufb01",
)


def random_sid(chance):
    """A binary SID of 1 to 15 sub-authorities ([MS-DTYP] 2.4.2.2)."""
    count = chance.randrange(1, 16)
    return bytes((1, count)) + chance.randbytes(6 + 4 * count)


def random_text(chance):
    return "".join(chance.choice(chance.choice(ALPHABETS)) for _ in range(chance.randrange(1, 13)))


def unescaped(octets):
    """The value of an RDN ([RFC4514] 2.4), read one octet after the other."""
    found, position = bytearray(), 0
    while position < len(octets):
        if octets[position] != 0x5C:
            assert octets[position] not in b'"+,;<>\0'
            found.append(octets[position])
            position += 1
        elif octets[position + 1] in b"0123456789abcdefABCDEF":
            found.append(int(octets[position + 1 : position + 3], 16))
            position += 3
        else:
            found.append(octets[position + 1])
            position += 2
    return bytes(found)


def request_of(base, search_filter):
    return encode_search(1, base, SearchScope.SUBTREE, encode(search_filter), ["cn"])


def expected_request(base, attribute, value):
    """The same request, put together by the reference."""
    comparison = element(0xA3, element(4, attribute) + element(4, value))
    fixed = bytes.fromhex("0a0102" + "0a0100" + "020100" + "020100" + "010100")
    selection = bytes.fromhex("3004" + "0402636e")
    return element(0x30, b"\x02\x01\x01" + element(0x63, element(4, base) + fixed + comparison + selection))


def check_octets(chance, count):
    for _ in range(count):
        for attribute, value in (("objectGUID", chance.randbytes(16)), ("objectSid", random_sid(chance))):
            search_filter = Equal(attribute, value)
            octets = request_of("DC=x", search_filter)
            assert octets == expected_request(b"DC=x", attribute.encode(), value)
            assert parse_text(to_text(search_filter)) == search_filter


def check_texts(chance, count):
    for _ in range(count):
        text = random_text(chance)
        search_filter = Equal("mSMQLabelEx", text.encode())
        base = str(DN.of(("CN", text), ("DC", "x")))
        octets = request_of(base, search_filter)
        (_, message) = read_all(octets)[0]
        (_, sent_base), *_, (_, sent_filter), _ = message[1][1]
        assert sent_filter[1] == (4, text.encode())
        assert sent_base.startswith(b"CN=")
        assert sent_base.endswith(b",DC=x")
        assert unescaped(sent_base[3:-5]) == text.encode()
        assert parse_text(to_text(search_filter)) == search_filter


@pytest.mark.slow
def test_octets_in_filters():
    check_octets(random.Random(SEED), 2**13)  # of each kind


@pytest.mark.slow
def test_texts_in_filters_and_names():
    check_texts(random.Random(SEED), 2**14)


@pytest.mark.soak
def test_more_octets_in_filters():
    check_octets(random.Random(SEED + 1), 2**17)


@pytest.mark.soak
def test_more_texts_in_filters_and_names():
    check_texts(random.Random(SEED + 1), 2**17)
