"""Rules over real Spark: both ways of evaluating them agree, and own rules are Spark SQL."""

import json
import random
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.enterprises.rules_world import (
    MADE,
    NOW,
    World,
    guid,
    link,
    machine,
    queue,
    site,
    sound,
    source,
    tables,
    user,
)
from support.project.source_tree import ROOT
from support.spark.sarif_model import KINDS, kinds_in

from mqdssm.errors import ConfigError
from mqdssm.pipeline.diff.sql import SPARK
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.validate import finding_files, findings
from mqdssm.pipeline.validate.findings import Findings
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.functions import check_sql
from mqdssm.pipeline.validate.rules.own_rules import load
from mqdssm.pipeline.validate.rules.rule import (
    Finding,
    GraphRule,
    Judged,
    MissingReference,
    Repeated,
    Rule,
    Undecodable,
    Unequal,
    Wrong,
)
from mqdssm.pipeline.validate.run import Validation, apply_rules
from mqdssm.pipeline.validate.sarif import format_sarif
from mqdssm.pipeline.validate.sources import ValidationSource
from mqdssm.pipeline.validate.translate import translate
from mqdssm.pipeline.validate.worker import can
from mqdssm.spark import plans
from mqdssm.spark.runner import SparkRunner

pytestmark = [pytest.mark.spark]

TEXTS = (
    *(
        "",
        "a",
        "A",
        "web01\\q",
        "WEB01\\Q",
        "web01\\private$\\x",
        "x\\a b",
        "ǅΣ\\ΑΣ",
        "İ\\i",
        "\\",
        "a\\b\\c",
    ),
    *("CN=a,CN=b", "CN=a\\,b,CN=msmq,CN=x", "CN=a\\\\,CN=b", "cn=\\0ADEL:x,CN=b", "CN=a\\0ACNF:x,CN=b", "CN"),
    *("x" * 124, "x" * 125, "😀" * 63, "😀" * 62, "web\n\\a", "a\n", "\nCNF:", "\x85,a", "CN=\\\u2028,b"),
    *("234.1.1.1:8001", "239.255.255.255:65535", "224.0.0.0:65536", "224.00.0.0:1", "S-1-5-21-1", "S-1-05"),
    *("m\\" + "n" * 55 + "-0123abcd", "None", "Optional", "WinServer", "ß", "ẞK", "a" * 1100, " ", "é\\Ö"),
)
LONGS = (-32769, -32768, -1, 0, 1, 999_999, 1_000_000, 2**32 - 1, 2**32, -(2**63), 2**63 - 1)
UNDECODED = ("Label: no", "FullPath: no", "Quota: \\0ADEL:", "no", "Identifier: gone")


def value(kind: pa.DataType, name: str, chance: random.Random) -> Any:  # noqa: PLR0911  one for each type
    """A value of a column: what rules look for, NULL, and anything."""
    if chance.random() < 0.15:
        return None
    if pa.types.is_list(kind):
        return [value(kind.value_type, name, chance) for _ in range(chance.randrange(4))]
    if name.endswith(("Identifier", "IdentifierList")):
        return guid(chance.randrange(13))
    if name == "Unreadable":
        return chance.choice(UNDECODED)
    if kind == pa.string():
        return chance.choice(TEXTS)
    if kind == pa.int64():
        return chance.choice(LONGS)
    if kind == pa.bool_():
        return chance.random() < 0.5
    if kind == pa.binary():
        return chance.randbytes(chance.choice([0, 4, 16]))
    return MADE + timedelta(days=chance.randrange(-3, 4), milliseconds=chance.randrange(2000))


def random_tables(seed: int, rows: int) -> dict[str, pa.Table]:
    chance = random.Random(seed)
    made = {}
    for name, table in tables(sound()).items():
        columns = [
            pa.array([value(field.type, field.name, chance) for _ in range(rows)], field.type)
            for field in table.schema
        ]
        made[name] = pa.Table.from_arrays(columns, schema=table.schema)
    return made


