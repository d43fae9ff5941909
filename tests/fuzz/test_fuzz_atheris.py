"""Coverage-guided fuzzing, for seconds here and for as long as one likes by hand."""

import importlib.util
import resource
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 1
LONG_SECONDS = 600


def _peak_mb() -> int:
    """Memory that this process had at most. A program that it starts begins with that as its own peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def run(tmp_path, seconds, harness="fuzz_replication.py"):
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("atheris is made for Linux on x86-64 alone")
    command = [
        sys.executable,
        str(Path(__file__).with_name(harness)),
        f"-max_total_time={seconds}",
        f"-rss_limit_mb={_peak_mb() + 1024}",
        "-verbosity=0",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert not list(tmp_path.glob("crash-*")), done.stderr[-4000:]


@pytest.mark.timeout(60)
def test_replication_messages(tmp_path):
    run(tmp_path, SECONDS)


@pytest.mark.soak
@pytest.mark.timeout(LONG_SECONDS + 60)
def test_replication_messages_for_long(tmp_path):
    run(tmp_path, LONG_SECONDS)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["notification", "topology", "packets"])
def test_notifications_and_packets(tmp_path, kind):
    run(tmp_path, SECONDS, f"fuzz_{kind}.py")


@pytest.mark.soak
@pytest.mark.timeout(LONG_SECONDS + 60)
@pytest.mark.parametrize("kind", ["notification", "topology", "packets"])
def test_notifications_and_packets_for_long(tmp_path, kind):
    run(tmp_path, LONG_SECONDS, f"fuzz_{kind}.py")
