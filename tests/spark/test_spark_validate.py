"""Rules over data frames: every planted defect is found, and nothing else."""

from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pytest

from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.spark.arrow import arrow_schema, batches
from mqdssm.spark.columns import TYPES, columns_of
from mqdssm.spark.rules import RULES, Finding, Wrong
from mqdssm.spark.source import spark_schema
from mqdssm.spark.validate import find

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROOT = "DC=example,DC=com"
DESCRIPTOR = b"\x01\x00\x04\x80"
DNS = {"enterprise": f"CN=MsmqServices,CN=Services,CN=Configuration,{ROOT}"}


def guid(n: int) -> UUID:
    return UUID(int=n)


def machine_dn(name: str) -> str:
    return f"CN=msmq,CN={name},CN=Computers,{ROOT}"


def sound() -> dict[str, list[dict]]:
    """A small enterprise without a defect; names with what could confuse a parser of DNs."""
    machines = ["web01", r"odd\, name", "Größe", r"back\\slash"]
    return {
        "enterprise": [{"identifier": guid(1), "security": DESCRIPTOR}],
        "site": [
            {"identifier": guid(10 + n), "full_path": f"CN=S{n},CN=Sites", "security": DESCRIPTOR}
            for n in range(2)
        ],
        "routing-link": [{"identifier": guid(20), "full_path": "CN=L", "actual_cost": 1}],
        "queue-manager": [
            {
                "identifier": guid(30 + n),
                "full_path": machine_dn(name),
                "site_identifier_list": (guid(10), guid(11)),
                "security": DESCRIPTOR,
            }
            for n, name in enumerate(machines)
        ],
        "queue": [
            {
                "identifier": guid(40 + n),
                "full_path": rf"CN=q\,{n}\2C,{machine_dn(name)}".replace("CN=msmq", "cn=MSMQ"),
                "security": DESCRIPTOR,
            }
            for n, name in enumerate(machines)
        ],
        "user": [{"identifier": guid(50), "full_path": f"CN=u,CN=Users,{ROOT}"}],
    }


def frames(spark, objects: dict[str, list[dict]]):
    made = {}
    for name, values in objects.items():
        columns = columns_of(TYPES[name])
        found = batches([TYPES[name].from_directory(each) for each in values], columns)
        table = pa.Table.from_batches(found, arrow_schema(columns))
        made[name] = spark.createDataFrame(table if values else [], schema=spark_schema(columns))
    return made


def found(spark, objects: dict[str, list[dict]], rules=RULES) -> list[tuple]:
    findings = find(frames(spark, objects), rules, DNS)
    return [(each.rule, each.type, each.dn, UUID(each.guid), each.message) for each in findings]


def test_a_sound_enterprise_has_no_finding(spark) -> None:
    assert found(spark, sound()) == []


def test_guid_unique_names_every_holder_over_all_types(spark) -> None:
    objects = sound()
    objects["queue"][0]["identifier"] = objects["site"][1]["identifier"]
    objects["enterprise"][0]["identifier"] = objects["user"][0]["identifier"]
    in_two = f"Identifier {guid(11)} belongs to 2 objects"
    in_two_others = f"Identifier {guid(50)} belongs to 2 objects"
    assert found(spark, objects) == [
        ("guid-unique", "enterprise", DNS["enterprise"], guid(50), in_two_others),
        ("guid-unique", "queue", objects["queue"][0]["full_path"], guid(11), in_two),
        ("guid-unique", "site", "CN=S1,CN=Sites", guid(11), in_two),
        ("guid-unique", "user", f"CN=u,CN=Users,{ROOT}", guid(50), in_two_others),
    ]


@pytest.mark.parametrize(
    ("cost", "words"),
    [(0, "0"), (1_000_000, "1000000"), (-1, "-1"), (None, "not set")],
)
def test_link_cost_range(spark, cost: int | None, words: str) -> None:
    objects = sound()
    bad = {"identifier": guid(21), "full_path": "CN=Bad"} | ({} if cost is None else {"actual_cost": cost})
    highest = {"identifier": guid(22), "full_path": "CN=High", "actual_cost": 999_999}
    objects["routing-link"] += [bad, highest]
    message = f"ActualCost is {words}, not 1 to 999999"
    assert found(spark, objects) == [("link-cost-range", "routing-link", "CN=Bad", guid(21), message)]


