"""Rules over real Spark: both ways of evaluating them agree, and own rules are Spark SQL."""

import json
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rules_world import MADE, NOW, World, guid, link, machine, queue, site, sound, source, tables, user

from mqdssm.errors import ConfigError
from mqdssm.spark.findings import Findings
from mqdssm.spark.rules import RULES, Drawn, Finding, Judged, Repeated, Rule, Undecodable, Wrong
from mqdssm.spark.sarif import sarif
from mqdssm.spark.validate import Validation, checked
from mqdssm.spark.work import can

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TEXTS = st.one_of(
    st.none(),
    st.sampled_from(
        [
            *("", "a", "A", "web01\\q", "WEB01\\Q", "web01\\private$\\x", "x\\a b", "ǅΣ\\ΑΣ", "İ\\i", "\\", "a\\b\\c"),
            *("CN=a,CN=b", "CN=a\\,b,CN=msmq,CN=x", "CN=a\\\\,CN=b", "cn=\\0ADEL:x,CN=b", "CN=a\\0ACNF:x,CN=b", "CN"),
            *("x" * 124, "x" * 125, "😀" * 63, "😀" * 62, "web\n\\a", "a\n", "\nCNF:", "\x85,a", "CN=\\\u2028,b"),
            *("234.1.1.1:8001", "239.255.255.255:65535", "224.0.0.0:65536", "224.00.0.0:1", "S-1-5-21-1", "S-1-05"),
        ]
    ),
    st.text(max_size=8),
)
LONGS = st.one_of(st.none(), st.sampled_from([-32769, -1, 0, 1, 999_999, 1_000_000, 2**32 - 1, 2**32]))
GUIDS = st.one_of(st.none(), st.integers(0, 12).map(guid))
TIMES = st.one_of(st.none(), st.integers(-3, 3).map(lambda days: MADE + timedelta(days=days, milliseconds=days)))
OCTETS = st.one_of(st.none(), st.binary(max_size=4))
BOOLEANS = st.one_of(st.none(), st.booleans())


def values(kind: pa.DataType, name: str) -> st.SearchStrategy:
    """Values of a column: what rules look for, NULL, and anything."""
    if pa.types.is_list(kind):
        inner = st.lists(values(kind.value_type, name), max_size=3)
        return st.one_of(st.none(), inner)
    if name.endswith(("Identifier", "IdentifierList")):
        return GUIDS
    if name == "Unreadable":
        return st.sampled_from(["Label: no", "FullPath: no", "Quota: \\0ADEL:", "no"])
    return {
        pa.string(): TEXTS,
        pa.int64(): LONGS,
        pa.bool_(): BOOLEANS,
        pa.binary(): OCTETS,
    }.get(kind, TIMES)


def rows_of(table: pa.Table) -> st.SearchStrategy:
    return st.lists(
        st.fixed_dictionaries({field.name: values(field.type, field.name) for field in table.schema}),
        max_size=6,
    )


def random_tables() -> st.SearchStrategy[dict[str, pa.Table]]:
    empty = tables(sound())
    return st.fixed_dictionaries(
        {
            name: rows_of(table).map(lambda rows, schema=table.schema: pa.Table.from_pylist(rows, schema))
            for name, table in empty.items()
        }
    )


SQL_RULES = tuple(rule for rule in RULES if not isinstance(rule, Judged | Drawn | Undecodable))


def told(found: Validation) -> list[Finding]:
    return list(found.findings)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=random_tables())
def test_workers_with_arrow_find_what_spark_with_sql_finds(spark, tmp_path_factory, made) -> None:
    where = source(tmp_path_factory.mktemp("random"), made)
    with checked(spark, where, SQL_RULES, now=NOW) as by_arrow, checked(
        spark, where, SQL_RULES, now=NOW, sql_only=True
    ) as by_sql:
        assert told(by_arrow) == told(by_sql)


def test_workers_can_evaluate_all_rules_of_ours(tmp_path) -> None:
    where = source(tmp_path, tables(sound()))
    for rule in SQL_RULES:
        types = rule.applies(where.present()).types
        assert rule.kind == "directory" or can(rule, types, where.sets), rule.id


def broken() -> World:
    world = sound()
    world["queue"] += [
        queue(80, "gone", "q", Quota=-1, Label="l" * 200, PrivacyLevel="9"),
        queue(81, "web01", "Orders", MulticastAddress="x"),
    ]
    world["queue-manager"].append(machine(82, "web01", [99], InRoutingServerIdentifierList=[guid(32)]))
    world["site"].append(site(83, "OSLO"))
    world["routing-link"].append(link(84, 10, 99, ActualCost=0))
    world["user"].append(user(85, "eve", SecurityIdentifier="S-1-5-21-1-2-3-70", CertificateDigestList=[b"x"]))
    return world


