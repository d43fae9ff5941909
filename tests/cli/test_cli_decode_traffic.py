"""``mqdssm decode --pcap`` of real traffic of two directory servers, captured by tcpdump on loopback."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.replication.live_servers import Enterprise, pec_with_site, site_of, with_controller
from support.replication.tcp_machines import TcpNetworks

from mqdssm.model.hresults import Hresult

pytestmark = pytest.mark.slow  # waits for threads and sockets

TCPDUMP = shutil.which("tcpdump", path="/usr/sbin:/usr/bin:/sbin:/bin")


@contextmanager
def captured(port: int, path: Path) -> Iterator[None]:
    """Capture the connections of a port.

    Root has tcpdump from `make setup-test`, and may capture: nothing is skipped. Others may not.
    """
    is_root = os.geteuid() == 0
    if TCPDUMP is None:
        (pytest.fail if is_root else pytest.skip)("there is no tcpdump: make setup-test as root installs it")
    options = ["-i", "lo", "-n", "-U", "--immediate-mode", "-Z", "root", "-w", str(path)]
    line = [TCPDUMP, *options, f"tcp port {port}"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = next((text for text in process.stderr if "listening" in text or "permission" in text), "")
        if "listening" not in first:
            (pytest.fail if is_root else pytest.skip)(f"tcpdump cannot capture here: {first.strip()}")
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.stderr.read()
    assert process.returncode == 0


@pytest.mark.spec("MS-MQQB 2.1")
@pytest.mark.spec("MC-MQDSRP 2.1")
def test_traffic_of_two_directory_servers(alone, tmp_path):
    capture = tmp_path / "loopback.pcap"
    networks = TcpNetworks(tmp_path)
    enterprise = Enterprise(network=networks)
    try:
        pec_with_site(enterprise)
        port = networks.address_of("PEC").port
        with captured(port, capture):
            with_controller(enterprise)
            assert enterprise.servers["PSC1"].create_queue(r"PSC1\orders", "Site1").status == Hresult.MQ_OK
            enterprise.wait_equal("PEC", "PSC1", partition_id=site_of("Site1"))
    finally:
        enterprise.close()
    items = alone.json("decode", "--pcap", "--port", str(port), str(capture))
    assert not [item["error"] for item in items if item["error"]]
    packets = [item["packet"] for item in items if item["session"] == 1]
    handshake = ["EstablishConnection"] * 2 + ["ConnectionParameters"] * 2
    assert packets[:5] == [*handshake, "UserMessage"]
    messages = [item["fields"] for item in items if item["packet"] == "UserMessage"]
    assert all(message["SecurityHeader"]["Signature"] for message in messages)
    bodies = [message["MessagePropertiesHeader"]["MessageBody"] for message in messages]
    operations = {body["BaseReplicationHeader"]["Operation"] for body in bodies}
    assert {0, 1} & operations, "changes or questions of directory servers"
    assert any("orders" in str(body) for body in bodies)
