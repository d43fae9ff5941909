"""A server of each kind for each test, to be killed: fixtures for modules that name them in ``__all__``."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from mqdssm.testing import OpenLdapServer, SambaDomainController
from support.watching.kinds import KINDS, Kind

SERVERS: Final = {"openldap": OpenLdapServer, "samba": SambaDomainController}


@pytest.fixture(params=["openldap", pytest.param("samba", marks=pytest.mark.samba)])
def kind(request: pytest.FixtureRequest) -> Kind:
    """What makes the server another one."""
    return KINDS[request.param]


@pytest.fixture
def server(kind: Kind) -> Iterator[Any]:
    """A server of its own, which may be killed."""
    with SERVERS[kind.name]() as started:
        yield started
