"""Documentation pages of the mapping, generated from the rows (``docs/tables/``)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mqdssm.tables import TABLES, ldap_results, schema, schema_attributes, schema_classes
from mqdssm.tables.dependent_objects import COPIED, SETTINGS_CLASS, SETTINGS_NAME
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Access, Holder, Missing, Row
from mqdssm.tables.schema import UNUSED_ATTRIBUTES
from mqdssm.tables.schema_attributes import AttributeType
from mqdssm.tables.schema_classes import ObjectClass

HEAD: Final = "<!-- made by `make schema` (python .ci/generate.py); do not edit -->\n"
_OTHER_PAGES: Final = ("settings-and-aliases", "schema", "results")
_FLAGS: Final = (
    (Access.READ, "R"),
    (Access.CREATE, "C"),
    (Access.WRITE, "W"),
    (Access.FILTER, "F"),
    (Access.SORT, "S"),
    (Access.NAME, "N"),
)
_MISSING: Final = {
    Missing.ERROR: "error",
    Missing.ERROR_IF_ASKED: "unpopulated; error if asked by name",
    Missing.UNPOPULATED: "unpopulated",
}


def pages() -> Mapping[str, str]:
    """Return all pages: file name below ``docs/tables/`` -> text."""
    others = (_write_other_page(), _write_schema_page(), _write_results_page())
    return {
        "README.md": _index(),
        **{f"{page_name(table)}.md": _write_element_page(table) for table in TABLES.values()},
        **dict(zip((f"{name}.md" for name in _OTHER_PAGES), others, strict=True)),
    }


def page_name(table: ElementTable) -> str:
    """Return the file name of an element's page, without its ending: ``queue-manager``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", table.name).lower()


