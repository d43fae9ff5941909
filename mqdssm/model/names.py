r"""Path names and format names: parse and print ([MS-MQMQ] 2.1).

A **path name** names the place of a queue, ``web01\orders``; a **format name** serves to open a queue,
``PUBLIC=…`` or ``DIRECT=OS:web01\PRIVATE$\orders``. Keywords and hexadecimal digits are read in any case
and printed as in the grammar. Values that would not print and parse again are refused.
"""

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from typing import Final, Self, TypeAlias

from mqdssm.model.queuenames import check_new_name, lower_each

COMPUTER_CHARS_MAX: Final = 256
"""Longest computer name in a path name ([MS-MQMQ] 2.1.1)."""
SUBQUEUE_CHARS_MAX: Final = 32
DOMAIN_CHARS_MAX: Final = 255
"""Longest domain after the ``@`` of a distribution list's name ([MS-MQMQ] 2.1.5)."""
PORT_MAX: Final = 65535

_PRIVATE: Final = "private$\\"
_SYSTEM: Final = "system$;"
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_ADDRESS: Final = re.compile(r"[\x21-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+")  # visible ASCII, without , ; \
_DOMAIN: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]{1,255}")  # visible ASCII, no comma (it separates names)
_GUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_HEX_NUMBER: Final = re.compile(r"[0-9A-Fa-f]{1,8}")
_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_MULTICAST: Final = re.compile(rf"((?:22[4-9]|23[0-9])(?:\.{_OCTET}){{3}}):(0|[1-9][0-9]{{0,4}})")
_MULTICAST_ADDRESS: Final = re.compile(rf"(?:22[4-9]|23[0-9])(?:\.{_OCTET}){{3}}")
_IPX: Final = re.compile(r"[0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{1,12}")
_HTTP: Final = re.compile(r"//([^/\\]*)/MSMQ(?=[\\/])", re.IGNORECASE)
_HTTP_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\[\]:@?#%]+)(?::[0-9]*)?")
_JOURNAL: Final = ";JOURNAL"
_MACHINE_QUEUES: Final = ("JOURNAL", "DEADLETTER", "DEADXACT")


class PathKind(Enum):
    """Kind of the queue in a path name; the value is the prefix of the queue's name."""

    PUBLIC = ""
    PRIVATE = _PRIVATE
    SYSTEM = _SYSTEM


