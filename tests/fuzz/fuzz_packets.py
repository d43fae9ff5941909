"""Coverage-guided fuzzing of the decoder of packets, with atheris (libFuzzer for Python).

By hand: ``python tests/fuzz/fuzz_packets.py -max_total_time=600``; `test_fuzz_atheris.py` runs it for
seconds. Whatever the bytes: a packet that comes back from its own bytes, or DecodeError;
shown with the same words.
"""

import sys
import tempfile
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

with atheris.instrument_imports(include=["mqdssm.wire", "mqdssm.model"]):
    from mqdssm.wire import mqqb, mqqb_headers, packet_view

from mqdssm.errors import DecodeError  # noqa: E402  nothing to learn from its branches

# the generated readers come from exec, which instrument_imports does not see
for _layout in (mqqb.USER_MESSAGE, mqqb.ESTABLISH_CONNECTION, mqqb_headers.SECURITY_HEADER):
    atheris.instrument_func(_layout._read)


def one_input(data: bytes) -> None:
    """Try one input; any exception but DecodeError, and any disagreement, is a finding."""
    shown = packet_view.show_packet(data)
    try:
        made = mqqb.decode_packet(data)
    except DecodeError as error:
        if str(error) != str(shown.error):
            raise AssertionError(f"{error} is shown as {shown.error}") from error
        return
    if mqqb.decode_packet(mqqb.encode_packet(made)) != made:
        raise AssertionError(f"{made} does not come back from its own bytes")


def main() -> None:
    """Run libFuzzer with the vectors as its first corpus."""
    from support.packets.strategies import FRAMES

    with tempfile.TemporaryDirectory() as corpus:
        for name, image in FRAMES.items():
            (Path(corpus) / name).write_bytes(image)
        atheris.Setup([*sys.argv, corpus], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
