"""Files in which machines say something about themselves: every format, every defect, nothing trusted."""

import codecs
import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.enterprises import machine_files as made
from support.enterprises.machine_files import SCRIPT_FORMATS, counter, queue, state

from mqdssm.errors import ConfigError
from mqdssm.pipeline.inventory.machines import clixml as clixml_module
from mqdssm.pipeline.inventory.machines import files as files_module
from mqdssm.pipeline.inventory.machines.answers import answers_of
from mqdssm.pipeline.inventory.machines.clixml import read_clixml
from mqdssm.pipeline.inventory.machines.files import decode_file, files_of, read_report_file, read_reports
from mqdssm.pipeline.inventory.machines.report import Counts, MachineReport, ReportProblem
from mqdssm.pipeline.inventory.machines.script_output import read_script

ORDERS = queue("private$\\orders", MessageCount=7, BytesInQueue=700, JournalMessageCount=2, BytesInJournal=20)
PARIS = state("paris01", ORDERS, queue("invoices", Id="00000000-0000-0000-0000-00000000003c"))


def read(folder: Path, name: str, data: bytes) -> list[MachineReport]:
    path = folder / name
    path.write_bytes(data)
    return read_report_file(path)


def problem_of(folder: Path, data: bytes, name: str = "a.json") -> str:
    with pytest.raises(ReportProblem) as caught:
        read(folder, name, data)
    return str(caught.value)


# -- all formats


TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("_x0041_\\\"'<>&\n\t\r\x00\x85\u2028ü=1"),
    max_size=20,
)
NAMES = TEXTS.map(lambda text: text.replace("\\", "") or "q")
NUMBERS = st.integers(0, 2**53)
MOMENTS = st.integers(86_400, 4 * 10**9).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
QUEUES = st.builds(
    queue,
    st.builds("{}{}".format, st.sampled_from(["private$\\", ""]), NAMES),
    Id=st.none() | st.uuids().map(str),
    Label=TEXTS,
    Transactional=st.booleans(),
    CreateTime=MOMENTS | st.none(),
    MaximumQueueSize=st.integers(0, 2**32 - 1),
    **dict.fromkeys(("MessageCount", "BytesInQueue", "JournalMessageCount", "BytesInJournal"), NUMBERS),
)
STATES = st.builds(
    lambda queues, problems, taken: state("paris01", *queues, Problems=problems, Taken=taken),
    st.lists(QUEUES, max_size=4, unique_by=lambda one: one["QueueName"].casefold()),
    st.lists(TEXTS, max_size=2),
    MOMENTS,
)


def plain(report: MachineReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in MachineReport.__slots__ if name != "origin"}


@pytest.mark.slow
@settings(max_examples=40)
@given(STATES)
def test_every_format_of_one_state_gives_one_report(tmp_path_factory, one) -> None:
    folder = tmp_path_factory.mktemp("formats")
    reports = {
        name: plain(*read(folder, f"a.{suffix}", write(one)))
        for name, (suffix, write) in SCRIPT_FORMATS.items()
    }
    first = reports["PowerShell 7"]
    assert {name for name, report in reports.items() if report != first} == set()
    names = [queue.name for queue in first["queues"]]
    assert names == [queue["QueueName"] for queue in one["Queues"]]
    assert first["queues"][:1] == () or first["queues"][0].label == one["Queues"][0]["Label"]


@settings(max_examples=40)
@given(STATES, st.booleans(), st.permutations(range(3)))
def test_metrics_agree_with_the_script_and_add_nothing(tmp_path_factory, one, prefix, order) -> None:
    folder = tmp_path_factory.mktemp("formats")
    (script,) = read(folder, "a.json", made.as_json7(one))
    (metrics,) = read(folder, "a.prom", made.as_metrics(one, prefix="wmi" if prefix else "windows"))
    assert {queue.key: queue.counts for queue in metrics.queues} == {
        queue.key: queue.counts for queue in script.queues
    }
    assert metrics.own == script.own
    (clixml,) = read(folder, "b.xml", made.as_clixml(one))
    reports = (script, metrics, clixml)
    (answer,) = answers_of(reports[number] for number in order)
    assert plain(answer.report) == plain(script)
    assert answer.activity == {}


