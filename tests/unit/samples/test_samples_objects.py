"""Sample enterprises: every object is what the model allows, unlike all others, and hangs together."""

from datetime import UTC, datetime
from functools import partial
from uuid import UUID

import pytest

from mqdssm.errors import ConfigError
from mqdssm.model.enums import OperatingSystemType
from mqdssm.model.names import PathName
from mqdssm.samples import elements
from mqdssm.samples.mqis import SampleRows
from mqdssm.samples.plan import MACHINES_MAX, EnterprisePlan
from mqdssm.samples.queues import Queues
from mqdssm.samples.seeded_random import SeededRandom, compute_guid, compute_octets
from mqdssm.wire.certificates import UserSignCerts
from mqdssm.wire.dtyp import AclForm, SecurityDescriptor
from mqdssm.wire.keys import PublicKeys

PLAN = EnterprisePlan(sites=8, machines=60, queues=3000, users=40, seed=5)


def everything(plan):
    yield elements.make_enterprise(plan)
    yield from (elements.make_site(plan, number) for number in range(plan.sites))
    yield from (elements.make_link(plan, *ends) for ends in plan.list_links())
    yield from (elements.make_machine(plan, number).manager for number in range(plan.machines))
    yield from (queue for number in range(plan.machines) for queue in Queues(plan, number))
    yield from (elements.make_user(plan, number) for number in range(plan.users))


OBJECTS = list(everything(PLAN))


def test_every_object_passes_the_checks_of_the_model():
    for obj in OBJECTS:
        values = {name: getattr(obj, name) for name in obj.model_fields_set}
        assert type(obj)(**values) == obj  # from_directory checks nothing, the constructor all


def test_there_are_as_many_as_asked_for():
    counts = {}
    for obj in OBJECTS:
        counts[obj.element_name] = counts.get(obj.element_name, 0) + 1
    wanted = {"Enterprise": 1, "Site": 8, "QueueManager": 60, "Queue": 3000, "User": 40}
    assert {name: counts[name] for name in wanted} == wanted
    assert counts["RoutingLink"] >= 7


def test_guids_and_names_are_unique():
    assert len({obj.identifier for obj in OBJECTS}) == len(OBJECTS)
    paths = [obj.pathname for obj in OBJECTS if obj.element_name == "Queue"]
    assert len({path.lower() for path in paths}) == len(paths)
    names = [obj.computer_name for obj in OBJECTS if obj.element_name == "QueueManager"]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 15
    assert len(PLAN.name_machine(MACHINES_MAX)) <= 15
    sites = EnterprisePlan(sites=200, machines=200, queues=0, users=0, seed=1)
    assert len({sites.name_site(number).name.lower() for number in range(200)}) == 200


def test_every_site_is_reached_from_the_first_one():
    pairs = list(PLAN.list_links())
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    reached = {0}
    for _ in PLAN.list_links():
        reached |= {end for pair in pairs if reached & set(pair) for end in pair}
    assert reached == set(range(PLAN.sites))


def test_references_name_routing_servers_of_the_right_site():
    managers = {obj.identifier: obj for obj in OBJECTS if obj.element_name == "QueueManager"}
    referred = 0
    for obj in managers.values():
        for other in (*obj.out_routing_server_identifier_list, *obj.in_routing_server_identifier_list):
            assert managers[other].routing_server
            assert set(obj.site_identifier_list) <= set(managers[other].site_identifier_list)
            referred += 1
    assert referred > 20
    for link in (obj for obj in OBJECTS if obj.element_name == "RoutingLink"):
        ends = (link.site1_identifier, link.site2_identifier)
        for gate, end in zip(link.site_gate_identifier_list, ends, strict=True):
            assert end in managers[gate].site_identifier_list


def test_foreign_sites_have_a_connector_and_foreign_machines():
    plan = EnterprisePlan(sites=20, machines=200, queues=0, users=0, seed=3)
    foreign = {plan.compute_guid("site", number) for number in (2, 10, 18)}
    assert {
        one.identifier for one in map(partial(elements.make_site, plan), range(20)) if one.foreign_site
    } == (foreign)
    for number in range(plan.machines):
        manager = elements.make_machine(plan, number).manager
        inside = foreign & set(manager.site_identifier_list)
        if manager.foreign_system:
            assert set(manager.site_identifier_list) == inside
            assert manager.operating_system_type is OperatingSystemType.FOREIGN
            assert not manager.routing_server
        elif inside:
            assert manager.routing_server
            assert not manager.directory_server
            assert len(manager.site_identifier_list) == 2
    assert sum(elements.make_machine(plan, number).manager.foreign_system for number in range(200)) > 10
    for first, second in plan.list_links():
        assert not plan.is_foreign(first)
        assert not plan.is_foreign(second) or first == plan.home_of(second)


