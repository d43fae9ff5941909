"""Properties of directory objects as LDAP entries, for the replication store.

Every PROPID of a type has a row: the adapter's own attribute where [MS-MQDSSM] has one, an auxiliary
attribute of ours (`mqdssm.tables.schema_mqis`) for additional properties of MQIS. Stored values come back bit
for bit, and the adapter reads the same entries. `mqdssm.tables.mqis` maps properties to attributes of the
abstract model; names and variants are in `mqdssm.model.propids`.

An object's partition and sequence number are arguments of the events ([MS-MQDS] 3.1.6.3, 3.1.6.4): a
``_PARTITIONID`` or ``_SEQNUM`` among the properties to store is ignored, as are properties of other types.
The object's partition and number can be read.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mqdssm.errors import MappingError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import PROPIDS, ObjectType, Propid
from mqdssm.tables import mqis, numbering, schema, schema_mqis
from mqdssm.tables.numbering import Numbering, read_values
from mqdssm.tables.property_rows import (
    ALSO,
    CHANGED,
    CLASSES,
    GUID,
    IDENTITIES,
    NAMES,
    NONE,
    OWN,
    REFERENCES,
    STAND_INS,
    TEXT,
    Carrier,
    Entry,
    PropertyReference,
    PropertyRole,
    PropertyRow,
    Raws,
    carrier_of,
)
from mqdssm.tables.row import Holder, Row

EXACT: Final = "mqisExact"
NAME: Final = "mqisPathName"
OBJECT_GUID: Final = "objectGUID"
_KEY_BYTES: Final = 4

Pairs: TypeAlias = Iterable[tuple[Propid, PropertyValue]]
"""Properties with their values, as in a change; the last one counts if a property occurs twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyTable:
    """Storage of the objects of one type.

    Attributes:
        object_type: the type.
        classes: the structural class of its entries, and the auxiliary one beside it.
        identity: the property with the object's GUID.
        rows: one for each PROPID of the type.

    Raises:
        ValueError: rows that contradict each other or the schema.
    """

    object_type: ObjectType
    classes: tuple[str, str]
    identity: Propid
    rows: tuple[PropertyRow, ...]
    by_propid: Mapping[Propid, PropertyRow] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_propid", {row.propid: row for row in self.rows})
        problems = list(_find_problems(self))
        if problems:
            raise ValueError(f"properties of {self.object_type.spec_name}: {'; '.join(problems)}")

    @property
    def name(self) -> Propid | None:
        """The property with the object's path name.

        The property is None for types that are named only by GUID.
        """
        return next((row.propid for row in self.rows if row.role is PropertyRole.NAME), None)

    @property
    def references(self) -> tuple[PropertyReference, ...]:
        """The properties of the type whose GUIDs the adapter also needs as DNs."""
        return tuple(reference for reference in REFERENCES if reference.propid in self.by_propid)

    @property
    def attributes(self) -> tuple[str, ...]:
        """All LDAP attributes to which the properties of the type are written.

        An entry that existed before its object (the enterprise, a user) loses those without a given value.
        """
        names = (name for row in self.rows for name in (row.ldap, *(also.ldap for also in row.also)))
        dns = (reference.ldap for reference in self.references)
        return tuple(dict.fromkeys((*filter(None, names), *dns, *numbering.ATTRIBUTES, EXACT)))


def _find_problems(table: PropertyTable) -> Iterator[str]:
    """Yield every problem of a table."""
    allowed = _find_allowed_attributes(table.classes)
    if len(table.by_propid) != len(table.rows):
        yield "a property has two rows"
    names: list[str] = []
    for row in table.rows:
        if row.propid.object_type is not table.object_type:
            yield f"{row.propid.spec_name} is of another type"
        names += filter(None, (row.ldap, *(also.ldap for also in row.also)))
    names += (reference.ldap for reference in table.references)
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name} keeps two properties"
    for name in sorted({*names, *numbering.ATTRIBUTES, EXACT} - allowed):
        yield f"the schema does not allow {name}"
    missing = {propid for propid in CHANGED.get(table.object_type, ()) if propid not in table.by_propid}
    yield from (f"{propid.spec_name} has no row" for propid in missing)


def _find_allowed_attributes(classes: Iterable[str]) -> frozenset[str]:
    """Return the attributes that entries of some classes can have.

    The attributes are our own and others.
    """
    by_name = {cls.name: cls for cls in schema_mqis.CLASSES}
    allowed: set[str] = set()
    waiting = list(classes)
    while waiting:
        name = waiting.pop()
        if name in by_name:
            allowed.update((*by_name[name].must, *by_name[name].may))
            waiting.append(by_name[name].superior)
        elif name != "top":
            allowed |= schema.list_allowed_attributes(name)
    return frozenset(allowed)


