"""What all tests share: search paths, hypothesis profiles, marks that follow from place and fixtures."""

import atexit
import gc
import os
import re
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parent
for folder in (TESTS, TESTS.parent / ".ci"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import conformance  # noqa: E402  found through the path above
from support.spark.engines import engine, event_log, shared_spark, spark  # noqa: E402

__all__ = ["engine", "event_log", "shared_spark", "spark"]

if TYPE_CHECKING:
    from mqdssm.testing import SambaDomainController

# Tests press Ctrl-C in programs that they start. A shell's background job ignores SIGINT, and so would those.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs that tests start buffer their output as users' do, whatever the environment says.
os.environ.pop("PYTHONUNBUFFERED", None)

# Collecting the tests makes no garbage. Looking for garbage took half of the collection's time.
gc.disable()

# No deadline: the machines that run this have two busy cores, and a slow example is no wrong one.
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "default", deadline=None, max_examples=30, suppress_health_check=_SLOW_IS_FINE, database=None
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
# For `make test-fast`; `make test` tries thirty, `make soak` thousands
settings.register_profile("fast", settings.get_profile("ci"), max_examples=5)
settings.register_profile("soak", settings.get_profile("default"), max_examples=5000, print_blob=True)
settings.load_profile(os.environ.get("MQDSSM_TEST_PROFILE") or ("ci" if os.environ.get("CI") else "default"))

SERVER_FIXTURES = frozenset({"openldap_server", "openldap_directory", "samba_server", "samba_directory"})
SAMBA_FIXTURES = frozenset({"samba_server", "samba_directory"})
SAMBA_FILE = re.compile(r"test_ad_|test_.*samba")  # all tests of these need a domain controller
PLACE_MARKS = {  # folder below tests/ -> mark
    "servers": "server",
    "spark": "spark",
    **dict.fromkeys(("docs", "fuzz", "mutants", "simulation"), "slow"),
}
GROUPS = {  # folder below tests/ -> tests that share one worker
    "spark": "spark",  # one JVM, one session
    "tidy": "tidy",  # each file of the project is parsed once
}


COLLECTED_AFTER = 50_000
"""New objects before the garbage collector runs, instead of 700: it took a tenth of many tests' time."""
LONGEST_VALUE = 120  # characters of a value in the name of a test
LONGEST_NAME = 1000


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten long values in the names of tests, of which xdist sends several copies for each test."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_VALUE:
        return f"{val[:20]!r} of {len(val)}"
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse sets of values: their order is another one in each worker, and xdist runs nothing then."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if isinstance(mark.args[-1], set | frozenset):
            raise pytest.UsageError(
                f"{metafunc.definition.nodeid}: give parametrize a list, a set has no order"
            )


def _check_name(item: pytest.Item) -> None:
    if len(item.nodeid) > LONGEST_NAME:
        raise pytest.UsageError(f"{item.nodeid[:200]}…: give the values ids, this name is too long")


def _check_spec_marks(item: pytest.Item, sections: dict[str, conformance.Section]) -> None:
    for mark in item.iter_markers("spec"):
        if len(mark.args) != 1 or mark.kwargs or mark.args[0] not in sections:
            raise pytest.UsageError(
                f"{item.nodeid}: spec{mark.args!r} is not the name of one section of tests/spec/sections.csv"
            )


@cache
def _place(path: Path) -> str:
    """Name of the folder below tests/ that a test file is in."""
    return path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""


def _engine_of(item: pytest.Item) -> object:
    """Engine that a test of both gets; None for other tests."""
    call = getattr(item, "callspec", None)
    return call.params.get("engine") if call is not None else None


def _runs_without_java(item: pytest.Item) -> bool:
    """True for a test of both runners that runs with the local one: any worker may take it."""
    call = getattr(item, "callspec", None)
    chosen = {call.params.get("runner"), _engine_of(item)} if call is not None else ()
    return "local" in chosen and "spark" not in _fixtures(item)


def _shares_with_its_module(item: pytest.Item) -> bool:
    """True if a fixture of the item's module serves several of its tests: one worker then makes it once."""
    info = getattr(item, "_fixtureinfo", None)
    used = info.name2fixturedefs.values() if info is not None else ()
    return any(made[-1].scope == "module" for made in used)


def _fixtures(item: pytest.Item) -> frozenset[str]:
    return frozenset(getattr(item, "fixturenames", ()))


@pytest.hookimpl(tryfirst=True)  # before -m selects, and before xdist makes its groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the marks that follow from where it is and what it uses; refuse unknown sections."""
    sections = conformance.read_sections()
    for item in items:
        _check_name(item)
        _check_spec_marks(item, sections)
        place = _place(item.path)
        if place in PLACE_MARKS:
            item.add_marker(PLACE_MARKS[place])
        fixtures = _fixtures(item)
        if place != "spark" and _engine_of(item) == "spark" and not item.get_closest_marker("both_engines"):
            item.add_marker("soak")
        if SERVER_FIXTURES & fixtures or (place == "cli" and "server" in fixtures):
            item.add_marker("server")
        if SAMBA_FIXTURES & fixtures or SAMBA_FILE.match(item.path.name):
            item.add_marker("samba")
        group = "spark" if item.get_closest_marker("spark") else place
        if group in GROUPS and not _runs_without_java(item):
            item.add_marker(pytest.mark.xdist_group(GROUPS[group]))
        elif _shares_with_its_module(item) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Look for garbage from now on, but not among the tests, which stay until the end."""
    _check_groups(session)
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
    gc.enable()


def _check_groups(session: pytest.Session) -> None:
    """Refuse versions of pytest and pytest-xdist that do not keep groups of tests together."""
    if not getattr(session.config.option, "loadgroup", False):
        return
    grouped = [item.nodeid for item in session.items if item.get_closest_marker("xdist_group")]
    lost = [nodeid for nodeid in grouped if _without_group(nodeid) == nodeid]
    if lost:
        raise pytest.UsageError(f"pytest-xdist ignores the group of {lost[0]} and {len(lost) - 1} others")


def _without_group(nodeid: str) -> str:
    """The name of a test without ``@group``, which pytest-xdist adds."""
    place = nodeid.rfind("@")
    return nodeid[:place] if place > nodeid.rfind("]") else nodeid


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name tests as they are named without workers: `--last-failed` finds them then, whatever their group."""
    if hasattr(report, "node"):  # the report of a worker
        report.nodeid = _without_group(report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    """End a worker without the interpreter's last searches for cycles, a fifth of its processor time."""
    if hasattr(config, "workerinput"):
        atexit.register(_exit_worker, os.getpid())  # runs after all handlers that tests register


def _exit_worker(pid: int) -> None:
    """Exit at once, unless this is a program that the worker forked."""
    if os.getpid() == pid:
        weakref.finalize._exitfunc()  # type: ignore[attr-defined]  # registered before; it removes temporary folders
        os._exit(0)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let everything be collected at the end: DuckDB's binding reports objects that are not."""
    if not hasattr(config, "workerinput"):
        gc.unfreeze()


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


@pytest.fixture(scope="session", autouse=True)
def _forked_workers() -> Iterator[None]:
    """Fork the workers of the local runner; its own tests, and programs that tests start, start them."""
    from support.programs import starting

    from mqdssm.pipeline import local

    programs = SimpleNamespace(**{**vars(subprocess), "Popen": starting.start})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "subprocess", programs)
        yield


@pytest.fixture(scope="session")
def samba_server(samba_server: "SambaDomainController") -> "Iterator[SambaDomainController]":
    """The fixture of `mqdssm.testing.plugin`; what all tests of a worker have left must be sound."""
    from support.servers.samba_tools import SambaTools

    yield samba_server
    SambaTools(samba_server).check_database()
