"""Files that are generated from the tables, as text; the caller writes or compares them."""

from collections.abc import Iterable, Mapping
from typing import Final

import table_pages
from table_pages import HEAD, grid

from mqdssm.tables import ldif, numbering, schema_attributes, schema_mqis
from mqdssm.tables.access import AdRight
from mqdssm.tables.properties import EXACT, PROPERTY_TABLES, PropertyTable
from mqdssm.tables.property_rows import CHANGED, PropertyRole, PropertyRow
from mqdssm.tables.rights import ADD_GUID, NEEDS, READ, WRITE, Need

_RIGHT_COLUMNS: Final = ("event", "right", "mask", "on", "of class", "for class", "when", "source")
_ROLES: Final = {PropertyRole.IDENTITY: "the object's GUID", PropertyRole.NAME: "its path name"}
_PROPERTY_COLUMNS: Final = ("property", "PROPID", "variant", "attribute", "as", "replicated")


def generated_files() -> Mapping[str, str]:
    """Return every generated file: its path from the root of the project -> its text."""
    return {
        **{
            name: text
            for part in (ldif.MSMQ, ldif.REPLICATION)
            for name, text in (
                (f"ldif/{part.name}.schema", ldif.format_openldap_schema(part)),
                (f"ldif/{part.name}.ldif", ldif.format_openldap_config(part)),
            )
        },
        "ldif/base-tree.ldif": ldif.format_base_tree_sample(),
        **{f"docs/tables/{name}": text for name, text in table_pages.pages().items()},
        "docs/tables/rights.md": _write_rights_page(),
        "docs/tables/replication.md": _write_replication_page(),
    }


def _write_rights_page() -> str:
    """Return the page of the rights that events need ([MS-MQDSSM] 5.1)."""
    elements = dict.fromkeys(need.element for need in NEEDS)
    parts = (
        f"## {name}\n\n{grid(_RIGHT_COLUMNS, (_right_line(need) for need in NEEDS if need.element == name))}"
        for name in elements
    )
    return f"""{HEAD}
# Rights that events need

This page lists the rights that each event needs on Active Directory, by [MS-MQDSSM] 5.1. The masks are those
of [MS-ADTS] 5.1.3.2. `tests/servers/test_ad_rights.py` gives an account exactly these rights on a domain
controller, and removes one after the other. If a right is missing, the hint of the error names it.
`mqdssm doctor` shows the rights of a user in advance.

`mqdssm doctor` checks each event on **one object of each class**, and names the object: the first
queue that it finds, its queue manager, its computer, the objects of that computer in a site, the first
routing link, alias and group, and the user's own account. `--at web01` or `--at web01\\orders` chooses
another computer or queue. Rights on other objects may differ. `doctor` reads attributes that the domain
controller computes (`allowedChildClassesEffective`, `allowedAttributesEffective`, `sDRightsEffective`). For
reading and deleting it reads access control lists. It changes nothing. *May write* means all attributes that
the event can write, and *may read* all attributes of the elements.

* *for class*: the right is only needed for children of that class. The hint of the error has its
  schemaIDGUID.
* *one of*: one of these rows of the event is enough, by [MS-ADTS] 3.1.1.5.5.3. [MS-MQDSSM]
  5.1 requires both, and prints RIGHT_DS_CREATE_CHILD for one of them in 5.1.1.
* For RIGHT_GENERIC_READ, the bit {READ.decides:#x} (read property) is necessary. The bit
  {int(AdRight.LIST_CHILDREN):#x} (list children) on the parent is necessary to find the object. For
  RIGHT_GENERIC_WRITE, the bit {WRITE.decides:#x} (write property) is necessary; it may be granted for single
  attributes. If a user may not read an object, the server reports that it does not exist.
* Every event must find its object first, so it needs read rights on the parent entries. Authenticated users
  have them by default. After a create, the GUID of the new object is read (3.1.6.12).
* A user who creates the objects `CN=Servers` and `server` (decision M6) does not get the right to create
  objects below them. Grant the three rights on the site so that they are inherited (`CI`).

{"".join(f"{part}{chr(10)}" for part in parts)}## Creating objects with a given GUID

A Windows domain controller accepts an objectGUID from a client only if fSpecifyGUIDOnAdd is set (the
11th character of `dSHeuristics` of `CN=Directory Service,CN=Windows NT,CN=Services` in the configuration
is 1) and the user has RIGHT_DS_CONTROL_ACCESS (0x100) for the extended right Add-GUID (`{ADD_GUID}`) on
the head of the naming context ([MS-ADTS] 3.1.1.5.2.2, decision M37).
"""


