"""Objects that our own tools make pass our own validation."""

from pathlib import Path

from support.enterprises import rules_world
from support.enterprises.planted import add_file, plan, read_tables

import mqdssm
from mqdssm.samples.entries import OBJECTS
from mqdssm.samples.forms import LoadingMode, SampleForm
from mqdssm.samples.generate import generate
from mqdssm.testing.openldap import OpenLdapServer


def findings(server: OpenLdapServer, folder: Path) -> list[tuple[str, str, str | None, str]]:
    """Validate all that a server holds."""
    return rules_world.found(rules_world.source(folder, read_tables(server)))


def test_the_walk_through_of_the_readme_in_a_new_sandbox(tmp_path: Path) -> None:
    with OpenLdapServer(durable=False) as server:
        assert findings(server, tmp_path) == []
        server.add_computer("web01")
        with mqdssm.connect(
            server.url, user=server.user, password=server.password, ca_file=server.ca_file
        ) as made:
            assert made.session.bound_sid() is None
            site = made.create(mqdssm.Site(name="Berlin"))
            manager = mqdssm.QueueManager(computer_name="web01", site_identifier_list=[site])
            made.create(manager)
            made.create(mqdssm.Queue(pathname="web01\\orders", label="Orders"))
            other = made.create(mqdssm.Site(name="Hamburg"))
            made.create(mqdssm.RoutingLink(site1_identifier=site, site2_identifier=other, actual_cost=1))
        assert findings(server, tmp_path) == []


def test_a_generated_enterprise_in_a_new_sandbox(tmp_path: Path) -> None:
    """As docs/samples.md says: the objects alone, on a server that has the base tree."""
    generate(plan(seed=5), tmp_path / "made", SampleForm.LDIF, loader=LoadingMode.LDAPADD)
    with OpenLdapServer(durable=False) as server:
        add_file(server, tmp_path / "made" / OBJECTS)
        assert findings(server, tmp_path) == []