def test_several_machines_in_one_file(tmp_path) -> None:
    both = [PARIS, state("oslo01")]
    behind = b"\r\n".join(map(made.as_json7, both))
    listed = json.dumps(both, default=made._iso).encode()
    for data in (behind, listed, codecs.BOM_UTF16_LE + behind.decode().encode("utf-16-le")):
        assert [report.computer_name for report in read(tmp_path, "a.json", data)] == ["PARIS01", "OSLO01"]
    first, second = (made.as_clixml(one, encoding="utf-8").decode() for one in both)
    inner = second[second.index("<Obj ") : second.index("</Objs>")]
    data = first.replace("</Objs>", f"{inner}</Objs>").encode()
    assert [report.computer_name for report in read(tmp_path, "a.xml", data)] == ["PARIS01", "OSLO01"]


def test_metrics_of_several_machines_and_without_names(tmp_path) -> None:
    text = made.as_metrics(PARIS).decode()
    few = [line for line in text.splitlines() if "_msmq_messages_in_queue{" in line]
    alone = read(tmp_path, "Paris01.prom", "\n".join(few).encode())
    assert [(one.computer_name, one.dns_name, len(one.queues)) for one in alone] == [("Paris01", None, 2)]
    for name in ("paris01.example.com.prom", "paris01.2026-01-31.prom"):
        (dotted,) = read(tmp_path, name, "\n".join(few).encode())
        assert (dotted.computer_name, dotted.dns_name, len(dotted.queues)) == ("paris01", None, 2)
    (address,) = read(tmp_path, "10.0.0.1.prom", "\n".join(few).encode())
    assert address.computer_name == "10.0.0.1"
    instances = ["paris01.example.com:9182", "10.0.0.1:9182", "[fe80::1]:9182", "oslo01:9182"]
    many = [line.replace("{", f'{{instance="{instance}",') for instance in instances for line in few]
    found = read(tmp_path, "all.prom", "\r\n".join(many).encode())
    assert [(one.computer_name, one.dns_name, len(one.queues)) for one in found] == [
        ("paris01", "paris01.example.com", 2),
        ("10.0.0.1", None, 0),
        ("[fe80::1]", None, 0),
        ("oslo01", None, 0),
    ]
    assert found[3].outgoing.messages == 7
    timed = read(tmp_path, "t.prom", made.as_metrics(PARIS, timestamp=True))
    assert [one.moment for one in timed] == [made.TAKEN]


def test_counters_of_other_machines_are_outgoing_queues(tmp_path) -> None:
    more = [
        counter("DIRECT=OS:oslo01\\private$\\in", 5, 50, 0, 0),
        counter("oslo01\\in", 1, 10, 0, 0),
        counter("PUBLIC=00000000-0000-0000-0000-00000000003c", 1, 1, 0, 0),
        counter("paris01\\private$\\admin_queue$", 9, 90, 0, 0),
        counter("paris01.EXAMPLE.com\\late", 1, 1, 0, 0),
    ]
    (report,) = read(
        tmp_path, "a.json", made.as_json7(PARIS | {"QueueCounters": PARIS["QueueCounters"] + more})
    )
    assert report.outgoing == Counts(7, 61, 0, 0)
    assert report.own == Counts(3, 30, 4, 40)
    assert {queue.name: queue.kind for queue in report.queues} == {
        "private$\\orders": "private",
        "invoices": "public",
        "private$\\admin_queue$": "system",
        "late": "public",
    }


def test_what_the_script_could_not_find_out_is_not_known(tmp_path) -> None:
    nothing = dict.fromkeys(PARIS) | {
        "Format": "mqdssm-machine", "Version": 1, "ComputerName": "X",
        "Problems": ["private queues: no module"],
    }  # fmt: skip
    (report,) = read(tmp_path, "a.json", made.as_json7(nothing))
    assert (report.queues, report.is_complete, report.problems) == ((), False, ("private queues: no module",))
    assert report.moment is None
    (report,) = read(tmp_path, "a.json", made.as_json51(PARIS | {"Queues": [ORDERS], "QueueCounters": None}))
    assert [queue.counts for queue in report.queues] == [Counts(7, 700, 2, 20)]
    old = queue("q", CreateTime=datetime(1, 1, 1, tzinfo=UTC), Id="00000000-0000-0000-0000-000000000000")
    (report,) = read(tmp_path, "a.json", made.as_json7(PARIS | {"Queues": [old]}))
    assert (report.queues[0].created, report.queues[0].identifier) == (None, None)


