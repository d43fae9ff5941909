"""What all tests share: search paths, hypothesis profiles, marks that follow from place and fixtures."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parent
for folder in (TESTS, TESTS.parent / ".ci"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import conformance  # noqa: E402  found through the path above

if TYPE_CHECKING:
    from mqdssm.testing import SambaDomainController

# Tests press Ctrl-C in programs that they start. A shell's background job ignores SIGINT, and so would those.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: the machines that run this have two busy cores, and a slow example is no wrong one.
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "default", deadline=None, max_examples=60, suppress_health_check=_SLOW_IS_FINE, database=None
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.register_profile("soak", settings.get_profile("default"), max_examples=5000, print_blob=True)
settings.load_profile(os.environ.get("MQDSSM_TEST_PROFILE") or ("ci" if os.environ.get("CI") else "default"))

SERVER_FIXTURES = frozenset({"openldap_server", "openldap_directory", "samba_server", "samba_directory"})
SAMBA_FIXTURES = frozenset({"samba_server", "samba_directory"})
SAMBA_FILE = re.compile(r"test_ad_|test_.*samba")  # all tests of these need a domain controller
PLACE_MARKS = {"servers": "server", "spark": "spark"}  # folder below tests/ -> mark


def _check_spec_marks(item: pytest.Item, sections: dict[str, conformance.Section]) -> None:
    for mark in item.iter_markers("spec"):
        if len(mark.args) != 1 or mark.kwargs or mark.args[0] not in sections:
            raise pytest.UsageError(
                f"{item.nodeid}: spec{mark.args!r} is not the name of one section of tests/spec/sections.csv"
            )


@pytest.hookimpl(tryfirst=True)  # before -m selects, and before xdist makes its groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the marks that follow from where it is and what it uses; refuse unknown sections."""
    sections = conformance.read_sections()
    for item in items:
        _check_spec_marks(item, sections)
        place = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if place in PLACE_MARKS:
            item.add_marker(PLACE_MARKS[place])
        if SERVER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("server")
        if SAMBA_FILE.match(item.path.name) or SAMBA_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("samba")
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))  # one JVM, one session


@cache
def _why_no_samba() -> str:
    from mqdssm.errors import ConfigError
    from mqdssm.testing.samba_config import require_software

    try:
        require_software()
    except ConfigError as error:
        return str(error)
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a domain controller where there can be none; one in a container needs an engine."""
    needs = item.get_closest_marker("samba") and not item.get_closest_marker("container")
    if needs and (reason := _why_no_samba()):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def samba_server(samba_server: "SambaDomainController") -> "Iterator[SambaDomainController]":
    """The fixture of `mqdssm.testing.plugin`; what all tests of a worker have left must be sound."""
    from support.servers.samba_tools import SambaTools

    yield samba_server
    SambaTools(samba_server).check_database()
