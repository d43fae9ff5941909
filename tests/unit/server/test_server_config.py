"""Configuration of a directory server: what the file may hold, and what is refused with which words."""

import re
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import ValidationError
from support.replication.queue_managers import key_of

from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError
from mqdssm.model.guid import Guid
from mqdssm.model.replication import Service
from mqdssm.model.socket_addresses import SocketAddress, parse_socket_address
from mqdssm.server.config import LIMITS, TIMERS, ServerConfig, ServerSection, encode_keys

MACHINE = "11111111-2222-3333-4444-555555555555"
MINIMAL = f"""
[server]
machine_name = "PSC01"
machine_id = "{MACHINE}"
role = "PSC"
site = "Oslo"
site_id = "21111111-2222-3333-4444-555555555555"
pec_name = "PEC01"

[transport]
listen = "127.0.0.1:11802"
"""


def read(tmp_path: Path, text: str):
    file = tmp_path / "server.toml"
    file.write_text(text)
    return ServerConfig.read(file)


def test_all_sections(tmp_path):
    keys = key_of("PEC").public_keys()
    config = read(
        tmp_path,
        f"""{MINIMAL}
[transport.hosts]
PEC01 = "10.0.0.5:11801"
"10.0.0.9" = "pec.example.com"

[store]
url = "ldap://ldap.example.com"
user = "cn=admin,dc=example,dc=com"
password_file = "secrets/password"
ca_file = "/etc/ca.pem"

[timers]
intersite_s = 2
retry_connect_s = 1.5
flush_s = 7

[limits]
pending_max = 50
window_size = 8
connections_max = 9

[[pinned]]
machine_name = "PEC01"
machine_id = "{MACHINE}"
role = "PEC"
public_keys = "{encode_keys(keys)}"
""",
    )
    assert config.store.password_file == Path("secrets/password")  # relative to the file, where it is read
    assert config.transport.hosts == {"PEC01": "10.0.0.5:11801", "10.0.0.9": "pec.example.com"}
    settings = config.settings(restored=True)
    assert (settings.machine_name, settings.machine_id) == ("PSC01", Guid.of(UUID(MACHINE)))
    assert (settings.intersite_s, settings.pending_max, settings.restored) == (2, 50, True)
    carrier = config.tcp_settings()
    assert (carrier.flush_s, carrier.connections_max) == (7, 9)
    assert (carrier.sessions.retry_connect_s, carrier.sessions.window_size) == (1.5, 8)
    (sender,) = config.trusted_senders().values()
    assert (sender.machine_name, sender.service, sender.keys) == ("PEC01", Service.PEC, keys.keys)


def test_every_timer_and_limit_has_an_effect(tmp_path):
    """Each name is one of a setting: a value far from the defaults is found in it."""
    for name in sorted(TIMERS | LIMITS):
        section, value = ("timers", 59.0) if name in TIMERS else ("limits", 77)
        config = read(tmp_path, f"{MINIMAL}\n[{section}]\n{name} = {value}\n")
        settings, carrier = config.settings(), config.tcp_settings()
        found = [getattr(part, name, None) for part in (settings, carrier, carrier.sessions)]
        assert value in found, name


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[server]", "nam = 1\n[server]", "has 'nam', which is no setting"),
        ("pec_name", "pec_nam", "[server] has 'pec_nam', which is no setting: did you mean pec_name?"),
        ("[transport]", "[timers]\nintersite = 1\n[transport]", "did you mean intersite_s?"),
        ("[transport]", "[limits]\npending_max = -1\n[transport]", "limits.pending_max: "),
        ("[transport]", "restored = true\n[transport]", "which is for one start: give serve the option"),
        ("[transport]", "[store]\npassword = 'x'\n[transport]", "[store] holds a password: put it into"),
        ("127.0.0.1:11802", "127.0.0.1:99999", "transport.listen: '127.0.0.1:99999' is no address"),
        ("127.0.0.1:11802", "pec.example.com:1801", "transport.listen: 'pec.example.com' does not appear"),
        ('"PSC"', '"BSC"', "server: psc_name is for a BSC, and a BSC needs it"),
        ('"PSC"', '"PEC"', "server: a PEC's pec_name is its own machine_name"),
        (MACHINE, "x", "server.machine_id: "),
        ("[transport]", "[transport", "cannot be read: "),
    ],
    ids=range(12),
)
def test_settings_that_cannot_be(tmp_path, old, new, words):
    with pytest.raises(ConfigError, match=re.escape(words)) as raised:
        read(tmp_path, MINIMAL.replace(old, new))
    assert str(tmp_path / "server.toml") in str(raised.value)


