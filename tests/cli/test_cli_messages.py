r"""`mqdssm send` and `mqdssm receive`: two processes that exchange messages on loopback."""

import base64
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.messaging.managers import free_port
from support.programs.starting import MQDSSM, start

from mqdssm.errors import NotDelivered
from mqdssm.events.durable_files import lock_file
from mqdssm.messaging import QueueManager

ORDERS = r"DIRECT=TCP:127.0.0.1\private$\orders"


@contextmanager
def receiving(*options: str) -> Iterator[subprocess.Popen[str]]:
    """A process that receives; the test reads its lines."""
    command = [*MQDSSM, "receive", "orders", *options]
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_messages_travel_between_two_processes(alone, tmp_path):
    here, there = free_port(), free_port()
    body = tmp_path / "order.xml"
    body.write_bytes(b"<order/>\0\xff")
    sending = ("--body", str(body), "--port", str(there))
    with receiving(
        "--listen", f"127.0.0.1:{there}", "--port", str(here), "--count", "2", "-o", "json"
    ) as process:
        sent = alone.json("send", ORDERS, *sending, "--label", "Order 17", "--priority", "5")
        assert sent["delivery"] == "sent"
        document = json.loads(process.stdout.readline())
        assert document["id"] == sent["id"]
        assert document["source"] == sent["id"].partition("\\")[0]
        assert (document["label"], document["priority"], document["class"]) == ("Order 17", 5, "NORMAL")
        assert base64.b64decode(document["body"]) == b"<order/>\0\xff"
        assert (document["body_type"], document["correlation"]) == (0, None)
        acknowledged = (*sending, "--listen", f"127.0.0.1:{here}", "--ack")
        error = alone.error("send", ORDERS.replace("orders", "other"), *acknowledged, "reach", code=1)
        assert "NACK_BAD_DEST_QUEUE" in error
        shown = alone("send", ORDERS, *acknowledged, "receive").stdout
        assert shown.endswith("  received\n")
        assert process.wait(10) == 0
        assert json.loads(process.stdout.readline())["label"] == ""
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_receiving_ends_with_a_signal():
    with receiving("--listen", "127.0.0.1:0") as process:
        assert process.stderr.readline().startswith("listening on 127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


@pytest.mark.slow
def test_a_recoverable_message_is_kept_until_it_is_printed(alone, tmp_path):
    port, body = str(free_port()), tmp_path / "body"
    body.write_bytes(b"x")
    sending = ("--body", str(body), "--port", port, "--recoverable", "--state", str(tmp_path / "sent"))
    error = alone("send", ORDERS, *sending, "--label", "first", "--wait", "0.2", code=3).stderr
    assert f"The message stays in {tmp_path / 'sent'}" in error
    receiver = ("--listen", f"127.0.0.1:{port}", "--state", str(tmp_path / "received"), "-o", "json")
    with receiving(*receiver, "--count", "2") as process:
        alone("send", ORDERS, *sending, "--label", "other")
        labels = {json.loads(process.stdout.readline())["label"] for _ in range(2)}
        assert process.wait(10) == 0
    assert labels == {"first", "other"}
    assert "give --recoverable, too" in alone.error(
        "send", ORDERS, "--body", str(body), "--state", str(tmp_path), code=2
    )


@pytest.mark.slow
def test_commands_wait_for_each_others_folder(alone, tmp_path):
    port, body = free_port(), tmp_path / "body"
    body.write_bytes(b"x")
    state = tmp_path / "sent"
    command = ["send", ORDERS, "--body", str(body), "--port", str(port), "--recoverable"]
    command += ["--state", str(state)]
    state.mkdir()
    with lock_file(state / "send.lock", wait_s=0, message=""):
        assert "another command uses this folder" in alone.error(*command, "--wait", "0.2", code=6)
    with receiving("--listen", f"127.0.0.1:{port}", "--state", str(tmp_path / "received")) as process:
        assert "listening on" in process.stderr.readline()
        second = ("receive", "orders", "--listen", f"127.0.0.1:{free_port()}")
        words = alone.error(*second, "--state", str(tmp_path / "received"), code=6)
        assert "another command uses this folder, in another process" in words
        assert "give this one an own folder with --state DIR" in words
        taken = ("receive", "orders", "--listen", f"127.0.0.1:{port}", "--state", str(tmp_path / "own"))
        assert "give another address (--listen)" in alone.error(*taken, code=6)
        sending = [subprocess.Popen([*MQDSSM, *command], stdout=subprocess.DEVNULL) for _ in range(2)]
        assert [process.wait(30) for process in sending] == [0, 0]


def test_nobody_listens(alone, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(b"x")
    port = str(free_port())
    error = alone(
        "send", ORDERS, "--body", str(body), "--port", port, "--wait", "0.2", code=3
    ).stderr.splitlines()[-1]
    assert "was not delivered within 0.2 s: is its queue manager running" in error


def test_what_cannot_be_sent(alone, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(bytes((4 << 20) + 1))
    assert "longer than a message" in alone.error("send", ORDERS, "--body", str(body), code=2)
    body.write_bytes(b"")
    error = alone.error("send", r"DIRECT=OS:web01\orders", "--body", str(body), code=2)
    assert "private queues by DIRECT=OS" in error
    assert "no IPv4 address" in alone.error("receive", "orders", "--listen", "here", code=2)
    assert "queue name" in alone.error("receive", r"a\b", "--listen", "127.0.0.1:0", code=2)
    missing = alone.error("send", ORDERS, "--body", str(tmp_path / "missing"), code=6)
    assert "No such file" in missing


@pytest.mark.parametrize("wait", ["0.2", "1.5", "2"])
def test_an_express_message_expires_behind_the_wait(alone, tmp_path, monkeypatch, wait):
    """The time when a message was sent is cut to a second: the wait must end first, with exit code 3."""
    body, times = tmp_path / "body", []
    body.write_bytes(b"x")

    def send(*_: object, time_to_reach_queue: int, **__: object) -> None:
        times.append(time_to_reach_queue)
        raise NotDelivered("as expected")

    monkeypatch.setattr(QueueManager, "send", send)
    alone("send", ORDERS, "--body", str(body), "--wait", wait, code=3)
    assert times[0] >= float(wait) + 2
