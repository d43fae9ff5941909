"""Options of the data source: checked, and never a secret."""

import pickle

import pytest

from mqdssm.directory.filters import (
    FILTER_DEPTH_MAX,
    TRUE,
    And,
    GreaterOrEqual,
    Substrings,
    all_of,
    encode,
)
from mqdssm.errors import ConfigError
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.spark.options import NAMES, SourceOptions

SECRET = "s3cr3t-never-shown"


def options(**given: str) -> dict[str, str]:
    return {"object": "Queue", "url": "ldap://127.0.0.1:389", **given}


def test_everything_that_can_be_said_is_kept() -> None:
    parsed = SourceOptions.parse(
        options(
            object="queue-manager",
            columns="ComputerName, Identifier",
            url="ldap://a ldaps://b",
            user="cn=reader",
            credentialsfile="/run/secret",
            tls="starttls",
            cafile="/etc/ca.pem",
            profile="openldap",
            filter=" (&(cn=a*)(mSMQQuota>=5)) ",
            base="CN=Computers, DC=a",
            numpartitions="4",
            pagesize="500",
            pushdown="True",
            authentication="kerberos",
            keytab="/etc/reader.keytab",
            kerberoshost="dc1.contoso.test",
        )
    )
    assert parsed.object == "queue-manager"
    assert parsed.filter == And((Substrings("cn", initial=b"a"), GreaterOrEqual("mSMQQuota", b"5")))
    assert (parsed.base, parsed.numpartitions, parsed.pushdown) == ("CN=Computers,DC=a", 4, True)
    assert [column.name for column in parsed.columns] == ["ComputerName", "Identifier"]
    assert parsed.access == DirectoryAccess(
        urls=("ldap://a", "ldaps://b"),
        user="cn=reader",
        password_file="/run/secret",
        tls="starttls",
        ca_file="/etc/ca.pem",
        profile="openldap",
        authentication="kerberos",
        keytab="/etc/reader.keytab",
        kerberos_host="dc1.contoso.test",
        page_size=500,
    )


def test_what_is_left_out_or_empty_has_a_default() -> None:
    parsed = SourceOptions.parse(options(user="", tls="", columns="", profile=""))
    assert parsed.access == DirectoryAccess(urls=("ldap://127.0.0.1:389",))
    assert parsed.access.password() is None
    assert (parsed.filter, parsed.base, parsed.numpartitions) == (None, None, 1)
    assert not parsed.pushdown
    assert "Pathname" in [column.name for column in parsed.columns]


def test_raw_entries() -> None:
    parsed = SourceOptions.parse(options(object="ldap", attributes="*, entryUUID;x-a"))
    assert parsed.attributes == ("*", "entryUUID;x-a")
    assert parsed.frame is FRAME_TYPES["ldap"]
    assert SourceOptions.parse(options(object="LDAP")).attributes == ("*",)


def test_names_in_any_case() -> None:
    assert SourceOptions.parse({"URL": "ldap://a", "Object": "Site"}).object == "site"


@pytest.mark.parametrize(
    "name", ["password", "bindpw", "Passwd", "secret", "authToken", "credentials", "pwd", "userPassword"]
)
def test_a_literal_secret_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse(options(**{name: SECRET}))
    assert "credentialsfile" in str(caught.value)
    assert "credentialsenv" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("begin", ["ldap://", "ldaps:", "ldap:/", "", "ldap://good ldap://bad/"])
def test_a_secret_in_the_url_is_refused_and_not_repeated(begin: str) -> None:
    with pytest.raises(ConfigError, match="credentialsfile") as caught:
        SourceOptions.parse(options(url=f"{begin}admin:{SECRET}@host"))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["ldap://[::1", "ldap://a:x", "a", "http://a", "ldap://a/dc=b", "ldap://a ldap:"]
)
def test_what_is_no_url_is_refused_before_any_worker_sees_it(url: str) -> None:
    with pytest.raises(ConfigError, match=r"LDAP URL|only scheme, host and port"):
        SourceOptions.parse(options(url=url))


def test_a_filter_leaves_room_for_what_comes_around_it() -> None:
    """A filter that is refused when it is sent would fail in a worker, with a traceback."""
    deep = SourceOptions.parse(options(filter="(!" * (FILTER_DEPTH_MAX - 3) + "(cn=a)" + ")" * 97)).filter
    assert deep is not None
    encode(all_of(TRUE, all_of(deep, TRUE)))
    with pytest.raises(ConfigError, match="nests deeper"):
        SourceOptions.parse(options(filter="(!" * (FILTER_DEPTH_MAX - 2) + "(cn=a)" + ")" * 98))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"object": ""}, "option object is missing"),
        ({"url": " "}, "option url is missing"),
        ({"object": "Machine"}, "'Machine' is no type"),
        ({"columns": "Label,Labl"}, "Labl"),
        ({"columns": "Label,Label"}, "twice"),
        ({"tls": "maybe"}, "use one of ldaps, starttls, none"),
        ({"colums": "Label"}, "unknown option colums"),
        ({"credentialsfile": "a", "credentialsenv": "B"}, "exclude each other"),
        ({"filter": "(cn=a"}, "'\\)' is missing"),
        ({"filter": "cn=a"}, "'\\(' is missing"),
        ({"base": "no DN"}, "no DN"),
        ({"numpartitions": "0"}, "a number from 1 to 256"),
        ({"numpartitions": "many"}, "a number from 1 to 256"),
        ({"pagesize": "1000000"}, "a number from 1 to 100000"),
        ({"pushdown": "yes"}, "use true or false"),
        ({"authentication": "magic"}, "use one of simple, spnego"),
        ({"attributes": "cn"}, "option attributes is for object ldap"),
        ({"object": "ldap", "attributes": "c n"}, "no attribute description"),
        ({"object": "ldap", "columns": "dn,cn"}, "ldap has no column 'cn'"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SourceOptions.parse(options(**given))


def test_printing_and_pickling_shows_no_secret(tmp_path) -> None:
    file = tmp_path / "password"
    file.write_text(SECRET)
    parsed = SourceOptions.parse(options(credentialsfile=str(file)))
    assert parsed.access.password() == SECRET
    assert SECRET not in repr(parsed)
    assert SECRET.encode() not in pickle.dumps(parsed)
    assert pickle.loads(pickle.dumps(parsed)) == parsed


def test_password_of_the_environment(monkeypatch) -> None:
    parsed = SourceOptions.parse(options(credentialsenv="MQDSSM_TEST_PASSWORD"))
    monkeypatch.setenv("MQDSSM_TEST_PASSWORD", SECRET)
    assert parsed.access.password() == SECRET


def test_no_option_is_a_password() -> None:
    assert not [name for name in NAMES if "pass" in name or "pw" in name]
