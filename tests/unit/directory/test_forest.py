"""The global catalog of a session: where it is, what it may be asked, which names are elsewhere."""

import pytest
from support.servers import answers
from support.servers.proxy import scripted_server

from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.profile import Naming
from mqdssm.directory.profiles.active_directory import CAPABILITY_OID
from mqdssm.directory.session import Session
from mqdssm.errors import ConfigError, GenericDirectoryError
from mqdssm.model.dn import DN

ROOT = DN.parse("DC=contoso,DC=test")
CONFIGURATION = ROOT.child("CN", "Configuration")
NAMING = Naming(
    root=ROOT,
    configuration=CONFIGURATION,
    schema=CONFIGURATION.child("CN", "Schema"),
    default=ROOT,
    forest=ROOT,
    apart=(CONFIGURATION,),
)


@pytest.mark.parametrize(
    ("url", "more", "catalog", "port", "tls"),
    [
        ("ldap://dc1", {}, "ldap://dc1:3268", 3268, "starttls"),
        ("ldap://dc1:1389", {}, "ldap://dc1:3268", 3268, "starttls"),
        ("ldaps://dc1", {}, "ldaps://dc1:3269", 3269, "ldaps"),
        ("ldap://dc1", {"tls": "ldaps"}, "ldap://dc1:3269", 3269, "ldaps"),
        ("ldap://[::1]", {}, "ldap://[::1]:3268", 3268, "starttls"),
        ("ldap://dc1", {"authentication": "spnego"}, "ldap://dc1:3268", 3268, "none"),
        ("ldap://dc1", {"catalog": "ldap://gc"}, "ldap://gc", 3268, "starttls"),
        ("ldap://dc1", {"catalog": ["ldaps://gc:700", "ldap://x"]}, "ldaps://gc:700", 700, "ldaps"),
        ("ldapi://%2Frun%2Fldapi", {"catalog": "ldaps://gc"}, "ldaps://gc", 3269, "ldaps"),
    ],
)
def test_where_it_is(url: str, more: dict[str, object], catalog: str, port: int, tls: str) -> None:
    options = ConnectionOptions.of(url, forest=True, **more).of_catalog  # type: ignore[arg-type]
    first = options.endpoints[0]
    assert (first.url, first.port, first.tls) == (catalog, port, tls)
    assert options.read_only
    assert options.part_only
    assert not options.forest


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("ldapi://%2Frun%2Fldapi", {}, "name it with catalog="),
        ("ldap://dc1", {"naming_context": "DC=x"}, "give one of them"),
        ("ldaps://dc1:3269", {}, "take the port out"),
        ("ldap://dc1", {"catalog": "http://gc"}, "no LDAP URL"),
        ("ldaps://dc1", {"catalog": "ldap://gc", "tls": "none"}, "LDAPS"),
    ],
)
def test_what_cannot_be(url: str, more: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ConnectionOptions.of(url, forest=True, **more)  # type: ignore[arg-type]


def test_no_password_in_clear_text_to_a_catalog() -> None:
    options = {"user": "cn=u", "password": "p", "tls": "none"}
    ConnectionOptions.of("ldap://127.0.0.1", catalog="ldap://10.1.2.3", **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"10\.1\.2\.3 would get the password"):
        ConnectionOptions.of("ldap://127.0.0.1", catalog="ldap://10.1.2.3", forest=True, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dn", "domain"),
    [
        ("CN=q,CN=msmq,CN=a,DC=contoso,DC=test", None),
        ("cn=q,dc=CONTOSO,dc=Test", None),
        ("CN=S,CN=Sites,CN=Configuration,DC=contoso,DC=test", None),
        ("CN=q,DC=eu,DC=contoso,DC=test", "DC=eu,DC=contoso,DC=test"),
        ("CN=q,DC=other", "DC=other"),
        ("DC=@,DC=zone,CN=MicrosoftDNS,DC=contoso,DC=test", None),
    ],
)
def test_which_domain_a_name_is_in(dn: str, domain: str | None) -> None:
    found = NAMING.find_other_domain(DN.parse(dn))
    assert found == (None if domain is None else DN.parse(domain))


def test_a_catalog_is_searched_from_the_top() -> None:
    naming = NAMING.of_catalog
    assert [str(base) for base in naming.guid_bases] == [""]
    assert [str(base) for base in naming.list_bases(configuration=False)] == [""]
    assert naming.configuration == CONFIGURATION


def test_a_catalog_of_another_forest_is_refused() -> None:
    def controller(root: str) -> object:
        def root_dse(number: int) -> bytes:
            shown = {
                "supportedCapabilities": [CAPABILITY_OID],
                "defaultNamingContext": [root.encode()],
                "rootDomainNamingContext": [root.encode()],
                "configurationNamingContext": [f"CN=Configuration,{root}".encode()],
            }
            return answers.entry(number, "", shown) + answers.search_done(number)

        return answers.conversation(answers.bind_done, root_dse)

    with (
        scripted_server(controller("DC=contoso,DC=test")) as ours,  # type: ignore[arg-type]
        scripted_server(controller("DC=other,DC=test")) as theirs,  # type: ignore[arg-type]
    ):
        options = ConnectionOptions.of(
            f"ldap://127.0.0.1:{ours}", tls="none", forest=True, catalog=f"ldap://127.0.0.1:{theirs}"
        )
        with (
            Session.open(options) as session,
            pytest.raises(GenericDirectoryError, match=r"another forest.*DC=other"),
        ):
            _ = session.catalog