@dataclass(frozen=True, slots=True)
class PathName:
    r"""Computer and name of a queue ([MS-MQMQ] 2.1.1).

    The form is ``computer\queue``, or a related one.

    Attributes:
        computer: name of the computer, as given.
        queue: name of the queue, as given, without the prefix of its kind and without its subqueue.
        kind: public, private or system.
        subqueue: name of a subqueue, or None; no directory holds one.

    Raises:
        ValueError: an empty part, a NUL, or parts whose text would be read as another path name. All
            other rules of the grammar are those of :meth:`parse`.
    """

    computer: str
    queue: str
    kind: PathKind = PathKind.PUBLIC
    subqueue: str | None = None

    def __post_init__(self) -> None:
        if not self.computer or "\\" in self.computer:
            raise ValueError(f"{self.computer!r} is no computer name of a path name")
        if not self.queue or self.subqueue == "":
            raise ValueError(f"path name {str(self)!r}: the name of the queue may not be empty")
        if "\0" in str(self):
            raise ValueError(f"path name {str(self)!r} contains NUL")
        if self.kind is PathKind.PUBLIC and self.queue.lower().startswith((_PRIVATE, _SYSTEM)):
            raise ValueError(f"path name {str(self)!r} is that of no public queue")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a path name by the grammar of MSMQ 4.0 and later, as for a new queue.

        Raises:
            ValueError: no path name; the message names the part and the rule.
        """
        path = cls.parse_stored(text)
        queue, semicolon, subqueue = path.queue.partition(";")
        path = cls(path.computer, queue, path.kind, subqueue if semicolon else None)
        if len(path.computer) > COMPUTER_CHARS_MAX:
            raise ValueError(
                f"computer name is {len(path.computer)} characters long: the limit is {COMPUTER_CHARS_MAX}"
            )
        if not _VISIBLE.fullmatch(path.computer):
            raise ValueError(f"computer name {path.computer!r}: only visible ASCII characters are allowed")
        _check_queue(path.queue, path.subqueue)
        return path

    @classmethod
    def parse_stored(cls, text: str) -> Self:
        """Read a path name that a directory holds, from any version of MSMQ.

        A ``;`` is part of the name.

        Raises:
            ValueError: there is no backslash between two names.
        """
        computer, backslash, queue = text.partition("\\")
        if not (computer and backslash and queue):
            raise ValueError(f"{text!r} is no path name: computer\\queue is expected")
        for kind in (PathKind.PRIVATE, PathKind.SYSTEM):
            if queue[: len(kind.value)].lower() == kind.value:
                return cls(computer, queue[len(kind.value) :], kind)
        return cls(computer, queue)

    @property
    def key(self) -> str:
        """Comparison key: path names are compared without case."""
        return lower_each(str(self))

    def __str__(self) -> str:
        subqueue = "" if self.subqueue is None else f";{self.subqueue}"
        return f"{self.computer}\\{self.kind.value}{self.queue}{subqueue}"


class DirectProtocol(Enum):
    """Protocol of a direct format name: the way to its computer ([MS-MQMQ] 2.1.2)."""

    TCP = "TCP"
    OS = "OS"
    HTTP = "HTTP"
    HTTPS = "HTTPS"
    IPX = "IPX"


@dataclass(frozen=True, slots=True)
class DirectFormatName:
    r"""Name of a queue by its address ([MS-MQMQ] 2.1.2).

    An example is ``DIRECT=OS:web01\PRIVATE$\orders``.

    Attributes:
        protocol: the protocol to the computer.
        address: an IP address (TCP), a computer name (OS), ``network:host`` (IPX), or ``host[:port]``.
        queue: name of the queue; JOURNAL, DEADLETTER or DEADXACT for the computer's own (kind SYSTEM).
        kind: public, private or system.
        subqueue: name of a subqueue, or None.
        journal: True for the queue's journal.

    Raises:
        ValueError: a part that the grammar does not allow.
    """

    protocol: DirectProtocol
    address: str
    queue: str
    kind: PathKind = PathKind.PUBLIC
    subqueue: str | None = None
    journal: bool = False

    def __post_init__(self) -> None:
        _check_address(self.protocol, self.address)
        if self.kind is PathKind.SYSTEM:
            if self.queue not in _MACHINE_QUEUES or self.subqueue is not None or self.journal:
                raise ValueError(f"{self.queue!r} is none of a computer's own {', '.join(_MACHINE_QUEUES)}")
            return
        _check_queue(self.queue, self.subqueue)
        if self.subqueue is not None and (self.journal or self.subqueue.upper() == "JOURNAL"):
            raise ValueError("a subqueue has no journal, and none is named JOURNAL")

    def __str__(self) -> str:
        address = f"//{self.address}/MSMQ" if self.protocol in _HTTP_PROTOCOLS else self.address
        subqueue = "" if self.subqueue is None else f";{self.subqueue}"
        journal = _JOURNAL if self.journal else ""
        queue = f"{self.kind.value.upper()}{self.queue}{subqueue}{journal}"
        return f"DIRECT={self.protocol.value}:{address}\\{queue}"


@dataclass(frozen=True, slots=True)
class PublicFormatName:
    """Name of a public queue by its Identifier, ``PUBLIC=<guid>`` ([MS-MQMQ] 2.1.3)."""

    guid: uuid.UUID

    def __str__(self) -> str:
        return f"PUBLIC={_format_guid(self.guid)}"


@dataclass(frozen=True, slots=True)
class PrivateFormatName:
    r"""Name of a private queue by queue manager and number ([MS-MQMQ] 2.1.4).

    The queue manager is given by its Identifier.
    ``PRIVATE=<guid>\<number in hexadecimal>``, with ``;JOURNAL`` for its journal.

    Raises:
        ValueError: a number that does not fit in 32 bits.
    """

    guid: uuid.UUID
    number: int
    journal: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.number <= 0xFFFF_FFFF:
            raise ValueError(f"private queue number {self.number} does not fit in 32 bits")

    def __str__(self) -> str:
        return f"PRIVATE={_format_guid(self.guid)}\\{self.number:X}{_JOURNAL if self.journal else ''}"


@dataclass(frozen=True, slots=True)
class DistributionListFormatName:
    """Name of a group of queues by its objectGUID ([MS-MQMQ] 2.1.5).

    The form of the name is ``DL=<guid>[@domain]``.

    Raises:
        ValueError: a domain that is not 1 to 255 visible ASCII characters, or that contains a comma.
    """

    guid: uuid.UUID
    domain: str | None = None

    def __post_init__(self) -> None:
        if self.domain is not None and not _DOMAIN.fullmatch(self.domain):
            raise ValueError(
                f"domain {self.domain!r}: 1 to {DOMAIN_CHARS_MAX} visible ASCII characters, no comma"
            )

    def __str__(self) -> str:
        return f"DL={_format_guid(self.guid)}{'' if self.domain is None else '@' + self.domain}"


@dataclass(frozen=True, slots=True)
class MachineFormatName:
    """Name of a computer's own queues ([MS-MQMQ] 2.1.6); read only.

    The name has the Identifier of the queue manager.
    """

    guid: uuid.UUID

    def __str__(self) -> str:
        return f"MACHINE={_format_guid(self.guid)}"


@dataclass(frozen=True, slots=True)
class ConnectorFormatName:
    """Name of the connector queue of a foreign system ([MS-MQMQ] 2.1.6).

    The form of the name is ``CONNECTOR=<guid>``.
    """

    guid: uuid.UUID

    def __str__(self) -> str:
        return f"CONNECTOR={_format_guid(self.guid)}"


@dataclass(frozen=True, slots=True)
class MulticastFormatName:
    """Name of all queues that listen to an IPv4 multicast address ([MS-MQMQ] 2.1.6).

    Attributes:
        address: 224.0.0.0 to 239.255.255.255, dotted, without leading zeros.
        port: 0 to 65535.

    Raises:
        ValueError: another address or port.
    """

    address: str
    port: int

    def __post_init__(self) -> None:
        if not _MULTICAST_ADDRESS.fullmatch(self.address):
            raise ValueError(f"{self.address!r} is no IPv4 multicast address (224.0.0.0 to 239.255.255.255)")
        if not 0 <= self.port <= PORT_MAX:
            raise ValueError(f"port {self.port}: 0 to {PORT_MAX} are allowed")

    @classmethod
    def parse_address(cls, text: str) -> Self:
        """Read ``address:port``, as a queue's MulticastAddress holds it.

        Raises:
            ValueError: no multicast address with a port.
        """
        match = _MULTICAST.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no multicast address with a port, as 234.1.1.1:8001")
        return cls(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"MULTICAST={self.address}:{self.port}"


FormatName: TypeAlias = (
    DirectFormatName
    | PublicFormatName
    | PrivateFormatName
    | DistributionListFormatName
    | MachineFormatName
    | ConnectorFormatName
    | MulticastFormatName
)
_HTTP_PROTOCOLS: Final = frozenset({DirectProtocol.HTTP, DirectProtocol.HTTPS})


def parse_format_name(text: str) -> FormatName:
    """Read one format name ([MS-MQMQ] 2.1.2-2.1.6).

    Raises:
        ValueError: no format name; the message names the part and the rule.
    """
    keyword, equals, rest = text.partition("=")
    parse = _PARSERS.get(keyword.upper())
    if not equals or parse is None:
        raise ValueError(f"{text!r} is no format name: {', '.join(_PARSERS)} followed by = is expected")
    try:
        return parse(rest)
    except ValueError as error:
        raise ValueError(f"{text!r} is no format name: {error}") from None


def _format_guid(guid: uuid.UUID) -> str:
    return str(guid).upper()


def _parse_guid(text: str) -> uuid.UUID:
    if not _GUID.fullmatch(text):
        raise ValueError(f"{text!r} is no GUID")
    return uuid.UUID(text)


def _check_queue(queue: str, subqueue: str | None) -> None:
    check_new_name(queue)
    if subqueue is None:
        return
    if not 1 <= len(subqueue) <= SUBQUEUE_CHARS_MAX:
        raise ValueError(
            f"subqueue name is {len(subqueue)} characters long: 1 to {SUBQUEUE_CHARS_MAX} are allowed"
        )
    try:
        check_new_name(subqueue)
    except ValueError as error:
        raise ValueError(f"sub{error}") from None


def _check_address(protocol: DirectProtocol, address: str) -> None:
    if not _ADDRESS.fullmatch(address) or len(address) > COMPUTER_CHARS_MAX:
        raise ValueError(f"{address!r} is no address of a direct format name")
    if protocol is DirectProtocol.TCP:
        ip_address(address)
    elif protocol is DirectProtocol.IPX and not _IPX.fullmatch(address):
        raise ValueError(f"{address!r} is no IPX address (network:host)")
    elif protocol in _HTTP_PROTOCOLS and (not _HTTP_HOST.fullmatch(address) or "/" in address):
        raise ValueError(f"{address!r} is no host[:port]")


def _parse_direct(text: str) -> DirectFormatName:
    keyword, colon, rest = text.partition(":")
    protocol = DirectProtocol.__members__.get(keyword.upper())
    if not colon or protocol is None:
        raise ValueError(f"{keyword!r} is no protocol: {', '.join(DirectProtocol.__members__)}")
    if protocol in _HTTP_PROTOCOLS:
        match = _HTTP.match(rest)
        if match is None:
            raise ValueError("//host[:port]/MSMQ is expected")
        address, queue = match[1], rest[match.end() + 1 :]
        if rest[match.end()] == "/" and queue[:9].lower() == "private$/":  # URL form
            queue = _PRIVATE + queue[9:]
    else:
        address, backslash, queue = rest.partition("\\")
        if not backslash:
            raise ValueError("a backslash between address and queue is missing")
    return _build_direct_queue(protocol, address, queue)


def _build_direct_queue(protocol: DirectProtocol, address: str, queue: str) -> DirectFormatName:
    if queue[: len(_SYSTEM)].lower() == _SYSTEM:
        return DirectFormatName(protocol, address, queue[len(_SYSTEM) :].upper(), PathKind.SYSTEM)
    kind = PathKind.PUBLIC
    if queue[: len(_PRIVATE)].lower() == _PRIVATE:
        kind, queue = PathKind.PRIVATE, queue[len(_PRIVATE) :]
    journal = queue[-len(_JOURNAL) :].upper() == _JOURNAL
    if journal:
        queue = queue[: -len(_JOURNAL)]
    queue, semicolon, subqueue = queue.partition(";")
    return DirectFormatName(protocol, address, queue, kind, subqueue if semicolon else None, journal)


def _parse_private(text: str) -> PrivateFormatName:
    guid, backslash, number = text.partition("\\")
    journal = number[-len(_JOURNAL) :].upper() == _JOURNAL
    if journal:
        number = number[: -len(_JOURNAL)]
    if not backslash or not _HEX_NUMBER.fullmatch(number):
        raise ValueError("a backslash and one to eight hexadecimal digits are expected after the GUID")
    return PrivateFormatName(_parse_guid(guid), int(number, 16), journal)


def _parse_distribution_list(text: str) -> DistributionListFormatName:
    guid, at, domain = text.partition("@")
    return DistributionListFormatName(_parse_guid(guid), domain if at else None)


_PARSERS: Final[dict[str, Callable[[str], FormatName]]] = {
    "DIRECT": _parse_direct,
    "PUBLIC": lambda text: PublicFormatName(_parse_guid(text)),
    "PRIVATE": _parse_private,
    "DL": _parse_distribution_list,
    "MACHINE": lambda text: MachineFormatName(_parse_guid(text)),
    "CONNECTOR": lambda text: ConnectorFormatName(_parse_guid(text)),
    "MULTICAST": MulticastFormatName.parse_address,
}
