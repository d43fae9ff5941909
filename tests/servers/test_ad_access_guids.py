"""The GUIDs that our access masks become are those of the schema and its extended rights (decision M31)."""

import pytest

from mqdssm.directory.filters import Equal
from mqdssm.directory.session import Session
from mqdssm.events.facade import Directory
from mqdssm.tables.access import KINDS, AdRight

NAMES = {
    "mSMQQueue": ("msmq-Receive", "msmq-Peek", "msmq-Send", "msmq-Receive-journal"),
    "mSMQConfiguration": (
        "msmq-Receive-Dead-Letter",
        "msmq-Peek-Dead-Letter",
        "mSMQQueue",
        "msmq-Receive-computer-Journal",
        "msmq-Peek-computer-Journal",
    ),
    "site": ("mSMQSettings", "server", "mSMQConfiguration"),
    "mSMQEnterpriseSettings": ("user", "site", "subnet"),
    "connectedNetwork": ("msmq-Open-Connector",),
}
"""[MS-MQMQ] 2.2.23-2.2.27 by the names of the schema, in the order of the bits."""


def name_of(session: Session, right: AdRight, object_type: object) -> str:
    if right is AdRight.CREATE_CHILD:
        wanted = Equal("schemaIDGUID", object_type.bytes_le)  # type: ignore[attr-defined]
        base, attribute = session.naming.schema, "lDAPDisplayName"
    else:
        base, attribute = session.naming.configuration.child("CN", "Extended-Rights"), "cn"
        wanted = Equal("rightsGuid", str(object_type).encode())
    (found,) = session.find(base, wanted, [attribute])
    return (found.first(attribute) or b"").decode()


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_in_the_directory(samba_directory: Directory, kind: str) -> None:
    session = samba_directory.session
    carriers = sorted(KINDS[kind].carriers, key=lambda one: one.bit)
    found = [name_of(session, one.right, one.object_type) for one in carriers]
    assert [name.lower() for name in found] == [name.lower() for name in NAMES[kind]]
