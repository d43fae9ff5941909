"""Samba's code, where it is installed."""

from collections.abc import Iterator

import pytest
from support.servers import samba_oracle


@pytest.fixture(scope="session")
def samba() -> Iterator[samba_oracle.SambaOracle]:
    """Answers questions about descriptors; the test is skipped where Samba is not installed."""
    if samba_oracle.missing():
        pytest.skip(samba_oracle.missing())
    oracle = samba_oracle.SambaOracle()
    yield oracle
    oracle.close()
