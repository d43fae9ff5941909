"""Run of all checks in order, each within its time limit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from mqdssm.diagnostics import connection_checks, directory_checks, server_checks
from mqdssm.diagnostics.findings import CheckedDirectory, CheckFinding, CheckState, run_limited
from mqdssm.directory.options import ConnectionOptions, Endpoint
from mqdssm.directory.session import Session

CHECKS: Final[tuple[tuple[str, Callable[[CheckedDirectory], Iterable[CheckFinding]]], ...]] = (
    ("profile", directory_checks.check_profile),
    ("schema", directory_checks.check_schema),
    ("base tree", directory_checks.check_tree),
    ("rights", directory_checks.check_rights),
    ("limits", server_checks.check_limits),
    ("controls", server_checks.check_controls),
    ("indexes", server_checks.check_indexes),
    ("clock", server_checks.check_clock),
    ("servers", server_checks.check_agreement),
    ("global catalog", server_checks.check_catalog),
)
"""Checks after a successful log-in, in this order."""


class Examination:
    """Run of all checks.

    Attributes:
        connected: True if a server accepted the log-in.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        describe: Callable[[BaseException], str],
        *,
        sources: Sequence[str] = (),
        password_file: Path | None = None,
        at: str | None = None,
    ) -> None:
        """Initialize without connecting.

        Args:
            options: how to connect, with `OPERATION_LIMIT_S` as the limit of each wait.
            describe: returns the message of an error that is no DirectoryError.
            sources: where the settings come from, for the first finding.
            password_file: file that holds the password; None: there is none.
            at: pathname of the computer or queue that rights are looked up on; None: any.
        """
        self._options = options
        self._describe = describe
        self._sources = sources
        self._password_file = password_file
        self._at = at
        self.connected = False

    def findings(self) -> Iterator[CheckFinding]:
        """Run the checks and yield each finding at once."""
        options = self._options
        yield from self._run_limited(
            "settings", lambda: connection_checks.check_settings(options, self._sources, self._password_file)
        )
        reached: list[Endpoint] = []
        for endpoint in options.endpoints:
            findings = list(self._examine_server(endpoint))
            yield from findings
            if findings[0].state is not CheckState.PROBLEM:
                reached.append(endpoint)
        if not reached:
            yield connection_checks.make_no_server_finding(len(options.endpoints))
            return
        self.connected = True
        yield from self._examine_directory(replace(options, endpoints=tuple(reached)))

    def _examine_directory(self, options: ConnectionOptions) -> Iterator[CheckFinding]:
        session = Session(options)
        try:
            # an unknown kind of server is a finding of the first check; without it there are no others
            findings = list(self._run_limited("profile", lambda: _try_to_connect(session)))
            yield from findings
            if findings:
                return
            checked = CheckedDirectory(options, session, options.endpoints, self._at)
            for name, check in CHECKS:
                yield from self._run_limited(name, lambda check=check: check(checked))  # type: ignore[misc]  # bound at once
        finally:
            session.close()

    def _examine_server(self, endpoint: Endpoint) -> Iterator[CheckFinding]:
        name, options = f"connection {endpoint.url}", self._options
        findings = list(
            self._run_limited(name, lambda: connection_checks.check_connection(options, endpoint))
        )
        yield from findings
        if findings[0].state is not CheckState.PROBLEM:
            name = f"certificate {endpoint.url}"
            yield from self._run_limited(name, lambda: connection_checks.check_certificate(options, endpoint))

    def _run_limited(self, name: str, check: Callable[[], Iterable[CheckFinding]]) -> Iterator[CheckFinding]:
        return run_limited(name, check, self._describe)


def _try_to_connect(session: Session) -> Iterable[CheckFinding]:
    """Connect; a failure becomes a finding."""
    session.connect()
    return ()
