"""What the commands of the pipeline are pointed at by mistake: clear words, and an exit code."""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from support.servers.bad_places import bare_slapd, small_disk
from typer.testing import CliRunner

from mqdssm.cli.main import app

pytestmark = [pytest.mark.spark, pytest.mark.server]


@pytest.fixture(autouse=True, params=["local", "spark"])
def engine(request, monkeypatch) -> None:
    """Each of the engines: the commands use it."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    monkeypatch.setattr(sys.modules[__name__], "ENGINE", ("--engine", request.param))


ENGINE: tuple[str, ...] = ()


def refused(code: int, *words: str, **environment: str) -> str:
    """Run a command that fails; gives what it says."""
    result = CliRunner().invoke(app, [*words, *ENGINE], env=environment)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.stderr.splitlines()[-1].startswith("error: ")
    return result.stderr


def commands(folder: Path) -> list[list[str]]:
    """The commands that read a directory."""
    return [["export", "--to", str(folder / "out")], ["validate"], ["inventory"]]


def test_a_directory_without_the_schema(tmp_path) -> None:
    with bare_slapd(tmp_path) as url:
        for command in commands(tmp_path):
            said = refused(6, *command, "--url", url)
            assert "the MSMQ schema is not loaded on this server" in said
            assert "mqdssm schema ldif" in said


def test_a_naming_context_that_is_not_there(enterprise, login, tmp_path) -> None:
    """An export without queues, or no finding about any, would look like an enterprise without them."""
    for command in commands(tmp_path):
        said = refused(4, *command, "--naming-context", "OU=mistyped,DC=example,DC=com", **login)
        assert "the naming context that was chosen is not there, or this user may not see it" in said
        assert "OU=mistyped,DC=example,DC=com" in said


def test_a_folder_without_a_manifest(tmp_path) -> None:
    (tmp_path / "queue").mkdir()
    for command in ("validate", "inventory"):
        said = refused(6, command, str(tmp_path))
        assert "is no export, or one that did not end: it has no manifest.json; export again" in said


def test_wrong_credentials_and_a_server_that_is_gone(enterprise, login, tmp_path) -> None:
    right = enterprise.password_file.read_text()
    enterprise.password_file.write_text("s3cr3t-wrong\n")
    for command in commands(tmp_path):
        said = refused(3, *command, **login)
        assert "unknown user or wrong password" in said
        assert "s3cr3t" not in said
    enterprise.password_file.write_text(right)
    enterprise.server.kill()
    for command in commands(tmp_path):
        assert enterprise.server.url in refused(3, *command, **login)


def test_a_full_disk(enterprise, login, tmp_path, monkeypatch) -> None:
    with small_disk(tmp_path / "small") as disk:
        (disk / "filler").write_bytes(bytes(1_000_000))
        said = refused(6, "export", "--to", str(disk / "out"), **login)
        assert f"the export to {disk / 'out'} failed: " in said
        assert "No space left on device; when that is mended, go on with --resume" in said
        (disk / "filler").unlink()
        result = CliRunner().invoke(
            app, ["export", "--to", str(disk / "out"), "--resume", "-o", "json", *ENGINE], env=login
        )
        assert result.exit_code == 0, result.output
        rows = {name: one["rows"] for name, one in json.loads(result.stdout)["types"].items()}
        assert rows["queue"] == 3
        folder = Path(disk / "out").rename(disk / "export")
        (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free))
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        assert f"error: the disk of {disk}/mqdssm-" in refused(6, "validate", str(folder))
