"""Settings: options win over the environment, the environment over the file; secrets stay hidden."""

import os
from pathlib import Path

import pytest

from mqdssm.cli.config_file import describe_default_file, find_default_file
from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.settings import load, read_password

VALUES = {  # setting: (option, variable, file), each another value
    "url": (("ldap://o",), "ldap://e", "ldap://f"),
    "user": ("cn=o", "cn=e", "cn=f"),
    "password_file": (Path("/o"), "/e", "/f"),
    "tls": ("ldaps", "starttls", "none"),
    "ca_file": (Path("/o"), "/e", "/f"),
    "profile": ("o", "e", "f"),
    "naming_context": ("dc=o", "dc=e", "dc=f"),
    "forest": (True, "true", True),
    "catalog": (("ldap://o",), "ldap://e", "ldap://f"),
    "read_only": (True, "true", True),
    "allow_clear_text": (True, "1", True),
    "allow_replicated": (True, "1", True),
    "log_file": (None, "/e", "/f"),
    "spark_master": ("spark://o", "spark://e", "spark://f"),
    "spark_conf": (("spark.a=o",), "spark.a=e", "spark.a=f"),
    "spark_shared": (Path("/o"), "/e", "/f"),
}
SEEN = {
    "url": ("ldap://{}",),
    "catalog": ("ldap://{}",),
    "password_file": Path("/{}"),
    "ca_file": Path("/{}"),
    "log_file": Path("/{}"),
    "spark_conf": ("spark.a={}",),
    "spark_shared": Path("/{}"),
}


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("MQDSSM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))


def toml(value):
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


def test_defaults():
    settings = load({}).settings
    assert settings.url == ()
    assert settings.user is None
    assert settings.profile == "auto"
    assert settings.read_only is False
    assert load({}).sources == {}


@pytest.mark.parametrize("name", VALUES)
def test_precedence(name, monkeypatch, tmp_path):
    option, variable, in_file = VALUES[name]
    config = tmp_path / "c.toml"
    config.write_text(f"{name} = {toml(in_file)}\n")
    monkeypatch.setenv("MQDSSM_CONFIG", str(config))
    from_file = load({})
    assert from_file.sources == {name: str(config)}
    monkeypatch.setenv(f"MQDSSM_{name.upper()}", variable)
    from_environment = load({name: None})
    assert from_environment.sources == {name: f"MQDSSM_{name.upper()}"}
    found = [getattr(one.settings, name) for one in (from_file, from_environment)]
    if option is not None:
        from_option = load({name: option})
        assert from_option.sources == {name: f"--{name.replace('_', '-')}"}
        found.append(getattr(from_option.settings, name))
    if name not in {"read_only", "allow_clear_text", "allow_replicated", "forest"}:
        assert len(set(found)) == len(found)
    else:
        assert found == [True, True, True]


def test_the_environment_can_take_a_file_s_read_only_back(monkeypatch, tmp_path):
    (tmp_path / "c.toml").write_text("read_only = true\n")
    monkeypatch.setenv("MQDSSM_READ_ONLY", "false")
    assert load({}, config=tmp_path / "c.toml").settings.read_only is False
    assert load({"read_only": True}, config=tmp_path / "c.toml").settings.read_only is True


@pytest.mark.parametrize("value", ["perhaps", "2", "no way"])
def test_a_read_only_that_is_not_understood_stops_everything(monkeypatch, value):
    monkeypatch.setenv("MQDSSM_READ_ONLY", value)
    with pytest.raises(UsageProblem, match=r"^MQDSSM_READ_ONLY: "):
        load({})


def test_empty_variables_are_not_set(monkeypatch):
    for name in VALUES:
        monkeypatch.setenv(f"MQDSSM_{name.upper()}", "")
    assert load({}).sources == {}
    assert load({}).settings.url == ()


@pytest.mark.parametrize("text", ["ldap://a ldap://b", "ldap://a,ldap://b", " ldap://a ,  ldap://b "])
def test_several_servers(monkeypatch, text):
    monkeypatch.setenv("MQDSSM_URL", text)
    assert load({}).settings.url == ("ldap://a", "ldap://b")


def test_secrets_are_hidden(monkeypatch):
    monkeypatch.setenv("MQDSSM_PASSWORD", "planted-7391")
    loaded = load({"user": "cn=x"})
    assert loaded.stored_password() == "planted-7391"
    for text in (repr(loaded), str(loaded), repr(loaded.settings), str(loaded.settings.model_dump())):
        assert "planted" not in text
    monkeypatch.setenv("MQDSSM_TLS", "planted-7391")  # a value in the wrong place is not repeated either
    with pytest.raises(UsageProblem) as caught:
        load({})
    assert "planted" not in str(caught.value)


def test_where_the_password_comes_from(monkeypatch, tmp_path):
    names = ("option", "variable", "file")
    files = {name: tmp_path / name for name in names}
    for name, file in files.items():
        file.write_text(f"from {name}\n")
    config = tmp_path / "c.toml"
    config.write_text('password_file = "file"\n')  # relative to the configuration file
    assert load({}, config=config).stored_password() == "from file"
    monkeypatch.setenv("MQDSSM_PASSWORD", "itself")
    assert load({}, config=config).stored_password() == "itself"
    assert load({"password_file": files["option"]}, config=config).stored_password() == "from option"
    monkeypatch.setenv("MQDSSM_PASSWORD_FILE", str(files["variable"]))
    assert load({"password_file": files["option"]}, config=config).stored_password() == "from option"
    with pytest.raises(UsageProblem, match="exclude each other"):
        load({}, config=config).stored_password()
    monkeypatch.delenv("MQDSSM_PASSWORD")
    assert load({}, config=config).stored_password() == "from variable"


@pytest.mark.parametrize(
    ("data", "password"),
    [
        (b"x", "x"),
        (b"x\n", "x"),
        (b"x\r\n", "x"),
        (b" x \n", " x "),
        (b"\xef\xbb\xbfx\n", "x"),
        ("ü\n".encode(), "ü"),
    ],
)
def test_password_files(tmp_path, data, password):
    (tmp_path / "p").write_bytes(data)
    assert read_password(tmp_path / "p") == password


@pytest.mark.parametrize("data", [b"", b"\n", b"\xff\n", b"x" * 70_000])
def test_password_files_that_hold_none(tmp_path, data):
    (tmp_path / "p").write_bytes(data)
    with pytest.raises(UsageProblem, match="the password file"):
        read_password(tmp_path / "p")


def test_password_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageProblem, match=r"p cannot be read: No such file or directory"):
        read_password(tmp_path / "p")


