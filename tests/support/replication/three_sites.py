"""An enterprise of three sites, for tests of servers that lose what they owned."""

from mqdssm.engines.replication.actions import Send
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType
from support.replication.lone_authority import OK
from support.replication.network import Net, enterprise, guid_of, with_bsc, with_site

SITE0 = guid_of("site Site0")
SITE1 = guid_of("site Site1")
SITE2 = guid_of("site Site2")
LONG_S = 3000


def nothing_lost(_source: str, _send: Send) -> bool:
    return False


def world(**settings) -> Net:
    """PEC, PSC1 with BSC1, PSC2; a machine C14 in Site1."""
    net = enterprise(**({"header_s": 60.0} | settings))
    with_site(net, "Site1", "PSC1")
    with_bsc(net, "Site1", "BSC1", "PSC1")
    with_site(net, "Site2", "PSC2")
    assert net.create_machine("C14", "Site1", "PSC1").status == OK
    net.run(100)
    return net


def owners(net: Net, partition_id=SITE1) -> list[str]:
    return [name for name, host in net.hosts.items() if host.engine.read_next_number(partition_id) > 0]


def delete(net: Net, kind: ObjectType, identifier, partition_id, at: str) -> int:
    given = {"identifier": identifier, "partition_id": partition_id}
    return net.change(at, Command.DELETE, kind, **given).status
