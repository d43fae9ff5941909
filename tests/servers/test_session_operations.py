"""The LDAP operations of [MS-MQDSSM] 3.1.6.12-3.1.6.19 on a real slapd."""

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from support.servers.sessions import container, options_for, scratch

from mqdssm.directory.filters import FALSE, TRUE, And, Equal, Present, any_of
from mqdssm.directory.requests import ChangeType, Modification, SearchScope, encode_modify
from mqdssm.directory.session import Session
from mqdssm.errors import (
    AttributeNotFound,
    DirectoryError,
    GenericDirectoryError,
    ObjectAlreadyExists,
    ObjectChanged,
    ObjectNotFound,
)
from mqdssm.model.dn import DN
from mqdssm.model.enums import DirectoryOperationResult
from mqdssm.testing.openldap import OpenLdapServer


@pytest.fixture(scope="module")
def session(openldap_server: OpenLdapServer) -> Iterator[Session]:
    with Session.open(options_for(openldap_server)) as opened:
        yield opened


@pytest.fixture
def place(session: Session) -> Iterator[str]:
    with scratch(session) as dn:
        yield dn


class TestCreate:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.12")
    def test_object_has_class_attributes_and_guid(self, session: Session, place: str) -> None:
        guid = uuid4()
        session.add(f"CN=a,{place}", container(guid, description=[b"hello"]))
        entry = session.get(f"CN=a,{place}", ["*"])
        assert entry.all("objectClass") == [b"container"]
        assert entry.first("description") == b"hello"
        assert UUID(bytes_le=entry.first("objectGUID") or b"") == guid
        assert entry.all("cn") == [b"a"]

    @pytest.mark.spec("MS-MQDSSM 3.1.6.12")
    def test_is_one_round_trip(self, session: Session, place: str) -> None:
        before = session.round_trips
        session.add(f"CN=a,{place}", container(uuid4()))
        assert session.round_trips == before + 1  # decision M30

    @pytest.mark.spec("MS-MQDSSM 3.1.6.12")
    def test_missing_parent(self, session: Session, place: str) -> None:
        with pytest.raises(ObjectNotFound, match="the deepest object there is") as caught:
            session.add(f"CN=a,CN=nowhere,{place}", container(uuid4()))
        assert caught.value.ldap_code == 32
        assert caught.value.dn == f"CN=a,CN=nowhere,{place}"

    @pytest.mark.spec("MS-MQDSSM 3.1.6.12")
    def test_name_is_taken_and_the_object_stays(self, session: Session, place: str) -> None:
        session.add(f"CN=a,{place}", container(uuid4(), description=[b"first"]))
        with pytest.raises(ObjectAlreadyExists) as caught:
            session.add(f"CN=A,{place}", container(uuid4(), description=[b"second"]))
        assert caught.value.result is DirectoryOperationResult.OBJECT_ALREADY_EXISTS
        assert session.get(f"CN=a,{place}", ["description"]).first("description") == b"first"

    def test_guid_is_taken(self, session: Session, place: str) -> None:
        guid = uuid4()
        session.add(f"CN=a,{place}", container(guid))
        with pytest.raises(ObjectAlreadyExists, match="same objectGUID") as caught:
            session.add(f"CN=b,{place}", container(guid))
        assert caught.value.ldap_code == 19
        assert caught.value.server_text == "non-unique attributes found"

    def test_outside_the_directory(self, session: Session) -> None:
        with pytest.raises(ObjectNotFound, match="outside this directory") as caught:
            session.add("CN=a,DC=elsewhere,DC=org", container(uuid4()))
        assert caught.value.ldap_code == 53

    @pytest.mark.parametrize(
        ("attributes", "code", "words"),
        [
            ({"objectClass": [b"noSuchClass"]}, 21, "schema"),
            ({"objectClass": [b"container"], "noSuchAttribute": [b"1"]}, 17, "schema"),
            ({"objectClass": [b"container"], "mSMQCost": [b"1"]}, 65, "not allowed"),
            ({"objectClass": [b"mSMQSiteLink"]}, 65, "requires"),
            ({"objectClass": [b"container"], "mSMQJournal": [b"true"]}, 21, "invalid per syntax"),
        ],
    )
    def test_what_the_schema_refuses(
        self, session: Session, place: str, attributes: dict[str, list[bytes]], code: int, words: str
    ) -> None:
        with pytest.raises(GenericDirectoryError, match=words) as caught:
            session.add(f"CN=bad,{place}", attributes)
        assert caught.value.ldap_code == code
        with pytest.raises(ObjectNotFound):
            session.get(f"CN=bad,{place}", [])

    def test_name_too_long_for_the_server(self, session: Session, place: str) -> None:
        with pytest.raises(GenericDirectoryError, match=r"name is too long .*243 bytes, at most 242"):
            session.add(f"CN={'x' * 243},{place}", container(uuid4()))
        session.add(f"CN={'x' * 242},{place}", container(uuid4()))

    def test_a_name_is_never_a_fragment_of_a_dn_or_filter(self, session: Session, place: str) -> None:
        names = [
            "*)(objectClass=*",
            "a,CN=b",
            r"\00",
            " leading",
            "#x",
            "a+b=c",
            'q"<>;',
            "trailing ",
            "é€😀",
        ]
        for name in names:
            guid = uuid4()
            session.add(DN.parse(place).child("CN", name), container(guid))
            entry = session.get(guid, ["cn"])
            assert DN.parse(entry.dn) == DN.parse(place).child("CN", name)
            found = list(session.find(place, Equal("cn", name.encode()), [], SearchScope.ONE_LEVEL))
            assert [one.dn for one in found] == [entry.dn]
        assert len(list(session.find(place, TRUE, [], SearchScope.ONE_LEVEL))) == len(names)


