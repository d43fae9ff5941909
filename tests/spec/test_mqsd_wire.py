"""Topology packets: those that Microsoft prints, both ways, and what is refused, with field and offset."""

import tracemalloc
from dataclasses import replace

import pytest
from support.notification.strategies import PACKETS
from support.wire.interpreted import decode_interpreted, encode_interpreted
from support.wire.strategies import assert_length_is_law

from mqdssm.errors import DecodeError
from mqdssm.model.discovery import (
    IP_PORT,
    NETWORKS_MAX,
    DirectoryServiceServer,
    PacketType,
    TopologyClientRequest,
    TopologyServerReply,
    make_ipx_mask,
)
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.wire.mqsd import LAYOUTS, PACKET_BYTES_MAX, SERVER_LIST, decode, encode, show_message
from mqdssm.wire.show import to_json_value

REQUEST_ID = Guid.parse("f291a103-e33c-ab4f-a930-be3a33e432dd")
ENTERPRISE = Guid.parse("e6eaba61-d1c6-11db-baac-0003ff4e2d22")
SITE = Guid.parse("dcc51bf6-d4ad-4543-8739-71568e8f9128")
NETWORK = Guid.parse("e6eaba62-d1c6-11db-baac-0003ff4e2d22")
OTHER_SITE = Guid.parse("e6eaba60-d1c6-11db-baac-0003ff4e2d22")
Server = DirectoryServiceServer

MADE = {
    "mqsd-request": TopologyClientRequest(enterprise_id=ENTERPRISE, request_id=REQUEST_ID, site_id=SITE),
    "mqsd-reply-same-site": TopologyServerReply(correlation_id=REQUEST_ID, connected_networks=(NETWORK,)),
    "mqsd-reply-other-site": TopologyServerReply(
        correlation_id=REQUEST_ID,
        connected_networks=(NETWORK,),
        responding_site_id=OTHER_SITE,
        directory_service_servers=(Server.of("nt4pec"),),
    ),
    "mqsd-request-ipx": TopologyClientRequest(
        enterprise_id=ENTERPRISE, request_id=REQUEST_ID, site_id=SITE, ipx_networks=(0x12345678, 1)
    ),
    "mqsd-reply-ipx": TopologyServerReply(
        correlation_id=REQUEST_ID,
        connected_networks=(NETWORK, OTHER_SITE),
        connected_network_mask=3,
        responding_site_id=OTHER_SITE,
        directory_service_servers=(
            Server.of("nt4pec"),
            Server.of("web01", ipx=True),
            Server.of("dc2", ip=False),
        ),
    ),
}
REQUEST, REPLY = MADE["mqsd-request"], MADE["mqsd-reply-other-site"]
LONE_SITE = MADE["mqsd-reply-same-site"]


def hexadecimal(text):
    return bytes.fromhex("".join(text.split()))


@pytest.mark.spec("MS-MQSD 4")
@pytest.mark.spec("MS-MQSD 2.2")
@pytest.mark.spec("MS-MQSD 2.2.1")
@pytest.mark.spec("MS-MQSD 2.2.2")
def test_the_printed_request():
    """Byte for byte what section 4 prints."""
    printed = hexadecimal(
        """00 01 00 00 61 BA EA E6 C6 D1 DB 11 BA AC 00 03
           FF 4E 2D 22 03 A1 91 F2 3C E3 4F AB A9 30 BE 3A
           33 E4 32 DD F6 1B C5 DC AD D4 43 45 87 39 71 56
           8E 8F 91 28"""
    )
    assert encode(REQUEST) == printed == PACKETS["mqsd-request"]
    assert decode(printed) == REQUEST
    assert not REQUEST.is_ipx


