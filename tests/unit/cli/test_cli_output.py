"""Printing: exit codes, one line for each error, tables in a pipe, JSON arrays, the log."""

import contextlib
import errno
import io
import json
import logging
import re
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm import errors
from mqdssm.cli import exits, logs
from mqdssm.cli.output import CHUNK_ROWS, Output
from mqdssm.model.elements import Queue
from mqdssm.model.safe_text import make_visible

ERRORS = [
    (exits.UsageProblem("x"), 2),
    (ValueError("x"), 2),
    (errors.DirectoryNotConnected("x"), 3),
    (errors.OutcomeUnknown("x"), 3),
    (errors.SourceNotConnected("x"), 3),
    (errors.ObjectNotFound("x"), 4),
    (errors.EndOfData("x"), 4),
    (errors.AttributeNotFound("x"), 4),
    (errors.ObjectAlreadyExists("x"), 5),
    (errors.GenericDirectoryError("x"), 6),
    (errors.ConfigError("x"), 6),
    (errors.ObjectChanged("x"), 6),
    (errors.MissingPackageError("pyarrow"), 6),
    (errors.MappingError("x"), 6),
    (errors.TransportError("x"), 6),
    (errors.NotDelivered("x"), 3),
    (errors.MessageRejected("x"), 1),
    (errors.DecodeError("[MS-DTYP] 2.4.6", "Owner", 4, "x"), 6),
    (RuntimeError("x"), 6),
    (OSError(errno.ENOSPC, "full"), 6),
    (OSError(errno.EPIPE, "pipe"), 141),
    (KeyboardInterrupt(), 130),
]


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda value: type(value).__name__)
def test_exit_codes(error, code):
    assert exits.code_of(error) == code
    said = json.loads(exits.as_json(error, code))
    assert said["exit_code"] == code
    assert said["error"] == type(error).__name__


def test_every_error_of_ours_has_a_code():
    kinds = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.MqdssmError)
    }
    assert kinds - {errors.MqdssmError, errors.DirectoryError} <= {type(error) for error, _ in ERRORS}


def test_words():
    full = errors.ObjectNotFound("gone", dn="cn=x\n", ldap_code=32, server_text="no\x1b", hint="look")
    assert exits.words_of(full) == r"gone; object: cn=x\n; LDAP result 32 'no\x1b'; look"
    assert exits.words_of(OSError(errno.ENOENT, "No such file", "f")) == "f: No such file"
    assert exits.words_of(RuntimeError("x")) == "unexpected RuntimeError: x; --debug shows where"
    assert exits.words_of(ValueError()) == "ValueError"
    with pytest.raises(ValueError) as caught:
        Queue.model_validate({"Quota": "x", "BasePriority": 10**6})
    words = exits.words_of(caught.value)
    assert words == (
        "Quota must be a whole number, not 'x'; BasePriority is 1000000: -32768 to 32767 are allowed"
    )


@given(st.text())
def test_visible_text_is_one_harmless_line(text):
    shown = make_visible(text)
    assert "\n" not in shown
    assert shown.isprintable()
    assert (shown == text) == text.isprintable()


@contextlib.contextmanager
def caught():
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        yield stream


def test_tables_in_a_pipe():
    with caught() as stdout:
        assert Output().rows(("a", "long head"), [("1", "x"), ("a long cell", ""), ("\x1b", "[red]")]) == 3
    lines = ["a            long head", "1            x", "a long cell", "\\x1b         [red]", ""]
    assert stdout.getvalue() == "\n".join(lines)


def test_names_and_values_in_a_pipe():
    with caught() as stdout:
        Output().pairs([("a", "1"), ("long", "\n"), ("b", "")])
        Output().pairs([])
    assert stdout.getvalue() == "a     1\nlong  \\n\nb\n"


def test_long_tables_keep_the_widths_of_their_first_piece():
    rows = [("x", "y")] * CHUNK_ROWS + [("longer", "y")]
    with caught() as stdout:
        assert Output().rows(("a", "b"), rows) == CHUNK_ROWS + 1
    lines = stdout.getvalue().splitlines()
    assert lines[0] == "a  b"
    assert lines[-2:] == ["x  y", "longer  y"]
    assert lines.count("a  b") == 1


