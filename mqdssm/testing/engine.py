"""LDAP servers in containers: the common part.

The extra ``testing`` (testcontainers) is needed. An image is built if the engine does not have it. The tag of
an image is a hash of its content, so that a new version of mqdssm never uses an old image.
"""

import hashlib
import io
import ipaddress
import os
import socket
import tarfile
import tempfile
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from mqdssm.errors import ConfigError, MissingPackageError
from mqdssm.testing.openldap_start import PROBE, free_ports
from mqdssm.testing.server import LdapServer

START_WAIT_S: Final = 60.0
STOP_WAIT_S: Final = 10
START_ATTEMPTS: Final = 5
ENGINE_WAIT_S: Final = 10
BUILD_WAIT_S: Final = 600  # it installs Debian packages
POLL_S: Final = 0.05
LOOPBACK: Final = "127.0.0.1"
USUAL_ENGINE: Final = "unix:///var/run/docker.sock"

T = TypeVar("T")


def why_no_engine() -> str:
    """Return the reason why no container can be started; empty if one can."""
    where = os.environ.get("DOCKER_HOST") or USUAL_ENGINE
    try:
        docker = _import_docker()
        _require_socket(where)
        client = docker.from_env(timeout=ENGINE_WAIT_S)
        try:
            client.ping()
        finally:
            client.close()
    except ConfigError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  any error is the reason
        return f"no container engine answers at {where}: {error}"
    return ""