@pytest.mark.spec("MS-MQSD 4")
@pytest.mark.spec("MS-MQSD 2.2")
@pytest.mark.spec("MS-MQSD 2.2.1")
@pytest.mark.spec("MS-MQSD 2.2.3")
def test_the_printed_reply_of_the_own_site():
    printed = hexadecimal(
        """00 02 00 00 03 A1 91 F2 3C E3 4F AB A9 30 BE 3A
           33 E4 32 DD 01 00 00 00 00 00 00 00 00 00 00 00
           62 BA EA E6 C6 D1 DB 11 BA AC 00 03 FF 4E 2D 22"""
    )
    assert encode(LONE_SITE) == printed == PACKETS["mqsd-reply-same-site"]
    assert decode(printed) == LONE_SITE
    assert LONE_SITE.is_own_site


@pytest.mark.spec("MS-MQSD 4")
@pytest.mark.spec("MS-MQSD 2.2")
@pytest.mark.spec("MS-MQSD 2.2.1")
@pytest.mark.spec("MS-MQSD 2.2.3")
def test_the_printed_reply_of_another_site():
    printed = hexadecimal(
        """00 02 00 00 03 A1 91 F2 3C E3 4F AB A9 30 BE 3A
           33 E4 32 DD 01 00 00 00 00 00 00 00 12 00 00 00
           62 BA EA E6 C6 D1 DB 11 BA AC 00 03 FF 4E 2D 22
           60 BA EA E6 C6 D1 DB 11 BA AC 00 03 FF 4E 2D 22
           31 00 30 00 6E 00 74 00 34 00 70 00 65 00 63 00
           00 00"""
    )
    assert encode(REPLY) == printed == PACKETS["mqsd-reply-other-site"]
    assert decode(printed) == REPLY
    assert not REPLY.is_own_site
    (server,) = REPLY.directory_service_servers
    assert (server, server.name, server.ip, server.ipx) == ("10nt4pec", "nt4pec", True, False)


@pytest.mark.spec("MS-MQSD 2")
@pytest.mark.spec("MS-MQSD 2.2")
@pytest.mark.parametrize("name", list(PACKETS))
def test_both_forms_both_ways(name):
    image, packet = PACKETS[name], MADE[name]
    layout = LAYOUTS[packet.packet_type]
    assert encode(packet) == encode_interpreted(layout, packet) == image
    assert decode(image) == decode_interpreted(layout, image) == packet


@pytest.mark.spec("MS-MQSD 2.2.2")
@pytest.mark.spec("MS-MQSD 2.2.3")
@pytest.mark.parametrize("name", ["mqsd-request-ipx", "mqsd-reply-ipx"])
def test_the_forms_of_ipx(name):
    """A request with its networks, a reply with as many bits as networks."""
    packet = decode(PACKETS[name])
    assert packet == MADE[name]
    assert packet.is_ipx


@pytest.mark.spec("MS-MQSD 2")
@pytest.mark.spec("MS-MQSD 2.1")
@pytest.mark.spec("MS-MQSD 1.5")
@pytest.mark.spec("MS-MQSD 1.9")
def test_port():
    assert IP_PORT == 1801


def test_shown_under_the_specifications_names():
    header = {"Version": 0, "Type": 2, "Reserved": 0}
    assert to_json_value("", show_message(PACKETS["mqsd-reply-ipx"]).fields) == {
        "TopologyPacketHeader": header,
        "CorrelationID": str(REQUEST_ID),
        "ConnectedNetworkCount": 2,
        "ConnectedNetworkMask": 3,
        "DirectoryServiceServerSize": 46,
        "ConnectedNetworkArray": [str(NETWORK), str(OTHER_SITE)],
        "RespondingSiteID": str(OTHER_SITE),
        "DirectoryServiceServerArray": ["10nt4pec", "11web01", "00dc2"],
    }
    assert to_json_value("", show_message(PACKETS["mqsd-request-ipx"]).fields) == {
        "TopologyPacketHeader": header | {"Type": 1},
        "EnterpriseID": str(ENTERPRISE),
        "RequestID": str(REQUEST_ID),
        "SiteID": str(SITE),
        "IPXNetworkCount": 2,
        "IPXNetworkNumberArray": [0x12345678, 1],
    }
    assert list(show_message(PACKETS["mqsd-reply-same-site"]).fields)[-1] == "ConnectedNetworkArray"