# -- defects


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \r\n", "is empty"),
        (b'{"Format": "mqdssm-machine",\n "Version": }', "line 2, column 13: Expecting value"),
        (made.as_json7(PARIS)[:200], "line 8, column"),
        (made.as_json51(PARIS)[:-1], "no text in utf-16-le: truncated data"),
        (b'{"a": "\xff"}', "byte 7: no text in utf-8"),
        (b"\xef\xbb\xbf{\xff", "byte 4: no text in utf-8"),
        (b"[1]", "object 1 is no output of the script"),
        (b'{"Format": "other"}', "its Format is not 'mqdssm-machine'"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
        (b'{"a": NaN}', "NaN is no number of JSON"),
        (made.as_json7(PARIS | {"Version": 2}), "object 1, Version: Input should be 1"),
        (made.as_json7(PARIS | {"ComputerName": ""}), "object 1, ComputerName: "),
        (made.as_json7(PARIS | {"ComputerName": "x" * 5000}), "object 1, ComputerName: "),
        (made.as_json7(PARIS | {"Queues": [queue("q", MessageCount=-1)]}), "1, Queues.0.MessageCount: "),
        (made.as_json7(PARIS | {"Queues": [ORDERS, queue("q", Label={"a": 1})]}), "1, Queues.1.Label: "),
        (made.as_json7(PARIS | {"Queues": 5}), "object 1, Queues: "),
        (made.as_json7(PARIS | {"Taken": "yesterday"}), "object 1, Taken: "),
        (made.as_json7(PARIS | {"Taken": "2026-01-01T00:00:00"}), "has no zone"),
        (made.as_json7(PARIS | {"Taken": "/Date(999999999999999)/"}), "out of range"),
        (made.as_json7(PARIS | {"Taken": "9999-12-31T23:59:59-10:00"}), "out of range"),
        (made.as_json7(PARIS | {"Taken": 5}), "is no time"),
        (made.as_json7(PARIS | {"Identifier": "no GUID"}), "object 1, Identifier: "),
        (b"<Objs>", "line 1, column 7: "),
        (b"<Objs><Obj></Objs>", "line 1, column 14: mismatched tag"),
        (b"<html/>", "the document is 'html', not 'Objs'"),
        (b"<Objs><S>x</S></Objs>", "object 1 is no output of the script"),
        (b"<Objs><I32>x</I32></Objs>", "line 1, column 19: invalid literal"),
        (b"<Objs><I32>" + b"1" * 30 + b"</I32></Objs>", "a number of more than 20 characters"),
        (b"<Objs><DCT><S>x</S></DCT></Objs>", "line 1, column 20: a dictionary has something else than"),
        (b"<Objs><DCT><En><LST N='Key'/></En></DCT></Objs>", "something else than entries with a text"),
        (made.as_json7(PARIS | {"Identifier": [["a"]]}), "object 1, Identifier: Value error, is no GUID"),
        (b'<Objs><Ref RefId="4"/></Objs>', "reference to object '4', which does not exist"),
        (b'<Objs><Obj RefId="0"><MS><Ref N="a" RefId="0"/></MS></Obj></Objs>', "is not finished"),
        (b"<Objs>" + b"<Obj>" * 100, "more than 64 elements in each other"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><Objs>&b;</Objs>', "a document type (DOCTYPE) is not allowed"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><Objs/>', "a document type (DOCTYPE) is not allowed"),
        (b"up 1\n", "no metric of MSMQ"),
        (b"up 1\nwindows_msmq_a{name=", "line 2: 'windows_msmq_a{name=' is no metric"),
        (b'windows_msmq_bytes_in_queue{name="a"} NaN', "line 1: nan is no number of messages or bytes"),
        (b'windows_msmq_bytes_in_queue{name="a"} -1', "line 1: -1 is no number of messages or bytes"),
        (b'windows_msmq_bytes_in_queue{name="a"} 1 9999999999999999', "time of the metric is out of range"),
        (b"\x1f\x8b\x08\x00", "byte 1: no text in utf-8"),
        (b"hello", "line 1: 'hello' is no metric"),
    ],
)  # fmt: skip
def test_a_defect_is_named_with_its_place(tmp_path, data, words) -> None:
    assert words in problem_of(tmp_path, data)


