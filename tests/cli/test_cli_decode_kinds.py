"""``mqdssm decode`` for change notifications and topology packets."""

import json

import pytest
from support.notification.strategies import IMAGES, PACKETS, VECTORS
from support.programs.starting import MQDSSM, run

NAMED = {vector["id"]: vector for vector in VECTORS}
NOTIFICATION = ("decode", "--kind", "notification")
END_OF_BODY = "</DomainController></Notification>"
TOPOLOGY = ("decode", "--kind", "topology")


@pytest.fixture
def file(tmp_path):
    """Writes a message to a file and names it."""

    def write(data):
        path = tmp_path / "message.bin"
        path.write_bytes(data)
        return str(path)

    return write


def lines(result):
    return [line.split(None, 1) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("name", list(NAMED))
@pytest.mark.parametrize("behind", [b"", b"\xff"], ids=["alone", "unused byte"])
def test_programs_get_the_structures_own_names(alone, file, name, behind):
    assert alone.json(*NOTIFICATION, file(IMAGES[name] + behind)) == NAMED[name]["fields"]


def test_people_get_a_line_for_each_field(alone, file):
    assert lines(alone(*NOTIFICATION, file(IMAGES["queue-changed"]))) == [
        ["Version", "2 BODY"],
        ["NumberOfUpdateNotifications", "1"],
        ["Data.Event", "2 CHANGE_QUEUE"],
        ["Data.ObjectGuid", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"],
        ["Data.DomainController", "DC01"],
    ]
    shown = dict(lines(alone(*NOTIFICATION, file(IMAGES["updates"]))))
    assert shown["Version"] == "1 UPDATES"
    assert shown["Data[0].Command"] == "0 CREATE"
    assert shown["Data[0].PathName"] == "WEB01\\orders"
    assert shown["Data[1].PropertyValue.PROPID_QM_QUOTA"] == "2097152"
    assert shown["Data[2].PropertyId"] == "PROPID_D_SCOPE, PROPID_D_OBJTYPE"


def test_a_reply_for_people_and_for_programs(alone, file):
    reply = file(PACKETS["mqsd-reply-ipx"])
    assert lines(alone(*TOPOLOGY, reply)) == [
        ["TopologyPacketHeader.Version", "0"],
        ["TopologyPacketHeader.Type", "2 SERVER_REPLY"],
        ["TopologyPacketHeader.Reserved", "0"],
        ["CorrelationID", "f291a103-e33c-ab4f-a930-be3a33e432dd"],
        ["ConnectedNetworkCount", "2"],
        ["ConnectedNetworkMask", "3"],
        ["DirectoryServiceServerSize", "46"],
        [
            "ConnectedNetworkArray",
            "e6eaba62-d1c6-11db-baac-0003ff4e2d22, e6eaba60-d1c6-11db-baac-0003ff4e2d22",
        ],
        ["RespondingSiteID", "e6eaba60-d1c6-11db-baac-0003ff4e2d22"],
        ["DirectoryServiceServerArray", "10nt4pec, 11web01, 00dc2"],
    ]
    document = alone.json(*TOPOLOGY, reply)
    assert document["TopologyPacketHeader"] == {"Version": 0, "Type": 2, "Reserved": 0}
    assert document["DirectoryServiceServerArray"] == ["10nt4pec", "11web01", "00dc2"]
    request = alone.json(*TOPOLOGY, file(PACKETS["mqsd-request-ipx"]))
    assert request["IPXNetworkNumberArray"] == [0x12345678, 1]


@pytest.mark.parametrize(
    ("kind", "image", "last", "words"),
    [
        (
            NOTIFICATION,
            IMAGES["updates"][:-1],
            "Data[2].PropertyValue.PROPID_D_SCOPE",
            "[MS-MQCN] 2.2.6 PropertyValue PROPID_D_OBJTYPE at offset 300: needs 1 bytes, 0 left",
        ),
        (
            NOTIFICATION,
            IMAGES["queue-changed"][:-2],
            "Data.ObjectGuid",
            f"[MS-MQCN] 2.2.5 DomainController at offset 228: must end with {END_OF_BODY}",
        ),
        (
            TOPOLOGY,
            PACKETS["mqsd-reply-other-site"][:-2],
            "RespondingSiteID",
            "[MS-MQSD] 2.2.3 DirectoryServiceServerArray at offset 64: no NUL at its end",
        ),
    ],
    ids=["updates", "event", "reply"],
)
def test_damage_is_told_after_what_stands_before_it(alone, file, kind, image, last, words):
    damaged = file(image)
    result = alone(*kind, damaged, code=1)
    assert lines(result)[-1][0] == last
    assert result.stderr == f"error: {words}\n"
    result = alone(*kind, damaged, "--output", "json", code=1)
    json.loads(result.stdout)
    error = json.loads(result.stderr)
    assert (error["error"], error["message"], error["exit_code"]) == ("DecodeError", words, 1)
    assert words.startswith(f"{error['section']} {error['field']} at offset {error['offset']}:")


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 40, bytes(5 * 2**20)])
@pytest.mark.parametrize(("kind", "section"), [(NOTIFICATION, "[MS-MQCN] 2.2"), (TOPOLOGY, "[MS-MQSD] 2.2")])
def test_what_is_no_message(alone, file, data, kind, section):
    result = alone(*kind, file(data), code=1)
    assert result.stderr.startswith(f"error: {section}")
    assert result.stderr.count("\n") == 1


def test_one_kind_is_not_another(alone, file):
    alone(*NOTIFICATION, file(PACKETS["mqsd-request"]), code=1)
    alone(*TOPOLOGY, file(IMAGES["queue-changed"]), code=1)


def test_a_text_cannot_steer_the_terminal(alone, file):
    image = PACKETS["mqsd-reply-other-site"].replace(b"n\0t\0", b"\x1b\0[\0")
    assert "\x1b" not in alone(*TOPOLOGY, file(image)).stdout
    assert alone.json(*TOPOLOGY, file(image))["DirectoryServiceServerArray"] == ["10\x1b[4pec"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "image"),
    [(NOTIFICATION, IMAGES["queue-deleted"]), (TOPOLOGY, PACKETS["mqsd-request"])],
    ids=["notification", "topology"],
)
def test_the_standard_input(kind, image):
    command = [*MQDSSM, *kind, "-", "-o", "json"]
    result = run(command, data=image)
    assert result.returncode == 0
    assert json.loads(result.stdout)
