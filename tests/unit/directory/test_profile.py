"""What is special about a server, read from its root DSE."""

from typing import Any
from uuid import UUID

import pytest

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import to_text
from mqdssm.directory.profile import Naming, choose, describe
from mqdssm.directory.profiles import PROFILES
from mqdssm.directory.profiles.openldap import OpenLdap
from mqdssm.directory.requests import SearchScope
from mqdssm.directory.responses import LdapResult
from mqdssm.errors import (
    ConfigError,
    DirectoryError,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectNotFound,
)
from mqdssm.model.dn import DN
from mqdssm.wire.dtyp import Sid

OPENLDAP = OpenLdap()
GUID = UUID("68f32679-6a34-437f-a30c-563cc7a5e002")


def root_dse(**attributes: list[bytes]) -> Entry:
    return Entry("", {name.lower(): values for name, values in attributes.items()})


def dn(text: str) -> DN:
    return DN.parse(text)


class TestChoice:
    def test_openldap_by_its_object_class(self) -> None:
        found = choose(root_dse(objectClass=[b"top", b"OpenLDAProotDSE"]), "auto", PROFILES)
        assert (found.name, found.title) == ("openldap", "OpenLDAP")

    def test_unknown_server(self) -> None:
        strange = root_dse(objectClass=[b"top"], vendorName=[b"Acme \xff"], namingContexts=[b"o=a", b"o=b"])
        with pytest.raises(GenericDirectoryError, match="Acme") as caught:
            choose(strange, "auto", PROFILES)
        assert "o=a, o=b" in str(caught.value)
        assert "profile=" in caught.value.hint
        assert choose(strange, "OpenLDAP", PROFILES).name == "openldap"
        assert "shows nothing" in describe(root_dse())

    def test_unknown_name(self) -> None:
        with pytest.raises(ConfigError, match="'auto', 'openldap'"):
            choose(root_dse(), "nds", PROFILES)


class TestNaming:
    def test_from_the_root_dse(self) -> None:
        told = root_dse(
            rootDomainNamingContext=[b"dc=r"],
            defaultNamingContext=[b"dc=d,dc=r"],
            configurationNamingContext=[b"CN=C,dc=r"],
            schemaNamingContext=[b"CN=S,CN=C,dc=r"],
            namingContexts=[b"cn=log", b"dc=r"],
        )
        assert OPENLDAP.naming(told, None) == Naming(
            root=dn("dc=r"),
            configuration=dn("CN=C,dc=r"),
            schema=dn("CN=S,CN=C,dc=r"),
            default=dn("dc=d,dc=r"),
            forest=dn("dc=r"),
        )

    def test_from_what_every_slapd_has(self) -> None:
        naming = OPENLDAP.naming(root_dse(namingContexts=[b"cn=log", b"dc=example,dc=com", b"dc=x"]), None)
        assert naming.root == naming.default == dn("dc=example,dc=com")
        assert naming.configuration == dn("CN=Configuration,dc=example,dc=com")
        assert naming.schema == dn("CN=Schema,CN=Configuration,dc=example,dc=com")

    def test_no_naming_context(self) -> None:
        for contexts in ([], [b"cn=log"], [b""]):
            with pytest.raises(GenericDirectoryError, match="no naming context"):
                OPENLDAP.naming(root_dse(namingContexts=contexts), None)

    def test_naming_context_that_is_no_name(self) -> None:
        for told in (root_dse(namingContexts=[b"nonsense"]), root_dse(rootDomainNamingContext=[b"dc=\xff"])):
            with pytest.raises(GenericDirectoryError, match=r"(?i)namingContexts?"):
                OPENLDAP.naming(told, None)

    def test_another_base(self) -> None:
        told = root_dse(namingContexts=[b"dc=r"])
        inside = OPENLDAP.naming(told, "OU=Elsewhere,DC=R")
        assert inside.root == dn("ou=elsewhere,dc=r")
        assert inside.configuration == dn("CN=Configuration,dc=r")
        assert inside.guid_bases == (dn("dc=r"),)
        outside = OPENLDAP.naming(told, "dc=other")
        assert outside.guid_bases == (dn("dc=r"), dn("dc=other"))
        with pytest.raises(ConfigError):
            OPENLDAP.naming(told, "elsewhere")


