"""Declared rights as security descriptors: names of rights and accounts, or SDDL.

The names of rights are those of [MS-MQMQ] 2.2.23 to 2.2.25 without their prefix, as ``WRITE_MESSAGE``, and
the short names of the inventory, as ``Send``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from types import MappingProxyType
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, model_validator

from mqdssm.directory.profile import Profile
from mqdssm.model.suggestions import suggest_name
from mqdssm.wire.acl import Ace, AceType, Acl
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import DescriptorControl, MachineAccess, QueueAccess, SiteAccess
from mqdssm.wire.sid import WELL_KNOWN, Sid

FULL_CONTROL: Final = "FullControl"
_SHORT: Final[Mapping[type[IntFlag], Mapping[str, int]]] = MappingProxyType(
    {
        QueueAccess: {
            "Send": int(QueueAccess.WRITE_MESSAGE),
            "Receive": int(QueueAccess.RECEIVE_MESSAGE),
            "Peek": int(QueueAccess.PEEK_MESSAGE),
        },
        MachineAccess: {"CreateQueue": int(MachineAccess.CREATE_QUEUE)},
        SiteAccess: {},
    }
)
_ANY_DOMAIN: Final = Sid("S-1-5-21-0-0-0")
"""Domain for checking SDDL before the directory is known."""
_WELL_KNOWN: Final = {name.replace("_", " ").casefold(): sid for name, sid in WELL_KNOWN.items()}


class DeclaredRights(BaseModel):
    """Rights on an object: the whole of its own entries.

    Attributes:
        allow: account -> names of rights. An account is a SID, a well-known name as ``Everyone``, or the
            name of an account in the directory.
        deny: likewise; these entries come first.
        sddl: a security descriptor in place of `allow` and `deny`, with MSMQ's masks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    allow: Mapping[str, Sequence[str]] = {}
    deny: Mapping[str, Sequence[str]] = {}
    sddl: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.sddl is not None and (self.allow or self.deny):
            raise ValueError("rights are SDDL, or 'allow' and 'deny', not both")
        for account in (*self.allow, *self.deny):
            if not account or "\\" in account or "@" in account:
                raise ValueError(
                    f"the account {account!r} has no domain in its name: name those of other domains by SID"
                )
            _look_up_known_sid(account)
        if self.sddl is not None:
            _of_sddl(self.sddl, _ANY_DOMAIN)
        return self

    def list_accounts(self) -> Iterator[str]:
        """Yield the accounts that the directory has to resolve."""
        yield from (name for name in (*self.allow, *self.deny) if _look_up_known_sid(name) is None)

    def check(self, kind: type[IntFlag]) -> None:
        """Check the names of the rights.

        Args:
            kind: class of the masks.

        Raises:
            ValueError: a name is unknown.
        """
        for names in (*self.allow.values(), *self.deny.values()):
            mask_of(names, kind)

    def build_descriptor(
        self, kind: type[IntFlag], sids: Mapping[str, Sid], domain: Sid | None
    ) -> SecurityDescriptor:
        """Return the rights as a descriptor with MSMQ's masks.

        Args:
            kind: class of the masks.
            sids: name of an account, lower case -> its SID.
            domain: SID of the domain, for aliases in SDDL.

        Raises:
            ValueError: the SDDL cannot be used, or an account is not in `sids`.
        """
        if self.sddl is not None:
            return _of_sddl(self.sddl, domain)
        masks: dict[tuple[AceType, Sid], int] = {}
        for ace_type, rights in (
            (AceType.ACCESS_DENIED, self.deny),
            (AceType.ACCESS_ALLOWED, self.allow),
        ):
            for account, names in rights.items():
                sid = _look_up_known_sid(account) or sids.get(account.lower())
                if sid is None:
                    raise ValueError(f"the directory has no account {account}, or several of that name")
                key = (ace_type, sid)
                masks[key] = masks.get(key, 0) | mask_of(names, kind)
        aces = [Ace(ace_type, 0, mask, sid) for (ace_type, sid), mask in masks.items() if mask]
        return SecurityDescriptor.build(dacl=aces)


