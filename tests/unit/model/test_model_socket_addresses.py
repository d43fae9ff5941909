"""Socket addresses and their form as text."""

import pytest

from mqdssm.model.socket_addresses import SocketAddress, parse_socket_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.5", SocketAddress("10.0.0.5", 1801)),
        ("pec.example.com:11801", SocketAddress("pec.example.com", 11801)),
        ("[2001:db8::1]", SocketAddress("2001:db8::1", 1801)),
        ("[2001:db8::1]:7", SocketAddress("2001:db8::1", 7)),
    ],
)
def test_addresses_as_text(text, address):
    assert parse_socket_address(text) == address
    assert parse_socket_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "::1",
        "::1:1801",
        "2001:db8::1",
        "[::1",
        "::1]",
        "[]:1",
        "[10.0.0.5]:1",
        "[a]:1",
        "a b",
        "a b:1",
        "a:1 ",
        "a\n",
        "a\0b:1",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "a:1_0",
        "a:\u0661",
    ],
)
def test_what_is_no_address(text):
    with pytest.raises(ValueError, match=r"is no address, as 127\.0\.0\.1:1801 or \[2001:db8::1\]:1801"):
        parse_socket_address(text)


@pytest.mark.parametrize(
    ("text", "is_anywhere"),
    [
        ("0.0.0.0", True),
        ("[::]", True),
        ("[::0]:7", True),
        ("127.0.0.1", False),
        ("pec", False),
        ("[::1]", False),
    ],
)
def test_nobody_can_connect_to_an_address_of_no_machine(text, is_anywhere):
    assert parse_socket_address(text).is_anywhere is is_anywhere
    assert SocketAddress("").is_anywhere


def test_other_ports():
    assert parse_socket_address("a", port=7) == SocketAddress("a", 7)
    assert parse_socket_address("a:0", port_min=0) == SocketAddress("a", 0)
