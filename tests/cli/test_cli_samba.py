"""The command line on a domain controller: what is said of GUIDs that it does not keep (decision M37)."""

from dataclasses import replace
from typing import Any

import pytest
from support.servers.ad_world import Domain
from support.servers.samba_tools import SambaTools

from mqdssm.events.facade import Directory
from mqdssm.testing import SambaDomainController

OLD = "7f1e5d0a-6c1b-4c58-9a53-{:012x}"


@pytest.fixture
def domain(samba_server: SambaDomainController, samba_directory: Directory) -> Domain:
    return Domain(samba_directory, samba_server, SambaTools(samba_server))


@pytest.fixture
def cli(alone: Any, samba_server: SambaDomainController) -> Any:
    return replace(
        alone,
        environment={
            "MQDSSM_URL": samba_server.ldaps_url,
            "MQDSSM_USER": samba_server.user,
            "MQDSSM_PASSWORD": samba_server.password,
            "MQDSSM_CA_FILE": samba_server.ca_file,
        },
    )


def test_a_queue_remembers_the_guid_that_it_had(cli: Any, domain: Domain) -> None:
    computer, _ = domain.queue_manager()
    old = OLD.format(1)
    made = cli("create", "queue", rf"Pathname={computer}\q", f"Identifier={old}")
    new = made.stdout.split()[-1]
    assert new != old
    assert made.stderr == (
        f"warning: the server made the Identifier {new}; it remembers {old}, which finds it as well\n"
    )
    read = cli("read", "queue", f"Identifier={old}")
    assert read.stderr == ""
    lines = [line.split() for line in read.stdout.splitlines()]
    assert lines.index(["OriginalIdentifier", old]) == lines.index(["Identifier", new]) + 1
    shown = cli.json("read", "queue", f"Identifier={new}", "-a", "Identifier,Label")
    assert shown == {"Identifier": new, "Label": "", "OriginalIdentifier": old}
    named = ("list", "queue", "-f", rf"Pathname=={computer}\q")
    (one,) = cli.json(*named, "-a", "Identifier")
    assert one == {"Identifier": new, "OriginalIdentifier": old}
    table = cli(*named, "-a", "Label,Identifier").stdout.splitlines()
    assert table[0].split() == ["Label", "Identifier", "OriginalIdentifier"]
    assert table[1].split() == [new, old]
    assert "OriginalIdentifier" not in cli(*named, "-a", "Label").stdout


def test_nothing_is_said_where_there_is_nothing(cli: Any, domain: Domain) -> None:
    computer, _ = domain.queue_manager()
    made = cli("create", "queue", rf"Pathname={computer}\q")
    assert made.stderr == ""
    new = made.stdout.split()[-1]
    assert "OriginalIdentifier" not in cli("read", "queue", f"Identifier={new}").stdout
    assert cli.json("read", "queue", f"Identifier={new}", "-a", "Identifier") == {"Identifier": new}


def test_a_site_does_not_remember_it(cli: Any, domain: Domain) -> None:
    old = OLD.format(2)
    made = cli("create", "site", f"Name={domain.name('S')}", f"Identifier={old}")
    (said,) = made.stderr.splitlines()
    assert said.startswith("warning: CN=")
    assert f"nothing will find it by {old}, so refer to it by its new one" in said
    cli.error("read", "site", f"Identifier={old}", code=4)


def test_a_queue_manager_that_exists_has_its_own(cli: Any, domain: Domain) -> None:
    site = domain.site()
    computer, guid = domain.queue_manager(site_identifier_list=[site])
    given = (f"ComputerName={computer}", f"SiteIdentifierList={site}", f"Identifier={OLD.format(3)}")
    made = cli("create", "queue-manager", *given)
    assert made.stdout == f"created queue-manager {guid}\n"
    assert made.stderr == (
        f"warning: the queue manager existed already, with the Identifier {guid}, not {OLD.format(3)}\n"
    )


def test_a_profile_of_another_server_is_refused(cli: Any) -> None:
    said = cli.error("list", "queue", "--profile", "openldap", code=2)
    assert "the server is Active Directory: leave it out, or use 'activedirectory'" in said


def test_a_guid_that_another_object_has(cli: Any, domain: Domain) -> None:
    computer, _ = domain.queue_manager()
    old = OLD.format(4)
    cli("create", "queue", rf"Pathname={computer}\q", f"Identifier={old}")
    said = cli.error("create", "queue", rf"Pathname={computer}\r", f"Identifier={old}", code=5)
    assert f"another object has, or had, the GUID {old}" in said
    null = "Identifier=00000000-0000-0000-0000-000000000000"
    assert "null GUID" in cli.error("create", "queue", rf"Pathname={computer}\r", null, code=2)