class TestDelete:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.13")
    def test_object_is_gone_and_nothing_else(self, session: Session, place: str) -> None:
        session.add(f"CN=a,{place}", container(uuid4()))
        session.add(f"CN=b,{place}", container(uuid4()))
        session.delete(f"CN=a,{place}")
        assert [one.first("cn") for one in session.find(place, TRUE, ["cn"], SearchScope.ONE_LEVEL)] == [b"b"]

    @pytest.mark.spec("MS-MQDSSM 3.1.6.13")
    def test_missing_object_or_parent(self, session: Session, place: str) -> None:
        for dn in (f"CN=a,{place}", f"CN=a,CN=nowhere,{place}"):
            with pytest.raises(ObjectNotFound) as caught:
                session.delete(dn)
            assert caught.value.dn == dn

    @pytest.mark.spec("MS-MQDSSM 3.1.6.13")
    def test_object_with_children_stays(self, session: Session, place: str) -> None:
        session.add(f"CN=a,{place}", container(uuid4()))
        session.add(f"CN=b,CN=a,{place}", container(uuid4()))
        with pytest.raises(GenericDirectoryError, match="objects below it") as caught:
            session.delete(f"CN=a,{place}")
        assert caught.value.ldap_code == 66
        assert session.get(f"CN=b,CN=a,{place}", []).dn

    @pytest.mark.spec("MS-MQDSSM 3.1.6.13")
    def test_name_with_a_comma(self, session: Session, place: str) -> None:
        """The parent is found by a parser, not by cutting at a comma (decision M36)."""
        dn = DN.parse(place).child("CN", "a,b")
        session.add(dn, container(uuid4()))
        session.delete(dn)
        assert list(session.find(place, TRUE, [], SearchScope.ONE_LEVEL)) == []


class TestGet:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.14")
    def test_by_dn_and_by_guid(self, session: Session, place: str) -> None:
        guid = uuid4()
        dn = f"CN=a,{place}"
        session.add(dn, container(guid, description=[b"hello"]))
        for target in (dn, DN.parse(dn), guid):
            entry = session.get(target, ["description", "objectGUID", "displayName"])
            assert DN.parse(entry.dn) == DN.parse(dn)
            assert entry.first("description") == b"hello"
            assert entry.first("objectGUID") == guid.bytes_le
            assert entry.all("displayName") == []  # no value is an empty entry, no error
            assert set(entry.attributes) == {"description", "objectguid"}
            assert session.get(target, ["displayName"]).attributes == {}

    @pytest.mark.spec("MS-MQDSSM 3.1.6.14")
    def test_no_such_object(self, session: Session, place: str) -> None:
        with pytest.raises(ObjectNotFound) as caught:
            session.get(f"CN=a,{place}", ["cn"])
        assert caught.value.result is DirectoryOperationResult.OBJECT_NOT_FOUND
        with pytest.raises(ObjectNotFound):
            session.get(place, ["cn"], object_filter=Equal("objectClass", b"mSMQQueue"))
        assert session.get(place, ["cn"], object_filter=Equal("objectClass", b"container")).first("cn")

    def test_no_attributes_is_not_all_attributes(self, session: Session, place: str) -> None:
        assert session.get(place, []).attributes == {}
        assert "objectclass" in session.get(place, ["*"]).attributes


