"""Checks of ``mqdssm doctor`` on Active Directory: events for which the user has the rights.

One finding for each element of the abstract model, all events of `mqdssm.tables.rights.NEEDS` in it.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from mqdssm.cli.checks import CheckFinding, Patient, ok, warning
from mqdssm.cli.rights_judge import RightsChecker, Verdict
from mqdssm.cli.rights_samples import Samples
from mqdssm.tables import rights

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

NAME: Final = "event rights"
ADVICE: Final = "let an administrator of the domain grant it (docs/tables/rights.md)"


def events(patient: Patient) -> Iterator[CheckFinding]:
    """Report the events that will work, by element, and the rights missing for the others."""
    session = patient.session
    judge = RightsChecker(session, Samples(session, patient.at))
    for element in dict.fromkeys(need.element for need in rights.NEEDS):
        judged = {event: list(judge.verdicts(element, event)) for event in rights.Event}
        for event, verdicts in judged.items():
            lacking = [one for one in verdicts if one.missing]
            if lacking:
                yield warning(NAME, f"{element}: {_lacking(event, verdicts, lacking)}", ADVICE)
        fine = {event: verdicts for event, verdicts in judged.items() if not _is_lacking(verdicts)}
        if any(fine.values()):
            yield ok(NAME, f"{element}: {'; '.join(_known(fine))}")
    yield _identifiers(session, judge)


def _is_lacking(verdicts: list[Verdict]) -> bool:
    return any(one.missing for one in verdicts)


def _lacking(event: rights.Event, verdicts: list[Verdict], lacking: list[Verdict]) -> str:
    """Describe one event for which rights are missing."""
    conditions = dict.fromkeys(one.needs[0].condition for one in lacking)
    parts = []
    for condition in conditions:
        words = ", ".join(str(one.missing) for one in lacking if one.needs[0].condition == condition)
        parts.append(f"if {condition}: {words}" if condition else words)
    start = "may not" if "" in conditions else "may" if _is_allowed(verdicts) else "perhaps may"
    return f"{start} {event.value}; missing: {'; '.join(parts)}"


def _is_allowed(verdicts: list[Verdict]) -> bool:
    """Return True if the event works, apart from conditions of the table that need more rights."""
    return all(one.missing == "" for one in verdicts if not one.needs[0].condition)


def _known(judged: Mapping[rights.Event, list[Verdict]]) -> Iterator[str]:
    """Describe the allowed events with the objects checked, and the unknown ones for lack of an object."""
    may = [event.value for event, verdicts in judged.items() if verdicts and _is_allowed(verdicts)]
    every = [one for verdicts in judged.values() for one in verdicts]
    where = dict.fromkeys(str(dn) for one in every if one.missing == "" for dn in one.looked_at)
    if may:
        yield f"may {', '.join(may)} (by the rights on {'; '.join(where)})"
    untold = [one for one in every if one.missing is None]
    for unseen in dict.fromkeys(one.unseen for one in untold):
        what = dict.fromkeys(one.what for one in untold if one.unseen == unseen)
        why = f"no {' or '.join(unseen)}" if unseen else "no descriptor"
        yield f"{why} to be seen: cannot tell of {', '.join(what)}"


def _identifiers(session: "Session", judge: RightsChecker) -> CheckFinding:
    """Check that new objects can be added with their GUID ([MS-ADTS] 3.1.1.5.2.2, decision M37)."""
    from mqdssm.tables.access import grants

    name, missing = "identifiers", []
    if not session.profile.keeps_guids(session):
        missing.append("fSpecifyGUIDOnAdd is not set (the 11th character of dSHeuristics is not 1)")
    for dn in dict.fromkeys((session.naming.root, session.naming.configuration)):
        descriptor = judge.descriptor_at(dn)
        if descriptor is None:
            missing.append(f"the descriptor of {dn} is not shown, so the right Add-GUID is not known")
        elif not grants(descriptor, judge.token, rights.CONTROL.decides, {rights.ADD_GUID}):
            missing.append(f"the right Add-GUID ({rights.ADD_GUID}) on {dn}")
    if not missing:
        return ok(name, "new objects may bring their GUID along, if this is a domain controller of Windows")
    words = "new objects get a GUID of the domain controller's; missing to bring one along"
    return ok(
        name, f"{words}: {'; '.join(missing)}; queues and queue managers remember theirs in mSMQOwnerID"
    )
