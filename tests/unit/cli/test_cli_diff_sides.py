"""How the sides of a comparison are named, and how each logs in."""

import pytest

from mqdssm.cli.diff import side_of
from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.options import GivenOptions
from mqdssm.cli.run import CommandRun
from mqdssm.errors import ConfigError
from mqdssm.pipeline.diff.comparable_columns import check_ignored

PROFILES = """
default = "lab"

[connections.lab]
url = "ldap://lab.example.com"
user = "cn=lab,dc=example,dc=com"
password_file = "lab.password"

[connections.new]
url = "ldaps://new.example.com"
user = "cn=new,dc=example,dc=com"
password_file = "new.password"
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    config = tmp_path / "config.toml"
    config.write_text(PROFILES)
    for name in ("lab", "new", "typed"):
        (tmp_path / f"{name}.password").write_text(f"secret of {name}\n")
    monkeypatch.setenv("MQDSSM_USER", "cn=environment")
    monkeypatch.setenv("MQDSSM_URL", "ldap://environment.example.com")
    return CommandRun(GivenOptions(config=config, password_file=tmp_path / "typed.password"))


def test_two_connections_are_as_the_configuration_file_says_whatever_else_is_set(run, tmp_path):
    old, new = side_of(run, "connection:lab"), side_of(run, "connection:new")
    assert (old.urls, old.login["user"]) == (("ldap://lab.example.com",), "cn=lab,dc=example,dc=com")
    assert (new.urls, new.login["user"]) == (("ldaps://new.example.com",), "cn=new,dc=example,dc=com")
    assert old.login["password_file"] == tmp_path / "lab.password"
    assert new.login["password_file"] == tmp_path / "new.password"
    assert "secret" not in repr(old)


def test_a_url_is_opened_with_the_settings_of_the_command(run, tmp_path):
    side = side_of(run, "ldap://one.example.com ldap://two.example.com")
    assert side.urls == ("ldap://one.example.com", "ldap://two.example.com")
    assert (side.login["user"], side.login["password_file"]) == (
        "cn=environment",
        tmp_path / "typed.password",
    )


def test_a_folder(run, tmp_path):
    assert side_of(run, str(tmp_path)).folder == tmp_path


def test_what_is_nothing(run, tmp_path):
    with pytest.raises(
        UsageProblem,
        match=r"is nothing to compare: name a folder, a database \(jdbc:…\), an LDAP URL, or connection:",
    ):
        side_of(run, str(tmp_path / "absent"))
    with pytest.raises(UsageProblem, match="has no connection 'gone'; it has lab, new"):
        side_of(run, "connection:gone")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Lable", "there is no attribute Lable to ignore: did you mean Label"),
        ("queue.ActualCost", "there is no attribute queue.ActualCost to ignore"),
        ("queues.Label", "there is no type queues"),
    ],
)
def test_attributes_to_ignore(name, words):
    check_ignored(["Label", "queue.Quota", "computer.Sid"])
    with pytest.raises(ConfigError, match=words):
        check_ignored([name])
