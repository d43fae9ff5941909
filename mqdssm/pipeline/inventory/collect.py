"""Counts and lists of machines, queues, sites and accounts.

Queues and machines are read once for counts and names, and again when they are listed. Memory grows with the
machines and the distinct accounts, not with the queues.

Sources of an inventory: an export, a directory or MQIS tables, as for a validation.
"""

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import require_packages
from mqdssm.model.dn import DN, normalize
from mqdssm.pipeline.access import PipelineLogIn
from mqdssm.pipeline.engines import JobEngine
from mqdssm.pipeline.frames.columns import UNREADABLE
from mqdssm.pipeline.inventory.machines.states import (
    MACHINE_STATE_COLUMNS,
    QUEUE_STATE_COLUMNS,
    MachineStates,
)
from mqdssm.pipeline.inventory.problems import by_object, choose_rules, place_rule, problems_of
from mqdssm.pipeline.inventory.rights import (
    CHANGE,
    FULL,
    DescriptorRights,
    list_asked_rights,
    names_of,
    rights_of,
)
from mqdssm.pipeline.spark_options import HERE, SparkOptions
from mqdssm.pipeline.validate.datasets import Dataset, values_of
from mqdssm.pipeline.validate.rules.rule import Finding
from mqdssm.pipeline.validate.translate import translate

if TYPE_CHECKING:
    import pyarrow as pa

    from mqdssm.pipeline.validate.sources import ValidationSource

_BATCH_ROWS: Final = 10_000
ROLES: Final = (
    "RoutingServer",
    "DirectoryServer",
    "SupportingServer",
    "RemoteAccessServer",
    "ForeignSystem",
    "Clustered",
)
"""Attributes of a queue manager that are listed as its roles."""
QUEUE_COLUMNS: Final = (
    "Pathname",
    "Identifier",
    "Label",
    "Quota",
    "JournalQuota",
    "Journaling",
    "Transactional",
    "Authentication",
    "PrivacyLevel",
    "MulticastAddress",
    "CreateTime",
    "ModifyTime",
    "FullPath",
)
MACHINE_COLUMNS: Final = (
    "ComputerName",
    "Identifier",
    "OperatingSystemType",
    "OperatingSystemVersion",
    "QueueManagerVersion",
    "QueueManagerQuota",
    "JournalQuota",
    "CreateTime",
    "FullPath",
)
Record = dict[str, Any]


@dataclass(slots=True)
class _Survey:
    """Counts from the first reading of queues and machines."""

    queues: Counter[str] = field(default_factory=Counter)  # by the key of their machine
    machines_of_site: Counter[str] = field(default_factory=Counter)
    queues_of_site: Counter[str] = field(default_factory=Counter)
    roles_of_site: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    systems: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    people: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    rights_problems: Counter[str] = field(default_factory=Counter)


