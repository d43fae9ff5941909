"""Entries of elements, without a server: what is made, what is refused, what is left for later."""

from uuid import UUID, uuid4

import pytest

from mqdssm.errors import ConfigError, DecodeError, GenericDirectoryError
from mqdssm.events.entry_builder import EntryBuilder, EntryTarget, derive_guid, link_cn, make_dns_lookup
from mqdssm.events.object_names import parse_stored_path
from mqdssm.events.settings import is_server
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager, RoutingLink, Site, User
from mqdssm.tables import places
from mqdssm.wire.dtyp import SecurityDescriptor, Sid

ROOT = DN.parse("DC=example,DC=com")
COMPUTER = places.computer_dn(ROOT, "WEB01")
SID = Sid("S-1-5-21-1-2-3-1104")
HERE, THERE = uuid4(), uuid4()
ROUTER, GONE = uuid4(), uuid4()
KNOWN = {
    HERE: str(places.site_dn(ROOT, "Here")),
    THERE: str(places.site_dn(ROOT, "There")),
    ROUTER: str(places.queue_manager_dn(ROOT, "ROUTER")),
}


def maker(profile: str = "openldap", **options) -> EntryBuilder:
    return EntryBuilder(
        EntryTarget.named(profile, ROOT, keeps_guids=profile == "openldap"), make_dns_lookup(KNOWN), **options
    )


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
def test_a_queue():
    guid = uuid4()
    made = maker().queue(Queue(identifier=guid, pathname="web01\\orders", label="x"), COMPUTER, SID)
    assert str(made.dn) == f"CN=orders,CN=msmq,{COMPUTER}"
    assert (made.type, made.role, made.guid, made.original) == ("queue", "object", guid, guid)
    descriptor = SecurityDescriptor.from_bytes(made.values.pop("nTSecurityDescriptor")[0])
    assert SID in {ace.sid for ace in descriptor.explicit_aces()}  # what create would have made (M41)
    assert made.values == {"objectGUID": (guid.bytes_le,), "mSMQLabelEx": (b"x",)}
    assert made.attributes()["objectClass"] == (b"mSMQQueue",)


def test_a_long_name_of_a_queue_is_split():
    made = maker().queue(Queue.from_directory({"pathname": "web01\\" + "a" * 147}), COMPUTER)
    assert len(made.dn.name) == 64
    assert made.values["mSMQQueueNameExt"] == (b"a" * 92,)


@pytest.mark.parametrize(
    ("pathname", "error"),
    [
        ("web01\\private$\\q", GenericDirectoryError),
        ("web01", ValueError),
        ("", ValueError),
        ("web01\\a;b", ValueError),
        ("web01\\" + "a" * 148, ValueError),
        ("web01\\a\0b", ValueError),
    ],
)
def test_names_that_no_directory_holds(pathname, error):
    with pytest.raises(error):
        parse_stored_path(pathname)


def test_names_that_may_not_be_created_but_are_kept():
    assert parse_stored_path('WEB01\\two words, "quoted"').queue == 'two words, "quoted"'  # decision M7


def test_the_null_guid_identifies_nothing():
    with pytest.raises(ValueError, match="null GUID"):
        maker().queue(Queue.from_directory({"pathname": "a\\b", "identifier": UUID(int=0)}), COMPUTER)


def test_a_damaged_descriptor_is_refused():
    with pytest.raises(DecodeError):
        maker().queue(Queue.from_directory({"pathname": "a\\b", "security": b"rubbish"}), COMPUTER)


