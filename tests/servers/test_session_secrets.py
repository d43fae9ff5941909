"""The password stands in no error, and in no variable of the frames that an error brings along."""

import traceback

import pytest
from support.servers.sessions import options_for

from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryNotConnected
from mqdssm.testing.openldap import OpenLdapServer

PASSWORD = "no-such-password-4711"


@pytest.mark.parametrize("how", ["refused", "not trusted", "nobody there", "no name"])
def test_not_even_in_a_traceback_with_variables(openldap_server: OpenLdapServer, how: str) -> None:
    settings: dict[str, object] = {"password": PASSWORD}
    url = openldap_server.url
    match how:
        case "not trusted":
            settings["ca_file"] = None
        case "nobody there":
            url = "ldap://127.0.0.1:1"
        case "no name":
            url = "ldap://nobody.invalid"
    options = options_for(openldap_server, url, **settings)
    with pytest.raises(DirectoryNotConnected) as failed:
        Session.open(options)
    shown = traceback.TracebackException.from_exception(failed.value, capture_locals=True)
    text = "".join(shown.format())
    assert "_open" in text or how == "no name"  # the variables of our own frames are all there
    below = text.partition("in open")[2].partition("test_session_secrets")[0]
    assert below
    assert PASSWORD not in below


def test_the_options_hide_it(openldap_server: OpenLdapServer) -> None:
    options = options_for(openldap_server, password=PASSWORD)
    assert PASSWORD not in f"{options!r} {options} {options.password!r} {options.password}"