def changed(name, at, new):
    data = PACKETS[name]
    return data[:at] + new + data[at + len(new) :]


def u32(number):
    return number.to_bytes(4, "little")


@pytest.mark.spec("MS-MQSD 2.2.1")
@pytest.mark.parametrize("name", list(PACKETS))
def test_version_and_reserved_are_sent_as_0_and_ignored(name):
    assert decode(changed(name, 0, b"\xff")) == decode(changed(name, 2, b"\xff\xff")) == MADE[name]
    assert encode(MADE[name])[0] == 0
    assert encode(MADE[name])[2:4] == b"\0\0"


@pytest.mark.spec("MS-MQSD 2.2.1")
@pytest.mark.parametrize("number", [0, 3, 255])
def test_other_types(number):
    data = changed("mqsd-request", 1, bytes([number]))
    with pytest.raises(DecodeError, match=f"Type at offset 1: is {number}, which is no PacketType"):
        decode(data)
    shown = show_message(data)
    assert list(shown.fields) == ["TopologyPacketHeader"]
    assert {kind.value for kind in PacketType} == {1, 2}


@pytest.mark.spec("MS-MQSD 3.2.5.1")
@pytest.mark.parametrize("size", range(53, 60))
def test_a_request_too_short_for_one_ipx_network_has_none(size):
    """What is there of them is ignored; from one network on the packet must be whole."""
    data = PACKETS["mqsd-request"] + bytes(range(1, size - 51))
    assert len(data) == size
    assert decode(data) == REQUEST
    assert show_message(data) == show_message(PACKETS["mqsd-request"])


@pytest.mark.spec("MS-MQSD 2.2.2")
@pytest.mark.parametrize(
    ("count", "networks", "words"),
    [
        (0, 1, "IPXNetworkCount at offset 52: is 0, at least 1"),
        (33, 33, "IPXNetworkCount at offset 52: is 33, at most 32"),
        (0xFFFFFFFF, 1, "is 4294967295, at most 32"),
        (2, 1, "IPXNetworkNumberArray at offset 56: needs 8 bytes, 4 left"),
        (1, 2, "end at offset 60: 4 bytes left over"),
    ],
)
def test_the_number_of_ipx_networks_must_be_right(count, networks, words):
    with pytest.raises(DecodeError, match=words):
        decode(PACKETS["mqsd-request"] + u32(count) + bytes(4 * networks))


@pytest.mark.spec("MS-MQSD 2.2.2")
def test_32_ipx_networks_and_no_more():
    packet = replace(REQUEST, ipx_networks=tuple(range(32)))
    assert decode(encode(packet)) == packet
    with pytest.raises(ValueError, match="IPXNetworkCount: is 33, at most 32"):
        encode(replace(REQUEST, ipx_networks=tuple(range(33))))


@pytest.mark.spec("MS-MQSD 2.2.3")
@pytest.mark.parametrize(
    ("at", "number", "words"),
    [
        (20, 0, "ConnectedNetworkCount at offset 20: is 0, at least 1"),
        (20, 33, "ConnectedNetworkCount at offset 20: is 33, at most 32"),
        (20, 0xFFFFFFFF, "is 4294967295, at most 32"),
        (20, 2, "DirectoryServiceServerArray at offset 80: "),
        (24, 3, "ConnectedNetworkMask has 2 bits set: none, or 1"),
        (28, 0, "34 bytes left over"),
        (28, 16, "DirectoryServiceServerSize at offset 0: is 16, must be 18"),
        (28, 20, "DirectoryServiceServerSize at offset 0: is 20, must be 18"),
        (28, 0xFFFFFFFF, "is 4294967295, must be 18"),
    ],
)
def test_counts_mask_and_size_must_be_right(at, number, words):
    """Decisions S4 and S8: a wrong packet is refused, and whoever receives it drops it."""
    with pytest.raises(DecodeError, match=words):
        decode(changed("mqsd-reply-other-site", at, u32(number)))


