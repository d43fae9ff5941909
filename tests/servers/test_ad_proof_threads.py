"""Twenty threads over sealed connections (GSS-SPNEGO), or one of them, while the controller restarts."""

import time

import pytest
from support.directory.busy_threads import work_through

import mqdssm
from mqdssm.directory.pool import CHANNELS_MAX
from mqdssm.testing import SambaDomainController


def run_threads(restarts: int) -> None:
    def disturb() -> None:
        for number in range(restarts):
            time.sleep(1)
            (server.stop if number % 2 else server.kill)()
            time.sleep(0.2)
            server.start()
        time.sleep(1)

    with (
        SambaDomainController() as server,
        mqdssm.connect(
            server.url, user=server.user, password=server.password, authentication="spnego"
        ) as directory,
    ):
        work_through(directory, server, disturb)


@pytest.mark.soak
@pytest.mark.parametrize("channels", [CHANNELS_MAX, 1])
def test_twenty_sealed_threads_and_a_controller_that_restarts(
    channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqdssm.directory.pool.CHANNELS_MAX", channels)
    run_threads(2)


@pytest.mark.soak
def test_twenty_sealed_threads_for_long() -> None:
    run_threads(30)
