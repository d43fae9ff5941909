"""Lines of ``mqdssm validate`` about rules that were not applied: one line for each reason."""

from mqdssm.cli.validate import NAMES_MAX, explain_not_judged
from mqdssm.pipeline.validate.findings import Skipped

NO_QUEUES = "type queue is not in the source"


def test_rules_of_one_reason_share_a_line() -> None:
    skipped = [
        Skipped("b-rule", NO_QUEUES),
        Skipped("off", "switched off"),
        Skipped("a-rule", NO_QUEUES),
        Skipped("in-part", NO_QUEUES, ("site", "user")),
    ]
    assert list(explain_not_judged(skipped)) == [
        f"not applied: {NO_QUEUES}: 2 rules b-rule, a-rule",
        "not applied: switched off: rule off",
        f"applied to site, user alone: {NO_QUEUES}: rule in-part",
    ]


def test_a_long_line_names_the_first_rules_and_counts_all() -> None:
    names = [f"rule-{number}" for number in range(NAMES_MAX + 5)]
    (line,) = explain_not_judged(Skipped(name, NO_QUEUES) for name in names)
    assert line == (
        f"not applied: {NO_QUEUES}: {len(names)} rules {', '.join(names[:NAMES_MAX])} "
        "and 5 more, which --output json names"
    )
    assert list(explain_not_judged([])) == []
