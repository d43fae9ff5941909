"""Messages of the library, as the command line prints them."""

import json
import logging
import re

import pytest
from support.project.commands import options_of_all_commands
from support.project.source_tree import name, report, sources, texts

from mqdssm.cli.exits import OPTION_OF_ARGUMENT, as_json, words_of
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
        ("or use recursive=True for its queues", "or use --recursive for its queues"),
        ("profile='no-such' is unknown", "--profile no-such is unknown"),
    ],
)
def test_arguments_are_options_and_backslashes_stand_once(message: str, printed: str) -> None:
    assert words_of(ConfigError(message)) == printed


ARGUMENT = re.compile(r"""(?<![\w.;\[-])([a-z][a-z_]+)=(?:True\b|False\b|None\b|\d|'|(?=[\s,;:)"]|$))""")
NO_ARGUMENTS = {
    "mqdssm/directory/profiles/openldap.py": {"base"},  # access rules of slapd.conf
    "mqdssm/directory/ranges.py": {"range"},  # attribute options
    "mqdssm/directory/raw_entries.py": {"range"},
    "mqdssm/directory/watching/syncrepl.py": {"exact"},  # limits of slapd.conf
    "mqdssm/engines/notification/settings.py": {"servers"},  # TypeError of a Python call
    "mqdssm/events/facade.py": {"attributes", "below", "change"},  # TypeErrors of Python calls
    "mqdssm/pipeline/spark_options.py": {"memory"},  # a setting of Spark
    "mqdssm/pipeline/topology/artemis.py": {"encoding", "version"},  # of XML
    "mqdssm/tables/ldif.py": {"cn"},  # an RDN
    "mqdssm/wire/source.py": {"omitted", "terminated"},  # generated source
}
"""Words before an equals sign that are no arguments of a call, or of none that a command makes."""


@pytest.mark.slow
def test_every_argument_that_a_message_names_has_an_option() -> None:
    named = [
        (path, node, argument)
        for path in sources("mqdssm")
        if not name(path).startswith(("mqdssm/cli/", "mqdssm/testing/"))
        for node in texts(path)
        for argument in ARGUMENT.findall(str(node.value))
    ]
    assert {"recursive", "catalog", "tls"} <= {argument for _, _, argument in named}
    report(
        [
            f"{name(path)}:{node.lineno}: add {argument!r} to _ARGUMENTS in mqdssm/cli/exits.py"
            for path, node, argument in named
            if argument not in OPTION_OF_ARGUMENT.keys() | NO_ARGUMENTS.get(name(path), set())
        ]
    )


OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OTHER_OPTIONS = {"--conf"}  # of spark-submit
OTHER_PROGRAMS = {"mqdssm/pipeline/topology/kafka.py"}
"""Modules that write command lines of other programs."""


@pytest.mark.slow
def test_every_option_that_a_message_names_exists() -> None:
    known = options_of_all_commands() | OTHER_OPTIONS
    assert set(OPTION_OF_ARGUMENT.values()) <= known
    report(
        [
            f"{name(path)}:{node.lineno}: no command has the option {option}"
            for path in sources("mqdssm")
            if not name(path).startswith("mqdssm/testing/") and name(path) not in OTHER_PROGRAMS
            for node in texts(path)
            for option in OPTION.findall(str(node.value))
            if option not in known
        ]
    )


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
