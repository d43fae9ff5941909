"""Answers: cutting a stream, results, referrals, controls, and what they must not make us keep."""

import tracemalloc

import pytest

from mqdssm.directory import responses
from mqdssm.directory.ber import MESSAGE_BYTES_MAX, tlv
from mqdssm.directory.requests import LdapControl, encode_delete, make_paged_control
from mqdssm.directory.responses import (
    Dereferenced,
    LdapResult,
    MessageBounds,
    MessageSplitter,
    decode_controls,
    decode_deref,
    decode_result,
    parse_paged_cookie,
    split_messages,
)
from mqdssm.errors import DecodeError

# The same answer as slapd 2.5 and as Active Directory send it
DONE = bytes.fromhex("300c02010265070a010004000400")
DONE_AD = bytes.fromhex("30840000001002010265840000000" + "70a010004000400")
ENTRY = bytes.fromhex("3015020102" + "6410" + "0404636e3d61" + "30083006" + "0402636e" + "3100")


def message(operation, message_id=2, controls=b""):
    return tlv(0x30, b"\x02\x01" + bytes((message_id,)) + operation + controls)


def result(tag, code=0, matched=b"", text=b"", rest=b""):
    return tlv(tag, tlv(0x0A, bytes((code,))) + tlv(4, matched) + tlv(4, text) + rest)


def only(octets):
    (found,), rest = split_messages(octets)
    assert rest == len(octets)
    return found


def decoded(octets):
    return decode_result(octets, only(octets))


def test_both_servers_forms_are_cut():
    octets = ENTRY + DONE + DONE_AD
    found, rest = split_messages(octets)
    assert rest == len(octets)
    assert [(one.id, one.tag) for one in found] == [(2, 0x64), (2, 0x65), (2, 0x65)]
    assert octets[found[0].start : found[0].end] == ENTRY[7:]
    assert octets[found[1].start : found[1].end] == octets[found[2].start : found[2].end] == DONE[7:]
    assert [decode_result(octets, one) for one in found[1:]] == [LdapResult(0)] * 2


def test_every_cut_of_the_stream():
    octets = ENTRY + DONE_AD + DONE
    whole, _ = split_messages(octets)
    ends = [one.stop for one in whole]
    for cut in range(len(octets)):
        found, rest = split_messages(octets[:cut])
        assert found == [one for one in whole if one.stop <= cut]
        assert rest == max([end for end in ends if end <= cut], default=0)


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 20, 1000])
def test_the_splitter_gives_the_same_for_pieces_of_any_size(piece):
    long = message(result(0x65, text=b"x" * 300))
    octets = (ENTRY + DONE_AD + long + DONE) * 3
    splitter = MessageSplitter()
    found = []
    for start in range(0, len(octets), piece):
        buffer, messages = splitter.feed(octets[start : start + piece])
        assert bool(buffer) == bool(messages)
        found += [(one.id, one.tag, buffer[one.start : one.end]) for one in messages]
    assert splitter.pending == 0
    whole, _ = split_messages(octets)
    assert found == [(one.id, one.tag, octets[one.start : one.end]) for one in whole]


def test_the_splitter_joins_a_long_message_once():
    """A message of 8 MiB in pieces of 64 KiB: joined over and over it would copy half a gigabyte."""
    octets = message(result(0x65, text=bytes(8 * 1024 * 1024)))
    splitter = MessageSplitter()
    *pieces, last = [octets[start : start + 65536] for start in range(0, len(octets), 65536)]
    for piece in pieces:
        assert splitter.feed(piece) == (b"", [])
    assert len(splitter._pieces) == len(pieces)
    buffer, (found,) = splitter.feed(last)
    assert buffer == octets
    assert decode_result(buffer, found).text == "\0" * (8 * 1024 * 1024)


