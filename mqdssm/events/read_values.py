"""Comparison of an entry with the values that were read (decision M116).

The values are compared as elements have them: an attribute that is absent equals its default. The server then
makes the change only if the entry is still the one that was compared.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from mqdssm.directory.entries import Entry
from mqdssm.errors import GenericDirectoryError, ObjectChanged
from mqdssm.events.context import Context
from mqdssm.events.decode import ElementDecoder
from mqdssm.events.encode import DESCRIPTOR
from mqdssm.model.base import DirectoryObject
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Access, Holder


@dataclass(frozen=True, slots=True)
class ReadValues:
    """Values that an element was read with, to be compared (decision M116).

    Attributes:
        expected: the specification's name of an attribute that can be written -> its value.
        decoder: makes these attributes from an entry.
        version: attribute by which the server tells that an entry changed; None: values are compared.
    """

    expected: Mapping[str, Any]
    decoder: ElementDecoder
    version: str | None

    @classmethod
    def of(cls, ctx: Context, table: ElementTable, obj: DirectoryObject, names: Iterable[str]) -> Self:
        """Return the values of an element that is to be written.

        Args:
            ctx: the surroundings.
            table: of the element.
            obj: the element.
            names: the attributes that are to be written.

        Raises:
            GenericDirectoryError: the element does not know the values, or one of the attributes cannot be
                compared in the step that writes it.
        """
        try:
            values = obj.values_when_read()
        except ValueError as error:
            raise GenericDirectoryError(f"if_unchanged: {error}", hint="read the object first") from None
        version = ctx.session.profile.asserted_version
        for row in map(table.row, names):
            if row.holder is Holder.COMPUTER:
                _refuse(f"{table.name}.{row.adm} is kept in another object, the computer", "write it alone")
            if values.get(row.adm) is None:
                _refuse(f"the object was read without {table.name}.{row.adm}", "read the object with it")
            if version is None and DESCRIPTOR in row.ldap:
                title = ctx.session.profile.title
                _refuse(f"{title} cannot compare {table.name}.{row.adm}", "write it without if_unchanged")
        compared = {
            row.adm: values[row.adm]
            for row in table.rows
            if row.access & Access.WRITE and row.holder is Holder.OWN and values.get(row.adm) is not None
        }
        return cls(compared, ElementDecoder(table, compared, ctx.session, strict=False), version)

    @property
    def ldap_attributes(self) -> tuple[str, ...]:
        """LDAP attributes to read of the entry."""
        return (
            self.decoder.plan.columns if self.version is None else (*self.decoder.plan.columns, self.version)
        )

    def check(self, entry: Entry) -> ObjectChanged | None:
        """Return the error for an entry with other values; None for the expected ones."""
        element = self.decoder.from_entry(entry)
        differing = [
            name
            for name, value in self.expected.items()
            if _make_comparable(getattr(element, element.field_name(name))) != _make_comparable(value)
        ]
        if not differing:
            return None
        return ObjectChanged(
            f"write failed: another program changed {', '.join(differing)} after the object was read",
            dn=entry.dn,
            hint="nothing was written: read the object and try again",
        )

    def list_guarded(self, entry: Entry, written: Iterable[str]) -> tuple[str, ...]:
        """Return the LDAP attributes that the server must find unchanged.

        Args:
            entry: the compared entry.
            written: LDAP attributes that the change replaces.

        Raises:
            GenericDirectoryError: the server does not show when an entry was changed.
        """
        if self.version is None:
            return tuple(written)
        if entry.first(self.version) is None:
            raise GenericDirectoryError(
                f"if_unchanged: this user cannot read {self.version}", dn=entry.dn, hint="nothing was written"
            )
        return (self.version,)


def _make_comparable(value: Any) -> Any:
    """Return a value without the order of list items, which no directory keeps."""
    return frozenset(value) if isinstance(value, tuple) else value


def _refuse(problem: str, hint: str) -> None:
    raise GenericDirectoryError(f"if_unchanged: {problem}", hint=f"nothing was written: {hint}")
