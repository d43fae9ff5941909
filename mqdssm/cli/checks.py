"""What a check of ``mqdssm doctor`` finds, and how a check is kept within its time."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from mqdssm.cli.exits import words_of
from mqdssm.errors import DirectoryError

if TYPE_CHECKING:
    from mqdssm.cli.settings import Loaded
    from mqdssm.directory.options import ConnectionOptions, Endpoint
    from mqdssm.directory.session import Session

log: Final = logging.getLogger(__name__)

CHECK_LIMIT_S: Final = 5.0
"""No check takes longer; one that would is itself a finding."""
OPERATION_LIMIT_S: Final = 4.0
"""Each wait within a check, so that the check can still say what it waited for."""


class CheckState(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What a check found.

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
        """Give the finding as JSON holds it."""
        return {
            "name": self.name,
            "state": self.state.value,
            "text": self.text,
            "advice": self.advice,
            "seconds": round(self.seconds, 3),
        }


def ok(name: str, text: str) -> CheckFinding:
    """All is well."""
    return CheckFinding(name, CheckState.OK, text)


def warning(name: str, text: str, advice: str = "") -> CheckFinding:
    """It works, but."""
    return CheckFinding(name, CheckState.WARNING, text, advice)


def problem(name: str, text: str, advice: str = "") -> CheckFinding:
    """It does not work."""
    return CheckFinding(name, CheckState.PROBLEM, text, advice)


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined.

    Attributes:
        loaded: the settings and where they come from.
        options: how to connect, with the limits of a check.
        session: a session with the servers that let us in.
        endpoints: these servers.
        at: pathname of the computer or queue that rights are looked up on; None: any.
    """

    loaded: "Loaded"
    options: "ConnectionOptions"
    session: "Session"
    endpoints: "tuple[Endpoint, ...]"
    at: str | None = None


def failed(name: str, error: BaseException) -> CheckFinding:
    """What an error says, as a finding."""
    if isinstance(error, DirectoryError):
        code = error.ldap_code
        said = f" (LDAP result {code} {error.server_text!r})" if code is not None else ""
        place = f": {error.dn}" if error.dn else ""
        return problem(name, f"{error.message}{place}{said}", error.hint)
    return problem(name, words_of(error))


def limited(
    name: str, check: Callable[[], Iterable[CheckFinding]], limit_s: float = CHECK_LIMIT_S
) -> Iterator[CheckFinding]:
    """Run a check, but no longer than its limit; an error is a finding.

    A check that hangs is left behind: its thread does not keep the program alive.
    """
    found: list[CheckFinding] = []

    def examine() -> None:
        try:
            found.extend(check())
        except Exception as error:  # noqa: BLE001  whatever it is: the other checks go on
            found.append(failed(name, error))

    started = time.monotonic()
    thread = threading.Thread(target=examine, name=f"doctor {name}", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        words = f"no answer within {limit_s:.0f} s"
        log.info("doctor: %s: %s", name, words)
        yield replace(problem(name, words, "is the server busy, or the network slow?"), seconds=limit_s)
        return
    took = time.monotonic() - started
    for one in found:
        log.info("doctor: %s: %s: %s", one.name, one.state.value, one.text)
        yield replace(one, seconds=took)
