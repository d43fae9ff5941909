"""``mqdssm enterprise`` and ``mqdssm serve``: directory servers as processes, each with its own slapd."""

import json
import re
import signal
import socket
import subprocess
import time
import tomllib
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.programs.starting import MQDSSM, start

from mqdssm.server.join_token import fingerprint_of

pytestmark = pytest.mark.slow  # starts programs

WAIT_S = 60
QUICK = "\n[timers]\nintrasite_s = 0.1\nintersite_s = 0.1\nheader_s = 1\nsync_wait_s = 1\n"


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def serving(folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """A server at work in a process of its own; it is stopped at the end."""
    line = [*MQDSSM, "serve", str(folder / "server.toml"), "-o", "json", *options]
    with start(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready, process.communicate()[1]
            assert json.loads(ready)["event"] == "ready"
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=WAIT_S)


def wait_for(alone, folder, condition):
    """Wait until the partitions of a server, by name, fulfil a condition."""
    deadline = time.monotonic() + WAIT_S
    while True:
        snapshot = alone.json("status", "--server", str(folder / "control.sock"))
        partitions = {part["partition_id"]: part for part in snapshot["partitions"]}
        if condition(partitions):
            return snapshot
        assert time.monotonic() < deadline, snapshot
        time.sleep(0.1)


def made(alone, folder, *arguments):
    """A new server's folder, with quick timers; the identifier of its site."""
    alone("enterprise", *arguments)
    file = folder / "server.toml"
    file.write_text(file.read_text() + QUICK)
    return next(text.split('"')[1] for text in file.read_text().splitlines() if text.startswith("site_id"))


def join_by_token(alone, psc, folder):
    """The PSC of Paris admits a BSC on another host by a token; the BSC gets the site, and changes it."""
    token, server = folder.parent / "bsc2.token", ("--server", str(psc / "control.sock"))
    make = ("enterprise", "make-token", "--machine", "BSC02", "--to", str(token), *server)
    assert "only the PEC adds a PSC" in alone.error(*make, "--role", "psc", "--site", "Rome", code=2)
    assert "the PSC of Berlin adds" in alone.error(*make, "--role", "bsc", "--site", "Berlin", code=2)
    fingerprint = alone.json(*make, "--role", "bsc", "--site", "Paris")["fingerprint"]
    site = made(alone, folder, "add-server", str(folder), "--token", str(token), "--listen", free_address())
    config = tomllib.loads((folder / "server.toml").read_text())
    named = config["server"]
    assert (named["role"], named["psc_name"], named["pec_name"]) == ("BSC", "PSC01", "PEC01")
    pinned = {key["machine_name"]: b64decode(key["public_keys"]) for key in config["pinned"]}
    assert (set(pinned), fingerprint_of(pinned["PSC01"])) == ({"PSC01", "PEC01"}, fingerprint)
    with serving(folder):
        wait_for(alone, folder, lambda parts: parts.get(site, {}).get("last_number") == 4)
        alone("create", "queue", r"Pathname=BSC02\invoices", *("--server", str(folder / "control.sock")))
        wait_for(alone, psc, lambda parts: parts[site]["last_number"] == 5)


@pytest.mark.spec("MC-MQDSRP 2.1")
@pytest.mark.parametrize(
    "ending", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.soak)], ids=["stop", "kill"]
)
def test_an_enterprise_of_three_processes(alone, tmp_path, ending):
    """A PEC, a PSC and a BSC; the PSC and the PEC end and come back."""
    pec, psc, bsc = (tmp_path / name for name in ("pec", "psc", "bsc"))
    through = {folder: ("--through", str(folder / "control.sock")) for folder in (pec, psc)}
    named = ("--name", "Contoso", "--site", "Berlin", "--machine", "PEC01")
    made(alone, pec, "init", str(pec), *named, "--listen", free_address())
    with serving(pec) as pec_process:
        paris, token = ("--role", "psc", "--site", "Paris", "--machine", "PSC01"), str(tmp_path / "token")
        server = ("--server", str(pec / "control.sock"))
        answer = alone.json("enterprise", "make-token", *paris, "--to", token, *server)
        assert answer["fingerprint"].startswith("SHA256:")
        site = made(alone, psc, "add-server", str(psc), "--token", token, "--listen", free_address())
        assert pec_process.stdout is not None
        assert answer["fingerprint"] not in pec_process.stdout.readline(), "a report of the key of the PSC"
        with serving(psc) as psc_process:
            wait_for(alone, pec, lambda parts: parts.get(site, {}).get("last_number") == 1)
            further = ("--role", "bsc", "--machine", "BSC01", "--site", "Paris", "--listen", free_address())
            made(alone, bsc, "add-server", str(bsc), *further, *through[psc])
            with (bsc / "server.toml").open("a") as file:
                file.write("\n[notification]\nsend = true\nreceive = true\n")
            with serving(bsc) as bsc_process:
                wait_for(alone, bsc, lambda parts: parts.get(site, {}).get("last_number") == 2)
                queue = ("queue", r"Pathname=BSC01\orders", "Label=Orders")
                alone("create", *queue, "--server", str(bsc / "control.sock"))
                assert bsc_process.stdout is not None
                events = map(json.loads, bsc_process.stdout)
                created = next(event for event in events if event["event"] == "queue_created")
                assert created["name"] == r"bsc01\orders"
                shown = alone("status", "--server", str(bsc / "control.sock")).stdout
                assert re.search(r"own queues\s+1\b", shown)
            join_by_token(alone, psc, tmp_path / "bsc2")
            psc_process.send_signal(ending)
            psc_process.wait(WAIT_S)
        with serving(psc), serving(bsc):
            pec_process.send_signal(signal.SIGTERM)
            assert pec_process.wait(WAIT_S) == 0
            with serving(pec):
                for folder in (pec, psc, bsc):
                    wait_for(alone, folder, lambda parts: parts.get(site, {}).get("last_number") == 5)
                alone("create", *queue, "--server", str(psc / "control.sock"), code=5)
                refused = alone(
                    "enterprise", "add-server", str(tmp_path / "x"), "--role", "psc", "--site", "Paris",
                    "--machine", "OTHER", "--listen", free_address(), *through[pec], code=6,
                )  # fmt: skip
                assert "exists already" in refused.stderr
                wrong = alone(
                    "enterprise", "add-server", str(tmp_path / "y"), "--role", "bsc", "--site", "Paris",
                    "--machine", "OTHER", "--listen", free_address(), *through[pec], code=2,
                )  # fmt: skip
                assert "the PSC of Paris adds its BSCs" in wrong.stderr


