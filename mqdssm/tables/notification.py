"""Properties of Change Notification Messages.

See [MS-MQCN] 3.1.1.2, 3.1.1.3 and 3.3.5.2.
Each property of the protocol has one row: its attribute of the abstract model, and its use by sender and
receiver. Both sides use only these rows.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any, Final
from uuid import UUID

from mqdssm.errors import DecodeError, MappingError
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.model.guid import Guid
from mqdssm.model.messages import PropertyValue, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.tables.row import convert_to_snake_case
from mqdssm.wire.dtyp import SecurityDescriptor

LABEL_UNITS_MAX: Final = 124
"""Largest length of a label in UTF-16 code units ([MS-MQMQ] 2.3.1.8)."""
SHOWN_CHARS_MAX: Final = 60  # of a wrong value in a message


class Use(IntFlag):
    """Use of a property by sender and receiver ([MS-MQCN] 3.3.5.2, 3.2.5.1)."""

    CREATED = 1
    """Sent for a new object; the receiver uses it."""
    CHANGED = 2
    """Sent for a changed object if its value changed; the receiver uses it."""
    ALWAYS = 4
    """Sent for every changed object; the receiver ignores it."""
    IGNORED = 8
    """May come with a changed object; the receiver ignores it (note <11>). It is not sent here."""
    FORBIDDEN = 16
    """Never sent; the receiver ignores it."""


@dataclass(frozen=True, slots=True)
class PropertyForm:
    """Conversion between an attribute's value and a property's value.

    Attributes:
        load: returns the attribute's value; raises ValueError for an invalid one.
        dump: returns the property's value.
    """

    load: Callable[[Any], Any]
    dump: Callable[[Any], PropertyValue]


def _convert_flag(value: int) -> bool:
    if value not in (0, 1):
        raise ValueError("0 or 1 is expected")
    return value == 1


def _convert_label(value: str) -> str:
    if len(value.encode("utf-16-le", "surrogatepass")) // 2 > LABEL_UNITS_MAX:
        raise ValueError(f"at most {LABEL_UNITS_MAX} characters are allowed")
    return value


def _check_descriptor(value: bytes) -> bytes | None:
    if not value:
        return None  # an empty array: unknown
    SecurityDescriptor.from_bytes(value)
    return value


def _convert_uuid(value: bytes) -> UUID:
    return Guid(value).uuid


def _convert_guids(value: Iterable[bytes]) -> tuple[UUID, ...]:
    return tuple(map(_convert_uuid, value))


# fmt: off
PLAIN: Final = PropertyForm(lambda value: value, lambda value: value)
FLAG: Final = PropertyForm(_convert_flag, int)
LABEL: Final = PropertyForm(_convert_label, _convert_label)
GUID: Final = PropertyForm(_convert_uuid, Guid.of)
GUIDS: Final = PropertyForm(_convert_guids, lambda value: tuple(map(Guid.of, value)))
PRIVACY: Final = PropertyForm(PrivacyLevel, int)
SCOPE: Final = PropertyForm(Scope, int)
SYSTEM: Final = PropertyForm(OperatingSystemType, int)
SECURITY: Final = PropertyForm(_check_descriptor, bytes)
# fmt: on


@dataclass(frozen=True, slots=True)
class NotifiedRow:
    """Row of one property.

    Attributes:
        propid: the property.
        adm: its attribute; None: no attribute of the abstract model.
        use: use by sender and receiver.
        form: conversion of the value.
        field: the attribute's name in Python; empty where there is none.
    """

    propid: Propid
    adm: str | None
    use: Use
    form: PropertyForm = PLAIN
    field: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "field", convert_to_snake_case(self.adm or ""))

    def load(self, value: PropertyValue) -> Any:
        """Return the attribute's value.

        Raises:
            MappingError: the value is invalid for the attribute.
        """
        try:
            return self.form.load(value)
        except (ValueError, TypeError, DecodeError) as error:
            value_text = repr(value)[:SHOWN_CHARS_MAX]
            raise MappingError(f"{self.propid.spec_name}: {value_text} is no {self.adm}: {error}") from None

    def dump(self, value: Any) -> PropertyValue:
        """Return the property's value.

        Raises:
            MappingError: the attribute has no value.
        """
        if value is None:
            raise MappingError(f"{self.adm} is not known, so that {self.propid.spec_name} cannot be sent")
        return self.form.dump(value)


_BOTH: Final = Use.CREATED | Use.CHANGED
_NONE: Final = Use(0)

# fmt: off
QUEUE: Final = (
    NotifiedRow(Propid.Q_TYPE,              "Type",             Use.CREATED,   GUID),
    NotifiedRow(Propid.Q_INSTANCE,          "Identifier",       Use.CREATED,   GUID),
    NotifiedRow(Propid.Q_BASEPRIORITY,      "BasePriority",     _BOTH),
    NotifiedRow(Propid.Q_JOURNAL,           "Journaling",       _BOTH,         FLAG),  # decision C8
    NotifiedRow(Propid.Q_QUOTA,             "Quota",            _BOTH),
    NotifiedRow(Propid.Q_JOURNAL_QUOTA,     "JournalQuota",     _BOTH),
    NotifiedRow(Propid.Q_CREATE_TIME,       "CreateTime",       Use.CREATED),
    NotifiedRow(Propid.Q_MODIFY_TIME,       "ModifyTime",       Use.CREATED),
    NotifiedRow(Propid.Q_SCOPE,             "Scope",            Use.CREATED,   SCOPE),
    NotifiedRow(Propid.Q_SECURITY,          "Security",         _BOTH,         SECURITY),
    NotifiedRow(Propid.Q_PATHNAME,          "Pathname",         Use.CREATED),
    NotifiedRow(Propid.Q_LABEL,             "Label",            Use.CREATED,   LABEL),
    NotifiedRow(Propid.Q_AUTHENTICATE,      "Authentication",   _BOTH,         FLAG),
    NotifiedRow(Propid.Q_PRIV_LEVEL,        "PrivacyLevel",     _BOTH,         PRIVACY),
    NotifiedRow(Propid.Q_TRANSACTION,       "Transactional",    Use.CREATED,   FLAG),
    NotifiedRow(Propid.Q_MULTICAST_ADDRESS, "MulticastAddress", _NONE),
    NotifiedRow(Propid.Q_ADS_PATH,          "DirectoryPath",    Use.FORBIDDEN),
    NotifiedRow(Propid.Q_QMID,              None,               Use.ALWAYS,    GUID),
)
"""Properties of queues ([MS-MQCN] 3.1.1.3, 3.3.5.2)."""
QUEUE_MANAGER: Final = (
    NotifiedRow(Propid.QM_MACHINE_ID,    "Identifier",          Use.ALWAYS,    GUID),
    NotifiedRow(Propid.QM_FOREIGN,       "ForeignSystem",       Use.ALWAYS,    FLAG),
    NotifiedRow(Propid.QM_QUOTA,         "QueueManagerQuota",   Use.CHANGED),
    NotifiedRow(Propid.QM_JOURNAL_QUOTA, "JournalQuota",        Use.CHANGED),
    NotifiedRow(Propid.QM_SECURITY,      "Security",            Use.CHANGED,   SECURITY),
    NotifiedRow(Propid.QM_CNS,           "ConnectedNetworkIdentifierList", Use.IGNORED, GUIDS),
    NotifiedRow(Propid.QM_MACHINE_TYPE,  "QueueManagerVersion", Use.IGNORED),
    NotifiedRow(Propid.QM_OS,            "OperatingSystemType", Use.IGNORED,   SYSTEM),
    NotifiedRow(Propid.QM_ADDRESS,       None,                  Use.IGNORED),
)
"""Properties of queue managers ([MS-MQCN] 3.1.1.2.1, 3.3.5.2)."""
# fmt: on

ROWS: Final[Mapping[ObjectType, tuple[NotifiedRow, ...]]] = {
    ObjectType.QUEUE: QUEUE,
    ObjectType.MACHINE: QUEUE_MANAGER,
}
"""Rows of each type of object ([MS-MQCN] 3.1.1.2)."""
_BY_USE: Final[Mapping[tuple[ObjectType, Use], Mapping[Propid, NotifiedRow]]] = {
    (object_type, use): {row.propid: row for row in rows if row.use & use}
    for object_type, rows in ROWS.items()
    for use in Use
}


def rows_of(object_type: ObjectType, use: Use) -> Mapping[Propid, NotifiedRow]:
    """Return the rows of a type of object that have one use ([MS-MQCN] 3.3.5.2)."""
    return _BY_USE[object_type, use]