def test_everything_at_once(spark, tmp_path) -> None:
    where = source(tmp_path, tables(broken()))
    with checked(spark, where, now=NOW) as found:
        findings = told(found)
        summary = found.summary
        assert findings == sorted(
            findings, key=lambda one: (one.rule, one.type, one.dn or "", one.guid or "", one.message)
        )
        text = "".join(sarif(summary, found.findings))
        again = told(found)
    assert again == findings
    assert summary.count == len(findings) > 10
    assert summary.objects == {name: len(rows) for name, rows in broken().items()}
    assert {rule.id: rule.count for rule in summary.rules if rule.count} == {
        one.rule: sum(each.rule == one.rule for each in findings) for one in findings
    }
    assert summary.reaches("error")
    (skipped,) = summary.skipped
    assert (skipped.id, skipped.reason) == ("schema-drift", "the source is no directory")
    (run,) = json.loads(text)["runs"]
    assert [one["ruleId"] for one in run["results"]] == [one.rule for one in findings]
    for one in run["results"]:
        assert run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
    assert len({type(one) for one in RULES}) == len({rule.kind for rule in summary.rules}) + 2


def test_both_ways_agree_on_planted_defects(spark, tmp_path) -> None:
    where = source(tmp_path, tables(broken()))
    with checked(spark, where, now=NOW) as by_arrow, checked(spark, where, now=NOW, sql_only=True) as by_sql:
        assert told(by_arrow) == told(by_sql)


def test_rules_whose_types_or_columns_are_absent_are_skipped_and_named(spark, tmp_path) -> None:
    made = tables(sound(), technical=False)
    where = source(tmp_path, {"queue": made["queue"].drop_columns(["Label"])})
    with checked(spark, where) as found:
        reasons = {one.id: one.reason for one in found.summary.skipped}
    assert reasons["queue-label-length"] == "queue has no column Label"
    assert reasons["link-cost-range"] == "type routing-link is not in the source"
    assert reasons["queue-type-form"] == "queue has no column Unreadable"
    assert "type queue-manager is not in the source" in reasons["queue-manager-exists"]
    (unique,) = (rule for rule in found.summary.rules if rule.id == "guid-unique")
    assert unique.types == ("queue",)
    assert "type site is not in the source" in unique.left_out


def test_no_object_at_all(spark, tmp_path) -> None:
    where = source(tmp_path, tables({name: [] for name in sound()}))
    with checked(spark, where, now=NOW) as found:
        assert [one.rule for one in told(found)] == ["enterprise-single"]


def test_too_many_objects_for_a_worker_go_to_spark(spark, tmp_path, monkeypatch) -> None:
    from mqdssm.spark import work

    monkeypatch.setattr(work, "REPEATED_ROWS_MAX", 1)
    monkeypatch.setattr(work, "TARGET_ROWS_MAX", 1)
    where = source(tmp_path, tables(broken()))
    for rule in RULES:
        if isinstance(rule, Repeated):
            assert not can(rule, rule.types, where.sets)
    with checked(spark, where, now=NOW) as by_spark:
        found = told(by_spark)
    monkeypatch.undo()
    with checked(spark, where, now=NOW) as by_arrow:
        assert told(by_arrow) == found


def test_many_findings_are_sorted_by_spark(spark, tmp_path, monkeypatch) -> None:
    from mqdssm.spark import findings

    where = source(tmp_path, tables(broken()))
    with checked(spark, where, now=NOW) as found:
        expected = told(found)
    monkeypatch.setattr(findings, "SORTED_HERE_MAX", 1)
    monkeypatch.setattr(findings, "SAMPLES_MAX", 1)
    with checked(spark, where, now=NOW) as found:
        assert told(found) == expected
        assert all(len(rule.samples) <= 1 for rule in found.summary.rules)
        assert isinstance(found.findings, Findings)


def own(condition: str, message: str = "{Label}", **more: object) -> Rule:
    chosen = {
        "id": "own",
        "severity": "info",
        "types": ("queue",),
        "attribute": "Label",
        "section": "",
        "what": "ours",
        "message": message,
        "bad": condition,
    }
    return Wrong(**{**chosen, **more})


def test_own_rules_are_any_spark_sql(spark, tmp_path) -> None:
    where = source(tmp_path, tables(sound()))
    rule = own("Quota % 2 = 1 and sha2(Label, 256) is not null", "it's {Label}: {CreateTime}, {upper(Pathname)}")
    with checked(spark, where, (), own=[rule]) as found:
        first = told(found)[0]
    assert (first.rule, first.guid) == ("own", guid(61))
    assert first.message.startswith("it's Größe 61: 2026-01-01T00:00:00Z, WEB01\\A-NAME-THAT")


def test_more_own_rules_than_one_projection_takes(spark, tmp_path) -> None:
    where = source(tmp_path, tables(sound()))
    rules = [own("true", id=f"own-{number:03}") for number in range(120)]
    with checked(spark, where, (), own=rules) as found:
        assert {rule.count for rule in found.summary.rules} == {len(sound()["queue"])}


@pytest.mark.parametrize(
    ("condition", "message", "words"),
    [
        ("Label + ", "x", "Label"),
        ("no_such_function(Label)", "x", "rule own, type queue: .*no_such_function"),
        ("length(Label)", "x", "rule own: its condition gives int, not true or false"),
        ("Label = 'x'", "{no_such(Label)}", "rule own, type queue"),
    ],
)
def test_an_own_rule_that_spark_cannot_evaluate_is_refused(spark, tmp_path, condition, message, words) -> None:
    where = source(tmp_path, tables(sound()))
    with pytest.raises((ConfigError, ValueError), match=words), checked(
        spark, where, (), own=[own(condition, message)]
    ):
        pass
