"""LDIF for ``ldapmodify`` that makes the second side equal the first.

The LDIF has adds, changes, moves and deletes.
`mqdssm.events.entry_builder` makes the entries. Parents come before children, references to added objects
after these objects, and deletes last. A difference that LDIF cannot express becomes a comment.

Objects of a directory around the compared ones: server objects above, children below.
"""

import contextlib
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from mqdssm.directory.filters import TRUE
from mqdssm.errors import ConfigError, DecodeError, MqdssmError, ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.model.fieldtypes import describe_problems
from mqdssm.pipeline.diff.destination import PLACE, Destination
from mqdssm.pipeline.diff.fields import ObjectDifferenceKind
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.ldif import make_modrdn, make_replacement, record
from mqdssm.tables.ldif import format_comment
from mqdssm.tables.row import Holder
from mqdssm.wire.dtyp import SecurityDescriptor

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory
    from mqdssm.events.new_entry import NewEntry
    from mqdssm.pipeline.diff.fields import ObjectDifference
    from mqdssm.pipeline.diff.run import Comparison

HOLDS_OTHERS: Final = frozenset({"site", "computer", "queue-manager", "user"})
"""Types whose objects may have children."""
CONTAINERS_ABOVE: Final = 2
"""Number of containers above mSMQSettings: server object and the site's container (decision M6)."""


class Leftover:
    """Search for objects of B that no compared type covers.

    Args:
        directory: of B; None for an export: all containers count as missing, and no children are known.
    """

    def __init__(self, directory: "Directory | None") -> None:
        self._directory = directory
        self._made_dns: set[DN] = set()
        self._gone: set[DN] = set()

    def find_missing_above(self, settings: DN) -> Iterator[DN]:
        """Yield the missing containers above a settings object, the highest first."""
        above = [settings.parent, settings.parent.parent][:CONTAINERS_ABOVE]
        for dn in reversed(above):
            if dn not in self._made_dns and not self._exists(dn):
                self._made_dns.add(dn)
                yield dn

    def find_below(self, dn: DN, type_name: str) -> Iterator[DN]:
        """Yield the objects below one that is to be deleted, the deepest first."""
        if self._directory is None or type_name not in HOLDS_OTHERS:
            return
        try:
            names = [DN.parse(entry.dn) for entry in self._directory.session.find(dn, TRUE, ["1.1"])]
        except ObjectNotFound:
            return
        for name in sorted(names, key=lambda child: -len(child)):
            if name != dn and name not in self._gone:
                self._gone.add(name)
                yield name

    def find_emptied(self, dn: DN, type_name: str) -> Iterator[DN]:
        """Yield the server object that is empty without its settings object, if any.

        The settings object was deleted.
        """
        self._gone.add(dn)
        if type_name != "settings" or self._directory is None or dn.parent in self._gone:
            return
        names = [DN.parse(entry.dn) for entry in self._directory.session.find(dn.parent, TRUE, ["1.1"])]
        if all(name == dn.parent or name in self._gone for name in names):
            self._gone.add(dn.parent)
            yield dn.parent

    def _exists(self, dn: DN) -> bool:
        if self._directory is None:
            return False
        try:
            self._directory.session.get(dn, ["1.1"])
        except ObjectNotFound:
            return False
        return True


ORDER: Final = (
    "enterprise",
    "site",
    "computer",
    "user",
    "queue-manager",
    "settings",
    "routing-link",
    "queue",
)
"""Types in the order of adding: parents first."""
POSTPONED: Final = ("mSMQOutRoutingServers", "mSMQInRoutingServers", "mSMQSiteGates")
"""References that a server may refuse until their targets exist; they are set after all adds."""
UNREADABLE: Final = "Unreadable"


