"""The embedded OpenLDAP in a container, for machines that have a container engine but no slapd.

It needs the extra ``testing`` (testcontainers). The image is built when the engine does not hold it; its
tag names its content, so that a new version of mqdssm never meets an old image.
"""

import hashlib
import io
import ipaddress
import os
import socket
import ssl
import tarfile
import tempfile
import threading
import time
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from mqdssm.errors import ConfigError
from mqdssm.testing.accounts import CALL_WAIT_S, Accounts, Connection
from mqdssm.testing.openldap_config import START_SCRIPT, OpenLdapOptions
from mqdssm.testing.openldap_start import PROBE, chosen_ports

DEFAULT_ENGINE: Final = "unix:///var/run/docker.sock"
IMAGE: Final = "mqdssm/openldap-msmq"
START_WAIT_S: Final = 60.0
STOP_WAIT_S: Final = 10
START_ATTEMPTS: Final = 5
ENGINE_WAIT_S: Final = 10
BUILD_WAIT_S: Final = 600  # it installs Debian packages
POLL_S: Final = 0.05
STATE_FOLDER: Final = "/var/lib/openldap-msmq"


def why_no_engine() -> str:
    """Say why no container can be started here; empty when one can."""
    where = os.environ.get("DOCKER_HOST") or DEFAULT_ENGINE
    try:
        docker = _docker()
        if where.startswith("unix://"):
            _knock(where.removeprefix("unix://"))
        client = docker.from_env(timeout=ENGINE_WAIT_S)
        try:
            client.ping()
        finally:
            client.close()
    except ConfigError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  whatever stands in the way is the answer
        return f"no container engine answers at {where}: {error}"
    return ""


