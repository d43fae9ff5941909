"""GUIDs of objects of another class are GUIDs of nothing ([MS-MQDSSM] 3.1.6.1.1.6, 3.1.6.1.4.4)."""

import pytest

import mqdssm


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.5.4")
def test_a_queue_manager_is_no_site(world) -> None:
    site, other, stranger = world.site(), world.site(), world.queue_manager()
    for one, two in ((stranger, site), (site, stranger)):
        link = mqdssm.RoutingLink(site1_identifier=one, site2_identifier=two, actual_cost=1)
        with pytest.raises(mqdssm.GenericDirectoryError, match="no site"):
            world.directory.create(link)
    assert not list(world.directory.search(mqdssm.RoutingLink))
    link = mqdssm.RoutingLink(site1_identifier=site, site2_identifier=other, actual_cost=1)
    link.identifier = world.directory.create(link)
    link.site1_identifier = stranger
    with pytest.raises(mqdssm.GenericDirectoryError):
        world.directory.write(link, attributes=["Site1Identifier"])
    (found,) = world.directory.search(mqdssm.RoutingLink)
    assert found.site1_identifier == site


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.6")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.7")
def test_a_site_is_no_routing_server(world) -> None:
    router, site = world.queue_manager(), world.site()
    guid = world.queue_manager(
        out_routing_server_identifier_list=[site, router], in_routing_server_identifier_list=[router, site]
    )
    entry = world.ldap.entry(f"CN=msmq,{world.computer_dn(world.computer_of(guid))}")
    for name in ("mSMQOutRoutingServers", "mSMQInRoutingServers"):
        (dn,) = entry[name]
        assert dn.decode().lower() == f"cn=msmq,{world.computer_dn(world.computer_of(router))}".lower()
