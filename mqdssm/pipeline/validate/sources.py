"""Sources of a validation: an export, a directory, or MQIS tables.

A directory is exported first.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqdssm.errors import ConfigError
from mqdssm.model.dn import DN
from mqdssm.pipeline.engines import JobEngine
from mqdssm.pipeline.frames import columns
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.manifest import ExportedFile, Manifest
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.shared_folder import make_scratch
from mqdssm.pipeline.spark_options import HERE, SparkOptions
from mqdssm.pipeline.validate.datasets import Dataset, read_dataset, without_objects
from mqdssm.pipeline.validate.rules.attributes import SCHEMA_DRIFT
from mqdssm.pipeline.validate.rules.rule import DIRECTORY, FRAMES, Finding
from mqdssm.tables.places import enterprise_dn

if TYPE_CHECKING:
    from mqdssm.directory.session import Session
    from mqdssm.pipeline.access import PipelineLogIn

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ValidationSource:
    """Objects to validate.

    Attributes:
        name: for people.
        sets: the types.
        dns: DNs of types whose objects have no attribute with it.
        is_directory: True if the server's schema was compared.
        findings: about the server's schema.
    """

    name: str
    sets: Mapping[str, Dataset]
    dns: Mapping[str, str] = field(default_factory=dict)
    is_directory: bool = False
    findings: tuple[Finding, ...] = ()

    @property
    def rows(self) -> int:
        """Number of objects."""
        return sum(object_set.rows for object_set in self.sets.values())

    def list_present(self) -> dict[str, frozenset[str]]:
        """Return the types and their columns that rules can judge."""
        types = {name: frozenset(object_set.types) for name, object_set in self.sets.items()}
        return types | ({DIRECTORY: frozenset()} if self.is_directory else {})


def export_source(folder: Path, *, name: str = "") -> ValidationSource:
    """Return an export as a source, after checking that it is complete.

    Args:
        folder: of the export.
        name: for people; empty: the folder.

    Raises:
        ConfigError: no manifest, a damaged file, an unknown type, or another format than Parquet; only raw
            entries (``ldap``), which no rule judges: that would look like no defect.
    """
    manifest = Manifest.load(folder)
    unknown = [
        type_name for type_name in manifest.types if type_name not in FRAMES and type_name != columns.RAW_TYPE
    ]
    if unknown:
        raise ConfigError(
            f"{folder} holds type {unknown[0]}, which this program does not know: use a later one"
        )
    written = manifest.format
    if written != "parquet":
        raise ConfigError(f"{folder} was exported as {written}: validation reads Parquet; export with that")
    exports = {
        type_name: exported for type_name, exported in manifest.types.items() if type_name != columns.RAW_TYPE
    }
    if not exports:
        raise ConfigError(
            f"{folder} holds entries as they are alone (--type ldap): export the types of objects, as queue"
        )
    check(folder, [file for exported in exports.values() for file in exported.files])
    if not manifest.consistent:
        log.warning(
            "%s shows no single moment, its manifest says: what changed meanwhile may look like defects",
            name or folder,
        )
    sets = {
        type_name: read_dataset(type_name, [folder / file.path for file in exported.files])
        for type_name, exported in exports.items()
    }
    for kind, object_set in sets.items():
        if object_set.rows != exports[kind].rows:
            raise ConfigError(
                f"{folder / kind} has {object_set.rows} objects, its manifest says {exports[kind].rows}"
            )
    dns = {"enterprise": str(enterprise_dn(DN.parse(manifest.naming_context)))}
    return ValidationSource(name or str(folder), sets, dns)


def check(folder: Path, files: Sequence[ExportedFile]) -> None:
    """Compare the hashes of files with the manifest, several files at a time.

    Raises:
        ConfigError: a file is missing or differs.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for _ in pool.map(lambda file: file.check(folder), files):
            pass


def make_expected_source() -> ValidationSource:
    """Return the source that any directory gives, without objects."""
    sets = {name: without_objects(name, make_arrow_schema(expected)) for name, expected in FRAMES.items()}
    return ValidationSource("a directory", sets, is_directory=True)


@contextlib.contextmanager
def open_directory_source(
    urls: Sequence[str], login: "PipelineLogIn", engine: JobEngine
) -> Iterator[ValidationSource]:
    """Export a directory to a temporary folder, which is removed afterwards.

    Args:
        urls: one or several LDAP servers.
        login: how to log in.
        engine: exports it.

    Raises:
        ConfigError: as `export`.
        DirectoryError: the server cannot be reached, or refuses.
    """
    from mqdssm.pipeline.access import open_access
    from mqdssm.pipeline.export.run import export

    with open_access(urls, login, engine.on) as access, access.connect() as directory:
        drift = tuple(find_schema_drift(directory.session))
    types = tuple(columns.FRAME_TYPES)
    with make_scratch(engine.on, "mqdssm-validate-") as scratch_folder:
        folder = scratch_folder / "export"
        manifest = export(
            urls,
            [type_name for type_name in types if type_name in FRAMES],
            folder,
            **engine.arguments(),
            **login,
        )
        source = export_source(folder, name=manifest.server)
        yield ValidationSource(source.name, source.sets, source.dns, is_directory=True, findings=drift)


def find_schema_drift(session: "Session") -> Iterator[Finding]:
    """Compare the server's schema with the required one.

    Serious differences are yielded as findings.

    Raises:
        ConfigError: the server does not show its schema.
        DirectoryError: it cannot be read.
    """
    from mqdssm.directory.schema_check import differences_of, find_subschema_dn

    place = find_subschema_dn(session)
    for difference in differences_of(session):
        if difference.serious:
            yield SCHEMA_DRIFT.finding(DIRECTORY, str(difference), dn=place)


@contextlib.contextmanager
def open_mqis_source(
    runner: Runner,
    folder: Path,
    on: SparkOptions = HERE,
    mapping: Path | None = None,
    check: Callable[[ValidationSource], None] | None = None,
) -> Iterator[ValidationSource]:
    """Convert MQIS tables into temporary files, which are removed afterwards.

    Args:
        runner: does the work.
        folder: of the tables.
        on: where the runner works.
        mapping: mapping file with names and encodings; None: as in MQIS, in UTF-8.
        check: is called before the conversion with the source, still without objects, and may raise.

    Raises:
        ConfigError: there are no MQIS tables, or damaged ones, or the mapping cannot be used.
    """
    from mqdssm.pipeline.mqis.folder import describe_left_out, find_files, read_source_table
    from mqdssm.pipeline.mqis.mapping import SourceMapping, load_mapping
    from mqdssm.pipeline.validate.mqis_sets import make_expected_sets, write_mqis_sets

    mapped = SourceMapping() if mapping is None else load_mapping(mapping)
    tables = tuple(read_source_table(files, mapped) for files in find_files(folder, mapped).values())
    for words in describe_left_out(folder, tables, mapped):
        log.warning("%s: %s", folder, words)
    if check is not None:
        check(ValidationSource(str(folder), make_expected_sets(tables)))
    with make_scratch(on, "mqdssm-validate-") as scratch_folder:
        yield ValidationSource(str(folder), write_mqis_sets(runner, tables, mapped, scratch_folder))
