"""Names of accounts that a domain controller alone does not show: trusted domains, the catalog."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mqdssm.diagnostics.accounts import AccountDirectory
from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, LdapFilter
from mqdssm.errors import ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.wire.sid import Sid

TRUSTED = Sid("S-1-5-21-7-7-7")
ANN = Sid("S-1-5-21-7-7-7-1105")
OTHER = Sid("S-1-5-21-8-8-8-1105")


def entry(dn: str, **values: bytes) -> Entry:
    return Entry(dn, {key.lower(): [value] for key, value in values.items()})


class FakeSession:
    """Entries found by equalities, joined by one AND or OR."""

    def __init__(self, *entries: Entry, catalog: Any = None) -> None:
        self.entries = entries
        self.catalog = catalog
        self.naming = SimpleNamespace(root="DC=a", default=DN.parse("DC=a,DC=test"), configuration="CN=c")

    def find(self, _base: str, search_filter: LdapFilter, _attributes: Any) -> Iterator[Entry]:
        operands = search_filter.operands if hasattr(search_filter, "operands") else (search_filter,)
        decides = all if isinstance(search_filter, And) else any
        for one in self.entries:
            if decides(
                isinstance(each, Equal) and each.value in one.all(each.attribute) for each in operands
            ):
                yield one


def accounts(*entries: Entry, catalog: Any = None) -> AccountDirectory:
    return AccountDirectory(FakeSession(*entries, catalog=catalog))  # type: ignore[arg-type]


TRUST = entry("CN=x", objectClass=b"trustedDomain", securityIdentifier=bytes(TRUSTED), flatName=b"PARTNER")
FOREIGN = entry("CN=S-1", objectClass=b"foreignSecurityPrincipal", objectSid=bytes(ANN), cn=b"S-1")


def test_accounts_of_trusted_domains_have_the_name_of_their_domain() -> None:
    found = accounts(TRUST, FOREIGN).by_sid(ANN)
    assert (found.name, found.kind, found.dn) == ("PARTNER\\1105", "foreign", "CN=S-1")
    assert accounts(TRUST).by_sid(Sid("S-1-5-21-7-7-7-512")).name == "PARTNER\\Domain Admins"
    assert accounts(TRUST).by_sid(OTHER).title == OTHER.text


def test_the_catalog_knows_accounts_of_the_forest() -> None:
    catalog = FakeSession(entry("CN=ann", objectClass=b"user", objectSid=bytes(OTHER), sAMAccountName=b"ann"))
    found = accounts(FOREIGN, catalog=catalog).by_sid(OTHER)
    assert (found.name, found.kind, found.title) == ("ann", "user", f"ann ({OTHER})")


def test_well_known_names() -> None:
    nobody = accounts()
    assert [nobody.find(name).sid.text for name in ("everyone", "Owner Rights", "S-1-5-11")] == [
        "S-1-1-0",
        "S-1-3-4",
        "S-1-5-11",
    ]
    assert nobody.by_sid(Sid("S-1-5-32-545")).name == "Builtin Users"


def test_one_name_of_several_accounts_is_refused() -> None:
    two = [
        entry(f"CN={n}", objectClass=b"user", objectSid=bytes(Sid(f"S-1-5-21-1-1-1-{n}")), cn=b"ann")
        for n in (1, 2)
    ]
    with pytest.raises(ObjectNotFound, match="several accounts have this name"):
        accounts(*two).find("ann")
    exact = entry("CN=3", objectClass=b"user", objectSid=bytes(OTHER), sAMAccountName=b"ann", cn=b"x")
    assert accounts(*two, exact).find("A\\ann").sid == OTHER
    with pytest.raises(ObjectNotFound, match="no such account with a SID"):
        accounts(entry("CN=1", objectClass=b"user", cn=b"ann")).find("ann")


def test_an_account_of_another_domain_is_not_the_one_of_this_domain() -> None:
    ann = entry("CN=ann", objectClass=b"user", objectSid=bytes(OTHER), sAMAccountName=b"ann")
    here = entry("CN=A", objectClass=b"crossRef", nETBIOSName=b"ACORP", nCName=b"dc=A,dc=Test")
    there = entry("CN=B", objectClass=b"crossRef", nETBIOSName=b"BCORP", nCName=b"DC=b,DC=test")
    found = AccountDirectory(FakeSession(ann, here, there))  # type: ignore[arg-type]
    for name in ("A\\ann", "a.test\\ann", "ACORP\\ann", "BUILTIN\\ann", "ann"):
        assert found.find(name).sid == OTHER
    for name in ("BCORP\\ann", "b.test\\ann", "PARTNER\\ann"):
        with pytest.raises(ObjectNotFound, match=r"is not the domain of this directory, a\.test"):
            found.find(name)
