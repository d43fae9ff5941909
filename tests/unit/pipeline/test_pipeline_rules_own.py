"""Own rules from a file: what is accepted, and how plainly the rest is refused."""

from pathlib import Path

import pytest
from support.project.source_tree import ROOT

from mqdssm.errors import ConfigError
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.functions import ALLOWED, check_sql
from mqdssm.pipeline.validate.rules.own_rules import RuleFile, load
from mqdssm.pipeline.validate.rules.rule import Wrong

GOOD = """
[[rule]]
id = "label-required"
severity = "warning"
types = ["queue"]
what = "every queue has a label"
condition = "Label is null or exists(Unreadable, x -> x = 'a')"
message = "Label is {Label}"
"""


def loaded(tmp_path: Path, text: str) -> RuleFile:
    file = tmp_path / "ours.toml"
    file.write_text(text, encoding="utf-8")
    return load(file, RULES)


def test_a_rule_of_ones_own(tmp_path) -> None:
    found = loaded(tmp_path, GOOD)
    assert found.rules == RULES
    (rule,) = found.own
    assert isinstance(rule, Wrong)
    assert (rule.id, rule.types, rule.attribute, rule.section) == ("label-required", ("queue",), "Label", "")


def documented() -> str:
    """The example of docs/validation.md."""
    text = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    return text.partition("```toml\n")[2].partition("```")[0]


def test_the_documented_example(tmp_path) -> None:
    found = loaded(tmp_path, documented())
    assert [rule.id for rule in found.own] == ["label-names-team"]
    assert len(found.rules) == len(RULES) - 1
    assert next(rule for rule in found.rules if rule.id == "queue-name-form").severity == "info"


def test_the_documented_functions() -> None:
    text = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    listed = text.partition("Functions that a rule may call")[2].partition("```text\n")[2].partition("```")[0]
    assert set(listed.split()) == ALLOWED


def test_severities_and_switching_off(tmp_path) -> None:
    text = '[severity]\nqueue-name-form = "info"\n[off]\nrules = ["guid-unique"]\n'
    found = loaded(tmp_path, text)
    by_id = {rule.id: rule for rule in found.rules}
    assert by_id["queue-name-form"].severity == "info"
    assert "guid-unique" not in by_id
    assert len(by_id) == len({rule.id for rule in RULES}) - 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "Label is null",
            "Lable is null",
            "rule label-required: queue has no column Lable: did you mean Label",
        ),
        ("{Label}", "{Lable}", "queue has no column Lable"),
        ('"queue"', '"queues"', "no type 'queues': did you mean queue"),
        ('"warning"', '"fatal"', "severity 'fatal' is none of info, warning, error"),
        ("severity =", "severty =", "knows no 'severty': did you mean severity"),
        ('what = "every queue has a label"', "", "rule label-required has no what"),
        ('id = "label-required"', "", "rule number 1 has no id"),
        ("label-required", "guid-unique", "rule guid-unique: there is one of this id already"),
        ("Label is null", "java_method('a', 'b') is null", "(?i)java_method is refused"),
        ("Label is null", "Reflect('a', 'b') is null", "(?i)reflect is refused"),
        ("Label is null", "`reflect`('a', 'b') is null", "(?i)reflect is refused"),
        ("Label is null", "system.builtin.reflect('a', 'b') is null", "(?i)a call by 'reflect' is refused"),
        ("Label is null", "IDENTIFIER('reflect')('a', 'b') is null", "rule label-required: "),
        ("Label is null", "exists(Unreadable, x -> reflect(x) = 1)", "(?i)reflect is refused"),
        ("Label is null", "TRY_REFLECT('a') = 1", "(?i)try_reflect is refused"),
        (
            "Label is null",
            "xpath_string(Label, 'a') = 'b'",
            "(?i)xpath_string is refused.*docs/validation.md",
        ),
        ("Label is null", "lenght(Label) = 1", "(?i)lenght is refused.*did you mean length"),
        ("Label is null", "session_user = 'root'", "(?i)session_user is refused"),
        ("Label is null", "Label = '${env:HOME}'", r"'\$\{' is refused"),
        ("Label is null", "Label = 'it''s'", "a doubled quote is refused"),
        ("Label is null", "Label in (select 1)", "sub-queries are refused"),
        ("Label is null", "exists(select 1)", "sub-queries are refused"),
        ("Label is null", "Label is (", "rule label-required: "),
        ('["queue"]', "7", "types is 7"),
        ("[[rule]]", "[rule]", "rule is no list of tables"),
        ("[[rule]]", "[[rules]]", "the file knows no 'rules': did you mean rule"),
        ("[[rule]]", "[severity]\nqueue-name = 'info'\n[[rule]]", "knows no 'queue-name'"),
        ("[[rule]]", "[severity]\nzzz = 'info'\n[[rule]]", r"knows no 'zzz': there are \d+; .*--list-rules"),
        ("[[rule]]", "[severity]\nqueue-times = 'bad'\n[[rule]]", "queue-times: 'bad' is none of"),
        (
            "[[rule]]",
            "[off]\nrules = ['guid-uniq']\n[[rule]]",
            "no rule 'guid-uniq': did you mean guid-unique",
        ),
        ("[[rule]]", "[[rule", "is no TOML file"),
    ],
)
def test_what_cannot_be_is_refused_and_named(tmp_path, old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError, match=words) as refusal:
        loaded(tmp_path, GOOD.replace(old, new))
    assert "ours.toml" in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("set x = 1", "'set x = 1' is neither a condition nor a value"),
        ("Label as x", "'Label as x' is neither a condition nor a value"),
        ("Label =", "an operand or argument is missing in 'Label ='"),
        ("from_json(Label)", r"an operand or argument is missing in 'from_json\(Label\)'"),
    ],
)
def test_what_is_no_expression_of_one_object_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}$"):
        check_sql(text)


HIDDEN = "/* /*+ */ or reflect('java.lang.System', 'getenv', 'HOME') is not null -- */\n"
"""sqlglot reads one comment, Spark two and a call between them."""


def test_spark_gets_what_was_parsed_and_no_comment(tmp_path) -> None:
    text = GOOD.replace('"Label is null or', f"""'''Label = 'x' {HIDDEN} or""").replace("'a')\"", "'a')'''")
    text = text.replace('"Label is {Label}"', f"'''Label is {{Label {HIDDEN}}}!'''")
    (rule,) = loaded(tmp_path, text).own
    assert isinstance(rule, Wrong)
    assert rule.condition == "Label = 'x' OR EXISTS(Unreadable, x -> x = 'a')"
    assert rule.message == "Label is {Label}!"


def test_a_file_that_is_not_there(tmp_path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml", RULES)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no file without end")
def test_a_file_without_end() -> None:
    with pytest.raises(ConfigError, match="/dev/zero is no file of rules: it is longer than 16777216 bytes"):
        load(Path("/dev/zero"), RULES)
