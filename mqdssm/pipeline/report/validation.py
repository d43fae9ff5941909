"""Report of a validation, as an HTML page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqdssm.pipeline.report.charts import development_of, make_chart
from mqdssm.pipeline.report.page import check_page, format_dn, format_value, write_page
from mqdssm.pipeline.report.picture import describe_counts, picture_of
from mqdssm.pipeline.report.topology import (
    Counts,
    FindingTally,
    Topology,
    add_counts,
    find_worst,
    tally,
    topology_of,
)
from mqdssm.pipeline.validate.rules.rule import SEVERITIES, Finding, Severity

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.datasets import Dataset
    from mqdssm.pipeline.validate.findings import Findings, RuleResult, ValidationSummary
    from mqdssm.pipeline.validate.nightly.run import RunOutcome

SAMPLES_SHOWN: Final = (50, 25, 15, 10, 5, 3, 1)
"""Samples of a rule that are shown: the first number with which all samples fit `SAMPLES_BYTES_MAX`."""
SAMPLES_BYTES_MAX: Final = 1_000_000
PRINTED: Final = 5
"""Samples of a rule that are printed; a browser shows more."""
SITES_SHOWN_MAX: Final = 200
MARKUP_BYTES: Final = 170  # markup of one line in a table of samples
WORST_FIRST: Final = tuple(reversed(SEVERITIES))
KINDS: Final[tuple[tuple[Severity, str], ...]] = (
    ("error", "errors"),
    ("warning", "warnings"),
    ("info", "notes"),
)


@dataclass(frozen=True, slots=True)
class SiteLine:
    """A site in the table below the picture."""

    name: str
    guid: str
    foreign: bool
    machines: int
    severity: str
    own: str
    links: str
    of_machines: str


def write_report(
    path: Path,
    summary: "ValidationSummary",
    findings: "Findings",
    sets: "Mapping[str, Dataset] | None" = None,
    outcome: "RunOutcome | None" = None,
) -> None:
    """Write the report of a validation.

    Args:
        path: of the file, which is replaced.
        summary: counts and samples.
        findings: all of them; they are counted, not shown.
        sets: the types that were validated: sites and links for the picture; None: no picture.
        outcome: what became of earlier findings; None: there is nothing to compare with.

    Raises:
        ConfigError: jinja2 is missing, or the file cannot be written.
    """
    check_page(path)
    finding_tally = tally(findings.read_batches())
    topology = topology_of(sets or {}, finding_tally)
    bad = sorted(
        (rule for rule in summary.rules if rule.count),
        key=lambda rule: (-SEVERITIES.index(rule.severity), -rule.count, rule.id),
    )
    sites, sites_left_out = _list_sites(topology)
    limit = choose_sample_count(bad)
    write_page(
        path,
        "validation.html",
        title=f"Validation of {format_value(summary.source)}",
        summary=summary,
        result=_describe_result(summary),
        worst=next((severity for severity in WORST_FIRST if summary.count_of(severity)), "fine"),
        counts=[(kind, called, summary.count_of(kind)) for kind, called in KINDS],
        objects=sum(summary.objects.values()),
        types=_list_types(summary, finding_tally),
        by_rule=make_chart(
            "by-rule",
            "Findings by rule",
            ((rule.id, f"#rule-{make_anchor(rule.id)}", {rule.severity: rule.count}) for rule in bad),
            KINDS,
        ),
        by_type=make_chart(
            "by-type",
            "Findings by type of object",
            ((type_name, "", n) for type_name, n in finding_tally.types.items()),
            KINDS,
        ),
        picture=picture_of(topology),
        development=None if outcome is None else development_of(outcome),
        sites=sites,
        sites_left_out=sites_left_out,
        rules=[*bad, *sorted((rule for rule in summary.rules if not rule.count), key=lambda rule: rule.id)],
        sections=[(rule, make_anchor(rule.id), rule.samples[:limit]) for rule in bad],
        anchor=make_anchor,
        printed=PRINTED,
    )


def make_anchor(name: str) -> str:
    """Return a rule's id as part of an anchor, escaped.

    Users' own rules may have any id.
    """
    return "".join(
        character
        if character.isascii() and character.isalnum()
        else f"-{'' if character == '-' else ord(character)}"
        for character in name
    )


def choose_sample_count(rules: "Sequence[RuleResult]") -> int:
    """Return how many samples of each rule fit into the report."""
    for limit in SAMPLES_SHOWN:
        size = sum(_measure_finding(sample) for rule in rules for sample in rule.samples[:limit])
        if size <= SAMPLES_BYTES_MAX:
            return limit
    return 0


def _measure_finding(finding: Finding) -> int:
    from markupsafe import escape

    texts = (finding.type, finding.guid, finding.attribute, finding.message)
    pieces = (format_dn(finding.dn), *(escape(format_value(text)) for text in texts))
    return MARKUP_BYTES + sum(len(piece.encode("utf-8", "replace")) for piece in pieces)


def _describe_result(summary: "ValidationSummary") -> str:
    if not summary.count:
        return "No findings."
    counts: Counts = {severity: summary.count_of(severity) for severity in SEVERITIES}
    broken = sum(1 for rule in summary.rules if rule.count)
    return f"{describe_counts(counts)}: {broken} of {len(summary.rules)} rules are broken."


def _list_types(
    summary: "ValidationSummary", finding_tally: FindingTally
) -> Iterator[tuple[str, int, Mapping[str, int]]]:
    for name in dict.fromkeys((*summary.objects, *finding_tally.types)):
        yield name, summary.objects.get(name, 0), dict(finding_tally.types.get(name, {}))


def _list_sites(topology: Topology) -> tuple[list[SiteLine], int]:
    """Return the sites with findings, the worst first.

    The number of those left out is returned, too.
    """
    lines = []
    for site, links in zip(topology.sites, topology.count_link_findings(), strict=True):
        everything = add_counts(site.own, links, site.of_machines)
        severity = find_worst(everything)
        if severity is not None:
            rank = (-SEVERITIES.index(severity), -sum(everything.values()))
            three = (
                describe_counts(counts) if sum(counts.values()) else ""
                for counts in (site.own, links, site.of_machines)
            )
            line = SiteLine(site.name, site.guid, site.foreign, site.machines, severity, *three)
            lines.append((rank, line))
    lines.sort(key=lambda line: line[0])
    return [line for _, line in lines[:SITES_SHOWN_MAX]], max(len(lines) - SITES_SHOWN_MAX, 0)
