"""Simulated servers whose driver, store thread, queue manager and signatures are those that ship (R147)."""

from typing import Any

import pytest

from mqdssm.drivers.authentication import signatures as authentication
from mqdssm.drivers.authentication.replay_detection import ReplayDetector
from mqdssm.drivers.authentication.signatures import Distrust
from mqdssm.testing.simulation.driven_server import DrivenServer
from mqdssm.testing.simulation.options import options_of
from mqdssm.testing.simulation.run import Simulation, simulate

SEED = 330_330
"""A small enterprise with crashes."""


def everything_is_true(*_arguments: Any) -> bool:
    return True


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
@pytest.mark.timeout(600)
def test_servers_of_such_seeds_have_the_parts_that_ship() -> None:
    simulation = Simulation(options_of(SEED))
    report = simulation.run()
    assert not report.violation
    assert all(isinstance(one, DrivenServer) for one in simulation.world.servers)
    assert report.counts["crashes"]
    assert report.counts["forged messages"]
    assert report.counts["replayed messages"]
    assert report.counts["doubled"]


@pytest.mark.timeout(600)
def test_it_is_seen_when_any_signature_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "is_signed", everything_is_true)
    assert "changed or forged" in simulate(SEED).violation


@pytest.mark.timeout(600)
def test_it_is_seen_when_what_was_recorded_is_believed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplayDetector, "admit", everything_is_true)
    assert "is believed twice" in simulate(SEED).violation


@pytest.mark.timeout(600)
def test_it_is_seen_when_no_message_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any) -> Distrust:
        return Distrust.WRONG

    monkeypatch.setattr(authentication.Verifier, "_find_signer", refuse)
    assert simulate(SEED).violation
