"""Text of the file with the expression trees of built-in rules, which ``make schema`` writes."""

import json
from collections.abc import Iterator

from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.expressions import template
from mqdssm.pipeline.validate.rules.trees import parsed_anew


def texts_of_rules() -> Iterator[str]:
    """Return the expressions of all built-in rules."""
    for rule in RULES:
        for part in ("bad", "value", "where", "key"):
            yield from filter(None, [getattr(rule, part, None)])
        yield from (part.text for part in template(rule.message) if part.is_expression)


def trees_text() -> str:
    """Return the text of the file."""
    found = {text: parsed_anew(text) for text in texts_of_rules()}
    lines = [
        f"{json.dumps(text)}: {json.dumps([sorted(one.columns), one.tree])}"
        for text, one in sorted(found.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