OWN_FORMS = (
    *("Label like '_%'", "Label like '%_a__'", "upper(Label)", "lower(Pathname)", "Label || Pathname"),
    *("concat(Label, '-', Pathname)", "trim(Label)", "ltrim(Label)", "rtrim(Label)", "btrim(Pathname)"),
    *("substring(Label, 2)", "substring(Label, 3, 2)", "left(Pathname, 3)", "left(Label, 0)"),
    *("Quota % 7", "mod(JournalQuota, 2) = 1", "if(Quota > 1, Label, Pathname)", "nvl2(Label, 1, 2)"),
    *("case when Quota > 1 then 1 when Quota < 0 then 2 end", "nullif(Label, 'a')", "isnotnull(Label)"),
    *("Quota in (0, 1, 4294967295)", "case Label when 'a' then Quota else BasePriority end"),
    *("Label not like '%a%'", "Label not rlike '^[a-z]{1,3}'", "Label <=> Pathname", "not (Label like 'a%')"),
    *("Label not in ('a', '')", "Quota <=> null", "isnull(Label)", "coalesce(Label, Pathname, '')"),
    *("startswith(Label, 'a')", "endswith(Pathname, 'b')", "contains(Label, 'b')", "Quota & 3"),
    *("length(Label) > 3 is true", "substring_index(Label, 'b', 1)", "substring_index(Pathname, 'a', -1)"),
    "Quota between -1000 and 1000 and Quota + 1 > Quota * 2",
    "Quota not between -40000 and 5000000000 or -Quota - 1 < 0",
)
"""What rules of users may have beside ours, over queues."""
OWN_LIST_FORMS = {
    "queue": (
        *("array_contains(Unreadable, 'no')", "not array_contains(Unreadable, 'no')", "size(Unreadable) > 1"),
        "coalesce(array_contains(Unreadable, 'gone'), Quota > 1)",
    ),
    "queue-manager": (
        *(f"array_contains(SiteIdentifierList, '{guid(1)}')", "array_size(SiteIdentifierList)"),
        f"array_contains(OutRoutingServerIdentifierList, upper('{guid(2)}'))",
    ),
    "computer": (
        "array_contains(ServicePrincipalNames, '') or array_contains(ServicePrincipalNames, 'a')",
        "exists(ServicePrincipalNames, one -> one like 'a%')",
    ),
    "user": ("size(CertificateDigestList)", "exists(CertificateDigestList, one -> length(one) = 4)"),
}
"""The same over columns with several values."""


def expressions() -> Iterator[tuple[str, str]]:
    """Every condition, key and reference of ours and forms of users, with the type that it is about."""
    yield from (("queue", text) for text in OWN_FORMS)
    yield from ((name, text) for name, texts in OWN_LIST_FORMS.items() for text in texts)
    for rule in RULES:
        for name in rule.types:
            texts = [getattr(rule, part, None) for part in ("condition", "value", "where")]
            texts += [rule.key] if isinstance(rule, Repeated) else []
            for text in texts:
                if text is not None and "other." not in text:
                    yield name, text
        if isinstance(rule, MissingReference):
            yield rule.target, rule.key


@settings(max_examples=2, phases=[Phase.generate], deadline=None)
@given(seed=st.integers(0, 2**32))
def test_arrow_computes_what_spark_computes(spark, seed: int) -> None:
    """Few examples with many rows: a projection costs Spark more than its rows."""
    rows = 1500
    made = random_tables(seed, rows)
    wanted: dict[str, list[str]] = {}
    for name, text in expressions():
        wanted.setdefault(name, []).append(text)
    for name, texts in wanted.items():
        table = made[name].combine_chunks()
        types = {field.name: field.type for field in table.schema}
        columns = {one: table[one].combine_chunks() for one in table.column_names}
        frame = spark.createDataFrame(table)
        theirs = frame.selectExpr(*(f"{text} as c{number}" for number, text in enumerate(texts))).toArrow()
        for number, text in enumerate(texts):
            ours = translate(text, types).evaluate(columns)
            if isinstance(ours, pa.Scalar):
                ours = pa.repeat(ours, rows)
            assert ours.to_pylist() == theirs[f"c{number}"].to_pylist(), text


SQL_RULES = tuple(rule for rule in RULES if not isinstance(rule, Judged | GraphRule | Undecodable))


def told(found: Validation) -> list[Finding]:
    return list(found.findings)


def found_by(
    runner: Runner, where: ValidationSource, rules: Sequence[Rule] = RULES, **how: bool
) -> list[Finding]:
    with apply_rules(runner, where, rules, now=NOW, **how) as found:
        return told(found)


