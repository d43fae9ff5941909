"""Pytest fixtures for programs that use mqdssm.

The entry point registers them; nothing has to be imported.

* ``openldap_server``: one `mqdssm.testing.OpenLdapServer` for the whole run (each xdist worker its own).
* ``openldap_directory``: for each test an `mqdssm` directory connected to it as its administrator. At the
  end of the test all changes on the server since its start are undone.
* ``openldap_container``: the same server in a container, where a container engine answers.
* ``samba_server``, ``samba_directory``, ``samba_container``: these with an Active Directory domain
  controller, `mqdssm.testing.SambaDomainController`.

Otherwise all tests share the servers, so each test needs unique names for its objects. pytest loads this
module in every run, so it imports only what it needs. A test run without these fixtures starts no server.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqdssm.events.facade import Directory
    from mqdssm.testing.containers import OpenLdapContainer
    from mqdssm.testing.openldap import OpenLdapServer
    from mqdssm.testing.samba import SambaDomainController
    from mqdssm.testing.samba_container import SambaContainer


@pytest.fixture(scope="session")
def openldap_server() -> "Iterator[OpenLdapServer]":
    """A private OpenLDAP with MSMQ schema and base tree for the whole run.

    Nothing is synced to disk.
    """
    from mqdssm.testing.openldap import OpenLdapServer

    with OpenLdapServer(durable=False) as server:
        yield server


@pytest.fixture
def openldap_directory(openldap_server: "OpenLdapServer") -> "Iterator[Directory]":
    """An open directory on ``openldap_server``, as its administrator.

    Changes are undone after the test.
    """
    import mqdssm
    from mqdssm.testing.openldap_snapshot import undo_changes

    with (
        undo_changes(openldap_server),
        mqdssm.connect(
            openldap_server.url,
            user=openldap_server.user,
            password=openldap_server.password,
            ca_file=openldap_server.ca_file,
        ) as directory,
    ):
        yield directory


@pytest.fixture(scope="session")
def openldap_container() -> "Iterator[OpenLdapContainer]":
    """The server in a container; without a container engine the test is skipped."""
    from mqdssm.testing.containers import OpenLdapContainer, why_no_engine

    reason = why_no_engine()
    if reason:
        pytest.skip(reason)
    with OpenLdapContainer() as container:
        yield container


@pytest.fixture(scope="session")
def samba_server() -> "Iterator[SambaDomainController]":
    """A private Active Directory domain controller; needs Samba and root."""
    from mqdssm.testing.samba import SambaDomainController

    with SambaDomainController() as server:
        yield server


@pytest.fixture
def samba_directory(samba_server: "SambaDomainController") -> "Iterator[Directory]":
    """An open directory on ``samba_server``, as its administrator.

    Nothing is undone after the test.
    """
    import mqdssm

    with mqdssm.connect(
        samba_server.ldaps_url,
        user=samba_server.user,
        password=samba_server.password,
        ca_file=samba_server.ca_file,
    ) as directory:
        yield directory


@pytest.fixture(scope="session")
def samba_container() -> "Iterator[SambaContainer]":
    """The domain controller in a container; without an engine the test is skipped."""
    from mqdssm.testing.containers import why_no_engine
    from mqdssm.testing.samba_container import SambaContainer

    reason = why_no_engine()
    if reason:
        pytest.skip(reason)
    with SambaContainer() as container:
        yield container