def test_queue_manager_exists(spark) -> None:
    objects = sound()
    objects["queue"] += [
        {"identifier": guid(60), "full_path": f"CN=q,{machine_dn('gone')}", "security": DESCRIPTOR},
        # below a queue manager, yet not directly
        {"identifier": guid(61), "full_path": rf"CN=q,OU=x,{machine_dn('web01')}", "security": DESCRIPTOR},
    ]
    gone, inside = machine_dn("gone"), f"OU=x,{machine_dn('web01')}"
    assert found(spark, objects) == [
        ("queue-manager-exists", "queue", f"CN=q,{parent}", guid(n), f"there is no queue manager at {parent}")
        for n, parent in [(60, gone), (61, inside)]
    ]


def test_sites_of_a_queue_manager_exist(spark) -> None:
    objects = sound()
    objects["queue-manager"][0]["site_identifier_list"] = (guid(10), guid(99), guid(98))
    objects["queue-manager"][1]["site_identifier_list"] = ()
    del objects["queue-manager"][2]["site_identifier_list"]
    rule = ("queue-manager-sites-exist", "queue-manager", machine_dn("web01"), guid(30))
    assert found(spark, objects) == [
        (*rule, f"there is no site {guid(98)}"),
        (*rule, f"there is no site {guid(99)}"),
    ]


def test_security_required(spark) -> None:
    objects = sound()
    for name in ("enterprise", "site", "queue-manager", "queue"):
        del objects[name][0]["security"]
    objects["queue"][1]["security"] = b""
    objects["routing-link"].append({"identifier": guid(70), "full_path": "CN=L2", "actual_cost": 5})
    assert [(rule, name, dn) for rule, name, dn, _, _ in found(spark, objects)] == [
        ("security-required", "enterprise", DNS["enterprise"]),
        ("security-required", "queue", objects["queue"][0]["full_path"]),
        ("security-required", "queue", objects["queue"][1]["full_path"]),
        ("security-required", "queue-manager", machine_dn("web01")),
        ("security-required", "site", "CN=S0,CN=Sites"),
    ]


def test_one_object_with_two_defects_has_two_findings(spark) -> None:
    objects = sound()
    del objects["queue"][0]["security"]
    objects["queue"][0]["full_path"] = f"CN=q,{machine_dn('gone')}"
    assert [rule for rule, *_ in found(spark, objects)] == ["queue-manager-exists", "security-required"]


def test_several_rules_share_one_scan_of_a_type(spark) -> None:
    base = next(rule for rule in RULES if rule.id == "link-cost-range")
    assert isinstance(base, Wrong)
    odd = replace(
        base,
        id="odd-cost",
        severity="info",
        bad="ActualCost % 2 = 1",
        message="concat('it\\'s ', ActualCost)",
    )
    null = replace(base, id="null-cost", bad="ActualCost > null", message="'never'")
    objects = sound()
    objects["routing-link"].append({"identifier": guid(21), "full_path": "CN=Bad", "actual_cost": -1})
    assert [(rule, dn, words) for rule, _, dn, _, words in found(spark, objects, [base, odd, null])] == [
        ("link-cost-range", "CN=Bad", "ActualCost is -1, not 1 to 999999"),
        ("odd-cost", "CN=L", "it's 1"),
    ]


def test_rules_whose_types_are_not_there_find_nothing(spark) -> None:
    objects = sound()
    objects["queue"][0]["full_path"] = f"CN=q,{machine_dn('gone')}"
    assert found(spark, {"queue": objects["queue"]}) == []


def test_no_object_at_all(spark) -> None:
    assert found(spark, {name: [] for name in TYPES}) == []


def test_a_finding_says_everything(spark) -> None:
    objects = {"routing-link": [{"identifier": guid(21), "full_path": "CN='L'\\\\", "actual_cost": 0}]}
    assert find(frames(spark, objects), RULES) == (
        Finding(
            rule="link-cost-range",
            severity="error",
            type="routing-link",
            dn="CN='L'\\\\",
            guid=str(guid(21)),
            attribute="ActualCost",
            message="ActualCost is 0, not 1 to 999999",
            section="[MS-MQDMPR] 3.1.1.8",
        ),
    )


def test_elements_are_those_of_the_model() -> None:
    assert set(TYPES.values()) == {Enterprise, Site, RoutingLink, QueueManager, Queue, User}