def _of_sddl(text: str, domain: Sid | None) -> SecurityDescriptor:
    descriptor = SecurityDescriptor.from_sddl(text, domain)
    if descriptor.dacl is None:
        raise ValueError("rights in SDDL need a list D: with entries; without one everybody has all rights")
    if descriptor.sacl is not None:
        raise ValueError("rights in SDDL have no list S: auditing stays as it is")
    own = [ace for ace in descriptor.dacl.aces if not ace.inherited]
    return SecurityDescriptor.build(
        owner=descriptor.owner,
        group=descriptor.group,
        dacl=own,
        control=descriptor.control & DescriptorControl.DACL_PROTECTED,
    )


def mask_of(names: Sequence[str], kind: type[IntFlag]) -> int:
    """Return the mask of some rights.

    Args:
        names: of the rights, in any case.
        kind: class of the masks.

    Raises:
        ValueError: a name is unknown.
    """
    mask_by_name = {
        **_SHORT[kind],
        FULL_CONTROL: int(kind["GENERIC_ALL"]),
        **{n: int(m) for n, m in kind.__members__.items()},
    }
    by_key = {name.lower(): mask for name, mask in mask_by_name.items()}
    mask = 0
    for name in names:
        if name.lower() not in by_key:
            raise ValueError(f"there is no right {name!r}{suggest_name(name, tuple(mask_by_name))}")
        mask |= by_key[name.lower()]
    return mask


def _look_up_known_sid(account: str) -> Sid | None:
    """Return the SID of an account that needs no look-up.

    Raises:
        ValueError: the account begins like a SID, and is none.
    """
    if account[:2].upper() == "S-":
        return Sid.parse(account)
    return _WELL_KNOWN.get(account.replace("_", " ").casefold())


@dataclass(frozen=True, slots=True)
class RightsForm:
    """Form of declared rights in the entries of a class.

    Attributes:
        profile: of the server.
        ldap_class: class of the entries.
    """

    profile: Profile
    ldap_class: str

    def build_stored(self, declared: SecurityDescriptor, present: bytes | None) -> bytes:
        """Return the descriptor to be stored.

        What the rights do not say stays: owner, group, SACL, protection and inherited entries. A server that
        hides SACLs keeps parts that are not sent, so that they are not sent to it.

        Args:
            declared: the rights, with MSMQ's masks.
            present: the descriptor of the entry; None: it has none, or does not exist.

        Raises:
            DecodeError: the present descriptor is damaged.
        """
        image = self.profile.encode_security(self.ldap_class, bytes(declared))
        translated = SecurityDescriptor.from_bytes(image)
        old = SecurityDescriptor() if present is None else SecurityDescriptor.from_bytes(present)
        control = translated.control | (old.control & DescriptorControl.DACL_PROTECTED)
        if self.profile.hides_sacls:
            return bytes(replace(translated, control=control))
        own = () if translated.dacl is None else translated.dacl.aces
        inherited = () if old.dacl is None else tuple(ace for ace in old.dacl.aces if ace.inherited)
        return bytes(
            replace(
                old,
                control=old.control | control,
                owner=translated.owner or old.owner,
                group=translated.group or old.group,
                dacl=Acl.of((*own, *inherited)),
            )
        )

    def build_shown(self, image: bytes) -> bytes:
        """Return the owner and the own entries of a stored descriptor, with MSMQ's masks.

        Raises:
            DecodeError: it is damaged.
        """
        descriptor = SecurityDescriptor.from_bytes(self.profile.decode_security(self.ldap_class, image))
        own = None if descriptor.dacl is None else [ace for ace in descriptor.dacl.aces if not ace.inherited]
        return bytes(SecurityDescriptor.build(owner=descriptor.owner, dacl=own))
