"""Command line ``mqdssm``: a module or folder for each command.

`output`, `options` and `exits` are shared by all commands.
Nothing here is needed by the library. Every module is cheap to import; what a command needs, it imports
when it runs, so that ``mqdssm --help`` answers at once.
"""

import os
import signal
import sys
import threading
from pathlib import Path


def _end_early() -> None:
    """End ``mqdssm watch`` with exit code 0 on a signal during its imports."""
    is_program = sys.argv[0] == "-m" or Path(sys.argv[0]).stem == "mqdssm"
    command = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    if is_program and command == "watch" and threading.current_thread() is threading.main_thread():
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, lambda *_: os._exit(0))


_end_early()