@pytest.mark.spec("MS-MQSD 2.2.3")
@pytest.mark.parametrize("count", [1, 2, 31, 32])
def test_the_mask_over_ipx_has_a_bit_for_each_network(count):
    """As many bits as networks, whichever; none over IP."""
    networks = tuple(Guid(bytes([n]) * 16) for n in range(count))
    assert make_ipx_mask(count).bit_count() == count
    for mask in {
        0,
        make_ipx_mask(count),
        0xFFFFFFFF ^ make_ipx_mask(32 - count) if count < 32 else 0xFFFFFFFF,
    }:
        reply = replace(LONE_SITE, connected_networks=networks, connected_network_mask=mask)
        assert decode(encode(reply)) == reply
    with pytest.raises(ValueError, match="ConnectedNetworkMask has"):
        replace(LONE_SITE, connected_networks=networks, connected_network_mask=make_ipx_mask(count) >> 1 or 3)


@pytest.mark.spec("MS-MQSD 2.2.3")
def test_1_to_32_connected_networks():
    """Decision S6: a server that knows none sends a nil GUID."""
    for wrong in (0, NETWORKS_MAX + 1):
        with pytest.raises(ValueError, match="1 to 32 are allowed"):
            replace(LONE_SITE, connected_networks=(NETWORK,) * wrong)
        with pytest.raises(ValueError, match="1 to 32 are allowed"):
            make_ipx_mask(wrong)
    nil = replace(LONE_SITE, connected_networks=(NULL_GUID,))
    assert decode(encode(nil)) == nil


@pytest.mark.spec("MS-MQSD 2.2.3")
def test_site_and_servers_come_together():
    for wrong in (
        {"responding_site_id": None},
        {"directory_service_servers": None},
        {"directory_service_servers": ()},
    ):
        with pytest.raises(ValueError, match="DirectoryServiceServerArray"):
            replace(REPLY, **wrong)


def with_list(text):
    """The reply of another site with this text as its list."""
    packed = text.encode("utf-16-le", "surrogatepass")
    return changed("mqsd-reply-other-site", 28, u32(len(packed)))[:64] + packed


@pytest.mark.spec("MS-MQSD 2.2.3")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10nt4pec", "no NUL at its end"),
        ("\0", "two flags"),
        ("10\0", "has 0 characters"),
        ("1\0", "two flags"),
        ("20nt4pec\0", "two flags"),
        ("1xnt4pec\0", "two flags"),
        ("\u0661\u0660nt4pec\0", "two flags"),
        (",10nt4pec\0", "two flags"),
        ("10nt4pec,\0", "two flags"),
        ("10nt4pec,,10b\0", "two flags"),
        ("10nt4pec,10\0", "has 0 characters"),
        ("10nt4pec,b\0", "two flags"),
        ("10" + "x" * 257 + "\0", "has 257 characters: 1 to 256"),
        ("10nt4pec\0\0", "DirectoryServiceServerSize at offset 0: is 20, must be 18"),
        ("10nt4pec\x0010b\0", "must be 18"),
    ],
)
def test_wrong_lists_of_servers(text, words):
    with pytest.raises(DecodeError, match=words) as caught:
        decode(with_list(text))
    assert caught.value.section == "[MS-MQSD] 2.2.3"
    assert str(show_message(with_list(text)).error) == str(caught.value)


@pytest.mark.spec("MS-MQSD 2.2.3")
@pytest.mark.parametrize(
    "text",
    [
        "00x\0",
        "11x,01y,10z\0",
        "10" + "x" * 256 + "\0",
        "10\u5927\0",
        "10\U0001f4e8\0",
        "10\u2c00\u002d\u0100\0",
        "10a b.c\0",
    ],
)
def test_right_lists_of_servers(text):
    """Names are any characters but a comma and NUL; each entry tells IP, then IPX."""
    reply = decode(with_list(text))
    assert reply.directory_service_servers == tuple(text.removesuffix("\0").split(","))
    assert encode(reply) == with_list(text)


