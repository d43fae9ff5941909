"""A plan that somebody altered is refused before its first change."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mqdssm.errors import ConfigError
from mqdssm.pipeline.manifest import hash_file
from mqdssm.pipeline.migrate.plan_check import check_files, check_operations
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
QUEUE = f"CN=orders,CN=msmq,CN=WEB01,CN=Computers,{ROOT}"
SETTINGS_DN = f"CN=MSMQ Settings,CN=WEB01,CN=Servers,CN=Berlin,CN=Sites,CN=Configuration,{ROOT}"
PART = "operations/5-deletes/part-00001.parquet"


DELETE, MODIFY = PlanAction.DELETE, PlanAction.MODIFY


def operation(
    dn: str, ldap_class: str, action: str = PlanAction.DELETE, role: str = EntryRole.OBJECT
) -> PlanOperation:
    return PlanOperation(type="queue", role=role, guid=None, dn=dn, action=action, ldap_class=ldap_class)


def planned(
    folder: Path,
    *operations: PlanOperation,
    deletes: int = 1,
    kind: PlanKind = PlanKind.MIGRATION,
    **counts: int,
) -> MigrationPlan:
    file = OperationsFile(folder / PART, 0)
    for one in operations:
        file.write(one)
    file.close()
    level = Level(
        number=5,
        name="5-deletes",
        files=(PlanFile(path=PART, rows=len(operations), sha256=hash_file(folder / PART)),),
    )
    return MigrationPlan(
        kind=kind,
        made=datetime.now(UTC),
        source="mqis",
        target=PlanTarget(
            urls=("ldap://x",),
            profile="openldap",
            root=ROOT,
            configuration=f"CN=Configuration,{ROOT}",
            keeps_guids=True,
        ),
        options=PlanOptions(),
        tables={},
        operations={name.replace("_", " "): count for name, count in counts.items()} | {"object equal": 7},
        deletes={"Queue": deletes} if deletes else {},
        levels=(level,),
        equal=(),
    )


def test_a_plan_that_does_what_it_says(tmp_path) -> None:
    plan = planned(
        tmp_path,
        operation(QUEUE, "mSMQQueue"),
        operation(SETTINGS_DN, "mSMQSettings", role=EntryRole.SETTINGS),
        operation(
            f"CN=MsmqServices,CN=Services,CN=Configuration,{ROOT}",
            "mSMQEnterpriseSettings",
            MODIFY,
        ),
        object_delete=1,
        settings_delete=1,
        object_modify=1,
    )
    check_files(tmp_path, plan.levels[0].files)
    check_operations(plan, tmp_path)


def test_deletions_are_counted_in_the_files(tmp_path) -> None:
    plan = planned(tmp_path, operation(QUEUE, "mSMQQueue"), deletes=0, object_delete=0)
    with pytest.raises(ConfigError, match=r"hold 1 of 'object delete', plan.json says 0"):
        check_operations(plan, tmp_path)
    plan = planned(tmp_path, operation(QUEUE, "mSMQQueue"), deletes=0, object_delete=1)
    with pytest.raises(ConfigError, match="delete 1 objects, 0 are allowed"):
        check_operations(plan, tmp_path)
    plan = planned(tmp_path, operation(QUEUE, "mSMQQueue"), object_delete=1)
    with pytest.raises(ConfigError, match="delete 1 objects, 0 are allowed"):
        check_operations(plan, tmp_path, allow_deletes=0)


@pytest.mark.parametrize(
    "role", [EntryRole.SETTINGS, EntryRole.CONTAINER, EntryRole.KEYS, "server", "", "OBJECT"]
)
@pytest.mark.parametrize(
    ("dn", "ldap_class"),
    [
        (QUEUE, "mSMQQueue"),
        (f"CN=msmq,CN=WEB01,CN=Computers,{ROOT}", "mSMQConfiguration"),
        (f"CN=a,CN=MsmqServices,CN=Services,CN=Configuration,{ROOT}", "mSMQSiteLink"),
    ],
)
def test_no_other_role_hides_a_deletion(tmp_path, dn: str, ldap_class: str, role: str) -> None:
    """Who alters the files can alter plan.json too, but not what the operator allows."""
    plan = planned(tmp_path, operation(dn, ldap_class, role=role), deletes=0, **{f"{role} {DELETE}": 1})
    with pytest.raises(ConfigError, match=r"so that it would not be counted: the plan was altered"):
        check_operations(plan, tmp_path, allow_deletes=0)


@pytest.mark.parametrize(
    ("dn", "ldap_class", "action"),
    [
        (f"CN=Administrator,CN=Users,{ROOT}", "user", DELETE),
        (f"CN=WEB01,CN=Computers,{ROOT}", "computer", DELETE),
        (f"CN=Berlin,CN=Sites,CN=Configuration,{ROOT}", "site", DELETE),
        (f"CN=Domain Admins,CN=Users,{ROOT}", "group", MODIFY),
        (ROOT, "domainDNS", MODIFY),
        (f"CN=Administrator,CN=Users,{ROOT}", "mSMQQueue", DELETE),
        (f"CN=WEB01,CN=Computers,{ROOT}", "mSMQConfiguration", DELETE),
        (f"CN=msmq,CN=WEB01,CN=Configuration,{ROOT}", "mSMQConfiguration", DELETE),
        (
            f"CN=WEB01,CN=Servers,CN=Berlin,CN=Sites,CN=Configuration,{ROOT}",
            "mSMQSettings",
            PlanAction.DELETE,
        ),
        (
            f"CN=NTDS,CN=WEB01,CN=Servers,CN=Berlin,CN=Sites,CN=Configuration,{ROOT}",
            "mSMQSettings",
            PlanAction.DELETE,
        ),
        (f"CN=a,CN=b,CN=Services,CN=Configuration,{ROOT}", "mSMQEnterpriseSettings", MODIFY),
        ("CN=orders,CN=msmq,CN=WEB01,DC=other,DC=org", "mSMQQueue", MODIFY),
        ("no name at all", "mSMQQueue", DELETE),
    ],
)
def test_only_objects_of_msmq_at_their_places(tmp_path, dn: str, ldap_class: str, action: str) -> None:
    plan = planned(tmp_path, operation(dn, ldap_class, action), **{f"object_{action}": 1})
    with pytest.raises(ConfigError, match="no migration does that; the plan was altered"):
        check_operations(plan, tmp_path)


def test_a_server_object_is_deleted_with_its_settings_only(tmp_path) -> None:
    """Server objects of Active Directory are no objects of MSMQ; only those that MSMQ made become empty."""
    server = SETTINGS_DN.partition(",")[2]
    both = (
        operation(server, "server", role=EntryRole.CONTAINER),
        operation(SETTINGS_DN, "mSMQSettings", role=EntryRole.SETTINGS),
    )
    check_operations(planned(tmp_path, *both, deletes=0, container_delete=1, settings_delete=1), tmp_path)
    plan = planned(tmp_path, both[0], deletes=0, container_delete=1)
    with pytest.raises(ConfigError, match=r"would delete .*WEB01,.* without its settings.* was altered"):
        check_operations(plan, tmp_path)


@pytest.mark.parametrize(("name", "is_ours"), [("mSMQSignCertificates", True), ("userPassword", False)])
def test_of_users_only_what_is_msmqs_is_changed(tmp_path, name: str, is_ours: bool) -> None:
    change = replace(operation(f"CN=Anna,CN=Users,{ROOT}", "user", MODIFY), values={name: (b"x",)})
    plan = planned(tmp_path, change, object_modify=1)
    if is_ours:
        check_operations(plan, tmp_path)
        return
    with pytest.raises(ConfigError, match=f"the plan would modify {name} of CN=Anna"):
        check_operations(plan, tmp_path)


SITE = f"CN=Berlin,CN=Sites,CN=Configuration,{ROOT}"
NEW_COMPUTER = f"CN=NEW,CN=Computers,{ROOT}"


@pytest.mark.spec("MS-MQDSSM 3.1.6.1")
@pytest.mark.parametrize("kind", [PlanKind.MIGRATION, PlanKind.REPLACEMENT])
@pytest.mark.parametrize(
    ("dn", "ldap_class", "action", "role", "values"),
    [
        (f"CN=WEB01,CN=Servers,{SITE}", "server", PlanAction.ADD, EntryRole.CONTAINER, "serverReference"),
        (SETTINGS_DN, "mSMQSettings", PlanAction.ADD, EntryRole.SETTINGS, "nTSecurityDescriptor"),
    ],
)
def test_companions_get_no_other_attributes(tmp_path, kind, dn, ldap_class, action, role, values) -> None:
    change = replace(operation(dn, ldap_class, action, role), values={values: (b"x",)})
    plan = planned(tmp_path, change, kind=kind, **{f"{role}_{action}": 1})
    with pytest.raises(ConfigError, match=rf"the plan would {action} {values} of .*the plan was altered"):
        check_operations(plan, tmp_path)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1")
@pytest.mark.parametrize(
    ("dn", "ldap_class", "action", "values", "is_later"),
    [
        (SITE, "site", MODIFY, "gPLink", False),
        (SITE, "site", MODIFY, "gPLink", True),
        (f"CN=Servers,{SITE}", "serversContainer", MODIFY, "nTSecurityDescriptor", False),
        (f"CN=WEB01,CN=Servers,{SITE}", "server", MODIFY, "serverReference", False),
        (NEW_COMPUTER, "computer", PlanAction.ADD, "msDS-AllowedToDelegateTo", False),
        (f"CN=WEB01,CN=Computers,{ROOT}", "computer", MODIFY, "userAccountControl", False),
        (QUEUE, "mSMQQueue", PlanAction.ADD, "objectClass", False),
    ],
)
def test_attributes_that_no_migration_writes(tmp_path, dn, ldap_class, action, values, is_later) -> None:
    """Decision M131: `plan.json` and its hashes may have been altered, too."""
    role = {"computer": EntryRole.COMPUTER, "server": EntryRole.CONTAINER}.get(ldap_class, EntryRole.OBJECT)
    role = EntryRole.CONTAINER if ldap_class == "serversContainer" else role
    change = operation(dn, ldap_class, action, role)
    written = {"later": {values: ("x",)}} if is_later else {"values": {values: (b"x",)}}
    plan = planned(tmp_path, replace(change, **written), **{f"{role}_{action}": 1})
    with pytest.raises(ConfigError, match=rf"the plan would {action} {values} of .*the plan was altered"):
        check_operations(plan, tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "is_ours"),
    [
        ("userAccountControl", b"4096", True),
        ("userAccountControl", b"528384", False),
        ("servicePrincipalName", b"HOST/new.example.com", True),
        ("servicePrincipalName", b"HOST/NEW", True),
        ("servicePrincipalName", b"HOST/dc1.example.com", False),
        ("servicePrincipalName", b"ldap/new", False),
    ],
)
def test_new_computers_have_the_rights_of_members(tmp_path, name, value, is_ours) -> None:
    change = operation(NEW_COMPUTER, "computer", PlanAction.ADD, EntryRole.COMPUTER)
    plan = planned(tmp_path, replace(change, values={name: (value,)}), computer_add=1)
    if is_ours:
        check_operations(plan, tmp_path)
        return
    with pytest.raises(ConfigError, match=r"rights that no migration gives: the plan was altered"):
        check_operations(plan, tmp_path)


@pytest.mark.parametrize("path", ["../x.parquet", "operations/../../x.parquet", "link/x.parquet"])
def test_files_elsewhere_are_refused(tmp_path, path: str) -> None:
    folder = tmp_path / "plan"
    folder.mkdir()
    (tmp_path / "x.parquet").write_bytes(b"x")
    (folder / "link").symlink_to(tmp_path)
    file = PlanFile(path=path, rows=1, sha256=hash_file(tmp_path / "x.parquet"))
    with pytest.raises(ConfigError, match=r"is no file in .*the plan was altered"):
        check_files(folder, [file])


# -- plans for orphans

LOST = f"CN=LostAndFound,{ROOT}"
CONFIGURATION = f"CN=Configuration,{ROOT}"
LOST_CONFIGURATION = f"CN=LostAndFoundConfig,{CONFIGURATION}"
LINK = f"CN=a,CN=MsmqServices,CN=Services,{CONFIGURATION}"
ALLOWED = {
    "mSMQQueue": (f"CN=orders,{LOST}", rf"CN=orders,CN=msmq\0ACNF:1,{LOST}"),
    "mSMQConfiguration": (f"CN=msmq,{LOST}", rf"CN=MSMQ\0acnf:1,{LOST}"),
    "mSMQSettings": (
        SETTINGS_DN,
        f"CN=MSMQ Settings,CN=WEB01,{LOST_CONFIGURATION}",
        rf"CN=MSMQ Settings\0ACNF:1,{LOST_CONFIGURATION}",
    ),
    "mSMQSiteLink": (LINK, f"CN=a,{LOST_CONFIGURATION}"),
}


def of_orphans(
    folder: Path, *operations: PlanOperation, profile: str = "activedirectory", **counts: int
) -> MigrationPlan:
    plan = planned(folder, *operations, **counts)
    target = plan.target.model_copy(update={"profile": profile})
    return plan.model_copy(update={"kind": PlanKind.ORPHANS, "target": target})


def role_of(ldap_class: str) -> str:
    return EntryRole.SETTINGS if ldap_class == "mSMQSettings" else EntryRole.OBJECT


def removal(dn: str, ldap_class: str) -> PlanOperation:
    return operation(dn, ldap_class, role=role_of(ldap_class))


def test_orphans_are_deleted_at_their_places(tmp_path) -> None:
    some = [removal(dn, ldap_class) for ldap_class, dns in ALLOWED.items() for dn in dns]
    counts = {"object_delete": 6, "settings_delete": 3}
    check_operations(of_orphans(tmp_path, *some, deletes=9, **counts), tmp_path, 9)
    for deletes, allowed in ((8, None), (9, 8)):  # settings objects count, too
        plan = of_orphans(tmp_path, *some, deletes=deletes, **counts)
        with pytest.raises(ConfigError, match="delete 9 objects, 8 are allowed"):
            check_operations(plan, tmp_path, allowed)


@pytest.mark.parametrize(
    ("dn", "ldap_class"),
    [
        (QUEUE, "mSMQQueue"),
        (f"CN=msmq,CN=WEB01,CN=Computers,{ROOT}", "mSMQConfiguration"),
        (LOST, "mSMQQueue"),
        (f"CN=WEB01,{LOST}", "mSMQConfiguration"),
        (f"CN=orders,{LOST_CONFIGURATION}", "mSMQQueue"),
        ("CN=orders,CN=LostAndFound,DC=other,DC=org", "mSMQQueue"),
        (f"CN=NTDS Settings,CN=DC1,{LOST_CONFIGURATION}", "mSMQSettings"),
        (f"CN=MSMQ Settings,CN=WEB01,CN=Services,{CONFIGURATION}", "mSMQSettings"),
        (f"CN=MSMQ Settings,{LOST}", "mSMQSettings"),
        (f"CN=MsmqServices,CN=Services,{CONFIGURATION}", "mSMQSiteLink"),
        (f"CN=a,CN=b,CN=MsmqServices,CN=Services,{CONFIGURATION}", "mSMQSiteLink"),
        (f"CN=WEB01,CN=Servers,CN=Berlin,CN=Sites,{CONFIGURATION}", "server"),
        (f"CN=WEB01,{LOST_CONFIGURATION}", "server"),
        (f"CN=WEB01,{LOST}", "computer"),
        (f"CN=Berlin,{LOST_CONFIGURATION}", "site"),
        (f"CN=MsmqServices,CN=Services,{CONFIGURATION}", "mSMQEnterpriseSettings"),
    ],
)
def test_a_plan_for_orphans_deletes_nothing_else(tmp_path, dn: str, ldap_class: str) -> None:
    plan = of_orphans(tmp_path, removal(dn, ldap_class), object_delete=1)
    with pytest.raises(ConfigError, match="no removal of orphans does that; the plan was altered"):
        check_operations(plan, tmp_path)


@pytest.mark.parametrize("profile", ["activedirectory", "openldap", "another"])
@pytest.mark.parametrize("action", [PlanAction.ADD, MODIFY, PlanAction.MOVE])
def test_a_plan_for_orphans_only_deletes(tmp_path, action: str, profile: str) -> None:
    for ldap_class, dns in ALLOWED.items():
        some = replace(removal(dns[0], ldap_class), action=action)
        plan = of_orphans(tmp_path, some, profile=profile, **{f"{some.role}_{action}": 1})
        with pytest.raises(ConfigError, match="no removal of orphans does that"):
            check_operations(plan, tmp_path)


def test_without_rules_for_parents_orphans_can_be_anywhere(tmp_path) -> None:
    """OpenLDAP: below any entry of the domain, or of the configuration; names count as well."""
    fine = [
        removal(f"CN=orders,OU=old,{ROOT}", "mSMQQueue"),
        removal(f"CN=msmq,OU=old,{ROOT}", "mSMQConfiguration"),
        operation(
            f"CN=MSMQ Settings,CN=a,{CONFIGURATION}",
            "mSMQSettings",
            role=EntryRole.SETTINGS,
        ),
        removal(f"CN=x,CN=Services,{CONFIGURATION}", "mSMQSiteLink"),
    ]
    counts = {"object_delete": 3, "settings_delete": 1}
    check_operations(of_orphans(tmp_path, *fine, profile="openldap", deletes=4, **counts), tmp_path)
    for dn, ldap_class in (
        (f"CN=WEB01,OU=old,{ROOT}", "mSMQConfiguration"),
        (f"CN=orders,{CONFIGURATION}", "mSMQQueue"),
        ("CN=orders,DC=other,DC=org", "mSMQQueue"),
        (f"CN=x,OU=old,{ROOT}", "mSMQSiteLink"),
    ):
        plan = of_orphans(tmp_path, removal(dn, ldap_class), profile="openldap", object_delete=1)
        with pytest.raises(ConfigError, match="no removal of orphans does that"):
            check_operations(plan, tmp_path)


def test_the_kind_of_a_plan_is_what_its_operations_are_checked_by(tmp_path) -> None:
    """A plan for orphans that calls itself a migration cannot delete in lost places, and the reverse."""
    plan = of_orphans(tmp_path, removal(f"CN=orders,{LOST}", "mSMQQueue"), object_delete=1)
    with pytest.raises(ConfigError, match="no migration does that"):
        check_operations(plan.model_copy(update={"kind": PlanKind.MIGRATION}), tmp_path)
    plan = planned(tmp_path, operation(QUEUE, "mSMQQueue", MODIFY), object_modify=1)
    check_operations(plan, tmp_path)
    with pytest.raises(ConfigError, match="no removal of orphans does that"):
        check_operations(plan.model_copy(update={"kind": PlanKind.ORPHANS}), tmp_path)
