"""List of rules as text, for the documentation and for ``validate --list-rules``."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from mqdssm.pipeline.validate.rules.rule import (
    ALL,
    GraphRule,
    Judged,
    MissingReference,
    Repeated,
    Rule,
    Undecodable,
    Unequal,
    Wrong,
)

_HEAD: Final = """# Rules of validation

This page lists all rules of the [validation](validation.md), which explains how to run them, to switch some
off, and to add rules. `mqdssm validate --list-rules` prints the same list. `make schema` writes this page
from the declarations in `mqdssm/pipeline/validate/rules`.

The column *form* says what a rule examines. **row**: one object. **unique**: all values of an attribute.
**reference**: the objects that an object refers to. **python**: values that SQL cannot examine, each distinct
value once. **graph**: all sites, links and servers together. **directory**: the server.

"""


def make_entries(rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """Return the rules as entries for programs, each rule once."""
    merged: dict[str, dict[str, Any]] = {}
    for rule in rules:
        entry = merged.setdefault(
            rule.id,
            {
                "id": rule.id,
                "severity": rule.severity,
                "form": rule.kind,
                "types": [],
                "attributes": [],
                "what": rule.requirement,
                "section": rule.section,
                "conditions": [],
            },
        )
        entry["types"] += [name for name in rule.types if name not in entry["types"]]
        entry["attributes"] += [rule.attribute] if rule.attribute not in entry["attributes"] else []
        entry["conditions"] += [
            condition for condition in _describe_conditions(rule) if condition not in entry["conditions"]
        ]
    return list(merged.values())


def _describe_conditions(rule: Rule) -> Iterator[str]:
    if isinstance(rule, Wrong):
        yield rule.condition
    elif isinstance(rule, Unequal):
        yield f"{rule.value} is {rule.key} of a {rule.target} (other), and {rule.condition}"
    elif isinstance(rule, MissingReference):
        yield f"{rule.value} is not {rule.key} of any {rule.target}"
    elif isinstance(rule, Repeated):
        yield f"{rule.key} repeats"
    elif isinstance(rule, Judged):
        yield f"examiner {rule.examiner} of {', '.join(rule.looks_at)} where {rule.where}"
    elif isinstance(rule, GraphRule):
        yield f"drawing {rule.drawing}"
    elif isinstance(rule, Undecodable):
        yield "a value that cannot be decoded"


def types_of(entry: dict[str, Any]) -> str:
    """Return the types of an entry as text for people."""
    return "all" if set(entry["types"]) == set(ALL) else ", ".join(entry["types"])


def make_page(rules: Sequence[Rule]) -> str:
    """Return the page of the documentation."""
    lines = [
        _HEAD,
        "| rule | severity | form | types | what must hold | section |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    listed = make_entries(rules)
    lines += [
        f"| `{item['id']}` | {item['severity']} | {item['form']} | {types_of(item)} "
        f"| {_escape_cell(item['what'])} | {_escape_cell(item['section'])} |"
        for item in listed
    ]
    lines += ["", "## Conditions", ""]
    for entry in listed:
        lines.append(f"`{entry['id']}`\n")
        lines += ["```text", *entry["conditions"], "```", ""]
    return "\n".join(lines).replace(_HEAD + "\n", _HEAD).rstrip("\n") + "\n"


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")
