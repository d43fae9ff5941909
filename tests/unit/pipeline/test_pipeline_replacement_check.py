"""A plan for the replacement of a server does nothing that does not follow from its move."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from mqdssm.errors import ConfigError
from mqdssm.model.dn import DN
from mqdssm.pipeline.manifest import hash_file
from mqdssm.pipeline.migrate.ldif import ALL_FILE, write_ldif
from mqdssm.pipeline.migrate.moves import Move, move_values
from mqdssm.pipeline.migrate.plan_check import check_operations
from mqdssm.pipeline.migrate.plan_file import (
    EntryRole,
    Level,
    MigrationPlan,
    OperationsFile,
    PlanAction,
    PlanFile,
    PlanKind,
    PlanOperation,
    PlanOptions,
    PlanTarget,
)

ROOT = "DC=example,DC=com"
CONFIGURATION = f"CN=Configuration,{ROOT}"
COMPUTERS = f"CN=Computers,{ROOT}"
OLD, NEW = f"CN=msmq,CN=old,{COMPUTERS}", f"CN=msmq,CN=new,OU=servers,{ROOT}"
GUID, EMPTY, OLD_COMPUTER, NEW_COMPUTER = (UUID(int=number) for number in range(1, 5))
MOVE = Move(
    guid=GUID,
    old=DN.parse(OLD),
    new=DN.parse(NEW),
    old_computer=OLD_COMPUTER,
    new_computer=NEW_COMPUTER,
).make_operation("queue-manager", "Machine", 1)
SERVERS = f"CN=Servers,CN=Berlin,CN=Sites,{CONFIGURATION}"
LINK = f"CN=a,CN=MsmqServices,CN=Services,{CONFIGURATION}"
GROUP, ALIAS = f"CN=list,CN=Users,{ROOT}", f"CN=alias,CN=Users,{ROOT}"
Values = Mapping[str, Sequence[bytes]]


def operation(
    action: PlanAction,
    dn: str,
    ldap_class: str,
    values: Values | None = None,
    before: Values | None = None,
    *,
    role: EntryRole = EntryRole.OBJECT,
    guid: UUID | None = None,
) -> PlanOperation:
    return PlanOperation(
        type="queue-manager",
        role=role,
        guid=guid,
        dn=dn,
        action=action,
        ldap_class=ldap_class,
        values=values or {},
        before=before or {},
    )


def settings(action: PlanAction, computer: str, owner: UUID = GUID) -> PlanOperation:
    values = {} if action is PlanAction.DELETE else {"mSMQQMID": (owner.bytes_le,)}
    dn = f"CN=MSMQ Settings,CN={computer},{SERVERS}"
    return operation(action, dn, "mSMQSettings", values, role=EntryRole.SETTINGS)


def server(action: PlanAction, computer: str) -> PlanOperation:
    return operation(action, f"CN={computer},{SERVERS}", "server", role=EntryRole.CONTAINER)


def alias(old: str, new: str) -> PlanOperation:
    values, before = ({"msMQ-Recipient-FormatName": (text.encode(),)} for text in (new, old))
    return operation(PlanAction.MODIFY, ALIAS, "msMQ-Custom-Recipient", values, before)


ADD, MODIFY, DELETE = PlanAction.ADD, PlanAction.MODIFY, PlanAction.DELETE
GATES = {"mSMQSiteGates": (OLD.encode(),)}
MEMBERS = {"member": (f"CN=q,{OLD}".encode(), f"CN=Anna,CN=Users,{ROOT}".encode())}
FOLLOWING = {
    "an empty queue manager": operation(DELETE, NEW, "mSMQConfiguration", guid=EMPTY),
    "keys": operation(
        MODIFY, NEW, "mSMQConfiguration", {"mSMQEncryptKey": (), "nTSecurityDescriptor": (b"x",)}
    ),
    "rights": operation(MODIFY, f"CN=q,{NEW}", "mSMQQueue", {"nTSecurityDescriptor": (b"x",)}),
    "new settings": settings(ADD, "NEW"),
    "new server": server(ADD, "new"),
    "old settings": settings(DELETE, "old"),
    "old server": server(DELETE, "OLD"),
    "a gate": operation(MODIFY, LINK, "mSMQSiteLink", {"mSMQSiteGates": (NEW.encode(),)}, GATES),
    "a member": operation(
        MODIFY, GROUP, "group", {"member": (f"CN=q,{NEW}".encode(), MEMBERS["member"][1])}, MEMBERS
    ),
    "an alias": alias(r"DIRECT=OS:OLD\q", r"DIRECT=OS:new\q"),
    "an alias with a port": alias("DIRECT=HTTP://old.x.org:81/msmq/q", "DIRECT=HTTP://new.x.org:81/msmq/q"),
}
ADMINS = f"CN=Domain Admins,CN=Users,{ROOT}"
FOREIGN = {
    "the queue manager itself": operation(DELETE, NEW, "mSMQConfiguration", guid=GUID),
    "a queue manager without GUID": operation(DELETE, NEW, "mSMQConfiguration"),
    "another queue manager": operation(DELETE, OLD, "mSMQConfiguration", guid=EMPTY),
    "quota": operation(MODIFY, NEW, "mSMQConfiguration", {"mSMQQuota": (b"1",)}),
    "keys of others": operation(
        MODIFY, f"CN=msmq,CN=x,{COMPUTERS}", "mSMQConfiguration", {"mSMQEncryptKey": (b"x",)}
    ),
    "rights of others": operation(
        MODIFY, f"CN=q,CN=msmq,CN=x,{COMPUTERS}", "mSMQQueue", {"nTSecurityDescriptor": (b"x",)}
    ),
    "a label": operation(MODIFY, f"CN=q,{NEW}", "mSMQQueue", {"mSMQLabelEx": (b"x",)}),
    "a queue": operation(DELETE, f"CN=q,{NEW}", "mSMQQueue", guid=EMPTY),
    "a new queue": operation(ADD, f"CN=q,{NEW}", "mSMQQueue"),
    "settings of others": settings(DELETE, "x"),
    "settings of another owner": settings(ADD, "new", EMPTY),
    "new settings of the old computer": settings(ADD, "old"),
    "a server of others": server(ADD, "x"),
    "a new server of the old computer": server(ADD, "old"),
    "another gate": operation(MODIFY, LINK, "mSMQSiteLink", {"mSMQSiteGates": (ADMINS.encode(),)}, GATES),
    "a cost": operation(MODIFY, LINK, "mSMQSiteLink", {"mSMQCost": (b"1",)}, {"mSMQCost": (b"2",)}),
    "administrators": operation(MODIFY, ADMINS, "group", {"member": (NEW.encode(),)}, {"member": ()}),
    "a group's name": operation(MODIFY, GROUP, "group", {"cn": (b"x",)}, {"cn": (b"y",)}),
    "an alias of another host": alias(r"DIRECT=OS:x\q", r"DIRECT=OS:new\q"),
    "an alias for another host": alias(r"DIRECT=OS:old\q", r"DIRECT=OS:x\q"),
    "an alias for another queue": alias(r"DIRECT=OS:old\q", r"DIRECT=OS:new\p"),
    "an alias for another port": alias("DIRECT=HTTP://old:81/msmq/q", "DIRECT=HTTP://new:82/msmq/q"),
    "an alias for something else": alias(r"DIRECT=OS:old\q", f"PUBLIC={GUID}"),
    "an alias without an earlier name": alias("", r"DIRECT=OS:new\q"),
    "an alias's name": operation(MODIFY, ALIAS, "msMQ-Custom-Recipient", {"displayName": (b"x",)}),
    "a user": operation(MODIFY, f"CN=Anna,CN=Users,{ROOT}", "user", {"mSMQDigests": (b"x",)}),
    "a computer": operation(MODIFY, f"CN=new,{COMPUTERS}", "computer", {"mSMQDigests": (b"x",)}),
    "a site": operation(MODIFY, f"CN=Berlin,CN=Sites,{CONFIGURATION}", "site", {"mSMQNt4Stub": (b"1",)}),
    "a later reference": replace(FOLLOWING["rights"], later={"mSMQSites": [str(GUID)]}),
    "a second move": MOVE,
}


def planned(folder: Path, *operations: PlanOperation, kind: PlanKind = PlanKind.REPLACEMENT) -> MigrationPlan:
    part = "operations/2-machines/part-00000.parquet"
    file = OperationsFile(folder / part, 0)
    counts: dict[str, int] = {}
    for one in operations:
        file.write(one)
        key = f"{one.role} {one.action}"
        counts[key] = counts.get(key, 0) + 1
    file.close()
    files = (PlanFile(path=part, rows=len(operations), sha256=hash_file(folder / part)),)
    return MigrationPlan(
        kind=kind,
        made=datetime.now(UTC),
        source="replacement",
        target=PlanTarget(
            urls=("ldap://x",), profile="openldap", root=ROOT, configuration=CONFIGURATION, keeps_guids=True
        ),
        options=PlanOptions(),
        tables={},
        operations=counts,
        deletes={"Machine": 1},
        levels=(Level(number=2, name="2-machines", files=files),),
        equal=(),
    )


def test_what_follows_from_the_move_is_allowed(tmp_path: Path) -> None:
    check_operations(planned(tmp_path, MOVE, *FOLLOWING.values()), tmp_path)


@pytest.mark.parametrize("name", FOREIGN)
def test_anything_else_is_refused(tmp_path: Path, name: str) -> None:
    some = [FOREIGN[name]]
    if name.startswith("a server") or name == "settings of others":
        some.append(settings(DELETE, "x"))
    with pytest.raises(ConfigError, match=r"no replacement does that; the plan was altered"):
        check_operations(planned(tmp_path, MOVE, *some), tmp_path)


@pytest.mark.parametrize("name", FOLLOWING)
def test_without_the_move_nothing_is_allowed(tmp_path: Path, name: str) -> None:
    some = FOLLOWING[name]
    more = [settings(DELETE, "OLD")] if name == "old server" else []
    with pytest.raises(ConfigError, match="move 0 queue managers: no replacement does that"):
        check_operations(planned(tmp_path, some, *more), tmp_path)


def to(new: str) -> PlanOperation:
    return replace(MOVE, values={**MOVE.values, "distinguishedName": (new.encode(),)})


@pytest.mark.parametrize(
    "move",
    [
        to(OLD),
        to(f"CN=other,CN=new,{COMPUTERS}"),
        to(f"CN=msmq,{ROOT}"),
        to(f"CN=msmq,CN=new,CN=Computers,DC=child,{ROOT}"),
        to("CN=msmq,CN=new,CN=Computers,DC=other,DC=org"),
        to(f"CN=msmq,CN=new,{CONFIGURATION}"),
        to("no name at all"),
        replace(MOVE, guid=None),
        replace(MOVE, dn=f"CN=msmq,CN=x,{COMPUTERS}"),
        replace(MOVE, ldap_class="mSMQQueue"),
        replace(MOVE, ldap_class="user"),
        replace(MOVE, values={**MOVE.values, "mSMQQuota": (b"1",)}),
        replace(MOVE, values={"distinguishedName": (NEW.encode(),)}),
        replace(MOVE, values={**MOVE.values, "parentGUID": (b"short",)}),
        replace(MOVE, values={**MOVE.values, "parentGUID": (b"x" * 16, b"y" * 16)}),
        replace(MOVE, before={}),
    ],
)
def test_a_move_goes_to_a_computer_of_the_domain(tmp_path: Path, move: PlanOperation) -> None:
    with pytest.raises(ConfigError, match=r"no replacement does that; the plan was altered"):
        check_operations(planned(tmp_path, move), tmp_path)


def test_other_plans_move_nothing(tmp_path: Path) -> None:
    for kind in (PlanKind.MIGRATION, PlanKind.ORPHANS):
        with pytest.raises(ConfigError, match=r"would move .* does that; the plan was altered"):
            check_operations(planned(tmp_path / kind, MOVE, kind=kind), tmp_path / kind)


def test_names_after_a_move() -> None:
    move = Move.of(MOVE)
    assert MOVE.dn_after == NEW
    values = (OLD.encode(), f"CN=q,{OLD.lower()}".encode(), f"CN=a,{ROOT}".encode(), b"\xff", b"no name")
    expected = (NEW.encode(), f"CN=q,{NEW}".encode(), *values[2:])
    assert move_values([move], values) == expected


def test_ldif_has_the_operations_in_their_order(tmp_path: Path) -> None:
    plan = planned(tmp_path / "plan", FOLLOWING["an empty queue manager"], MOVE, FOLLOWING["keys"])
    assert write_ldif(plan, tmp_path / "plan", tmp_path / "ldif") == {ALL_FILE: 3}
    records = (tmp_path / "ldif" / ALL_FILE).read_text().split("\n\n")
    assert records[0].endswith("changetype: delete")
    assert records[1].splitlines() == [
        f"dn: {OLD}",
        "changetype: modrdn",
        "newrdn: CN=msmq",
        "deleteoldrdn: 1",
        f"newsuperior: CN=new,OU=servers,{ROOT}",
    ]
    assert "replace: mSMQEncryptKey" in records[2]
