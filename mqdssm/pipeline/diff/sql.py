"""SQL of the join: keys of objects, and canonical forms of values.

Canonical forms are alike only for equal values.
DuckDB and Spark share one text; `SqlDialect` holds their differences. Only ASCII texts are converted to lower
case: for other texts the two disagree, and ``i`` would equal ``İ``. Values that are equal by their matching
rule but have different canonical forms are compared again column by column, so the result is right.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from mqdssm.pipeline.diff.comparable_columns import KEY as IDENTIFIER
from mqdssm.pipeline.diff.comparable_columns import SINGLE, ComparableType, Field
from mqdssm.pipeline.frames.columns import ORIGINAL_IDENTIFIER
from mqdssm.pipeline.validate.rules.trees import quote_literal

OLD, NEW = "old", "new"
"""Columns of a GUID map."""
NAMES: Final = ("FullPath", "Pathname", "ComputerName", "Name")
"""Columns that identify an object without a GUID, the best first."""
_NAMED: Final = "name:"


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """Expressions that DuckDB and Spark write differently.

    Attributes:
        quote: mark around names of columns.
        each: function for each item of a list; the item is called x.
        none: empty list.
        text: type of texts.
        escapes: True for literals with escapes, as Spark's.
    """

    quote: str
    each: str
    none: str
    text: str
    escapes: bool

    def quote_column(self, name: str) -> str:
        """Return the quoted name of a column."""
        return f"{self.quote}{name}{self.quote}"

    def quote_literal(self, value: Any) -> str:
        """Return a literal for a value of a column."""
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int):
            return str(value)
        if isinstance(value, bytes):
            return f"unhex('{value.hex()}')"
        text = str(value)
        return quote_literal(text) if self.escapes else "'" + text.replace("'", "''") + "'"


DUCKDB: Final = SqlDialect('"', "list_transform({items}, lambda x: {each})", "[]", "varchar", escapes=False)
SPARK: Final = SqlDialect("`", "transform({items}, x -> {each})", "array()", "string", escapes=True)


def build_own_key(compared: ComparableType, column_names: Collection[str], dialect: SqlDialect) -> str:
    """Return the expression for an object's identifier before a GUID map.

    The expression is NULL if the object has no identifier.

    Args:
        compared: the type of the objects.
        column_names: names of their columns.
        dialect: of the query.
    """
    before = [ORIGINAL_IDENTIFIER.name] if compared.identity == IDENTIFIER else [compared.identity]
    terms = [dialect.quote_column(name) for name in (*before, IDENTIFIER) if name in column_names]
    return f"coalesce({', '.join(terms)})" if terms else f"cast(null as {dialect.text})"


def is_mapped(compared: ComparableType) -> bool:
    """Return True if GUID maps apply to the objects of a type."""
    return compared.identity == IDENTIFIER and compared.type not in SINGLE


def build_key(
    compared: ComparableType,
    column_names: Collection[str],
    root: str | None,
    dialect: SqlDialect,
    *,
    has_map: bool,
) -> str:
    """Return the expression for the key of an object.

    The key is empty if nothing identifies the object.

    Args:
        compared: the type of the objects.
        column_names: names of their columns.
        root: DN of the root of their tree; None for MQIS tables.
        dialect: of the query.
        has_map: True if a GUID map was joined.
    """
    if compared.type in SINGLE:
        return dialect.quote_literal(compared.type)
    terms = [dialect.quote_column(NEW)] if has_map and is_mapped(compared) else []
    terms.append(build_own_key(compared, column_names, dialect))
    for name in NAMES:
        if name in column_names:
            column = dialect.quote_column(name)
            expression = strip_root(column, root, dialect) if name == "FullPath" else column
            terms.append(
                f"{dialect.quote_literal(_NAMED)} || lower({expression})"
            )  # NULL for NULL, in both dialects
    return f"coalesce({', '.join(terms)}, '')"


def lower_text(text: str) -> str:
    """Return the expression for a text in lower case if it is ASCII, else unchanged."""
    return f"case when bit_length({text}) = 8 * length({text}) then lower({text}) else {text} end"


def strip_root(dn: str, root: str | None, dialect: SqlDialect) -> str:
    """Return the expression for a DN without the root of its tree."""
    if root is None:
        return dn
    ending, size = dialect.quote_literal(f",{root}"), len(root) + 1
    return (
        f"case when lower(right({dn}, {size})) = lower({ending}) "
        f"then left({dn}, length({dn}) - {size}) else {dn} end"
    )


def build_canonical(
    field: Field, letter: str, root: str | None, dialect: SqlDialect, *, respelt: bool
) -> str:
    """Return the expression for the canonical form of a value.

    Canonical forms are alike only for equal values.

    Args:
        field: the column.
        letter: of the side.
        root: DN of the root of its tree; None for MQIS tables.
        dialect: of the query.
        respelt: True if some objects have different GUIDs on the two sides.
    """
    column = dialect.quote_column(field.name)
    if field.refers and respelt:
        return dialect.quote_literal(
            letter
        )  # always different, so that the objects are compared column by column
    if field.column.many:
        items = dialect.each.format(items=column, each=lower_text("x")) if field.ignores_case else column
        return f"array_sort(array_distinct(coalesce({items}, {dialect.none})))"
    if field.is_place:
        return lower_text(f"({strip_root(column, root, dialect)})")
    if field.default is None:
        return lower_text(column) if field.ignores_case else column
    default = field.default.lower() if field.ignores_case else field.default
    plain = lower_text(column) if field.ignores_case else column
    return f"coalesce({plain}, {dialect.quote_literal(default)})"