@pytest.mark.parametrize(
    ("octets", "problem"),
    [
        ("0000", "tag 0x00"),
        ("ff", None),
        ("4854", "tag 0x48"),  # an HTTP server's answer
        ("3080", "length octet 0x80"),
        ("3085", "length octet 0x85"),
        ("30ff", "length octet 0xff"),
        ("308404000001", "too many"),
        ("3084ffffffff", "too many"),
        ("3000", "messageID"),
        ("30020201", "messageID"),
        ("3003020100", "cut off"),
        ("300502010065ff", "length of 127 octets"),
        ("30060201006582ff", "inside its length"),
        ("30050201006501", "needs 1 octets, 0 left"),
        ("30050401006500", "integer of 1 to 4 octets"),
        ("300402006500", "integer of 1 to 4 octets"),
        ("300902050000000000" + "6500", "integer of 1 to 4 octets"),
        ("30080204ffffffff6500", "is negative"),
        ("3007020100658000" + "00", "indefinite"),
    ],
)
def test_what_is_no_ldap(octets, problem):
    octets = bytes.fromhex(octets)
    if problem is None:
        assert split_messages(octets) == ([], 0)  # one octet decides nothing yet
        return
    with pytest.raises(DecodeError, match=problem):
        split_messages(octets)
    with pytest.raises(DecodeError, match=problem):
        MessageSplitter().feed(octets)


def test_a_length_that_is_claimed_costs_nothing():
    tracemalloc.start()
    splitter = MessageSplitter()
    assert splitter.feed(b"\x30\x84" + MESSAGE_BYTES_MAX.to_bytes(4, "big")) == (b"", [])
    for _ in range(100):
        assert splitter.feed(b"\x02") == (b"", [])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert splitter.pending == 106
    assert peak < 100_000


def test_a_result_with_everything():
    octets = message(
        result(0x69, 32, b"DC=x", "größer".encode(), tlv(0xA3, tlv(4, b"ldap://a/") + tlv(4, b"ldap://b/")))
    )
    assert decoded(octets) == LdapResult(32, "DC=x", "größer", ("ldap://a/", "ldap://b/"))


def test_the_servers_words_are_kept_though_they_are_no_utf8():
    """The unique overlay of slapd prints binary values into its text."""
    assert decoded(message(result(0x69, 19, text=b"(objectGUID=\xff\x00)"))).text == "(objectGUID=\\xff\0)"


def test_result_codes_beyond_one_octet():
    octets = message(tlv(0x78, bytes.fromhex("0a024121") + b"\x04\0\x04\0"))
    assert decoded(octets).code == 16673  # slapd without a transaction


@pytest.mark.parametrize("tag", sorted(responses.RESULT_TAGS))
def test_every_kind_of_result(tag):
    assert decoded(message(result(tag, 53, text=b"no"))) == LdapResult(53, text="no")


@pytest.mark.parametrize("tag", [0x64, 0x73, 0x79, 0x60])
def test_what_is_no_result(tag):
    with pytest.raises(DecodeError, match="is no result"):
        decoded(message(result(tag)))


def test_extended_and_bind_answers_carry_values():
    extended = message(result(0x78, rest=tlv(0x8A, b"1.2.3") + tlv(0x8B, b"\xff")))
    assert decoded(extended) == LdapResult(0, response_name="1.2.3", response_value=b"\xff")
    assert decoded(message(result(0x78, rest=tlv(0x8B, b"")))).response_value == b""
    assert decoded(message(result(0x61, rest=tlv(0x87, b"token")))).response_value == b"token"
    with pytest.raises(DecodeError, match="octets too many"):
        decoded(message(result(0x65, rest=tlv(0x8B, b""))))


def test_every_truncation_of_a_result():
    needed = result(0x78, 10, b"DC=x", b"no")[2:]
    referral, name = tlv(0xA3, tlv(4, b"u")), tlv(0x8A, b"1.2")
    content = needed + referral + name
    for cut in range(len(content)):
        octets = message(tlv(0x78, content[:cut]))
        if cut in {len(needed), len(needed + referral)}:  # before an OPTIONAL element: a sound answer
            assert decoded(octets).code == 10
            continue
        with pytest.raises(DecodeError):
            decoded(octets)
    with pytest.raises(DecodeError, match="1 octets too many"):
        decoded(message(tlv(0x78, content + b"\0")))


def controls_of(*controls):
    """The controls as a server would write them; requests and answers have the same form."""
    octets = encode_delete(1, "", controls)
    found = only(octets)
    return octets[found.end : found.stop]


CONTROLS = (
    LdapControl("1.2.3", critical=True),
    LdapControl("1.2.4", critical=False, value=b""),
    LdapControl("1.2.5", critical=True, value=b"\x30\x00" * 100),
)


def test_controls_come_back():
    octets = message(result(0x65), controls=controls_of(*CONTROLS))
    found = decoded(octets)
    assert found.controls == CONTROLS
    assert found.control("1.2.4") == CONTROLS[1]
    assert found.control("1.2") is None