# -- making the tables ---------------------------------------------------------------------------------


def _make_table(source: mqis.MqisTable) -> PropertyTable:
    """Make the table of a type; replicated properties get their attributes first."""
    object_type = ObjectType(source.object_type)
    changed = CHANGED.get(object_type, ())
    used_names = {reference.ldap for reference in REFERENCES if reference.propid.object_type is object_type}
    rows: dict[Propid, PropertyRow] = {}
    for column in sorted(source.columns, key=lambda reference: PROPIDS[reference.propid] not in changed):
        row = _make_row(column, used_names, is_identity=column.name == source.key)
        used_names.update(filter(None, (row.ldap, *(also.ldap for also in row.also))))
        rows[row.propid] = row
    return PropertyTable(
        object_type=object_type,
        classes=CLASSES[object_type],
        identity=next(row.propid for row in rows.values() if row.role is PropertyRole.IDENTITY),
        rows=tuple(rows[PROPIDS[column.propid]] for column in source.columns),
    )


def _make_row(column: mqis.MqisColumn, used_names: set[str], *, is_identity: bool) -> PropertyRow:
    propid = PROPIDS[column.propid]
    role, ldap, carrier = PropertyRole.VALUE, "", None
    if is_identity:
        role, ldap, carrier = PropertyRole.IDENTITY, IDENTITIES.get(propid, OBJECT_GUID), GUID
    elif propid.name.endswith("_PARTITIONID"):
        role, ldap, carrier = PropertyRole.PARTITION, numbering.PARTITION, GUID
    elif propid.name.endswith("_SEQNUM"):
        role, ldap, carrier = PropertyRole.SEQNUM, numbering.NUMBER, _SEQNUM
    elif propid in NAMES:
        role, ldap, carrier = PropertyRole.NAME, NAME, TEXT
    elif propid in OWN:
        ldap, carrier = OWN[propid]
    elif column.row is not None and _is_plain(column.row) and column.row.ldap[0] not in used_names:
        carrier = carrier_of(propid.variant, column.row, column.codes, first=column.first)
        ldap = column.row.ldap[0] if carrier else ""
    return PropertyRow(
        propid=propid,
        adm=column.adm,
        ldap=ldap,
        carrier=carrier,
        role=role,
        also=ALSO.get(propid, ()),
        stand_in=STAND_INS.get(propid, ()),
    )


def _is_plain(row: Row) -> bool:
    """Return True if the entry holds the attribute's value unconverted.

    The entry also accepts writes of the value.
    """
    return row.computed is None and row.holder is Holder.OWN and row.ldap != ("whenChanged",)


_SEQNUM: Final = Carrier(
    lambda value: (numbering.number_value(int.from_bytes(value, "big")),),
    lambda raws: bytes(numbering.number_of(raws[0])),
    "number",
)

PROPERTY_TABLES: Final[Mapping[ObjectType, PropertyTable]] = {
    table.object_type: table for table in map(_make_table, mqis.MQIS_TABLES.values())
}
"""Table of each type of object, tombstones (MQDS_DELETEDOBJECT) included."""


# -- entries and properties ----------------------------------------------------------------------------


def entry_of(object_type: ObjectType, properties: Pairs, numbers: Numbering | None = None) -> dict[str, Raws]:
    """Return the attributes of a new entry.

    objectClass and attributes in the DN (``cn``) are left out.
    The caller adds the DNs of other objects: see `references_of`.

    Args:
        object_type: type of the object.
        properties: its properties.
        numbers: numbering of the change that creates it; None: none.

    Returns:
        LDAP attribute -> its values, at least one each.

    Raises:
        MappingError: a value that does not fit its property's variant.
    """
    table = PROPERTY_TABLES[object_type]
    values = dict(properties)
    attributes, exact = _store_properties(table, values.items())
    for row in table.rows:
        if row.stand_in and row.propid not in values:
            attributes[row.ldap] = row.stand_in
            exact[row.propid] = NONE
    if exact:
        attributes[EXACT] = _encode_exact_values(exact)
    if numbers is not None:
        attributes.update(numbers.values())
    return {name: raws for name, raws in attributes.items() if raws}


