"""Filters that Spark offers, asked of a server: every row that satisfies them is found.

Spark checks again what it gets, so the answer is the same with and without push-down if the LDAP filter
loses no row. 500 random filters over a directory that was loaded once, and some on a domain controller.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as ds
from support.enterprises.strategies import standing

import mqdssm
from mqdssm.directory.filters import TRUE, to_text
from mqdssm.model.dn import DN
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import FRAME_TYPES, FrameType
from mqdssm.spark.pushdown import Matching, Term, attributes_of, term_of, to_ldap
from mqdssm.tables.syntax import Kind
from mqdssm.testing import OpenLdapServer

TEXTS = [
    "a", "A", "ab", "AB c", "ab  c", " ab", "ab ", "  ", "*", "(", ")", "\\", "a*b", "a\\2a", ")(cn=*",
    "ß", "ss", "SS", "İ", "i", "I", "ı", "é", "e\u0301", "e", "É", "ab\u0301", "a\u0301b", "日本", "𝔘", "~",
    "x" * 100, "ﬁ", "fi", "\u212b",
]  # fmt: skip
NUMBERS = [0, 1, 7, 99, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1]
SIGNED = [-(2**31), -32768, -1, 0, 1, 3, 2**31 - 1]
TIMES = ["20200101000000.0Z", "20200101000001Z", "19991231235959.5Z", "20200101000000.9Z", "16010101000000Z"]
GUIDS = [UUID(int=0), UUID(int=1), UUID(int=2**127 + 5), UUID("6dc5e2a1-0000-4000-8000-2a2829285c00")]
COUNT = 220


def raw(number: int, n: int) -> bytes:
    """A number as servers hold it: signed, or as other programs write it (M11)."""
    return b"%d" % (number if number < 2**31 or n % 5 == 0 else number - 2**32)


def load(directory: mqdssm.Directory) -> None:
    session = directory.session
    root = session.naming.root
    computer = f"CN=w,CN=Computers,{root}"
    session.add(computer, {"objectClass": [b"computer"], "objectGUID": [uuid4().bytes_le]})
    machine = f"CN=msmq,{computer}"
    session.add(machine, {"objectClass": [b"mSMQConfiguration"], "objectGUID": [uuid4().bytes_le]})
    for n in range(COUNT):
        values = {
            "mSMQLabelEx": TEXTS[n % len(TEXTS)].encode(),
            "MSMQ-MulticastAddress": TEXTS[(n * 7) % len(TEXTS)].encode(),
            "mSMQQueueQuota": raw(NUMBERS[n % len(NUMBERS)], n),
            "mSMQQueueJournalQuota": raw(NUMBERS[(n * 5) % len(NUMBERS)], n),
            "mSMQBasePriority": b"%d" % SIGNED[n % len(SIGNED)],
            "mSMQPrivacyLevel": b"%d" % (n % 3),
            "mSMQJournal": [b"TRUE", b"FALSE"][n % 2],
            "mSMQTransactional": [b"FALSE", b"TRUE"][n // 2 % 2],
            "mSMQQueueType": GUIDS[n % len(GUIDS)].bytes_le,
            "whenCreated": TIMES[n % len(TIMES)].encode(),
            "mSMQQueueNameExt": TEXTS[(n * 3) % len(TEXTS)].encode(),
        }
        kept = {name: [value] for place, (name, value) in enumerate(values.items()) if (n + place) % 6}
        if n % 17 == 0:  # a value that cannot be decoded
            kept["mSMQQueueQuota"] = [b"99999999999"]
        more = {"objectClass": [b"mSMQQueue"], "objectGUID": [uuid4().bytes_le]}
        session.add(f"CN=q{n},{machine}", kept | more)


@pytest.fixture(scope="module")
def loaded():
    with (
        OpenLdapServer(durable=False) as server,
        mqdssm.connect(
            server.url, user=server.user, password=server.password, ca_file=server.ca_file
        ) as directory,
    ):
        load(directory)
        yield directory


TYPE = FRAME_TYPES["queue"]
PUSHED = [
    "Label",
    "Quota",
    "BasePriority",
    "CreateTime",
    "Type",
    "PrivacyLevel",
    "Journaling",
    "FullPath",
    "Identifier",
]
COMPARISONS = {
    ds.EqualTo: lambda cell, value: cell == value,
    ds.EqualNullSafe: lambda cell, value: cell == value,
    ds.GreaterThan: lambda cell, value: cell > value,
    ds.GreaterThanOrEqual: lambda cell, value: cell >= value,
    ds.LessThan: lambda cell, value: cell < value,
    ds.LessThanOrEqual: lambda cell, value: cell <= value,
    ds.In: lambda cell, values: cell in [value for value in values if value is not None],
    ds.StringStartsWith: lambda cell, value: cell.startswith(value),
    ds.StringEndsWith: lambda cell, value: cell.endswith(value),
    ds.StringContains: lambda cell, value: value in cell,
}


def holds(wanted: ds.Filter, row: dict[str, Any]) -> bool:
    """Whether Spark keeps a row; what is NULL there is neither true nor false."""
    match wanted:
        case ds.Not(child):
            return row[child.attribute[0]] is not None and not holds(child, row)
        case ds.IsNull((name,)):
            return row[name] is None
        case ds.IsNotNull((name,)):
            return row[name] is not None
        case _:
            cell = row[wanted.attribute[0]]
            return cell is not None and bool(COMPARISONS[type(wanted)](cell, wanted.value))


def neighbours(frame: FrameType, name: str, cells: list[Any]) -> st.SearchStrategy[Any]:
    """Values that a column has, and values that it nearly has."""
    kind = next(column.kind for column in frame.columns if column.name == name)
    found = sorted({cell for cell in cells if cell is not None}, key=repr)
    drawn = st.sampled_from(found) if found else st.just("x")
    match kind:
        case Kind.INTEGER:
            return st.sampled_from([*NUMBERS, *SIGNED]) | drawn.flatmap(
                lambda number: st.integers(number - 2, number + 2)
            )
        case Kind.TIME:
            return drawn.flatmap(
                lambda time: st.sampled_from([0, 1, -1, 500_000, -1_500_000]).map(
                    lambda micros: time + timedelta(microseconds=micros)
                )
            ) | st.just(datetime(1970, 1, 1, tzinfo=UTC))
        case Kind.TEXT | Kind.DN:
            return (
                drawn
                | st.sampled_from(TEXTS)
                | drawn.flatmap(lambda text: st.integers(0, len(text)).map(lambda size: text[:size]))
                | drawn.map(str.swapcase)
            )
        case Kind.GUID:
            return drawn | drawn.map(str.upper) | st.sampled_from(["", "no guid", str(uuid4())])
        case Kind.ENUMERATION:
            return drawn | st.sampled_from(["Body", "body", "7"])
        case _:
            return drawn


def filters_over(frame: FrameType, rows: list[dict[str, Any]]) -> st.SearchStrategy[ds.Filter]:
    names = [column.name for column in frame.columns if not column.many]

    def on(name: str) -> st.SearchStrategy[ds.Filter]:
        values = neighbours(frame, name, [row[name] for row in rows])
        kind = next(column.kind for column in frame.columns if column.name == name)
        path = st.just((name,))
        ordered = [ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual]
        text = [ds.StringStartsWith, ds.StringStartsWith, ds.StringEndsWith, ds.StringContains]
        builders: list[Callable[..., ds.Filter]] = [ds.EqualTo, ds.EqualNullSafe]
        builders += [] if kind is Kind.BOOLEAN else ordered
        builders += text if kind in {Kind.TEXT, Kind.DN, Kind.GUID, Kind.ENUMERATION} else []
        one = st.one_of(*(st.builds(builder, path, values) for builder in builders))
        several = st.builds(ds.In, path, st.lists(values | st.none(), min_size=1, max_size=4))
        null = st.builds(ds.IsNull, path) | st.builds(ds.IsNotNull, path)
        plain = one | one | several | null
        return plain | st.builds(ds.Not, one | several)

    pushed = [name for name in PUSHED if name in names]
    return st.sampled_from([*pushed, *pushed, *names]).flatmap(on)


class Asked:
    """A directory, all rows of a frame, and what comes of filters on them."""

    def __init__(self, directory: mqdssm.Directory, frame: FrameType) -> None:
        self.directory = directory
        self.frame = frame
        self.rows = [row for batch in read_batches(directory, frame) for row in batch.to_pylist()]
        profile = directory.session.profile
        every = [Term(column.name, "present") for column in frame.columns]
        names = [name for term in every for name in attributes_of(term, frame, profile)]
        self.matching = Matching.of(directory.session, names)
        self.asked = self.narrowed = 0

    def check(self, offered: ds.Filter) -> None:
        """Whatever satisfies the filter is found by what the server is asked."""
        term = term_of(offered)
        where = term and to_ldap(term, self.frame, self.directory.session.profile, self.matching)
        if where is None:
            return
        columns = self.frame.select(["FullPath"])
        batches = read_batches(self.directory, self.frame, columns, where=where)
        found = {path for batch in batches for path in batch.column("FullPath").to_pylist()}
        expected = {row["FullPath"] for row in self.rows if holds(offered, row)}
        assert expected <= found, (offered, to_text(where))
        self.asked += 1
        self.narrowed += len(found) < len(self.rows)


def check_many(asked: Asked, examples: int) -> None:
    @settings(max_examples=examples)
    @given(st.lists(filters_over(asked.frame, asked.rows), min_size=1, max_size=3))
    def check(offered: list[ds.Filter]) -> None:
        for one in offered:
            asked.check(one)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("lists", [150, pytest.param(600, marks=pytest.mark.soak)])
def test_no_row_is_lost_in_many_filters(loaded, lists: int) -> None:
    asked = Asked(loaded, TYPE)
    check_many(asked, lists)
    # Hypothesis chooses the share of filters that a server can answer: 58 of 150 lists was the smallest seen
    assert asked.asked > lists // 5, "filters that reach the server"
    assert asked.narrowed > lists // 10


@pytest.mark.parametrize("name", ["Label", "mSMQQueueNameExt"])
def test_no_row_is_lost_at_any_beginning_of_a_text(loaded, name: str) -> None:
    asked = Asked(loaded, TYPE)
    beginnings = {text[:size] for text in TEXTS for size in range(1, min(len(text), 4) + 1)}
    for beginning in sorted(beginnings):
        asked.check(ds.StringStartsWith((name,), beginning))
        asked.check(ds.EqualTo((name,), beginning))
    assert asked.narrowed > 20


@pytest.mark.parametrize("name", ["Quota", "BasePriority", "CreateTime"])
def test_no_row_is_lost_at_any_edge(loaded, name: str) -> None:
    asked = Asked(loaded, TYPE)
    step = timedelta(microseconds=500_000) if name == "CreateTime" else 1
    cells = {row[name] for row in asked.rows} - {None}
    if name == "CreateTime":
        cells = {cell for cell in cells if cell.year > 1601}
    for value in sorted({cell + step * n for cell in cells for n in range(-2, 3)}):
        for test in (ds.EqualTo, ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual):
            asked.check(test((name,), value))
    assert asked.narrowed > 40


CONFIGURATION = "CN=Configuration,"
SERVERS = f"CN=Servers,CN=Rome,CN=Sites,{CONFIGURATION}"
SIDS = [bytes([1, 1, 0, 0, 0, 0, 0, 5, number, 0, 0, 0]) for number in (7, 18)]
OTHERS: list[tuple[str, str, dict[str, list[bytes]]]] = [
    (f"CN=Rome,CN=Sites,{CONFIGURATION}", "site", {"mSMQInterval1": [b"-1"], "mSMQSiteForeign": [b"TRUE"]}),
    (
        f"CN=Bern\\, old,CN=Sites,{CONFIGURATION}",
        "site",
        {"mSMQInterval1": [b"2"], "mSMQInterval2": [b"4294967295"], "mSMQNt4Stub": [b"0", b"1"]},
    ),
    (f"CN=ZÜRICH,CN=Sites,{CONFIGURATION}", "site", {"mSMQNt4Stub": [b"1"], "mSMQSiteForeign": [b"FALSE"]}),
    (SERVERS, "serversContainer", {}),
    (f"CN=m,{SERVERS}", "server", {}),
    (
        f"CN=MSMQ Settings,CN=m,{SERVERS}",
        "mSMQSettings",
        {"mSMQServices": [b"-2147483648"], "mSMQRoutingService": [b"TRUE"], "mSMQQMID": [GUIDS[3].bytes_le]},
    ),
    (
        "CN=m,CN=Computers,",
        "computer",
        {"dNSHostName": [b"M.example.com"], "sAMAccountName": [b"m$"], "objectSid": [SIDS[0]]},
    ),
    ("CN=n,CN=Computers,", "computer", {"operatingSystemVersion": [b"10.0"], "objectSid": [b"no SID"]}),
    (
        "CN=msmq,CN=m,CN=Computers,",
        "mSMQConfiguration",
        {
            "mSMQOSType": [b"1024"],
            "mSMQQuota": [b"-2"],
            "mSMQForeign": [b"TRUE"],
            "mSMQEncryptKey": [b"\x00*("],
        },
    ),
    ("CN=msmq,CN=n,CN=Computers,", "mSMQConfiguration", {"mSMQOSType": [b"7"], "mSMQQuota": [b"1048576"]}),
    ("CN=ann,CN=Users,", "user", {"objectSid": [SIDS[1]], "mSMQSignCertificates": [b"\xff)"]}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in FRAME_TYPES if name not in {"queue", "routing-link", "ldap"}]
)
def test_no_row_is_lost_by_any_value_of_any_column(loaded, name: str) -> None:
    """Values that are stored, defaults, and values that cannot be decoded, of every other type."""
    frame = FRAME_TYPES[name]
    single = [column for column in frame.columns if not column.many]
    ordered = [ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual]
    with standing(loaded, OTHERS):
        asked = Asked(loaded, frame)
        for column in single:
            path = (column.name,)
            asked.check(ds.IsNotNull(path))
            for value in {row[column.name] for row in asked.rows} - {None}:
                asked.check(ds.EqualTo(path, value))
                asked.check(ds.In(path, [None, value]))
                for test in ordered if column.kind in {Kind.INTEGER, Kind.TIME} else ():
                    asked.check(test(path, value))
                if column.kind is Kind.TEXT:
                    asked.check(ds.StringStartsWith(path, value[:3]))
    assert asked.rows
    assert asked.narrowed > (0 if len(asked.rows) > 1 else -1)


@pytest.mark.samba
def test_no_row_is_lost_on_a_domain_controller(samba_directory) -> None:
    """Fewer filters, over queues that a domain controller takes."""
    session = samba_directory.session
    name = f"pd{uuid4().hex[:8]}"
    machine = DN.parse(f"CN=msmq,CN={name},CN=Computers,{session.naming.root}")
    account = {"objectClass": [b"computer"], "sAMAccountName": [f"{name}$".encode()]}
    session.add(machine.parent, account)
    try:
        site = next(samba_directory.search(mqdssm.Site)).identifier
        samba_directory.create(mqdssm.QueueManager(computer_name=name, site_identifier_list=[site]))
        for n in range(40):
            samba_directory.create(
                mqdssm.Queue(
                    pathname=f"{name}\\q{n}",
                    label=TEXTS[n % len(TEXTS)],
                    quota=NUMBERS[n % len(NUMBERS)],
                    journal_quota=NUMBERS[n * 5 % len(NUMBERS)],
                    base_priority=[-32768, -1, 0, 3, 32767][n % 5],
                    privacy_level=list(mqdssm.PrivacyLevel)[n % 3],
                    journaling=n % 2 == 0,
                    type=GUIDS[n % len(GUIDS)],
                )
            )
        asked = Asked(samba_directory, TYPE)
        check_many(asked, 100)
        for value in (-32768, -1, 0, 3, 2**31 - 1, 2**31, 2**32 - 1):
            for test in (ds.EqualTo, ds.GreaterThan, ds.LessThanOrEqual):
                asked.check(test(("Quota",), value))
                asked.check(test(("BasePriority",), value))
        assert asked.narrowed > 30
    finally:
        for dn in sorted(
            (entry.dn for entry in session.find(machine.parent, TRUE, [])), key=len, reverse=True
        ):
            session.delete(dn)