def test_a_queue_manager_and_what_belongs_to_it():
    manager = QueueManager.from_directory(
        {
            "identifier": uuid4(),
            "computer_name": "WEB01",
            "routing_server": True,
            "site_identifier_list": (HERE, GONE),
            "out_routing_server_identifier_list": (ROUTER, GONE),
        }
    )
    made = maker().queue_manager(manager, COMPUTER, SID)
    assert made.values["mSMQServiceType"] == (b"1",)
    assert made.values["mSMQOutRoutingServers"] == (KNOWN[ROUTER].encode(),)
    assert made.refers == {"mSMQSites": (HERE, GONE), "mSMQOutRoutingServers": (ROUTER, GONE)}
    assert made.missing == {"mSMQSites": (GONE,), "mSMQOutRoutingServers": (GONE,)}
    assert is_server(made.values)
    settings = maker().settings(made, "Here", manager.identifier)
    assert settings.dn == places.settings_dn(ROOT, "Here", "WEB01")
    assert settings.values == {
        "objectGUID": (derive_guid(settings.dn).bytes_le,),
        "mSMQQMID": (manager.identifier.bytes_le,),
        "mSMQServices": (b"1",),
        "mSMQRoutingService": (b"TRUE",),
    }
    assert (settings.role, settings.refers) == ("settings", {"mSMQQMID": (manager.identifier,)})
    assert maker().server("Here", "WEB01").role == "container"
    assert maker().computer_keys(manager) == {}


def test_references_can_be_left_for_later():
    manager = QueueManager.from_directory(
        {"computer_name": "WEB01", "in_routing_server_identifier_list": (ROUTER, GONE)}
    )
    made = maker().queue_manager(manager, COMPUTER)
    assert made.postpone(["mSMQInRoutingServers", "mSMQOutRoutingServers"]) == {
        "mSMQInRoutingServers": (ROUTER,)
    }
    assert "mSMQInRoutingServers" not in made.values


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.4.2")
def test_a_routing_link():
    link = RoutingLink.from_directory({"site1_identifier": HERE, "site2_identifier": THERE, "actual_cost": 5})
    made = maker().link(link)
    assert made.dn.name == f"{HERE.hex}{THERE.hex}"
    assert made.values["mSMQSite2"] == (KNOWN[THERE].encode(),)
    with pytest.raises(GenericDirectoryError, match="must be set"):
        link_cn(RoutingLink(site1_identifier=HERE))
    with pytest.raises(GenericDirectoryError, match="there is no site"):
        maker().link(
            RoutingLink.from_directory({"site1_identifier": HERE, "site2_identifier": GONE, "actual_cost": 5})
        )


def test_times_are_kept_where_a_server_lets_us():
    queue = Queue.from_directory({"pathname": "a\\b", "create_time": 0, "modify_time": 1})
    assert maker().queue(queue, COMPUTER).values["whenCreated"] == (b"19700101000000.0Z",)
    assert "modifyTimestamp" not in maker().queue(queue, COMPUTER).values
    made = maker(operational=True).queue(queue, COMPUTER)
    assert made.values["modifyTimestamp"] == (b"19700101000001Z",)
    assert "whenCreated" not in maker("activedirectory").queue(queue, COMPUTER).values


@pytest.mark.parametrize(("kind", "kept"), [("queue", True), ("site", False)])
def test_a_guid_that_cannot_be_kept_is_told_where_there_is_room(kind, kept):
    guid = uuid4()
    if kind == "queue":
        made = maker("activedirectory").queue(Queue(identifier=guid, pathname="a\\b"), COMPUTER)
    else:
        made = maker("activedirectory").site(Site(identifier=guid, name="Here"))
    assert made.guid is None
    assert made.original == guid
    assert made.values.get("mSMQOwnerID") == ((guid.bytes_le,) if kept else None)  # decision M37


def test_a_user_is_written_to_the_account_that_is_there():
    user = User.from_directory({"certificate_digest_list": (b"0" * 16,), "identifier": uuid4()})
    made = maker().change_user(user, COMPUTER)
    assert (made.dn, made.values) == (COMPUTER, {"mSMQDigests": (b"0" * 16,)})


def test_what_is_not_complete_stays_so():
    assert maker(complete=False).queue(Queue(pathname="a\\b"), COMPUTER).values == {}


def test_profiles_are_known_by_name():
    with pytest.raises(ConfigError, match="openldap, "):
        EntryTarget.named("novell", ROOT)
