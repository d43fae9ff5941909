"""Files as PowerShell and windows_exporter write them, of one state of a machine.

Written by hand from the documentation of the formats: no Windows made them.
"""

import codecs
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape, quoteattr

State = dict[str, Any]
"""The script's output, with times as datetime."""

TAKEN = datetime(2026, 6, 1, 12, tzinfo=UTC)
_NO_XML = re.compile(
    r"_(?=x[0-9A-Fa-f]{4}_)|[\x00-\x08\x0b\x0c\x0d\x0e-\x1f\x85\x80-\x9f\u2028\u2029\ufffe\uffff]"
)


def queue(name: str, **more: Any) -> State:
    return {
        "QueueName": name,
        "Id": None,
        "Label": name,
        "Transactional": False,
        "UseJournalQueue": False,
        "Authenticate": False,
        "EncryptionRequired": "Optional",
        "MaximumQueueSize": 2**32 - 1,
        "MaximumJournalSize": 2**32 - 1,
        "CreateTime": TAKEN.replace(year=2020),
        "LastModifyTime": TAKEN.replace(year=2021),
        "MessageCount": 0,
        "BytesInQueue": 0,
        "JournalMessageCount": 0,
        "BytesInJournal": 0,
    } | more


def counter(name: str, messages: int, size: int, journal: int, journal_size: int) -> State:
    return {
        "Name": name,
        "MessagesInQueue": messages,
        "BytesInQueue": size,
        "MessagesInJournalQueue": journal,
        "BytesInJournalQueue": journal_size,
    }


def state(name: str, *queues: State, **more: Any) -> State:
    counters = [
        counter(
            f"{name.lower()}\\{one['QueueName']}",
            one["MessageCount"],
            one["BytesInQueue"],
            one["JournalMessageCount"],
            one["BytesInJournal"],
        )
        for one in queues
    ]
    return {
        "Format": "mqdssm-machine",
        "Version": 1,
        "Taken": TAKEN,
        "ComputerName": name.upper(),
        "DnsHostName": f"{name}.example.com",
        "Identifier": None,
        "OperatingSystem": {"Caption": "Microsoft Windows Server 2022 Standard", "Version": "10.0.20348"},
        "Service": {"State": "Running", "StartMode": "Auto", "Started": TAKEN.replace(day=2, month=5)},
        "ServiceCounters": {"MSMQIncomingMessages": 5, "MSMQOutgoingMessages": 6},
        "Queues": list(queues),
        "QueueCounters": [*counters, counter("Computer Queues", 3, 30, 4, 40)],
        "Problems": [],
    } | more


def as_json7(made: State) -> bytes:
    """`ConvertTo-Json` of PowerShell 7, whose files are UTF-8 without a mark."""
    return json.dumps(made, indent=2, ensure_ascii=False, default=_iso).encode()


def as_json51(made: State) -> bytes:
    """`ConvertTo-Json` of Windows PowerShell, whose `>` writes UTF-16 with a mark."""
    text = json.dumps(_quirks(made), indent=4, ensure_ascii=False, default=_date)
    for character in "'<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return codecs.BOM_UTF16_LE + text.replace("\n", "\r\n").encode("utf-16-le")


def _quirks(value: Any) -> Any:
    """Lists as Windows PowerShell writes some of them: with their count, or the only object itself."""
    if isinstance(value, dict):
        return {name: _quirks(inner) for name, inner in value.items()}
    if isinstance(value, list):
        inner = [_quirks(one) for one in value]
        return inner[0] if len(inner) == 1 else {"value": inner, "Count": len(inner)}
    return value


def _iso(value: datetime) -> str:
    return f"{value.replace(tzinfo=None).isoformat()}.0000000Z"


def _date(value: datetime) -> str:
    return f"/Date({int(value.timestamp()) * 1000})/"


def as_clixml(made: State, *, encoding: str = "utf-16-le") -> bytes:
    """`Export-Clixml`, UTF-16 with a mark in Windows PowerShell, UTF-8 with PowerShell 7."""
    body = _Clixml().element(made)
    declared = "utf-16" if "16" in encoding else "utf-8"
    text = (
        f'<?xml version="1.0" encoding="{declared}"?>\n'
        f'<Objs Version="1.1.0.1" xmlns="http://schemas.microsoft.com/powershell/2004/04">\n{body}</Objs>'
    )
    mark = codecs.BOM_UTF16_LE if "16" in encoding else b""
    return mark + text.replace("\n", "\r\n").encode(encoding)


