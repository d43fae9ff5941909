"""The file of the trees of our rules.

After a change of a rule ``python -m mqdssm.pipeline.validate.rules.kept_trees`` writes it.

A test compares the file with what sqlglot makes of the rules.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.expressions import template
from mqdssm.pipeline.validate.rules.trees import TREES_NAME, parsed_anew


def texts_of_rules() -> Iterator[str]:
    """Return the expressions of all rules of ours."""
    for rule in RULES:
        for part in ("bad", "value", "where", "key"):
            yield from filter(None, [getattr(rule, part, None)])
        yield from (part.text for part in template(rule.message) if part.is_expression)


def trees_text() -> str:
    """Return what the file must hold."""
    found = {text: parsed_anew(text) for text in texts_of_rules()}
    lines = [
        f"{json.dumps(text)}: {json.dumps([sorted(one.columns), one.tree])}"
        for text, one in sorted(found.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    Path(__file__).with_name(TREES_NAME).write_text(trees_text(), encoding="utf-8")