def format_changes(comparison: "Comparison") -> Iterator[str]:
    """Yield the LDIF records that make side B equal side A.

    Args:
        comparison: the comparison; its second side must be a directory or an export.

    Raises:
        ConfigError: the second side is made of MQIS tables, which LDIF cannot change.
        DirectoryError: the second side is a directory that cannot be reached any more.
    """
    if comparison.b.root is None:
        raise ConfigError(f"LDIF cannot change {comparison.b.label}: name a directory or an export as B")
    with contextlib.ExitStack() as stack:
        live = None
        if comparison.b.is_directory:
            live = stack.enter_context(comparison.b.given.connect())
        yield from _Changes(comparison, Leftover(live)).format_records()


class _Changes:
    def __init__(self, comparison: "Comparison", leftover: Leftover) -> None:
        self._comparison = comparison
        self._leftover = leftover
        self._to = Destination(comparison)
        self._occupants: dict[DN, ObjectDifference] = {}
        self._moves: list[tuple[DN, DN]] = []
        self._later: list[tuple[DN, Mapping[str, Sequence[bytes]]]] = []

    def format_records(self) -> Iterator[str]:
        """Yield all records, in the order in which they have to be applied."""
        a, b = self._comparison.a, self._comparison.b
        yield _format_comment(
            f"makes {b.name} equal {a.name}: ldapmodify -f; add -c to continue after errors"
        )
        self._find_occupants()
        for type_name in ORDER:
            for difference in self._comparison.differences.of(type_name, ObjectDifferenceKind.MISSING):
                yield from self._with_comment(difference, self._format_addition(difference))
        for type_name in ORDER:
            for difference in self._comparison.differences.of(type_name, ObjectDifferenceKind.DIFFERENT):
                yield from self._with_comment(difference, self._format_change(difference))
        for dn, values in self._later:
            yield make_replacement(str(self._move_dn(dn)), list(values.items())).decode("ascii")
        for type_name in reversed(ORDER):
            for difference in self._comparison.differences.of(type_name, ObjectDifferenceKind.EXTRA):
                yield from self._with_comment(difference, self._format_deletion(difference))

    def _with_comment(self, difference: "ObjectDifference", records: Iterator[str]) -> Iterator[str]:
        try:
            yield from records
        except (MqdssmError, ValueError) as error:
            why = describe_problems(error) if isinstance(error, ValidationError) else error
            yield _format_comment(
                f"{difference.type} {difference.name or difference.key} is left as it is: {why}"
            )

    # -- names that are taken by objects with other GUIDs

    def _find_occupants(self) -> None:
        """Find extra objects of B that have the DN of a missing one.

        Extra objects of this kind are changed, not deleted.
        """
        dn_hashes = set()
        for difference in self._of_kind(ObjectDifferenceKind.MISSING):
            with contextlib.suppress(MqdssmError, ValueError):
                dn_hashes.add(hash(self._to.make_entry(difference.type, self._to.convert_row(difference)).dn))
        if not dn_hashes:
            return
        for difference in self._of_kind(ObjectDifferenceKind.EXTRA):
            dn = self._to.dn_of(difference)
            if dn is not None and hash(dn) in dn_hashes:
                self._occupants[dn] = difference

    def _of_kind(self, kind: ObjectDifferenceKind) -> "Iterator[ObjectDifference]":
        for type_name in ORDER:
            yield from self._comparison.differences.of(type_name, kind)

    # -- records of one difference

    def _format_addition(self, difference: "ObjectDifference") -> Iterator[str]:
        row = self._to.convert_row(difference)
        new_entry = self._to.make_entry(difference.type, row)
        if difference.type == "settings":
            for above in self._leftover.find_missing_above(new_entry.dn):
                yield _add(self._to.make_container(above))
        yield from self._describe_left_out(difference.type, new_entry, new_entry.missing)
        later = new_entry.postpone(POSTPONED)
        if later:
            self._later.append((new_entry.dn, self._to.convert_references(later)))
        occupant = self._occupants.get(new_entry.dn)
        if occupant is not None and occupant.type == difference.type:
            attributes = self._to.attributes_of(difference.type)
            values = dict.fromkeys(attributes, ()) | new_entry.values
            yield make_replacement(str(new_entry.dn), list(values.items())).decode("ascii")
        else:
            yield _add(new_entry)
        keys = self._to.list_computer_keys(difference.type, row)
        if keys:
            yield make_replacement(str(new_entry.dn.parent), list(keys.items())).decode("ascii")

    def _format_change(self, difference: "ObjectDifference") -> Iterator[str]:
        row = self._to.convert_row(difference)
        new_entry = self._to.make_entry(difference.type, row)
        dn = self._move_dn(self._to.dn_of(difference) or new_entry.dn)
        if PLACE.intersection(difference.attributes) and dn != new_entry.dn:
            yield make_modrdn(dn, new_entry.dn).decode("ascii")
            self._moves.append((dn, new_entry.dn))
            dn = new_entry.dn
        new_values: dict[str, Sequence[bytes]] = {}
        on_computer: dict[str, Sequence[bytes]] = {}
        for name in difference.attributes:
            if name == UNREADABLE:
                yield _format_comment(
                    f"{difference.type} {dn}: a value of A cannot be read, B is left as it is there"
                )
                continue
            of_table = FRAME_TYPES[difference.type].rows[name]
            if of_table.holder is Holder.COMPUTER:
                keys = self._to.list_computer_keys(difference.type, row)
                on_computer |= {attribute: keys.get(attribute, ()) for attribute in of_table.written}
            elif name != "FullPath":
                target_row = difference.b or {}
                new_values |= {
                    attribute: new_entry.values.get(attribute, ())
                    for attribute in _list_written(of_table)
                    # a name without a second part on both sides
                    if attribute in new_entry.values or target_row.get(attribute, attribute) is not None
                }
        yield from self._describe_left_out(difference.type, new_entry, new_values)
        if new_values:
            yield make_replacement(str(dn), list(new_values.items())).decode("ascii")
        if on_computer:
            yield make_replacement(str(dn.parent), list(on_computer.items())).decode("ascii")

    def _describe_left_out(
        self, type_name: str, new_entry: "NewEntry", names: Collection[str]
    ) -> Iterator[str]:
        """Yield a comment for each attribute that lacks references.

        References to objects that B does not have are left out.
        """
        for name, guids in self._to.list_unknown(new_entry).items():
            if name in names:
                unknown = ", ".join(map(str, guids))
                yield _format_comment(
                    f"{type_name} {new_entry.dn}: {name} is written without {unknown}, which B does not have"
                )

    def _format_deletion(self, difference: "ObjectDifference") -> Iterator[str]:
        dn = self._to.dn_of(difference)
        if dn is None or difference.type == "enterprise":
            raise ConfigError("it does not say where it is")
        if self._occupants.get(dn) is difference or (
            dn in self._occupants and self._occupants[dn].key == difference.key
        ):
            return
        now = self._move_dn(dn)
        for below in self._leftover.find_below(now, difference.type):
            yield _delete(below)
        yield _delete(now)
        for empty in self._leftover.find_emptied(now, difference.type):
            yield _delete(empty)

    def _move_dn(self, dn: DN) -> DN:
        """Return the DN of an object after the earlier moves."""
        for old, new in self._moves:
            if dn.is_at_or_below(old):
                dn = DN(dn.rdns[: len(dn) - len(old)] + new.rdns)
        return dn


def _list_written(row: Any) -> Sequence[str]:
    return row.written or tuple(name for name in row.ldap if name != "distinguishedName")


def _format_comment(text: str) -> str:
    return format_comment(text) + "\n\n"


def _add(new_entry: "NewEntry") -> str:
    return record(str(new_entry.dn), list(new_entry.complete().items()), "add").decode("ascii")


def _delete(dn: DN) -> str:
    return record(str(dn), [], "delete").decode("ascii")


def format_sddl(value: str) -> str:
    """Return a base64 security descriptor as SDDL; a damaged one unchanged."""
    try:
        return SecurityDescriptor.from_bytes(b64decode(value)).to_sddl()
    except (DecodeError, ValueError):
        return value
