"""Checks of a plan before it is applied: files, counts and places.

The places are those of its entries.
A plan is a folder that others may have altered. People approved what ``plan.json`` says, so the files must
match it exactly. A plan may change only MSMQ objects and the entries that belong to them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.directory.profiles import PROFILES
from mqdssm.errors import ConfigError
from mqdssm.events.entry_builder import WORKSTATION_ACCOUNT
from mqdssm.model.dn import DN
from mqdssm.pipeline.manifest import check_sha256
from mqdssm.pipeline.migrate.plan_file import (
    BATCH_ROWS,
    EntryRole,
    MigrationPlan,
    PlanAction,
    PlanFile,
    PlanKind,
    PlanOperation,
    PlanTarget,
    read_operations,
)
from mqdssm.pipeline.migrate.replacement_check import ALLOWED_ACTIONS, find_foreign
from mqdssm.pipeline.orphans import OrphanPlaces
from mqdssm.tables import places
from mqdssm.tables.dependent_objects import SETTINGS_CLASS, SETTINGS_NAME

_ACTIONS: Final[dict[str, frozenset[str]]] = {
    "msmqqueue": frozenset({PlanAction.ADD, PlanAction.MODIFY, PlanAction.DELETE}),
    "msmqconfiguration": frozenset({PlanAction.ADD, PlanAction.MODIFY, PlanAction.DELETE}),
    "msmqsitelink": frozenset({PlanAction.ADD, PlanAction.MODIFY, PlanAction.DELETE}),
    SETTINGS_CLASS.lower(): frozenset({PlanAction.ADD, PlanAction.MODIFY, PlanAction.DELETE}),
    "msmqenterprisesettings": frozenset({PlanAction.ADD, PlanAction.MODIFY}),
    "site": frozenset({PlanAction.ADD, PlanAction.MODIFY}),
    "serverscontainer": frozenset({PlanAction.ADD, PlanAction.MODIFY}),
    "server": frozenset({PlanAction.ADD, PlanAction.MODIFY, PlanAction.DELETE}),
    "computer": frozenset({PlanAction.ADD, PlanAction.MODIFY}),
    "user": frozenset({PlanAction.MODIFY}),
}
"""Object class -> actions that a plan may have for it; others are never touched by a migration."""
_ROLES: Final[dict[str, frozenset[str]]] = {
    SETTINGS_CLASS.lower(): frozenset({EntryRole.SETTINGS}),
    "serverscontainer": frozenset({EntryRole.CONTAINER}),
    "server": frozenset({EntryRole.CONTAINER}),
    "computer": frozenset({EntryRole.COMPUTER, EntryRole.KEYS}),
}
"""Object class of a companion -> its roles. Entries of all other classes are objects: they are counted."""
_BELOW_SITES: Final = {"site": 1, "serverscontainer": 2, "server": 3, SETTINGS_CLASS.lower(): 4}
_BELOW_SERVICES: Final = {"msmqenterprisesettings": 1, "msmqsitelink": 2}
"""Object class -> how many levels below CN=Sites or CN=Services its entries are."""
_OWN_PREFIX: Final = "msmq"
_OF_OBJECT: Final = frozenset({"objectguid", "ntsecuritydescriptor", "whencreated", "description"})
_OF_COMPANION: Final = frozenset({"objectguid", "description"})
_OTHER_ATTRIBUTES: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    **{
        (name, action): _OF_OBJECT
        for name in ("msmqqueue", "msmqconfiguration", "msmqsitelink", "msmqenterprisesettings", "site")
        for action in (PlanAction.ADD, PlanAction.MODIFY)
    },
    **{
        (name, PlanAction.ADD): _OF_COMPANION
        for name in (SETTINGS_CLASS.lower(), "serverscontainer", "server")
    },
    ("computer", PlanAction.ADD): frozenset(
        {
            "objectguid",
            "objectsid",
            "samaccountname",
            "dnshostname",
            "useraccountcontrol",
            "serviceprincipalname",
        }
    ),
}
"""Object class and action -> attributes of others than MSMQ that a migration writes (decision M131)."""
_COLUMNS: Final = ("role", "action", "class", "dn", "values", "later")
_ALTERED: Final = "the plan was altered, plan again"


def check_files(folder: Path, files: Iterable[PlanFile]) -> None:
    """Check that the files of a plan are unaltered and in the plan's folder.

    Raises:
        ConfigError: one is missing, another one, or elsewhere.
    """
    for file in files:
        path = folder / file.path
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(f"{file.path} is no file in {folder}: {_ALTERED}")
        check_sha256(path, file.sha256, "plan", "planned")


def check_operations(plan: MigrationPlan, folder: Path, allow_deletes: int | None = None) -> None:
    """Check that the files hold the operations of ``plan.json``.

    The numbers of operations must be equal, and all must concern only MSMQ.

    Args:
        plan: the plan.
        folder: of the plan; its files were checked.
        allow_deletes: how many objects may be deleted; None: as many as ``plan.json`` says.

    Raises:
        ConfigError: the counts differ, or an operation is about an entry that no migration touches.
    """
    counts: Counter[str] = Counter()
    target = _TargetPlaces.of(plan)
    for file in plan.changes:
        counts.update(_count_operations(folder / file.path, target))
    planned = Counter({key: count for key, count in plan.operations.items() if not key.endswith(" equal")})
    if counts != planned:
        kind = min(key for key in counts | planned if counts[key] != planned[key])
        raise ConfigError(
            f"the files of the plan hold {counts[kind]} of '{kind}', plan.json says {planned[kind]}: "
            f"{_ALTERED}"
        )
    target.check_servers()
    target.check_together(read_operations(folder / file.path) for file in plan.changes)
    deletes = sum(plan.deletes.values())
    objects = target.count_deletes(counts)
    if objects > deletes or (allow_deletes is not None and objects > allow_deletes):
        allowed = deletes if allow_deletes is None else min(deletes, allow_deletes)
        raise ConfigError(
            f"the files of the plan delete {objects} objects, {allowed} are allowed: {_ALTERED}"
        )


def _count_operations(path: Path, target: "_TargetPlaces") -> Counter[str]:
    counts: Counter[str] = Counter()
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(_COLUMNS)):
            rows = batch.select(["role", "action", "class", "dn"]).to_pylist()
            names = (_list_keys(batch.column(column)) for column in ("values", "later"))
            for number, (row, values, later) in enumerate(zip(rows, *names, strict=True)):
                action, ldap_class, dn = row["action"], row["class"], row["dn"]
                target.check(action, row["role"], ldap_class, dn)
                target.check_attributes(action, ldap_class, dn, (*values, *later))
                if ldap_class.lower() == "computer" and action == PlanAction.ADD:
                    _check_new_computer(dn, dict(batch.column("values")[number].as_py()))
                counts[f"{row['role']} {action}"] += 1
    return counts


def _list_keys(maps: pa.MapArray) -> Iterator[list[str]]:
    """Yield the keys of each map, without its values."""
    keys = maps.keys.to_pylist()
    return (keys[start:end] for start, end in pairwise(maps.offsets.to_pylist()))


def _check_new_computer(dn: str, values: Mapping[str, Sequence[bytes]]) -> None:
    """Refuse a computer with other rights than those of a member of the domain.

    Raises:
        ConfigError: the account or its services are others.
    """
    named = {name.lower(): tuple(raws) for name, raws in values.items()}
    host = f"HOST/{DN.parse(dn).name}".lower()
    services = [raw.decode(errors="replace").lower() for raw in named.get("serviceprincipalname", ())]
    is_member = named.get("useraccountcontrol", (WORKSTATION_ACCOUNT,)) == (WORKSTATION_ACCOUNT,)
    if not is_member or any(service.partition(".")[0] != host for service in services):
        raise ConfigError(f"the plan would give {dn} rights that no migration gives: {_ALTERED}")


class _TargetPlaces:
    """Places of entries in the directory that a plan is for ([MS-MQDSSM] 2.2.1).

    Attributes:
        maker: who makes no other operations, in words.
    """

    maker = "migration"

    @staticmethod
    def of(plan: MigrationPlan) -> "_TargetPlaces":
        """Return the places for the kind of a plan."""
        return _TARGETS.get(plan.kind, _TargetPlaces)(plan.target)

    def __init__(self, target: PlanTarget) -> None:
        self._root, self._configuration = DN.parse(target.root), DN.parse(target.configuration)
        self._sites = places.search_base("site", self._root, self._configuration)
        self._services = places.services_dn(self._root, self._configuration)
        self._deleted_servers: set[DN] = set()
        self._emptied_servers: set[DN] = set()

    def count_deletes(self, counts: Mapping[str, int]) -> int:
        """Return the number of deletions that must be allowed.

        Operations are counted by role and action.
        """
        return counts.get(f"{EntryRole.OBJECT} {PlanAction.DELETE}", 0)

    def check_together(self, files: Iterable[Iterable[PlanOperation]]) -> None:
        """Refuse operations that do not belong together.

        Operations of a migration are independent.

        Raises:
            ConfigError: there is one.
        """

    def check_attributes(self, action: str, ldap_class: str, dn: str, names: Iterable[str]) -> None:
        """Refuse attributes that no migration writes (decision M131).

        Raises:
            ConfigError: there is one.
        """
        if action == PlanAction.DELETE:
            return
        others = _OTHER_ATTRIBUTES.get((ldap_class.lower(), action), frozenset())
        for name in names:
            if not name.lower().startswith(_OWN_PREFIX) and name.lower() not in others:
                raise ConfigError(
                    f"the plan would {action} {name} of {dn}: no migration does that; {_ALTERED}"
                )

    def check_servers(self) -> None:
        """Refuse deletions of server objects whose settings objects stay.

        Server objects belong to Active Directory. All operations were checked before.

        Raises:
            ConfigError: there is one.
        """
        alone = self._deleted_servers - self._emptied_servers
        if alone:
            raise ConfigError(
                f"the plan would delete {min(map(str, alone))} without its settings: "
                f"no migration does that; {_ALTERED}"
            )

    def check(self, action: str, role: str, ldap_class: str, text: str) -> None:
        """Refuse an operation that no migration makes.

        Raises:
            ConfigError: no migration does that to an entry of this class, or such entries are elsewhere, or
                have another role.
        """
        name = ldap_class.lower()
        try:
            is_place = self._is_place(name, DN.parse(text))
        except ValueError:
            is_place = False
        if action not in self._list_actions(name) or not is_place:
            raise ConfigError(
                f"the plan would {action} {text}, of class {ldap_class}: no {self.maker} "
                f"does that; {_ALTERED}"
            )
        if role not in _ROLES.get(name, (EntryRole.OBJECT,)):
            raise ConfigError(
                f"the plan calls {text}, of class {ldap_class}, '{role}', so that it would not be "
                f"counted: {_ALTERED}"
            )
        if action == PlanAction.DELETE and name == "server":
            self._deleted_servers.add(DN.parse(text))
        elif action == PlanAction.DELETE and name == SETTINGS_CLASS.lower():
            self._emptied_servers.add(DN.parse(text).parent)

    def _list_actions(self, ldap_class: str) -> frozenset[str]:
        return _ACTIONS.get(ldap_class, frozenset())

    def _is_place(self, ldap_class: str, dn: DN) -> bool:
        depth = _BELOW_SITES.get(ldap_class) or _BELOW_SERVICES.get(ldap_class)
        if depth is not None:
            container = self._sites if ldap_class in _BELOW_SITES else self._services
            is_named = ldap_class != SETTINGS_CLASS.lower() or dn.name.lower() == SETTINGS_NAME.lower()
            return is_named and len(dn) == len(container) + depth and dn.is_below(container)
        if not self._is_in_domain(dn):
            return False
        if ldap_class == "msmqqueue":
            return dn.parent.name.lower() == places.QUEUE_MANAGER_NAME
        return ldap_class != "msmqconfiguration" or dn.name.lower() == places.QUEUE_MANAGER_NAME

    def _is_in_domain(self, dn: DN) -> bool:
        return dn.is_below(self._root) and not dn.is_at_or_below(self._configuration)


class _OrphanTarget(_TargetPlaces):
    """Places of orphans. A plan for them only deletes some classes of objects there.

    Before the first change the directory is searched again: what is no orphan is refused
    (`mqdssm.pipeline.migrate.orphan_plan`).
    """

    maker = "removal of orphans"

    def __init__(self, target: PlanTarget) -> None:
        super().__init__(target)
        profile = PROFILES.get(target.profile)
        root, configuration = DN.parse(target.root), DN.parse(target.configuration)
        self._places = OrphanPlaces(root, configuration, profile is None or profile.restricts_parents)

    def count_deletes(self, counts: Mapping[str, int]) -> int:
        # settings objects are no companions of other objects here
        return sum(count for key, count in counts.items() if key.endswith(f" {PlanAction.DELETE}"))

    def _list_actions(self, ldap_class: str) -> frozenset[str]:
        return super()._list_actions(ldap_class) & {PlanAction.DELETE}

    def _is_place(self, ldap_class: str, dn: DN) -> bool:
        return self._places.accepts(ldap_class, dn)


class _ReplacementTarget(_TargetPlaces):
    """Places of a moved queue manager, and of the objects that follow it."""

    maker = "replacement"

    def check_attributes(self, action: str, ldap_class: str, dn: str, names: Iterable[str]) -> None:
        if ldap_class.lower() in _ROLES:  # `check_together` compares those of other classes with the move
            super().check_attributes(action, ldap_class, dn, names)

    def check_together(self, files: Iterable[Iterable[PlanOperation]]) -> None:
        foreign = find_foreign(chain.from_iterable(files), self._root, self._configuration)
        if foreign:
            raise ConfigError(f"the plan would {foreign}: no replacement does that; {_ALTERED}")

    def _list_actions(self, ldap_class: str) -> frozenset[str]:
        return ALLOWED_ACTIONS.get(ldap_class, frozenset())


_TARGETS: Final[Mapping[PlanKind, type[_TargetPlaces]]] = {
    PlanKind.ORPHANS: _OrphanTarget,
    PlanKind.REPLACEMENT: _ReplacementTarget,
}
"""Kind of a plan -> places of its operations; other plans are those of migrations."""