@pytest.fixture
def runners(spark, small_pieces) -> list[Runner]:
    """Both runners, for tests that compare them with what Spark finds by SQL, which takes longest."""
    return [LocalRunner(1), SparkRunner(spark)]


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_workers_with_arrow_find_what_spark_with_sql_finds(spark, runners, tmp_path, seed) -> None:
    where = source(tmp_path, random_tables(seed, 40))
    theirs = found_by(SparkRunner(spark), where, SQL_RULES, sql_only=True)
    # of objects that are equal in all that a finding tells, SQL reports an unequal pair once
    once = {rule.id for rule in RULES if isinstance(rule, Unequal)}
    for runner in runners:
        ours = found_by(runner, where, SQL_RULES)
        assert set(ours) - set(theirs) == set(theirs) - set(ours) == set()
        assert [one for one in ours if one.rule not in once] == [
            one for one in theirs if one.rule not in once
        ]
        assert len({one.rule for one in ours}) > 20


def test_workers_can_evaluate_all_rules_of_ours(tmp_path) -> None:
    where = source(tmp_path, tables(sound()))
    for rule in SQL_RULES:
        types = rule.applies(where.list_present()).types
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
    world["user"].append(
        user(85, "eve", SecurityIdentifier="S-1-5-21-1-2-3-70", CertificateDigestList=[b"x"])
    )
    return world


@pytest.fixture
def processes(runner) -> Runner:
    """Each of the runners; the local one has two processes, though there is little to do."""
    return LocalRunner(2) if isinstance(runner, LocalRunner) else runner


def test_everything_at_once(processes, tmp_path) -> None:
    runner = processes
    where = source(tmp_path, tables(broken()))
    with apply_rules(runner, where, now=NOW) as found:
        seen = told(found)
        summary = found.summary
        assert seen == sorted(
            seen, key=lambda one: (one.rule, one.type, one.dn or "", one.guid or "", one.message)
        )
        text = "".join(format_sarif(summary, found.findings))
        again = told(found)
    assert again == seen
    assert summary.engine == ("spark" if isinstance(runner, SparkRunner) else "local")
    assert summary.count == len(seen) > 10
    assert summary.objects == {name: len(rows) for name, rows in broken().items()}
    assert {rule.id: rule.count for rule in summary.rules if rule.count} == {
        one.rule: sum(each.rule == one.rule for each in seen) for one in seen
    }
    assert summary.count_of("error")
    (skipped,) = summary.skipped
    assert (skipped.id, skipped.reason) == ("schema-drift", "the source is no directory")
    log = json.loads(text)
    assert kinds_in(log) == KINDS
    (run,) = log["runs"]
    assert [one["ruleId"] for one in run["results"]] == [one.rule for one in seen]
    assert {rule.kind for rule in summary.rules} == {"row", "unique", "reference", "python", "graph"}


def test_both_ways_agree_on_planted_defects(spark, runners, tmp_path) -> None:
    where = source(tmp_path, tables(broken()))
    by_sql = found_by(SparkRunner(spark), where, sql_only=True)
    assert [found_by(runner, where) for runner in runners] == [by_sql, by_sql]


def test_rules_whose_types_or_columns_are_absent_are_skipped_and_named(runner, tmp_path) -> None:
    made = tables(sound(), technical=False)
    where = source(tmp_path, {"queue": made["queue"].drop_columns(["Label"])})
    with apply_rules(runner, where) as found:
        reasons = {one.id: one.reason for one in found.summary.skipped}
    assert reasons["queue-label-length"] == "queue has no column Label"
    assert reasons["link-cost-range"] == "type routing-link is not in the source"
    assert reasons["queue-type-form"] == "queue has no column Unreadable"
    assert "type queue-manager is not in the source" in reasons["queue-manager-exists"]
    (unique,) = (rule for rule in found.summary.rules if rule.id == "guid-unique")
    assert unique.types == ("queue",)
    assert "type site is not in the source" in unique.left_out


def test_no_object_at_all(runner, tmp_path) -> None:
    where = source(tmp_path, tables({name: [] for name in sound()}))
    with apply_rules(runner, where, now=NOW) as found:
        assert [one.rule for one in told(found)] == ["enterprise-single"]


def test_too_many_objects_for_a_worker_go_to_spark(spark, tmp_path, monkeypatch) -> None:
    from mqdssm.pipeline.validate import worker

    monkeypatch.setattr(worker, "REPEATED_ROWS_MAX", 2)
    monkeypatch.setattr(worker, "TARGET_ROWS_MAX", 1)
    where = source(tmp_path, tables(broken()))
    rules = [rule for rule in RULES if isinstance(rule, Repeated | MissingReference)]
    for rule in rules:
        assert isinstance(rule, MissingReference) or not can(rule, rule.types, where.sets)
    found = found_by(SparkRunner(spark), where, rules)
    assert found_by(LocalRunner(1), where, rules) == found  # in parts
    monkeypatch.undo()
    assert found_by(LocalRunner(1), where, rules) == found != []


