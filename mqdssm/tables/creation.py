"""Required properties and default values of new directory objects.

Properties and defaults follow NT4's rules ([MS-MQDS] 3.1.6.3).
Required properties are the ones of notes <21> and <124>, except the GUID, which every type needs (decision
R11); defaults are the ones of notes <23>, <25> and <29>. A queue is of enterprise scope ([MS-MQDMPR]
3.1.1.2), and reserved properties, whose values have no meaning, are 0 or empty ([MC-MQDSRP] 3.2.7.8). So
every synchronization carries all of them, and replicas have the same values as their authority (decision
R52).
"""

from collections.abc import Mapping
from typing import Final

from mqdssm.model.guid import NULL_GUID
from mqdssm.model.messages import PropertyValue, Scope
from mqdssm.model.propids import BLOBS, ObjectType, Propid
from mqdssm.tables.property_rows import CHANGED, RESERVED

NO_QUOTA: Final = 0xFFFF_FFFF

# fmt: off
REQUIRED: Final[Mapping[ObjectType, tuple[Propid, ...]]] = {
    ObjectType.QUEUE: (Propid.Q_PATHNAME,),
    ObjectType.MACHINE: (Propid.QM_SITE_ID, Propid.QM_PATHNAME, Propid.QM_CNS, Propid.QM_ADDRESS),
    ObjectType.SITE: (Propid.S_PATHNAME, Propid.S_PSC),
    ObjectType.CN: (Propid.CN_NAME,),
    ObjectType.ENTERPRISE: (Propid.E_NAME,),
    ObjectType.USER: (Propid.U_SIGN_CERT, Propid.U_DIGEST),
    ObjectType.ROUTING_LINK: (Propid.L_NEIGHBOR1, Propid.L_NEIGHBOR2, Propid.L_COST),
}
"""Required properties of a new object of each type; the path name may be an argument instead."""

_DEFAULTS: Final[Mapping[ObjectType, Mapping[Propid, PropertyValue]]] = {
    ObjectType.QUEUE: {
        Propid.Q_SCOPE: int(Scope.ENTERPRISE), Propid.Q_TYPE: NULL_GUID, Propid.Q_BASEPRIORITY: 0,
        Propid.Q_JOURNAL: 0, Propid.Q_QUOTA: NO_QUOTA, Propid.Q_JOURNAL_QUOTA: NO_QUOTA, Propid.Q_LABEL: "",
        Propid.Q_AUTHENTICATE: 0, Propid.Q_PRIV_LEVEL: 1, Propid.Q_TRANSACTION: 0,
    },
    ObjectType.MACHINE: {
        Propid.QM_FOREIGN: 0, Propid.QM_QUOTA: NO_QUOTA, Propid.QM_JOURNAL_QUOTA: NO_QUOTA,
        Propid.QM_MACHINE_TYPE: "", Propid.QM_OS: 0, Propid.QM_ENCRYPT_PK: b"", Propid.QM_INFRS: (),
        Propid.QM_OUTFRS: (), Propid.QM_SERVICE: 0, Propid.QM_SIGN_PK: b"",
    },
    ObjectType.SITE: {
        Propid.S_GATES: (), Propid.S_INTERVAL1: 2, Propid.S_INTERVAL2: 10, Propid.S_PSC_SIGNPK: b"",
    },
}
# fmt: on


def _make_defaults(object_type: ObjectType) -> Mapping[Propid, PropertyValue]:
    defaults = dict(_DEFAULTS.get(object_type, {}))
    for propid in CHANGED[object_type]:
        if propid in RESERVED:
            defaults[propid] = b"" if propid.variant in BLOBS else 0
    return {propid: defaults[propid] for propid in CHANGED[object_type] if propid in defaults}


DEFAULTS: Final[Mapping[ObjectType, Mapping[Propid, PropertyValue]]] = {
    object_type: _make_defaults(object_type) for object_type in CHANGED
}
"""Default values of a new object's properties, in the order of DirectoryChangePropID."""
