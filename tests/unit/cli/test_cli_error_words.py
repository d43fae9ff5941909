"""Messages of the library, as the command line prints them."""

import json
import logging

import pytest

from mqdssm.cli.exits import as_json, words_of
from mqdssm.cli.logs import _Told
from mqdssm.directory.options import ConnectionOptions
from mqdssm.errors import ConfigError, DirectoryNotConnected


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("a password without a user: give user= too", "a password without a user: give --user too"),
        ("use user= and password=", "use --user and --password-file"),
        ("forest=True needs it: name it with catalog=", "--forest needs it: name it with --catalog"),
        ("leave TLS out (tls='none'), or not", "leave TLS out (--tls none), or not"),
        ("of no use here: user=ann,tls=x and a_user= y", "of no use here: user=ann,tls=x and a_user= y"),
        (f"user {'DOMAIN' + chr(92) + 'ann'!r} is unknown", r"user 'DOMAIN\ann' is unknown"),
        (r"\\server\share is no folder", r"\\server\share is no folder"),
        ("name that with password_file=", "name that with --password-file"),
        ("allow_replicated=True allows it", "--allow-replicated allows it"),
    ],
)
def test_arguments_are_options_and_backslashes_stand_once(message: str, printed: str) -> None:
    assert words_of(ConfigError(message)) == printed


def test_no_secret_becomes_the_value_of_an_option() -> None:
    assert "hunter22" not in words_of(ConfigError("refused: password='hunter22'"))


def test_warnings_of_the_library_have_the_same_words(capsys: pytest.CaptureFixture[str]) -> None:
    handler = _Told()
    words = {"msg": "no computer %r: give user=", "args": ("a" + chr(92) + "b",)}
    handler.emit(logging.makeLogRecord({**words, "levelno": logging.WARNING}))
    assert capsys.readouterr().err == f"warning: no computer 'a{chr(92)}b': give --user\n"


def test_real_messages_and_hints() -> None:
    with pytest.raises(ConfigError) as refused:
        ConnectionOptions.of("ldap://10.1.1.1", user="D\\ann", password="secret", tls="none")
    assert words_of(refused.value) == (
        r"ldap://10.1.1.1 would get the password of 'D\ann' in clear text: "
        "use StartTLS or LDAPS (--tls starttls, ldaps://), or --allow-clear-text if you must"
    )
    error = DirectoryNotConnected("refused", hint="use authentication='spnego'")
    assert json.loads(as_json(error, 3))["hint"] == "use --authentication spnego"
