"""Access masks, [MS-DTYP] 2.4.3 and [MS-MQMQ] 2.2.23 to 2.2.27."""

import pytest

from mqdssm.wire import masks
from mqdssm.wire.masks import (
    ConnectedNetworkAccess,
    EnterpriseAccess,
    MachineAccess,
    QueueAccess,
    SiteAccess,
    map_generic,
)

# kind, GENERIC_READ, GENERIC_WRITE, GENERIC_ALL: the combined values as the rights of the tables add up
COMBINED = [
    (MachineAccess, 0x200E3, 0x20024, 0xF00F7),
    (QueueAccess, 0x2002B, 0x20024, 0xF003F),
    (SiteAccess, 0x20020, 0x20024, 0xF0037),
    (EnterpriseAccess, 0x20021, 0x20027, 0xF0037),
    (ConnectedNetworkAccess, 0x20020, None, 0xF0031),
]


@pytest.mark.parametrize(("kind", "read", "write", "everything"), COMBINED)
def test_combined_rights(kind, read, write, everything):
    assert read == kind.GENERIC_READ
    assert everything == kind.GENERIC_ALL
    assert getattr(kind, "GENERIC_WRITE", None) == write
    single = [member for member in kind if member.value.bit_count() == 1]
    assert sum(single) == everything, "all rights together are GENERIC_ALL"


@pytest.mark.parametrize(("kind", "read", "write", "everything"), COMBINED)
def test_generic_bits_are_mapped(kind, read, write, everything):
    assert map_generic(masks.GENERIC_READ, kind) == read
    assert map_generic(masks.GENERIC_WRITE, kind) == (write or 0)
    assert map_generic(masks.GENERIC_ALL, kind) == everything
    assert map_generic(masks.GENERIC_EXECUTE | 0x1, kind) == 0x1
    assert map_generic(0x20020, kind) == 0x20020


def test_generic_bits():
    assert masks.GENERIC_BITS == 0xF0000000
    assert masks.GENERIC_WRITE == 0x40000000, "not the misprint of the text"


def test_names_of_the_specification():
    assert masks.MQSEC_QUEUE_GENERIC_WRITE == 0x20024
    assert masks.MQSEC_MACHINE_WORLD_RIGHTS == 0x20020
    assert QueueAccess.RECEIVE_MESSAGE == 0x3
    assert QueueAccess.RECEIVE_JOURNAL_MESSAGE == 0xA
    assert MachineAccess.RECEIVE_DEADLETTER_MESSAGE == 0x3
    assert MachineAccess.RECEIVE_JOURNAL_QUEUE_MESSAGE == 0xC0