class TestFindByGuid:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.19")
    def test_in_every_naming_context(self, session: Session, place: str) -> None:
        guid, site = uuid4(), uuid4()
        session.add(f"CN=a,{place}", container(guid))
        site_dn = f"CN={site},CN=Sites,{session.naming.configuration}"
        session.add(site_dn, {"objectClass": [b"site"], "objectGUID": [site.bytes_le]})
        try:
            assert DN.parse(session.get(guid, []).dn) == DN.parse(f"CN=a,{place}")
            assert DN.parse(session.get(site, []).dn) == DN.parse(site_dn)
        finally:
            session.delete(site_dn)

    @pytest.mark.spec("MS-MQDSSM 3.1.6.19")
    def test_octets_are_little_endian_and_unescaped(self, session: Session, place: str) -> None:
        # bytes that are filter syntax when pasted as text: ( ) * \ NUL
        guid = UUID(bytes_le=b"()*\\\x00" + uuid4().bytes[:11])
        session.add(f"CN=a,{place}", container(guid))
        assert session.get(guid, ["cn"]).first("cn") == b"a"
        with pytest.raises(ObjectNotFound):
            session.get(UUID(bytes=guid.bytes_le), [])

    @pytest.mark.spec("MS-MQDSSM 3.1.6.19")
    def test_no_such_guid(self, session: Session) -> None:
        guid = uuid4()
        with pytest.raises(ObjectNotFound, match=str(guid)):
            session.get(guid, [])

    def test_two_objects_of_one_guid(self) -> None:
        server = OpenLdapServer(durable=False, unique=False)
        with server, Session.open(options_for(server)) as session:
            guid = uuid4()
            for name in "ab":
                session.add(f"CN={name},CN=Computers,{server.base_dn}", container(guid))
            with pytest.raises(GenericDirectoryError, match="2 objects are found by one GUID"):
                session.get(guid, [])


class TestSearch:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.15")
    def test_filters_and_scopes(self, session: Session, place: str) -> None:
        for name in "abc":
            session.add(f"CN={name},{place}", container(uuid4(), description=[name.encode()]))
        session.add(f"CN=below,CN=a,{place}", container(uuid4(), description=[b"a"]))

        def names(*arguments: object) -> list[bytes | None]:
            return sorted((one.first("cn") or b"") for one in session.find(place, *arguments))  # type: ignore[arg-type]

        a, b = Equal("description", b"a"), Equal("description", b"b")
        assert names(a, ["cn"]) == [b"a", b"below"]
        assert names(a, ["cn"], SearchScope.ONE_LEVEL) == [b"a"]
        assert names(any_of(a, b), ["cn"]) == [b"a", b"b", b"below"]
        assert names(And((a, b)), ["cn"]) == []
        assert names(FALSE, ["cn"]) == []
        assert len(names(Present("description"), ["cn"])) == 4
        assert len(names(TRUE, ["cn"], SearchScope.BASE)) == 1

    @pytest.mark.spec("MS-MQDSSM 3.1.6.15")
    def test_missing_base(self, session: Session, place: str) -> None:
        with pytest.raises(ObjectNotFound, match="search failed"):
            list(session.find(f"CN=nowhere,{place}", TRUE, []))
        with pytest.raises(ObjectNotFound):
            list(session.rows("DC=elsewhere,DC=org", TRUE, ["cn"]))

    def test_rows_are_what_entries_are(self, session: Session, place: str) -> None:
        for name in "abc":
            values = [b"x", name.encode()] if name != "c" else [b"y"]
            session.add(f"CN={name},{place}", container(uuid4(), description=values))
        rows = sorted(session.rows(place, TRUE, ["cn", "description"], frozenset({"description"})))
        entries = sorted(session.find(place, TRUE, ["cn", "description"]), key=lambda one: one.dn)
        assert [row[0] for row in rows] == [one.dn for one in entries]
        assert [row[1] for row in rows] == [one.first("cn") for one in entries]
        assert [sorted(row[2] or []) for row in rows] == [sorted(one.all("description")) for one in entries]

    def test_bad_attribute_is_refused_before_anything_is_sent(self, session: Session) -> None:
        before = session.round_trips
        for call in (
            lambda: session.find("", TRUE, ["a b"]),
            lambda: session.find("", Equal("a)(b", b"1"), []),
            lambda: session.rows("", TRUE, ["*)"]),
        ):
            with pytest.raises(ValueError):
                call()
        assert session.round_trips == before