def _knock(path: str) -> None:
    """Connect to a socket: where nobody listens, docker's own attempt would leave one open."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(ENGINE_WAIT_S)
        probe.connect(path)


def build_context() -> dict[str, bytes]:
    """Give the files that the image is built from, under their paths in the project."""
    from mqdssm.tables.ldif import base_tree_ldif, openldap_schema_text

    return {
        "Dockerfile": _dockerfile().read_bytes(),
        "ldif/msmq.schema": openldap_schema_text().encode(),
        "ldif/base-tree.ldif": base_tree_ldif().encode(),
        "mqdssm/testing/data/start.sh": START_SCRIPT.read_bytes(),
    }


def ensure_image() -> str:
    """Build the image unless the engine holds it; gives its name.

    Raises:
        ConfigError: no engine answers, or the build failed.
    """
    reason = why_no_engine()
    if reason:
        raise ConfigError(reason)
    docker = _docker()
    context = build_context()
    digest = hashlib.sha256()
    for name, content in sorted(context.items()):
        digest.update(b"%s %d " % (name.encode(), len(content)) + content)
    tag = f"{IMAGE}:{digest.hexdigest()[:16]}"
    client = docker.from_env(timeout=BUILD_WAIT_S)
    try:
        if not client.images.list(filters={"reference": tag}):
            client.images.build(fileobj=_tar(context), custom_context=True, tag=tag, rm=True)
    except docker.errors.BuildError as error:
        output = "".join(line.get("stream", "") for line in error.build_log)
        raise ConfigError(f"the image {tag} was not built: {error}\n{output[-2000:]}") from error
    except docker.errors.DockerException as error:
        raise ConfigError(f"the image {tag} was not built: {error}") from error
    finally:
        client.close()
    return tag


class OpenLdapContainer:
    """An OpenLDAP with the MSMQ schema in a container; a context manager.

    The attributes and methods are those of `mqdssm.testing.OpenLdapServer`.

    Attributes:
        options: how the server behaves.
        user: DN of the administrator.
        password: the administrator's password, made at random in the container.
        base_dn: the root of the directory.
        host: where the published ports are.
    """

    def __init__(self, *, image: str | None = None, options: OpenLdapOptions | None = None) -> None:
        """State what server is wanted; `start` makes it.

        Args:
            image: its name; None builds it unless the engine holds it.
            options: how the server behaves; ports of 0 are published on free ones.
        """
        self.options = options or OpenLdapOptions(durable=False)
        self.base_dn = self.options.base_dn
        self.user = self.options.admin_dn
        self.password = ""
        self.host = ""
        self._image = image
        self._ports = (0, 0)
        self._container: Any = None
        self._files: tempfile.TemporaryDirectory[str] | None = None
        self._accounts: Accounts | None = None
        self._lock = threading.RLock()

    @property
    def url(self) -> str:
        """``ldap://``; StartTLS is offered."""
        return f"ldap://{self.host}:{self._ports[0]}"

    @property
    def ldaps_url(self) -> str:
        """``ldaps://``."""
        return f"ldaps://{self.host}:{self._ports[1]}"

    @property
    def ldapi_url(self) -> str:
        """The container's socket cannot be reached from outside.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("a container's ldapi socket is inside the container: use url or ldaps_url")

    @property
    def ca_file(self) -> str:
        """Path of the certificate of the authority that the server's certificate is signed by."""
        if self._files is None:
            raise ConfigError("the container has not been started yet")
        return str(Path(self._files.name) / "ca.pem")

    @property
    def log(self) -> str:
        """The last lines that slapd wrote."""
        return str(self._engine_container().logs(tail=500).decode(errors="replace"))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the container, or start it again, on the same ports; returns when slapd answers.

        Raises:
            ConfigError: no engine, no image, or slapd does not answer.
        """
        with self._lock:
            if self._container is not None:
                self._engine_container().start()
                self._wait()
                return
            reason = why_no_engine()
            if reason:
                raise ConfigError(reason)
            image = self._image or ensure_image()
            try:
                self._run(image)
                self._wait()
                self._fetch()
            except BaseException:
                self.close()
                raise

    def stop(self) -> None:
        """Stop slapd as an administrator would; `start` starts it again."""
        with self._lock:
            self._engine_container().stop(timeout=STOP_WAIT_S)

    def kill(self) -> None:
        """Kill slapd; `start` starts it again."""
        with self._lock:
            self._engine_container().kill()

    def close(self) -> None:
        """Remove the container with all that it holds."""
        with self._lock:
            container, self._container = self._container, None
            if container is not None:
                container.stop(force=True, delete_volume=True)
                container.get_docker_client().client.close()
            if self._files is not None:
                self._files.cleanup()
                self._files = None

    def add_computer(self, name: str) -> str:
        """Add a computer, see `mqdssm.testing.OpenLdapServer.add_computer`."""
        return self._account_maker().add_computer(name)

    def add_user(self, name: str) -> tuple[str, str]:
        """Add a user, see `mqdssm.testing.OpenLdapServer.add_user`."""
        return self._account_maker().add_user(name)

    # -- inside

    def _account_maker(self) -> Accounts:
        with self._lock:
            if self._accounts is None:
                self._accounts = Accounts(
                    lambda: connect_over_tls(self.ldaps_url, self.user, self.password, self.ca_file),
                    self.base_dn,
                )
            return self._accounts

    def _engine_container(self) -> Any:
        if self._container is None:
            raise ConfigError("the container is not running: use it as a context manager, or call start()")
        return self._container.get_wrapped_container()

    def _run(self, image: str) -> None:
        from testcontainers.core.container import DockerContainer

        for attempt in range(1, START_ATTEMPTS + 1):
            container = DockerContainer(image)
            # by number: OpenLDAP's own clients take "localhost" for the machine's full name
            self.host = container.get_container_host_ip().replace("localhost", "127.0.0.1")
            self._ports = chosen_ports(self.options)
            container.with_bind_ports(389, self._ports[0]).with_bind_ports(636, self._ports[1])
            for name, value in self._environment().items():
                container.with_env(name, value)
            self._container = container
            try:
                container.start()
            except _docker().errors.APIError as error:
                if attempt == START_ATTEMPTS or "address already in use" not in str(error):
                    raise ConfigError(f"the container was not started: {error}") from error
                self.close()
            else:
                return

    def _environment(self) -> dict[str, str]:
        settings = self.options.environment()
        settings["MSMQ_LDAP_TLS_NAMES"] = ",".join(
            dict.fromkeys(["DNS:localhost", "IP:127.0.0.1", _alternative_name(self.host)])
        )
        return settings

    def _wait(self) -> None:
        deadline = time.monotonic() + START_WAIT_S
        container = self._engine_container()
        while not _answers(self.host, self._ports[0]):
            container.reload()
            if container.status in {"exited", "dead"} or time.monotonic() > deadline:
                raise ConfigError(f"slapd in the container does not answer: {self.log.strip()}")
            time.sleep(POLL_S)

    def _fetch(self) -> None:
        """Bring the password and the authority's certificate out of the container."""
        self._files = tempfile.TemporaryDirectory(prefix="mqdssm-")
        self.password = self._read("password").decode().strip("\n")
        Path(self.ca_file).write_bytes(self._read("tls/ca.pem"))

    def _read(self, name: str) -> bytes:
        status, output = self._engine_container().exec_run(["cat", f"{STATE_FOLDER}/{name}"])
        if status:
            raise ConfigError(f"{name} cannot be read in the container: {output.decode(errors='replace')}")
        return bytes(output)


def connect_over_tls(ldaps_url: str, user: str, password: str, ca_file: str) -> Connection:
    """Open an ldap3 connection by simple bind, the certificate verified."""
    import ldap3

    tls = ldap3.Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=ca_file)
    server = ldap3.Server(ldaps_url, get_info=ldap3.NONE, connect_timeout=CALL_WAIT_S, tls=tls)
    return ldap3.Connection(
        server,
        user=user,
        password=password,
        check_names=False,
        raise_exceptions=True,
        auto_referrals=False,
        receive_timeout=CALL_WAIT_S,
    )


def _docker() -> Any:
    """Import docker, by name: a folder of that name beside the caller must not be taken for it."""
    try:
        import_module("testcontainers")
        return import_module("docker")
    except ImportError as error:
        raise ConfigError("testcontainers is not installed: pip install 'mqdssm[testing]'") from error


def _dockerfile() -> Path:
    """The Dockerfile, in the installed package or in the project."""
    places = (
        START_SCRIPT.with_name("Dockerfile"),
        Path(__file__).parents[2] / "docker" / "openldap-msmq" / "Dockerfile",
    )
    for place in places:
        if place.exists():
            return place
    raise ConfigError(f"the Dockerfile is missing: {places[0]}")


def _tar(files: dict[str, bytes]) -> io.BytesIO:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    archive.seek(0)
    return archive


def _alternative_name(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"


def _answers(host: str, port: int) -> bool:
    """Tell whether slapd answers; the engine's own proxy takes connections before it does."""
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(PROBE)
            return connection.recv(8)[:1] == b"\x30"
    except OSError:
        return False
