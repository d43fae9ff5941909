"""Users' own rules, from a TOML file.

A file of rules::

    [[rule]]
    id = "label-required"
    severity = "warning"
    types = ["queue"]
    what = "every queue has a label that says whose it is"
    condition = "Label is null or not (Label rlike r'^[A-Z]{3}: ')"
    message = "Label is {Label}"
    attribute = "Label"                       # optional
    section = "our handbook, 4.2"             # optional

    [severity]                                # of built-in rules
    queue-name-form = "info"

    [off]                                     # built-in rules that are not applied
    rules = ["certificate-not-yet-valid"]

Accepted findings and thresholds: `mqdssm.pipeline.validate.nightly.assessment`, `.assessment`.

A condition is Spark SQL over the columns of the type, true for a defect. It runs with the rights of the user
who runs the validation, so it may call only the functions of `mqdssm.pipeline.validate.rules.functions`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import ConfigError
from mqdssm.events.input_files import TooLongFileError, read_toml
from mqdssm.model.suggestions import suggest_name
from mqdssm.pipeline.validate.rules.functions import check_sql
from mqdssm.pipeline.validate.rules.rule import FRAMES, SEVERITIES, Rule, RuleFile, Wrong
from mqdssm.pipeline.validate.rules.trees import columns_of_template, find_columns, split_template

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.run import SqlRunner
    from mqdssm.pipeline.validate.sources import ValidationSource

RULES_BYTES_MAX: Final = 16 << 20
"""Limit of a file of rules; suppressions may name many objects."""
SHOWN_MAX: Final = 15
"""Limit of the names in a message."""
_REQUIRED: Final = ("id", "severity", "types", "what", "condition", "message")
_OPTIONAL: Final = ("attribute", "section")
_TABLES: Final = (
    "rule",
    "severity",
    "off",
    "suppress",
    "fail",
)  # the last two: mqdssm.pipeline.validate.nightly


def load(path: Path, rules: Sequence[Rule]) -> RuleFile:
    """Read a file of rules.

    Args:
        path: of the file.
        rules: the built-in ones.

    Raises:
        ConfigError: the file cannot be read or is invalid; the text names file and rule.
    """
    content = read_content(path)
    try:
        _check_names(content, _TABLES, "the file")
        rule_ids = tuple(dict.fromkeys(rule.id for rule in rules))
        off = _parse_off(content.get("off", {}), rule_ids)
        adjusted_rules = _change_severities(rules, content.get("severity", {}), rule_ids)
        own_rules = tuple(
            _parse_rule(table, number) for number, table in enumerate(_list(content, "rule"), 1)
        )
        _check_unique([*rule_ids, *(rule.id for rule in own_rules)])
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return RuleFile(tuple(rule for rule in adjusted_rules if rule.id not in off), own_rules, off)


def read_content(path: Path) -> dict[str, Any]:
    """Return the content of a file of rules, unchecked.

    Raises:
        ConfigError: it cannot be read, is too long, or is no TOML.
    """
    try:
        return read_toml(path, RULES_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except TooLongFileError:
        raise ConfigError(f"{path} is no file of rules: it is longer than {RULES_BYTES_MAX} bytes") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no TOML file: {error}") from error


def _list(content: dict[str, Any], name: str) -> list[Any]:
    tables = content.get(name, [])
    if not isinstance(tables, list):
        raise ValueError(f"{name} is no list of tables: write [[{name}]]")  # noqa: TRY004  one kind of error
    return tables


def _check_names(table: Any, names: Iterable[str], where: str) -> None:
    if not isinstance(table, dict):
        raise ValueError(f"{where} is no table")  # noqa: TRY004  one kind of error
    for name in table:
        if name not in names:
            raise ValueError(f"{where} knows no {name!r}{_suggest_name(name, names)}")


def _suggest_name(name: str, choices: Iterable[str]) -> str:
    names = list(choices)
    listed = f": there are {len(names)}; 'mqdssm validate --list-rules' and docs/rules.md list them"
    return suggest_name(name, names, otherwise=listed if len(names) > SHOWN_MAX else None)


def _change_severities(rules: Sequence[Rule], table: Any, rule_ids: Sequence[str]) -> tuple[Rule, ...]:
    _check_names(table, rule_ids, "[severity]")
    for name, severity in table.items():
        if severity not in SEVERITIES:
            raise ValueError(f"[severity] {name}: {severity!r} is none of {', '.join(SEVERITIES)}")
    return tuple(replace(rule, severity=table[rule.id]) if rule.id in table else rule for rule in rules)


def _parse_off(table: Any, rule_ids: Sequence[str]) -> tuple[str, ...]:
    _check_names(table, ("rules",), "[off]")
    off = table.get("rules", [])
    if not isinstance(off, list):
        raise ValueError("[off] rules is no list of ids")  # noqa: TRY004  one kind of error
    for name in off:
        if name not in rule_ids:
            raise ValueError(f"[off] there is no rule {name!r}{_suggest_name(str(name), rule_ids)}")
    return tuple(dict.fromkeys(off))


def _check_unique(ids: Sequence[str]) -> None:
    for name in ids:
        if ids.count(name) > 1:
            raise ValueError(f"rule {name}: there is one of this id already")


def _parse_rule(table: Any, number: int) -> Rule:
    called = table.get("id") if isinstance(table, dict) else None
    where = f"rule {called}" if isinstance(called, str) and called else f"rule number {number}"
    _check_names(table, (*_REQUIRED, *_OPTIONAL), where)
    for name in _REQUIRED:
        if not table.get(name):
            raise ValueError(f"{where} has no {name}")
    for name, value in table.items():
        right = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not (right if name == "types" else isinstance(value, str)):
            raise ValueError(f"{where}: {name} is {value!r}")
    for name in table["types"]:
        if name not in FRAMES:
            raise ValueError(f"{where}: there is no type {name!r}{_suggest_name(name, FRAMES)}")
    if table["severity"] not in SEVERITIES:
        raise ValueError(f"{where}: severity {table['severity']!r} is none of {', '.join(SEVERITIES)}")
    try:
        condition, message = check_sql(table["condition"]), _check_message(table["message"])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    used = find_columns(condition) | columns_of_template(message)
    for kind in table["types"]:
        _check_columns(used, kind, where)
    return Wrong(
        id=table["id"],
        severity=table["severity"],
        types=tuple(table["types"]),
        attribute=table.get("attribute") or min(used, default="Identifier"),
        section=table.get("section", ""),
        requirement=table["what"],
        message=message,
        condition=condition,
    )


def _check_message(text: str) -> str:
    """Return a message with its expressions checked and written again for Spark."""
    parts = (
        f"{{{check_sql(part.text)}}}" if part.is_expression else part.text for part in split_template(text)
    )
    return "".join(parts)


def _check_columns(used: Iterable[str], kind: str, where: str) -> None:
    """Refuse columns that a type does not have."""
    column_names = [column.name for column in FRAMES[kind]]
    lower = {name.lower() for name in column_names}
    for name in sorted(used):
        if name.lower() not in lower:
            raise ValueError(f"{where}: {kind} has no column {name}{_suggest_name(name, column_names)}")


def check_own_rules(own_rules: Sequence[Rule], source: "ValidationSource", sql: "SqlRunner | None") -> None:
    """Check that own rules can be evaluated, before the validation starts.

    Args:
        own_rules: the rules.
        source: the objects to validate.
        sql: the runner that evaluates them as SQL; None: workers evaluate them with Arrow.

    Raises:
        ConfigError: one cannot be evaluated; naming the rule.
    """
    if sql is None:
        _check_translations(own_rules, source)
    else:
        sql.check_rules(own_rules, source)


def _check_translations(own_rules: Sequence[Rule], source: "ValidationSource") -> None:
    import pyarrow as pa

    from mqdssm.pipeline.validate.translate import Untranslatable, translate, translate_message

    for rule in own_rules:
        for name in rule.applies(source.list_present()).types:
            types = source.sets[name].types
            try:
                kind = translate(rule.condition, types).type if isinstance(rule, Wrong) else pa.bool_()
                translate_message(rule.message, types)
            except Untranslatable as unknown:
                raise ConfigError(
                    f"rule {rule.id}, type {name}: {unknown}; '--engine spark' evaluates all of Spark SQL"
                ) from None
            if kind not in {pa.bool_(), pa.null()}:
                raise ConfigError(f"rule {rule.id}: its condition gives {kind}, not true or false")
