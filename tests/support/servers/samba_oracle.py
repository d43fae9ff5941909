"""Samba's own code for security descriptors, asked through the system's Python (Debian: python3-samba)."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

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

for line in sys.stdin:
    print(json.dumps([answer(question) for question in json.loads(line)]), flush=True)
"""

Question = tuple[str, str, str]


@cache
def missing() -> str:
    """Why Samba cannot be asked here, or nothing."""
    if not SYSTEM_PYTHON.exists():
        return f"needs {SYSTEM_PYTHON}"
    ran = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import samba.ndr, samba.dcerpc.security"], capture_output=True, check=False
    )
    return "" if ran.returncode == 0 else "needs Samba's Python modules (Debian: apt install python3-samba)"


class SambaOracle:
    """A process that answers (kind, value, domain SID) questions until it is closed."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [SYSTEM_PYTHON, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, questions: list[Question]) -> list[Any]:
        """Answer questions, in their order."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(questions) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "Samba's code died over these questions"
        return list(json.loads(answer))

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=20)
