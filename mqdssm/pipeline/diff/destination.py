"""Entries of the first side's objects in the tree of the second.

DNs, references and values of the entries are converted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from mqdssm.errors import MqdssmError, ObjectNotFound
from mqdssm.events.entry_builder import NAME, STORED, EntryBuilder, EntryTarget, make_dns_lookup
from mqdssm.events.new_entry import NewEntry
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.names import PathName
from mqdssm.pipeline.diff.comparable_columns import KEY, REFERRED, SINGLE, references_of
from mqdssm.pipeline.diff.fields import ObjectDifferenceKind
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.columns import FRAME_TYPES, ORIGINAL_IDENTIFIER, element_of
from mqdssm.pipeline.texts import rows_of
from mqdssm.tables.references import REFERENCES, ReferenceForm
from mqdssm.tables.row import Holder

if TYPE_CHECKING:
    from mqdssm.events.encode import Values
    from mqdssm.pipeline.diff.fields import ObjectDifference
    from mqdssm.pipeline.diff.run import Comparison

PLACE: Final = frozenset({"FullPath", "Pathname", "ComputerName", "Name"})
"""Attributes that determine the DN of an object: another value is another DN."""
_READ_ROWS: Final = 65_536


class Destination:
    """Second side of a comparison, as the destination of objects of the first.

    Args:
        found: the comparison; its second side is a directory or an export.
    """

    def __init__(self, comparison: "Comparison") -> None:
        self._comparison = comparison
        self._root = comparison.b.root or DN()
        self._from = comparison.a.root
        self._common = comparison.pair.grounds[0].names
        self._target = EntryTarget.named(comparison.b.profile or "openldap", self._root)
        self._real: dict[str, str] = {}  # common GUID of an object -> its objectGUID in B
        self._dns: dict[UUID, str] = {}
        self._computers: dict[str, DN] = {}
        self._look_around()
        # missing descriptors are made only if A is MQIS tables, which cannot hold them
        self._maker = EntryBuilder(self._target, make_dns_lookup(self._dns), complete=self._from is None)
        self._expect()

    def _look_around(self) -> None:
        """Read the DNs of B's computers and of the objects of B that others refer to."""
        names = self._comparison.pair.grounds[1].names
        for type_name in (*REFERRED, "computer"):
            for row in self._read_rows(type_name, (KEY, ORIGINAL_IDENTIFIER.name, "FullPath")):
                guid, dn = row.get(KEY), row.get("FullPath")
                if dn is None:
                    continue
                if type_name != "site":
                    computer = DN.parse(dn) if type_name == "computer" else DN.parse(dn).parent
                    self._computers[computer.name.lower()] = computer
                if guid is not None and type_name in REFERRED:
                    self._real[names.get(guid, guid)] = guid
                    self._dns[UUID(guid)] = dn

    def _read_rows(self, type_name: str, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        dataset = self._comparison.b.sets.get(type_name)
        if dataset is None:
            return
        columns = [name for name in names if name in dataset.types]
        for batch in dataset.read_batches(columns, _READ_ROWS):
            yield from batch.to_pylist()

    def _expect(self) -> None:
        """Record the future DNs of added and moved objects, for references."""
        for type_name in ("site", "computer", "queue-manager"):
            for kind in (ObjectDifferenceKind.MISSING, ObjectDifferenceKind.DIFFERENT):
                for difference in self._comparison.differences.of(type_name, kind):
                    if kind is ObjectDifferenceKind.MISSING or PLACE.intersection(difference.attributes):
                        self._expect_one(difference)

    def _expect_one(self, difference: "ObjectDifference") -> None:
        try:
            new_entry = self.make_entry(difference.type, self.convert_row(difference))
        except (MqdssmError, ValueError):
            return  # reported when the object is added
        guid = (difference.b or difference.a or {}).get(KEY)
        if difference.type == "computer":
            self._computers[new_entry.dn.name.lower()] = new_entry.dn
        elif guid:
            self._dns[UUID(guid)] = str(new_entry.dn)

    # -- objects of A

    def convert_row(self, difference: "ObjectDifference") -> dict[str, Any]:
        """Return an object of A, with its references converted to the GUIDs of B."""
        frame = FRAME_TYPES[difference.type]
        row: dict[str, Any] = rows_of([difference.a or {}], make_arrow_schema(frame.columns)).to_pylist()[0]
        for name in references_of(difference.type):
            value = row[name]
            if value:
                row[name] = (
                    list(map(self._find_target_guid, value))
                    if isinstance(value, list)
                    else self._find_target_guid(value)
                )
        return row

    def _find_target_guid(self, guid: str) -> str:
        common = self._common.get(guid, guid)
        return self._real.get(common, common)

    def make_entry(self, type_name: str, row: Mapping[str, Any]) -> NewEntry:
        """Return the entry of an object in B.

        Raises:
            MqdssmError, ValueError: the object cannot become an entry.
        """
        if type_name in {"settings", "computer"}:
            frame = FRAME_TYPES[type_name]
            new_entry = self._maker.companion(type_name, frame.ldap_class or "", frame.rows, row)
        else:
            new_entry = self._make_element(type_name, row)
        path = row.get("FullPath")
        if self._from is not None and path is not None and type_name not in SINGLE:
            new_entry.dn = self._rebase_dn(path)
        return new_entry

    def _make_element(self, type_name: str, row: Mapping[str, Any]) -> NewEntry:
        obj: Any = element_of(FRAME_TYPES[type_name], row)
        maker = self._maker
        match type_name:
            case "queue":
                return maker.queue(
                    obj, self._find_computer(row, PathName.parse_stored(_read_text(obj)).computer, 2)
                )
            case "queue-manager":
                return maker.queue_manager(obj, self._find_computer(row, _read_text(obj), 1))
            case "site":
                return maker.site(obj)
            case "routing-link":
                return maker.link(obj)
            case "enterprise":
                return maker.enterprise(obj)
        path = row.get("FullPath")
        if path is None:
            raise ObjectNotFound("there is no account with this SID, and MQIS does not tell its name")
        return maker.user(obj, DN.parse(path).name)

    def _find_computer(self, row: Mapping[str, Any], name: str, above: int) -> DN:
        """Return the DN of the computer of an object in B.

        Raises:
            ObjectNotFound: B has no computer of that name.
        """
        path = row.get("FullPath")
        if self._from is not None and path is not None:
            return DN(self._rebase_dn(path).rdns[above:])
        dn = self._computers.get(name.lower())
        if dn is None:
            raise ObjectNotFound(f"there is no computer {name}: add it first")
        return dn

    def make_container(self, dn: DN) -> NewEntry:
        """Return the entry of a server object, or of a site's container of them.

        See decision M6.
        """
        if len(dn) > 1 and dn.parent.name == "Servers":
            return self._maker.server(dn.parent.parent.name, dn.name)
        return self._maker.servers(dn.parent.name)

    def list_computer_keys(self, type_name: str, row: Mapping[str, Any]) -> "Values":
        """Return the attributes of a queue manager that its computer holds.

        The result is empty for other types.
        """
        if type_name != "queue-manager":
            return {}
        obj = element_of(FRAME_TYPES[type_name], row)
        return self._maker.computer_keys(obj) if isinstance(obj, QueueManager) else {}

    def convert_references(self, later: Mapping[str, Sequence[UUID]]) -> "Values":
        """Return postponed references as LDAP values."""
        return {name: tuple(self._dns[guid].encode() for guid in guids) for name, guids in later.items()}

    def list_unknown(self, new_entry: NewEntry) -> dict[str, tuple[UUID, ...]]:
        """Return the references that an entry is written without.

        The references are DNs of objects that B does not have.
        """
        references = REFERENCES.get(new_entry.ldap_class, {})
        return {
            name: guids
            for name, guids in new_entry.missing.items()
            if references[name].form is ReferenceForm.DN
        }

    # -- names

    def dn_of(self, difference: "ObjectDifference") -> DN | None:
        """Return the current DN of an object in B; None if B does not have it or its DN."""
        path = None if difference.b is None else difference.b.get("FullPath")
        return None if path is None else DN.parse(path)

    def _rebase_dn(self, dn: str) -> DN:
        """Return the DN in B's tree for a DN of A's tree."""
        parsed, old = DN.parse(dn), self._from or DN()
        return DN(parsed.rdns[: len(parsed) - len(old)] + self._root.rdns)

    def attributes_of(self, type_name: str) -> Iterator[str]:
        """Yield the LDAP attributes of a type that can be written.

        The attributes of the RDN are not among them.
        """
        frame = FRAME_TYPES[type_name]
        for name, of_table in frame.rows.items():
            is_stored = of_table.access & STORED if frame.element is not None else of_table.computed is None
            if is_stored and name != NAME and of_table.holder is Holder.OWN:
                yield from of_table.written or of_table.ldap


def _read_text(obj: Any) -> str:
    """Return the pathname of a queue, or the computer name of a queue manager."""
    name = obj.pathname if isinstance(obj, Queue) else obj.computer_name
    return name or ""
