"""Documentation page of the rights that events need ([MS-MQDSSM] 5.1; ``docs/tables/rights.md``)."""

from collections.abc import Iterable
from typing import Final

from mqdssm.tables.access import AdRight
from mqdssm.tables.rights import ADD_GUID, NEEDS, READ, WRITE, Need

_HEAD: Final = "<!-- made by `make schema` (python .ci/generate.py); do not edit -->\n"
_COLUMNS: Final = ("event", "right", "mask", "on", "of class", "for class", "when", "source")


def page() -> str:
    """Return the text of the page."""
    elements = dict.fromkeys(need.element for need in NEEDS)
    parts = (f"## {name}\n\n{_lines(need for need in NEEDS if need.element == name)}" for name in elements)
    return f"""{_HEAD}
# Rights that events need

On Active Directory, by [MS-MQDSSM] 5.1; masks are those of [MS-ADTS] 5.1.3.2.
`tests/servers/test_ad_rights.py` gives an account exactly these rights on a domain controller and takes
away one after the other. What is missing is named by the error's hint, and `mqdssm doctor` tells
beforehand what the user who is logged in may do.

What `mqdssm doctor` judges is an event on **one object of each class**, named in its answer: the first
queue that it finds, its queue manager, its computer, the objects of that computer in a site, the first
routing link, alias and group, and the user's own account. `--at web01` or `--at web01\\orders` chooses
another computer or queue. Rights on other objects may differ. It reads what a domain controller computes
(`allowedChildClassesEffective`, `allowedAttributesEffective`, `sDRightsEffective`), and for reading and
deleting the access control lists; nothing is tried. *May write* means every attribute that the event can
write, and *may read* every attribute that elements are made of.

* *for class*: it is enough to grant the right for that class of children; its schemaIDGUID is in the
  hint.
* *one of*: one of the rows of the event that say so is enough, as in [MS-ADTS] 3.1.1.5.5.3; [MS-MQDSSM]
  5.1 asks for both, and prints RIGHT_DS_CREATE_CHILD for one of them in 5.1.1.
* Of RIGHT_GENERIC_READ the bit {READ.decides:#x} (read property) decides, and {int(AdRight.LIST_CHILDREN):#x}
  (list children) on the parent whether the object is found at all; of RIGHT_GENERIC_WRITE the bit
  {WRITE.decides:#x} (write property), which may be granted for single attributes. An object that a user
  may not read is answered as one that does not exist.
* Every event has to find its object first: read rights on the way to it, which authenticated users have
  unless somebody took them away. After a create, the new object's GUID is read (3.1.6.12).
* Who makes the objects `CN=Servers` and `server` (decision M6) gets no right to create below them by
  that: grant the three rights on the site so that they are inherited (`CI`).

{"".join(f"{part}{chr(10)}" for part in parts)}## An identifier that the object brings along

A domain controller of Windows takes an objectGUID from a client only if fSpecifyGUIDOnAdd is set (the
11th character of `dSHeuristics` of `CN=Directory Service,CN=Windows NT,CN=Services` in the configuration
is 1) and the user has RIGHT_DS_CONTROL_ACCESS (0x100) for the extended right Add-GUID (`{ADD_GUID}`) on
the head of the naming context ([MS-ADTS] 3.1.1.5.2.2, decision M37).
"""


def _lines(needs: Iterable[Need]) -> str:
    rows = [_COLUMNS, ("---",) * len(_COLUMNS), *map(_row, needs)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(need: Need) -> tuple[str, ...]:
    when = "; ".join(filter(None, ("one of" if need.either else "", need.condition)))
    section = need.section if need.section.startswith("[") else f"[MS-MQDSSM] {need.section}"
    for_class = f"`{need.object_class}`" if need.object_class else ""
    return (
        need.event.value,
        need.right.name,
        f"`{need.right.mask:#x}`",
        need.where.value,
        f"`{need.holder}`",
        for_class,
        when,
        section,
    )
