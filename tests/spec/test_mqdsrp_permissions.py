"""Which requests about roles, names and keys of servers are heard (decision R107)."""

import pytest
from support.replication.lying_servers import (
    DENIED,
    LONG_S,
    OK,
    SITE1,
    SITE2,
    asks,
    everything,
    kept,
    request,
    results,
    says,
    world,
)
from support.replication.network import guid_of

from mqdssm.model.messages import Command, make_deletion_properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service

NEW = guid_of("new")
ROLES = {
    "the PEC's name": asks(
        PEC_PARTITION_ID,
        Command.UPDATE,
        ((Propid.E_PECNAME, "PSC1"),),
        guid_identifier=guid_of("enterprise"),
    ),
    "another site's PSC": asks(
        PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_PSC, "PSC1"),), guid_identifier=SITE2
    ),
    "another site's PSC, by name": asks(
        PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_PSC, "BSC1"),), path_name="Site2"
    ),
    "another site's key": asks(
        PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_PSC_SIGNPK, b"mine"),), guid_identifier=SITE2
    ),
    "another PSC's name for its own site": asks(
        PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_PSC, "PSC2"),), guid_identifier=SITE1
    ),
    "a site": asks(
        PEC_PARTITION_ID,
        Command.CREATE,
        ((Propid.S_PSC, "PSC2"), (Propid.S_PSC_SIGNPK, b"mine"), (Propid.S_SITEID, NEW)),
        path_name="Mine",
    ),
    "the end of a site": asks(
        PEC_PARTITION_ID, Command.DELETE, make_deletion_properties(ObjectType.SITE, 1), guid_identifier=SITE2
    ),
    "another site's controller": asks(
        SITE2,
        Command.UPDATE,
        ((Propid.QM_SERVICE, int(Service.PSC)),),
        guid_identifier=guid_of("machine BSC2"),
    ),
    "no controller": asks(
        SITE2, Command.UPDATE, ((Propid.QM_SERVICE, 0),), guid_identifier=guid_of("machine BSC2")
    ),
    "a new controller": asks(
        SITE2, Command.UPDATE, ((Propid.QM_SERVICE, int(Service.BSC)),), path_name="C24"
    ),
    "a controller": asks(
        SITE2,
        Command.CREATE,
        (
            (Propid.QM_SERVICE, int(Service.BSC)),
            (Propid.QM_SITE_ID, SITE2),
            (Propid.QM_ADDRESS, b""),
            (Propid.QM_CNS, ()),
            (Propid.QM_MACHINE_ID, NEW),
        ),
        path_name="Mine",
    ),
    "the end of a controller": asks(
        SITE2,
        Command.DELETE,
        make_deletion_properties(ObjectType.MACHINE, 1),
        guid_identifier=guid_of("machine BSC2"),
    ),
    "a controller's key": asks(SITE2, Command.UPDATE, ((Propid.QM_SIGN_PK, b"mine"),), path_name="PSC2"),
    "a controller's name": asks(SITE2, Command.UPDATE, ((Propid.QM_PATHNAME, "Mine"),), path_name="BSC2"),
}


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.parametrize("liar", ["BSC1", "PSC1"])
@pytest.mark.parametrize("what", ROLES)
def test_roles_and_keys_are_changed_by_those_whom_they_concern(what, liar) -> None:
    """Decision R107: whom the enterprise knows is no argument if anybody may set it."""
    net = world()
    before = everything(net)
    change = ROLES[what]
    owner = "PEC" if change.partition_id == PEC_PARTITION_ID else "PSC2"
    assert results(says(net, liar, owner, request(liar, change))) == [DENIED]
    net.run(LONG_S)
    assert everything(net) == before


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.parametrize(
    ("asker", "owner", "change"),
    [
        ("BSC2", "PSC2", asks(SITE2, Command.UPDATE, ((Propid.QM_SIGN_PK, b"k"),), path_name="BSC2")),
        ("BSC2", "PSC2", asks(SITE2, Command.UPDATE, ((Propid.QM_PATHNAME, "New"),), path_name="BSC2")),
        ("PSC1", "PSC2", asks(SITE2, Command.UPDATE, ((Propid.QM_SIGN_PK, b"k"),), path_name="C24")),
        ("PSC1", "PSC2", asks(SITE2, Command.UPDATE, ((Propid.QM_QUOTA, 7),), path_name="BSC2")),
        (
            "PSC2",
            "PEC",
            asks(PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_PSC_SIGNPK, b"k"),), path_name="Site2"),
        ),
        (
            "PSC1",
            "PEC",
            asks(PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_INTERVAL1, 7),), path_name="Site2"),
        ),
    ],
)
def test_what_servers_say_of_themselves_is_taken(asker, owner, change) -> None:
    net = world()
    assert results(says(net, asker, owner, request(asker, change))) == [OK]


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
@pytest.mark.parametrize(
    ("asker", "owner", "change"),
    [
        ("PSC2", "PEC", asks(PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_PSC, "PSC2"),), path_name="Site2")),
        ("BSC2", "PSC2", asks(SITE2, Command.UPDATE, ((Propid.QM_PATHNAME, "BSC2"),), path_name="BSC2")),
    ],
)
def test_a_name_that_an_object_has_already_gets_no_number(asker, owner, change) -> None:
    """Decision R185: a server whose copy lags asks for its name again and again."""
    net = world()
    before = kept(net, owner, change.partition_id).last, everything(net)
    for identifier in (77, 78):
        assert results(says(net, asker, owner, request(asker, change, identifier))) == [OK]
    net.run(LONG_S)
    assert (kept(net, owner, change.partition_id).last, everything(net)) == before


@pytest.mark.spec("MC-MQDSRP 3.2.7.2")
def test_another_spelling_of_a_servers_name_is_written() -> None:
    net = world()
    change = asks(PEC_PARTITION_ID, Command.UPDATE, ((Propid.S_PSC, "psc2"),), guid_identifier=SITE2)
    assert results(says(net, "PSC2", "PEC", request("PSC2", change))) == [OK]
    net.run(LONG_S)
    assert {
        content[SITE2][2][Propid.S_PSC]
        for content in (net.content(name, PEC_PARTITION_ID) for name in net.hosts)
    } == {"psc2"}
