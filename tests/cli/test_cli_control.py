"""``mqdssm status``, and changes through the control socket of a directory server."""

from uuid import UUID

import pytest
from support.replication.live_servers import Enterprise, pec_with_site
from support.servers.terminal import in_terminal

from mqdssm.cli.exits import INTERRUPTED
from mqdssm.server.control_server import ControlServer
from mqdssm.server.control_service import ControlService
from mqdssm.server.snapshot_reader import SnapshotReader


@pytest.fixture
def path(tmp_path):
    """Control socket of a PEC."""
    enterprise = Enterprise()
    try:
        pec_with_site(enterprise)
        server = enterprise.servers["PEC"].server
        service = ControlService(server, SnapshotReader(server).read, lambda: None)
        with ControlServer(tmp_path / "control.sock", service):
            yield tmp_path / "control.sock"
    finally:
        enterprise.close()


def test_a_site_whose_psc_never_started_is_removed(alone, path):
    server = ("--server", str(path))
    remove = ("enterprise", "remove-site", "--site", "Site1", *server)
    plan = alone.json(*remove, "--dry-run")
    assert plan["steps"][0] == "Site1 has no PSC any more: the PEC has received nothing from its PSC"
    alone(*remove)
    sites = {part["site_name"] for part in alone.json("status", *server)["partitions"]}
    assert "Site1" not in sites
    alone(*remove, code=4)


@pytest.mark.slow  # starts a program
def test_status_is_shown_again_and_again_until_ctrl_c(path, tmp_path):
    args = ["status", "--server", str(path), "--watch"]
    environment = {"MQDSSM_CONFIG": str(tmp_path / "none.toml")}
    code, sent = in_terminal(args, {"running since": "\x03"}, environment, times=2)
    assert code == INTERRUPTED, sent
    assert sent.count("running since") == 2
    assert "Traceback" not in sent


def test_status_and_changes_by_the_socket(alone, path):
    server = ("--server", str(path))
    shown = alone("status", *server).stdout
    assert "PEC, PEC of Site0" in " ".join(shown.split())
    assert alone.json("status", *server)["machine_name"] == "PEC"
    made = alone.json("create", "queue", r"Pathname=PEC\line", "Label=Orders", *server)
    assert UUID(made["Identifier"])
    assert "exists" in alone("create", "queue", r"Pathname=PEC\line", *server, code=5).stderr.lower()
    alone("write", "queue", r"Pathname=PEC\line", "Label=Paid", *server)
    alone("delete", "queue", r"Pathname=PEC\line", *server)
    alone("delete", "queue", r"Pathname=PEC\line", *server, code=4)
    alone("create", "site", "Name=Rome", *server, code=2)
    alone("delete", "queue-manager", "ComputerName=a", "--recursive", *server, code=2)
    gone = alone("status", "--server", f"{path}.gone", code=3)
    assert "mqdssm serve" in gone.stderr
