"""Decoder that makes elements from LDAP values ([MS-MQDSSM] 3.1.6.11)."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.session import Session
from mqdssm.errors import DecodeError, GenericDirectoryError, MappingError
from mqdssm.events.attribute_plan import UNSET, AttributePlan, EntrySource, Value, computer_of, guid_of
from mqdssm.events.references import References
from mqdssm.model.base import DirectoryObject
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Holder, Missing, Row

log = logging.getLogger(__name__)

ASK_ITS_DOMAIN: Final = "connect to a domain controller of the object's own domain"


class ElementDecoder:
    """Makes elements of one kind with a fixed set of attributes from LDAP values.

    Args:
        table: of the element.
        names: the attributes to set.
        session: whose profile says where times are, and which is asked for references.
        asked: attributes that the caller asked for by name: these must be there (decisions M26, M41).
        strict: a value that cannot be made is a GenericError; else the attribute stays unpopulated and
            a warning is logged, so that one object cannot stop a list (M40).

    Attributes:
        plan: LDAP attributes to request, in the order in which `element` takes their values.
    """

    def __init__(
        self,
        table: ElementTable,
        names: Iterable[str],
        session: Session,
        *,
        requested: frozenset[str] = frozenset(),
        strict: bool,
    ) -> None:
        self._table = table
        self._session = session
        self._requested = requested
        self._strict = strict
        self._original: int | None = None
        self._unknown: list[Row] = []
        self._has_warned = False
        self.plan = AttributePlan(table, session)
        for name in names:
            row = table.row(name)
            if session.is_part_only and not row.in_catalog:
                self._unknown.append(row)
            else:
                self._add(row)

    def _add(self, row: Row) -> None:
        self.plan.add(row)
        profile = self._session.profile
        if row.adm == "Identifier" and self._table.ldap_class in profile.original_guid_classes:
            self._original = self.plan.place_of(str(profile.original_guid))

    @property
    def session(self) -> Session:
        """Session whose entries are decoded."""
        return self._session

    @property
    def unknown(self) -> frozenset[str]:
        """Attributes whose values a global catalog does not hold (decision M73)."""
        return frozenset(row.adm for row in self._unknown)

    def from_entry(self, entry: Entry) -> DirectoryObject:
        """Make the element of one entry, and resolve its references.

        Raises:
            GenericDirectoryError: as `element`.
        """
        values = [entry.all(column) or None for column in self.plan.columns]
        references = self.plan.references()
        self.plan.prefetch([(entry.dn, values, None)], references)
        return self.element(entry.dn, values, references)

    def element(self, dn: str, values: Sequence[Value], references: References) -> DirectoryObject:
        """Make the element of the entry at a DN.

        Args:
            dn: as the server wrote it.
            values: of the columns of the plan, in their order.
            references: the memory of this operation.

        Raises:
            GenericDirectoryError: strict, and a value is missing that must be there or cannot be understood.
        """
        values_by_field: dict[str, Any] = {}
        if self._unknown:
            self._leave_out(dn)
        for row, column in self.plan.plain:
            raw = values[column]
            try:
                value = (
                    row.default
                    if raw is None and row.missing is Missing.DEFAULT
                    else self._replace_missing(row, dn)
                    if raw is None
                    else row.decode((raw,) if isinstance(raw, bytes) else raw)
                )
            except MappingError as error:
                value = self._replace_refused(row, dn, error)
            if value is not UNSET:
                values_by_field[row.field] = value
        if self.plan.made:
            self._compute(values_by_field, dn, self.plan.source(dn, values, references))
        if self._original is None or values[self._original] is None:
            return self._table.element.from_directory(values_by_field)
        return self._table.element.from_directory(values_by_field, guid_of(values[self._original]))

    def _compute(self, values_by_field: dict[str, Any], dn: str, source: EntrySource) -> None:
        for row, make in self.plan.made:
            try:
                value = make(row, source)
                if value is UNSET:
                    value = row.default if row.missing is Missing.DEFAULT else self._replace_missing(row, dn)
            except (MappingError, DecodeError, ValueError) as error:
                value = self._replace_refused(row, dn, error)
            if value is not UNSET:
                values_by_field[row.field] = value
        for words in source.skipped:
            log.warning("%s: %s", dn, words)

    def _leave_out(self, dn: str) -> None:
        """Log once, or raise, that a global catalog does not hold some attributes."""
        requested = self._requested & self.unknown
        if requested and self._strict:
            raise GenericDirectoryError(
                f"{self._table.name}.{', '.join(sorted(requested))} cannot be read: "
                "a global catalog does not hold it",
                dn=dn,
                hint=ASK_ITS_DOMAIN,
            )
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s and others: %s.%s is left out, a global catalog does not hold it: %s",
                dn,
                self._table.name,
                ", ".join(sorted(self.unknown)),
                ASK_ITS_DOMAIN,
            )

    def _replace_missing(self, row: Row, dn: str) -> Any:
        must = row.missing is Missing.ERROR and self._strict
        if must or (row.missing is Missing.ERROR_IF_ASKED and row.adm in self._requested and self._strict):
            on_computer = row.holder is Holder.COMPUTER
            holder = "its computer" if on_computer else "the object"
            raise GenericDirectoryError(
                f"{self._table.name}.{row.adm} cannot be read: {holder} has no {' or '.join(row.ldap)}",
                dn=str(computer_of(dn, self.plan.above)) if on_computer else dn,
                hint=self._session.profile.hidden_hint,
            )
        if row.missing is Missing.ERROR:
            log.warning("%s: no %s, so %s.%s is left out", dn, row.ldap[0], self._table.name, row.adm)
        return UNSET

    def _replace_refused(self, row: Row, dn: str, error: Exception) -> Any:
        if self._strict:
            raise GenericDirectoryError(
                f"{self._table.name}.{row.adm} cannot be read: {error}",
                dn=dn,
                hint="nothing was changed; see the value with ldapsearch, or leave the attribute out",
            ) from error
        log.warning("%s: %s.%s is left out: %s", dn, self._table.name, row.adm, error)
        return UNSET
