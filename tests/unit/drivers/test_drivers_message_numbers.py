"""Message numbers: none twice, whatever ends the process and whenever (decision T40)."""

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from mqdssm.drivers.tcp import message_numbers
from mqdssm.drivers.tcp.message_numbers import BLOCK, MessageNumbers
from mqdssm.errors import ConfigError, TransportError
from mqdssm.events import durable_files

_PRINT = """
import sys
from pathlib import Path
from mqdssm.drivers.tcp import message_numbers
message_numbers.BLOCK, message_numbers._AHEAD = 8, 2
for number in message_numbers.MessageNumbers(Path(sys.argv[1])):
    print(number, flush=True)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "numbers.json"


def crash(numbers: MessageNumbers) -> None:
    """Let go of the file as the end of a process does."""
    numbers._document.close()


def saved(file: Path) -> int:
    return json.loads(file.read_text())["next"]


def save(file: Path, number: object) -> None:
    file.write_text(json.dumps({"format": "mqdssm message numbers", "next": number}))


def test_numbers_go_on_after_a_restart(file):
    with MessageNumbers(file) as numbers:
        first = list(islice(numbers, 5))
    with MessageNumbers(file) as numbers:
        assert next(numbers) == first[-1] + 1, "none is left out"
    assert first == list(range(first[0], first[0] + 5))


def test_numbers_are_left_out_after_a_crash(file):
    save(file, 100)
    numbers = MessageNumbers(file)
    last = list(islice(numbers, BLOCK + 10))[-1]
    crash(numbers)
    with MessageNumbers(file) as numbers:
        assert last < next(numbers) <= last + 2 * BLOCK


@pytest.mark.parametrize("is_written", [True, False])
def test_a_crash_in_each_write_repeats_nothing(file, monkeypatch, is_written):
    """A process that ends before a file is replaced, or behind that, has not used what it reserves."""
    monkeypatch.setattr(message_numbers, "BLOCK", 8)
    monkeypatch.setattr(message_numbers, "_AHEAD", 2)
    save(file, 100)
    write, used, writes_left = durable_files.write_atomically, [], 0

    def write_or_crash(*args) -> None:
        nonlocal writes_left
        writes_left -= 1
        if writes_left > 0 or is_written:
            write(*args)
        if not writes_left:
            raise KeyboardInterrupt

    monkeypatch.setattr(durable_files, "write_atomically", write_or_crash)
    for writes_left in (2, 3, 2, 4):  # noqa: B007  the call-back reads it
        numbers = MessageNumbers(file)
        with pytest.raises(KeyboardInterrupt):
            used.extend(numbers)
        crash(numbers)
    assert len(used) > 20
    assert len(set(used)) == len(used)


@pytest.mark.slow
def test_a_process_that_is_killed_repeats_nothing(file):
    save(file, 100)
    used = []
    for lines in (1, 7, 20):
        with subprocess.Popen(
            [sys.executable, "-c", _PRINT, str(file)], stdout=subprocess.PIPE, text=True
        ) as process:
            used += [int(process.stdout.readline()) for _ in range(lines)]
            process.kill()
            used += [int(line) for line in process.stdout if line.endswith("\n")]
    assert used == sorted(set(used))


def test_numbers_have_32_bits(file):
    save(file, 0xFFFF_FFFE)
    with MessageNumbers(file) as numbers:
        assert list(islice(numbers, 4)) == [0xFFFF_FFFE, 0xFFFF_FFFF, 0, 1]


def test_a_new_file_begins_anywhere(tmp_path):
    firsts = set()
    for name in "abc":
        with MessageNumbers(tmp_path / name) as numbers:
            firsts.add(next(numbers))
    assert len(firsts) == 3


def test_a_full_disk(file, monkeypatch, caplog):
    numbers = MessageNumbers(file)

    def fail(*_args) -> None:
        raise ConfigError(f"{file} cannot be written: No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(durable_files, "write_atomically", fail)
        assert len(list(islice(numbers, BLOCK - 5))) == BLOCK - 5
        assert (
            numbers.problem
            == f"6 more messages can be sent: {file} cannot be written: No space left on device"
        )
        assert len(list(islice(numbers, 5))) == 5
        with pytest.raises(TransportError, match=r"no message can be sent: .*No space left"):
            next(numbers)
        assert numbers.problem.startswith("no message can be sent")
    assert len(caplog.records) == 1, "one warning, not one a message"
    assert next(numbers) >= 0
    assert numbers.problem == ""
    numbers.close()


@pytest.mark.parametrize("content", ["", "[]", '{"format": "another", "next": 1}', '{"next": 1}'])
def test_damaged_files(file, content):
    file.write_text(content)
    with pytest.raises(ConfigError, match="is damaged, or no file of message numbers: remove it"):
        MessageNumbers(file)
    file.unlink()
    MessageNumbers(file).close()


@pytest.mark.parametrize("number", [-1, 1 << 32, True, 1.5, None])
def test_damaged_numbers(file, number):
    save(file, number)
    with pytest.raises(ConfigError, match="is damaged"):
        MessageNumbers(file)


def test_two_queue_managers_have_two_files(file):
    with MessageNumbers(file), pytest.raises(ConfigError, match="another queue manager has this file"):
        MessageNumbers(file)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_only_the_owner_reads_the_file(file):
    MessageNumbers(file).close()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_closed_file_belongs_to_another_queue_manager(file):
    save(file, 100)
    numbers = MessageNumbers(file)
    assert next(numbers) == 100
    numbers.close()
    with MessageNumbers(file) as others:
        assert next(others) == 101
        expected = saved(file)
        with pytest.raises(TransportError, match="closed"):
            next(numbers)
        numbers.close()
        assert saved(file) == expected
