"""Pages of a directory server on its local port: metrics and health."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

from mqdssm.errors import require_packages
from mqdssm.model.safe_text import printable_json
from mqdssm.server.http_server import HttpReply
from mqdssm.server.snapshot import ServerSnapshot
from mqdssm.server.snapshot_reader import SnapshotReader

JSON: Final = "application/json"


def pages_of(reader: SnapshotReader) -> Mapping[str, Callable[[], HttpReply]]:
    """Return the pages of a server by their paths.

    Args:
        reader: reads the snapshot of the server.

    Raises:
        MissingPackageError: a package of the extra `server` is not installed.
    """
    require_packages("prometheus_client")
    return {
        "/metrics": partial(_metrics, reader),
        "/health": partial(_health, reader),
    }


def _metrics(reader: SnapshotReader) -> HttpReply:
    from mqdssm.server import metrics  # noqa: PLC0415  needs a package of an extra

    return HttpReply(body=metrics.metrics_text(reader.read()), content_type=metrics.CONTENT_TYPE)


def _health(reader: SnapshotReader) -> HttpReply:
    """Return status 200 while the server does its work, else 503; the directory is not asked."""
    snapshot = reader.read(refresh=False)
    status = HTTPStatus.OK if snapshot.is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
    return HttpReply(body=health_json(snapshot), content_type=JSON, status=status)


def health_json(snapshot: ServerSnapshot) -> bytes:
    """Return the health of a server as JSON: its role, and its problems."""
    document = {
        "status": "ok" if snapshot.is_healthy else "failed",
        "machine": snapshot.machine_name,
        "role": snapshot.role.value,
        "problems": [problem.model_dump() for problem in snapshot.problems],
    }
    return f"{printable_json(json.dumps(document, ensure_ascii=False))}\n".encode()