def test_values_of_settings_that_cannot_be(tmp_path):
    config = read(tmp_path, f"{MINIMAL}\n[limits]\nack_interval = 0\nwindow_size = 0\n")
    with pytest.raises(ConfigError, match="ack_interval is 0"):
        config.settings()
    with pytest.raises(ConfigError, match="window_size is 0"):
        config.tcp_settings()


def test_a_key_that_is_none(tmp_path):
    pinned = f'[[pinned]]\nmachine_name = "P"\nmachine_id = "{MACHINE}"\nrole = "PEC"\npublic_keys = "AAAA"\n'
    with pytest.raises(ConfigError, match=re.escape("pinned.0.public_keys: ")):
        read(tmp_path, f"{MINIMAL}\n{pinned}")


def test_a_configuration_is_read_as_it_was_written(tmp_path):
    config = read(
        tmp_path, f"{MINIMAL}\n[transport.hosts]\n'a b' = '[2001:db8::1]:1802'\n[limits]\npending_max = 3"
    )
    assert read(tmp_path, config.to_toml()) == config


def test_a_character_that_toml_does_not_have_is_escaped(tmp_path):
    more = """
[transport.hosts]
'a"\\ä\u2028' = 'b'
"a\\u007Fb" = 'b'
[store]
user = "cn=\\u007F\\u0001"
"""
    config = read(tmp_path, MINIMAL + more)
    assert config.store.user == "cn=\x7f\x01"
    assert read(tmp_path, config.to_toml()) == config


@pytest.mark.parametrize("name", ["machine_name", "pec_name", "site", "enterprise", "psc_name"])
@pytest.mark.parametrize("text", ["a\x7f", "\0", "a\nb", "\x85", "a\udcff"])
def test_names_without_control_characters(tmp_path, name, text):
    values = read(tmp_path, MINIMAL).server.model_dump()
    if name == "psc_name":
        values["role"] = Role.BSC
    assert ServerSection(**values | {name: "Ä \u2028b" if name in {"site", "enterprise"} else "Äb"})
    with pytest.raises(ValidationError, match=rf"(?s){name}.*(is no name|valid string)"):
        ServerSection(**values | {name: text})


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e22", "-1"])
def test_seconds_that_no_timer_can_have(tmp_path, seconds):
    with pytest.raises(ConfigError, match=r"timers\.intersite_s: Input should be "):
        read(tmp_path, f"{MINIMAL}\n[timers]\nintersite_s = {seconds}")


def test_the_system_may_choose_the_port_to_listen_on(tmp_path):
    config = read(tmp_path, MINIMAL.replace("127.0.0.1:11802", "[::1]:0"))
    assert parse_socket_address(config.transport.listen, port_min=0) == SocketAddress("::1", 0)
    with pytest.raises(ConfigError, match=r"transport\.hosts\.PEC01: 'pec:0' is no address"):
        read(tmp_path, f"{MINIMAL}\n[transport.hosts]\nPEC01 = 'pec:0'")


def test_a_file_that_is_missing_or_too_long(tmp_path):
    with pytest.raises(ConfigError, match="'mqdssm enterprise init' makes one"):
        ServerConfig.read(tmp_path / "no.toml")
    with pytest.raises(ConfigError, match="is longer than 1048576 octets"):
        read(tmp_path, "#" * (1 << 20 | 1))


@pytest.mark.parametrize(
    "name", ["web 01", "web/01", "web\\01", "web\x0001", "web\u20281", "", " ", "a:b", "x" * 257]
)
def test_what_is_no_name_of_a_machine(name):
    with pytest.raises(ValidationError, match="is no name of a machine"):
        section(name)


def test_a_refused_name_says_what_is_allowed():
    with pytest.raises(ValidationError, match=r"because of '/': letters, digits and -_\..* are allowed"):
        section("web/01")


@pytest.mark.parametrize(
    "name", ["WEB_01", "2024-01", "zürich", "psc01.contoso.com", "SQL$(1)", "東京01", "x" * 256]
)
def test_names_of_machines(name):
    assert section(name).machine_name == name


def section(machine_name: str) -> ServerSection:
    return ServerSection(
        machine_name=machine_name,
        machine_id=UUID(MACHINE),
        role=Role.PEC,
        site="Oslo",
        site_id=UUID(MACHINE),
        pec_name=machine_name,
    )