def _right_line(need: Need) -> tuple[str, ...]:
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


def _write_replication_page() -> str:
    """Return the page of the replication store (decisions R26 and R27)."""
    types = "\n".join(map(_write_type_section, PROPERTY_TABLES.values()))
    return f"""{HEAD}
# Attributes of replication

The replication store uses the same entries as [MS-MQDSSM]. Properties of MQIS that [MS-MQDSSM] does not have
are stored in additional attributes. `ldif/mqis.schema` and `ldif/mqis.ldif`
define them, below the arc `{schema_attributes.OWN_ARC}`
(UUID {schema_attributes.OWN_UUID}): attributes at `.3`, classes at `.4`.
They are for OpenLDAP only: on Active Directory they would be an extension of the schema.

## Exact values

The store returns every property bit for bit. If the attribute cannot hold the exact value, the entry also
has it in `{EXACT}`: four bytes of PROPID, high byte first, and the value in the encoding of [MS-MQCN] 2.2.3
(decision R27). These values need it:

* empty texts, octets and lists, which LDAP cannot store;
* booleans other than 0 and 1, and numbers that are not in the enumeration;
* lists of several values in an attribute without order;
* invalid security descriptors and SIDs, and texts that are not valid in UTF-8;
* properties without an attribute, marked *{EXACT}* below.

The exact value is valid while the attribute still has the value that belongs to it. If a program has changed
the attribute, for example `mqdssm write`, the value of the attribute is valid.

## Sequence numbers

`{numbering.PARTITION}` (GUID), `{numbering.NUMBER}` (0 to 2^64-1, decimal) and `{numbering.BUCKET}` change
together with the object, in one operation. So does `{numbering.DIGEST}`, a digest of the replicated
properties: with it the store detects changes of other programs (decision R112). A bucket is the partition
(16 bytes) and the number without its last {numbering.BUCKET_BITS} bits (8 bytes, high byte first). A
search for a range of numbers names its buckets, at most {numbering.SLICE_BUCKETS} in one search, and the
numbers (decision R26):

```
(&(|({numbering.BUCKET}=…)({numbering.BUCKET}=…))({numbering.NUMBER}>=N)({numbering.NUMBER}<=M))
```

Indexed for equality: {", ".join(f"`{name}`" for name in schema_mqis.INDEXED)}. No number is indexed.

{types}
## Classes

{grid(("class", "OID", "kind", "below", "must", "may"), _replication_class_lines())}
## Attributes

{grid(("attribute", "OID", "syntax", "values", "notes"), _replication_attribute_lines())}"""


def _write_type_section(source: PropertyTable) -> str:
    structural, beside = source.classes
    return f"""## {source.object_type.spec_name}

Entries of class `{structural}` with `{beside}`.

{grid(_PROPERTY_COLUMNS, (_property_line(source, row) for row in source.rows))}"""


def _property_line(source: PropertyTable, row: PropertyRow) -> list[str]:
    attribute = f"`{row.ldap}`" if row.ldap else f"*{EXACT}*"
    besides = [also.ldap for also in row.also]
    besides += [reference.ldap for reference in source.references if reference.propid is row.propid]
    how = [_ROLES.get(row.role), row.carrier.about if row.carrier else None]
    if besides:
        how.append(f"also, for [MS-MQDSSM]: {', '.join(f'`{name}`' for name in besides)}")
    return [
        row.propid.spec_name,
        str(int(row.propid)),
        row.propid.variant,
        attribute,
        "; ".join(filter(None, how)),
        "yes" if row.propid in CHANGED.get(source.object_type, ()) else "",
    ]


def _replication_class_lines() -> Iterable[list[str]]:
    for cls in schema_mqis.CLASSES:
        yield [f"`{cls.name}`", cls.oid, cls.kind, cls.superior, ", ".join(cls.must), ", ".join(cls.may)]


def _replication_attribute_lines() -> Iterable[list[str]]:
    for attribute in schema_mqis.ATTRIBUTES:
        values = "single" if attribute.single else "multi"
        yield [
            f"`{attribute.name}`",
            attribute.oid,
            attribute.syntax.name,
            values,
            "indexed" if attribute.indexed else "",
        ]
