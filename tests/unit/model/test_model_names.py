"""Path names and format names: the grammar of [MS-MQMQ] 2.1, both ways."""

import uuid

import pytest

from mqdssm.model.names import (
    ConnectorFormatName,
    DirectFormatName,
    DirectProtocol,
    DistributionListFormatName,
    MachineFormatName,
    MulticastFormatName,
    PathKind,
    PathName,
    PrivateFormatName,
    PublicFormatName,
    parse_format_name,
)

GUID = uuid.UUID("5eefd5c9-3f2a-4b6c-9d8e-0123456789ab")
TEXT = "5EEFD5C9-3F2A-4B6C-9D8E-0123456789AB"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (r"web01\orders", PathName("web01", "orders")),
        (r"web01\private$\orders", PathName("web01", "orders", PathKind.PRIVATE)),
        (r"web01\system$;journal", PathName("web01", "journal", PathKind.SYSTEM)),
        (r"web01\orders;late", PathName("web01", "orders", PathKind.PUBLIC, "late")),
        (r"web01\private$\orders;late", PathName("web01", "orders", PathKind.PRIVATE, "late")),
        (r".\*)(objectClass=*", PathName(".", "*)(objectClass=*")),
        ("c" * 256 + "\\" + "q" * 124, PathName("c" * 256, "q" * 124)),
        (r"web,01\private$", PathName("web,01", "private$")),
    ],
)
def test_path_names_both_ways(text, path):
    assert PathName.parse(text) == path
    assert str(path) == text


def test_keywords_of_path_names_are_read_in_any_case():
    assert str(PathName.parse(r"WEB01\PRIVATE$\Orders")) == r"WEB01\private$\Orders"
    assert str(PathName.parse(r"WEB01\System$;Journal")) == r"WEB01\system$;Journal"
    assert PathName.parse(r"WEB01\Orders").key == PathName.parse(r"web01\orders").key


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("orders", "computer\\\\queue is expected"),
        ("\\orders", "is expected"),
        ("web01\\", "is expected"),
        ("web01\\private$\\", "may not be empty"),
        ("web01\\;x", "may not be empty|1 to 124"),
        ("web01\\q;", "may not be empty|1 to 32"),
        ("web 01\\q", "visible ASCII"),
        ("wéb\\q", "visible ASCII"),
        ("c" * 257 + "\\q", "257 characters long: the limit is 256"),
        ("web01\\" + "q" * 125, "125 characters long"),
        ("web01\\a,CN=b", "U\\+002C"),
        ("web01\\ q", "U\\+0020"),
        ("web01\\q\\r", "U\\+005C"),
        ("web01\\q;" + "s" * 33, "subqueue name is 33"),
        ("web01\\q;a b", "subqueue name"),
        ("web01\\q;a;b", "subqueue name"),
        ("web01\\q\0", "NUL"),
    ],
)
def test_path_names_that_may_not_be_created(text, why):
    with pytest.raises(ValueError, match=why):
        PathName.parse(text)


@pytest.mark.parametrize("name", [" lead", "a,b", "ü", "a;b", "x" * 147, "a\nb", "a\\b"])
def test_what_a_directory_holds_can_be_read(name):
    path = PathName.parse_stored("web 01\\" + name)
    assert path == PathName("web 01", name)
    assert str(path) == "web 01\\" + name


