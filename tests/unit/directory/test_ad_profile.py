"""What is special about domain controllers, as far as it can be told without one."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from mqdssm.directory.entries import Entry, PartialValues
from mqdssm.directory.filters import LdapFilter, to_text
from mqdssm.directory.profile import Naming, choose
from mqdssm.directory.profiles import PROFILES, extended_dn
from mqdssm.directory.profiles.active_directory import ActiveDirectory
from mqdssm.directory.requests import SearchScope
from mqdssm.directory.responses import LdapResult
from mqdssm.errors import (
    ConfigError,
    DecodeError,
    DirectoryError,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectNotFound,
)
from mqdssm.model.dn import DN
from mqdssm.wire.dtyp import Ace, AceFlags, SecurityDescriptor, Sid, allow

AD = ActiveDirectory()
GUID = UUID("68f32679-6a34-437f-a30c-563cc7a5e002")
USER = Sid("S-1-5-21-1-2-3-1104")
GROUP = Sid("S-1-5-21-1-2-3-513")


def root_dse(**attributes: list[bytes]) -> Entry:
    contexts = {
        "defaultNamingContext": [b"DC=contoso,DC=test"],
        "rootDomainNamingContext": [b"DC=contoso,DC=test"],
        "configurationNamingContext": [b"CN=Configuration,DC=contoso,DC=test"],
        "schemaNamingContext": [b"CN=Schema,CN=Configuration,DC=contoso,DC=test"],
        "supportedCapabilities": [b"1.2.840.113556.1.4.800", b"1.2.840.113556.1.4.1670"],
        "supportedControl": [b"1.2.840.113556.1.4.529"],
    }
    return Entry("", {name.lower(): values for name, values in (contexts | attributes).items()})


def dn(text: str) -> DN:
    return DN.parse(text)


class TestNaming:
    def test_recognised_by_its_capability(self) -> None:
        assert choose(root_dse(), "auto", PROFILES).name == "activedirectory"
        assert choose(root_dse(), "ActiveDirectory", PROFILES).name == "activedirectory"
        assert not AD.matches(root_dse(supportedCapabilities=[b"1.2.840.113556.1.4.1851"]))

    def test_not_as_another_kind_of_server(self) -> None:
        with pytest.raises(ConfigError, match=r"the server is Active Directory.*use 'activedirectory'"):
            choose(root_dse(), "openldap", PROFILES)
        # a kind that nobody knows may be called what it behaves like
        assert choose(root_dse(supportedCapabilities=[]), "openldap", PROFILES).name == "openldap"

    def test_contexts_are_apart_though_their_names_are_not(self) -> None:
        naming = AD.naming(root_dse(), None)
        assert naming.root == naming.forest == naming.default == dn("DC=contoso,DC=test")
        # a search below the domain does not come to the configuration: both must be searched
        assert naming.guid_bases == (dn("DC=contoso,DC=test"), dn("CN=Configuration,DC=contoso,DC=test"))

    @pytest.mark.spec("MS-MQDSSM 3.1.6.15")
    def test_a_child_domain(self) -> None:
        told = root_dse(defaultNamingContext=[b"DC=eu,DC=contoso,DC=test"])
        assert AD.naming(told, None).root == dn("DC=contoso,DC=test")
        chosen = AD.naming(told, "DC=eu,DC=contoso,DC=test")
        assert chosen.root == chosen.default == dn("DC=eu,DC=contoso,DC=test")
        assert chosen.guid_bases == (
            dn("DC=contoso,DC=test"),
            dn("DC=eu,DC=contoso,DC=test"),
            dn("CN=Configuration,DC=contoso,DC=test"),
        )

    def test_part_of_the_domain(self) -> None:
        chosen = AD.naming(root_dse(), "OU=Plant,DC=contoso,DC=test")
        assert chosen.guid_bases == AD.naming(root_dse(), None).guid_bases

    def test_nothing_told(self) -> None:
        with pytest.raises(GenericDirectoryError, match="configuration"):
            AD.naming(Entry("", {}), None)


class TestSearching:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.19")
    def test_guid_is_a_name_of_its_own(self) -> None:
        target = AD.build_guid_target(AD.naming(root_dse(), None), GUID)
        assert target.bases == (f"<GUID={GUID}>",)
        assert target.scope is SearchScope.BASE
        assert target.filter.value == GUID.bytes_le  # type: ignore[union-attr]

    def test_a_guid_that_could_not_be_kept_is_looked_for_afterwards(self) -> None:
        kept = AD.build_guid_target(AD.naming(root_dse(), None), GUID).otherwise
        assert kept is not None
        assert kept.bases == ("DC=contoso,DC=test", "CN=Configuration,DC=contoso,DC=test")
        assert to_text(kept.filter).startswith("(mSMQOwnerID=")
        assert kept.otherwise is None

    def test_classes(self) -> None:
        assert to_text(AD.build_class_filter("mSMQQueue")) == "(objectClass=mSMQQueue)"
        assert to_text(AD.build_class_filter("user")) == "(&(objectCategory=person)(objectClass=user))"
        assert to_text(AD.build_class_filter("computer")) == "(objectCategory=computer)"

    def test_names(self) -> None:
        assert to_text(AD.build_computer_filter("web(01)")) == (
            "(&(objectCategory=computer)(|(sAMAccountName=web\\2801\\29$)(cn=web\\2801\\29)))"
        )
        assert to_text(AD.build_dn_filter("CN=a,DC=r")) == "(distinguishedName=CN=a,DC=r)"

    def test_long_names_are_refused(self) -> None:
        AD.check_name(f"CN={'a' * 64},DC=r")
        for name in ("a" * 65, "\N{SLIGHTLY SMILING FACE}" * 33):
            with pytest.raises(ValueError, match="allows 64"):
                AD.check_name(f"CN={name},DC=r")

    def test_searches_of_a_domain_bring_no_references(self) -> None:
        (control,) = AD.search_controls()
        assert (control.oid, control.critical, control.value) == ("1.2.840.113556.1.4.1339", False, None)

    def test_each_class_is_searched_for_where_it_can_be(self) -> None:
        naming = AD.naming(root_dse(), "DC=eu,DC=contoso,DC=test")
        configuration = dn("CN=Configuration,DC=contoso,DC=test")
        assert naming.list_bases(configuration=True) == (configuration,)
        assert configuration not in naming.list_bases(configuration=False)
        assert len(AD.naming(root_dse(), None).list_bases(configuration=False)) == 1


class TestSecurity:
    def test_reading_asks_for_three_parts(self) -> None:
        (control,) = AD.read_controls(["cn", "NTSecurityDescriptor"])
        assert (control.oid, control.critical) == ("1.2.840.113556.1.4.801", True)
        assert control.value == b"\x30\x03\x02\x01\x07"
        assert AD.read_controls(["cn"]) == ()

    @pytest.mark.parametrize(
        ("parts", "flags"),
        [
            ({"owner": USER}, 1),
            ({"group": USER}, 2),
            ({"dacl": [allow(USER, 1)]}, 4),
            ({"owner": USER, "dacl": []}, 5),
            ({"dacl": [], "sacl": []}, 12),
        ],
    )
    def test_writing_names_the_parts_that_are_there(self, parts: dict[str, Any], flags: int) -> None:
        image = bytes(SecurityDescriptor.build(**parts))
        (control,) = AD.write_controls({"nTSecurityDescriptor": [image], "cn": [b"x"]})
        assert control.value == bytes((0x30, 3, 2, 1, flags))
        assert AD.write_controls({"cn": [b"x"]}) == ()
        assert AD.write_controls({"nTSecurityDescriptor": []}) == ()

    def test_masks_are_translated_for_objects_of_msmq(self) -> None:
        image = bytes(SecurityDescriptor.build(dacl=[allow(USER, 0x20)]))
        stored = AD.encode_security("mSMQQueue", image)
        assert SecurityDescriptor.from_bytes(stored).explicit_aces()[0].mask == 0x94
        assert AD.decode_security("mSMQQueue", stored) == image
        assert AD.encode_security("user", image) == image
        assert AD.decode_security("user", image) == image
        with pytest.raises(DecodeError):
            AD.decode_security("site", b"rubbish")


class Directory:
    """What a session would answer."""

    def __init__(self, *entries: Entry, token: Sequence[Sid] = (), heuristics: bytes | None = None) -> None:
        self.naming: Naming = AD.naming(root_dse(), None)
        self.entries = entries
        self.token = token
        self.heuristics = heuristics
        self.wanted: list[str] = []

    def bound_name(self) -> None:
        raise AssertionError("domain controllers do not tell it in a way that helps")

    def get(self, target: Any, attributes: Sequence[str]) -> Entry:
        if str(target) == "":
            return Entry("", {"tokengroups": [bytes(sid) for sid in self.token]})
        assert str(target).startswith("CN=Directory Service,CN=Windows NT,CN=Services,CN=Configuration,")
        if self.heuristics is None:
            raise ObjectNotFound("hidden")
        return Entry(str(target), {"dsheuristics": [self.heuristics]} if self.heuristics else {})

    def find(self, base: Any, wanted: LdapFilter, attributes: Sequence[str]) -> Iterator[Entry]:
        self.wanted.append(to_text(wanted))
        return iter(self.entries)


class TestIdentity:
    def test_the_account_among_its_groups(self) -> None:
        account = Entry("CN=u", {"objectsid": [bytes(USER)]})
        directory = Directory(account, token=[Sid("S-1-1-0"), GROUP, USER, Sid("S-1-5-32-545")])
        assert AD.bound_sid(directory) == str(USER)
        assert "objectClass=user" in directory.wanted[0]

    def test_an_account_of_another_domain(self) -> None:
        assert AD.bound_sid(Directory(token=[USER, GROUP])) == str(USER)

    def test_nobody(self) -> None:
        assert AD.bound_sid(Directory(token=[Sid("S-1-5-7"), Sid("S-1-1-0")])) is None

    @pytest.mark.parametrize(
        ("heuristics", "keeps"),
        [
            (b"00000000011", True),
            (b"0000000001", False),
            (b"00000000010", False),
            (b"", False),
            (None, False),
        ],
    )
    def test_whether_guids_are_kept(self, heuristics: bytes | None, keeps: bool) -> None:
        assert AD.keeps_guids(Directory(heuristics=heuristics)) is keeps

    def test_what_goes_with_an_add(self) -> None:
        guid = uuid4()
        assert AD.identity("mSMQQueue", None, keeps_guids=False) == {}
        assert AD.identity("mSMQQueue", None, keeps_guids=True) == {}
        assert AD.identity("site", guid, keeps_guids=True) == {"objectGUID": (guid.bytes_le,)}
        assert AD.identity("mSMQQueue", guid, keeps_guids=False) == {"mSMQOwnerID": (guid.bytes_le,)}
        assert AD.identity("site", guid, keeps_guids=False) == {}
        for ldap_class in ("mSMQConfiguration", "mSMQSettings"):
            assert AD.identity(ldap_class, guid, keeps_guids=False) == {"mSMQOwnerID": (guid.bytes_le,)}

    @pytest.mark.parametrize(
        ("code", "refuses"), [(19, True), (50, True), (53, True), (32, False), (68, False)]
    )
    def test_which_refusals_may_be_of_the_guid(self, code: int, refuses: bool) -> None:
        assert AD.is_guid_refusal(GenericDirectoryError("refused", ldap_code=code)) is refuses

    def test_whether_a_change_was_made(self) -> None:
        def image(*granted: Ace, owner: Sid | None = None) -> bytes:
            return bytes(SecurityDescriptor.build(owner=owner, dacl=granted))

        inherited = allow(GROUP, 0x10, AceFlags.INHERITED)
        found = {
            "ntsecuritydescriptor": [image(allow(USER, 0x20), inherited, owner=GROUP)],
            "msmqlabelex": [b"a"],
        }
        sent = {"nTSecurityDescriptor": [image(allow(USER, 0x20))]}
        assert AD.holds(found, sent)
        assert AD.holds(found, sent | {"mSMQLabelEx": [b"a"]})
        assert not AD.holds(found, sent | {"mSMQLabelEx": [b"b"]})
        assert not AD.holds(found, {"nTSecurityDescriptor": [image(allow(USER, 0x10))]})
        assert not AD.holds(found, {"nTSecurityDescriptor": [image(allow(USER, 0x20), owner=USER)]})
        assert not AD.holds({}, sent)  # hidden, or gone
        twice = {"ntsecuritydescriptor": found["ntsecuritydescriptor"] * 2}
        assert not AD.holds(twice, sent)
        assert not AD.holds(twice, {"nTSecurityDescriptor": sent["nTSecurityDescriptor"] * 2})
        both = found | {"ntsecuritydescriptor": [bytes(SecurityDescriptor.build(owner=GROUP, group=USER))]}
        for group, same in ((USER, True), (GROUP, False)):
            wanted = {"nTSecurityDescriptor": [bytes(SecurityDescriptor.build(group=group))]}
            assert AD.holds(both, wanted) is same


class TestExplanations:
    @pytest.mark.parametrize(
        ("result", "kind", "words"),
        [
            (
                LdapResult(19, "", "000020B5: AtrErr: DSID-03152395, #1:"),
                GenericDirectoryError,
                "does not exist",
            ),
            (LdapResult(1, "", "000004DC: LdapErr: DSID-0C090A5C"), GenericDirectoryError, "logged in"),
            (LdapResult(66, "", "00002015: UpdErr: DSID-031A1236"), GenericDirectoryError, "below it"),
            (LdapResult(64, "", "00002099: NameErr: DSID-0305"), GenericDirectoryError, "this place"),
            (LdapResult(64, "", "naming violation"), GenericDirectoryError, "this place"),
            (LdapResult(19, "", "0000051B: AtrErr: DSID-03190F80"), GenericDirectoryError, "owner"),
            (LdapResult(10, "", "0000202B: RefErr: DSID-0310"), ObjectNotFound, "another domain"),
            (
                LdapResult(53, "", "modify forbidden on global catalog port"),
                GenericDirectoryError,
                "global catalog",
            ),
            (
                LdapResult(53, "", "replmd_add: it's not allowed to add an object with objectGUID!"),
                GenericDirectoryError,
                "makes objectGUIDs itself",
            ),
            (LdapResult(19, "", "duplicate objectGUID"), ObjectAlreadyExists, "same objectGUID"),
        ],
    )
    def test_special_ones(self, result: LdapResult, kind: type[DirectoryError], words: str) -> None:
        error = AD.explain(result, "add", "CN=a,DC=r")
        assert type(error) is kind
        assert words in str(error)
        assert error.ldap_code == result.code
        assert error.server_text == result.text
        assert error.hint

    @pytest.mark.parametrize(
        "result",
        [
            LdapResult(32, "", "0000208D: NameErr: DSID-0310028D, problem 2001 (NO_OBJECT)"),
            LdapResult(68, "", "00002071: UpdErr"),
            LdapResult(50, "", "00002098: SecErr: DSID-03150F94"),
            LdapResult(53, "", ""),
            LdapResult(19, "", "deadbeef"),
        ],
    )
    def test_all_others_are_left_to_the_general_rule(self, result: LdapResult) -> None:
        assert AD.explain(result, "read", "CN=a,DC=r") is None


class TestExtendedNames:
    CN = b"CN=RA,CN=Sites,CN=Configuration,DC=r"

    def test_control(self) -> None:
        (control,) = AD.build_references_control(root_dse(), {"mSMQSite1": ()})
        assert (control.oid, control.value) == ("1.2.840.113556.1.4.529", b"\x30\x03\x02\x01\x01")
        assert AD.build_references_control(root_dse(), {}) == ()
        assert AD.build_references_control(root_dse(supportedControl=[]), {"mSMQSite1": ()}) == ()

    def test_a_row(self) -> None:
        extended = b"<GUID=" + str(GUID).encode() + b">;" + self.CN
        with_sid = b"<GUID=" + str(GUID).encode() + b">;<SID=S-1-5-21-1-2-3-4>;CN=a,DC=r"
        deleted = b"<GUID=" + str(GUID).encode() + b">;CN=RB\\0ADEL:a7c7243f-0000,CN=Sites,DC=r"
        columns = ["mSMQCost", "mSMQSite1", "mSMQSiteGates", "mSMQSite2", "description"]
        row = (
            "<GUID=" + str(GUID) + ">;CN=link,DC=r",
            b"5",
            extended,
            [with_sid, deleted],
            None,
            b"<GUID=x>",
        )
        dn_text, cost, site, gates, nothing, text, told = extended_dn.make_plain_row(row, columns)
        assert (dn_text, cost, site, nothing, text) == ("CN=link,DC=r", b"5", self.CN, None, b"<GUID=x>")
        assert gates == [b"CN=a,DC=r", b"CN=RB\\0ADEL:a7c7243f-0000,CN=Sites,DC=r"]
        assert list(told) == ["msmqsite1", "msmqsitegates"]
        assert told["msmqsite1"][0].attributes == {"objectguid": [GUID.bytes_le]}
        assert told["msmqsite1"][0].identity_only
        assert [bool(one.attributes) for one in told["msmqsitegates"]] == [True, False]  # M40

    def test_plain_names_are_left_to_be_looked_up(self) -> None:
        row = extended_dn.make_plain_row(("CN=a", self.CN), ["mSMQSite1"])
        assert row == ("CN=a", self.CN, {"msmqsite1": []})

    def test_parts_stay_parts(self) -> None:
        some = PartialValues([b"<GUID=" + str(GUID).encode() + b">;CN=a"], 1)
        _, cell, _ = extended_dn.make_plain_row(("CN=g", some), ["member"])
        assert isinstance(cell, PartialValues)
        assert (list(cell), cell.next_index) == ([b"CN=a"], 1)

    def test_names_that_are_no_text(self) -> None:
        with pytest.raises(DecodeError):
            extended_dn.make_plain_row(("CN=a", b"<GUID=" + str(GUID).encode() + b">;CN=\xff"), ["mSMQSite1"])


class TestGuard:
    """Changes of the entry that was read, or none (decision M92)."""

    ENTRY = Entry("CN=q,DC=contoso,DC=test", {"objectguid": [GUID.bytes_le], "msmqservicetype": [b"17"]})

    def test_the_object_is_named_by_its_guid_and_old_values_are_deleted(self) -> None:
        guard = AD.guard(self.ENTRY, ["mSMQServiceType", "mSMQDsServices"])
        assert guard.name == f"<GUID={GUID}>"
        assert guard.identity == GUID.bytes_le
        assert guard.old == {"mSMQServiceType": [b"17"], "mSMQDsServices": []}
        assert not guard.controls, "no assertion control there"

    def test_an_entry_that_was_read_without_guid_is_named_by_its_dn(self) -> None:
        assert AD.guard(Entry("CN=q", {}), ()).name == "CN=q"

    @pytest.mark.parametrize(
        ("code", "text", "changed"),
        [
            (16, "attribute 'mSMQServiceType': no matching attribute value while deleting attribute", True),
            (20, "0000200D: SINGLE-VALUE attribute mSMQServiceType specified more than once", True),
            (
                19,
                "00002081: AttErr: DSID-03151DFD, #1: problem 1005 (CONSTRAINT_ATT_TYPE)",
                True,
            ),
            (19, "0000207C: AttErr: DSID-03151DFD", False),
            (0, "", False),
            (50, "00002098: SecErr", False),
        ],
    )
    def test_results_that_say_that_another_value_is_there(self, code: int, text: str, changed: bool) -> None:
        guard = AD.guard(self.ENTRY, ["mSMQServiceType"])
        assert guard.shows_change(LdapResult(code, text=text)) is changed
