"""Values of every row: what is written is read back, and nothing but MappingError comes out of a codec."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.errors import MappingError
from mqdssm.model.dn import DN
from mqdssm.model.enums import DirectoryServerType
from mqdssm.tables import TABLES, compute, places, syntax
from mqdssm.tables.ldif import fold
from mqdssm.tables.row import Row
from mqdssm.tables.schema_compare import parse_description
from mqdssm.tables.syntax import Kind

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)
RIDS = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5)
SIDS = RIDS.map(lambda numbers: "-".join(map(str, ("S-1-5", *numbers))))
VALUES = {
    Kind.BOOLEAN: st.booleans(),
    Kind.TEXT: TEXT,
    Kind.BYTES: st.binary(min_size=1, max_size=100),
    Kind.GUID: st.uuids(allow_nil=True),
    Kind.SID: SIDS,
    Kind.DN: TEXT,
    Kind.TIME: st.integers(syntax.TIME_SECONDS_MIN, syntax.TIME_SECONDS_MAX),
}
NUMBERS = {"INT32": st.integers(-(2**31), 2**31 - 1), "UINT32": st.integers(0, 2**32 - 1)}
CARRIED = [row for table in TABLES.values() for row in table.rows if row.computed is None]


def values_of(row: Row):
    if row.syntax.name in NUMBERS:
        return NUMBERS[row.syntax.name]
    if row.syntax.name == "OCTETS16":
        return st.binary(min_size=16, max_size=16)
    if row.kind is Kind.ENUMERATION:
        return st.sampled_from(list(type(row.default)))
    if row.ldap == ("MSMQ-MulticastAddress",):
        return st.text("0123456789.:", min_size=9, max_size=22)
    if row.ldap == ("cn",):
        return TEXT.filter(lambda text: len(text.encode("utf-16-le")) <= 128)
    if row.ldap == ("mSMQLabelEx",):
        return TEXT.filter(lambda text: len(text.encode("utf-16-le")) <= 248)
    return VALUES[row.kind]


@pytest.mark.parametrize("row", CARRIED, ids=lambda row: f"{row.adm}-{row.ldap[0]}")
@given(data=st.data())
def test_what_is_written_is_read_back(row, data):
    value = data.draw(values_of(row))
    if row.multi:
        value = tuple(dict.fromkeys([value, data.draw(values_of(row))]))
    raws = row.encode(value)
    assert all(isinstance(raw, bytes) and raw for raw in raws)
    assert row.decode(raws) == value
    assert type(row.decode(raws)) is type(value)


SYNTAXES = [kind for kind in vars(syntax).values() if isinstance(kind, syntax.Syntax)]


@pytest.mark.parametrize("kind", SYNTAXES, ids=lambda kind: kind.name)
@given(raw=st.one_of(st.binary(max_size=60), st.text(max_size=30).map(str.encode)))
def test_any_bytes_are_read_or_refused(kind, raw):
    try:
        value = kind.load(raw)
    except MappingError:
        return
    assert kind.load(kind.dump(value)) == value


SHAPED = st.from_regex(rb"-?[0-9]{1,12}|[0-9]{14}(\.[0-9]{1,3})?Z", fullmatch=True)


@pytest.mark.parametrize("kind", [syntax.INT32, syntax.UINT32, syntax.TIME], ids=lambda kind: kind.name)
@given(raw=SHAPED)
def test_numbers_and_times_are_read_or_refused(kind, raw):
    try:
        value = kind.load(raw)
    except MappingError:
        return
    assert kind.load(kind.dump(value)) == value
    if kind is syntax.UINT32:
        assert 0 <= value <= 0xFFFFFFFF
        assert int(raw) % 2**32 == value


@given(seconds=st.integers(syntax.TIME_SECONDS_MIN, syntax.TIME_SECONDS_MAX - 1), more=st.integers(1, 10**9))
def test_later_times_are_later_texts(seconds, more):
    later = min(seconds + more, syntax.TIME_SECONDS_MAX)
    assert syntax.TIME.dump(seconds) < syntax.TIME.dump(later)  # all have the same length


@given(
    routing=st.sampled_from([None, True, False]),
    remote=st.sampled_from([None, True, False]),
    directory=st.sampled_from([None, True, False]),
    kind=st.sampled_from([None, *DirectoryServerType]),
)
def test_service_bits_are_read_back(routing, remote, directory, kind):
    bits = compute.compute_service_type(
        routing_server=routing,
        remote_access_server=remote,
        directory_server=directory,
        directory_server_type=kind,
    )
    assert bool(bits & 1) is bool(routing)
    assert compute.is_remote_access_server(bits) is bool(remote)
    expected = (kind or DirectoryServerType.STANDALONE) if directory else None
    found = compute.compute_directory_server_type(directory_server=bool(directory), service=bits)
    assert found is expected


ROOT = DN.parse("DC=example,DC=com")


@given(computer=TEXT, queue=TEXT)
def test_names_put_into_a_dn_are_found_in_it(computer, queue):
    dn = str(places.queue_manager_dn(ROOT, computer).child("CN", queue))
    assert compute.read_queue_place(dn) == (queue, computer)
    assert compute.read_computer_name(str(places.queue_manager_dn(ROOT, computer))) == computer
    assert compute.dn_of_directory_path(compute.build_directory_path(dn)) == DN.parse(dn)


@given(one=st.uuids(), two=st.uuids())
def test_link_names_hold_both_identifiers(one, two):
    name = compute.link_name(one, two)
    assert (UUID(name[:32]), UUID(name[32:])) == (one, two)


@given(value=st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.binary()))
def test_folded_lines_hold_the_value(value):
    from base64 import b64decode

    lines = fold("attribute", value)
    whole = lines[0] + "".join(line[1:] for line in lines[1:])
    text = whole.removeprefix("attribute:")
    raw = value.encode() if isinstance(value, str) else value
    assert (b64decode(text[2:]) if text.startswith(":") else text[1:].encode()) == raw


@given(text=st.text(st.sampled_from("()$' ABNAME.12MUST-VL"), max_size=60))
def test_any_text_is_a_definition_or_refused(text):
    try:
        found = parse_description(text)
    except ValueError:
        return
    assert found.oid
