"""Every path name and format name that can be made prints as one that parses to it ([MS-MQMQ] 2.1)."""

import string

from hypothesis import given
from hypothesis import strategies as st

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

VISIBLE = [chr(code) for code in range(0x21, 0x7F)]
QUEUE = st.text(
    st.sampled_from([c for c in [*VISIBLE, "\x7f"] if c not in '"+,;\\']), min_size=1, max_size=124
)
SUBQUEUE = st.none() | st.text(st.sampled_from(string.ascii_letters + "$=/:"), min_size=1, max_size=6).filter(
    lambda name: name.upper() != "JOURNAL"
)
COMPUTER = st.text(st.sampled_from([c for c in VISIBLE if c not in ",;\\"]), min_size=1, max_size=40)
HOSTS = st.sampled_from(["web01", "web01.example.com:8080", "10.0.0.1", "[2001:db8::1]:443"])
IP = st.ip_addresses().map(str)
IPX = st.sampled_from(["00000012:00a0234f7500", "1:2"])
OWN = st.sampled_from(["JOURNAL", "DEADLETTER", "DEADXACT"])


@st.composite
def direct_names(draw: st.DrawFn) -> DirectFormatName:
    protocol = draw(st.sampled_from(DirectProtocol))
    addresses = {DirectProtocol.TCP: IP, DirectProtocol.OS: COMPUTER, DirectProtocol.IPX: IPX}
    address = draw(addresses.get(protocol, HOSTS))
    kind = draw(st.sampled_from(PathKind))
    if kind is PathKind.SYSTEM:
        return DirectFormatName(protocol, address, draw(OWN), kind)
    subqueue = draw(SUBQUEUE)
    journal = subqueue is None and draw(st.booleans())
    return DirectFormatName(protocol, address, draw(QUEUE), kind, subqueue, journal)


DOMAIN = st.none() | st.text(st.sampled_from(VISIBLE).filter(lambda c: c != ","), min_size=1, max_size=255)
FORMAT_NAMES = (
    direct_names()
    | st.builds(PublicFormatName, st.uuids())
    | st.builds(PrivateFormatName, st.uuids(), st.integers(0, 0xFFFFFFFF), st.booleans())
    | st.builds(DistributionListFormatName, st.uuids(), DOMAIN)
    | st.builds(MachineFormatName, st.uuids())
    | st.builds(ConnectorFormatName, st.uuids())
    | st.builds(
        MulticastFormatName,
        st.ip_addresses(v=4, network="224.0.0.0/4").map(str),
        st.integers(0, 65535),
    )
)


@given(FORMAT_NAMES)
def test_a_format_name_prints_and_parses(name):
    assert parse_format_name(str(name)) == name
    assert str(parse_format_name(str(name))) == str(name)


@given(st.builds(PathName, COMPUTER, QUEUE, st.sampled_from(PathKind), SUBQUEUE))
def test_a_path_name_prints_and_parses(path):
    assert PathName.parse(str(path)) == path


@given(
    st.text(min_size=1, max_size=12).filter(lambda c: "\\" not in c and "\0" not in c), st.text(max_size=200)
)
def test_whatever_a_directory_holds_is_a_path_name_or_a_value_error(computer, queue):
    text = f"{computer}\\{queue}"
    try:
        path = PathName.parse_stored(text)
    except ValueError:
        assert not queue or "\0" in queue or queue.lower() in {"private$\\", "system$;"}
        return
    assert str(path).lower() == text.lower()


@given(st.text(st.sampled_from("DIRECT=PUBLICOS:HTTP/\\private$;,@0123-ABF.x MSMQ{}"), max_size=60))
def test_any_text_is_a_format_name_or_a_value_error(text):
    for parse in (parse_format_name, PathName.parse):
        try:
            parse(text)
        except ValueError:
            continue
