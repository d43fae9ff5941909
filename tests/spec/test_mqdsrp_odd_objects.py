"""Objects that a server could be stopped with, or led astray: none of them may do that to an enterprise."""

from dataclasses import replace

import pytest
from support.replication.lone_authority import OK, PSC_TIMER, authority, make_cn, propagated
from support.replication.lone_server import HOME, Lone, replies, sends, site
from support.replication.network import all_equal, enterprise, guid_of, with_site

from mqdssm.engines.replication.operations import LoadState
from mqdssm.engines.replication.settings import Role
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID


@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
def test_an_object_without_properties_stops_nothing() -> None:
    """Another program can empty an entry: then the object has nothing but its GUID (decision R94)."""
    server = authority()
    make_cn(server, "bare")
    server.fired(PSC_TIMER)
    server.store._kept.find_table(PEC_PARTITION_ID).objects[guid_of("bare")].properties.clear()
    of_another_type = ((Propid.S_PSC, "ignored"),)
    changed = server.change(
        Command.UPDATE,
        ObjectType.CN,
        PEC_PARTITION_ID,
        identifier=guid_of("bare"),
        properties=of_another_type,
    )
    assert replies(changed) == [OK]
    (told,) = propagated(server.fired(PSC_TIMER), "Other")
    assert (told.guid_identifier, told.properties) == (guid_of("bare"), ((Propid.CN_GUID, guid_of("bare")),))
    assert replies(make_cn(server, "more")) == [OK]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_site_does_not_get_the_partition_of_the_enterprise() -> None:
    """A site's GUID is that of its partition, and the enterprise's partition has one, too (decision R95)."""
    server = authority()
    made = server.change(
        Command.CREATE,
        ObjectType.SITE,
        PEC_PARTITION_ID,
        path_name="Null",
        identifier=PEC_PARTITION_ID,
        properties=((Propid.S_PATHNAME, "Null"), (Propid.S_PSC, "Mallory")),
    )
    assert replies(made) == [Hresult.MQ_ERROR_PROPERTY]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_replica_takes_such_a_site_and_leaves_the_enterprise_alone() -> None:
    replica = Lone()
    wrong = replace(site(1, "Null", "Mallory"), guid_identifier=PEC_PARTITION_ID)
    replica.told(wrong)
    assert replica.partition().last == 1
    assert replica.partition().authority_name == "PEC"
    replica.told(
        replace(
            site(2, "Null", ""),
            guid_identifier=PEC_PARTITION_ID,
            command=Command.DELETE,
            properties=((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, int(ObjectType.SITE))),
        )
    )
    assert replica.partition().last == 2


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
def test_there_is_one_enterprise() -> None:
    """A second one would name another PEC, whom all servers would believe from then on (decision R96)."""
    net = enterprise()
    with_site(net, "Site1", "PSC1")
    with_site(net, "Site2", "PSC2")
    second = net.change(
        "PEC",
        Command.CREATE,
        ObjectType.ENTERPRISE,
        path_name="Second",
        identifier=guid_of("second"),
        partition_id=PEC_PARTITION_ID,
        properties=((Propid.E_NAME, "Second"), (Propid.E_PECNAME, "PSC1")),
    )
    net.run(200)
    known = {
        name: next(
            one.authority_name
            for one in host.store.perform(LoadState()).partitions
            if one.partition_id == PEC_PARTITION_ID
        )
        for name, host in net.hosts.items()
    }
    assert known == dict.fromkeys(("PEC", "PSC1", "PSC2"), "PEC")
    assert second.status == Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
    assert all_equal(net)


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.1")
@pytest.mark.parametrize("command", Command)
@pytest.mark.parametrize("role", Role)
def test_a_client_that_wants_a_tombstone_changed_is_refused(role: Role, command: Command) -> None:
    """It is no object: what a client asks for stops no server."""
    server = Lone(role)
    for partition_id in (PEC_PARTITION_ID, HOME):
        made = server.change(
            command,
            ObjectType.DELETED_OBJECT,
            partition_id,
            identifier=guid_of("gone"),
            properties=((Propid.D_SCOPE, 1),),
        )
        assert replies(made) == [Hresult.MQDS_WRONG_OBJ_TYPE]
        assert not sends(made)
