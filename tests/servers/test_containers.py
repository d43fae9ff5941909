"""The container image and OpenLdapContainer, with a real engine (`make test-containers`).

Under `make test` these run where an engine answers already, else they are skipped with the reason.
"""

import json
import os
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from support.project.wheels import build_wheel, run_unpacked, unpacked
from support.servers.container_engine import engine, read_log

import mqdssm
from mqdssm.errors import ConfigError, ObjectAlreadyExists
from mqdssm.testing import OpenLdapContainer, accounts, containers
from mqdssm.testing import engine as engine_part
from mqdssm.testing.openldap_config import OpenLdapOptions

__all__ = ["engine"]

PROJECT = Path(__file__).parents[2]
WAIT_S = 60
BUILD_S = 600
TEST_OF_A_USER = """
import mqdssm

def test_container(openldap_container):
    openldap_container.add_computer("shop1")
    url, ca_file = openldap_container.url, openldap_container.ca_file
    user, password = openldap_container.user, openldap_container.password
    with mqdssm.connect(url, user=user, password=password, ca_file=ca_file) as directory:
        assert list(directory.search(mqdssm.Queue)) == []
"""


@pytest.fixture(scope="session")
def server(engine, request):
    """The plugin's own fixture, once it is sure that there is an engine."""
    return request.getfixturevalue("openldap_container")


def directory_on(server):
    return mqdssm.connect(server.url, user=server.user, password=server.password, ca_file=server.ca_file)


def inside(server, *command):
    status, output = server._find_engine_container().exec_run(list(command))
    assert status == 0, output
    return output.decode()


def health_check():
    """The command of the Dockerfile's HEALTHCHECK."""
    lines = containers.build_context()["Dockerfile"].decode().splitlines()
    command = next(line.split("CMD", 1)[1] for line in lines if line.strip().startswith("CMD"))
    return json.loads(command)


@pytest.mark.container
@pytest.mark.xdist_group("containers")
class TestOpenLdapContainer:
    def test_events_work_on_it(self, server):
        server.add_computer("web01")
        with directory_on(server) as directory:
            site = directory.create(mqdssm.Site(name="Berlin"))
            directory.create(mqdssm.QueueManager(computer_name="web01", site_identifier_list=[site]))
            guid = directory.create(mqdssm.Queue(pathname=r"web01\orders", label="Orders"))
            found = directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
        assert isinstance(guid, uuid.UUID)
        assert found.label == "Orders"

    def test_both_ways_of_tls_are_verified(self, server):
        for url in (server.url, server.ldaps_url):
            start_tls = ["-ZZ"] if url == server.url else []
            ran = subprocess.run(
                ["ldapwhoami", "-x", *start_tls, "-H", url, "-D", server.user, "-w", server.password],
                env={"LDAPTLS_CACERT": server.ca_file, "PATH": os.environ["PATH"]},
                capture_output=True,
                text=True,
                check=False,
                timeout=30,
            )
            assert ran.stdout == f"dn:{server.user}\n", ran.stderr

    def test_its_ports_are_on_loopback(self, server):
        published = server._find_engine_container().attrs["NetworkSettings"]["Ports"]
        bound = {one["HostIp"] for bindings in published.values() for one in bindings or ()}
        if server.host == "127.0.0.1":  # else the engine is elsewhere
            assert bound == {"127.0.0.1"}

    def test_another_authority_is_not_trusted(self, server, tmp_path):
        containers_ca = Path(server.ca_file).read_bytes()
        from mqdssm.testing.certificates import make_certificates

        make_certificates(tmp_path)
        assert (tmp_path / "ca.pem").read_bytes() != containers_ca
        connection = containers.connect_over_tls(
            server.ldaps_url, server.user, server.password, str(tmp_path / "ca.pem")
        )
        with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"), accounts.bind(connection):
            pass

    def test_users_log_in(self, server):
        dn, password = server.add_user("alice")
        connection = containers.connect_over_tls(server.ldaps_url, dn, password, server.ca_file)
        with accounts.bind(connection) as bound:
            assert bound.extend.standard.who_am_i().lower() == f"dn:{dn}".lower()

    def test_slapd_is_process_one_without_rights_and_with_few_descriptors(self, server):
        assert inside(server, "cat", "/proc/1/comm") == "slapd\n"
        status = inside(server, "cat", "/proc/1/status")
        uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
        assert "0" not in uids
        limits = inside(server, "cat", "/proc/1/limits")
        assert (
            next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3]
            == "4096"
        )

    def test_root_in_the_container_is_the_administrator(self, server):
        url = "ldapi://%2Fvar%2Flib%2Fopenldap-msmq%2Frun%2Fldapi"
        assert inside(server, "ldapwhoami", "-Q", "-Y", "EXTERNAL", "-H", url) == f"dn:{server.user}\n"

    def test_the_socket_is_not_for_those_outside(self, server):
        with pytest.raises(ConfigError, match="inside the container"):
            _ = server.ldapi_url

    def test_kill_and_stop_keep_data_and_ports(self, engine):
        with OpenLdapContainer(options=OpenLdapOptions(base_dn="dc=corp,dc=net")) as server:
            before = (server.url, server.ldaps_url, server.password)
            server.add_computer("web01")
            server.kill()
            server.start()
            with pytest.raises(ObjectAlreadyExists):
                server.add_computer("web01")
            begin = time.monotonic()
            server.stop()
            assert time.monotonic() - begin < engine_part.STOP_WAIT_S  # it took the signal, nobody killed it
            server.start()
            assert server.add_computer("web02") == "CN=web02,CN=Computers,dc=corp,dc=net"
            assert (server.url, server.ldaps_url, server.password) == before
            assert "slapd stopped" in server.log

    def test_nothing_is_left_behind(self, engine):
        def there():
            made = {c.id for c in engine.containers.list(all=True, sparse=True)}
            return made, {volume.name for volume in engine.volumes.list()}

        before = there()
        with OpenLdapContainer() as server:
            files = Path(server.ca_file).parent
            assert there() != before
        assert there() == before
        assert not files.exists()

    def test_a_setting_that_cannot_be(self, engine):
        with pytest.raises(ConfigError, match="MSMQ_LDAP_SUFFIX must be like"):
            OpenLdapContainer(options=OpenLdapOptions(base_dn="o=example")).start()

    def test_an_image_that_does_not_exist(self, engine):
        with pytest.raises(ConfigError):
            OpenLdapContainer(image="localhost/mqdssm/nowhere:1").start()


