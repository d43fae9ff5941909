"""Files with reports of machines: encoding, format, problems."""

import codecs
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from mqdssm.errors import ConfigError
from mqdssm.pipeline.inventory.machines.clixml import read_clixml
from mqdssm.pipeline.inventory.machines.exporter_metrics import read_metrics
from mqdssm.pipeline.inventory.machines.report import MachineReport, ReportProblem
from mqdssm.pipeline.inventory.machines.script_output import reports_of

FILE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Maximum size of a file: about 10,000 queues as Windows PowerShell writes them."""
_MARKS: Final = (  # UTF-32 before UTF-16, whose mark it begins with
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DOCUMENT: Final = re.compile(r"\s*\S")
"""Blanks between documents, and the first character of the next one."""


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that was not added.

    Attributes:
        file: its path.
        problem: the reason, with the place in the file.
    """

    file: str
    problem: str


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the files of the command line.

    A folder stands for the files in it, without hidden ones.

    Raises:
        ConfigError: a path does not exist, or a folder is empty or cannot be read.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            try:
                inside = sorted(file for file in path.iterdir() if file.is_file() and file.name[:1] != ".")
            except OSError as error:
                raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
            if not inside:
                raise ConfigError(f"{path} has no files to add")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise ConfigError(f"{path} does not exist")
    return list(dict.fromkeys(files))


def read_reports(paths: Sequence[Path]) -> tuple[list[MachineReport], list[FileProblem]]:
    """Read files with reports of machines; a broken file does not stop the others.

    Returns:
        The reports, and the files that could not be read, with their problems.
    """
    reports: list[MachineReport] = []
    problems: list[FileProblem] = []
    for path in paths:
        try:
            reports += read_report_file(path)
        except ReportProblem as problem:
            problems.append(FileProblem(str(path), str(problem)))
        except OSError as error:
            problems.append(FileProblem(str(path), f"cannot be read: {error.strerror}"))
    return reports, problems


def read_report_file(path: Path) -> list[MachineReport]:
    """Read one file: JSON or CLIXML of the script, or metrics of windows_exporter.

    Raises:
        ReportProblem: it is none of these, too large, or damaged.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise ReportProblem(f"is larger than {FILE_BYTES_MAX // 1024**2} MB")
    text = decode_file(data)
    begin = text.lstrip()[:1]
    if not begin:
        raise ReportProblem("is empty")
    if begin == "<":
        return reports_of(read_clixml(text.lstrip()), str(path))
    if begin in "{[":
        return reports_of(_parse_documents(text), str(path))
    return read_metrics(text, str(path), path.stem)


def decode_file(data: bytes) -> str:
    """Decode a file by its byte order mark; without one it is UTF-8.

    Raises:
        ReportProblem: the bytes are no such text; the message names the first wrong byte.
    """
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    try:
        return data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise ReportProblem(
            f"byte {error.start + len(mark)}: no text in {encoding}: {error.reason}"
        ) from None


def _parse_documents(text: str) -> list[Any]:
    """Return the JSON documents of a text, one behind the other."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    documents: list[Any] = []
    place = 0
    try:
        while match := _DOCUMENT.match(text, place):
            document, place = decoder.raw_decode(text, match.end() - 1)
            documents.append(document)
    except json.JSONDecodeError as error:
        raise ReportProblem(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ReportProblem("objects are nested too deeply") from None
    except ValueError as error:
        raise ReportProblem(str(error)) from None
    return documents


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