CONNECTIONS = """
default = "lab"
log_file = "log"
user = "cn=top"

[connections.lab]
url = "ldap://lab"
ca_file = "ca.pem"

[connections.live]
url = ["ldap://one", "ldap://two"]
read_only = true
"""


def test_connections(tmp_path, monkeypatch):
    config = tmp_path / "c.toml"
    config.write_text(CONNECTIONS)
    lab = load({}, config=config).settings
    assert (lab.url, lab.ca_file, lab.read_only) == (("ldap://lab",), tmp_path / "ca.pem", False)
    assert lab.user is None  # who logs in elsewhere does not log in here
    assert lab.log_file == tmp_path / "log"
    live = load({}, config=config, connection="live").settings
    assert (live.url, live.read_only) == (("ldap://one", "ldap://two"), True)
    monkeypatch.setenv("MQDSSM_CONNECTION", "live")
    assert load({}, config=config).settings.read_only is True
    with pytest.raises(UsageProblem, match="has no connection 'test'; it has lab, live"):
        load({}, config=config, connection="test")


def test_the_usual_place(tmp_path):
    file = find_default_file()
    assert file.name == "config.toml"
    assert file.is_relative_to(tmp_path)
    with pytest.raises(UsageProblem, match="connection 'lab' needs a configuration file, as "):
        load({}, connection="lab")
    file.parent.mkdir(parents=True)
    file.write_text('user = "cn=usual"\n')
    assert load({}).settings.user == "cn=usual"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("user = ", "is no TOML: "),
        (
            'colour = "red"\n',
            "c.toml has 'colour', which is no setting: there are allow_clear_text, allow_replicated",
        ),
        ('usr = "red"\n', "c.toml has 'usr', which is no setting: did you mean user?"),
        ('CA_FILE = "red"\n', "c.toml has 'CA_FILE', which is no setting: did you mean ca_file?"),
        ('defualt = "a"\n', "c.toml has 'defualt', which is no setting: did you mean default?"),
        (
            '[connection.a]\nuser = "red"\n',
            "c.toml has 'connection', which is no setting: did you mean connections?",
        ),
        (
            "[connections.a]\nread_olny = true\n",
            "c.toml: connection 'a' has 'read_olny', which is no setting: did you mean read_only?",
        ),
        ('usr = "red"\n[connections.a]\nread_only = true\n', "c.toml has 'usr'"),
        ("default = ['a']\n", "has no connection ['a']; it has none"),
        ('tls = "starttl"\n', "c.toml: tls: Input should be 'ldaps', 'starttls' or 'none'"),
        ('password = "planted"\n', "holds a password: put the password into a file of its own"),
        ('[connections.a]\npassword = "planted"\n', "holds a password"),
        ("connections = 5\n", "connections must be tables"),
        ("read_only = 7\n", "c.toml: read_only: true or false is expected"),
        ("default = 3\n", "has no connection 3; it has none"),
        ('default = "x"\n[connections]\nx = 1\n', "has no connection 'x'"),
    ],
)
def test_configuration_files_that_cannot_be(tmp_path, text, words):
    config = tmp_path / "c.toml"
    config.write_text(text)
    connection = "a" if "connections.a" in text else None
    with pytest.raises(UsageProblem) as caught:
        load({}, config=config, connection=connection)
    assert words in str(caught.value)
    assert "planted" not in str(caught.value)


def test_a_configuration_file_that_was_named_must_be_there(tmp_path):
    with pytest.raises(UsageProblem, match="there is no configuration file"):
        load({}, config=tmp_path / "none")
    with pytest.raises(UsageProblem, match="cannot be read"):
        load({}, config=tmp_path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no file without end")
def test_a_configuration_file_without_end():
    with pytest.raises(UsageProblem, match="/dev/zero is longer than 1048576 bytes"):
        load({}, config=Path("/dev/zero"))


def test_the_usual_place_as_people_write_it(monkeypatch, tmp_path):
    monkeypatch.setattr("typer.get_app_dir", lambda name: str(tmp_path / ".config" / name))
    assert describe_default_file() == "~/.config/mqdssm/config.toml"
    monkeypatch.setattr("typer.get_app_dir", lambda name: f"/etc/{name}")
    assert describe_default_file() == str(Path("/etc/mqdssm/config.toml"))


def test_variables_that_were_misspelt_are_warned_of(monkeypatch, caplog):
    monkeypatch.setenv("MQDSSM_READ_ONYL", "true")
    monkeypatch.setenv("MQDSSM_CACHE", "/tmp")
    load({})
    assert caplog.messages == ["the variable MQDSSM_READ_ONYL means nothing: did you mean MQDSSM_READ_ONLY?"]
    caplog.clear()
    load({}, environment=False)
    assert caplog.messages == []
