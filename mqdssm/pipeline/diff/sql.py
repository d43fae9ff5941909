"""SQL of the join: keys of objects, and values in a form in which only equal ones are alike.

One text for DuckDB and Spark wherever both mean the same; `SqlDialect` holds what they write differently.
Letters are lowered only in texts that are ASCII: outside it the two disagree, and ``i`` would be ``İ``. What
is equal by its matching rule and looks different here is looked at field by field, so nothing is lost.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from mqdssm.pipeline.diff.comparable_columns import KEY as IDENTIFIER
from mqdssm.pipeline.diff.comparable_columns import SINGLE, ComparableType, Field
from mqdssm.pipeline.frames.columns import ORIGINAL_IDENTIFIER

OLD, NEW = "old", "new"
"""Columns of a GUID map."""
NAMES: Final = ("FullPath", "Pathname", "ComputerName", "Name")
"""Columns that tell an object without a GUID from others, the best first."""
_NAMED: Final = "name:"


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """Spelling of what DuckDB and Spark write differently.

    Attributes:
        quote: mark around names of columns.
        each: a list with a function of its items, which are called x.
        none: a list without items.
        text: type of texts.
        escapes: True if a backslash in a literal has to be doubled.
    """

    quote: str
    each: str
    none: str
    text: str
    escapes: bool

    def column(self, name: str) -> str:
        """Return the name of a column as queries write it."""
        return f"{self.quote}{name}{self.quote}"

    def literal(self, value: Any) -> str:
        """Return a literal for a value of a column."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int):
            return str(value)
        if isinstance(value, bytes):
            return f"unhex('{value.hex()}')"
        text = str(value).replace("\\", "\\\\") if self.escapes else str(value)
        return "'" + text.replace("'", "\\'" if self.escapes else "''") + "'"


DUCKDB: Final = SqlDialect('"', "list_transform({items}, lambda x: {each})", "[]", "varchar", escapes=False)
SPARK: Final = SqlDialect("`", "transform({items}, x -> {each})", "array()", "string", escapes=True)


def own_key(compared: ComparableType, there: Collection[str], dialect: SqlDialect) -> str:
    """Return the expression for what identifies an object, before a GUID map is applied; NULL for nothing.

    Args:
        compared: the type of the objects.
        there: the columns that they have.
        dialect: of the query.
    """
    before = [ORIGINAL_IDENTIFIER.name] if compared.identity == IDENTIFIER else [compared.identity]
    found = [dialect.column(name) for name in (*before, IDENTIFIER) if name in there]
    return f"coalesce({', '.join(found)})" if found else f"cast(null as {dialect.text})"


def is_mapped(compared: ComparableType) -> bool:
    """True if a GUID map says something of the objects of a type."""
    return compared.identity == IDENTIFIER and compared.type not in SINGLE


def key(
    compared: ComparableType, there: Collection[str], root: str | None, dialect: SqlDialect, *, has_map: bool
) -> str:
    """Return the expression for the key of an object; it is empty where nothing identifies the object.

    Args:
        compared: the type of the objects.
        there: the columns that they have.
        root: where the tree of their side begins; None: it has none.
        dialect: of the query.
        has_map: a GUID map was joined.
    """
    if compared.type in SINGLE:
        return dialect.literal(compared.type)
    found = [dialect.column(NEW)] if has_map and is_mapped(compared) else []
    found.append(own_key(compared, there, dialect))
    for name in NAMES:
        if name in there:
            column = dialect.column(name)
            shown = below_root(column, root, dialect) if name == "FullPath" else column
            found.append(f"{dialect.literal(_NAMED)} || lower({shown})")  # NULL for NULL, in both
    return f"coalesce({', '.join(found)}, '')"


def lowered(text: str) -> str:
    """Return the expression for a text with small letters, if it is ASCII."""
    return f"case when bit_length({text}) = 8 * length({text}) then lower({text}) else {text} end"


def below_root(dn: str, root: str | None, dialect: SqlDialect) -> str:
    """Return the expression for a DN without the root of its tree."""
    if root is None:
        return dn
    ending, size = dialect.literal(f",{root}"), len(root) + 1
    return (
        f"case when lower(right({dn}, {size})) = lower({ending}) "
        f"then left({dn}, length({dn}) - {size}) else {dn} end"
    )


def canonical(field: Field, letter: str, root: str | None, dialect: SqlDialect, *, respelt: bool) -> str:
    """Return the expression for a value in a form in which only equal ones are alike.

    Args:
        field: the column.
        letter: of the side.
        root: where its tree begins; None: it has none.
        dialect: of the query.
        respelt: references name objects by other GUIDs on one side.
    """
    column = dialect.column(field.name)
    if field.refers and respelt:
        return dialect.literal(letter)  # never alike: the objects are found out later
    if field.column.many:
        items = dialect.each.format(items=column, each=lowered("x")) if field.ignores_case else column
        return f"array_sort(array_distinct(coalesce({items}, {dialect.none})))"
    if field.is_place:
        return lowered(f"({below_root(column, root, dialect)})")
    if field.default is None:
        return lowered(column) if field.ignores_case else column
    default = field.default.lower() if field.ignores_case else field.default
    plain = lowered(column) if field.ignores_case else column
    return f"coalesce({plain}, {dialect.literal(default)})"