def changes_of(
    object_type: ObjectType, entry: Entry, properties: Pairs, numbers: Numbering | None = None
) -> dict[str, Raws]:
    """Return the attributes that an update replaces in an entry.

    All are replaced in one operation (decision R15).

    Args:
        object_type: type of the object.
        entry: its present attributes, at least `attributes_of` the properties.
        properties: the properties to change; the object keeps the others.
        numbers: numbering of the change.

    Returns:
        LDAP attribute -> its new values; no values: it is deleted. Unchanged attributes are left out.

    Raises:
        MappingError: a value that does not fit its property's variant, or another GUID: an object keeps
            its own (decision R11).
    """
    table = PROPERTY_TABLES[object_type]
    values = dict(properties)
    identity = values.pop(table.identity, None)
    if identity is not None and identity != identity_of(object_type, entry):
        raise MappingError(f"{table.identity.spec_name} cannot become {identity!r}: an object keeps its GUID")
    attributes, exact = _store_properties(table, values.items())
    before, _ = _exact_of(entry)
    after = {propid: octets for propid, octets in before.items() if propid not in values} | exact
    if after != before:
        attributes[EXACT] = _encode_exact_values(after)
    if numbers is not None:
        attributes.update(numbers.values())
    return {name: raws for name, raws in attributes.items() if set(raws) != set(read_values(entry, name))}


def _store_properties(table: PropertyTable, properties: Pairs) -> tuple[dict[str, Raws], dict[Propid, bytes]]:
    """Return the attributes of some properties, and octets for ``mqisExact``.

    The octets are those of the properties that need them.
    """
    attributes: dict[str, Raws] = {}
    exact: dict[Propid, bytes] = {}
    for propid, value in dict(properties).items():
        row = table.by_propid.get(propid)
        if row is None or row.is_numbering:
            continue  # [MS-MQDS] 3.1.6.3
        raws, octets = row.encode_stored(value)
        if row.ldap:
            attributes[row.ldap] = raws
        for also in row.also:
            attributes[also.ldap] = also.dump(value)
        if octets is not None:
            exact[propid] = octets
    return attributes, exact


def readable_of(
    object_type: ObjectType, entry: Entry, propids: Iterable[Propid] | None = None
) -> tuple[dict[Propid, PropertyValue], list[str]]:
    """Return the properties of an entry, and the problems of invalid values.

    See decision R67.

    Returns:
        The valid properties, and the problems of the others.
    """
    table = PROPERTY_TABLES[object_type]
    exact, problems = _exact_of(entry)
    values: dict[Propid, PropertyValue] = {}
    for propid in table.by_propid if propids is None else propids:
        row = table.by_propid.get(propid)
        if row is None:
            continue
        try:
            value = row.value(read_values(entry, row.ldap), exact.get(propid))
        except MappingError as error:
            problems.append(str(error))
        else:
            if value is not None:
                values[propid] = value
    return values, problems


def attributes_of(object_type: ObjectType, propids: Iterable[Propid]) -> tuple[str, ...]:
    """Return the LDAP attributes that contain some properties."""
    rows = PROPERTY_TABLES[object_type].by_propid
    names = (rows[propid].ldap for propid in propids if propid in rows)
    return tuple(dict.fromkeys((*filter(None, names), EXACT)))


def references_of(
    object_type: ObjectType, properties: Pairs
) -> tuple[tuple[PropertyReference, tuple[Guid, ...]], ...]:
    """Return the objects that some properties refer to.

    The adapter needs their DNs beside the GUIDs.
    The caller looks them up and adds ``reference.ldap`` to the entry, each DN once. Missing objects are left
    out; if the reference is required, a DN without an entry is added (M40).
    """
    values = dict(properties)
    references = []
    for reference in PROPERTY_TABLES[object_type].references:
        value = values.get(reference.propid)
        if value is not None:
            guids = value if isinstance(value, tuple) else (value,)
            references.append((reference, tuple(Guid(guid) for guid in guids if isinstance(guid, bytes))))
    return tuple(references)


def identity_of(object_type: ObjectType, entry: Entry) -> Guid | None:
    """Return the GUID of the object in an entry; None: it has none.

    Raises:
        MappingError: the value is no GUID.
    """
    table = PROPERTY_TABLES[object_type]
    row = table.by_propid[table.identity]
    value = row.value(read_values(entry, row.ldap), None)
    return value if isinstance(value, Guid) else None


def _encode_exact_values(exact: Mapping[Propid, bytes]) -> Raws:
    return tuple(propid.to_bytes(_KEY_BYTES, "big") + octets for propid, octets in exact.items())


def _exact_of(entry: Entry) -> tuple[dict[Propid, bytes], list[str]]:
    """Return the octets that an entry keeps of properties.

    The problems of invalid values are returned, too.
    """
    exact: dict[Propid, bytes] = {}
    problems: list[str] = []
    for raw in read_values(entry, EXACT):
        propid = PROPIDS.get(int.from_bytes(raw[:_KEY_BYTES], "big"))
        if propid is None:
            problems.append(f"{EXACT} holds a value of no property: {raw[:_KEY_BYTES]!r}")
        else:
            exact[propid] = raw[_KEY_BYTES:]
    return exact, problems
