"""A process that sends or receives recoverable messages until it is killed; run as a program.

``worker.py send FOLDER PORT RUN COUNT`` prints the body of each message that `send` has accepted.
``worker.py receive FOLDER PORT FILE`` appends the body of each message to a file, then removes the message.
"""

import os
import sys
from pathlib import Path

from mqdssm.messaging import QueueManager
from support.messaging.managers import QUICK

ORDERS = r"DIRECT=TCP:127.0.0.1\private$\orders"


def send(folder: str, port: str, run: str, count: str) -> None:
    with QueueManager(folder, listen=None, port=int(port), settings=QUICK) as manager:
        for number in range(int(count)):
            body = f"{run}-{number}"
            manager.send(ORDERS, body.encode(), recoverable=True)
            sys.stdout.write(f"{body}\n")
            sys.stdout.flush()
        while not manager.flush(1.0):
            pass


def receive(folder: str, port: str, file: str) -> None:
    manager = QueueManager(folder, listen=("127.0.0.1", int(port)), queues=("orders",), settings=QUICK)
    with manager, Path(file).open("ab", buffering=0) as bodies:
        orders = manager.open("orders")
        while True:
            with orders.receiving() as message:
                assert message is not None
                os.write(bodies.fileno(), message.body + b"\n")


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(*sys.argv[2:])
    else:
        receive(*sys.argv[2:])
