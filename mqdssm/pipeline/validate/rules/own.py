"""Users' own rules.

They come from a TOML file::

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

Accepted findings and thresholds: `mqdssm.pipeline.validate.nightly.suppressions`, `.assessment`.

A condition is Spark SQL over the columns of the type, true for a defect. It runs with the rights of the user
who runs the validation, so it may call only the functions of `mqdssm.pipeline.validate.rules.functions`.
"""

import difflib
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import ConfigError
from mqdssm.pipeline.validate.rules.functions import checked_sql
from mqdssm.pipeline.validate.rules.rule import FRAMES, SEVERITIES, Rule, RuleFile, Wrong
from mqdssm.pipeline.validate.rules.trees import columns_in, columns_of_template, template

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.run import SqlRunner
    from mqdssm.pipeline.validate.sources import ValidationSource

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
        _only(content, _TABLES, "the file")
        known = tuple(dict.fromkeys(rule.id for rule in rules))
        off = _off(content.get("off", {}), known)
        kept = _severities(rules, content.get("severity", {}), known)
        own = tuple(_rule(one, number) for number, one in enumerate(_list(content, "rule"), 1))
        _unique([*known, *(rule.id for rule in own)])
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return RuleFile(tuple(rule for rule in kept if rule.id not in off), own, off)


def read_content(path: Path) -> dict[str, Any]:
    """Return the content of a file of rules, unchecked.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML file: {error}") from error


def _list(content: dict[str, Any], name: str) -> list[Any]:
    found = content.get(name, [])
    if not isinstance(found, list):
        raise ValueError(f"{name} is no list of tables: write [[{name}]]")  # noqa: TRY004  one kind of error
    return found


def _only(given: Any, known: Iterable[str], where: str) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"{where} is no table")  # noqa: TRY004  one kind of error
    for name in given:
        if name not in known:
            raise ValueError(f"{where} knows no {name!r}{_likely(name, known)}")


def _likely(name: str, known: Iterable[str]) -> str:
    names = list(known)
    found = difflib.get_close_matches(name, names, 1)
    if found:
        return f": did you mean {found[0]}?"
    if len(names) > SHOWN_MAX:
        return f": there are {len(names)}; 'mqdssm validate --list-rules' and docs/rules.md list them"
    return f": use one of {', '.join(names)}"


def _severities(rules: Sequence[Rule], given: Any, known: Sequence[str]) -> tuple[Rule, ...]:
    _only(given, known, "[severity]")
    for name, severity in given.items():
        if severity not in SEVERITIES:
            raise ValueError(f"[severity] {name}: {severity!r} is none of {', '.join(SEVERITIES)}")
    return tuple(replace(rule, severity=given[rule.id]) if rule.id in given else rule for rule in rules)


def _off(given: Any, known: Sequence[str]) -> tuple[str, ...]:
    _only(given, ("rules",), "[off]")
    off = given.get("rules", [])
    if not isinstance(off, list):
        raise ValueError("[off] rules is no list of ids")  # noqa: TRY004  one kind of error
    for name in off:
        if name not in known:
            raise ValueError(f"[off] there is no rule {name!r}{_likely(str(name), known)}")
    return tuple(dict.fromkeys(off))


def _unique(ids: Sequence[str]) -> None:
    for name in ids:
        if ids.count(name) > 1:
            raise ValueError(f"rule {name}: there is one of this id already")


def _rule(given: Any, number: int) -> Rule:
    called = given.get("id") if isinstance(given, dict) else None
    where = f"rule {called}" if isinstance(called, str) and called else f"rule number {number}"
    _only(given, (*_REQUIRED, *_OPTIONAL), where)
    for name in _REQUIRED:
        if not given.get(name):
            raise ValueError(f"{where} has no {name}")
    for name, value in given.items():
        right = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not (right if name == "types" else isinstance(value, str)):
            raise ValueError(f"{where}: {name} is {value!r}")
    for name in given["types"]:
        if name not in FRAMES:
            raise ValueError(f"{where}: there is no type {name!r}{_likely(name, FRAMES)}")
    if given["severity"] not in SEVERITIES:
        raise ValueError(f"{where}: severity {given['severity']!r} is none of {', '.join(SEVERITIES)}")
    try:
        condition, message = checked_sql(given["condition"]), _checked_message(given["message"])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    used = columns_in(condition) | columns_of_template(message)
    for kind in given["types"]:
        _check_columns(used, kind, where)
    return Wrong(
        id=given["id"],
        severity=given["severity"],
        types=tuple(given["types"]),
        attribute=given.get("attribute") or min(used, default="Identifier"),
        section=given.get("section", ""),
        what=given["what"],
        message=message,
        bad=condition,
    )


def _checked_message(text: str) -> str:
    """Return a message with its expressions checked and written again for Spark."""
    parts = (f"{{{checked_sql(part.text)}}}" if part.is_expression else part.text for part in template(text))
    return "".join(parts)


def _check_columns(used: Iterable[str], kind: str, where: str) -> None:
    """Refuse columns that a type does not have."""
    known = [column.name for column in FRAMES[kind]]
    lower = {name.lower() for name in known}
    for name in sorted(used):
        if name.lower() not in lower:
            raise ValueError(f"{where}: {kind} has no column {name}{_likely(name, known)}")


def check_own_rules(own: Sequence[Rule], source: "ValidationSource", sql: "SqlRunner | None") -> None:
    """Check that own rules can be evaluated, before the validation starts.

    Args:
        own: the rules.
        source: the objects to validate.
        sql: the runner that evaluates them as SQL; None: workers evaluate them with Arrow.

    Raises:
        ConfigError: one cannot be evaluated; naming the rule.
    """
    if sql is None:
        _check_translations(own, source)
    else:
        sql.check_rules(own, source)


def _check_translations(own: Sequence[Rule], source: "ValidationSource") -> None:
    import pyarrow as pa

    from mqdssm.pipeline.validate.translate import Untranslatable, message, translate

    for rule in own:
        for name in rule.applies(source.present()).types:
            types = source.sets[name].types
            try:
                kind = translate(rule.bad, types).type if isinstance(rule, Wrong) else pa.bool_()
                message(rule.message, types)
            except Untranslatable as unknown:
                raise ConfigError(
                    f"rule {rule.id}, type {name}: {unknown}; '--engine spark' evaluates all of Spark SQL"
                ) from None
            if kind not in {pa.bool_(), pa.null()}:
                raise ConfigError(f"rule {rule.id}: its condition gives {kind}, not true or false")
