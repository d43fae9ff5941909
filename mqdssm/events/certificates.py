"""Registration of single signing certificates (decision M117).

The certificates are those of users and queue managers ([MS-MQMQ] 2.2.21). Certificate and digest are written
together, and only if no other program has registered or removed one since they were read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeAlias
from uuid import UUID, uuid4

from mqdssm.directory.entries import Entry
from mqdssm.errors import AttributeNotFound, DecodeError, GenericDirectoryError
from mqdssm.events.attributes import table_of_object
from mqdssm.events.contention import IDENTITY, change_located
from mqdssm.events.context import Context
from mqdssm.events.encode import CERTIFICATES, build_signing_values
from mqdssm.model.elements import QueueManager, User
from mqdssm.wire.certificates import (
    CERTIFICATE_BYTES_MAX,
    DIGEST_BYTES,
    UserSignCert,
    UserSignCerts,
    digest_of,
)

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

Registered: TypeAlias = tuple[UserSignCert, ...]
Owner: TypeAlias = User | QueueManager
OWNERS: Final = (User, QueueManager)


@dataclass(frozen=True, slots=True)
class CertificateKey:
    """Description of a registered certificate (decision M117).

    Attributes:
        identifier: of the registration; None: the digest is given.
        digest: MD5 digest of the certificate; None: the identifier is given.
    """

    identifier: UUID | None
    digest: bytes | None

    @classmethod
    def of(cls, certificate: "Certificate | bytes | UUID") -> Self:
        """Return the key for a certificate, its DER bytes, its digest or its identifier."""
        if isinstance(certificate, UUID):
            return cls(certificate, None)
        if isinstance(certificate, bytes) and len(certificate) == DIGEST_BYTES:
            return cls(None, certificate)
        return cls(None, digest_of(_encode_der(certificate)))

    def is_of(self, registered: UserSignCert) -> bool:
        """Return True if this is the key of a registered certificate."""
        if self.identifier is not None:
            return registered.identifier == self.identifier
        return self.digest in {registered.digest, digest_of(registered.der)}


def add_certificate(ctx: Context, owner: Owner, certificate: "Certificate | bytes") -> UUID:
    """Register a certificate, unless it is registered already (decision M117).

    Returns:
        Its identifier in the directory.

    Raises:
        ValueError: no certificate, or too many bytes for a directory.
        DirectoryError: as `_edit`.
    """
    new = UserSignCert.of(_encode_der(certificate), uuid4())
    try:
        new.load_certificate()  # a damaged one must not get in
    except ValueError as error:
        raise ValueError(f"no X.509 certificate: {error}") from None

    def edit(registered: Registered) -> tuple[Registered, UUID]:
        for candidate in registered:
            if candidate.der == new.der:
                return registered, candidate.identifier
        return (*registered, new), new.identifier

    return _edit(ctx, owner, edit)


def remove_certificate(ctx: Context, owner: Owner, certificate: "Certificate | bytes | UUID") -> None:
    """Remove a registered certificate (decision M117).

    Raises:
        AttributeNotFound: it is not registered.
        DirectoryError: as `_edit`.
    """
    key = CertificateKey.of(certificate)

    def edit(registered: Registered) -> tuple[Registered, UUID]:
        removed = [candidate for candidate in registered if key.is_of(candidate)]
        if not removed:
            raise AttributeNotFound(
                f"this {owner.element_name} has no such certificate", hint=f"it has {len(registered)} others"
            )
        remaining = tuple(candidate for candidate in registered if candidate not in removed)
        return remaining, removed[0].identifier

    _edit(ctx, owner, edit)


def _edit(ctx: Context, owner: Owner, edit: Callable[[Registered], tuple[Registered, UUID]]) -> UUID:
    """Change the registered certificates and their digests in one operation.

    Args:
        ctx: the surroundings.
        owner: says which object, as for a write. A queue manager's are kept in its computer.
        edit: returns the new certificates and a result; called again if another program was faster.

    Raises:
        GenericDirectoryError: no user or queue manager, or its certificates are damaged.
        ObjectNotFound: there is no such object.
        ObjectChanged: other programs were faster each time.
        ValueError: the certificates have too many bytes for a directory.
    """
    table = table_of_object(owner, OWNERS, "given certificates")
    version = ctx.session.profile.asserted_version or CERTIFICATES
    attributes = (*IDENTITY, *dict.fromkeys((CERTIFICATES, version)))
    on_computer = isinstance(owner, QueueManager)

    def change(entry: Entry) -> UUID:
        holder = ctx.session.get(entry.name.parent, attributes) if on_computer else entry
        registered = _decode_registered(holder)
        certificates, result = edit(registered)
        if certificates != registered:
            image = bytes(UserSignCerts(certificates)) if certificates else b""
            if len(image) > CERTIFICATE_BYTES_MAX:
                raise ValueError(f"{len(image)} bytes of certificates: the limit is {CERTIFICATE_BYTES_MAX}")
            ctx.session.modify(holder, build_signing_values(image), unchanged=(version,))
        return result

    return change_located(ctx, table, owner, IDENTITY if on_computer else attributes, change)


def _decode_registered(holder: Entry) -> Registered:
    image = holder.first(CERTIFICATES)
    try:
        return UserSignCerts.from_bytes(image).certificates if image else ()
    except DecodeError as error:
        raise GenericDirectoryError(
            f"{CERTIFICATES} cannot be read: {error}", dn=holder.dn, hint="nothing was changed"
        ) from error


def _encode_der(certificate: "Certificate | bytes") -> bytes:
    (only,) = UserSignCerts.from_certificates((certificate,)).certificates
    return only.der