def grid(heads: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table with a header line."""
    columns = list(heads)
    rows = [columns, ["---"] * len(columns), *map(list, lines)]
    return "".join(f"| {' | '.join(map(_escape_cell, row))} |\n" for row in rows)


def _escape_cell(cell: str) -> str:
    return cell.replace("|", "\\|")


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _index() -> str:
    lines = [
        [f"[{table.name}]({page_name(table)}.md)", f"`{table.ldap_class}`", str(len(table.rows))]
        for table in TABLES.values()
    ]
    contents = "\n".join([*map(page_name, TABLES.values()), *_OTHER_PAGES, "rights", "replication"])
    return f"""{HEAD}
# Tables of attributes

These pages list the attributes of the abstract model ([MS-MQDSSM] 3.1.6.20), and the LDAP attributes that
hold them. Each attribute has one row in `mqdssm/tables/`. The library, the schema files in `ldif/` and
these pages are derived from the rows.

{grid(["element", "LDAP class", "attributes"], lines)}
Other pages list [settings objects, aliases and groups](settings-and-aliases.md), the
[schema](schema.md) with OIDs, syntaxes and ranges, and the [result codes](results.md). They also list
the [rights](rights.md) that each event needs on Active Directory, and the attributes of
[replication](replication.md).

Columns of the pages:

* **events**: the operations that use the attribute. R: it can be read. C: a create stores it. W: a write
  changes it. F: the server can filter by it (other filters are applied to the results, decision M17). S:
  it can be sorted by. N: it is part of the object's name.
* **unset**: the value if the entry does not have the LDAP attribute. *error*: the object cannot be read
  (GenericError). *unpopulated; error if asked by name*: see decisions M26 and M41.
* **PROPID**: its number in MSMQ's protocols, if it has one.

The names are those of the specifications. `whenCreated` and `whenChanged` are read from `createTimestamp`
(where `whenCreated` is not set) and `modifyTimestamp` on OpenLDAP; `distinguishedName` is the DN of the
entry.

```{{toctree}}
:hidden:

{contents}
```
"""


def _write_element_page(table: ElementTable) -> str:
    columns = ("attribute", "LDAP", "value", "unset", "events", "PROPID", "[MS-MQDSSM]")
    lines = [
        [
            f"`{row.adm}`",
            _ldap_cell(row),
            _value_cell(row),
            _unset_cell(row),
            "".join(letter for flag, letter in _FLAGS if flag in row.access),
            "" if row.propid is None else str(row.propid),
            " ".join(row.sections),
        ]
        for row in table.rows
    ]
    unsupported = _format_names(sorted(table.unsupported))
    note = f"\nGenericError for: {unsupported} ([MS-MQDSSM] 3.1.6.20).\n" if unsupported else ""
    stored = f"Stored in entries of class `{table.ldap_class}`. The [index](README.md) explains the columns."
    title = f"# {table.name}\n\n{stored}"
    return f"{HEAD}\n{title}\n\n{grid(columns, lines)}{note}"


def _ldap_cell(row: Row) -> str:
    parts = [_format_names(row.ldap)]
    if row.holder is Holder.COMPUTER:
        parts.append("of the computer")
    if row.computer_ldap:
        parts.append(f"and {_format_names(row.computer_ldap)} of the computer")
    if row.written and row.written != row.ldap:
        parts.append(f"; written: {_format_names(row.written)}")
    return " ".join(filter(None, parts)).replace(" ;", ";")


def _value_cell(row: Row) -> str:
    unit = f" ({row.unit})" if row.unit else ""
    text = f"list of {row.kind.value}" if row.multi else f"{row.kind.value}{unit}"
    if row.computed:
        return f"{text}: {row.computed.value}"
    return text if row.syntax.name.lower() == row.kind.value.lower() else f"{text}, {row.syntax.name}"


def _unset_cell(row: Row) -> str:
    return _MISSING.get(row.missing) or _format_default(row.default)


def _format_default(value: Any) -> str:
    if value in ("", b"", ()):
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if hasattr(value, "name"):
        return str(value.name)
    return f"`{value:#x}`" if isinstance(value, int) and value > 0xFFFF else f"`{value}`"


def _write_other_page() -> str:
    copied = [[f"`{c.settings}`", f"`{c.configuration}`", c.syntax.name] for c in COPIED]
    return f"""{HEAD}
# Settings objects, aliases and groups

## {SETTINGS_CLASS}

A queue manager that is a routing, directory or supporting server has a `CN={SETTINGS_NAME}` in each of its
sites, below the server object of its computer ([MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.7.1.9). It has these
attributes:

{grid(["attribute", "copied from mSMQConfiguration", "syntax"], copied)}
## Queue aliases and distribution lists

An alias is an object of class `{schema.ALIAS_CLASS}` whose `{schema.ALIAS_FORMAT_NAME}` is a format name
([MS-MQDSSM] 2.3, 3.1.6.8). A distribution list is a `{schema.GROUP_CLASS}`; its `{schema.GROUP_MEMBER}`
values are queues, aliases and groups (3.1.6.9).
"""


def _write_schema_page() -> str:
    attributes = sorted(schema_attributes.ALL, key=lambda a: a.name.lower())
    classes = sorted(schema_classes.ALL, key=lambda c: c.name.lower())
    return f"""{HEAD}
# Schema

OIDs, syntaxes and ranges are Microsoft's. Only `{schema_classes.TOP}` and the attributes of the root DSE
belong to mqdssm: they are below the arc `{schema_attributes.OWN_ARC}`
(UUID {schema_attributes.OWN_UUID}). slapd and core.schema define the attributes marked *builtin*;
`ldif/msmq.schema` and `ldif/msmq.ldif` define all others.

## Classes

{grid(["class", "OID", "below", "must", "may", "parents"], map(_class_line, classes))}
Active Directory requires the attributes in *italics*, but sets them itself; on OpenLDAP they are
optional. Active Directory has no `{schema_classes.TOP}`: the attributes of that class are attributes of
`top`.

## Attributes

{grid(["attribute", "OID", "syntax", "values", "range", "notes"], map(_attribute_line, attributes))}
Ranges of text count UTF-16 code units, those of octets count bytes.
"""


def _class_line(cls: ObjectClass) -> list[str]:
    may = [f"*{name}*" for name in cls.filled_in] + list(cls.may)
    return [
        f"`{cls.name}`",
        cls.oid,
        cls.superior,
        ", ".join(cls.must),
        ", ".join(may),
        ", ".join(cls.parents),
    ]


def _attribute_line(attribute: AttributeType) -> list[str]:
    bounds = ""
    if attribute.lower is not None or attribute.upper is not None:
        bounds = f"{attribute.lower or 0}..{'' if attribute.upper is None else attribute.upper}"
    notes = [
        word
        for word, holds in (
            ("builtin", attribute.builtin),
            ("indexed", attribute.indexed),
            ("global catalog", attribute.catalog),
            ("unused ([MS-MQDSSM] 2.2.4)", attribute.name in UNUSED_ATTRIBUTES),
        )
        if holds
    ]
    syntax = f"{attribute.syntax.name} {attribute.syntax.attribute_syntax}"
    values = "single" if attribute.single else "multi"
    return [f"`{attribute.name}`", attribute.oid, syntax, values, bounds, ", ".join(notes)]


def _write_results_page() -> str:
    lines = [
        [str(code), name, ldap_results.result_of(code).value] for code, name in ldap_results.NAMES.items()
    ]
    return f"""{HEAD}
# LDAP result codes

The results of [MS-MQDSSM] 2.2.6 for the LDAP result codes. All other codes are GenericError.

{grid(["code", "name", "DirectoryOperationResult"], lines)}"""
