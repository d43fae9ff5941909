"""The one hierarchy of errors.

A message says what happened, to which object, and what to do.
"""

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import ClassVar, Final

from mqdssm.model.enums import DirectoryOperationResult


class MqdssmError(Exception):
    """Root of every error that mqdssm raises on purpose."""


class DecodeError(MqdssmError, ValueError):
    """Bytes that do not follow their specification.

    The bytes are truncated, too long or inconsistent.

    Attributes:
        section: where the structure is specified, as ``[MS-DTYP] 2.4.6``.
        field: the field's own name in the specification.
        offset: where the field begins, in bytes from the start of the structure.
    """

    def __init__(self, section: str, field: str, offset: int, problem: str) -> None:
        super().__init__(f"{section} {field} at offset {offset}: {problem}")
        self.section = section
        self.field = field
        self.offset = offset
        self.problem = problem

    def __reduce__(self) -> tuple[type["DecodeError"], tuple[str, str, int, str]]:
        return type(self), (self.section, self.field, self.offset, self.problem)


class MappingError(MqdssmError, ValueError):
    """Value that its LDAP syntax cannot carry.

    The error is also raised for a value that no abstract value stands for.
    """


class ConfigError(MqdssmError):
    """Contradictory settings, a missing program, or a file that is unusable."""


EXTRAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("spnego",), "ad"),
        **dict.fromkeys(("gssapi", "krb5"), "kerberos"),
        **dict.fromkeys(("dpkt",), "pcap"),
        **dict.fromkeys(("pyarrow", "numpy", "sqlglot", "jinja2", "markupsafe", "duckdb"), "pipeline"),
        **dict.fromkeys(("yaml",), "pipeline"),
        **dict.fromkeys(("prometheus_client",), "server"),
        **dict.fromkeys(("opentelemetry",), "telemetry"),
        **dict.fromkeys(("pyspark", "py4j", "pandas"), "spark"),
        **dict.fromkeys(("pytest", "testcontainers", "docker"), "testing"),
    }
)
"""Import names of packages that not every installation has -> the extra that brings each."""


class MissingPackageError(ConfigError):
    """A Python package is not installed that an extra of mqdssm brings.

    Attributes:
        package: the name it is imported by.
        extra: the extra.
    """

    def __init__(self, package: str, *, extra: str | None = None) -> None:
        """Name the package.

        Args:
            package: the name it is imported by, one of `EXTRAS`.
            extra: another extra than the package's own, where more is needed than the package.
        """
        self.package = package
        self.extra = extra or EXTRAS[package]
        super().__init__(f"this needs the Python package {package}: pip install 'mqdssm[{self.extra}]'")

    @classmethod
    def of(cls, error: BaseException) -> "MissingPackageError | None":
        """Return what a failed import lacks; None if no extra brings it."""
        package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        return cls(package) if package in EXTRAS else None


