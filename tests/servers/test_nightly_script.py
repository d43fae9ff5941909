"""The script for every night, and those who start it: a CI job, systemd, a CronJob."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any

import pytest
import yaml
from support.project.source_tree import ROOT
from support.servers.plain_ldap import PlainLdap

import mqdssm
from mqdssm.pipeline.validate.nightly.baseline import Baseline
from mqdssm.testing import OpenLdapServer

SCRIPT = ROOT / "docker" / "mqdssm" / "nightly.sh"
NIGHTLY = ROOT / "docs" / "nightly"
IN_IMAGE = "/opt/mqdssm/nightly.sh"
RUN_S = 300


def night(command: list[str], **settings: str) -> tuple[int, str]:
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": "/nonexistent",
    }
    done = subprocess.run(
        command, env=environment | settings, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False) as started:
        yield started


@pytest.fixture
def settings(server: OpenLdapServer, tmp_path: Path) -> dict[str, str]:
    password = tmp_path / "password"
    password.write_text(server.password)
    return {
        "MQDSSM_URL": server.url,
        "MQDSSM_USER": server.user,
        "MQDSSM_PASSWORD_FILE": str(password),
        "MQDSSM_CA_FILE": str(server.ca_file),
        "NIGHTLY_DIR": str(tmp_path / "nights"),
    }


def test_nights_keep_what_they_need(server: OpenLdapServer, settings: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "nights"
    rules = tmp_path / "rules.toml"
    rules.write_text("[fail]\nwarning = 0\n")
    settings |= {"NIGHTLY_RULES": str(rules), "NIGHTLY_KEEP": "1"}
    status, output = night(["sh", str(SCRIPT)], **settings)
    assert status == 0, output
    assert {one.name for one in folder.iterdir()} == {
        *("exports", "history", "known.jsonl", "mqdssm.prom", "report.html")
    }
    with mqdssm.connect(
        server.url, user=server.user, password=server.password, ca_file=server.ca_file
    ) as directory:
        computer = server.add_computer("night1")
        site = directory.create(mqdssm.Site(name="Night"))
        directory.create(mqdssm.QueueManager(computer_name="night1", site_identifier_list=[site]))
    PlainLdap(server).modify(f"CN=msmq,{computer}", "delete: mSMQSites")
    status, output = night(["sh", str(SCRIPT)], **settings)
    assert status == 1, output
    assert "too many new findings: warning" in output
    assert len((folder / "history" / "runs.jsonl").read_text().splitlines()) == 2
    assert len(list((folder / "exports").iterdir())) == 1


def test_a_directory_that_is_not_there_is_no_night(settings: dict[str, str], tmp_path: Path) -> None:
    settings["MQDSSM_URL"] = "ldap://127.0.0.1:1"
    status, output = night(["sh", str(SCRIPT)], **settings)
    assert status == 3, output
    assert not (tmp_path / "nights" / "history").exists()


def test_the_job_of_gitlab_runs_its_script(settings: dict[str, str], tmp_path: Path) -> None:
    job: dict[str, Any] = yaml.safe_load((NIGHTLY / "gitlab-ci.yml").read_text())["nightly-validation"]
    given = {
        "CI_PROJECT_DIR": str(tmp_path),
        "LDAP_PASSWORD": settings["MQDSSM_PASSWORD_FILE"],
        "LDAP_CA": settings["MQDSSM_CA_FILE"],
    }
    variables = {}
    for name, value in job["variables"].items():
        variables[name] = Template(value).substitute(given)
    variables |= {name: settings[name] for name in ("MQDSSM_URL", "MQDSSM_USER")}
    (line,) = job["script"]
    command = ["sh", "-c", line.replace(IN_IMAGE, str(SCRIPT))]
    folder = tmp_path / "nightly"
    status, output = night(command, **variables)
    assert status == 2, output  # a baseline that is named and missing is not made anew
    assert "known.jsonl cannot be read" in output
    assert not folder.exists()
    Baseline.of([], datetime.now(UTC)).write(tmp_path / "known.jsonl")
    status, output = night(command, **variables)
    assert status == 0, output
    for path in job["artifacts"]["paths"]:
        assert (tmp_path / path).is_file()
    (kept,) = job["cache"]["paths"]
    assert len((tmp_path / kept / "history" / "runs.jsonl").read_text().splitlines()) == 1
    assert not (folder / "known.jsonl").exists()


def test_the_unit_of_systemd_is_sound_and_its_settings_are_those_of_the_script(
    settings: dict[str, str], tmp_path: Path
) -> None:
    unit = (NIGHTLY / "mqdssm-nightly.service").read_text()
    lines = [
        line.removeprefix("Environment=") for line in unit.splitlines() if line.startswith("Environment=")
    ]
    variables = dict(one.split("=", 1) for line in lines for one in line.split())
    assert variables["MQDSSM_PASSWORD_FILE"] == "%d/ldap-password"
    assert set(variables) <= {*settings, "NIGHTLY_METRICS"}
    assert "DynamicUser" not in re.findall(r"^\w+", unit, re.MULTILINE)  # node_exporter reads the metrics
    assert "StateDirectoryMode=0755" in unit
    moved = {name: value.replace("/var/lib/mqdssm", str(tmp_path)) for name, value in variables.items()}
    status, output = night(["sh", str(SCRIPT)], **moved | {k: v for k, v in settings.items() if k[0] == "M"})
    assert status == 0, output
    made = {one.name: one.stat().st_mode & 0o777 for one in (tmp_path / "mqdssm.prom").parent.iterdir()}
    assert made.pop("mqdssm.prom") == 0o644
    assert {mode & 0o077 for name, mode in made.items() if name != "password"} == {0}
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze")
    units = [NIGHTLY / "mqdssm-nightly.service", NIGHTLY / "mqdssm-nightly.timer"]
    done = subprocess.run([program, "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (when,) = re.findall("^OnCalendar=(.*)$", units[1].read_text(), re.MULTILINE)
    done = subprocess.run([program, "calendar", when], capture_output=True, text=True, check=False)
    assert f"Normalized form: {when}\n" in done.stdout
