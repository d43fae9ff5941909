"""An option of the log-in is one row of `LogIn`; lists that cannot be derived from it name the same ones."""

from dataclasses import fields
from typing import get_type_hints

import pytest

import mqdssm
from mqdssm.cli.options import CONNECTION, GivenOptions
from mqdssm.cli.settings import CommandSettings
from mqdssm.directory.log_in import FILES, LOG_IN_NAMES, LogIn, LogInArguments
from mqdssm.pipeline.access import DirectoryAccess, PipelineLogIn
from mqdssm.spark.options import NAMES, SourceOptions

GIVEN = {
    "user": "cn=ann",
    "tls": "ldaps",
    "ca_file": "/ca.pem",
    "profile": "openldap",
    "naming_context": "dc=part",
    "allow_clear_text": True,
    "allow_replicated": True,
    "authentication": "simple",
    "keytab": "/ann.keytab",
    "kerberos_host": "dc1.example.com",
}
"""Another value than the default for each option."""


def test_all_options_have_a_type_as_arguments_and_a_row_in_each_table():
    assert set(LogInArguments.__annotations__) == set(LOG_IN_NAMES) == set(GIVEN)
    assert set(get_type_hints(PipelineLogIn)) == {
        *LOG_IN_NAMES, "password", "password_file", "password_variable"
    }  # fmt: skip
    assert set(LOG_IN_NAMES) <= set(CommandSettings.model_fields)
    assert set(LOG_IN_NAMES) <= set(CONNECTION)
    assert {name.replace("_", "") for name in LOG_IN_NAMES} <= set(NAMES)
    assert set(FILES) <= set(LOG_IN_NAMES)


def test_each_option_of_a_connection_is_a_setting_or_names_one():
    beside = {"output", "config", "debug", "connection", "engine", "workers"}
    assert {one.name for one in fields(GivenOptions)} - beside == set(CommandSettings.model_fields) - {
        "password", "log_file"
    }  # fmt: skip


def test_the_source_reads_each_option():
    texts = {name.replace("_", ""): str(value).lower() for name, value in GIVEN.items()}
    parsed = SourceOptions.parse({"object": "queue", "url": "ldaps://host", **texts})
    assert parsed.access == DirectoryAccess(urls=("ldaps://host",), **GIVEN)


def test_an_option_that_does_not_exist_is_an_error_of_the_call():
    with pytest.raises(TypeError, match="usr"):
        mqdssm.connect("ldap://127.0.0.1:1", usr="cn=ann")
    assert LogIn.of(user="cn=ann").arguments()["user"] == "cn=ann"