def require_packages(*packages: str, extra: str | None = None) -> None:
    """Check that packages of `EXTRAS` are installed, without importing them.

    Args:
        packages: the names they are imported by.
        extra: another extra than each package's own, where that is enough.

    Raises:
        MissingPackageError: the first that is not.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingPackageError(package, extra=extra)


class SourceNotConnected(ConfigError):  # noqa: N818  as DirectoryNotConnected
    """A database that tables are read from cannot be reached."""


class TransportError(MqdssmError):
    """Message that its own queue manager did not accept.

    The queue manager is closed or full, or has no key to sign with.
    """


class NotDelivered(TransportError):  # noqa: N818  as ObjectNotFound
    """Message that was not delivered in the time that its sender waited.

    The error also stands for a missing acknowledgement.
    """


class MessageRejected(TransportError):  # noqa: N818  as ObjectNotFound
    """Message that was refused.

    The refusal is a negative acknowledgement, or comes from its own queue manager.

    Attributes:
        message_class: class of the negative acknowledgement ([MS-MQMQ] 2.2.18.1.6); None if there is none.
    """

    def __init__(self, message: str, *, message_class: int | None = None) -> None:
        super().__init__(message)
        self.message_class = message_class


class DirectoryError(MqdssmError):
    """A directory operation that did not succeed.

    Attributes:
        result: the outcome in the specification's terms ([MS-MQDSSM] 2.2.6).
        dn: the object it happened to, if one was named.
        ldap_code: the LDAP result code of the server, if it answered.
        server_text: the server's own words (diagnosticMessage), unchanged.
        hint: what to do next, if we know.
    """

    default_result: ClassVar[DirectoryOperationResult] = DirectoryOperationResult.GENERIC_ERROR

    def __init__(
        self,
        message: str,
        *,
        dn: str | None = None,
        ldap_code: int | None = None,
        server_text: str = "",
        hint: str = "",
        result: DirectoryOperationResult | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.dn = dn
        self.ldap_code = ldap_code
        self.server_text = server_text
        self.hint = hint
        self.result = result or self.default_result

    def __str__(self) -> str:
        parts = [self.message]
        if self.dn is not None:
            parts.append(f"object: {self.dn}")
        if self.ldap_code is not None:
            words = f" {self.server_text!r}" if self.server_text else ""
            parts.append(f"LDAP result {self.ldap_code}{words}")
        if self.hint:
            parts.append(self.hint)
        return "; ".join(parts)


class GenericDirectoryError(DirectoryError):
    """Every failure that [MS-MQDSSM] 2.2.6 gives no name of its own (GenericError)."""


class ObjectChanged(GenericDirectoryError):  # noqa: N818  as ObjectNotFound
    """Another program changed the object after it was read: nothing was written."""


class DirectoryNotConnected(DirectoryError):  # noqa: N818  the specification's name, a public one
    """No server could be reached, or none that let us in ([MS-MQDSSM] 3.1.6.12)."""

    default_result = DirectoryOperationResult.DIRECTORY_NOT_CONNECTED


class ObjectNotFound(DirectoryError):  # noqa: N818  the specification's name, a public one
    """The object, or the parent it should be created below, does not exist (LDAP 32)."""

    default_result = DirectoryOperationResult.OBJECT_NOT_FOUND


class ObjectAlreadyExists(DirectoryError):  # noqa: N818  the specification's name, a public one
    """An object of that name, or with that objectGUID, exists (LDAP 68)."""

    default_result = DirectoryOperationResult.OBJECT_ALREADY_EXISTS


class AttributeNotFound(DirectoryError):  # noqa: N818  the specification's name, a public one
    """The object has no such attribute (LDAP 16)."""

    default_result = DirectoryOperationResult.ATTRIBUTE_NOT_FOUND


class EndOfData(ObjectNotFound):
    """End of a search: it has no (further) object ([MS-MQDSSM] 3.1.6.5).

    A read that searches answers with it, too.
    """

    default_result = DirectoryOperationResult.END_OF_DATA


class OutcomeUnknown(DirectoryNotConnected):
    """A change was sent, its answer was lost, and reading back was not possible.

    The server may or may not have made the change; nothing was repeated.
    """


def explain_folder_error(error: OSError) -> str:
    """Return the reason why a named folder cannot be used, and the remedy."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a file is there: name a folder"
    why = error.strerror or str(error)
    return f"{why}: name a folder where you may write" if isinstance(error, PermissionError) else why


@contextmanager
def convert_folder_errors(trouble: str) -> Iterator[None]:
    """Raise ConfigError for an error of the system with a folder.

    The message says what cannot be done, why, and what to do.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{trouble}: {explain_folder_error(error)}") from error


def make_full_disk_error(folder: object) -> ConfigError:
    """Return the error for temporary files that do not fit on the disk of a folder."""
    return ConfigError(
        f"the disk of {folder} is full: free it, or name a folder of another one for temporary files "
        "(TMPDIR, on a cluster --spark-shared)"
    )