class TestReferences:
    @pytest.fixture
    def group(self, session: Session, place: str) -> bytes:
        session.add(f"CN=member,{place}", container(uuid4(), description=[b"me"]))
        members = [f"CN=member,{place}".encode(), f"CN=gone,{place}".encode()]
        session.add(f"CN=group,{place}", {"objectClass": [b"group"], "member": members})
        return b"group"

    def test_are_brought_along_in_the_same_round_trip(
        self, session: Session, place: str, group: bytes
    ) -> None:
        assert session.brings_references
        before = session.round_trips
        wanted = Equal("objectClass", group)
        ((_, name, brought),) = session.rows(place, wanted, ["cn"], references={"member": ("description",)})
        assert session.round_trips == before + 1
        assert name == b"group"
        by_name = {DN.parse(one.dn).name: one.attributes for one in brought["member"]}
        assert by_name == {"member": {"description": [b"me"]}, "gone": {}}

    def test_a_server_without_the_overlay_says_so(self) -> None:
        server = OpenLdapServer(durable=False, deref=False)
        with server, Session.open(options_for(server)) as session:
            assert not session.brings_references
            rows = session.rows(server.base_dn, TRUE, ["cn"], references={"member": ("cn",)})
            assert {row[-1] for row in rows} == {None}


class TestModify:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.16")
    def test_replaces_adds_and_removes(self, session: Session, place: str) -> None:
        dn = f"CN=a,{place}"
        session.add(dn, container(uuid4(), description=[b"1", b"2"], displayName=[b"old"]))
        session.modify(
            dn, {"description": [b"3"], "displayName": [], "mSMQOwnerID": []} | {"name2": []} and {}
        )
        session.modify(dn, {"description": [b"3"], "displayName": []})
        entry = session.get(dn, ["*"])
        assert entry.all("description") == [b"3"]
        assert entry.all("displayName") == []

    @pytest.mark.spec("MS-MQDSSM 3.1.6.16")
    def test_all_or_nothing(self, session: Session, place: str) -> None:
        with pytest.raises(GenericDirectoryError) as caught:
            session.modify(place, {"description": [b"changed"], "mSMQCost": [b"1"]})
        assert caught.value.ldap_code == 65
        assert session.get(place, ["description"]).all("description") == []

    @pytest.mark.spec("MS-MQDSSM 3.1.6.16")
    def test_missing_object(self, session: Session, place: str) -> None:
        with pytest.raises(ObjectNotFound):
            session.modify(f"CN=nobody,{place}", {"description": [b"x"]})

    def test_nothing_to_change_sends_nothing(self, session: Session, place: str) -> None:
        before = session.round_trips
        session.modify(f"CN=nobody,{place}", {})
        assert session.round_trips == before

    @pytest.mark.spec("MS-MQDSSM 3.1.6.17")
    def test_security_descriptor_is_replaced_octet_by_octet(self, session: Session, place: str) -> None:
        first, second = bytes(range(200)), bytes(reversed(range(256)))
        session.modify(place, {"nTSecurityDescriptor": [first]})
        assert session.get(place, ["nTSecurityDescriptor"]).all("nTSecurityDescriptor") == [first]
        session.modify(place, {"nTSecurityDescriptor": [second]})
        assert session.get(place, ["nTSecurityDescriptor"]).all("nTSecurityDescriptor") == [second]
        with pytest.raises(ObjectNotFound):
            session.modify(f"CN=nobody,{place}", {"nTSecurityDescriptor": [first]})


class TestResultCodes:
    @pytest.mark.spec("MS-MQDSSM 2.2.6")
    def test_the_three_that_have_names_and_one_that_has_not(self, session: Session, place: str) -> None:
        def remove(attribute: str) -> None:
            """Remove a value that must be there: a replacement would not mind."""
            change = Modification(ChangeType.DELETE, attribute)
            session._writing.send(
                "modify", place, lambda number: encode_modify(number, place, [change]), lambda *_: False
            )

        session.add(f"CN=a,{place}", container(uuid4()))
        for kind, code, call in (
            (ObjectNotFound, 32, lambda: session.delete(f"CN=b,{place}")),
            (AttributeNotFound, 16, lambda: remove("description")),
            (ObjectAlreadyExists, 68, lambda: session.add(f"CN=a,{place}", container(uuid4()))),
            (GenericDirectoryError, 66, lambda: session.delete(place)),
        ):
            with pytest.raises(kind) as caught:
                call()
            assert caught.value.ldap_code == code
            assert caught.value.result is kind.default_result


