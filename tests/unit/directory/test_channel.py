"""One connection: what comes back to a request, and what makes the connection unusable."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from support.servers import answers

from mqdssm.directory import channel as channel_module
from mqdssm.directory.ber import octet_string, tlv
from mqdssm.directory.channel import Channel, ConnectionBroken
from mqdssm.directory.observation import OperationObserver
from mqdssm.directory.requests import MESSAGE_ID_MAX, encode_delete, encode_unbind
from mqdssm.directory.responses import ADD_RESPONSE, INTERMEDIATE_RESPONSE, SEARCH_REFERENCE


class Wire:
    """A channel and the server's end of it."""

    def __init__(self) -> None:
        mine, self.server = socket.socketpair()
        self.observer = OperationObserver()
        self.channel = Channel(mine, "ldap://server", 7, self.observer)


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    yield made
    made.channel.close()
    made.server.close()


def soon(seconds: float = 2.0) -> float:
    return time.monotonic() + seconds


def sent(wire: Wire) -> int:
    number = wire.channel.choose_id()
    wire.channel.send(encode_delete(number, "cn=a"), soon())
    return number


class TestAnswers:
    def test_result(self, wire: Wire) -> None:
        number = wire.channel.choose_id()
        wire.server.sendall(answers.add_done(number, 68, matched="cn=x", text="words"))
        found = wire.channel.request(number, encode_delete(number, "cn=a"), ADD_RESPONSE, soon())
        assert (found.code, found.matched_dn, found.text) == (68, "cn=x", "words")
        assert wire.server.recv(1000) == encode_delete(number, "cn=a")
        assert not wire.channel.broken
        assert wire.observer.value == 1

    def test_message_ids_rise_and_wrap(self, wire: Wire) -> None:
        assert [wire.channel.choose_id() for _ in range(3)] == [7, 8, 9]
        wire.channel._next_id = MESSAGE_ID_MAX
        assert [wire.channel.choose_id() for _ in range(2)] == [MESSAGE_ID_MAX, 1]

    def test_an_answer_without_end_does_not_fill_the_memory(
        self, wire: Wire, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(channel_module, "ANSWER_BYTES_MAX", 1000)
        number = sent(wire)
        wire.server.sendall(answers.entry(number, "cn=a", {"cn": [b"v" * 300]}) * 4)
        with pytest.raises(ConnectionBroken, match="more than 1000 bytes"):
            wire.channel.receive(number, soon())
        assert wire.channel.broken

    def test_an_answer_of_countless_small_entries_does_not_fill_the_memory(
        self, wire: Wire, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(channel_module, "ANSWER_ENTRIES_MAX", 3)
        for count in (3, 4):
            number = sent(wire)
            wire.server.sendall(answers.entry(number, "cn=a", {}) * count + answers.search_done(number))
            if count == 3:
                assert sum(len(messages) for _, messages in wire.channel.receive(number, soon()).parts) == 3
                continue
            with pytest.raises(ConnectionBroken, match="more than 3 entries"):
                wire.channel.receive(number, soon())
        assert wire.channel.broken

    @pytest.mark.parametrize("size", [1, 2, 7, 1000])
    def test_page_that_arrives_in_pieces(self, wire: Wire, size: int) -> None:
        number = sent(wire)
        stream = b"".join(answers.entry(number, f"cn={n}", {"cn": [b"v"]}) for n in range(20))
        stream += answers.search_done(number)

        def feed() -> None:
            for start in range(0, len(stream), size):
                wire.server.sendall(stream[start : start + size])

        feeder = threading.Thread(target=feed)
        feeder.start()
        page = wire.channel.receive(number, soon(10))
        feeder.join()
        assert sum(len(messages) for _, messages in page.parts) == 20
        assert page.result.code == 0

    def test_references_and_intermediate_answers_are_passed_over(self, wire: Wire) -> None:
        number = sent(wire)
        wire.server.sendall(
            answers.encode_message(number, tlv(SEARCH_REFERENCE, octet_string("ldap://trap")))
            + answers.encode_message(number, tlv(INTERMEDIATE_RESPONSE, b""))
            + answers.entry(number, "cn=a")
            + answers.search_done(number)
        )
        page = wire.channel.receive(number, soon())
        assert [len(messages) for _, messages in page.parts] == [1]
        assert page.references == 1


BREAKS: dict[str, tuple[Callable[[int], bytes], str]] = {
    "another id": (lambda number: answers.add_done(number + 1), "not to 7"),
    "entry of another id": (lambda number: answers.entry(number + 1, "cn=a"), "not to 7"),
    "result of a search": (answers.search_done, "0x65 instead of 0x69"),
    "two results": (lambda number: 2 * answers.add_done(number), "two results"),
    "more behind it": (
        lambda number: answers.add_done(number) + answers.entry(number, "cn=a"),
        "more answers",
    ),
    "half a message behind it": (lambda number: answers.add_done(number) + b"\x30\x20\x02", "more answers"),
    "garbage": (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "protocol"),
    "too large": (lambda _: b"\x30\x84\x7f\xff\xff\xff", "protocol"),
    "a request": (lambda number: encode_delete(number, "cn=a"), "unknown kind"),
    "a cut result": (lambda number: answers.encode_message(number, tlv(ADD_RESPONSE, b"\x0a")), "protocol"),
    "notice of disconnection": (lambda _: answers.notice_of_disconnection(), "shutting down"),
}


class TestBroken:
    @pytest.mark.parametrize("name", BREAKS)
    def test_what_no_server_should_send(self, wire: Wire, name: str) -> None:
        make, words = BREAKS[name]
        number = sent(wire)
        wire.server.sendall(make(number))
        with pytest.raises(ConnectionBroken, match=words) as caught:
            wire.channel.receive(number, soon(), ADD_RESPONSE)
        assert caught.value.request_left
        assert not caught.value.timed_out
        assert caught.value.garbled == (name != "notice of disconnection")
        assert caught.value.is_final == caught.value.garbled
        assert wire.channel.broken

    @pytest.mark.parametrize("came", [b"", b"\x30", answers.entry(7, "cn=a"), answers.search_done(7)[:-1]])
    def test_end_of_stream_before_the_result(self, wire: Wire, came: bytes) -> None:
        """Entries without SearchResultDone are an error, never a short list."""
        number = sent(wire)
        wire.server.sendall(came)
        wire.server.shutdown(socket.SHUT_RDWR)
        with pytest.raises(ConnectionBroken, match="closed the connection") as caught:
            wire.channel.receive(number, soon())
        assert caught.value.request_left

    def test_silence(self, wire: Wire) -> None:
        number = sent(wire)
        started = time.monotonic()
        with pytest.raises(ConnectionBroken, match="in time") as caught:
            wire.channel.receive(number, soon(0.1))
        assert 0.09 < time.monotonic() - started < 1
        assert caught.value.timed_out
        assert wire.channel.broken

    def test_dripping_does_not_stretch_the_limit(self, wire: Wire) -> None:
        number = sent(wire)
        stop = threading.Event()

        def drip() -> None:
            for octet in answers.entry(number, "cn=" + "a" * 1000):
                wire.server.sendall(bytes((octet,)))
                if stop.wait(0.02):
                    return

        dripper = threading.Thread(target=drip)
        dripper.start()
        started = time.monotonic()
        with pytest.raises(ConnectionBroken, match="in time"):
            wire.channel.receive(number, soon(0.3))
        assert time.monotonic() - started < 1.3
        stop.set()
        dripper.join()

    def test_server_that_does_not_read(self, wire: Wire) -> None:
        with pytest.raises(ConnectionBroken) as caught:
            wire.channel.send(b"x" * 50_000_000, soon(0.2))
        assert caught.value.timed_out
        assert not caught.value.request_left  # not all of it has left: it cannot be carried out
        assert wire.observer.value == 0

    def test_server_that_is_gone(self, wire: Wire) -> None:
        wire.server.close()
        with pytest.raises(ConnectionBroken) as caught:
            sent(wire)
        assert not caught.value.request_left

    def test_time_that_is_up_already(self, wire: Wire) -> None:
        with pytest.raises(ConnectionBroken) as caught:
            wire.channel.send(b"x", time.monotonic() - 1)
        assert caught.value.timed_out
        assert not caught.value.request_left

    def test_interrupt_leaves_no_half_read_channel_behind(self, wire: Wire) -> None:
        class Interrupted:
            def recv(self, _size: int) -> bytes:
                raise KeyboardInterrupt

            def settimeout(self, _seconds: float | None) -> None:
                pass

            def close(self) -> None:
                pass

        channel = Channel(Interrupted(), "ldap://server", 1, OperationObserver())  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            channel.receive(1, soon())
        assert channel.broken


class TestIdle:
    def test_quiet_one_is_usable(self, wire: Wire) -> None:
        assert wire.channel.is_usable()
        assert wire.channel.is_usable()
        number = wire.channel.choose_id()
        wire.server.sendall(answers.add_done(number))
        assert wire.channel.request(number, encode_delete(number, "cn=a"), ADD_RESPONSE, soon()).code == 0

    @pytest.mark.parametrize("last_words", [b"", answers.notice_of_disconnection(), b"\x30"])
    def test_closed_or_talking_one_is_not(self, wire: Wire, last_words: bytes) -> None:
        wire.server.sendall(last_words)
        if not last_words:
            wire.server.close()
        assert not wire.channel.is_usable()
        assert wire.channel.broken
        assert not wire.channel.is_usable()


class TestClose:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.21")
    def test_unbinds(self, wire: Wire) -> None:
        wire.channel.close()
        assert wire.server.recv(100) == encode_unbind(7)
        assert wire.server.recv(100) == b""

    def test_broken_one_says_nothing_more(self, wire: Wire) -> None:
        wire.channel.broken = True
        wire.channel.close()
        assert wire.server.recv(100) == b""

    def test_server_that_is_gone(self, wire: Wire) -> None:
        wire.server.close()
        wire.channel.close()
        assert wire.channel.broken