def test_json_arrays_are_streamed():
    seen = []

    def items():
        for number in range(3):
            seen.append(stdout.getvalue())
            yield json.dumps(number)

    with caught() as stdout:
        assert Output(is_json=True).json_array(items()) == 3
    assert json.loads(stdout.getvalue()) == [0, 1, 2]
    assert seen == ["[", "[\n0", "[\n0,\n1"]


def test_json_arrays_that_break_off_stay_open():
    def items():
        yield "1"
        raise RuntimeError

    with caught() as stdout, pytest.raises(RuntimeError):
        Output(is_json=True).json_array(items())
    assert stdout.getvalue() == "[\n1"


def test_no_progress_for_programs_or_pipes(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    for output in (Output(), Output(is_json=True)):
        with output.progress("x") as done:
            done(1)
    assert stream.getvalue() == ""


def test_progress_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with Output().progress("counting") as done:
        done(1234)
    assert "counting" in stream.getvalue()
    assert "1,234" in stream.getvalue()


def test_a_bar_for_people_alone(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for output in (Output(), Output(is_json=True)):
        with output.bar("x") as show:
            assert show is None


def test_a_bar_shows_rate_and_remaining_time(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Output().bar("exporting") as show:
        show(0, None)  # how many there will be is not known yet
        for count in (1_000, 2_000, 3_000):
            time.sleep(0.15)
            show(count, 10_000)
        show(12_000, 10_000)  # more came meanwhile
    with Output().bar("exporting") as show:
        show(5, 7)
        show(7, 7, "reading back")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "exporting" in text
    assert "12,000" in text
    assert re.search(r"reading back\D+7", text)
    assert re.search(r"[0-9,]+/s", text)
    assert re.search(r"\d:\d\d:\d\d", text)


def test_notes_are_for_people(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    Output(is_json=True).note("x")
    Output().note("3 queues")
    assert stream.getvalue() == "3 queues\n"


def test_warnings_are_told_but_not_by_the_thousand(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logger = logging.getLogger("mqdssm.test")
    with logs.record_log(debug=False):
        for number in range(12):
            logger.warning("no %d\n", number)
        logger.info("quiet")
        logger.error("told otherwise")
    lines = stream.getvalue().splitlines()
    assert lines[0] == r"warning: no 0\n"
    assert len(lines) == logs.SHOWN_WARNINGS + 1
    assert (
        lines[-1] == "warning: 7 more warnings are not shown; with MQDSSM_LOG_FILE=FILE they are all in FILE"
    )
    kept = "\n".join(logs.read_kept_lines())
    assert "INFO mqdssm.test quiet" in kept
    assert "WARNING mqdssm.test no 11" in kept


def test_the_log_file(tmp_path):
    file = tmp_path / "deep" / "log"
    before = list(logging.getLogger("mqdssm").handlers)
    with logs.record_log(debug=False):
        logs.to_file(file)
        logging.getLogger("mqdssm.test").info("kept %s", "here")
    assert "INFO mqdssm.test kept here" in file.read_text()
    assert logging.getLogger("mqdssm").handlers == before
    with logs.record_log(debug=False), pytest.raises(exits.UsageProblem, match="cannot be written"):
        logs.to_file(tmp_path)


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EDQUOT])
def test_a_log_file_that_a_full_disk_does_not_let_begin_is_a_warning(tmp_path, monkeypatch, capsys, reason):
    def no_room(*_args):
        raise OSError(reason, "no room")

    monkeypatch.setattr(logging.FileHandler, "_open", no_room)
    with logs.record_log(debug=False):
        logs.to_file(tmp_path / "log")
        logging.getLogger("mqdssm.test").info("quiet")
    expected = f"the log file {tmp_path / 'log'} cannot be written: no room; this run goes on without it"
    assert capsys.readouterr().err == f"warning: {expected}\n"


def test_warnings_that_cannot_be_printed_fail_nothing(monkeypatch):
    class Full(io.StringIO):
        def write(self, _text):
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(sys, "stderr", Full())
    with logs.record_log(debug=False):
        for number in range(logs.SHOWN_WARNINGS + 1):
            logging.getLogger("mqdssm.test").warning("no %d", number)
    assert "no 5" in logs.read_kept_lines()[-1]


def test_debug_shows_the_log(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with logs.record_log(debug=True):
        logging.getLogger("mqdssm.test").debug("detail")
    assert "DEBUG mqdssm.test detail" in stream.getvalue()
