"""The access check against Samba's own, in one process of the system's Python."""

import json
import shutil
import subprocess

import pytest
from hypothesis import Phase, given, settings
from support.wire.access_cases import BITS, LISTS, OWNERS, USERS

from mqdssm.tables.access_check import check_access
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import DescriptorControl, QueueAccess
from mqdssm.wire.sid import Sid

CHECKER = """
import json, sys
from samba import security
from samba.dcerpc import security as ndr
from samba.ndr import ndr_unpack

def granted(case, bit):
    descriptor = ndr_unpack(ndr.descriptor, bytes.fromhex(case["descriptor"]))
    token = ndr.token()
    token.sids = [ndr.dom_sid(sid) for sid in case["sids"]]
    token.num_sids = len(case["sids"])
    try:
        security.access_check(descriptor, token, bit)
    except Exception:
        return False
    return True

print(json.dumps([[granted(case, bit) for bit in case["bits"]] for case in json.load(sys.stdin)]))
"""
CASES = 300
NOBODY = Sid("S-1-5-21-9-9-9-9")


def has_samba() -> bool:
    python = shutil.which("python3", path="/usr/bin")
    return (
        python is not None
        and subprocess.run(
            [python, "-c", "from samba import security; security.access_check"],
            check=False,
            capture_output=True,
        ).returncode
        == 0
    )


@pytest.mark.slow
def test_samba_decides_alike() -> None:
    if not has_samba():
        pytest.skip("Samba's Python modules are not installed")
    cases: list[tuple[list, Sid | None, set[Sid]]] = []

    @settings(max_examples=CASES, database=None, phases=[Phase.generate])
    @given(LISTS, OWNERS, USERS)
    def collect(aces, owner, sids) -> None:
        cases.append((aces, owner, sids))

    collect()
    asked = [
        {
            "descriptor": bytes(
                SecurityDescriptor.build(
                    owner=owner or NOBODY,
                    group=NOBODY,
                    dacl=aces,
                    control=DescriptorControl.DACL_PRESENT if aces is None else 0,
                )
            ).hex(),
            "sids": sorted(sid.text for sid in sids),
            "bits": BITS,
        }
        for aces, owner, sids in cases
    ]
    done = subprocess.run(
        ["/usr/bin/python3", "-c", CHECKER],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    all_answers = json.loads(done.stdout)
    assert {answer for answers in all_answers for answer in answers} == {True, False}
    for (aces, owner, sids), answers in zip(cases, all_answers, strict=True):
        found = check_access(aces, owner or NOBODY, sids, QueueAccess)
        wanted = [bool(found.granted & bit) for bit in BITS]
        assert answers == wanted, (aces, owner, sids)
    assert len(cases) >= CASES // 2