@pytest.mark.parametrize(
    "parts",
    [
        ("", "q"),
        ("a\\b", "q"),
        ("a", ""),
        ("a", "q", PathKind.PUBLIC, ""),
        ("a", "q\0"),
        ("a", "Private$\\q"),
        ("a", "system$;q"),
    ],
)
def test_no_path_name_that_would_be_read_as_another(parts):
    with pytest.raises(ValueError):
        PathName(*parts)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"PUBLIC={TEXT}", PublicFormatName(GUID)),
        (f"PRIVATE={TEXT}\\3", PrivateFormatName(GUID, 3)),
        (f"PRIVATE={TEXT}\\FFFFFFFF;JOURNAL", PrivateFormatName(GUID, 0xFFFFFFFF, journal=True)),
        (f"DL={TEXT}", DistributionListFormatName(GUID)),
        (f"DL={TEXT}@example.com", DistributionListFormatName(GUID, "example.com")),
        (f"MACHINE={TEXT}", MachineFormatName(GUID)),
        (f"CONNECTOR={TEXT}", ConnectorFormatName(GUID)),
        ("MULTICAST=224.0.0.0:0", MulticastFormatName("224.0.0.0", 0)),
        ("MULTICAST=239.255.255.255:65535", MulticastFormatName("239.255.255.255", 65535)),
        (
            "DIRECT=OS:web01\\PRIVATE$\\orders",
            DirectFormatName(DirectProtocol.OS, "web01", "orders", PathKind.PRIVATE),
        ),
        ("DIRECT=TCP:10.1.2.3\\orders", DirectFormatName(DirectProtocol.TCP, "10.1.2.3", "orders")),
        ("DIRECT=TCP:2001:db8::1\\orders", DirectFormatName(DirectProtocol.TCP, "2001:db8::1", "orders")),
        (
            "DIRECT=OS:web01\\orders;JOURNAL",
            DirectFormatName(DirectProtocol.OS, "web01", "orders", journal=True),
        ),
        (
            "DIRECT=OS:web01\\orders;late",
            DirectFormatName(DirectProtocol.OS, "web01", "orders", subqueue="late"),
        ),
        (
            "DIRECT=OS:web01\\SYSTEM$;DEADXACT",
            DirectFormatName(DirectProtocol.OS, "web01", "DEADXACT", PathKind.SYSTEM),
        ),
        (
            "DIRECT=HTTP://web01:8080/MSMQ\\PRIVATE$\\orders",
            DirectFormatName(DirectProtocol.HTTP, "web01:8080", "orders", PathKind.PRIVATE),
        ),
        ("DIRECT=HTTPS://[::1]/MSMQ\\a/b", DirectFormatName(DirectProtocol.HTTPS, "[::1]", "a/b")),
        (
            "DIRECT=IPX:00000012:00a0234f7500\\q",
            DirectFormatName(DirectProtocol.IPX, "00000012:00a0234f7500", "q"),
        ),
    ],
)
def test_format_names_both_ways(text, name):
    assert parse_format_name(text) == name
    assert str(name) == text
    assert hash(name) == hash(parse_format_name(text))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (f"public={TEXT.lower()}", f"PUBLIC={TEXT}"),
        (f"private={TEXT.lower()}\\0000000f;journal", f"PRIVATE={TEXT}\\F;JOURNAL"),
        ("direct=os:web01\\private$\\Orders;Journal", "DIRECT=OS:web01\\PRIVATE$\\Orders;JOURNAL"),
        ("Direct=Http://web01/msmq/private$/q", "DIRECT=HTTP://web01/MSMQ\\PRIVATE$\\q"),
        ("DIRECT=HTTP://web01/msmq/q", "DIRECT=HTTP://web01/MSMQ\\q"),
        ("DIRECT=OS:web01\\system$;deadletter", "DIRECT=OS:web01\\SYSTEM$;DEADLETTER"),
    ],
)
def test_format_names_are_read_in_any_case_and_printed_in_one(text, printed):
    assert str(parse_format_name(text)) == printed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PUBLIC",
        "PUBLIC=",
        f"PUBLIC={{{TEXT}}}",
        f"PUBLIC={TEXT[:-1]}",
        f"PUBLIC={TEXT} ",
        f"PUBLIC={TEXT.replace('-', '')}",
        f"QUEUE={TEXT}",
        f"PRIVATE={TEXT}",
        f"PRIVATE={TEXT}\\",
        f"PRIVATE={TEXT}\\123456789",
        f"PRIVATE={TEXT}\\G",
        f"PRIVATE={TEXT}\\-1",
        f"PRIVATE={TEXT}\\1;X",
        f"DL={TEXT}@",
        f"DL={TEXT}@a b",
        f"DL={TEXT}@" + "d" * 256,
        "MULTICAST=223.0.0.1:1",
        "MULTICAST=240.0.0.1:1",
        "MULTICAST=224.0.0.256:1",
        "MULTICAST=224.0.0.01:1",
        "MULTICAST=224.0.0.1",
        "MULTICAST=224.0.0.1:65536",
        "MULTICAST=224.0.0.1:01",
        "DIRECT=OS",
        "DIRECT=OS:web01",
        "DIRECT=OS:\\q",
        "DIRECT=OS:web 01\\q",
        "DIRECT=OS:web01\\",
        "DIRECT=OS:web01\\a b",
        "DIRECT=OS:web01\\;JOURNAL",
        "DIRECT=OS:web01\\q;s;JOURNAL",
        "DIRECT=OS:web01\\SYSTEM$;ORDERS",
        "DIRECT=OS:web01\\SYSTEM$;JOURNAL;JOURNAL",
        "DIRECT=UDP:web01\\q",
        "DIRECT=TCP:web01\\q",
        "DIRECT=TCP:300.1.1.1\\q",
        "DIRECT=IPX:1\\q",
        "DIRECT=HTTP:web01\\q",
        "DIRECT=HTTP://web01\\q",
        "DIRECT=HTTP:///MSMQ\\q",
        "DIRECT=HTTP://a@b/MSMQ\\q",
        "DIRECT=HTTP://web01/MSMQ",
        "DIRECT=HTTP://web01/MSMQ\\",
        "DIRECT=HTTP://web01/MSMQX\\q",
        "DIRECT=OS:" + "c" * 257 + "\\q",
    ],
)
def test_what_is_no_format_name(text):
    with pytest.raises(ValueError, match="no format name"):
        parse_format_name(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PrivateFormatName(GUID, -1),
        lambda: PrivateFormatName(GUID, 1 << 32),
        lambda: DistributionListFormatName(GUID, ""),
        lambda: DistributionListFormatName(GUID, "a,b"),
        lambda: MulticastFormatName("10.0.0.1", 1),
        lambda: MulticastFormatName("224.0.0.1", -1),
        lambda: DirectFormatName(DirectProtocol.OS, "a,b", "q"),
        lambda: DirectFormatName(DirectProtocol.OS, "a", "q;JOURNAL"),
        lambda: DirectFormatName(DirectProtocol.OS, "a", "q", subqueue="journal"),
        lambda: DirectFormatName(DirectProtocol.OS, "a", "journal", PathKind.SYSTEM),
        lambda: DirectFormatName(DirectProtocol.OS, "a", "JOURNAL", PathKind.SYSTEM, "s"),
    ],
)
def test_format_names_that_would_not_parse_cannot_be_made(make):
    with pytest.raises(ValueError):
        make()
