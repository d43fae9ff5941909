"""Settings and software of a private domain controller.

Settings are options, folder, address and the initial domain.
"""

import hashlib
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqdssm.errors import ConfigError
from mqdssm.testing.certificates import make_certificates
from mqdssm.testing.server_files import ServerFiles

DEFAULT_REALM: Final = "CONTOSO.TEST"
DEFAULT_DOMAIN: Final = "CONTOSO"
DEFAULT_HOST: Final = "DC1"
STRONG_AUTH: Final = ("yes", "allow_sasl_over_tls", "no")
SERVICES: Final = ("ldap",)
START_SCRIPT: Final = Path(__file__).parent / "data" / "samba-dc.sh"
CERTIFICATES_SCRIPT: Final = START_SCRIPT.with_name("certificates.sh")

FOLDER_PATH_BYTES_MAX: Final = 75  # private/ldap_priv/ldapi must fit into sun_path: 108 bytes
MEMORY_FOLDER: Final = Path("/dev/shm")  # noqa: S108  a private folder is made in it, by mkdtemp
MEMORY_BYTES_MIN: Final = 1024**3  # a fresh controller needs 35 MB; containers often have 64 MB in all
PROVISION_WAIT_S: Final = 300.0  # 5 s on an idle machine
UNUSED_S_MAX: Final = 60 * 24 * 3600.0  # a domain needs 32 MB in the cache folder
LDAP_PORTS: Final = (389, 636, 3268, 3269)  # fixed in Samba
START_WAIT_S: Final = 60.0  # 0.2 s on an idle machine; others may be busy with theirs
ADDRESS_ATTEMPTS: Final = 40
LAST_OCTETS: Final = (2, 254)  # 127.0.0.1 is left to other servers

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,13}[A-Za-z0-9])?")
_REALM: Final = re.compile(r"[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+")
_SERVICE: Final = re.compile(r"[a-z]+")
_PROGRAMS: Final = ("samba", "samba-tool", "flock")
_PLACES_OF_PROGRAMS: Final = ("/usr/sbin", "/usr/local/sbin", "/usr/local/samba/sbin", "/usr/local/samba/bin")
_PLACES_OF_SETUP: Final = ("/usr/share/samba/setup", "/usr/local/samba/share/setup")
_INSTALL: Final = (
    "Install it: Debian, Ubuntu: apt-get install --no-install-recommends samba-ad-dc samba-ad-provision; "
    "Fedora: dnf install samba-dc; "
    "or use mqdssm.testing.SambaContainer, which needs a container engine only"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SambaOptions:
    """Options of a private domain controller.

    Attributes:
        realm: DNS name of the domain, in any case; its Kerberos realm is the same in capitals.
        domain: NetBIOS name of the domain.
        host: name of the controller.
        strong_auth: Samba's ``ldap server require strong auth``: ``"yes"``, as on a new domain of Windows,
            asks for TLS or for signing; ``"allow_sasl_over_tls"``; ``"no"``.
        services: Samba's ``server services``: ``ldap``, and more for more (``cldap``, ``rpc``, ``drepl``).
        kerberos: tickets are given on the same address, too.

    Raises:
        ValueError: an invalid name, or an unknown kind of `strong_auth`.
    """

    realm: str = DEFAULT_REALM
    domain: str = DEFAULT_DOMAIN
    host: str = DEFAULT_HOST
    strong_auth: str = "yes"
    services: tuple[str, ...] = SERVICES
    kerberos: bool = False

    def __post_init__(self) -> None:
        if not _REALM.fullmatch(self.realm):
            raise ValueError(f"{self.realm!r} is no realm: give a name like CONTOSO.TEST")
        for name in (self.domain, self.host):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no NetBIOS name: 1 to 15 letters, digits and hyphens")
        if self.strong_auth not in STRONG_AUTH:
            raise ValueError(f"strong_auth={self.strong_auth!r}: use one of {', '.join(STRONG_AUTH)}")
        if not self.services or not all(_SERVICE.fullmatch(name) for name in self.services):
            raise ValueError(f"services={self.services!r}: give Samba's names of them")

    @property
    def base_dn(self) -> str:
        """Root of the domain, as the server writes it."""
        return ",".join(f"DC={part}" for part in self.realm.lower().split("."))

    @property
    def dns_name(self) -> str:
        """Full name of the controller."""
        return f"{self.host}.{self.realm}".lower()

    @property
    def user(self) -> str:
        """Log-in name of the administrator, as ``Administrator@contoso.test``."""
        return f"Administrator@{self.realm.lower()}"

    def build_environment(self) -> dict[str, str]:
        """Return the environment variables of the start script for these options."""
        services = (*self.services, *(["kdc"] if self.kerberos and "kdc" not in self.services else []))
        return self.build_names() | {
            "MSMQ_SAMBA_SERVICES": " ".join(services),
            "MSMQ_SAMBA_STRONG_AUTH": self.strong_auth,
        }

    def build_names(self) -> dict[str, str]:
        """Return the environment variables of the start script.

        A domain is created with them.
        """
        return {
            "MSMQ_SAMBA_REALM": self.realm.upper(),
            "MSMQ_SAMBA_DOMAIN": self.domain,
            "MSMQ_SAMBA_HOST": self.host,
        }


@dataclass(frozen=True, slots=True)
class ControllerFolder(ServerFiles):
    """Folder with the files of one controller."""

    @property
    def krb5_conf(self) -> Path:
        """Path of the settings for Kerberos clients."""
        return self.path / "etc" / "krb5-client.conf"

    @property
    def socket(self) -> Path:
        """Path of the privileged ldapi socket.

        Clients have the rights of SYSTEM; only root can open it.
        """
        return self.path / "private" / "ldap_priv" / "ldapi"

    @property
    def password(self) -> str:
        """The administrator's password."""
        return (self.path / "password").read_text(encoding="ascii").strip()

    def make(self, options: SambaOptions, address: str) -> None:
        """Write the certificates and the settings for Kerberos clients.

        Valid certificates are kept.

        Raises:
            ConfigError: the folder cannot be used.
        """
        if len(os.fsencode(self.path)) > FOLDER_PATH_BYTES_MAX:
            raise ConfigError(
                f"{self.path} is too long a name for a domain controller's folder: its sockets allow "
                f"{FOLDER_PATH_BYTES_MAX} bytes"
            )
        try:
            for folder in (self.path, self.path / "tls", self.path / "etc"):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_certificates(
                self.path / "tls",
                (options.dns_name, options.realm.lower(), options.host, "localhost", address),
            )
            self.krb5_conf.write_text(_format_krb5_conf(options, address), encoding="ascii")
        except OSError as error:
            raise ConfigError(f"{self.path} cannot hold a domain controller: {error}") from error

    def build_environment(self, options: SambaOptions, template: Path, address: str) -> dict[str, str]:
        """Return the complete environment of the start script."""
        return (
            options.build_environment()
            | _build_script_environment(template)
            | {"MSMQ_SAMBA_DIR": str(self.path), "MSMQ_SAMBA_ADDRESS": address}
        )


def make_temporary_folder() -> ControllerFolder:
    """Create a temporary folder, to be deleted with its controller.

    The folder is in memory, if there is space.
    """
    place: Path | None = None
    if os.access(MEMORY_FOLDER, os.W_OK) and shutil.disk_usage(MEMORY_FOLDER).free >= MEMORY_BYTES_MIN:
        place = MEMORY_FOLDER
    return ControllerFolder(Path(tempfile.mkdtemp(prefix="mqdssm-dc-", dir=place)))


def free_address() -> str:
    """Find an address 127.0.0.N on which all ports that Samba needs are free.

    Raises:
        ConfigError: no free address was found, for example because a server listens on all addresses.
    """
    chance = random.SystemRandom()
    used_port = 0
    for _ in range(ADDRESS_ATTEMPTS):
        address = f"127.0.0.{chance.randint(*LAST_OCTETS)}"
        used_port = find_taken_port(address)
        if not used_port:
            return address
    raise ConfigError(
        f"port {used_port} is taken on every loopback address that was tried: "
        "does an LDAP server of this machine listen on all addresses?"
    )


def find_taken_port(address: str) -> int:
    """Return one of Samba's ports that is taken on an address; 0 if all are free."""
    for port in LDAP_PORTS:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return port
    return 0


def prepare_template(options: SambaOptions) -> Path:
    """Return the folder of the domain with which controllers start.

    The domain is created once per machine.

    Its name depends on Samba's version, the names in the domain and the start script: a change of any of them
    creates a new folder. Processes that need the same folder at the same time wait for the first.

    Raises:
        ConfigError: it cannot be created; the message contains Samba's output.
    """
    made_by = START_SCRIPT.read_bytes() + repr(sorted(options.build_names().items())).encode()
    name = f"{_read_samba_version()}-{hashlib.sha256(made_by).hexdigest()[:12]}"
    place = find_cache_folder() / "samba" / name
    if (place / "done").exists():
        os.utime(place / "done")  # used today
        return place
    _forget_unused(place.parent)
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        ran = subprocess.run(
            ["/bin/sh", str(START_SCRIPT), "provision"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=options.build_environment() | _build_script_environment(place),
            timeout=PROVISION_WAIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"no domain was made in {place}: {error}") from error
    if ran.returncode or not (place / "done").exists():
        output = ran.stdout.decode(errors="replace").strip()[-2000:]
        raise ConfigError(f"no domain was made in {place} (status {ran.returncode}): {output}")
    return place


def _forget_unused(folder: Path) -> None:
    """Delete domains that were not used for a long time (`UNUSED_S_MAX`).

    No controller was started with them.
    """
    for marker in folder.glob("*/done"):
        if time.time() - marker.stat().st_mtime > UNUSED_S_MAX:
            shutil.rmtree(marker.parent, ignore_errors=True)


def find_cache_folder() -> Path:
    """Return MQDSSM_CACHE or the user's cache, for data made once per machine.

    Raises:
        ConfigError: the user has no cache folder.
    """
    if named := os.environ.get("MQDSSM_CACHE"):
        return Path(named).absolute()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "mqdssm"
    except RuntimeError as error:
        raise ConfigError(f"no cache folder: set MQDSSM_CACHE ({error})") from error


def require_software() -> None:
    """Check that a Samba domain controller is installed, and that we may run it.

    Raises:
        ConfigError: it is not installed, or needs root; the message says what to do.
    """
    places = _search_path()
    missing = [name for name in _PROGRAMS if not shutil.which(name, path=places)]
    if not any(Path(place).is_dir() for place in _PLACES_OF_SETUP):
        missing.append("samba/setup")
    if missing:
        raise ConfigError(
            f"Samba's domain controller is not installed ({', '.join(missing)} not found). {_INSTALL}"
        )
    if os.geteuid() != 0:
        raise ConfigError(
            "a Samba domain controller needs root: its LDAP ports (389, 636, 3268, 3269) are fixed, and its "
            "domain can be made by root only. Run as root, or use mqdssm.testing.SambaContainer"
        )


def _read_samba_version() -> str:
    program = shutil.which("samba", path=_search_path()) or "samba"
    ran = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return re.sub(r"[^A-Za-z0-9.-]+", "-", ran.stdout.removeprefix("Version").strip()) or "unknown"


def _search_path() -> str:
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *_PLACES_OF_PROGRAMS))


def _build_script_environment(place: Path) -> dict[str, str]:
    return {
        "MSMQ_SAMBA_TEMPLATE": str(place),
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C.UTF-8",
        "HOME": str(place.parent),
    }


def _format_krb5_conf(options: SambaOptions, address: str) -> str:
    """Return the settings for Kerberos clients, without DNS.

    The domain does not have DNS.
    """
    realm = options.realm.upper()
    return f"""[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
[realms]
{realm} = {{
    kdc = {address}
    kpasswd_server = {address}
}}
[domain_realm]
.{realm.lower()} = {realm}
{realm.lower()} = {realm}
"""
