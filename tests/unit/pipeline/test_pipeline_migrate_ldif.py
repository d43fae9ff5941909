"""LDIF of a plan, for both kinds of servers: what is in which file, and what cannot be said in LDIF."""

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from support.directory.ldif_reader import read_ldif

from mqdssm.errors import ConfigError
from mqdssm.pipeline.manifest import hash_file
from mqdssm.pipeline.migrate.ldif import write_ldif
from mqdssm.pipeline.migrate.plan_file import (
    LEVELS,
    Level,
    MigrationPlan,
    OperationsFile,
    PlanAction,
    PlanFile,
    PlanOperation,
    PlanOptions,
    PlanTarget,
    make_row_id,
    read_operations,
)

SITE, ONE, TWO = (UUID(int=number) for number in (1, 2, 3))
ROOT = "DC=example,DC=com"


def machine(guid, name, **more):
    return PlanOperation(
        type="queue-manager",
        role="object",
        guid=guid,
        dn=f"CN=msmq,CN={name},CN=Computers,{ROOT}",
        action=PlanAction.ADD,
        ldap_class="mSMQConfiguration",
        values={"objectGUID": (guid.bytes_le,), "mSMQQuota": (b"7",)},
        **more,
    )


OPERATIONS = {
    1: [
        PlanOperation(
            type="enterprise",
            role="object",
            guid=None,
            dn=f"CN=MsmqServices,CN=Services,CN=Configuration,{ROOT}",
            action=PlanAction.MODIFY,
            ldap_class="mSMQEnterpriseSettings",
            values={"mSMQLongLived": (b"60",), "mSMQNameStyle": ()},
            before={"mSMQLongLived": (b"61",), "mSMQNameStyle": (b"TRUE",)},
        )
    ],
    2: [
        machine(ONE, "a", later={"mSMQOutRoutingServers": [str(TWO), str(UUID(int=9))]}),
        machine(TWO, "b", later={"mSMQOutRoutingServers": [str(ONE)], "mSMQSites": [str(SITE)]}),
    ],
    5: [
        PlanOperation(
            type="queue",
            role="object",
            guid=UUID(int=7),
            dn=f"CN=old,CN=msmq,CN=a,CN=Computers,{ROOT}",
            action=PlanAction.DELETE,
            ldap_class="mSMQQueue",
            before={"objectClass": (b"top", b"mSMQQueue")},
        )
    ],
}


def plan_of(folder, profile, refused=None):
    levels = []
    for number, operations in OPERATIONS.items():
        file = OperationsFile(
            folder / "operations" / LEVELS[number] / "part-00000.parquet", make_row_id(number, 0, 0)
        )
        for one in operations:
            file.write(one)
        file.close()
        made = PlanFile(
            path=file.path.relative_to(folder).as_posix(), rows=file.rows, sha256=hash_file(file.path)
        )
        levels.append(Level(number=number, name=LEVELS[number], files=(made,)))
    keeps = profile == "openldap"
    return MigrationPlan(
        made=datetime.now(UTC),
        source="mqis",
        target=PlanTarget(
            urls=("ldap://x",),
            profile=profile,
            root=ROOT,
            configuration=f"CN=Configuration,{ROOT}",
            keeps_guids=keeps,
        ),
        options=PlanOptions(),
        tables={},
        operations={},
        levels=tuple(levels),
        equal=(),
        refused=refused,
    )


def test_operations_come_back_as_they_were_written(tmp_path):
    plan = plan_of(tmp_path, "openldap")
    (file,) = plan.levels[1].files
    found = list(read_operations(tmp_path / file.path))
    assert [one.row_id for one in found] == [(2 << 40), (2 << 40) + 1]
    assert [(one.guid, one.dn, dict(one.values)) for one in found] == [
        (one.guid, one.dn, dict(one.values)) for one in OPERATIONS[2]
    ]
    assert {name: list(guids) for name, guids in found[1].later.items()} == OPERATIONS[2][1].later
    assert PlanAction.EQUAL not in {one.action for one in found}


def test_openldap_takes_references_with_the_adds(tmp_path):
    plan = plan_of(tmp_path / "plan", "openldap")
    records = write_ldif(plan, tmp_path / "plan", tmp_path / "ldif")
    assert records == {"2-machines.ldif": 2, "8-changes.ldif": 1, "9-deletes.ldif": 1, "waiting.jsonl": 2}
    adds = dict(read_ldif((tmp_path / "ldif" / "2-machines.ldif").read_bytes()))
    first = adds[OPERATIONS[2][0].dn]
    assert first["msmqoutroutingservers"] == [OPERATIONS[2][1].dn.encode()]
    assert first["objectclass"] == [b"top", b"mSMQConfiguration"]
    assert (first["cn"], first["objectguid"]) == ([b"msmq"], [ONE.bytes_le])
    changes = (tmp_path / "ldif" / "8-changes.ldif").read_text()
    assert (
        "changetype: modify\nreplace: mSMQLongLived\nmSMQLongLived: 60\n-\nreplace: mSMQNameStyle\n-\n"
        in changes
    )
    assert "changetype: delete\n" in (tmp_path / "ldif" / "9-deletes.ldif").read_text()
    assert (tmp_path / "ldif" / "2-machines.ldif").stat().st_mode & 0o777 == 0o600


def test_ldifde_takes_references_at_the_end(tmp_path):
    plan = plan_of(tmp_path / "plan", "activedirectory")
    records = write_ldif(plan, tmp_path / "plan", tmp_path / "ldif")
    assert list(records) == [
        "2-machines.ldif",
        "7-references.ldif",
        "8-changes.ldif",
        "9-deletes.ldif",
        "waiting.jsonl",
    ]
    adds = (tmp_path / "ldif" / "2-machines.ldif").read_text()
    assert adds.count("changetype: add\n") == 2
    assert "objectGUID" not in adds
    assert "mSMQOutRoutingServers" not in adds
    references = (tmp_path / "ldif" / "7-references.ldif").read_text()
    assert references.count("replace: mSMQOutRoutingServers\n") == 2
    first, second = map(json.loads, (tmp_path / "ldif" / "waiting.jsonl").read_text().splitlines())
    nobody = [str(UUID(int=9))]
    assert first == {"dn": OPERATIONS[2][0].dn, "attribute": "mSMQOutRoutingServers", "guids": nobody}
    assert second == {"dn": OPERATIONS[2][1].dn, "attribute": "mSMQSites", "guids": [str(SITE)]}


def test_a_plan_that_cannot_be_applied(tmp_path):
    plan = plan_of(tmp_path / "plan", "openldap", refused="2 objects exist and differ")
    with pytest.raises(ConfigError, match="cannot be applied: 2 objects exist and differ"):
        write_ldif(plan, tmp_path / "plan", tmp_path / "ldif")
    assert not (tmp_path / "ldif").exists()
