"""Worker process of the local runner.

The process does pieces of work until its standard input ends.
The parent writes the work and then numbers; the worker answers each number. After `END_OF_WORK`, which the
worker answers too, the parent may write another work. The input ends when the parent wants the worker to
stop, and also when the parent is killed, so no other signal is needed.
"""

import atexit
import contextlib
import gc
import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Final

from mqdssm.pipeline.runner import Piece, StopRequest, Work, perform_pieces
from mqdssm.pipeline.without_pandas import hide_pandas

GRACE_S: Final = 3.0
"""Seconds for a piece to reach a safe place after the input has ended, before the worker exits."""
EXIT_TERMINATED: Final = 128 + signal.SIGTERM
_SIZE_BYTES: Final = 8
END_OF_WORK: Final = 2**64 - 1
"""Number of no piece: the work has no more pieces."""


def send(file: BinaryIO, data: bytes) -> None:
    """Write a message, with its length before it."""
    file.write(len(data).to_bytes(_SIZE_BYTES, "little") + data)
    file.flush()


def receive(file: BinaryIO) -> bytes | None:
    """Read a message; None at the end of the file, also within a message."""
    size = file.read(_SIZE_BYTES)
    if len(size) < _SIZE_BYTES:
        return None
    length = int.from_bytes(size, "little")
    data = file.read(length)
    return data if len(data) == length else None


def send_number(file: BinaryIO, number: int, data: bytes = b"") -> None:
    """Write the number of a piece, and perhaps its answer, as one message."""
    send(file, number.to_bytes(_SIZE_BYTES, "little") + data)


def number_in(message: bytes) -> tuple[int, bytes]:
    """Return the number of a piece and its answer from a message of `send_number`."""
    return int.from_bytes(message[:_SIZE_BYTES], "little"), message[_SIZE_BYTES:]


def main() -> None:
    """Run the worker: read the work and numbers, and write the answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and ends the input
    hide_pandas()
    atexit.register(gc.freeze)  # else the interpreter searches all objects for cycles when it ends
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # output that a library prints goes to the standard error
        stop = StopRequest()
        terminated = threading.Event()

        def terminate(*_: object) -> None:
            terminated.set()
            stop.set()
            timer = threading.Timer(GRACE_S, os._exit, [EXIT_TERMINATED])  # also where it waits for work
            timer.daemon = True
            timer.start()

        signal.signal(signal.SIGTERM, terminate)
        messages: Messages = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(sys.stdin.buffer, messages, stop), daemon=True).start()
        try:
            while (packed := messages.get()) is not None:
                numbers = _Numbers(messages)
                with contextlib.closing(perform_pieces(_Packed(packed), numbers, stop)) as answered:
                    for number, answer in answered:
                        if terminated.is_set():  # no answer: if the parent goes on, another does it
                            break
                        send_number(output, number, answer)
                if terminated.is_set():
                    os._exit(EXIT_TERMINATED)  # not `sys.exit`: Python aborts while a thread reads its input
                if not numbers.is_ended:
                    while messages.get() is not None:  # sent before the parent knew of an error
                        pass
                    return
                send_number(output, END_OF_WORK)
        except BrokenPipeError:
            os._exit(1)  # the parent has ended, and reads no answers


Messages = queue.SimpleQueue[bytes | None]
"""Messages of the parent; None after the last one."""


class _Numbers:
    """Numbers of the pieces of a work, as they come.

    Args:
        messages: of the parent.

    Attributes:
        is_ended: True if the parent has ended the work, and may send another one.
    """

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self.is_ended = False

    def __iter__(self) -> Iterator[int]:
        while (message := self._messages.get()) is not None:
            number, _ = number_in(message)
            if number == END_OF_WORK:
                self.is_ended = True
                return
            yield number


class _Packed:
    """Work that is unpickled for the first piece.

    An error in unpickling then becomes an answer.
    """

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def open(self, stop: StopRequest) -> AbstractContextManager[Piece]:
        """See `Work`."""
        work: Work = pickle.loads(self._packed)  # noqa: S301  from our own parent process
        return work.open(stop)


def _listen(file: BinaryIO, messages: Messages, stop: StopRequest) -> None:
    """Read messages until the input ends; then request a stop.

    The process exits after `GRACE_S` seconds.
    """
    while (message := receive(file)) is not None:
        messages.put(message)
    stop.set()
    for _ in range(2):  # one for the loop over the pieces, one for the wait after them
        messages.put(None)
    time.sleep(GRACE_S)
    os._exit(1)
