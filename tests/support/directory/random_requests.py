"""Random LDAP requests on a small tree: most of them can be carried out, the others for many reasons not."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from mqdssm.directory.filters import (
    And,
    Equal,
    GreaterOrEqual,
    LdapFilter,
    LessOrEqual,
    Not,
    Or,
    Present,
    Substrings,
    encode,
)
from mqdssm.directory.requests import (
    ChangeType,
    LdapControl,
    Modification,
    SearchScope,
    encode_add,
    encode_delete,
    encode_extended,
    encode_modify,
    encode_modify_dn,
    make_assertion_control,
    make_paged_control,
)
from support.directory.search_requests import encode_search

GUIDS: Final = tuple(bytes((one,)) * 16 for one in range(1, 6))
VALUES: Final[dict[str, Sequence[bytes]]] = {
    "cn": (b"a", b"B", b"b", b"c  d", b"C D", b"\xc3\xa9", b"", b"\xff"),
    "objectGUID": GUIDS,
    "mSMQLabelEx": (b"label", b"LABEL", b"other  label", b"*()\\", b"", b"\xff\xfe"),
    "mSMQJournal": (b"TRUE", b"FALSE", b"true", b""),
    "mSMQQueueQuota": (b"0", b"7", b"-1", b"4294967295", b"007", b"x", b""),
    "mSMQSites": (*GUIDS[:3], b""),
    "mSMQSite1": (b"CN=a,DC=example,DC=com", b"cn=A, dc=Example,dc=com", b"no name", b"CN=Missing"),
    "description": (b"one", b"Two", b"two ", b"three"),
    "mqisSeqNumber": (b"1", b"20", b"300", b"18446744073709551615"),
    "mqisPartitionID": GUIDS[:2],
    "mqisBucket": (GUIDS[0] + bytes(8), GUIDS[1] + bytes(8)),
    "mqisExact": (b"", b"x", b"xy"),
    "entryCSN": (b"20200101000000.000000Z#000000#000#000000",),
    "noSuchAttribute": (b"x",),
}
"""Values of attributes: good ones, bad ones, and some that are the same to the server."""
CLASSES: Final = (
    ("container",),
    ("top", "container"),
    ("mSMQQueue",),
    ("mSMQQueue", "mqisQueue"),
    ("mSMQConfiguration", "mqisMachine"),
    ("mSMQQueue", "mSMQConfiguration"),
    ("mqisQueue",),
    ("msmqadtop",),
    ("mSMQSiteLink",),
    ("noSuchClass",),
    ("mqisTombstone", "mqisNumbered"),
)
NAMES: Final = ("CN=a", "CN=B", "CN=c  d", "CN=C D", "CN=é", "CN=x\\,y", "OU=o", "CN=e\\=f")
SELECTIONS: Final = (("*",), ("*", "entryDN"), ("1.1",), ("cn", "MSMQLABELEX"), ("objectClass", "mSMQSites"),
                     ("structuralObjectClass", "subschemaSubentry", "nothing"))  # fmt: skip
UNKNOWN: Final = LdapControl("1.2.3.4", critical=True)


class RandomRequests:
    """Requests below one entry.

    Args:
        top: the name of that entry.
        seed: where every choice comes from.
    """

    def __init__(self, top: str, seed: int) -> None:
        self._top = top
        self._rng = Random(seed)
        self._own = seed.to_bytes(4, "big")
        self._kinds: tuple[tuple[int, Callable[[int], bytes]], ...] = (
            (8, self._add),
            (8, self._modify),
            (3, self._delete),
            (4, self._rename),
            (10, self._search),
            (1, self._extended),
        )

    def next(self, number: int) -> bytes:
        """The next request, with a message id."""
        weights = [weight for weight, _ in self._kinds]
        ((_, make),) = self._rng.choices(self._kinds, weights)
        return make(number)

    def _name(self) -> str:
        rng = self._rng
        if rng.random() < 0.02:
            return rng.choice(("CN=a,DC=elsewhere", "no name", "noSuchAttribute=a,DC=example,DC=com"))
        depth = rng.choice((0, 1, 1, 1, 1, 2, 2, 3))
        return ",".join(
            [*(rng.choice(NAMES[:5] if rng.random() < 0.9 else NAMES) for _ in range(depth)), self._top]
        )

    def _values(self, attribute: str, most: int = 2) -> list[bytes]:
        count = self._rng.choice((1, 1, 1, most))
        return [self._value(attribute) for _ in range(count)]

    def _value(self, attribute: str) -> bytes:
        """One value; a GUID is of this tree alone."""
        value = self._rng.choice(VALUES[attribute])
        return value[: -len(self._own)] + self._own if attribute == "objectGUID" and value else value

    def _attribute(self) -> str:
        names = list(VALUES)
        return self._rng.choice(names[:-2] if self._rng.random() < 0.95 else names)

    def _add(self, number: int) -> bytes:
        rng = self._rng
        classes = rng.choice(CLASSES[:5]) if rng.random() < 0.8 else rng.choice(CLASSES)
        attributes = {"objectClass": [one.encode() for one in classes]}
        for _ in range(rng.choice((0, 0, 1, 2))):
            attribute = self._attribute()
            attributes[attribute] = self._values(attribute)
        return encode_add(number, self._name(), attributes, self._controls())

    def _modify(self, number: int) -> bytes:
        rng = self._rng
        changes = []
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            attribute = self._attribute()
            kind = rng.choice((ChangeType.REPLACE, ChangeType.REPLACE, ChangeType.ADD, ChangeType.DELETE))
            values = [] if kind is not ChangeType.ADD and rng.random() < 0.3 else self._values(attribute)
            if rng.random() < 0.1:
                attribute, kind = "objectClass", ChangeType.REPLACE
                values = [one.encode() for one in rng.choice(CLASSES)]
            changes.append(Modification(kind, attribute, values))
        return encode_modify(number, self._name(), changes, self._controls())

    def _delete(self, number: int) -> bytes:
        name = self._name()
        return encode_delete(number, f"CN=a,{self._top}" if name == self._top else name, self._controls())

    def _rename(self, number: int) -> bytes:
        rng = self._rng
        name = self._name()
        return encode_modify_dn(
            number,
            f"CN=a,{self._top}" if name == self._top else name,
            rng.choice(NAMES),
            new_superior=self._name() if rng.random() < 0.5 else None,
            delete_old_rdn=rng.random() < 0.8,
            controls=self._controls(),
        )

    def _search(self, number: int) -> bytes:
        rng = self._rng
        controls = [*self._controls()]
        if rng.random() < 0.3:
            controls.append(make_paged_control(rng.choice((1, 2, 100))))
        return encode_search(
            number,
            self._name(),
            rng.choice(tuple(SearchScope)),
            encode(self._filter(2)),
            rng.choice(SELECTIONS),
            size_limit=rng.choice((0, 0, 0, 1, 2)),
            controls=controls,
        )

    def _extended(self, number: int) -> bytes:
        return encode_extended(number, "1.2.3.4.5")

    def _controls(self) -> tuple[LdapControl, ...]:
        rng = self._rng
        if rng.random() < 0.85:
            return ()
        return (UNKNOWN,) if rng.random() < 0.1 else (make_assertion_control(self._filter(1)),)

    def _filter(self, depth: int) -> LdapFilter:
        rng = self._rng
        if depth and rng.random() < 0.5:
            some = tuple(self._filter(depth - 1) for _ in range(rng.choice((1, 2, 3))))
            return rng.choice((And(some), Or(some), Not(some[0])))
        attribute = rng.choice((*VALUES, "objectClass", "entryDN"))
        if attribute == "objectClass":
            return Equal(
                attribute, rng.choice((b"container", b"top", b"MSMQQUEUE", b"mqisNumbered", b"none"))
            )
        if attribute == "entryDN":
            return Equal(attribute, self._name().encode())
        value = self._value(attribute)
        kinds: tuple[Callable[[], LdapFilter], ...] = (
            lambda: Equal(attribute, value),
            lambda: Equal(attribute, value),
            lambda: Present(attribute),
            lambda: GreaterOrEqual(attribute, value),
            lambda: LessOrEqual(attribute, value),
            lambda: Substrings(attribute, any=(value or b"a",)),
            lambda: Substrings(attribute, initial=value[:1] or b"a", final=value[-1:] or b"b"),
        )
        return rng.choice(kinds)()
