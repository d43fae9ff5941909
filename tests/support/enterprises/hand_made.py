"""Objects as Windows writes them, added with plain ldapadd, every attribute spelt out by hand."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from support.servers.plain_ldap import PlainLdap

#: an owner (S-1-5-18), no group, an empty list of rights: 20 bytes of header, then SID and ACL
DESCRIPTOR = (
    bytes.fromhex("0100048014000000000000000000000020000000")
    + bytes.fromhex("010100000000000512000000")
    + bytes.fromhex("0200080000000000")
)
CREATED = "20240229123456.0Z"
CREATED_S = 1709210096
OPERATIONAL = {"instanceType": "4", "uSNCreated": "8196", "whenChanged": "20240301000000.0Z"}


@dataclass(frozen=True)
class Made:
    """A hand-made object."""

    dn: str
    guid: UUID


@dataclass(frozen=True)
class HandMade:
    """Adds objects below one root; extra or changed attributes are given, None leaves one out."""

    ldap: PlainLdap
    root: str

    def add(self, dn: str, ldap_class: str, attributes: Mapping[str, object] | None = None) -> Made:
        """One entry with an objectGUID of its own."""
        made, values = self._entry(dn, ldap_class, attributes or {})
        self.ldap.add(dn, values)
        return made

    def add_many(self, entries: Iterable[tuple[str, str, Mapping[str, object]]]) -> list[Made]:
        """Many entries (DN, class, attributes) with one ldapadd."""
        made, blocks = [], []
        for dn, ldap_class, attributes in entries:
            one, values = self._entry(dn, ldap_class, attributes)
            made.append(one)
            blocks.append((dn, values))
        self.ldap.add_many(blocks)
        return made

    def _entry(
        self, dn: str, ldap_class: str, attributes: Mapping[str, object]
    ) -> tuple[Made, dict[str, Any]]:
        guid = uuid4()
        classes = ["top", "user", "computer"] if ldap_class == "computer" else ["top", ldap_class]
        values: dict[str, Any] = {
            "objectClass": classes,
            "objectGUID": guid.bytes_le,
            **OPERATIONAL,
            **attributes,
        }
        return Made(dn, guid), {name: value for name, value in values.items() if value is not None}

    def computer_dn(self, name: str) -> str:
        return f"CN={name},CN=Computers,{self.root}"

    def machine_dn(self, name: str) -> str:
        return f"CN=msmq,{self.computer_dn(name)}"

    def computer(self, name: str, **attributes: object) -> Made:
        """A computer as a domain join leaves it."""
        given = {
            "sAMAccountName": f"{name}$",
            "dNSHostName": f"{name}.Example.COM",
            "servicePrincipalName": [f"HOST/{name}", f"HOST/{name}.example.com"],
            **attributes,
        }
        return self.add(self.computer_dn(name), "computer", given)

    def queue_manager(
        self, name: str, attributes: Mapping[str, object] | None = None, **computer: object
    ) -> Made:
        """The mSMQConfiguration of a new computer."""
        self.computer(name, **computer)
        return self.add(self.machine_dn(name), "mSMQConfiguration", attributes)

    def queue(self, computer: str, cn: str, attributes: Mapping[str, object] | None = None) -> Made:
        """A mSMQQueue; cn as it stands in a DN."""
        return self.add(f"CN={cn},{self.machine_dn(computer)}", "mSMQQueue", attributes)

    def site(self, name: str, attributes: Mapping[str, object] | None = None) -> Made:
        return self.add(f"CN={name},CN=Sites,CN=Configuration,{self.root}", "site", attributes)

    def link(self, site1: str, site2: str, attributes: Mapping[str, object] | None = None) -> Made:
        """A mSMQSiteLink between two DNs."""
        dn = f"CN={uuid4().hex},CN=MsmqServices,CN=Services,CN=Configuration,{self.root}"
        given = {"mSMQSite1": site1, "mSMQSite2": site2, "mSMQCost": "1", **(attributes or {})}
        return self.add(dn, "mSMQSiteLink", given)

    def user(self, name: str, attributes: Mapping[str, object] | None = None) -> Made:
        return self.add(f"CN={name},CN=Users,{self.root}", "user", attributes)
