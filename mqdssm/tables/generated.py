"""Files that are generated from the tables, as text; the caller writes or compares them."""

from collections.abc import Iterable, Mapping
from typing import Final

from mqdssm.tables import ldif, markdown, numbering, schema_attributes, schema_mqis
from mqdssm.tables.access import AdRight
from mqdssm.tables.markdown import HEAD, grid
from mqdssm.tables.properties import EXACT, PROPERTY_TABLES, PropertyTable
from mqdssm.tables.property_facts import CHANGED
from mqdssm.tables.property_rows import PropertyRole, PropertyRow
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
                (f"ldif/{part.name}.schema", ldif.openldap_schema_text(part)),
                (f"ldif/{part.name}.ldif", ldif.openldap_config_ldif(part)),
            )
        },
        "ldif/base-tree.ldif": ldif.base_tree_sample(),
        **{f"docs/tables/{name}": text for name, text in markdown.pages().items()},
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
# What replication keeps

The replication store keeps the objects of MQIS where the adapter keeps them, in the same entries; what MQIS
knows and [MS-MQDSSM] does not stands in attributes of ours beside. `ldif/mqis.schema` and `ldif/mqis.ldif`
define them, below the arc `{schema_attributes.OWN_ARC}`
(UUID {schema_attributes.OWN_UUID}): attributes at `.3`, classes at `.4`.
OpenLDAP only: on Active Directory they would be an extension of the schema.

## Exact values

Every property comes back bit for bit. Where the attribute could not give a value back, the entry holds it
besides in `{EXACT}`: four bytes of PROPID, high byte first, and the value as [MS-MQCN] 2.2.3 writes it
(decision R27). That is so for empty texts, octets and lists, which LDAP cannot store; booleans other than 0
and 1; numbers that an enumeration does not know; lists of several values in an attribute without order;
security descriptors and SIDs that are none; texts that UTF-8 cannot carry; and properties without an
attribute, marked *{EXACT}* below.

These octets count as long as the attribute shows what belongs to them. When somebody has written the
attribute since, with `mqdssm write` for instance, its value counts.

## Sequence numbers

`{numbering.PARTITION}` (GUID), `{numbering.NUMBER}` (0 to 2^64-1, decimal) and `{numbering.BUCKET}` change
together with the object, in one operation, and with them `{numbering.DIGEST}`, a digest of the replicated
properties, by which a change of another program shows (decision R112). A bucket is the partition (16 bytes)
and the number without its last {numbering.BUCKET_BITS} bits (8 bytes, high byte first). A range of numbers is
asked for by its buckets,
at most {numbering.SLICE_BUCKETS} in one search, and the numbers themselves (decision R26):

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
        how.append(f"besides, for the adapter: {', '.join(f'`{name}`' for name in besides)}")
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
