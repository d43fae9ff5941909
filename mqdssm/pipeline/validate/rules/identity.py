"""Rules about identity and names."""

from typing import Final

from mqdssm.pipeline.validate.rules.queue import PARENT
from mqdssm.pipeline.validate.rules.rule import ALL, PLACED, Repeated, Rule, Undecodable, Wrong

_NULL: Final = "00000000-0000-0000-0000-000000000000"


def _make_tag_condition(tag: str) -> str:
    r"""Return a condition for a mark behind a line feed in the object's name.

    A mark in a name above the object's own does not count.
    Active Directory writes the line feed as ``\0A``, slapd unchanged.
    """
    marks = (f"'\\\\0A{tag}:'", f"'\\n{tag}:'")
    return " or ".join(f"contains(FullPath, {mark}) and not contains({PARENT}, {mark})" for mark in marks)


def _require_name(kind: str, attribute: str, section: str) -> Wrong:
    return Wrong(
        id="name-required",
        types=(kind,),
        attribute=attribute,
        section=section,
        requirement="an object that others are found by has a name",
        message=f"{attribute} is missing",
        condition=f"{attribute} is null or {attribute} = ''",
    )


RULES: Final[tuple[Rule, ...]] = (
    Repeated(
        id="guid-unique",
        types=ALL,
        attribute="Identifier",
        section="[MS-MQDMPR] 3.1.1",
        requirement="an Identifier belongs to one object, over all types",
        message="Identifier {value} belongs to {count} objects",
        key="Identifier",
        unless_all="queue-manager",  # queue-manager-cloned
    ),
    Wrong(
        id="guid-required",
        types=ALL,
        attribute="Identifier",
        section="[MS-MQDMPR] 3.1.1",
        requirement="an object has an Identifier",
        message="Identifier is {Identifier}",
        condition=f"Identifier is null or Identifier = '{_NULL}' or length(Identifier) <> 36",
        decodes=True,
    ),
    _require_name("site", "Name", "[MS-MQDMPR] 3.1.1.7"),
    _require_name("queue-manager", "ComputerName", "[MS-MQDMPR] 3.1.1.1"),
    _require_name("computer", "Name", "[MS-MQDSSM] 2.2.1"),
    Wrong(
        id="tombstone-name",
        types=PLACED,
        attribute="FullPath",
        section="[MS-ADTS] 3.1.1.5.5",
        requirement="no object is the remains of a deleted one",
        message="{FullPath} is the name of a deleted object",
        condition=_make_tag_condition("DEL"),
    ),
    Wrong(
        id="conflict-name",
        severity="warning",
        types=PLACED,
        attribute="FullPath",
        section="[MS-MQDSSM] 2.2.1",
        requirement="no object was renamed because another one of its name was made at the same time",
        message="{FullPath} was renamed by the server: another object of that name was made elsewhere",
        condition=_make_tag_condition("CNF"),
    ),
    Undecodable(
        id="reference-dangling",
        severity="warning",
        types=ALL,
        attribute="Unreadable",
        section="[MS-MQDSSM] 3.1.6.11.1.3, 3.1.6.11.1.4, 3.1.6.11.5.3",
        requirement="no attribute refers to a deleted object",
        decodes=False,
    ),
    Undecodable(
        id="attribute-unreadable",
        types=ALL,
        attribute="Unreadable",
        section="[MS-MQDSSM] 3.1.6.11",
        requirement="every value can be decoded; values that another rule knows are reported by that one",
        decodes=False,
    ),
)
