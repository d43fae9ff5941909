"""Options of a log-in: the one list of them, from which all others are derived.

`mqdssm.connect`, the jobs of the pipeline and the data source take these options by name. The command line
has its own rows for help texts (`mqdssm.cli.options`) and variables (`mqdssm.cli.settings`); a test compares.
"""

import os
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, Self, TypedDict, Unpack

TlsMode = Literal["ldaps", "starttls", "none"]
Authentication = Literal["simple", "spnego", "ntlm", "kerberos", "external"]
"""How to log in: a simple bind; GSS-SPNEGO with what both sides can, or only one of its two; the identity
that the local socket tells (SASL EXTERNAL)."""
FILES: Final = ("ca_file", "keytab")
"""Options that name a file."""


class LogInArguments(TypedDict, total=False):
    """Types of the options of `LogIn` as keyword arguments, which may be left out."""

    user: str | None
    tls: TlsMode | None
    ca_file: str | os.PathLike[str] | None
    profile: str
    naming_context: str | None
    allow_clear_text: bool
    allow_replicated: bool
    authentication: Authentication | None
    keytab: str | os.PathLike[str] | None
    kerberos_host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    """Options of a log-in to a directory, and of permitted work.

    None of them is a secret.

    Attributes:
        user: DN, or another name that the server knows; None: anonymous, SASL EXTERNAL over ``ldapi:``, or a
            Kerberos ticket.
        tls: ``ldaps``, ``starttls`` or ``none``; None: by the scheme of the URL (``ldap:`` means StartTLS).
        ca_file: PEM file of the authorities to trust; None: those of the system.
        profile: kind of server; ``auto`` finds out.
        naming_context: where computers, queues and users are, if not below the root (decision M8).
        allow_clear_text: let the password go in clear text to another machine.
        allow_replicated: change the directory of a replicating server, too. It does not number the changes,
            so its replicas differ from it (decision R106).
        authentication: ``simple``, ``spnego`` (NTLM or Kerberos, signed and sealed), ``ntlm``,
            ``kerberos`` or ``external``; None: simple with a user, external over ``ldapi:``.
        keytab: file with the user's Kerberos keys, instead of a password.
        kerberos_host: full name of the server in its tickets, if the URL has another one, or an address.
    """

    user: str | None = None
    tls: TlsMode | None = None
    ca_file: str | None = None
    profile: str = "auto"
    naming_context: str | None = None
    allow_clear_text: bool = False
    allow_replicated: bool = False
    authentication: Authentication | None = None
    keytab: str | None = None
    kerberos_host: str | None = None

    @classmethod
    def of(cls, **arguments: Unpack[LogInArguments]) -> Self:
        """Make the options of a log-in; paths become texts.

        Raises:
            TypeError: there is no such option.
        """
        values: dict[str, Any] = {**arguments}
        for name in FILES:
            if values.get(name) is not None:
                values[name] = os.fspath(values[name])
        return cls(**values)

    def arguments(self) -> dict[str, Any]:
        """Return the options as keyword arguments."""
        return {name: getattr(self, name) for name in LOG_IN_NAMES}


LOG_IN_NAMES: Final = tuple(field.name for field in fields(LogIn))
