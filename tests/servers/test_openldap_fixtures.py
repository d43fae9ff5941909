"""The fixtures for OpenLDAP that mqdssm brings to everybody's tests."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import pytest
import mqdssm

@pytest.fixture(scope="module")
def shared(openldap_server):
    openldap_server.add_computer("wide")
    with mqdssm.connect(openldap_server.ldapi_url) as directory:
        site = directory.create(mqdssm.Site(name="Wide"))
        directory.create(mqdssm.QueueManager(computer_name="wide", site_identifier_list=[site]))
        directory.create(mqdssm.Queue(pathname=r"wide\\kept", label="as it was"))

@pytest.mark.parametrize("again", range(3))
def test_an_empty_directory(openldap_server, openldap_directory, again):
    assert list(openldap_directory.search(mqdssm.Queue)) == []
    assert list(openldap_directory.search(mqdssm.Site)) == []
    enterprise, = openldap_directory.search(mqdssm.Enterprise)
    assert enterprise.default_time_to_live == 345600
    openldap_server.add_computer("shop1")
    site = openldap_directory.create(mqdssm.Site(name="Berlin"))
    openldap_directory.create(mqdssm.QueueManager(computer_name="shop1", site_identifier_list=[site]))
    openldap_directory.create(mqdssm.Queue(pathname=r"shop1\\orders"))
    enterprise.default_time_to_live = 60
    openldap_directory.write(enterprise)

@pytest.mark.parametrize("again", range(3))
def test_what_a_wider_fixture_made(shared, openldap_server, openldap_directory, again):
    queue, = openldap_directory.search(mqdssm.Queue)
    assert (queue.pathname.lower(), queue.label) == (r"wide\\kept", "as it was")
    with mqdssm.connect(openldap_server.ldapi_url) as other:
        queue.label = "changed"
        other.write(queue)
        if again:
            other.delete(queue)

def test_a_failure(openldap_server, openldap_directory):
    openldap_server.add_computer("shop2")
    raise AssertionError("on purpose")

def test_after_the_failure(openldap_server, openldap_directory):
    openldap_server.add_computer("shop2")
"""


def test_each_test_finds_the_directory_as_the_first_one(tmp_path: Path) -> None:
    (tmp_path / "test_these.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False, cwd=tmp_path)
    assert "1 failed, 7 passed" in done.stdout
    assert "AssertionError: on purpose" in done.stdout