class Inventory:
    """An inventory of one source.

    Attributes:
        source: where from, for people.
        engine: that took it.
        taken: when.
        counts: number of objects of each type.
        problems: orphans and clones.
        not_looked_for: rules about these that could not be applied, and why.
        systems: number of machines by operating system.
        roles: number of machines by role.
        rights_problems: number of objects by what is wrong with their descriptors.
        states: states of machines from the files that were added; None without files.
        unreadable: number of values that could not be decoded, by type of object; they are listed as missing.
        first_unreadable: the first of these values, in words; empty if there is none.

    Args:
        source: where from.
        now: moment of the inventory; None is the present one.
        engine: ``local``, ``spark`` or ``auto``; see `mqdssm.pipeline.inventory.opened`.
        workers: processes of the local engine.
        on: where Spark runs.
        added: files in which machines say something about themselves, or folders of such files.
    """

    def __init__(
        self,
        source: "ValidationSource",
        now: datetime | None = None,
        *,
        engine: str = "auto",
        workers: int | None = None,
        on: SparkOptions = HERE,
        added: Sequence[Path] = (),
    ) -> None:
        chosen = JobEngine.of(engine, on, workers)
        self.source = source.name
        self.engine = chosen.kind.value
        self.taken = now or datetime.now(UTC)
        self.counts: Mapping[str, int] = {name: dataset.rows for name, dataset in source.sets.items()}
        self.problems: Sequence[Finding] = problems_of(source, self.taken, chosen)
        self.not_looked_for: Mapping[str, str] = choose_rules(source)[1]
        self._sets = source.sets
        self._rule = place_rule(source)
        self._flags = by_object(list(self.problems))
        self._sites = {row["Identifier"]: row for row in _read_rows(source.sets.get("site"), _SITE_COLUMNS)}
        self._survey = _Survey()
        self._survey_queues()
        self._survey_machines()
        self.unreadable, self.first_unreadable = count_unreadable_values(source.sets)
        self._names = names_of(self._survey.people, source.sets)
        self.systems: Mapping[str, int] = self._survey.systems
        self.roles: Mapping[str, int] = self._survey.roles
        self.rights_problems: Mapping[str, int] = self._survey.rights_problems
        self.states = (
            MachineStates(added, self.read_placed_rows, self.build_dns_name_finder()) if added else None
        )

    # -- the lists

    def list_sites(self) -> Iterator[Record]:
        """Yield the sites, by name, with the numbers of their machines and queues."""
        survey = self._survey
        for guid, row in sorted(self._sites.items(), key=lambda item: str(item[1].get("Name")).casefold()):
            yield {
                "Name": row.get("Name"),
                "Identifier": guid,
                "ForeignSite": row.get("ForeignSite"),
                "Machines": survey.machines_of_site[guid],
                "Queues": survey.queues_of_site[guid],
                **{
                    f"{role}s": survey.roles_of_site[guid][role]
                    for role in ("RoutingServer", "ForeignSystem")
                },
            }

    def list_machines(self) -> Iterator[Record]:
        """Yield the queue managers, in the order of the source."""
        columns = (*MACHINE_COLUMNS, *ROLES, "SiteIdentifierList", "Security")
        key = self._choose_key("queue-manager")
        for batch, keys in self._read_batches("queue-manager", columns, key):
            for row, place in zip(batch.to_pylist(), keys, strict=True):
                rights = rights_of("queue-manager", row.get("Security"))
                yield {
                    **{name: row.get(name) for name in MACHINE_COLUMNS[:3]},
                    "Roles": _list_roles(row),
                    "Sites": [self._name_site(guid) for guid in row.get("SiteIdentifierList") or ()],
                    "Queues": None if key is None else self._survey.queues[place],
                    **{name: row.get(name) for name in MACHINE_COLUMNS[3:-1]},
                    **self._describe_rights("queue-manager", rights),
                    "Problems": self.problems_of_row("queue-manager", row),
                    "FullPath": row.get("FullPath"),
                }

    def list_queues(self) -> Iterator[Record]:
        """Yield the queues, in the order of the source."""
        for batch, _ in self._read_batches("queue", (*QUEUE_COLUMNS, "Security"), None):
            for row in batch.to_pylist():
                yield {
                    **{name: row.get(name) for name in QUEUE_COLUMNS[:-1]},
                    **self._describe_rights("queue", rights_of("queue", row.get("Security"))),
                    "Problems": self.problems_of_row("queue", row),
                    "FullPath": row.get("FullPath"),
                }

    def list_people(self) -> Iterator[Record]:
        """Yield the accounts with rights, owners among them.

        Accounts with the highest count come first.
        """
        people = self._survey.people
        for sid in sorted(people, key=lambda person: (-max(people[person].values()), person)):
            yield {
                "Sid": sid,
                "Name": self._names.get(sid),
                **{name: people[sid][name] for name in PEOPLE_COUNTS},
            }

    # -- the first reading

    def _survey_queues(self) -> None:
        import pyarrow.compute as pc

        key = self._choose_key("queue")
        for batch, keys in self._read_batches("queue", ("Security",), key):
            self._survey_rights("queue", "OwnsQueues", batch)
            if key is not None:
                for item in pc.value_counts(keys).to_pylist():
                    self._survey.queues[item["values"]] += item["counts"]

    def _survey_machines(self) -> None:
        survey = self._survey
        columns = ("OperatingSystemType", *ROLES, "SiteIdentifierList", "Security")
        key = self._choose_key("queue-manager")
        for batch, keys in self._read_batches("queue-manager", columns, key):
            self._survey_rights("queue-manager", "OwnsMachines", batch)
            for row, place in zip(batch.to_pylist(), keys, strict=True):
                survey.systems[row.get("OperatingSystemType") or "not known"] += 1
                roles = _list_roles(row)
                survey.roles.update(roles)
                for site in dict.fromkeys(row.get("SiteIdentifierList") or ()):
                    survey.machines_of_site[site] += 1
                    survey.queues_of_site[site] += survey.queues[place] if key is not None else 0
                    survey.roles_of_site[site].update(roles)

    def _survey_rights(self, name: str, owns: str, batch: "pa.RecordBatch") -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if "Security" not in batch.schema.names:
            return
        for item in pc.value_counts(batch.column("Security").cast(pa.binary())).to_pylist():
            rights, count = rights_of(name, item["values"]), item["counts"]
            if rights.problem:
                self._survey.rights_problems[rights.problem] += count
            if rights.owner:
                self._survey.people[rights.owner][owns] += count
            for right, sids in rights.who.items():
                for sid in sids:
                    self._survey.people[sid][right if name == "queue" else f"Machines{right}"] += count

    # -- helpers

    def _choose_key(self, name: str) -> "Callable[[pa.RecordBatch], pa.Array] | None":
        """Return a function for the machine keys of a batch.

        Returns None if the source has no such columns.
        """
        if self._rule is None:
            return None
        types = self._sets[name].types
        expression = translate(self._rule.value if name == "queue" else self._rule.key, types)
        return lambda batch: expression.evaluate(values_of(batch, types))

    def _read_batches(
        self, name: str, columns: Sequence[str], key: "Callable[[pa.RecordBatch], pa.Array] | None"
    ) -> "Iterator[tuple[pa.RecordBatch, Any]]":
        """Yield batches and the keys of their rows.

        A batch has the columns that exist.
        """
        target = self._sets.get(name)
        if target is None:
            return
        needed = dict.fromkeys(columns)
        if key is not None and self._rule is not None:
            needed |= dict.fromkeys(self._rule.columns() | self._rule.others()[self._rule.target])
        column_names = [column for column in needed if column in target.types]
        for batch in target.read_batches(column_names, _BATCH_ROWS):
            if key is None:
                yield batch, [None] * batch.num_rows
            else:
                keys = key(batch)
                yield batch, keys if name == "queue" else keys.to_pylist()

    # -- rows for other reports

    def read_placed_rows(self, name: str, columns: Sequence[str]) -> Iterator[tuple[Record, Any]]:
        """Yield rows of a type, and the key of the machine of each.

        The key is None if the source has no such columns.
        """
        key = self._choose_key(name)
        for batch, keys in self._read_batches(name, columns, key):
            places = keys if key is None or name != "queue" else keys.to_pylist()
            yield from zip(batch.to_pylist(), places, strict=True)

    def build_dns_name_finder(self) -> Callable[[str], str]:
        """Return a function from the DN of a queue manager to its DNS name."""
        names = {
            normalize(row["FullPath"]): row["DnsHostName"]
            for row in _read_rows(self._sets.get("computer"), ("FullPath", "DnsHostName"))
            if row.get("FullPath") and row.get("DnsHostName")
        }
        return lambda path: names.get(DN.parse(path).parent.normalized, "") if path else ""

    def _name_site(self, guid: str) -> str:
        row = self._sites.get(guid)
        return str(row.get("Name") or guid) if row is not None else guid

    def computers_of_machines(self) -> frozenset[str]:
        """Return the normalized DNs of the computers of queue managers."""
        rows = self.read_placed_rows("queue-manager", ("FullPath",))
        return frozenset(
            DN.parse(row["FullPath"]).parent.normalized for row, _ in rows if row.get("FullPath")
        )

    def read_service_names(self) -> Mapping[str, tuple[str, ...]]:
        """Return the service principal names of computers, by normalized DN."""
        return {
            normalize(row["FullPath"]): tuple(row["ServicePrincipalNames"])
            for row in _read_rows(self._sets.get("computer"), ("FullPath", "ServicePrincipalNames"))
            if row.get("FullPath") and row.get("ServicePrincipalNames")
        }

    def problems_of_row(self, name: str, row: Record) -> list[str]:
        """Return the orphan and clone rules that an object breaks."""
        return list(self._flags.get((name, row.get("FullPath") or row.get("Identifier") or ""), ()))

    def _describe_rights(self, name: str, rights: DescriptorRights) -> Record:
        return {
            "Owner": self.name_person(rights.owner) if rights.owner else None,
            **{
                right: [self.name_person(sid) for sid in rights.who[right]]
                for right in list_asked_rights(name)
            },
            "RightsProblem": rights.problem or None,
        }

    def name_person(self, sid: str) -> str:
        """Return a SID with its name, if that is known."""
        name = self._names.get(sid)
        return f"{name} ({sid})" if name else sid