@pytest.mark.spec("MS-MQSD 2.2.3")
def test_an_entry_of_the_list():
    assert [Server.of("a", ip=ip, ipx=ipx) for ip in (False, True) for ipx in (False, True)] == [
        "00a",
        "01a",
        "10a",
        "11a",
    ]
    for name in ("", "a,b", "a\0", "x" * 257):
        with pytest.raises(ValueError, match="name of a server"):
            Server.of(name)
    assert (Server("01a").ip, Server("01a").ipx, Server("01a").name) == (False, True, "a")


def attempt(data):
    """What is made of bytes, or how they are refused."""
    try:
        return decode(data), None
    except DecodeError as error:
        return None, error


def test_one_byte_changed_is_refused_or_means_something_else():
    """Every byte counts but Version and Reserved."""
    for name, image in PACKETS.items():
        for at in range(len(image)):
            for flip in (0x01, 0x80, 0xFF):
                data = image[:at] + bytes([image[at] ^ flip]) + image[at + 1 :]
                made, refused = attempt(data)
                if refused is not None:
                    assert 0 <= refused.offset <= len(image)
                    assert str(show_message(data).error) == str(refused)
                    continue
                assert (made == MADE[name]) is (at in {0, 2, 3})


def test_replies_have_no_byte_too_few_or_too_many():
    for name in ("mqsd-reply-same-site", "mqsd-reply-other-site", "mqsd-reply-ipx"):
        assert_length_is_law(PACKETS[name], decode)


@pytest.mark.spec("MS-MQSD 2.2.2")
@pytest.mark.parametrize("size", [*range(52), 60, *range(61, 64), *range(65, 70)])
def test_requests_have_no_byte_too_few_or_too_many(size):
    """But those that are ignored: see above."""
    data = (PACKETS["mqsd-request-ipx"] + bytes(8))[:size]
    with pytest.raises(DecodeError) as caught:
        decode(data)
    assert caught.value.section.startswith("[MS-MQSD] 2.2")


@pytest.mark.spec("MS-MQSD 5.1")
def test_packets_are_no_longer_than_a_datagram():
    """Decision S7."""
    with pytest.raises(DecodeError, match=f"has more than {PACKET_BYTES_MAX} bytes"):
        decode(PACKETS["mqsd-reply-other-site"] + bytes(PACKET_BYTES_MAX))
    entries = (Server.of("x" * 253),) * 127  # 256 units with flags and comma: 512 bytes
    longest = replace(REPLY, directory_service_servers=entries)
    assert PACKET_BYTES_MAX - 512 < len(encode(longest)) <= PACKET_BYTES_MAX
    assert decode(encode(longest)) == longest
    with pytest.raises(ValueError, match="at most"):
        encode(replace(longest, directory_service_servers=entries + entries[:1]))
    with pytest.raises(ValueError, match=f"has .* bytes, at most {PACKET_BYTES_MAX}"):
        encode(replace(longest, connected_networks=(NETWORK,) * 32))
    assert SERVER_LIST.least == len(SERVER_LIST.write((Server.of("a"),)))


@pytest.mark.spec("MS-MQSD 5.1")
def test_refusing_costs_no_memory():
    data = with_list("1" * 32_000 + "\0")
    data = data[:20] + u32(1) + data[24:]
    tracemalloc.start()
    with pytest.raises(DecodeError):
        decode(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("packet", "wrong", "problem"),
    [
        (REQUEST, {"site_id": b"short"}, "SiteID: b'short' is no GUID packet"),
        (REQUEST, {"ipx_networks": (2**32,)}, "IPXNetworkNumberArray"),
        (REPLY, {"correlation_id": b""}, "CorrelationID"),
        (REPLY, {"directory_service_servers": ("nt4pec",)}, "two flags"),
    ],
)
def test_what_cannot_be_read_back_is_not_sent(packet, wrong, problem):
    with pytest.raises(ValueError, match=problem):
        encode(replace(packet, **wrong))


def test_what_is_no_packet_is_not_sent():
    with pytest.raises(TypeError, match="is no topology packet"):
        encode(Server.of("a"))
