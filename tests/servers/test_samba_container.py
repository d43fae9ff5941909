"""The domain controller in a container, built and run by a real engine."""

import subprocess
import sys

import pytest

from mqdssm.errors import DirectoryNotConnected
from mqdssm.testing import SambaContainer
from mqdssm.testing.accounts import connect_over_tls
from mqdssm.testing.samba_container import build_context

pytestmark = [pytest.mark.container, pytest.mark.timeout(600)]


def test_accounts_log_in_over_verified_tls(samba_container: SambaContainer) -> None:
    computer = samba_container.add_computer("INBOX")
    user, password = samba_container.add_user("inbox-joe")
    for name, secret in ((user, password), ("INBOX$@contoso.test", samba_container.reset_password(computer))):
        with connect_over_tls(samba_container.ldaps_url, name, secret, samba_container.ca_file) as connection:
            connection.search(samba_container.base_dn, "(sAMAccountName=INBOX$)", attributes=["cn"])
            found = [one["dn"] for one in connection.response if one["type"] == "searchResEntry"]
            assert found == [computer]


def test_the_global_catalog_is_there(samba_container: SambaContainer) -> None:
    with connect_over_tls(
        samba_container.gc_ldaps_url, samba_container.user, samba_container.password, samba_container.ca_file
    ) as connection:
        connection.search("", "(sAMAccountName=Administrator)", attributes=["cn"])
        assert [one["dn"] for one in connection.response] == [samba_container.user_dn]


def test_stop_kill_and_start_keep_the_domain(samba_container: SambaContainer) -> None:
    computer = samba_container.add_computer("OUTLASTS")
    password = samba_container.password
    for end in (samba_container.stop, samba_container.kill):
        end()
        with pytest.raises(DirectoryNotConnected):
            samba_container.add_computer("LOST")
        samba_container.start()
        with connect_over_tls(
            samba_container.ldaps_url, samba_container.user, password, samba_container.ca_file
        ) as connection:
            assert connection.search(computer, "(objectClass=*)", attributes=["cn"])


def test_two_containers_have_passwords_of_their_own(samba_container: SambaContainer) -> None:
    with SambaContainer() as other:
        assert other.password != samba_container.password
        assert other.url != samba_container.url
        assert "samba version" in other.log


def test_the_image_holds_nothing_of_this_machine() -> None:
    assert sorted(build_context()) == [
        "Dockerfile",
        "mqdssm/testing/data/certificates.sh",
        "mqdssm/testing/data/samba-dc.sh",
    ]


def test_a_process_that_ends_leaves_no_container(samba_container: SambaContainer) -> None:
    program = (
        "from mqdssm.testing import SambaContainer\n"
        "with SambaContainer() as server:\n"
        "    print(server._container.get_wrapped_container().id)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    import docker

    client = docker.from_env()
    try:
        assert done.stdout.strip() not in {one.id for one in client.containers.list(all=True, sparse=True)}
    finally:
        client.close()
