"""Findings of checks, and the time limit of a check."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import DirectoryError

if TYPE_CHECKING:
    from mqdssm.directory.options import ConnectionOptions, Endpoint
    from mqdssm.directory.session import Session

log: Final = logging.getLogger(__name__)

CHECK_LIMIT_S: Final = 5.0
"""Maximum seconds of a check; exceeding it is itself a finding."""
OPERATION_LIMIT_S: Final = 4.0
"""Maximum seconds of each wait within a check, so that the check can report the reason."""


class CheckState(StrEnum):
    """State of a finding."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Finding of a check.

    Attributes:
        name: of the check.
        state: how bad it is.
        text: what is right or wrong.
        advice: what to do next; empty if nothing.
        seconds: how long the check took.
    """

    name: str
    state: CheckState
    text: str
    advice: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the finding in its JSON form."""
        return asdict(self) | {"state": self.state.value, "seconds": round(self.seconds, 3)}


def make_ok(name: str, text: str) -> CheckFinding:
    """Make a finding without a problem."""
    return CheckFinding(name, CheckState.OK, text)


def make_warning(name: str, text: str, advice: str = "") -> CheckFinding:
    """Make a warning."""
    return CheckFinding(name, CheckState.WARNING, text, advice)


def make_problem(name: str, text: str, advice: str = "") -> CheckFinding:
    """Make a finding of a problem."""
    return CheckFinding(name, CheckState.PROBLEM, text, advice)


@dataclass(frozen=True, slots=True)
class CheckedDirectory:
    """Directory that the checks examine.

    Attributes:
        options: how to connect, with the limits of a check.
        session: a session with the servers that let us in.
        endpoints: these servers.
        at: pathname of the computer or queue that rights are looked up on; None: any.
    """

    options: "ConnectionOptions"
    session: "Session"
    endpoints: "tuple[Endpoint, ...]"
    at: str | None = None


def make_failure(name: str, error: BaseException, describe: Callable[[BaseException], str]) -> CheckFinding:
    """Make a finding from an error.

    `describe` returns the message of an error that is no DirectoryError.
    """
    if isinstance(error, DirectoryError):
        code = error.ldap_code
        text = f" (LDAP result {code} {error.server_text!r})" if code is not None else ""
        place = f": {error.dn}" if error.dn else ""
        return make_problem(name, f"{error.message}{place}{text}", error.hint)
    return make_problem(name, describe(error))


def run_limited(
    name: str,
    check: Callable[[], Iterable[CheckFinding]],
    describe: Callable[[BaseException], str] = str,
    limit_s: float = CHECK_LIMIT_S,
) -> Iterator[CheckFinding]:
    """Run a check within its time limit and yield its findings.

    An error becomes a finding.
    A check that hangs is abandoned; its daemon thread does not keep the program alive.
    """
    findings: list[CheckFinding] = []

    def examine() -> None:
        try:
            findings.extend(check())
        except Exception as error:  # noqa: BLE001  whatever it is: the other checks go on
            findings.append(make_failure(name, error, describe))

    started = time.monotonic()
    thread = threading.Thread(target=examine, name=f"doctor {name}", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        words = f"no answer within {limit_s:.0f} s"
        log.info("doctor: %s: %s", name, words)
        yield replace(make_problem(name, words, "is the server busy, or the network slow?"), seconds=limit_s)
        return
    took = time.monotonic() - started
    for finding in findings:
        log.info("doctor: %s: %s: %s", finding.name, finding.state.value, finding.text)
        yield replace(finding, seconds=took)
