"""The parts of the embedded OpenLDAP by themselves: supervisor, start script, certificates, plugin."""

import os
import re
import signal
import ssl
import subprocess
import sys
import textwrap
import time
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography import x509

from mqdssm.testing import certificates, supervisor
from mqdssm.testing.openldap_config import START_SCRIPT
from mqdssm.testing.openldap_start import free_ports, is_answering

PROJECT = Path(__file__).parents[2]
WAIT_S = 20


class TestSupervisor:
    @pytest.fixture
    def supervise(self):
        made = []

        def make(command, **options):
            one = supervisor.Supervisor(
                ["sh", "-c", command], **{"restart": False, "log_file": None, **options}
            )
            made.append(one)
            one.start()
            return one

        yield make
        for one in made:
            one.stop(signal.SIGKILL)

    def until(self, one, condition):
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, one.answer()
            one.pump(0.02)

    def test_the_log_is_bounded(self, supervise):
        one = supervise("yes 0123456789 | head -c 1000000; echo the end")
        self.until(one, lambda: not one.running)
        kept = bytes(one._log)
        assert len(kept) == supervisor.LOG_BYTES_MAX
        assert kept.endswith(b"the end\n")

    def test_exit_status_and_log(self, supervise):
        one = supervise("echo sorry >&2; exit 3")
        self.until(one, lambda: not one.running)
        assert one.answer() == b'{"pid": null, "exit": 3, "log": "sorry\\n"}\n'

    def test_what_ends_again_and_again_stays_down(self, supervise, monkeypatch):
        monkeypatch.setattr(supervisor, "RESTART_PAUSE_S", 0.001)
        one = supervise("kill -SEGV $$", restart=True)
        self.until(one, lambda: not one.running)
        assert one._log.count(b"started again") == supervisor.RESTARTS_MAX
        assert b"ended 11 times within 60 s, it stays down" in one._log

    def test_an_ordinary_end_is_no_crash(self, supervise):
        one = supervise("exit 1", restart=True)
        self.until(one, lambda: not one.running)
        assert b"started again" not in one._log

    def test_what_does_not_listen_is_killed(self, supervise, monkeypatch):
        monkeypatch.setattr(supervisor, "STOP_WAIT_S", 0.2)
        one = supervise("trap '' TERM; echo ready; while :; do sleep 0.05; done")
        self.until(one, lambda: b"ready" in one._log)
        one.stop()
        assert not one.running

    def test_a_command_that_closes_its_output_is_still_watched(self, supervise):
        one = supervise("exec >&- 2>&-; sleep 0.2; exit 7")
        self.until(one, lambda: not one.running)
        assert one._exit == 7

    def test_the_log_file_is_written_once_per_change(self, supervise, tmp_path):
        one = supervise("echo words", log_file=tmp_path / "log")
        self.until(one, lambda: not one.running)
        one.write_log()
        assert (tmp_path / "log").read_text() == "words\n"
        (tmp_path / "log").unlink()
        one.write_log()
        assert not (tmp_path / "log").exists()

    def test_a_second_one_with_the_same_pid_file_refuses(self, tmp_path):
        command = [sys.executable, "-I", "-S", supervisor.__file__, f"--pid-file={tmp_path / 'pid'}"]
        with subprocess.Popen([*command, "--", "sleep", "60"], start_new_session=True) as first:
            deadline = time.monotonic() + WAIT_S
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            second = subprocess.run(
                [*command, "--", "sleep", "60"], capture_output=True, text=True, check=False, timeout=WAIT_S
            )
            first.terminate()
        assert second.returncode == supervisor.EXIT_FOLDER_IN_USE
        assert "held by another supervisor" in second.stderr
        assert first.returncode == 0


