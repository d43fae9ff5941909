"""Conversion of one server's entries to the elements of a look-up."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from mqdssm.directory.session import Session
from mqdssm.errors import GenericDirectoryError
from mqdssm.events.attribute_plan import Found
from mqdssm.events.criteria import Residual
from mqdssm.events.decode import ASK_ITS_DOMAIN, ElementDecoder
from mqdssm.events.references import References
from mqdssm.model.base import DirectoryObject
from mqdssm.tables.element_table import ElementTable


@dataclass(frozen=True, slots=True)
class ServerView:
    """Decoders of a look-up for the entries of one server.

    Attributes:
        table: of the element.
        decoder: lenient decoder, for the objects that are tested.
        severe: strict decoder, for the objects that are returned (M40); None: `decoder` serves.
        references: their memory.
    """

    table: ElementTable
    decoder: ElementDecoder
    severe: ElementDecoder | None
    references: References

    @classmethod
    def of(
        cls,
        table: ElementTable,
        names: Iterable[str],
        session: Session,
        requested: frozenset[str],
        *,
        strict: bool,
    ) -> Self:
        """Make the view of a session.

        Args:
            table: of the element.
            names: the attributes to set.
            session: whose entries they are.
            requested: attributes that the caller asked for by name.
            strict: a value of a found object that is missing or damaged is an error.
        """
        names = tuple(names)
        decoder = ElementDecoder(table, names, session, requested=requested, strict=False)
        severe = ElementDecoder(table, names, session, requested=requested, strict=True) if strict else None
        return cls(table, decoder, severe, decoder.plan.references())

    def elements(self, entries: Sequence[Found], residuals: Sequence[Residual]) -> Iterator[DirectoryObject]:
        """Yield the elements of entries that pass all tests."""
        self.decoder.plan.prefetch(entries, self.references)
        for dn, values, _ in entries:
            element = self.decoder.element(dn, values, self.references)
            if not self._has_passed(element, dn, residuals):
                continue
            yield element if self.severe is None else self.severe.element(dn, values, self.references)

    def _has_passed(self, element: DirectoryObject, dn: str, residuals: Sequence[Residual]) -> bool:
        """Return True if an element passes all tests.

        Raises:
            GenericDirectoryError: nobody knows: a list without the object could be too short, one with it
                wrong (decision M73).
        """
        unknown = self.decoder.unknown
        if not all(test.holds(element) for test in residuals if test.attribute not in unknown):
            return False
        for residual in residuals:
            if residual.attribute in unknown:
                raise GenericDirectoryError(
                    "nobody can tell whether an object of another domain is searched for: a global catalog "
                    f"does not hold {self.table.name}.{residual.attribute}",
                    dn=dn,
                    hint=f"{ASK_ITS_DOMAIN}, or leave that filter out",
                )
        return True
