"""Sample enterprises of any size go into a real slapd and come back as the objects that they were made of."""

import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mqdssm
from mqdssm.model.queuenames import lower_each
from mqdssm.samples import elements
from mqdssm.samples.entries import BASE_TREE, OBJECTS
from mqdssm.samples.forms import LoadingMode, SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.samples.queues import Queues
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = pytest.mark.server

PLANS = st.integers(1, 9).flatmap(
    lambda sites: st.builds(
        EnterprisePlan,
        sites=st.just(sites),
        machines=st.integers(sites, 30),
        queues=st.integers(0, 120),
        users=st.integers(0, 8),
        seed=st.integers(0, 2**64),
    )
)
LOADED_AT_THE_TIME = {"ModifyTime"}  # which slapd alone may write, but for slapadd
NOT_KEPT = {"Name"}  # of the enterprise: it is the DN of the root, as the server spells it


@pytest.fixture(scope="module")
def server():
    with OpenLdapServer(durable=False) as made:
        yield made


def made_of(plan):
    yield elements.make_enterprise(plan)
    yield from (elements.make_site(plan, number) for number in range(plan.sites))
    yield from (elements.make_link(plan, *ends) for ends in plan.list_links())
    yield from (elements.make_machine(plan, number).manager for number in range(plan.machines))
    yield from (queue for number in range(plan.machines) for queue in Queues(plan, number))
    yield from (elements.make_user(plan, number) for number in range(plan.users))


def compare(directory, plan, *, skip):
    wanted = {obj.identifier: obj for obj in made_of(plan)}
    kinds = (
        *(mqdssm.Enterprise, mqdssm.Site, mqdssm.RoutingLink),
        *(mqdssm.QueueManager, mqdssm.Queue, mqdssm.User),
    )
    found = {obj.identifier: obj for kind in kinds for obj in directory.search(kind)}
    assert found.keys() == wanted.keys()
    for identifier, obj in wanted.items():
        other = found[identifier]
        kept = obj.populated - skip - (NOT_KEPT if obj.element_name == "Enterprise" else set())
        for name in kept:
            field = obj.field_name(name)
            ours, theirs = getattr(obj, field), getattr(other, field)
            if isinstance(ours, tuple):  # LDAP keeps sets
                ours, theirs = sorted(ours), sorted(theirs)
            assert theirs == ours, (obj.element_name, identifier, name)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.2")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=PLANS)
def test_what_slapadd_loads_reads_back_equal(server, tmp_path_factory, plan):
    folder = tmp_path_factory.mktemp("sample")
    generate(plan, folder, SampleForm.LDIF, loader=LoadingMode.SLAPADD)
    server.load(folder / BASE_TREE, folder / OBJECTS)
    with mqdssm.connect(server.ldapi_url) as directory:
        compare(directory, plan, skip=set())


def ldapadd(server, file):
    program = shutil.which("ldapadd")
    assert program is not None
    command = [program, "-Q", "-Y", "EXTERNAL", "-H", server.ldapi_url, "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.parametrize("faults", [False, True])
def test_what_ldapadd_takes_reads_back_equal(tmp_path, faults):
    plan = EnterprisePlan(sites=3, machines=20, queues=150, users=5, seed=11)
    generate(plan, tmp_path / "x", SampleForm.LDIF, faults=faults)
    with OpenLdapServer(durable=False) as server:
        (tmp_path / "nothing.ldif").write_text("")
        server.load(tmp_path / "nothing.ldif")  # a database without a root, unique GUIDs watched over
        ldapadd(server, tmp_path / "x" / BASE_TREE)
        ldapadd(server, tmp_path / "x" / OBJECTS)
        if not faults:
            with mqdssm.connect(server.ldapi_url) as directory:
                compare(directory, plan, skip=LOADED_AT_THE_TIME)


@pytest.mark.parametrize("seed", range(4))
def test_slapadd_takes_every_defect(server, tmp_path, seed):
    plan = EnterprisePlan(sites=2, machines=8, queues=20, users=2, seed=seed)
    written = generate(plan, tmp_path / "x", SampleForm.LDIF, loader=LoadingMode.SLAPADD, faults=True)
    server.load(tmp_path / "x" / BASE_TREE, tmp_path / "x" / OBJECTS)
    with mqdssm.connect(server.ldapi_url) as directory:
        queues = list(directory.search(mqdssm.Queue))
        assert len(queues) == written.objects["queue"]
        assert len(list(directory.search(mqdssm.QueueManager))) == written.objects["queue-manager"]


def test_a_file_that_slapadd_refuses_is_told(server, tmp_path):
    (tmp_path / "bad.ldif").write_text("dn: DC=example,DC=com\nobjectClass: noSuchClass\ndc: example\n")
    with pytest.raises(mqdssm.errors.ConfigError, match=r"slapadd does not take .*noSuchClass"):
        server.load(tmp_path / "bad.ldif")


def test_path_names_are_as_they_are_read():
    plan = EnterprisePlan(sites=2, machines=10, queues=50, users=0, seed=1)
    for number in range(10):
        for queue in Queues(plan, number):
            assert queue.pathname == lower_each(queue.pathname)
