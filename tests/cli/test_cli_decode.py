"""``mqdssm decode``."""

import io
import json
import sys
from pathlib import Path

import pytest
from support.programs.starting import MQDSSM, run
from support.replication.strategies import VECTORS, image_of

NAMED = {vector["id"]: vector for vector in VECTORS}
REPLICATION = ("decode", "--kind", "replication")


@pytest.fixture
def file(tmp_path):
    """Writes a message to a file and names it."""

    def write(data):
        path = tmp_path / "message.bin"
        path.write_bytes(data)
        return str(path)

    return write


@pytest.mark.parametrize("name", list(NAMED))
def test_programs_get_the_structures_own_names(alone, file, name):
    assert alone.json(*REPLICATION, file(image_of(NAMED[name]))) == NAMED[name]["fields"]


def test_people_get_a_line_for_each_field(alone, file):
    result = alone(*REPLICATION, file(image_of(NAMED["change-reply"])))
    assert [line.split(None, 1) for line in result.stdout.splitlines()] == [
        ["BaseReplicationHeader.Version", "0"],
        ["BaseReplicationHeader.SiteID", "11111111-2222-3333-4455-66778899aabb"],
        ["BaseReplicationHeader.Operation", "4 CHANGE_REPLY"],
        ["RequestIdentifier", "2147483649"],
        ["Result", "0xc00e0003 MQ_ERROR_QUEUE_NOT_FOUND"],
        ["RequesterName", "BSC1"],
    ]
    lines = alone(*REPLICATION, file(image_of(NAMED["propagation"]))).stdout.splitlines()
    shown = dict(line.split(None, 1) for line in lines)
    first, second = "DirectoryChanges[0].", "DirectoryChanges[1]."
    assert shown[first + "PropertyValue.PROPID_Q_PATHNAME"] == "WEB01\\orders"
    assert shown[first + "PropertyValue.PROPID_Q_SEQNUM"] == "258"
    assert shown[first + "PropertyValue.PROPID_Q_SECURITY"].startswith("0100048000")
    assert shown[second + "PropertyID"] == "PROPID_D_SCOPE, PROPID_D_OBJTYPE"
    assert shown["SeqNumberHeader.PartitionSeqNumbers[0].LastSeqNumber"] == "259"


def test_long_values_are_cut_for_people_alone(alone, file):
    image = image_of(NAMED["sync-reply"])
    sid = bytes.fromhex("0c000000010100000000000100000000")
    longer = image.replace(sid, (100).to_bytes(4, "little") + bytes(100))
    assert "… (100 bytes)" in alone(*REPLICATION, file(longer)).stdout
    values = alone.json(*REPLICATION, file(longer))["DirectoryChanges"][0]["PropertyValue"]
    assert len(values["PROPID_U_SID"]) == 136


def test_damage_is_told_after_what_stands_before_it(alone, file):
    damaged = file(image_of(NAMED["psc-ack"])[:55])
    words = "[MC-MQDSRP] 2.2.6.7 AckedSeqNumber at offset 50: needs 8 bytes, 5 left"
    result = alone(*REPLICATION, damaged, code=1)
    assert result.stdout.splitlines()[-1].split() == [
        "AckedPartitionID",
        NAMED["psc-ack"]["fields"]["AckedPartitionID"],
    ]
    assert result.stderr == f"error: {words}\n"
    result = alone(*REPLICATION, damaged, "--output", "json", code=1)
    read = json.loads(result.stdout)
    assert list(read) == ["BaseReplicationHeader", "PSCSiteID", "AckedPartitionID"]
    assert json.loads(result.stderr) == {
        "error": "DecodeError",
        "message": words,
        "exit_code": 1,
        "section": "[MC-MQDSRP] 2.2.6.7",
        "field": "AckedSeqNumber",
        "offset": 50,
    }


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 40, bytes(5 * 2**20)])
def test_what_is_no_message(alone, file, data):
    result = alone(*REPLICATION, file(data), code=1)
    assert result.stderr.startswith("error: [MC-MQDSRP] 2.2")
    assert result.stderr.count("\n") == 1


def test_a_text_cannot_steer_the_terminal(alone, file):
    name = "BSC1\0".encode("utf-16-le")
    image = image_of(NAMED["bsc-ack"]).replace(name, "\x1b[2J\0".encode("utf-16-le"))
    assert "\x1b" not in alone(*REPLICATION, file(image)).stdout
    lone = image_of(NAMED["bsc-ack"]).replace(name, b"\x00\xd8\0\0")
    assert "\\ud800" in alone(*REPLICATION, file(lone)).stdout
    assert alone.json(*REPLICATION, file(lone))["BSCName"] == "\ud800"


@pytest.mark.slow
def test_the_standard_input():
    command = [*MQDSSM, *REPLICATION, "-", "-o", "json"]
    image = image_of(NAMED["already-purged"])
    result = run(command, data=image)
    assert result.returncode == 0
    assert json.loads(result.stdout) == NAMED["already-purged"]["fields"]


def test_the_standard_input_stays_open(monkeypatch):
    from mqdssm.cli.decode import MessageKind, decode
    from mqdssm.cli.options import GivenOptions
    from mqdssm.cli.run import CommandRun

    stream = io.TextIOWrapper(io.BytesIO(image_of(NAMED["psc-ack"])))
    monkeypatch.setattr(sys, "stdin", stream)
    assert decode(CommandRun(GivenOptions()), file=Path("-"), kind=MessageKind.REPLICATION) == 0
    assert not stream.buffer.closed


def test_usage(alone, file, tmp_path):
    one = file(image_of(NAMED["psc-ack"]))
    assert "'fax' is not" in alone.error("decode", "--kind", "fax", one, code=2)
    kinds = "replication, notification, topology, mqqb"
    assert alone.error("decode", one, code=2) == f"name the protocol with --kind ({kinds}), or --pcap"
    assert "No such file" in alone.error(*REPLICATION, str(tmp_path / "none"), code=6)
