"""Errors for LDAP results and failed connections ([MS-MQDSSM] 2.2.6).

Each error says what happened to which object, keeps the server's code and words, and says what to do
next where we know it.
"""

import re
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mqdssm.errors import (
    AttributeNotFound,
    DirectoryError,
    DirectoryNotConnected,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectNotFound,
)
from mqdssm.model.enums import DirectoryOperationResult
from mqdssm.tables.ldap_results import name_of, result_of

if TYPE_CHECKING:
    from ldap3.core.exceptions import LDAPOperationResult

    from mqdssm.directory.options import ConnectionOptions, Endpoint
    from mqdssm.directory.responses import LdapResult

_DATA: Final = re.compile(r"\bdata ([0-9A-Fa-f]{1,8})\b")

_CHECK_BOTH: Final = (
    "servers do not tell which of the two: check the user's name (user@domain, DOMAIN\\user or, "
    "in a simple bind, a DN) and the password"
)
_NOT_KNOWN: Final = ("unknown user or wrong password", _CHECK_BOTH)

LOG_IN: Final[Mapping[int, tuple[str, str]]] = {
    0x525: ("there is no such user", "check the name: user@domain, DOMAIN\\user or a DN"),
    0x52E: _NOT_KNOWN,
    0x490: _NOT_KNOWN,
    0x52F: ("the account is restricted", "may it log in here, and with a password?"),
    0x530: ("the account may not log in at this hour", "see the account's log-on hours"),
    0x531: ("the account may not log in from this machine", "see the account's workstations"),
    0x532: ("the password has expired", "set a new one"),
    0x533: ("the account is disabled", "an administrator of the domain can enable it"),
    0x568: ("the account is in too many groups", "an administrator of the domain can remove it from some"),
    0x57: (
        "the log-in had no protection that the server requires",
        "sign and seal (authentication='spnego'), or use LDAPS",
    ),
    0x701: ("the account has expired", "an administrator of the domain can prolong it"),
    0x773: ("the password must be changed before the first log-in", "set a new one"),
    0x775: (
        "the account is locked",
        "wait until it opens again or have it unlocked, then check the password",
    ),
    0x80090346: (
        "the channel binding was missing or wrong",
        "use LDAPS directly, with nothing in between that ends TLS",
    ),
}
"""Reasons and hints by Windows error ([MS-ADTS] 3.1.1.3.1.9)."""


def log_in_failure(text: str) -> tuple[str, str] | None:
    """Return the reason for a refused log-in and a hint, from the server's text.

    None if the reason is unknown.
    """
    match = _DATA.search(text)
    return LOG_IN.get(int(match.group(1), 16)) if match else None


INVALID_CREDENTIALS: Final = 49
UNWILLING: Final = 53
STRONGER_AUTH_REQUIRED: Final = 8

SCHEMA_HINT: Final = "is the MSMQ schema loaded? 'mqdssm schema check' tells, 'mqdssm schema ldif' prints it"

_CLASSES: Final[Mapping[DirectoryOperationResult, type[DirectoryError]]] = {
    DirectoryOperationResult.OBJECT_NOT_FOUND: ObjectNotFound,
    DirectoryOperationResult.ATTRIBUTE_NOT_FOUND: AttributeNotFound,
    DirectoryOperationResult.OBJECT_ALREADY_EXISTS: ObjectAlreadyExists,
    DirectoryOperationResult.GENERIC_ERROR: GenericDirectoryError,
}

_HINTS: Final[Mapping[int, str]] = {
    3: "the time limit cut the search (120 s a page, or the server's own): "
    "ask for smaller pages, narrow it, or raise the server's limit for this user",
    4: "the server's size limit cut the search: on OpenLDAP set 'limits users size.prtotal=unlimited'",
    8: "the server wants a log-in, or a stronger one: give user and password, StartTLS or LDAPS; "
    "on Active Directory authentication='spnego' signs and seals without TLS",
    11: "the server's administrative limit cut the search: narrow it, or raise the limit for this user "
    "(on OpenLDAP 'limits' must let it ask for 120 s: time.hard)",
    13: "the server accepts this only over TLS: use StartTLS or LDAPS",
    17: SCHEMA_HINT,
    50: "this user has no right to do that",
    51: "the server is busy: try again later",
    52: "the server is shutting down or unavailable: try again later",
    66: "it still has objects below it: delete these first",
}