def test_many_findings_are_sorted_in_parts(runner, tmp_path, monkeypatch) -> None:
    where = source(tmp_path, tables(broken()))
    with apply_rules(runner, where, now=NOW) as found:
        expected = told(found)
    monkeypatch.setattr(finding_files, "PART_ROWS", 3)
    monkeypatch.setattr(finding_files, "PARTS_MAX", 2)
    monkeypatch.setattr(finding_files, "BATCH_ROWS", 2)
    monkeypatch.setattr(findings, "SAMPLES_MAX", 1)
    with apply_rules(runner, where, now=NOW) as found:
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
        "requirement": "ours",
        "message": message,
        "condition": condition,
    }
    return Wrong(**{**chosen, **more})


def test_own_rules_are_any_spark_sql(spark, tmp_path) -> None:
    where = source(tmp_path, tables(sound()))
    rule = own(
        "Quota % 2 = 1 and sha2(Label, 256) is not null", "it's {Label}: {CreateTime}, {upper(Pathname)}"
    )
    with apply_rules(SparkRunner(spark), where, (), own=[rule]) as found:
        first = told(found)[0]
    assert (first.rule, first.guid) == ("own", guid(61))
    assert first.message.startswith("it's Größe 61: 2026-01-01T00:00:00Z, WEB01\\A-NAME-THAT")


def test_no_text_of_a_rule_becomes_a_setting_or_a_variable(spark, tmp_path) -> None:
    where = source(tmp_path, tables(sound()))
    named = "${env:HOME}"
    rule = own("true", "$ {Label}", id=f"own-{named}", attribute=f"a{named}", section=f"{named}, 1")
    with apply_rules(SparkRunner(spark), where, (), own=[rule]) as found:
        first = told(found)[0]
    assert (first.rule, first.attribute, first.section) == (f"own-{named}", f"a{named}", f"{named}, 1")
    text = f"DC=${named},DC=it's \\"
    assert spark.sql(f"select {SPARK.quote_literal(text)} as v").first()["v"] == text


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.soak)])
def test_spark_reads_what_is_written_again_as_what_was_given(spark, step: int) -> None:
    """Equal results for every expression, though Spark gets another text (security of own rules)."""
    given = (ROOT / "tests" / "vectors" / "rule_expressions.txt").read_text(encoding="utf-8").splitlines()
    rows = r"""("a'b", 'x\\y', 5L), ('{', '%a_b', 3L), ("it's", 'q\n', null)"""
    frame = spark.sql(
        f"select * from values {rows} as queues(Label, P, Quota)"
    )  # no job: folded by the planner

    def results(expressions: list[str]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in frame.selectExpr(*(f"({text}) as v" for text in expressions)).collect()]

    assert len(given) > 150
    chosen = given[::step]
    assert results([check_sql(text) for text in chosen]) == results(chosen)


def test_the_documented_own_rule(runner, tmp_path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text((ROOT / "docs/validation.md").read_text().partition("```toml\n")[2].partition("```")[0])
    world = sound()
    world["queue"][0]["Label"] = "ABC: orders"
    where = source(tmp_path, tables(world))
    with apply_rules(runner, where, (), own=load(file, RULES).own) as found:
        seen = told(found)
    assert [one.guid for one in seen] == [guid(61), guid(63), guid(62)]
    assert seen[1].message == rf"the label of paris01\{'x' * 124} is Größe 63"


def test_more_own_rules_than_one_projection_takes(runner, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(plans, "RULES_MAX", 3)
    where = source(tmp_path, tables(sound()))
    rules = [own("true", id=f"own-{number:03}") for number in range(7)]
    with apply_rules(runner, where, (), own=rules) as found:
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
def test_an_own_rule_that_spark_cannot_evaluate_is_refused(
    spark, tmp_path, condition, message, words
) -> None:
    where = source(tmp_path, tables(sound()))
    with (
        pytest.raises((ConfigError, ValueError), match=words),
        apply_rules(SparkRunner(spark), where, (), own=[own(condition, message)]),
    ):
        pass