class TestRename:
    def test_new_name_and_new_parent(self, session: Session, place: str) -> None:
        guid = uuid4()
        session.add(f"CN=a,{place}", container(guid))
        session.add(f"CN=b,{place}", container(uuid4()))
        session.rename(f"CN=a,{place}", "CN=c")
        session.rename(f"CN=c,{place}", r"CN=c\,d", new_parent=f"CN=b,{place}")
        assert DN.parse(session.get(guid, []).dn) == DN.parse(f"CN=b,{place}").child("CN", "c,d")

    def test_refusals(self, session: Session, place: str) -> None:
        session.add(f"CN=a,{place}", container(uuid4()))
        session.add(f"CN=b,{place}", container(uuid4()))
        with pytest.raises(ObjectAlreadyExists):
            session.rename(f"CN=a,{place}", "CN=b")
        with pytest.raises(ObjectNotFound):
            session.rename(f"CN=x,{place}", "CN=y")
        with pytest.raises(ObjectNotFound):
            session.rename(f"CN=a,{place}", "CN=a", new_parent=f"CN=nowhere,{place}")
        with pytest.raises(ValueError):
            session.rename(f"CN=a,{place}", "no rdn")

    def test_only_the_object_that_was_read(self, session: Session, place: str) -> None:
        session.add(f"CN=a,{place}", container(uuid4()))
        entry = session.get(f"CN=a,{place}", ["objectGUID"])
        session.delete(entry)
        session.add(f"CN=a,{place}", container(uuid4()))
        with pytest.raises(ObjectChanged):
            session.rename(entry, "CN=b")
        entry = session.get(f"CN=a,{place}", ["objectGUID"])
        session.rename(entry, "CN=b")
        guid = UUID(bytes_le=entry.first("objectGUID") or b"")
        assert DN.parse(session.get(guid, []).dn) == DN.parse(f"CN=b,{place}")


class TestRights:
    def test_an_ordinary_user_reads_and_changes_nothing(
        self, openldap_server: OpenLdapServer, place: str
    ) -> None:
        user, password = openldap_server.add_user(f"u{uuid4().hex[:8]}")
        with Session.open(options_for(openldap_server, user=user, password=password)) as ordinary:
            assert ordinary.get(place, ["cn"]).first("cn")
            for change in (
                lambda: ordinary.add(f"CN=x,{place}", container(uuid4())),
                lambda: ordinary.modify(place, {"description": [b"x"]}),
                lambda: ordinary.delete(place),
                lambda: ordinary.rename(place, "CN=other"),
            ):
                with pytest.raises(GenericDirectoryError, match="no right") as caught:
                    change()
                assert caught.value.ldap_code == 50

    def test_anonymous_changes_nothing(self, openldap_server: OpenLdapServer, place: str) -> None:
        with Session.open(options_for(openldap_server, user=None, password=None)) as nobody:
            with pytest.raises(DirectoryError) as caught:
                nobody.modify(place, {"description": [b"x"]})
            assert caught.value.ldap_code == 8
            with pytest.raises(ObjectNotFound):
                nobody.get(place, ["cn"])
            assert nobody.bound_name() is None
            assert nobody.bound_sid() is None

    def test_read_only_sends_nothing(self, openldap_server: OpenLdapServer, place: str) -> None:
        with Session.open(options_for(openldap_server, read_only=True)) as careful:
            before = careful.round_trips
            for change in (
                lambda: careful.add(f"CN=x,{place}", container(uuid4())),
                lambda: careful.modify(place, {"description": [b"x"]}),
                lambda: careful.delete(place),
                lambda: careful.rename(place, "CN=other"),
            ):
                with pytest.raises(GenericDirectoryError, match=r"read only.*nothing was sent"):
                    change()
            assert careful.round_trips == before
            assert careful.get(place, ["cn"]).first("cn")


class TestIdentity:
    def test_sid_of_the_bound_entry(self, openldap_server: OpenLdapServer, session: Session) -> None:
        user, password = openldap_server.add_user(f"u{uuid4().hex[:8]}")
        stored = session.get(user, ["objectSid"]).first("objectSid")
        with Session.open(options_for(openldap_server, user=user, password=password)) as ordinary:
            assert DN.parse(ordinary.bound_name() or "") == DN.parse(user)
            sid = ordinary.bound_sid()
            before = ordinary.round_trips
            assert ordinary.bound_sid() == sid
            assert ordinary.round_trips == before  # asked for once
        from mqdssm.wire.dtyp import Sid

        assert sid == (None if stored is None else str(Sid.from_bytes(stored)))

    def test_root_of_slapd_is_no_entry(self, session: Session) -> None:
        assert session.bound_sid() is None
