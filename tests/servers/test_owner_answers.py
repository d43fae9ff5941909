"""Take-over from an owner that works, or is gone: directory servers as processes on real connections."""

import os
import signal
import subprocess

import pytest
from support.servers.enterprise import FIVE, PROGRAM, EnterpriseProcesses, on_loopback, wait_for
from support.servers.processes import stop


def take_over(servers: EnterpriseProcesses, *options: str) -> subprocess.CompletedProcess[str]:
    """Let PSC01 take the enterprise over from the PEC."""
    line = [*PROGRAM, "enterprise", "take-over", "--enterprise", *options]
    server = servers.members["PSC01"].socket
    return subprocess.run([*line, "--server", str(server)], capture_output=True, text=True, check=False)


def owns_the_enterprise(servers: EnterpriseProcesses, name: str) -> bool:
    return any(part.is_enterprise and part.is_ours for part in servers.members[name].status().partitions)


@pytest.mark.soak
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
@pytest.mark.timeout(240)
def test_an_owner_that_works_and_one_that_is_gone(tmp_path):
    with on_loopback(tmp_path, FIVE[:2]) as servers:
        pec = servers.pec
        wait_for(
            "the PSC has the enterprise",
            60,
            lambda: all(not part.is_new for part in servers.members["PSC01"].status().partitions),
        )
        slapd = int((pec.folder / "directory" / "run" / "slapd.pid").read_text())
        stop(slapd)  # the owner still takes messages, and goes on when its directory does
        try:
            refused = take_over(servers)
        finally:
            os.kill(slapd, signal.SIGCONT)
        assert (refused.returncode, "PEC01 answers" in refused.stderr) == (6, True), refused.stderr
        assert "PEC01 answers" in take_over(servers, "--dry-run").stderr
        assert not owns_the_enterprise(servers, "PSC01")
        servers.end("PEC01", signal.SIGKILL)
        done = take_over(servers)
        assert done.returncode == 0, done.stderr
        assert owns_the_enterprise(servers, "PSC01")
        servers.start("PEC01")  # it does not know of its successor
        again = take_over(servers, "--dry-run")
        assert "owns the partition of enterprise already" in again.stderr
