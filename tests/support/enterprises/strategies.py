"""Small enterprises of any kind: hypothesis strategies of plain LDAP entries, and how they come to stand."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from uuid import UUID

from hypothesis import strategies as st

from support.enterprises.hand_made import DESCRIPTOR

Values = dict[str, list[bytes]]

_numbers = itertools.count(1)
GUIDS = [UUID(int=0), *(UUID(int=i << 64 | 0x1234) for i in (1, 2, 255))]
TEXTS = ["a", "A", "b", "ab", "Zoë", "ZOË", "x y", "*", ")(cn=*", "\\2a", "日本", "𝔘", "~"]
NUMBERS = ["0", "1", "7", "345600", "1048576", "2147483647", "-2147483648", "-2", "-1", "4294967295"]
TIMES = ["20200101000000.0Z", "20200101000000Z", "20200101000001.0Z", "19991231235959.5Z"]
BLOBS = [b"\x00", b"\x00\xff*()", DESCRIPTOR]


def of(*values: str | bytes) -> st.SearchStrategy[list[bytes]]:
    """One of some values, or none."""
    raws = [value if isinstance(value, bytes) else value.encode() for value in values]
    return st.one_of(st.just([]), st.sampled_from(raws).map(lambda raw: [raw]))


def some_of(*values: bytes) -> st.SearchStrategy[list[bytes]]:
    """Some of them, each once."""
    return st.lists(st.sampled_from(values), max_size=3, unique=True)


BOOLEANS = of("TRUE", "FALSE")
GUID = of(*(guid.bytes_le for guid in GUIDS))


def entry(**attributes: st.SearchStrategy[list[bytes]]) -> st.SearchStrategy[Values]:
    """Attributes of an entry; those without a value are left out."""
    drawn = st.fixed_dictionaries(attributes)
    return drawn.map(lambda values: {name: raws for name, raws in values.items() if raws})


QUEUES: st.SearchStrategy[Values] = entry(
    whenCreated=of(*TIMES),
    mSMQLabelEx=of(*TEXTS),
    mSMQQueueType=GUID,
    mSMQJournal=BOOLEANS,
    mSMQQueueQuota=of(*NUMBERS),
    mSMQQueueJournalQuota=of(*NUMBERS),
    mSMQAuthenticate=BOOLEANS,
    mSMQPrivacyLevel=of("0", "1", "2"),
    mSMQTransactional=BOOLEANS,
    mSMQBasePriority=of("-32768", "-1", "0", "3", "32767"),
    nTSecurityDescriptor=of(*BLOBS),
) | st.just({})
MACHINES: st.SearchStrategy[Values] = entry(
    mSMQComputerTypeEx=of(*TEXTS),
    mSMQOSType=of("0", "256", "512", "768", "1024", "1280"),
    mSMQQuota=of(*NUMBERS),
    mSMQJournalQuota=of(*NUMBERS),
    mSMQForeign=BOOLEANS,
    mSMQSites=some_of(*(guid.bytes_le for guid in GUIDS)),
    mSMQRoutingServices=BOOLEANS,
    mSMQDsServices=BOOLEANS,
    mSMQServiceType=of("0", "1", "2", "4", "8", "16", "24"),
    mSMQDependentClientServices=BOOLEANS,
    mSMQEncryptKey=of(*BLOBS),
) | st.just({})
COMPUTERS = entry(
    dNSHostName=of("a.example.com", "B.example.com"),
    operatingSystemVersion=of("10.0", "6.1"),
    servicePrincipalName=of("HOST/a", "MSClusterVirtualServer/a"),
    mSMQSignCertificates=of(*BLOBS),
)
SITES: st.SearchStrategy[Values] = entry(
    mSMQInterval1=of(*NUMBERS),
    mSMQInterval2=of(*NUMBERS),
    mSMQSiteForeign=BOOLEANS,
    mSMQNt4Stub=of("0", "1"),
) | st.just({})
LINKS = entry(mSMQCost=st.sampled_from([[b"1"], [b"5"], [b"999999"]]), description=of(*TEXTS))
USERS = entry(
    mSMQDigests=some_of(*(bytes([i]) * 16 for i in range(3))),
    mSMQSignCertificates=of(*BLOBS),
    objectSid=of(*(bytes([1, 1, 0, 0, 0, 0, 0, 5, i, 0, 0, 0]) for i in (7, 18))),
)


@st.composite
def enterprises(draw: st.DrawFn) -> list[tuple[str, str, Values]]:
    """Entries below a root, parents first: RDNs that end in "," , class, attributes."""
    number = next(_numbers)
    found: list[tuple[str, str, Values]] = []
    machines = [f"CN=pc{number}-{i}{'aB'[i % 2]},CN=Computers," for i in range(draw(st.integers(1, 3)))]
    sites = [
        f"CN={'sT'[i % 2]}{number}-{i},CN=Sites,CN=Configuration," for i in range(draw(st.integers(1, 3)))
    ]
    found += [(site, "site", draw(SITES)) for site in sites]
    for machine in machines:
        found.append((machine, "computer", draw(COMPUTERS)))
        references = st.lists(st.sampled_from(machines), max_size=2, unique=True)
        routers = {"mSMQOutRoutingServers": draw(references), "mSMQInRoutingServers": draw(references)}
        dns = {name: [f"CN=msmq,{each}".encode() for each in rdns] for name, rdns in routers.items() if rdns}
        found.append((f"CN=msmq,{machine}", "mSMQConfiguration", draw(MACHINES) | dns))
        for i, values in enumerate(draw(st.lists(QUEUES, max_size=4))):
            found.append((f"CN={'qR'[i % 2]}\\,{i},CN=msmq,{machine}", "mSMQQueue", values))
    ends = [*sites, f"CN=gone{number},CN=Sites,CN=Configuration,"]
    for i, values in enumerate(draw(st.lists(LINKS, max_size=4))):
        one, other = draw(st.sampled_from(ends)).encode(), draw(st.sampled_from(ends)).encode()
        gates = draw(st.lists(st.sampled_from(machines), max_size=2, unique=True))
        dns = {"mSMQSite1": [one], "mSMQSite2": [other]}
        if gates:
            dns["mSMQSiteGates"] = [f"CN=msmq,{gate}".encode() for gate in gates]
        link = f"CN=link{number}-{i},CN=MsmqServices,CN=Services,CN=Configuration,"
        found.append((link, "mSMQSiteLink", values | dns))
    for i, values in enumerate(draw(st.lists(USERS, max_size=3))):
        found.append((f"CN=u{number}-{i},CN=Users,", "user", values))
    return found


DN_VALUED = {"mSMQOutRoutingServers", "mSMQInRoutingServers", "mSMQSite1", "mSMQSite2", "mSMQSiteGates"}


@contextlib.contextmanager
def standing(directory, entries: Sequence[tuple[str, str, Values]]) -> Iterator[None]:
    """The entries are there, and gone again afterwards."""
    session = directory.session
    root = str(session.naming.root)
    added = []
    try:
        for number, (rdns, ldap_class, values) in enumerate(entries, 1):
            raws = {
                name: [raw + root.encode() if name in DN_VALUED else raw for raw in given]
                for name, given in values.items()
            }
            classes = [b"user", b"computer"] if ldap_class == "computer" else [ldap_class.encode()]
            guid = UUID(int=number << 96 | next(_numbers)).bytes_le
            session.add(rdns + root, {"objectClass": classes, "objectGUID": [guid], **raws})
            added.append(rdns + root)
        yield
    finally:
        for dn in reversed(added):
            session.delete(dn)
