"""Rows of one element with their look-ups.

The rows are checked against schema and model.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mqdssm.errors import MappingError
from mqdssm.model.base import DirectoryObject
from mqdssm.tables import schema
from mqdssm.tables.row import NO_DEFAULT, Access, Holder, Row

_EVERYWHERE: Final = frozenset(("distinguishedName",))  # every entry has a DN, no class lists it
_COMPUTER: Final = "computer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementTable:
    """Storage of one element of the abstract model in the directory.

    Attributes:
        element: its class in the model.
        ldap_class: the structural class of its entries ([MS-MQDSSM] 3.1.6.20).
        rows: one for each attribute, in the order of [MS-MQDSSM] 3.1.6.10.

    Raises:
        ValueError: rows that contradict each other, the schema or the model.
    """

    element: type[DirectoryObject]
    ldap_class: str
    rows: tuple[Row, ...]
    by_adm: Mapping[str, Row] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_adm", {row.adm: row for row in self.rows})
        problems = list(_find_problems(self))
        if problems:
            raise ValueError(f"table of {self.name}: {'; '.join(problems)}")

    @property
    def name(self) -> str:
        """The specification's name of the element."""
        return self.element.element_name

    @property
    def unsupported(self) -> frozenset[str]:
        """Attributes that no event supports.

        The specification answers with GenericError when they are read or written.
        """
        return self.element.unsupported_names

    def row(self, adm: str) -> Row:
        """Find the row of an attribute.

        Raises:
            ValueError: the element has no such attribute, or the directory cannot hold it.
        """
        row = self.by_adm.get(adm)
        if row is not None:
            return row
        if adm in self.unsupported:
            raise ValueError(f"{self.name}.{adm} cannot be kept in the directory ([MS-MQDSSM] 3.1.6.20)")
        raise ValueError(f"{self.name} has no attribute {adm!r}; it has {', '.join(self.by_adm)}")

    def find_rows(self, names: Iterable[str]) -> tuple[Row, ...]:
        """Return the rows of some attributes, in the order of the names, each once.

        Raises:
            ValueError: see :meth:`row`.
        """
        return tuple(map(self.row, dict.fromkeys(names)))

    def names(self, access: Access = Access.READ) -> tuple[str, ...]:
        """Return the names of the attributes that allow all of the given accesses."""
        return tuple(row.adm for row in self.rows if access in row.access)

    def list_ldap_pairs(self, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Create LDAP Attribute List ([MS-MQDSSM] 3.1.6.10).

        Attributes are paired with those of the own entry.

        Args:
            names: ADM names; those without an attribute in the entry are ignored, as specified.
        """
        requested = frozenset(names)
        return tuple(
            (row.adm, ldap)
            for row in self.rows
            if row.adm in requested and row.holder is Holder.OWN
            for ldap in row.ldap
        )

    def list_ldap_attributes(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the LDAP attributes from which some attributes are read.

        The LDAP attributes are those of the own entry, each once.
        """
        return tuple(dict.fromkeys(ldap for _, ldap in self.list_ldap_pairs(names)))

    def computer_attributes(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the computer's LDAP attributes from which attributes are read.

        Each is returned once.
        """
        requested = frozenset(names)
        return tuple(
            dict.fromkeys(
                ldap
                for row in self.rows
                if row.adm in requested
                for ldap in (*(row.ldap if row.holder is Holder.COMPUTER else ()), *row.computer_ldap)
            )
        )


def _find_problems(table: ElementTable) -> Iterable[str]:
    """Yield every problem of a table."""
    if len(table.by_adm) != len(table.rows):
        yield "an attribute has two rows"
    propids = [row.propid for row in table.rows if row.propid is not None]
    if len(set(propids)) != len(propids):
        yield "two rows have the same PROPID"
    names = frozenset(table.element.adm_names())
    for adm in sorted(names.symmetric_difference(table.by_adm) - table.unsupported):
        yield f"{adm} is in only one of table and model"
    for row in table.rows:
        if row.adm not in names:
            continue
        for problem in (*_find_schema_problems(table, row), *_find_default_problems(table, row)):
            yield f"{row.adm}: {problem}"


def _find_schema_problems(table: ElementTable, row: Row) -> Iterable[str]:
    allowed = schema.list_allowed_attributes(table.ldap_class) | _EVERYWHERE
    computer = schema.list_allowed_attributes(_COMPUTER)
    for name in (*row.ldap, *row.written):
        if name not in (allowed if row.holder is Holder.OWN else computer):
            yield f"the schema does not allow {name} there"
            return
    for name in row.computer_ldap:
        if name not in computer:
            yield f"the schema does not allow {name} in computer"
    if not row.ldap:
        return
    attribute = schema.attribute(row.ldap[0])
    if attribute.syntax != row.syntax.ad_syntax:
        yield f"{attribute.name} is {attribute.syntax.name}, not {row.syntax.ad_syntax.name}"
    if row.multi and attribute.single:
        yield f"{attribute.name} holds one value only"
    if row.computed is None and not row.multi and attribute.single is row.one_of_set:
        yield f"{attribute.name} is {'single' if attribute.single else 'multi'}-valued in the schema"


def _find_default_problems(table: ElementTable, row: Row) -> Iterable[str]:
    if row.has_default is (row.default is NO_DEFAULT):
        yield "it needs a default exactly if unset means the default"
        return
    field_name = table.element.field_name(row.adm)
    if field_name != row.field:
        yield f"the model calls it {field_name}, not {row.field}"
        return
    if not row.has_default:
        return
    in_model = table.element.model_fields[field_name].default
    if in_model is None and row.computed is not None:
        return  # the specification's table gives no default; a step of its text does
    if in_model != row.default or isinstance(in_model, bool) is not isinstance(row.default, bool):
        yield f"its default is {row.default!r} here and {in_model!r} in the model"
    if row.computed is None and row.default not in ("", b"", ()):
        try:
            if row.decode(row.encode(row.default)) != row.default:
                yield "its default is not what comes back"
        except MappingError as error:
            yield f"its default does not pass its own syntax: {error}"