def test_nothing_outside_a_document_is_read(tmp_path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret", encoding="utf-8")
    data = f'<!DOCTYPE a [<!ENTITY b SYSTEM "{secret.as_uri()}">]><Objs><S>&b;</S></Objs>'.encode()
    assert "the secret" not in problem_of(tmp_path, data)


def test_a_large_file_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files_module, "FILE_BYTES_MAX", 1024**2)
    assert problem_of(tmp_path, b" " * (1024**2 + 1)) == "is larger than 1 MB"
    assert problem_of(tmp_path, b" " * 1024**2) == "is empty"


def test_references_do_not_multiply_without_end(monkeypatch) -> None:
    """Lists of ten references each, to lists of ten references each."""
    monkeypatch.setattr(clixml_module, "NODES_MAX", 1000)
    lists = ['<Obj RefId="0"><LST><S>x</S></LST></Obj>']
    lists += [f'<Obj RefId="{n}"><LST>{f"""<Ref RefId="{n - 1}"/>""" * 10}</LST></Obj>' for n in range(1, 20)]
    with pytest.raises(ReportProblem, match=r"line 3, column .*: more than 1000 values, those of references"):
        read_clixml("<Objs>\n" + "".join(lists[:2]) + "\n" + "".join(lists[2:]) + "</Objs>")


def test_values_of_clixml() -> None:
    text = """<Objs><Obj RefId="0"><TN RefId="0"><T>x</T></TN><ToString>Running</ToString><I32>4</I32></Obj>
        <Obj RefId="1"><DCT><En><S N="Key">a</S><Nil N="Value"/></En></DCT></Obj>
        <Obj RefId="2"><Props><Ref N="b_x0020_c" RefId="0"/></Props>
          <MS><S N="d">_x0041__xD83D__xDE00_</S></MS></Obj>
        <Obj RefId="3"><TNRef RefId="0"/><IE><B>true</B><G>0</G></IE></Obj>
        <Obj><ToString>t</ToString></Obj></Objs>"""
    assert read_clixml(text) == [4, {"a": None}, {"b c": 4, "d": "A\U0001f600"}, ["true", "0"], "t"]


@settings(max_examples=60)
@given(st.sampled_from(sorted(SCRIPT_FORMATS)), st.data())
def test_damaged_files_are_refused_in_words(tmp_path_factory, name, draw) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    suffix, write = SCRIPT_FORMATS[name]
    data = bytearray(write(PARIS))
    for _ in range(draw.draw(st.integers(1, 3))):
        place = draw.draw(st.integers(0, len(data) - 1))
        data[place : place + draw.draw(st.integers(0, 4))] = draw.draw(st.binary(max_size=4))
    path = folder / f"a.{suffix}"
    path.write_bytes(data)
    reports, problems = read_reports([path])
    assert len(reports) <= 1
    assert bool(reports) or len(problems) == 1


@given(st.binary(max_size=60))
def test_any_octets_are_refused_in_words(data) -> None:
    with suppress(ReportProblem):
        decode_file(data)


def test_a_broken_file_loses_none_of_the_others(tmp_path) -> None:
    for name, data in {
        "a.json": made.as_json7(PARIS),
        "b.json": b"{",
        "c.prom": made.as_metrics(PARIS),
    }.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / ".hidden").write_bytes(b"{")
    paths = files_of([tmp_path, tmp_path / "a.json"])
    assert [path.name for path in paths] == ["a.json", "b.json", "c.prom"]
    reports, problems = read_reports([*paths, tmp_path / "gone"])
    assert len(reports) == 2
    assert [(Path(one.file).name, one.problem[:8]) for one in problems] == [
        ("b.json", "line 1, "),
        ("gone", "cannot b"),
    ]


def test_paths_without_files_are_refused(tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="has no files to add"):
        files_of([tmp_path / "empty"])
    with pytest.raises(ConfigError, match="does not exist"):
        files_of([tmp_path / "gone"])


def test_the_script_is_plain_ascii_and_names_what_is_read() -> None:
    text = read_script()
    assert text.isascii()  # Windows PowerShell takes a file without a mark for the code page of the machine
    for name in (*ORDERS, *PARIS, *counter("", 0, 0, 0, 0), *PARIS["Service"], *PARIS["ServiceCounters"]):
        assert name in text, name
