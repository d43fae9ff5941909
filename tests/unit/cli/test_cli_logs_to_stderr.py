"""Warnings of commands that run for long: each with its time, as text or as JSON, without secrets."""

import json
import logging
from datetime import datetime

from mqdssm.cli import logs

SERVER_LOG = logging.getLogger("mqdssm.server.process")


def test_warnings_as_json(capsys):
    with logs.record_log(debug=False):
        logs.to_stderr(is_json=True)
        for number in range(logs.SHOWN_WARNINGS + 2):
            SERVER_LOG.warning("number %d\nof two lines, password=topsecret", number)
        SERVER_LOG.info("not a warning")
        logging.getLogger("mqdssm.cli.run").error("printed by the command line itself")
        try:
            int("password=topsecret")
        except ValueError:
            SERVER_LOG.exception("a defect")
    lines = capsys.readouterr().err.splitlines()
    documents = [json.loads(line) for line in lines]
    assert len(documents) == logs.SHOWN_WARNINGS + 3
    first, *_, last = documents
    assert datetime.fromisoformat(first["time"]).tzinfo is not None
    assert (first["level"], first["logger"]) == ("warning", "mqdssm.server.process")
    assert first["message"].startswith("number 0\nof two lines")
    assert "ValueError" in last["traceback"]
    assert not any("topsecret" in line for line in lines)


def test_warnings_as_text(capsys):
    with logs.record_log(debug=False):
        logs.to_stderr(is_json=False)
        for number in range(logs.SHOWN_WARNINGS + 2):
            SERVER_LOG.warning("number %d\nof two lines", number)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == logs.SHOWN_WARNINGS + 2
    assert all(" WARNING mqdssm.server.process number " in line for line in lines)


def test_debug_prints_everything(capsys):
    for is_json in (False, True):
        with logs.record_log(debug=True):
            logs.to_stderr(is_json=is_json)
            SERVER_LOG.debug("detail")
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("{") is is_json
    with logs.record_log(debug=False):
        SERVER_LOG.warning("as before")
    assert capsys.readouterr().err == "warning: as before\n"