class TestSearching:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.19")
    def test_guid_is_an_indexed_equality_in_little_endian(self) -> None:
        target = OPENLDAP.build_guid_target(OPENLDAP.naming(root_dse(namingContexts=[b"dc=r"]), None), GUID)
        assert target.bases == ("dc=r",)
        assert target.scope is SearchScope.SUBTREE
        assert target.filter.value == GUID.bytes_le  # type: ignore[union-attr]

    def test_classes(self) -> None:
        assert to_text(OPENLDAP.build_class_filter("mSMQQueue")) == "(objectClass=mSMQQueue)"
        # a computer is a user to LDAP, as in Active Directory (decision M32)
        assert (
            to_text(OPENLDAP.build_class_filter("user")) == "(&(objectClass=user)(!(objectClass=computer)))"
        )

    def test_names(self) -> None:
        assert to_text(OPENLDAP.build_dn_filter("cn=a,dc=r")) == "(entryDN=cn=a,dc=r)"

    def test_controls(self) -> None:
        offers = root_dse(supportedControl=[b"1.3.6.1.4.1.4203.666.5.16"])
        assert OPENLDAP.read_controls(["nTSecurityDescriptor"]) == ()
        assert OPENLDAP.write_controls(["nTSecurityDescriptor"]) == ()
        assert len(OPENLDAP.build_references_control(offers, {"member": ("cn",)})) == 1
        assert OPENLDAP.build_references_control(offers, {}) == ()
        assert OPENLDAP.build_references_control(root_dse(), {"member": ("cn",)}) == ()

    def test_facts(self) -> None:
        assert OPENLDAP.makes_guid
        assert OPENLDAP.writes_default_security
        assert OPENLDAP.create_time_attributes == ("whenCreated", "createTimestamp")
        assert OPENLDAP.modify_time_attributes == ("modifyTimestamp",)


LONG = f"CN={'ä' * 122},DC=x"


class TestExplanations:
    @pytest.mark.parametrize(
        ("result", "kind", "words"),
        [
            (LdapResult(53, "", "no global superior knowledge"), ObjectNotFound, "outside"),
            (
                LdapResult(19, "", "non-unique attributes found with (|\x00)"),
                ObjectAlreadyExists,
                "objectGUID",
            ),
            (LdapResult(21, "", "objectClass: value #0 invalid per syntax"), GenericDirectoryError, "schema"),
            (LdapResult(80), GenericDirectoryError, "244 bytes, at most 242"),
            (LdapResult(80, "", "txn_commit failed"), GenericDirectoryError, "full"),
        ],
    )
    def test_special_ones(self, result: LdapResult, kind: type[DirectoryError], words: str) -> None:
        error = OPENLDAP.explain(result, "add", LONG)
        assert type(error) is kind
        assert words in str(error)
        assert error.ldap_code == result.code
        assert error.dn == LONG
        assert "\x00" not in str(error)

    def test_a_refusal_without_a_text_and_a_short_name_is_a_full_database(self) -> None:
        error = OPENLDAP.explain(LdapResult(80), "add", "CN=short,DC=x")
        assert error is not None
        assert "full" in str(error)

    @pytest.mark.parametrize(
        ("result", "name"),
        [
            (LdapResult(53, "", "unauthenticated bind"), LONG),
            (LdapResult(19, "", "createTimestamp: no user modification allowed"), LONG),
            (LdapResult(21, "", "mSMQJournal: value #0 invalid per syntax"), LONG),
            (LdapResult(80), "no name at all"),
            (LdapResult(80), None),
            (LdapResult(80, "", "internal error"), LONG),
            (LdapResult(32), LONG),
        ],
    )
    def test_all_others_are_left_to_the_general_rule(self, result: LdapResult, name: str | None) -> None:
        assert OPENLDAP.explain(result, "add", name) is None


class Somebody:
    """A bound identity with an objectSid."""

    def __init__(self, sid: bytes) -> None:
        self._sid = sid

    def bound_name(self) -> str:
        return "CN=me,DC=x"

    def get(self, target: Any, attributes: Any) -> Entry:
        assert (target, attributes) == ("CN=me,DC=x", ["objectSid"])
        return Entry("CN=me,DC=x", {"objectsid": [self._sid]})


class TestBoundSid:
    def test_of_the_bound_entry(self) -> None:
        assert OPENLDAP.bound_sid(Somebody(bytes(Sid.parse("S-1-5-21-1-2-3-1001")))) == "S-1-5-21-1-2-3-1001"

    @pytest.mark.parametrize("damaged", [b"", b"\x01", b"\x01\x05" + bytes(6) + b"cut", b"S-1-5-18"])
    def test_a_damaged_one_counts_as_none(self, damaged: bytes, caplog: pytest.LogCaptureFixture) -> None:
        assert OPENLDAP.bound_sid(Somebody(damaged)) is None
        (warning,) = caplog.messages
        assert "objectSid of CN=me,DC=x counts as none" in warning