def test_a_folder_holds_one_server(alone, tmp_path):
    folder = tmp_path / "pec"
    init = ("enterprise", "init", str(folder), "--name", "Contoso", "--site", "Berlin", "--machine", "PEC01")
    document = alone.json(*init, "--listen", "127.0.0.1:11801")
    assert document == {"config": str(folder / "server.toml")}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "is not empty" in alone(*init, code=2).stderr
    elsewhere = ("enterprise", "init", str(tmp_path / "b"), "--name", "C", "--site", "B", "--machine", r"A\B")
    assert "no name of a machine" in alone(*elsewhere, code=2).stderr


def test_a_site_that_was_added_before_its_psc(alone, tmp_path):
    """Nobody owns it until its PSC comes, which gets the identifier and the interval of the site."""
    pec, psc = (tmp_path / name for name in ("pec", "psc"))
    named = ("--name", "Contoso", "--site", "Berlin", "--machine", "PEC01")
    made(alone, pec, "init", str(pec), *named, "--listen", free_address())
    server = ("--server", str(pec / "control.sock"))
    with serving(pec):
        alone("enterprise", "add-site", "--site", "Paris", "--inter-site-interval", "7", *server)
        assert "exists already" in alone.error("enterprise", "add-site", "--site", "paris", *server, code=6)
        snapshot = wait_for(
            alone, pec, lambda parts: any(part["site_name"] == "Paris" for part in parts.values())
        )
        (paris,) = [part for part in snapshot["partitions"] if part["site_name"] == "Paris"]
        assert paris["owner"] == ""
        assert any("no server owns it" in problem["text"] for problem in snapshot["problems"])
        further = ("--role", "psc", "--machine", "PSC01", "--site", "Paris", "--listen", free_address())
        through = ("--through", str(pec / "control.sock"))
        plan = alone.json("enterprise", "add-server", str(psc), *further, *through, "--dry-run")
        assert plan["steps"][1].endswith("admit PSC01 as a PSC of Paris")
        site = made(alone, psc, "add-server", str(psc), *further, *through)
        assert site == paris["partition_id"]
        with serving(psc):
            wait_for(alone, pec, lambda parts: parts[site]["last_number"] == 1)
            alone("create", "queue", r"Pathname=PSC01\orders", *server)
            wait_for(alone, psc, lambda parts: parts.get(site, {}).get("last_number") == 2)
            snapshot = wait_for(alone, pec, lambda parts: parts[site]["last_number"] == 2)
            assert {part["owner"] for part in snapshot["partitions"]} == {"PEC01", "PSC01"}
        taken = ("--role", "psc", "--machine", "PSC02", "--site", "Paris", "--listen", free_address())
        refused = alone.error("enterprise", "add-server", str(tmp_path / "x"), *taken, *through, code=6)
        assert "exists already" in refused