def count_unreadable_values(sets: Mapping[str, Dataset]) -> tuple[Mapping[str, int], str]:
    """Count the values of a source that could not be decoded.

    Returns:
        Their number by type of object; and the first of them, in words.
    """
    counts: Counter[str] = Counter()
    first = ""
    for name, objects in sets.items():
        if UNREADABLE.name not in objects.types:
            continue
        columns = [column for column in (UNREADABLE.name, "Identifier") if column in objects.types]
        for batch in objects.read_batches(columns, _BATCH_ROWS):
            for row in batch.filter(batch.column(UNREADABLE.name).is_valid()).to_pylist():
                values = row[UNREADABLE.name]
                counts[name] += len(values)
                if values and not first:
                    first = f"{name} {row.get('Identifier') or 'without an Identifier'}: {values[0]}"
    return counts, first


_SITE_COLUMNS: Final = ("Identifier", "Name", "ForeignSite")
PEOPLE_COUNTS: Final = (
    "OwnsQueues",
    "OwnsMachines",
    "Send",
    "Receive",
    "Peek",
    FULL,
    CHANGE,
    "MachinesCreateQueue",
    f"Machines{FULL}",
    f"Machines{CHANGE}",
)
"""Counts of an account: numbers of queues; of machines, where a name has ``Machines`` in it."""


RECORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "site": ("Name", "Identifier", "ForeignSite", "Machines", "Queues", "RoutingServers", "ForeignSystems"),
    "machine": (
        *(*MACHINE_COLUMNS[:3], "Roles", "Sites", "Queues", *MACHINE_COLUMNS[3:-1]),
        *("Owner", *list_asked_rights("queue-manager"), "RightsProblem", "Problems", "FullPath"),
    ),
    "queue": (
        *QUEUE_COLUMNS[:-1],
        "Owner",
        *list_asked_rights("queue"),
        "RightsProblem",
        "Problems",
        "FullPath",
    ),
    "account": ("Sid", "Name", *PEOPLE_COUNTS),
    "problem": tuple(Finding.__slots__),
    "machine-state": MACHINE_STATE_COLUMNS,
    "queue-state": QUEUE_STATE_COLUMNS,
}
"""Columns of each kind of record, in order."""


def _read_rows(target: Dataset | None, columns: Sequence[str]) -> list[Record]:
    if target is None:
        return []
    rows: list[Record] = target.read_table(columns).to_pylist()
    return rows


def _list_roles(row: Record) -> list[str]:
    return [role for role in ROLES if row.get(role)]


@contextlib.contextmanager
def open_source(
    export: str | os.PathLike[str] | None = None,
    *,
    urls: Sequence[str] = (),
    access: PipelineLogIn | None = None,
    mqis: str | os.PathLike[str] | None = None,
    mapping: Path | None = None,
    engine: str = "auto",
    workers: int | None = None,
    on: SparkOptions = HERE,
) -> "Iterator[ValidationSource]":
    """Open one source.

    Args:
        export: the folder of an export; or
        urls: the servers of a directory (it is exported to a folder of our own), with
        access: how to log in; or
        mqis: a folder of MQIS tables, with
        mapping: the file that says how they are called and coded; None: as in MQIS, in UTF-8.
        engine: ``local``, ``spark`` or ``auto``, as for `mqdssm.pipeline.export.run.export`; an export needs
            none.
        workers: processes of the local engine; None: one a core, as far as there is memory.
        on: where Spark runs.

    Yields:
        The source, for as long as the context lasts.

    Raises:
        ConfigError: it is not whole or not readable, or Java or a package is missing.
        DirectoryError: a directory cannot be read.
    """
    chosen = JobEngine.of(engine, on, workers)
    check_engine(chosen)
    from mqdssm.pipeline.validate import sources

    if export is not None:
        yield sources.export_source(Path(export))
    elif mqis is not None:
        with (
            chosen.runner("mqdssm inventory") as runner,
            sources.open_mqis_source(runner, Path(mqis), chosen.on, mapping) as source,
        ):
            yield source
    else:
        with sources.open_directory_source(urls, access or {}, chosen) as source:
            yield source


def check_engine(engine: JobEngine) -> None:
    """Check that an engine could run here, and that rules can be read.

    Raises:
        ConfigError: what is missing and how to install it.
    """
    engine.check()
    require_packages("pyarrow", "numpy", "sqlglot", extra="pipeline")
