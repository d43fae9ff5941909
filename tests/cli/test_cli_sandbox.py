"""sandbox: a private directory that outlives the command."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.project.source_tree import ROOT

from mqdssm.samples.entries import OBJECTS


@pytest.fixture
def folder(alone, tmp_path):
    place = tmp_path / "box"
    yield place
    if (place / "sandbox.json").exists():
        alone("sandbox", "stop", str(place))


def login_of(started: Mapping[str, str]) -> dict[str, str]:
    return {
        "MQDSSM_URL": started["url"],
        "MQDSSM_USER": started["user"],
        "MQDSSM_PASSWORD_FILE": started["password_file"],
        "MQDSSM_CA_FILE": started["ca_file"],
    }


@pytest.mark.server
def test_a_life(alone, cli, folder):
    started = alone.json("sandbox", "start", str(folder), "--computer", "web01")
    assert started["running"] is True
    assert started["answers"] is True
    login = login_of(started)
    site = alone.json("create", "site", "Name=Berlin", **login)["Identifier"]
    alone("create", "queue-manager", "ComputerName=web01", f"SiteIdentifierList={site}", **login)
    assert alone.json("sandbox", "status", str(folder)) == started
    again = alone("sandbox", "start", str(folder), "--computer", "web01")
    assert again.stderr == "computer web01 is there already\n"
    lines = again.stdout.splitlines()
    assert lines[0] == f"running   yes, process {started['pid']}"
    assert lines[1] == f"URL       {started['url']}"
    assert f"password  in {started['password_file']}" in lines
    assert f"  export MQDSSM_URL={started['url']} MQDSSM_USER={started['user']}" in lines
    assert Path(started["password_file"]).read_text().strip() not in again.output
    assert alone("sandbox", "stop", str(folder)).stdout == f"{folder}: stopped\n"
    assert alone("sandbox", "stop", str(folder)).stdout == f"{folder}: was not running\n"
    assert alone.json("sandbox", "status", str(folder), code=3)["running"] is False
    # what was put in is still there
    restarted = alone.json("sandbox", "start", str(folder))
    assert restarted["url"] == started["url"]
    assert alone.json("read", "site", "Name=Berlin", "-a", "Identifier", **login) == {"Identifier": site}


def test_no_sandbox_there(alone, tmp_path):
    for command in ("status", "stop"):
        said = alone.error("sandbox", command, str(tmp_path), code=6)
        assert said == f"{tmp_path} holds no sandbox: make one with 'mqdssm sandbox start {tmp_path}'"
    assert list(tmp_path.iterdir()) == [tmp_path / "home"]


def planted(place: Path, owner: int) -> None:
    """What somebody else puts where a sandbox is to be: a known password, a link instead of the lock."""
    place.mkdir(mode=0o755)
    (place / "password").write_text("known")
    (place.parent / "victim").write_text("precious")
    (place / "sandbox.lock").symlink_to(place.parent / "victim")
    os.chown(place, owner, owner)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_somebody_else_is_refused(alone, tmp_path):
    place = tmp_path / "box"
    planted(place, 65534)
    (place / "supervisor.pid").write_text("1")  # a process that "stop" is to end
    for command in ("start", "stop", "status"):
        said = alone.error("sandbox", command, str(place), code=6)
        assert said == f"{place} belongs to another user: name a folder of your own"
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "own")
    (tmp_path / "own").mkdir()
    os.chown(link, 65534, 65534, follow_symlinks=False)
    assert "belongs to another user" in alone.error("sandbox", "start", str(link), code=6)
    assert (tmp_path / "victim").read_text() == "precious"
    assert not list((tmp_path / "own").iterdir())


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_folder_that_others_may_write_to_is_refused(alone, tmp_path):
    place = tmp_path / "box"
    planted(place, os.getuid())
    place.chmod(0o777)
    said = alone.error("sandbox", "start", str(place), code=6)
    assert said.startswith(f"others may write to {place}: chmod go-w {place}")
    # nor is a link followed that was put in while they could
    place.chmod(0o755)
    said = alone.error("sandbox", "start", str(place), code=6)
    assert said == f"{place}/sandbox.lock is a link, which no sandbox makes: name a folder of your own"
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.server
def test_a_root_of_ones_own(alone, folder):
    started = alone.json("sandbox", "start", str(folder), "--base-dn", "dc=lab,dc=test")
    assert started["base_dn"] == "dc=lab,dc=test"
    read = alone.json("read", "enterprise", "-a", "Name", "--url", started["ldapi_url"])
    assert read == {"Name": "dc=lab,dc=test"}
    assert alone.error("sandbox", "start", str(folder / "x"), "--base-dn", "o=x", code=2)


def walk_through() -> Iterator[list[str]]:
    """The commands that README shows on a sandbox."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## From the command line")[2]
    for line in text.partition("```console\n")[2].partition("```")[0].splitlines():
        if line.startswith("$ mqdssm "):
            yield shlex.split(line)[2:]


def validated(alone: Any, login: Mapping[str, str]) -> tuple[list[dict[str, Any]], int]:
    """Findings of `validate`, and the number of objects."""
    result = alone("validate", "--engine", "local", "-o", "json", **login)
    assert '"rule"' not in result.stderr  # each rule was applied
    *findings, totals = map(json.loads, result.stdout.splitlines())
    assert totals["engine"] == "local"
    return findings, totals["objects"]


@pytest.mark.server
@pytest.mark.slow
def test_a_sandbox_and_the_walk_through_of_the_readme_validate_clean(alone, folder):
    login = login_of(alone.json("sandbox", "start", str(folder)))
    assert validated(alone, login) == ([], 1)
    alone("sandbox", "start", str(folder), "--computer", "web01")
    assert validated(alone, login) == ([], 2)
    site, counts = "", []
    for command in walk_through():
        words = [re.sub("(?<==)[0-9a-f-]{36}", site, word) for word in command]
        said = alone(*words, **login).stdout
        if words[:2] == ["create", "site"]:
            site = said.split()[-1]
        findings, count = validated(alone, login)
        assert findings == [], words
        counts.append(count)
    assert counts == [3, 4, 5, 5, 5, 5, 3]  # the queue goes with its queue manager


@pytest.mark.server
@pytest.mark.slow
def test_a_generated_enterprise_in_a_sandbox_validates_clean(alone, folder, tmp_path):
    started = alone.json("sandbox", "start", str(folder))
    size = ("--sites", "3", "--machines", "20", "--queues", "100", "--users", "10", "--seed", "18")
    alone("generate", *size, "--format", "ldif", "--to", str(tmp_path / "ldif"))
    load = ("ldapadd", "-Y", "EXTERNAL", "-Q", "-H", started["ldapi_url"], "-f")
    subprocess.run([*load, str(tmp_path / "ldif" / OBJECTS)], check=True, capture_output=True, timeout=120)
    findings, count = validated(alone, login_of(started))
    assert findings == []
    assert count > 150