def _require_socket(where: str) -> None:
    """Raise OSError if no engine listens on a local socket.

    docker's client would leak a socket then.
    """
    if where.startswith("unix://"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(ENGINE_WAIT_S)
            probe.connect(where.removeprefix("unix://"))


def build_image(name: str, context: Mapping[str, bytes]) -> str:
    """Build an image unless the engine has it, and return its name with its tag.

    Args:
        name: without a tag.
        context: the files that it is built from, under their paths.

    Raises:
        ConfigError: no engine answers, or the build failed.
    """
    reason = why_no_engine()  # first: docker's client leaves a socket open if no engine answers
    if reason:
        raise ConfigError(f"the image {name} was not built: {reason}")
    docker = _import_docker()
    digest = hashlib.sha256()
    for path, content in sorted(context.items()):
        digest.update(b"%s %d " % (path.encode(), len(content)) + content)
    tag = f"{name}:{digest.hexdigest()[:16]}"
    try:
        client = docker.from_env(timeout=BUILD_WAIT_S)
    except docker.errors.DockerException as error:
        raise ConfigError(f"the image {tag} was not built: {error}") from error
    try:
        if not client.images.list(filters={"reference": tag}):
            client.images.build(fileobj=_build_tar(context), custom_context=True, tag=tag, rm=True)
    except docker.errors.BuildError as error:
        output = "".join(line.get("stream", "") for line in error.build_log)
        raise ConfigError(f"the image {tag} was not built: {error}\n{output[-2000:]}") from error
    except docker.errors.DockerException as error:
        raise ConfigError(f"the image {tag} was not built: {error}") from error
    finally:
        client.close()
    return tag


class ServerContainer(LdapServer):
    """An LDAP server in a container; a context manager.

    Attributes:
        user: the administrator.
        password: the administrator's password, made at random in the container.
        base_dn: the root of the directory.
        host: where the published ports are.
    """

    NOUN: ClassVar = "container"
    STATE_FOLDER: ClassVar[str]
    """Folder in the container with ``password`` and ``tls/ca.pem``."""
    PORTS: ClassVar[tuple[int, ...]] = (389, 636)
    """Ports of the server in the container, ldap and ldaps first."""

    def __init__(self, *, image: str | None, user: str, base_dn: str, ports: Sequence[int] = ()) -> None:
        """Keep the options; `start` creates the container.

        Args:
            image: its name; None builds it unless the engine holds it.
            user: the administrator.
            base_dn: the root of the directory.
            ports: what the server's ports are published on, in their order; 0 and missing ones: on free ones.
        """
        self.user = user
        self.base_dn = base_dn
        self.password = ""
        self.host = ""
        self._image = image
        self._wanted_ports = ports
        self._ports: tuple[int, ...] = (0,) * len(self.PORTS)
        self._container: Any = None
        self._files: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.RLock()

    @abstractmethod
    def _ensure_image(self) -> str:
        """Build the image unless the engine has it, and return its name."""

    @abstractmethod
    def _build_environment(self) -> dict[str, str]:
        """Return the environment variables of the server; its `host` is known."""

    @property
    def url(self) -> str:
        """URL, ``ldap://``; StartTLS is offered."""
        return f"ldap://{self.host}:{self._ports[0]}"

    @property
    def ldaps_url(self) -> str:
        """URL, ``ldaps://``."""
        return f"ldaps://{self.host}:{self._ports[1]}"

    @property
    def ldapi_url(self) -> str:
        """Raise ConfigError: the container's socket cannot be reached from outside.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("a container's ldapi socket is inside the container: use url or ldaps_url")

    @property
    def ca_file(self) -> str:
        """Path of the certificate of the authority that signed the server's own."""
        if self._files is None:
            raise self._explain_not_started()
        return str(Path(self._files.name) / "ca.pem")

    @property
    def log(self) -> str:
        """Last lines of the server's output."""
        container = self._find_engine_container()
        return str(retry_request(lambda: container.logs(tail=500)).decode(errors="replace"))

    def start(self) -> None:
        """Start the container, or start it again, on the same ports.

        Returns when the server answers.

        Raises:
            ConfigError: no engine, no image, or the server does not answer.
        """
        with self._lock:
            if self._container is not None:
                self._find_engine_container().start()
                self._wait()
                return
            reason = why_no_engine()
            if reason:
                raise ConfigError(reason)
            image = self._image or self._ensure_image()
            try:
                self._run(image)
                self._wait()
                self._fetch()
            except BaseException:
                self.close()
                raise

    def stop(self) -> None:
        """Stop the server as an administrator would; `start` starts it again."""
        with self._lock:
            self._find_engine_container().stop(timeout=STOP_WAIT_S)

    def kill(self) -> None:
        """Kill the server; `start` starts it again."""
        with self._lock:
            self._find_engine_container().kill()

    def close(self) -> None:
        """Remove the container and its volumes."""
        with self._lock:
            container, self._container = self._container, None
            if container is not None:
                container.stop(force=True, delete_volume=True)
                container.get_docker_client().client.close()
            if self._files is not None:
                self._files.cleanup()
                self._files = None

    def join_tls_names(self, *more: str) -> str:
        """Return the names for the server's certificate, as its start script wants them."""
        dns_names = [f"DNS:{name}" for name in more]
        return ",".join(
            dict.fromkeys([*dns_names, "DNS:localhost", "IP:127.0.0.1", _format_alternative_name(self.host)])
        )

    def _find_engine_container(self) -> Any:
        if self._container is None:
            raise self._explain_not_running()
        return self._container.get_wrapped_container()

    def _run(self, image: str) -> None:
        from testcontainers.core.container import DockerContainer

        for attempt in range(1, START_ATTEMPTS + 1):
            container = DockerContainer(image)
            # an IP address: OpenLDAP's own clients replace "localhost" by the machine's full name
            self.host = container.get_container_host_ip().replace("localhost", LOOPBACK)
            free = free_ports(len(self.PORTS))
            preferred_ports = (*self._wanted_ports, *free)
            self._ports = tuple(want or other for want, other in zip(preferred_ports, free, strict=False))
            for inside, outside in zip(self.PORTS, self._ports, strict=True):
                container.with_bind_ports(inside, outside)
                if self.host == LOOPBACK:  # else the engine is on another machine
                    container.ports[str(inside)] = (LOOPBACK, outside)  # type: ignore[assignment]  # as docker
            for name, value in self._build_environment().items():
                container.with_env(name, value)
            self._container = container
            try:
                container.start()
            except _import_docker().errors.APIError as error:
                if attempt == START_ATTEMPTS or "address already in use" not in str(error):
                    raise ConfigError(f"the container was not started: {error}") from error
                self.close()
            else:
                return

    def _wait(self) -> None:
        deadline = time.monotonic() + START_WAIT_S
        container = self._find_engine_container()
        while not _is_answering(self.host, self._ports[0]):
            if has_ended(container) or time.monotonic() > deadline:
                raise ConfigError(f"the server in the container does not answer: {self.log.strip()}")
            time.sleep(POLL_S)

    def _fetch(self) -> None:
        """Copy the password and the authority's certificate from the container."""
        self._files = tempfile.TemporaryDirectory(prefix="mqdssm-")
        self.password = self._read("password").decode().strip("\n")
        Path(self.ca_file).write_bytes(self._read("tls/ca.pem"))

    def _read(self, name: str) -> bytes:
        status, output = self._find_engine_container().exec_run(["cat", f"{self.STATE_FOLDER}/{name}"])
        if status:
            raise ConfigError(f"{name} cannot be read in the container: {output.decode(errors='replace')}")
        return bytes(output)


def read_dockerfile(name: str) -> bytes:
    """Read the Dockerfile of an image, from the installed package or the project.

    Raises:
        ConfigError: it is missing in both.
    """
    places = (
        Path(__file__).parent / "data" / f"{name}.Dockerfile",
        Path(__file__).parents[2] / "docker" / name / "Dockerfile",
    )
    for place in places:
        if place.exists():
            return place.read_bytes()
    raise ConfigError(f"the Dockerfile is missing: {places[0]}")


def _import_docker() -> Any:
    """Import docker after testcontainers.

    A folder named docker beside the caller is not the library.
    """
    try:
        import_module("testcontainers")
        return import_module("docker")
    except ImportError as error:
        raise MissingPackageError("testcontainers") from error


def _build_tar(files: Mapping[str, bytes]) -> io.BytesIO:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    archive.seek(0)
    return archive


def _format_alternative_name(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"


def retry_request(request: Callable[[], T]) -> T:
    """Send a request to the engine, and retry for some seconds after server errors.

    podman answers an inspection with 500 when the container's process ends meanwhile
    (``read /proc/N/cgroup: no such process``).

    Raises:
        docker.errors.APIError: the request is wrong, or the engine goes on failing.
    """
    deadline = time.monotonic() + ENGINE_WAIT_S
    while True:
        try:
            return request()
        except _import_docker().errors.APIError as error:
            if not error.is_server_error() or time.monotonic() > deadline:
                raise
        time.sleep(POLL_S)


def has_ended(container: Any) -> bool:
    """Return True if a container has ended."""
    retry_request(container.reload)
    return container.status in {"exited", "dead"}


def _is_answering(host: str, port: int) -> bool:
    """Return True if the server answers.

    The engine's proxy accepts connections before that.
    """
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(PROBE)
            return connection.recv(8)[:1] == b"\x30"
    except OSError:
        return False
