"""Options, folder and required software of a private OpenLDAP."""

import hashlib
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import check_own
from mqdssm.testing.certificates import make_certificates, write_private
from mqdssm.testing.server_files import ServerFiles, check_private

DEFAULT_BASE_DN: Final = "dc=example,dc=com"
DATABASE_BYTES_MAX: Final = 16 * 1024**3  # address space only; the file stays sparse
SOCKET_PATH_BYTES_MAX: Final = 100  # sun_path holds 108 on Linux and 104 on macOS
PASSWORD_BYTES: Final = 18
START_SCRIPT: Final = Path(__file__).parent / "data" / "start.sh"

PLACES_OF_PROGRAMS: Final = (
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/libexec",
    "/usr/local/libexec",
    "/opt/homebrew/opt/openldap/libexec",
    "/opt/homebrew/opt/openldap/sbin",
    "/usr/local/opt/openldap/libexec",
    "/usr/local/opt/openldap/sbin",
)
_PLACES_OF_SCHEMA: Final = (
    "/etc/ldap/schema",
    "/etc/openldap/schema",
    "/opt/homebrew/etc/openldap/schema",
    "/usr/local/etc/openldap/schema",
)
_CONTAINER: Final = "use mqdssm.testing.OpenLdapContainer, which needs a container engine only"
_INSTALL: Final = (
    "Install it: Debian, Ubuntu: apt-get install slapd ldap-utils util-linux; "
    "Fedora: dnf install openldap-servers openldap-clients; "
    "macOS: brew install openldap flock; "
    f"or {_CONTAINER}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLdapOptions:
    """Options of a private OpenLDAP.

    Attributes:
        base_dn: the root, domain components only.
        durable: every write is on disk when it is answered; False is several times as fast, and loses
            data only when the whole machine dies.
        unique: refuse a second object with the same objectGUID.
        deref: resolve references within a search.
        syncprov: let clients watch changes (RFC 4533).
        accesslog: keep a log of changes below ``cn=log``, so that watching survives restarts.
        replication: have the schema of the replication store too.
        idle_timeout_s: seconds until a silent client is cut off; 0 is never.
        size_limit: entries that one unpaged search may return; None is unlimited.
        database_bytes_max: the largest the database may grow.
        port: TCP port for ldap; 0 takes a free one.
        ldaps_port: TCP port for ldaps; 0 takes a free one.
    """

    base_dn: str = DEFAULT_BASE_DN
    durable: bool = True
    unique: bool = True
    deref: bool = True
    syncprov: bool = True
    accesslog: bool = False
    replication: bool = False
    idle_timeout_s: int = 0
    size_limit: int | None = None
    database_bytes_max: int = DATABASE_BYTES_MAX
    port: int = 0
    ldaps_port: int = 0

    @property
    def overlays(self) -> tuple[str, ...]:
        """Names of the enabled overlays."""
        return tuple(name for name in ("unique", "deref", "syncprov", "accesslog") if getattr(self, name))

    @property
    def admin_dn(self) -> str:
        """DN of the administrator."""
        return f"cn=admin,{self.base_dn}"

    def build_environment(self) -> dict[str, str]:
        """Return the environment variables of the start script for these options."""
        return {
            "MSMQ_LDAP_SUFFIX": self.base_dn,
            "MSMQ_LDAP_DURABLE": "yes" if self.durable else "no",
            "MSMQ_LDAP_OVERLAYS": " ".join(self.overlays),
            "MSMQ_LDAP_REPLICATION": "yes" if self.replication else "no",
            "MSMQ_LDAP_IDLE_TIMEOUT": str(self.idle_timeout_s),
            "MSMQ_LDAP_SIZE_LIMIT": "unlimited" if self.size_limit is None else str(self.size_limit),
            "MSMQ_LDAP_MAX_BYTES": str(self.database_bytes_max),
        }


@dataclass(frozen=True, slots=True)
class ServerFolder(ServerFiles):
    """Folder with the files of one server."""

    @property
    def password_file(self) -> Path:
        """Password of the administrator, mode 0600, without a line end."""
        return self.path / "password"

    @property
    def socket_folder(self) -> Path:
        """Folder of mode 0700 for the ldapi socket, with a path short enough for it.

        The socket itself is open to everybody who can reach it.
        """
        inside = self.path / "run"
        if len(os.fsencode(inside / "ldapi")) <= SOCKET_PATH_BYTES_MAX:
            return inside
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        return Path("/tmp") / f"mqdssm-{os.getuid()}-{digest}"  # noqa: S108  checked in make()

    @property
    def socket(self) -> Path:
        """Path of the ldapi socket."""
        return self.socket_folder / "ldapi"

    def make(self, options: OpenLdapOptions) -> str:
        """Write the files for the start script; keep an existing password and base tree.

        Returns:
            The administrator's password.

        Raises:
            ConfigError: the folder cannot be used.
        """
        from mqdssm.tables.ldif import MSMQ, REPLICATION, format_base_tree, format_openldap_schema

        try:
            for folder in (self.path, self.path / "share", self.path / "tls", self.socket_folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                check_own(folder)
            check_private(self.socket_folder)
            for part in (MSMQ, REPLICATION):
                schema = self.path / "share" / f"{part.name}.schema"
                schema.write_text(format_openldap_schema(part), encoding="utf-8")
            tree = self.path / "share" / "base-tree.ldif"
            if not tree.exists():
                tree.write_text(format_base_tree(options.base_dn), encoding="utf-8")
            make_certificates(self.path / "tls")
            if self.password_file.exists():
                check_own(self.password_file)
                if self.password_file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
                    raise ConfigError(
                        f"{self.password_file} can be read by others: chmod 600 it, or remove it"
                    )
            else:
                write_private(self.password_file, secrets.token_urlsafe(PASSWORD_BYTES).encode())
            return self.password_file.read_text(encoding="utf-8").strip("\n")
        except OSError as error:
            raise ConfigError(f"{self.path} cannot hold an LDAP server: {error}") from error

    @property
    def places(self) -> tuple[Path, ...]:
        """Folders to delete when the server is removed."""
        outside = () if self.socket_folder.is_relative_to(self.path) else (self.socket_folder,)
        return (self.path, *outside)

    def build_environment(self, options: OpenLdapOptions, port: int, ldaps_port: int) -> dict[str, str]:
        """Return the complete environment of the start script."""
        return options.build_environment() | {
            "MSMQ_LDAP_DIR": str(self.path),
            "MSMQ_LDAP_SHARE": str(self.path / "share"),
            "MSMQ_LDAP_PASSWORD_FILE": str(self.password_file),
            "MSMQ_LDAP_ADDRESS": "127.0.0.1",
            "MSMQ_LDAP_PORT": str(port),
            "MSMQ_LDAPS_PORT": str(ldaps_port),
            "MSMQ_LDAP_SOCKET": str(self.socket),
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
        }


def make_temporary_folder() -> ServerFolder:
    """Create a temporary folder, to be deleted with its server."""
    return ServerFolder(Path(tempfile.mkdtemp(prefix="mqdssm-")))


def require_software() -> None:
    """Check that OpenLDAP's server is installed.

    Raises:
        ConfigError: it is not; the message says what to install.
    """
    if not hasattr(os, "getuid"):
        raise ConfigError(f"OpenLDAP's server runs on Linux and other Unixes only; {_CONTAINER}")
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), *PLACES_OF_PROGRAMS))
    missing = [
        name for name in ("slapd", "slapadd", "slappasswd", "flock") if not shutil.which(name, path=places)
    ]
    if not any(Path(place, "core.schema").exists() for place in _PLACES_OF_SCHEMA):
        missing.append("core.schema")
    if missing:
        raise ConfigError(f"OpenLDAP's server is not installed ({', '.join(missing)} not found). {_INSTALL}")


SHOWN_CHARS_MAX: Final = 500


def load_files(folder: ServerFolder, base_dn: str, files: Iterable[str | Path]) -> None:
    """Replace all entries of a stopped server by those of LDIF files.

    ``slapadd`` loads them.

    Args:
        folder: the server's.
        base_dn: the root of its directory.
        files: parents first, from the root on.

    Raises:
        ConfigError: slapadd refuses an entry; the old entries are deleted already.
    """
    database = folder.path / "db"
    for old in database.iterdir():
        old.unlink()
    search = os.pathsep.join((os.environ.get("PATH", os.defpath), *PLACES_OF_PROGRAMS))
    program = shutil.which("slapadd", path=search) or "slapadd"
    configuration = str(folder.path / "conf" / "slapd.conf")
    for file in files:
        command = [program, "-q", "-f", configuration, "-b", base_dn, "-l", str(file)]
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if result.returncode:
            words = " ".join(line for line in result.stderr.splitlines() if "#####" not in line)
            raise ConfigError(f"slapadd does not take {file}: {words.strip()[:SHOWN_CHARS_MAX]}")
