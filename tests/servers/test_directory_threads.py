"""Many threads over one directory while its server goes away and comes back: every answer is checked."""

import time

import pytest
from support.directory.busy_threads import work_through

import mqdssm
from mqdssm.testing import OpenLdapServer


def run_threads(seconds: float) -> None:
    def disturb() -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.7)
            server.kill()
            time.sleep(0.15)
            server.start()

    with (
        OpenLdapServer(durable=True) as server,
        mqdssm.connect(
            server.url, user=server.user, password=server.password, ca_file=server.ca_file
        ) as directory,
    ):
        work_through(directory, server, disturb)


def test_twenty_threads_and_a_server_that_restarts() -> None:
    run_threads(3)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_twenty_threads_for_long() -> None:
    run_threads(600)
