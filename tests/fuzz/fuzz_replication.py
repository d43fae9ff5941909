"""Coverage-guided fuzzing of the decoder of replication messages, with atheris (libFuzzer for Python).

By hand: ``python tests/fuzz/fuzz_replication.py -max_total_time=600``; `test_fuzz_atheris.py` runs it for
seconds. Whatever the bytes: a message that encodes to them, or DecodeError; shown with the same words.
"""

import sys
import tempfile
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

with atheris.instrument_imports(include=["mqdssm.wire", "mqdssm.model"]):
    from mqdssm.wire import mqdsrp

from mqdssm.errors import DecodeError  # noqa: E402  nothing to learn from its branches

# the generated readers come from exec, which instrument_imports does not see
for _layout in (*mqdsrp.LAYOUTS.values(), mqdsrp.DIRECTORY_CHANGE, mqdsrp.SEQ_NUMBER_HEADER):
    atheris.instrument_func(_layout._read)


def one_input(data: bytes) -> None:
    """Try one input; any exception but DecodeError, and any disagreement, is a finding."""
    shown = mqdsrp.show_message(data)
    try:
        message = mqdsrp.decode(data)
    except DecodeError as error:
        if str(error) != str(shown.error):
            raise AssertionError(f"{error} is shown as {shown.error}") from error
        return
    if shown.error is not None or mqdsrp.encode(message) != data:
        raise AssertionError(f"{message} comes from other bytes than it encodes to")


def main() -> None:
    """Run libFuzzer with the vectors as its first corpus."""
    from support.replication.strategies import VECTORS, image_of

    with tempfile.TemporaryDirectory() as corpus:
        for vector in VECTORS:
            (Path(corpus) / vector["id"]).write_bytes(image_of(vector))
        atheris.Setup([*sys.argv, corpus], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
