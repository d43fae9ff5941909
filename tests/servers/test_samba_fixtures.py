"""The fixtures for Active Directory that mqdssm brings to everybody's tests."""

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import mqdssm
from mqdssm.events.facade import Directory
from mqdssm.testing import SambaDomainController


def test_the_directory_writes_and_reads(
    samba_server: SambaDomainController, samba_directory: Directory
) -> None:
    name = f"FX{uuid4().hex[:8].upper()}"
    samba_server.add_computer(name)
    site = samba_directory.create(mqdssm.Site(name=name))
    samba_directory.create(mqdssm.QueueManager(computer_name=name, site_identifier_list=[site]))
    samba_directory.create(mqdssm.Queue(pathname=rf"{name}\orders"))
    assert rf"{name}\orders".lower() in {
        str(queue.pathname).lower() for queue in samba_directory.search(mqdssm.Queue)
    }


def test_a_run_without_them_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import sys\n"
        "def test_one():\n"
        "    assert 'mqdssm.testing.samba' not in sys.modules\n"
        "    assert 'ldap3' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", tmp_path], check=True, capture_output=True, timeout=60
    )