def error_of(result: "LdapResult", operation: str, dn: str | None) -> DirectoryError:
    """Return the error for a result code other than success ([MS-MQDSSM] 2.2.6).

    Args:
        result: what the server answered.
        operation: name of the attempted operation, as ``"add"``.
        dn: the object it was tried on.
    """
    meaning = result_of(result.code)
    kind = _CLASSES.get(meaning, GenericDirectoryError)
    hint = _HINTS.get(result.code, "")
    message = f"{operation} failed: {name_of(result.code)}"
    if kind is ObjectNotFound:
        message = f"{operation} failed: there is no such object"
        if result.matched_dn:
            hint = f"the deepest object there is: {result.matched_dn}"
    elif kind is ObjectAlreadyExists:
        message = f"{operation} failed: an object of that name exists already"
    return kind(message, dn=dn, ldap_code=result.code, server_text=result.text, hint=hint)


def make_refusal(
    endpoint: "Endpoint", options: "ConnectionOptions", error: "LDAPOperationResult"
) -> DirectoryNotConnected:
    """Return the error for a refused StartTLS or bind."""
    code, text = int(error.result or 0), str(error.message or "")
    if endpoint.tls == "starttls" and error.type == "extendedResp":
        return DirectoryNotConnected(
            f"{endpoint.url} refuses StartTLS",
            ldap_code=code,
            server_text=text,
            hint="does it have a certificate? use ldaps:// if it offers LDAPS; the password was not sent",
        )
    return bind_refused(endpoint, options, code, text)


def bind_refused(
    endpoint: "Endpoint", options: "ConnectionOptions", code: int, text: str
) -> DirectoryNotConnected:
    """Return the error for a bind that the server refused."""
    user = f"user {options.user!r}" if options.user is not None else "an anonymous user"
    if options.user is None and options.seals:
        user = "the user of this process"
    if options.user is None and endpoint.is_local_socket:
        user = "the user of this process (SASL EXTERNAL)"
    hint = _HINTS.get(code, "")
    message = f"{endpoint.url} did not let {user} in: {name_of(code)}"
    reason_and_hint = log_in_failure(text)
    if reason_and_hint is not None:
        message = f"{endpoint.url} did not let {user} in: {reason_and_hint[0]}"
        hint = reason_and_hint[1]
    elif code == INVALID_CREDENTIALS:
        message = f"{endpoint.url} did not let {user} in: unknown user or wrong password"
        hint = "servers do not tell which of the two: check the user's DN and the password"
    elif code == STRONGER_AUTH_REQUIRED and options.seals and endpoint.tls != "none":
        hint = "this server takes no GSS-SPNEGO over TLS: leave TLS out (tls='none'), the log-in seals itself"
    elif code == UNWILLING and options.seals and endpoint.tls != "none":
        hint = "over TLS this server takes a simple bind only, or GSS-SPNEGO without TLS (tls='none')"
    elif code == UNWILLING:
        hint = "the server refuses this kind of log-in"
    return DirectoryNotConnected(message, ldap_code=code, server_text=text, hint=hint)


def make_not_resolved(endpoint: "Endpoint", error: Exception) -> DirectoryNotConnected:
    """Return the error for a host name without an address."""
    reason = getattr(error, "strerror", None) or error
    return DirectoryNotConnected(
        f"{endpoint.url}: the host name {endpoint.host!r} has no address ({reason})",
        hint="check the name and the resolver",
    )


def make_out_of_time(endpoint: "Endpoint") -> DirectoryNotConnected:
    """Return the error for a server that was not tried before the deadline."""
    return DirectoryNotConnected(
        f"{endpoint.url}: no answer within the time limit", hint="is it the right host and port?"
    )


_ERROR_NUMBER: Final = re.compile(r"^.*\[Errno \d+\] ")


