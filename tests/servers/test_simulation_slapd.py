"""Simulated enterprises whose stores are real slapds: crashes, losses and all ([MC-MQDSRP] 1.3.1.2)."""

from dataclasses import replace

import pytest
from support.replication.simulation_slapd import SERVERS_MAX, few_servers, simulate

SEEDS = range(1, 51)
SMALL = (3,)


def test_a_seed_has_few_servers() -> None:
    for seed in range(1, 200):
        options = few_servers(seed)
        assert 1 <= sum(options.bscs) + len(options.bscs) <= SERVERS_MAX


@pytest.mark.parametrize("seed", SMALL)
def test_a_small_enterprise(seed: int) -> None:
    options = few_servers(seed)
    work = replace(options.work, duration_s=60)
    report = simulate(replace(options, work=work, bscs=options.bscs[:2]))
    assert not report.violation, f"seed {seed}: {report.violation}"
    assert report.requests


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", SEEDS)
def test_an_enterprise_of_up_to_five_servers(seed: int) -> None:
    report = simulate(few_servers(seed))
    assert not report.violation, f"seed {seed}: {report.violation}"