class TestStartScript:
    """As the container runs it, with the schema files that are kept in ``ldif/``."""

    def environment(self, folder, **more):
        port, ldaps_port = free_ports(2)
        return {
            "PATH": os.environ["PATH"],
            "MSMQ_LDAP_DIR": str(folder),
            "MSMQ_LDAP_SHARE": str(PROJECT / "ldif"),
            "MSMQ_LDAP_PORT": str(port),
            "MSMQ_LDAPS_PORT": str(ldaps_port),
            **more,
        }

    @pytest.mark.parametrize(("address", "in_clear"), [("127.0.0.1", 0), ("0.0.0.0", 13)])
    def test_passwords_are_taken_over_tls_alone_but_on_loopback(self, tmp_path, address, in_clear):
        folder = tmp_path / "state"
        environment = self.environment(folder, MSMQ_LDAP_ADDRESS=address)
        plain = f"ldap://127.0.0.1:{environment['MSMQ_LDAP_PORT']}"
        secured = f"ldaps://127.0.0.1:{environment['MSMQ_LDAPS_PORT']}"
        local = f"ldapi://{quote(str(folder / 'run' / 'ldapi'), safe='')}"
        login = ["-D", "cn=admin,dc=example,dc=com", "-y", str(folder / "password")]
        with subprocess.Popen(["sh", START_SCRIPT], env=environment, stderr=subprocess.PIPE) as process:
            try:
                deadline = time.monotonic() + WAIT_S
                while not is_answering(folder / "run" / "ldapi"):
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                codes = [
                    subprocess.run(
                        ["ldapwhoami", "-x", *more],
                        env={**environment, "LDAPTLS_CACERT": str(folder / "tls" / "ca.pem")},
                        capture_output=True,
                        check=False,
                        timeout=30,
                    ).returncode
                    for more in (
                        ["-H", plain, *login],
                        ["-H", plain, "-ZZ", *login],
                        ["-H", secured, *login],
                        ["-H", local, *login],
                        ["-H", plain],  # nobody: as the health check asks
                    )
                ]
            finally:
                process.terminate()
                process.wait(WAIT_S)
        assert codes == [in_clear, 0, 0, 0, 0]

    def test_it_makes_all_that_is_missing(self, tmp_path):
        folder = tmp_path / "state"
        environment = self.environment(folder, MSMQ_LDAP_SUFFIX="dc=corp,dc=net")
        with subprocess.Popen(["sh", START_SCRIPT], env=environment, stderr=subprocess.PIPE) as process:
            try:
                deadline = time.monotonic() + WAIT_S
                while not is_answering(folder / "run" / "ldapi"):
                    assert process.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                password = (folder / "password").read_text()
                search = [
                    "ldapsearch",
                    "-x",
                    "-LLL",
                    "-H",
                    f"ldaps://127.0.0.1:{environment['MSMQ_LDAPS_PORT']}",
                ]
                found = subprocess.run(
                    [*search, "-D", "cn=admin,dc=corp,dc=net", "-w", password, "-b", "dc=corp,dc=net", "dn"],
                    env={"LDAPTLS_CACERT": str(folder / "tls" / "ca.pem"), "PATH": os.environ["PATH"]},
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=30,
                )
            finally:
                process.terminate()
                process.stderr.read()
        assert process.returncode == 0  # the script has become slapd, which takes the signal
        assert "dn: cn=MsmqServices,cn=Services,cn=Configuration,dc=corp,dc=net" in found.stdout
        assert len(password) == 24
        assert not (folder / "tls" / "ca.key").exists()
        modes = {path.name: path.stat().st_mode & 0o077 for path in folder.rglob("*") if path.is_file()}
        assert set(modes.values()) == {0}, modes

    @pytest.mark.parametrize(
        ("setting", "value"),
        [
            ("MSMQ_LDAP_SUFFIX", "o=example"),
            ("MSMQ_LDAP_SUFFIX", "dc=a;id"),
            ("MSMQ_LDAP_SUFFIX", "dc=example,dc=com\nrootpw x"),
            ("MSMQ_LDAP_PORT", "http"),
            ("MSMQ_LDAPS_PORT", "-1"),
            ("MSMQ_LDAP_DURABLE", "maybe"),
            ("MSMQ_LDAP_REPLICATION", "maybe"),
            ("MSMQ_LDAP_OVERLAYS", "unique nonsense"),
            ("MSMQ_LDAP_SIZE_LIMIT", "many"),
            ("MSMQ_LDAP_IDLE_TIMEOUT", "1s"),
            ("MSMQ_LDAP_MAX_BYTES", "16G"),
            ("MSMQ_LDAP_SHARE", "/nonexistent"),
            ("MSMQ_LDAP_SOCKET", '/tmp/a"b'),
            ("MSMQ_LDAP_DIR", "/tmp/a\nb"),
        ],
    )
    def test_settings_that_cannot_be(self, tmp_path, setting, value):
        environment = self.environment(tmp_path / "state") | {setting: value}
        ran = subprocess.run(
            ["sh", START_SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=30
        )
        assert ran.returncode == 64, ran.stderr
        assert ran.stderr.startswith("start.sh: ")
        assert not (tmp_path / "state").exists()

    def test_missing_software(self, tmp_path):
        for name in ("grep", "sed", "cat"):
            (tmp_path / name).symlink_to(f"/usr/bin/{name}")
        script = tmp_path / "start.sh"
        (tmp_path / "certificates.sh").symlink_to(START_SCRIPT.with_name("certificates.sh"))
        # the places where servers are kept are part of the script
        script.write_text(START_SCRIPT.read_text().replace("PATH=$PATH:", "PATH=$PATH #"))
        ran = subprocess.run(
            ["/bin/sh", script],
            env=self.environment(tmp_path / "state", PATH=str(tmp_path)),
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert ran.returncode == 69
        assert "slapd is not installed" in ran.stderr

    def test_every_setting_is_explained(self):
        text = START_SCRIPT.read_text()
        used = set(re.findall(r"\$\{(MSMQ_LDAPS?_\w+)", text))
        explained = set(re.findall(r"^#   (MSMQ_LDAPS?_\w+) ", text, re.MULTILINE))
        assert used == explained
        assert len(used) == 16


class TestCertificates:
    def test_valid_for_the_names_and_signed_by_the_authority(self, tmp_path):
        certificates.make_certificates(tmp_path, ["localhost", "127.0.0.1", "::1", "dc1.example.com"])
        certificate = x509.load_pem_x509_certificate((tmp_path / "cert.pem").read_bytes())
        authority = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["localhost", "dc1.example.com"]
        assert [str(name) for name in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        assert not basic.value.ca
        ssl.create_default_context(cafile=tmp_path / "ca.pem").load_cert_chain(
            tmp_path / "cert.pem", tmp_path / "key.pem"
        )
        assert (tmp_path / "key.pem").stat().st_mode & 0o777 == 0o600
        assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]

    def test_good_ones_are_kept_others_renewed(self, tmp_path, monkeypatch):
        def made(names=("localhost",)):
            certificates.make_certificates(tmp_path, names)
            return (tmp_path / "cert.pem").read_bytes()

        first = made()
        assert made() == first
        second = made(["localhost", "other.example.com"])
        assert second != first
        (tmp_path / "key.pem").unlink()
        third = made()
        assert third != second
        (tmp_path / "cert.pem").write_bytes(b"nonsense")
        fourth = made()
        assert fourth not in {third, b"nonsense"}
        monkeypatch.setattr(certificates, "RENEW_BEFORE", certificates.LIFETIME + timedelta(days=1))
        assert made() != fourth


class TestPlugin:
    def test_loading_it_imports_nothing_heavy(self):
        code = (
            "import sys, mqdssm.testing.plugin\n"
            "heavy = 'ldap3 pydantic cryptography docker testcontainers pyspark rich typer'.split()\n"
            "print(sorted(set(heavy) & set(sys.modules)))\n"
            "print(sorted(name for name in sys.modules if name.startswith('mqdssm')))\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, cwd=PROJECT
        )
        heavy, ours = ran.stdout.splitlines()
        assert heavy == "[]"
        assert ours == "['mqdssm', 'mqdssm.testing', 'mqdssm.testing.plugin']"

    def test_fixtures_serve_the_users_of_the_library(self, tmp_path):
        (tmp_path / "test_theirs.py").write_text(
            textwrap.dedent(
                """
                def test_server(openldap_server):
                    assert openldap_server.add_computer("web01")

                def test_the_same_server(openldap_server):
                    assert openldap_server.add_user("alice")

                def test_directory(openldap_directory):
                    import mqdssm
                    assert openldap_directory.read(mqdssm.Enterprise, []) is not None

                def test_container(openldap_container):
                    assert openldap_container.add_computer("web01")
                """
            )
        )
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-rs",
                "-p",
                "no:cacheprovider",
                "-W",
                "error::ResourceWarning",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
            cwd=tmp_path,
            env={**os.environ, "DOCKER_HOST": "unix:///nonexistent/docker.sock"},
        )
        assert "3 passed, 1 skipped" in ran.stdout, ran.stdout + ran.stderr
        assert "no container engine answers at unix:///nonexistent/docker.sock" in ran.stdout

    def test_unknown_names_of_the_package(self):
        import mqdssm.testing

        with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
            _ = mqdssm.testing.Nonsense
        for name in mqdssm.testing.__all__:
            assert getattr(mqdssm.testing, name) is not None
