"""LDIF out of a comparison: what it has to leave out of B becomes a comment."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.mqis.comparison import ROOTS

from mqdssm.model.dn import DN
from mqdssm.pipeline.diff.changes import format_changes
from mqdssm.pipeline.diff.local_join import LocalJoin
from mqdssm.pipeline.diff.run import ComparisonRequest, _compare_sides
from mqdssm.pipeline.diff.sides import Side, Sort
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.validate.datasets import read_dataset

HERE, THERE, NOWHERE = (f"00000000-0000-0000-0000-00000000000{digit}" for digit in "abc")
SITE = "00000000-0000-0000-0000-00000000000d"
World = dict[str, list[dict[str, Any]]]


def ldif(folder: Path, a: World, b: World) -> str:
    """LDIF that makes B equal A; each world holds the types of both."""
    sides = []
    for letter, world, root in zip("AB", (a, b), ROOTS, strict=True):
        sets = {}
        for name, rows in world.items():
            path = folder / f"{letter}-{name}.parquet"
            pq.write_table(
                pa.Table.from_pylist(rows, schema=make_arrow_schema(FRAME_TYPES[name].columns)), path
            )
            sets[name] = read_dataset(name, [path])
        sides.append(Side(letter, Sort.EXPORT, letter, sets, DN.parse(root), "openldap"))
    first, second = sides
    asked = ComparisonRequest(recheck=0, mending=True)
    found = _compare_sides(LocalJoin(LocalRunner(1)), (first, second), asked, folder)
    return "".join(format_changes(found)).replace("\n ", "")


def queue_manager(name: str, guid: str, root: str, **more: Any) -> dict[str, Any]:
    path = f"CN=msmq,CN={name},CN=Computers,{root}"
    return {"Identifier": guid, "ComputerName": name, "FullPath": path, **more}


def test_routing_servers_that_b_does_not_have_are_named(tmp_path: Path) -> None:
    servers = {"OutRoutingServerIdentifierList": [THERE, NOWHERE]}
    known = [queue_manager("web02", THERE, root) for root in ROOTS]
    a = {"queue-manager": [queue_manager("web01", HERE, ROOTS[0], **servers), known[0]]}
    added = ldif(tmp_path, a, {"queue-manager": [known[1]]})
    assert f"replace: mSMQOutRoutingServers\nmSMQOutRoutingServers: {known[1]['FullPath']}\n-" in added
    words = f"queue-manager CN=msmq,CN=web01,CN=Computers,{ROOTS[1]}: mSMQOutRoutingServers"
    comment = f"# {words} is written without {NOWHERE}, which B does not have\n"
    assert added.count(comment) == 1
    assert added.count(NOWHERE) == 1

    b = {"queue-manager": [queue_manager("web01", HERE, ROOTS[1]), known[1]]}
    changed = ldif(tmp_path, a, b)
    assert changed.count(comment) == 1
    assert f"mSMQOutRoutingServers: {known[1]['FullPath']}\n" in changed


def test_a_link_whose_site_b_does_not_have_is_named(tmp_path: Path) -> None:
    link = {
        "Identifier": HERE,
        "FullPath": f"CN=a,CN=MsmqServices,CN=Services,CN=Configuration,{ROOTS[0]}",
        "Site1Identifier": SITE,
        "Site2Identifier": NOWHERE,
        "ActualCost": 1,
    }
    sites = [
        {"Identifier": SITE, "Name": "Oslo", "FullPath": f"CN=Oslo,CN=Sites,CN=Configuration,{root}"}
        for root in ROOTS
    ]
    added = ldif(
        tmp_path,
        {"site": [sites[0]], "routing-link": [link]},
        {"site": [sites[1]], "routing-link": []},
    )
    assert "changetype" not in added
    assert f"is left as it is: Site2Identifier: there is no site {NOWHERE}\n" in added


def test_nothing_is_said_of_references_that_b_has_or_that_are_guids(tmp_path: Path) -> None:
    """mSMQSites holds GUIDs, which B can store without the site; what is added at once is there, too."""
    servers = {"OutRoutingServerIdentifierList": [THERE], "SiteIdentifierList": [NOWHERE]}
    rows = [queue_manager("web01", HERE, ROOTS[0], **servers), queue_manager("web02", THERE, ROOTS[0])]
    added = ldif(tmp_path, {"queue-manager": rows}, {"queue-manager": []})
    assert added.count("\n# ") == 0
    assert "mSMQSites:: " in added