def make_not_connected(endpoint: "Endpoint", error: Exception) -> DirectoryNotConnected:
    """Return the error for a failed connection.

    A failed TLS handshake and a missing answer to the bind count as failed connections.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _make_not_trusted(endpoint, error)
    words = str(error)
    if isinstance(error, ssl.SSLError):
        return DirectoryNotConnected(
            f"{endpoint.url}: TLS could not be started: {getattr(error, 'reason', None) or words}",
            hint="is this a TLS port? ldaps:// for LDAPS (636), ldap:// with StartTLS for 389",
        )
    if isinstance(error, TimeoutError) or "timed out" in words:
        return DirectoryNotConnected(
            f"{endpoint.url}: no answer within the time limit",
            hint="is it the right host and port, and an LDAP server? a firewall may swallow the packets",
        )
    if isinstance(error, ConnectionRefusedError) or "refused" in words:
        return DirectoryNotConnected(
            f"{endpoint.url}: nobody listens there (connection refused)",
            hint="is the server running, and is the port right?",
        )
    if endpoint.is_local_socket and ("Errno 2]" in words or "Errno 13]" in words):
        return DirectoryNotConnected(
            f"{endpoint.url}: the socket cannot be opened: {_ERROR_NUMBER.sub('', words)}",
            hint="is the server running, and may this user enter the folder of the socket?",
        )
    return DirectoryNotConnected(
        f"{endpoint.url}: the connection failed: {words}", hint="is this an LDAP server?"
    )


_MISMATCH: Final = "wrong password"
_KERBEROS: Final = (
    ("skew", "the clocks differ too much", "set this machine's clock by the domain's: 5 minutes are allowed"),
    (
        "server not found in kerberos database",
        "the domain does not know the server by that name",
        "use its full DNS name in the URL, or give it as kerberos_host=; addresses have no tickets",
    ),
    ("cannot find kdc", "no key distribution centre is known", "see /etc/krb5.conf and the resolver"),
    ("cannot contact any kdc", "no key distribution centre answers", "see /etc/krb5.conf and the firewall"),
    ("no kerberos credentials", "there is no ticket", "run kinit, or give user and password, or a keytab"),
    ("credentials cache", "there is no ticket", "run kinit, or give user and password, or a keytab"),
    ("no credential", "there is no ticket", "run kinit, or give user and password, or a keytab"),
    ("ticket expired", "the ticket has expired", "run kinit again"),
    ("have expired", "the ticket or the password has expired", "run kinit again"),
    ("preauthentication failed", _MISMATCH, "check the password"),
    ("password incorrect", _MISMATCH, "check the password"),
    ("not found in kerberos database", "there is no such user", "check the name: user@REALM"),
    ("not found in keytab", "the keytab has no key of this user", "see it with klist -k"),
    (
        "keytab",
        "the keytab cannot be used",
        "may this user read the file? klist -k shows it",
    ),
    ("revoked", "the account is locked, disabled or expired", "an administrator of the domain can tell"),
)
"""Texts of Kerberos errors, their meanings, and hints."""


def make_no_ticket(
    endpoint: "Endpoint", options: "ConnectionOptions", error: Exception
) -> DirectoryNotConnected:
    """Return the error for a failed GSS-SPNEGO log-in.

    The log-in failed locally or could not authenticate the server.
    """
    words = " ".join(str(error).split())
    user = f"user {options.user!r}" if options.user is not None else "the user of this process"
    meaning, hint = next(
        ((reason, cure) for part, reason, cure in _KERBEROS if part in words.lower()),
        ("no security context", "is this a domain controller of the user's domain, or of a trusted one?"),
    )
    if options.keytab is not None and "@" not in (options.user or ""):
        hint = f"{hint}; give the user of the keytab with its realm, user@REALM"
    return DirectoryNotConnected(
        f"{endpoint.url}: the log-in of {user} failed: {meaning} ({words})",
        # so that the next server is not asked with the same wrong password: that could lock the account
        ldap_code=INVALID_CREDENTIALS if meaning == _MISMATCH else None,
        hint=hint,
    )


def make_not_understood(endpoint: "Endpoint", error: Exception) -> DirectoryNotConnected:
    """Return the error for an unusable answer to StartTLS or the bind.

    The answer cannot be read, or is a referral.
    """
    return DirectoryNotConnected(
        f"{endpoint.url}: its answer to the log-in cannot be read ({type(error).__name__}: {error})",
        hint="is this an LDAP server, and one that answers itself instead of referring to another?",
    )


_TOO_WEAK: Final = (
    "the server needs a certificate with a longer key or a newer signature: RSA of 2,048 bits and SHA-256 at "
    "least; another CA file does not help"
)
_CERTIFICATE_HINTS: Final[Mapping[int, str]] = {
    9: "it is not valid yet: is the clock of this machine or of the server wrong?",
    10: "it has expired: renew it on the server, or see whether the clock of this machine is right",
    66: _TOO_WEAK,
    67: _TOO_WEAK,
    68: _TOO_WEAK,
}
"""Hints by error code of OpenSSL (X509_V_ERR_…): not yet valid, expired, weak key, authority, digest."""


def _make_not_trusted(endpoint: "Endpoint", error: ssl.SSLCertVerificationError) -> DirectoryNotConnected:
    reason = getattr(error, "verify_message", "") or str(error)
    mismatch = "mismatch" in reason.lower()
    if mismatch:
        message = f"{endpoint.url}: the server's certificate is not for {endpoint.host!r} ({reason})"
        hint = "use a host name that stands in the certificate, or give the server a certificate for this one"
    else:
        message = f"{endpoint.url}: the server's certificate is not trusted ({reason})"
        hint = _CERTIFICATE_HINTS.get(
            getattr(error, "verify_code", 0), "give the certification authority's PEM file with ca_file="
        )
    return DirectoryNotConnected(message, hint=f"{hint}; the password was not sent")