def test_some_accounts_are_of_a_domain_that_is_no_more():
    old, own = (str(sid) + "-" for sid in (PLAN.old_domain_sid, PLAN.domain_sid))
    sids = [obj.security_identifier for obj in OBJECTS if obj.element_name == "User"]
    owners = {
        str(SecurityDescriptor.from_bytes(obj.security).owner)
        for obj in OBJECTS
        if obj.element_name == "Queue"
    }
    for some in (sids, owners):
        assert {sid.startswith(old) for sid in some} == {True, False}
        assert all(sid.startswith((old, own)) for sid in some)


def test_msmq_10_writes_computers_in_upper_case():
    rows = list(SampleRows(PLAN).make_queues())
    for row in rows:
        computer = row["PROPID_Q_PATHNAME"].partition("\\")[0]
        assert computer in {computer.upper(), computer.lower()}
    upper = [row for row in rows if row["PROPID_Q_PATHNAME"].partition("\\")[0].isupper()]
    assert 0 < len(upper) < len(rows)


def test_there_is_variety():
    queues = [obj for obj in OBJECTS if obj.element_name == "Queue"]
    assert any(len(PathName.parse(queue.pathname).queue) > 63 for queue in queues)
    assert any(queue.multicast_address for queue in queues)
    assert any(not queue.label.isascii() for queue in queues)
    assert any(2**31 <= queue.quota < 2**32 - 1 for queue in queues)
    assert {queue.privacy_level for queue in queues} == {0, 1, 2}
    assert {-32_768, 32_767} <= {queue.base_priority for queue in queues}
    assert {queue.transactional for queue in queues} == {True, False}


def test_security_descriptors_have_an_owner_and_a_list():
    secured = [obj.security for obj in OBJECTS if obj.element_name not in {"RoutingLink", "User"}]
    for image in set(secured):
        found = SecurityDescriptor.from_bytes(image)
        assert found.owner is not None
        assert found.dacl_form is AclForm.ENTRIES


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.6")
def test_certificates_parse_are_in_date_and_have_their_digests():
    users = [obj for obj in OBJECTS if obj.element_name == "User"]
    digests = [digest for user in users for digest in user.certificate_digest_list]
    assert len(set(digests)) == len(digests) > 20
    for user in users:
        stored = UserSignCerts.from_bytes(user.certificates).certificates if user.certificates else ()
        assert tuple(one.digest for one in stored) == user.certificate_digest_list
        for one in stored:
            assert one.digest_matches
            assert one.load_certificate().not_valid_before_utc < datetime(2021, 1, 1, tzinfo=UTC)
            assert one.load_certificate().not_valid_after_utc > datetime(2090, 1, 1, tzinfo=UTC)


def test_machines_have_keys_of_the_right_size():
    manager = elements.make_machine(PLAN, 9).manager
    keys = PublicKeys.from_bytes(manager.public_encryption_key_list).keys
    assert [key.rsa().key_size for key in keys] == [512, 1024]


def test_queues_are_spread_over_the_machines():
    counts = [PLAN.count_queues_before(m + 1) - PLAN.count_queues_before(m) for m in range(PLAN.machines)]
    assert sum(counts) == PLAN.queues
    assert min(counts) == 0
    assert max(counts) > 2 * PLAN.queues / PLAN.machines


def test_a_name_returns_only_with_a_number():
    plan = EnterprisePlan(sites=1, machines=1, queues=5000, users=0, seed=2)
    names = {queue.pathname for queue in Queues(plan, 0)}
    assert len(names) == 5000


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sites": 0}, "at least one site"),
        ({"queues": -1}, "no number is negative"),
        ({"sites": 70}, "60 machines are too few for 70 sites"),
        ({"machines": MACHINES_MAX + 1}, "too many"),
        ({"root": "O=example"}, "must be like DC=example,DC=com"),
        ({"root": "nonsense"}, "is no root of a directory"),
    ],
)
def test_numbers_that_cannot_be(changes, words):
    with pytest.raises(ConfigError, match=words):
        EnterprisePlan(**({"sites": 8, "machines": 60, "queues": 1, "users": 1, "seed": 1} | changes))


def test_dice_give_the_same_for_ever():
    rng = SeededRandom(7, "x", 1)
    drawn = [rng.draw_below(1000) for _ in range(100)]
    again = SeededRandom(7, "x", 1)
    assert drawn == [again.draw_below(1000) for _ in range(100)]
    assert drawn[:6] == [899, 229, 251, 734, 425, 718]
    assert compute_guid(7, "x") == UUID("7d4eb644-5cc2-4367-9c40-855d02288e6b")
    assert compute_octets(4, 7, "x").hex() == "4a670120"


def test_dice_are_fair():
    rng = SeededRandom("fair")
    counts = [0] * 6
    for _ in range(6000):
        counts[rng.draw_below(6)] += 1
    assert all(850 < count < 1150 for count in counts)
    assert {rng.draw_between(3, 5) for _ in range(100)} == {3, 4, 5}