class _Clixml:
    """Writer of objects, which are numbered."""

    def __init__(self) -> None:
        self.number = 0

    def element(self, value: Any, name: str = "") -> str:
        attribute = f" N={quoteattr(_xml_text(name))}" if name else ""
        if value is None:
            return f"<Nil{attribute} />\n"
        if isinstance(value, bool):
            return f"<B{attribute}>{str(value).lower()}</B>\n"
        if isinstance(value, int):
            return f"<I64{attribute}>{value}</I64>\n"
        if isinstance(value, str):
            return f"<S{attribute}>{escape(_xml_text(value))}</S>\n"
        if isinstance(value, datetime):
            return f"<DT{attribute}>{_iso(value)}</DT>\n"
        number, self.number = self.number, self.number + 1
        if isinstance(value, list):
            inner = "".join(self.element(one) for one in value)
            content = f"<LST>\n{inner}</LST>"
        else:
            inner = "".join(self.element(one, key) for key, one in value.items())
            content = f"<ToString>@{{...}}</ToString><MS>\n{inner}</MS>"
        types = f'<TN RefId="{number}"><T>System.Object</T></TN>'
        return f'<Obj{attribute} RefId="{number}">{types}{content}</Obj>\n'


def _xml_text(text: str) -> str:
    escaped = _NO_XML.sub(lambda match: f"_x{ord(match[0]):04X}_", text)
    return escaped.replace("\n", "_x000A_").replace("\t", "_x0009_")


_METRICS = {
    "messages_in_queue": "MessagesInQueue",
    "bytes_in_queue": "BytesInQueue",
    "messages_in_journal_queue": "MessagesInJournalQueue",
    "bytes_in_journal_queue": "BytesInJournalQueue",
}


def as_metrics(made: State, *, prefix: str = "windows", timestamp: bool = False) -> bytes:
    """The collectors msmq, os and service of windows_exporter."""
    dns = made["DnsHostName"]
    host = {"hostname": made["ComputerName"], "domain": dns.partition(".")[2], "fqdn": dns}
    system = {"product": made["OperatingSystem"]["Caption"], "version": made["OperatingSystem"]["Version"]}
    service = made["Service"]["State"].lower()
    lines = [
        "# HELP go_goroutines Number of goroutines that currently exist.",
        "# TYPE go_goroutines gauge",
        "go_goroutines 12",
        _metric(f"{prefix}_os_hostname", host, 1),
        _metric(f"{prefix}_os_info", system, 1),
    ]
    lines += [
        _metric(f"{prefix}_service_state", {"name": "msmq", "state": one}, int(one == service))
        for one in ("running", "stopped", "paused")
    ]
    for metric, name in _METRICS.items():
        lines.append(f"# TYPE {prefix}_msmq_{metric} gauge")
        lines += [
            _metric(f"{prefix}_msmq_{metric}", {"name": one["Name"]}, one[name])
            + (f" {int(made['Taken'].timestamp() * 1000)}" if timestamp else "")
            for one in made["QueueCounters"]
        ]
    return ("\n".join(lines) + "\n").encode()


def _metric(name: str, labels: Mapping[str, str], value: int) -> str:
    texts = (f'{key}="{_label(text)}"' for key, text in labels.items())
    return f"{name}{{{','.join(texts)}}} {value}"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


SCRIPT_FORMATS: dict[str, tuple[str, Callable[[State], bytes]]] = {
    "PowerShell 7": ("json", as_json7),
    "PowerShell 7, with a mark": ("json", lambda made: codecs.BOM_UTF8 + as_json7(made)),
    "Windows PowerShell": ("json", as_json51),
    "CLIXML": ("xml", as_clixml),
    "CLIXML of PowerShell 7": ("xml", lambda made: as_clixml(made, encoding="utf-8")),
}
"""All forms of the script's output: suffix of the file, and the writer."""
