"""Documentation page of the replication store (``docs/tables/replication.md``), made from the tables."""

from collections.abc import Iterable
from typing import Final

from mqdssm.tables import numbering, schema_attributes, schema_mqis
from mqdssm.tables.markdown import HEAD, grid
from mqdssm.tables.properties import EXACT, PROPERTY_TABLES, PropertyTable
from mqdssm.tables.property_facts import CHANGED
from mqdssm.tables.property_rows import PropertyRole, PropertyRow

_ROLES: Final = {PropertyRole.IDENTITY: "the object's GUID", PropertyRole.NAME: "its path name"}
_COLUMNS: Final = ("property", "PROPID", "variant", "attribute", "as", "replicated")


def page() -> str:
    """Return the text of the page (decisions R26 and R27)."""
    types = "\n".join(map(_type_section, PROPERTY_TABLES.values()))
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

{grid(("class", "OID", "kind", "below", "must", "may"), _class_lines())}
## Attributes

{grid(("attribute", "OID", "syntax", "values", "notes"), _attribute_lines())}"""


def _type_section(source: PropertyTable) -> str:
    structural, beside = source.classes
    return f"""## {source.object_type.spec_name}

Entries of class `{structural}` with `{beside}`.

{grid(_COLUMNS, (_line(source, row) for row in source.rows))}"""


def _line(source: PropertyTable, row: PropertyRow) -> list[str]:
    attribute = f"`{row.ldap}`" if row.ldap else f"*{EXACT}*"
    besides = [also.ldap for also in row.also]
    besides += [one.ldap for one in source.references if one.propid is row.propid]
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


def _class_lines() -> Iterable[list[str]]:
    for cls in schema_mqis.CLASSES:
        yield [f"`{cls.name}`", cls.oid, cls.kind, cls.superior, ", ".join(cls.must), ", ".join(cls.may)]


def _attribute_lines() -> Iterable[list[str]]:
    for one in schema_mqis.ATTRIBUTES:
        values = "single" if one.single else "multi"
        yield [f"`{one.name}`", one.oid, one.syntax.name, values, "indexed" if one.indexed else ""]
