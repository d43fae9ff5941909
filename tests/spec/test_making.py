"""What is made of an element, and what create makes of it ([MS-MQDSSM] 3.1.6.1), are the same entry."""

from uuid import UUID, uuid4

import pytest

import mqdssm
from mqdssm.events.entry_builder import EntryBuilder, EntryTarget
from mqdssm.events.references import References
from mqdssm.model.dn import DN
from mqdssm.tables.equality import find_differences
from mqdssm.wire.dtyp import Sid


@pytest.mark.spec("MS-MQDSSM 3.1.6.1")
def test_created_and_made_are_equal(world):
    session = world.directory.session
    maker = EntryBuilder(EntryTarget.of(session), References(session).dns_of)
    site, name = world.site(), world.computer()
    other = world.site()
    manager = mqdssm.QueueManager(
        identifier=uuid4(),
        computer_name=name,
        site_identifier_list=[site],
        routing_server=True,
        journal_quota=77,
    )
    world.directory.create(manager.model_copy())
    queue = mqdssm.Queue(identifier=uuid4(), pathname=f"{name}\\{'a=' * 40}", label="Ä", quota=0xFFFF_FFFE)
    world.directory.create(queue.model_copy())
    link = mqdssm.RoutingLink(site1_identifier=site, site2_identifier=other, actual_cost=3)
    world.directory.create(link.model_copy())
    computer = DN.parse(world.computer_dn(name))
    sid = Sid.from_bytes(session.get(computer, ["objectSid"]).all("objectSid")[0])
    made = maker.queue_manager(manager, computer, sid)
    own_guid = session.get(made.dn, ["objectGUID"]).all("objectGUID")[0]
    entries = [
        made,
        maker.queue(queue, computer, sid),
        maker.link(link),
        maker.settings(made, world.site_name(site), UUID(bytes_le=own_guid)),
        maker.server(world.site_name(site), name),
    ]
    for entry in entries:
        found = session.get(entry.dn, ["*", "nTSecurityDescriptor"]).attributes
        own = {key: raws for key, raws in entry.values.items() if key != "objectGUID" or entry.original}
        assert not find_differences(own, found), str(entry.dn)
        if not world.kind.makes_descriptors:  # nothing there that was not made
            assert set(found) == {key.lower() for key in entry.values} | {"objectclass", "cn"}
