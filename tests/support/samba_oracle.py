"""Samba's own code for security descriptors, asked through the system's Python (Debian: python3-samba)."""

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest

SYSTEM_PYTHON = Path("/usr/bin/python3")

# Parts of a descriptor are never touched: in some versions they outlive it, and the process dies.
PROGRAM = """
import json, sys
from samba.dcerpc import security
from samba.ndr import ndr_pack, ndr_unpack

def answer(question):
    kind, value, domain = question
    if kind == "sid":
        return str(ndr_unpack(security.dom_sid, bytes.fromhex(value)))
    if kind == "pack-sid":
        return ndr_pack(security.dom_sid(value)).hex()
    domain = security.dom_sid(domain)
    if kind == "sddl":
        made = security.descriptor.from_sddl(value, domain)
    else:
        made = ndr_unpack(security.descriptor, bytes.fromhex(value))
    return {"hex": ndr_pack(made).hex(), "sddl": made.as_sddl(domain)}

json.dump([answer(question) for question in json.load(sys.stdin)], sys.stdout)
"""


@cache
def missing() -> str:
    """Why Samba cannot be asked here, or nothing."""
    if not SYSTEM_PYTHON.exists():
        return f"needs {SYSTEM_PYTHON}"
    ran = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import samba.ndr, samba.dcerpc.security"], capture_output=True, check=False
    )
    return "" if ran.returncode == 0 else "needs Samba's Python modules (Debian: apt install python3-samba)"


def ask(questions: list[tuple[str, str, str]]) -> list:
    """Answer (kind, value, domain SID) questions in one go; skip the test where Samba is not installed."""
    if missing():
        pytest.skip(missing())
    ran = subprocess.run(
        [SYSTEM_PYTHON, "-c", PROGRAM],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(ran.stdout)