@pytest.mark.container
@pytest.mark.xdist_group("containers")
class TestImage:
    def test_the_dockerfile_builds_in_the_project_and_becomes_healthy(self, engine):
        image, _ = engine.images.build(
            path=str(PROJECT),
            dockerfile="docker/openldap-msmq/Dockerfile",
            tag="mqdssm/openldap-msmq:test",
            rm=True,
        )
        assert image.attrs["Config"]["ExposedPorts"].keys() == {"389/tcp", "636/tcp"}
        container = engine.containers.run(image.id, detach=True)
        try:
            command = health_check()  # podman shows it nowhere, so it is run here
            deadline = time.monotonic() + WAIT_S
            while container.exec_run(command)[0]:
                assert time.monotonic() < deadline, read_log(container)
                time.sleep(0.2)
            listing = container.exec_run(["ls", "/usr/local/share/openldap-msmq"])[1].decode().split()
            assert listing == ["base-tree.ldif", "mqis.schema", "msmq.schema"]
        finally:
            container.remove(force=True, v=True)

    def test_the_fixture_starts_from_an_installed_wheel(self, engine, tmp_path):
        installed = unpacked(build_wheel(tmp_path), tmp_path / "installed")
        (installed / "test_container.py").write_text(TEST_OF_A_USER)
        code = "import pytest\nraise SystemExit(pytest.main(['-q', '-rs', 'test_container.py']))"
        status, output, problem = run_unpacked(installed, code, seconds=BUILD_S)
        assert (status, "1 passed" in output) == (0, True), output + problem

    def test_it_is_built_once(self, engine):
        begin = time.monotonic()
        assert containers.ensure_image() == containers.ensure_image()
        assert time.monotonic() - begin < 10


class TestWithoutAnEngine:
    @pytest.fixture(autouse=True)
    def _no_engine(self, monkeypatch):
        monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")

    def test_the_reason_names_the_address(self):
        assert "no container engine answers at unix:///nonexistent/docker.sock" in containers.why_no_engine()

    def test_starting_says_it_and_leaves_nothing(self):
        container = OpenLdapContainer()
        with pytest.raises(ConfigError, match="no container engine answers"):
            container.start()
        for use in (container.stop, container.kill, lambda: container.log):
            with pytest.raises(ConfigError, match="not running"):
                use()
        with pytest.raises(ConfigError, match="not been started"):
            _ = container.ca_file
        container.close()

    def test_building_says_it(self):
        with pytest.raises(ConfigError, match="no container engine answers"):
            containers.ensure_image()

    def test_without_the_extra_the_message_names_it(self, monkeypatch):
        def gone(name):
            raise ImportError(name)

        monkeypatch.setattr(engine_part, "import_module", gone)
        assert containers.why_no_engine() == (
            "this needs the Python package testcontainers: pip install 'mqdssm[testing]'"
        )


class TestContext:
    def test_it_holds_what_the_dockerfile_copies(self):
        context = containers.build_context()
        dockerfile = context["Dockerfile"].decode()
        copied = [
            name
            for line in dockerfile.splitlines()
            if line.startswith("COPY ")
            for name in line.split()[1:-1]
        ]
        assert sorted([*copied, "Dockerfile"]) == sorted(context)
        assert all((PROJECT / name).is_file() for name in copied)

    def test_the_project_ignores_all_but_that(self):
        kept = {
            line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")
        }
        assert kept >= set(containers.build_context()) - {"Dockerfile"}

    def test_the_schema_in_the_project_is_current(self):
        context = containers.build_context()
        assert (PROJECT / "ldif/msmq.schema").read_bytes() == context["ldif/msmq.schema"]

    def test_names_for_the_certificate(self):
        assert engine_part._format_alternative_name("10.0.0.5") == "IP:10.0.0.5"
        assert engine_part._format_alternative_name("build.example.com") == "DNS:build.example.com"

    def test_the_health_check_is_written_as_a_list(self):
        assert health_check()[0] == "ldapsearch"
