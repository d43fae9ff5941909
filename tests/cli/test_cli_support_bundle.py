"""The bundle holds what helps, and no password in any form."""

import base64
import json
import stat
import urllib.parse
import zipfile
from pathlib import Path

import pytest

from mqdssm.cli.support_bundle import REMOVED, clean_text

PLANTED = 'Pla nt"ed\\-&ü-7391'
FORMS = [
    PLANTED,
    json.dumps(PLANTED)[1:-1],
    repr(PLANTED)[1:-1],
    urllib.parse.quote(PLANTED, safe=""),
    urllib.parse.quote_plus(PLANTED),
    base64.b64encode(PLANTED.encode()).decode(),
    PLANTED.encode().hex(),
]


def contents(file: Path) -> dict[str, str]:
    with zipfile.ZipFile(file) as bundle:
        assert bundle.testzip() is None
        return {name: bundle.read(name).decode() for name in bundle.namelist()}


def test_what_is_in_it(cli, openldap_server, tmp_path):
    file = tmp_path / "b.zip"
    result = cli("support-bundle", "--to", str(file))
    names = ["README.txt", "versions.json", "settings.json", "doctor.json", "log.txt"]
    assert result.stdout == f"written {file}: {', '.join(names)}\n"
    found = contents(file)
    assert list(found) == names
    versions = json.loads(found["versions.json"])
    assert versions["packages"]["mqdssm"] == "0.1.0"
    assert versions["packages"]["ldap3"].startswith("2.9")
    settings = json.loads(found["settings.json"])["settings"]
    assert settings["url"] == {"value": [openldap_server.ldapi_url], "from": "MQDSSM_URL"}
    assert settings["password"] == {"value": REMOVED, "from": "MQDSSM_PASSWORD"}
    doctor = json.loads(found["doctor.json"])
    assert doctor["connected"] is True
    assert any(one["name"] == "schema" for one in doctor["findings"])
    assert "INFO mqdssm.diagnostics.findings doctor: schema: ok: " in found["log.txt"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("place", ["variable", "file"])
def test_a_planted_password_is_not_in_it(cli, tmp_path, place, monkeypatch, caplog):
    """Wherever it may have got to: settings, log file, answers of the server."""
    log_file = tmp_path / "log"
    log_file.write_text("".join(f"line {form} end\n" for form in FORMS) + "password = something else\n")
    file = tmp_path / "b.zip"
    login = {"MQDSSM_PASSWORD": PLANTED}
    if place == "file":
        stored = tmp_path / "p"
        stored.write_text(PLANTED + "\n")
        login = {"MQDSSM_PASSWORD": None, "MQDSSM_PASSWORD_FILE": str(stored)}
    # the planted one is wrong, so the doctor's report is about it
    result = cli("support-bundle", "--to", str(file), MQDSSM_LOG_FILE=str(log_file), **login)
    found = contents(file)
    assert "unknown user or wrong password" in found["doctor.json"]
    assert f"line {REMOVED} end" in found["log.txt"]
    assert f"password = {REMOVED}" in found["log.txt"]
    for text in (*found.values(), result.stdout, result.stderr):
        for form in FORMS:
            assert form not in text
    raw = file.read_bytes()
    assert all(form.encode() not in raw for form in FORMS)


def test_secrets_of_spark_are_not_in_it(cli, tmp_path):
    file = tmp_path / "b.zip"
    conf = "spark.hadoop.fs.s3a.secret.key=AKIASECRETVALUE1234\nspark.executor.memory=4g"
    cli("support-bundle", "--to", str(file), MQDSSM_SPARK_CONF=conf)
    found = contents(file)
    assert "AKIASECRETVALUE1234" not in "".join(found.values())
    assert "spark.executor.memory=4g" in found["settings.json"]


def test_settings_that_cannot_be_are_part_of_the_story(alone, tmp_path):
    file = tmp_path / "b.zip"
    config = tmp_path / "c.toml"
    config.write_text(f'password = "{PLANTED[:4]}"\nurl = "ldap://x"\n')
    alone("support-bundle", "--to", str(file), "--config", str(config))
    found = contents(file)
    assert "holds a password" in json.loads(found["settings.json"])["problem"]
    assert "holds a password" in json.loads(found["doctor.json"])["problem"]
    assert PLANTED[:4] not in "".join(found.values())


def test_nothing_is_overwritten(alone, tmp_path):
    file = tmp_path / "b.zip"
    file.write_text("mine")
    assert alone.error("support-bundle", "--to", str(file), code=2) == f"{file} exists: name another file"
    assert file.read_text() == "mine"


def test_json_says_where(alone, tmp_path):
    file = tmp_path / "b.zip"
    assert alone.json("support-bundle", "--to", str(file))["file"] == str(file)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("bind with password=hunter2 now", "bind with password=*** now"),
        ('{"password": "a b"}', '{"password": ***}'),
        ("PASSWD: x", "PASSWD: ***"),
        ("token='x y' rest", "token=*** rest"),
        ("ldap://user:secret@host/", "ldap://***@host/"),
        ("MQDSSM_PASSWORD_FILE=/home/x", "MQDSSM_PASSWORD_FILE=/home/x"),
        ("Server=db;PWD=hunter2", "Server=db;PWD=***"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: ***"),
        ("the password was not sent", "the password was not sent"),
    ],
)
def test_what_is_named_like_a_secret_goes(text, clean):
    assert clean_text(text, ()) == clean