def test_every_truncation_of_controls():
    octets = controls_of(*CONTROLS)
    for cut in range(1, len(octets)):
        with pytest.raises(DecodeError):
            decode_controls(octets[:cut], 0, cut)
    with pytest.raises(DecodeError, match="too many"):
        decode_controls(octets + b"\0", 0, len(octets) + 1)
    assert decode_controls(octets, 0, 0) == ()


def test_no_more_controls_than_anyone_sends():
    at_limit = [LdapControl("1.2")] * responses.CONTROLS_MAX
    octets = controls_of(*at_limit)
    assert decode_controls(octets, 0, len(octets)) == tuple(at_limit)
    octets = controls_of(*at_limit, LdapControl("1.2"))
    with pytest.raises(DecodeError, match="more than 64"):
        decode_controls(octets, 0, len(octets))


def test_no_more_referrals_than_anyone_sends():
    many = tlv(0xA3, tlv(4, b"u") * responses.REFERRALS_MAX)
    assert len(decoded(message(result(0x65, 10, rest=many))).referrals) == 1024
    many = tlv(0xA3, tlv(4, b"u") * (responses.REFERRALS_MAX + 1))
    with pytest.raises(DecodeError, match="more than 1024"):
        decoded(message(result(0x65, 10, rest=many)))


def test_the_cookie_of_a_page():
    assert parse_paged_cookie(LdapResult(0)) is None
    for cookie in (b"", b"\0\1\2\3\4\5\6\7", b"x" * 200):
        assert parse_paged_cookie(LdapResult(0, controls=(make_paged_control(0, cookie),))) == cookie


@pytest.mark.parametrize(
    "value", [None, b"", b"\x30\x00", b"\x30\x03\x02\x01\x00", b"\x30\x05\x02\x01\x00\x04\x00\0"]
)
def test_a_broken_page_control(value):
    with pytest.raises(DecodeError, match="RFC2696"):
        parse_paged_cookie(LdapResult(0, controls=(LdapControl("1.2.840.113556.1.4.319", value=value),)))


def reference(attribute, dn, *attributes):
    content = tlv(4, attribute) + tlv(4, dn)
    if attributes:
        content += tlv(0xA0, b"".join(attributes))
    return tlv(0x30, content)


def partial(name, *values):
    return tlv(0x30, tlv(4, name) + tlv(0x31, b"".join(tlv(4, value) for value in values)))


DEREF = tlv(
    0x30,
    reference(b"mSMQSite1", b"CN=a", partial(b"objectGUID", b"\xff" * 16), partial(b"CN", b"a", b"b"))
    + reference(b"mSMQSite2", b"CN=gone")
    + reference(b"msmqSITE1", "CN=ö".encode(), partial(b"objectGUID")),
)


def deref_control(value):
    return (LdapControl("1.2.3"), LdapControl("1.3.6.1.4.1.4203.666.5.16", value=value))


def test_dereferenced_entries():
    """What slapd's deref overlay says; a DN of no entry comes without attributes."""
    assert decode_deref(deref_control(DEREF)) == {
        "msmqsite1": [
            Dereferenced("CN=a", {"objectguid": [b"\xff" * 16], "cn": [b"a", b"b"]}),
            Dereferenced("CN=ö", {"objectguid": []}),
        ],
        "msmqsite2": [Dereferenced("CN=gone", {})],
    }
    assert decode_deref(()) == {}
    assert decode_deref(deref_control(None)) == {}


def test_every_truncation_of_a_dereference_control():
    for cut in range(len(DEREF)):
        with pytest.raises(DecodeError):
            decode_deref(deref_control(DEREF[:cut]))
    with pytest.raises(DecodeError, match="too many"):
        decode_deref(deref_control(DEREF + b"\0"))


def test_dereferenced_entries_are_bounded(monkeypatch):
    monkeypatch.setattr(responses, "DEREFERENCED_MAX", 2)
    with pytest.raises(DecodeError, match="more than 2"):
        decode_deref(deref_control(DEREF))


def test_a_message_says_where_it_lies():
    octets = b"junk" + message(result(0x65), 5, controls_of(LdapControl("1.2")))
    (found,), rest = split_messages(octets, 4)
    assert found == MessageBounds(5, 0x65, 11, 18, len(octets))
    assert rest == len(octets)
