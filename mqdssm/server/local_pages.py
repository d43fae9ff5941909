"""Pages of a directory server on its local port: status page, metrics, health."""

import json
import math
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from threading import Lock
from typing import Final

from mqdssm.errors import require_packages
from mqdssm.model.safe_text import escape_json
from mqdssm.server.http_server import HttpReply
from mqdssm.server.snapshot import ServerSnapshot
from mqdssm.server.snapshot_reader import SnapshotReader

JSON: Final = "application/json"
CHECKED_S: Final = 5.0
"""Seconds for which the result of a check of the directory counts."""
HEALTH_S: Final = 2.0
"""Seconds that a request for the health waits for the directory: clients wait five seconds or more."""


def pages_of(reader: SnapshotReader) -> Mapping[str, Callable[[], HttpReply]]:
    """Return the pages of a server by their paths.

    Args:
        reader: reads the snapshot of the server.

    Raises:
        MissingPackageError: a package of the extra `server` is not installed.
    """
    require_packages("prometheus_client", "jinja2", "numpy", extra="server")
    return {
        "/": lambda: build_status_reply(reader.read()),
        "/metrics": lambda: _build_metrics_reply(reader.read()),
        "/health": HealthPage(reader).reply,
    }


def build_status_reply(snapshot: ServerSnapshot) -> HttpReply:
    """Return the status page of a snapshot."""
    from mqdssm.server.status_page import render_status_page  # noqa: PLC0415  needs packages of an extra

    page = render_status_page(snapshot)
    policy = f"{page.policy}; frame-ancestors 'none'"
    return HttpReply(body=page.text.encode(), content_type="text/html; charset=utf-8", policy=policy)


def _build_metrics_reply(snapshot: ServerSnapshot) -> HttpReply:
    from mqdssm.server import metrics  # noqa: PLC0415  needs a package of an extra

    return HttpReply(body=metrics.format_metrics(snapshot), content_type=metrics.CONTENT_TYPE)


class HealthPage:
    """Health of a server and its directory; thread-safe.

    The directory is asked at most once in `CHECKED_S`.

    Args:
        reader: reads the snapshot of the server.
        clock: monotonic seconds.
    """

    def __init__(self, reader: SnapshotReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader, self._clock = reader, clock
        self._lock: Final = Lock()
        self._checked_at = -math.inf

    def reply(self) -> HttpReply:
        """Return status 200 while the server does its work, else 503.

        The reply comes within `HEALTH_S`, also if the directory hangs (decision T156). Requests that come
        during a check get the result that is known.
        """
        if self._lock.acquire(blocking=False):
            try:
                if self._clock() >= self._checked_at + CHECKED_S:
                    self._reader.check_store(HEALTH_S)
                    self._checked_at = self._clock()
            finally:
                self._lock.release()
        return _build_health_reply(self._reader.read(refresh=False))


def _build_health_reply(snapshot: ServerSnapshot) -> HttpReply:
    document = {
        "status": "ok" if snapshot.is_healthy else "failed",
        "machine": snapshot.machine_name,
        "role": snapshot.role.value,
        "problems": [problem.model_dump() for problem in snapshot.problems],
    }
    text = escape_json(json.dumps(document, ensure_ascii=False))
    status = HTTPStatus.OK if snapshot.is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
    return HttpReply(body=f"{text}\n".encode(), content_type=JSON, status=status)
