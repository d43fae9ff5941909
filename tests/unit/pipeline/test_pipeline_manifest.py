"""The manifest decides what an export is."""

import json
import os
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdssm.errors import ConfigError
from mqdssm.pipeline.export.objects import make_schema
from mqdssm.pipeline.manifest import (
    MANIFEST_NAME,
    SCHEMA_VERSION,
    ExportedFile,
    ExportedType,
    Manifest,
    hash_file,
)
from mqdssm.pipeline.validate.sources import export_source

STARTED = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


def manifest(**changes) -> Manifest:
    values = {
        "schema_version": SCHEMA_VERSION,
        "server": "ldap://127.0.0.1:389",
        "naming_context": "DC=example,DC=com",
        "started": STARTED,
        "ended": STARTED,
        "types": {},
        "versions": {"mqdssm": "0.1.0"},
    }
    return Manifest(**{**values, **changes})


@pytest.fixture
def export(tmp_path):
    part = tmp_path / "queue" / "part-00000.parquet"
    part.parent.mkdir()
    part.write_bytes(b"rows" * 1000)
    files = (ExportedFile(path="queue/part-00000.parquet", rows=7, sha256=hash_file(part)),)
    columns = {"Identifier": "string"}
    manifest(types={"queue": ExportedType(rows=7, files=files, columns=columns)}).write(tmp_path)
    return tmp_path


def test_shape_of_the_file(export) -> None:
    raw = json.loads((export / MANIFEST_NAME).read_text())
    digest = "419955cf635131852fec641499e63759167791b2a53d0d86cb5b5275c913a319"  # of sha256sum
    files = [{"path": "queue/part-00000.parquet", "rows": 7, "sha256": digest}]
    assert raw["types"] == {"queue": {"rows": 7, "files": files, "columns": {"Identifier": "string"}}}
    assert raw["started"] == "2025-01-02T03:04:05Z"
    assert set(raw) == {
        "schema_version",
        "server",
        "profile",
        "naming_context",
        "format",
        "dialect",
        "started",
        "ended",
        "resumed",
        "consistent",
        "changed",
        "types",
        "parents",
        "load_order",
        "engine",
        "versions",
    }


def test_there_and_back(export) -> None:
    loaded = Manifest.load(export)
    loaded.check(export)
    assert loaded.types["queue"].rows == 7
    assert loaded.started == STARTED


def test_nothing_else_is_left_behind(export) -> None:
    assert sorted(path.name for path in export.iterdir()) == [MANIFEST_NAME, "queue"]


def test_a_manifest_is_whole_or_absent(tmp_path, monkeypatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        manifest().write(tmp_path)
    assert not (tmp_path / MANIFEST_NAME).exists()


def test_a_folder_without_one_is_no_export(tmp_path) -> None:
    with pytest.raises(ConfigError, match="is no export, or one that did not end"):
        Manifest.load(tmp_path)
    with pytest.raises(ConfigError, match="is no export"):
        Manifest.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"schema_version": 2}', b"\xff\xff", b'{"types": {"a": 1}}']
)
def test_something_else_of_that_name(tmp_path, text: bytes) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(text)
    with pytest.raises(ConfigError, match=r"is no manifest of ours[^\n]*$"):
        Manifest.load(tmp_path)


def test_a_later_version(tmp_path) -> None:
    manifest(schema_version=SCHEMA_VERSION + 1).write(tmp_path)
    with pytest.raises(ConfigError, match="use a later one"):
        Manifest.load(tmp_path)


def test_an_earlier_version_says_to_export_again(tmp_path) -> None:
    manifest(schema_version=SCHEMA_VERSION - 1).write(tmp_path)
    with pytest.raises(ConfigError, match=r"of an earlier program whose columns were others: export again"):
        Manifest.load(tmp_path)


@pytest.mark.parametrize("path", ["../queue/x", "/etc/passwd", "queue/../../x", "queue", "queue\\x/y"])
def test_a_path_cannot_leave_the_folder(tmp_path, path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        ExportedFile(path=path, rows=0, sha256="0" * 64)


def test_a_file_that_changed_or_went(export) -> None:
    loaded = Manifest.load(export)
    part = export / "queue" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(ConfigError, match=r"part-00000.parquet is not what was exported"):
        loaded.check(export)
    part.unlink()
    with pytest.raises(ConfigError, match=r"part-00000.parquet of the export cannot be read"):
        loaded.check(export)


def test_what_is_no_export_is_said(tmp_path) -> None:
    with pytest.raises(ConfigError, match="gone is no export: there is no such folder"):
        Manifest.load(tmp_path / "gone")
    (tmp_path / "Queue.parquet").write_bytes(b"x")
    with pytest.raises(ConfigError, match="but MQIS tables; name it with --mqis"):
        Manifest.load(tmp_path)
    with pytest.raises(ConfigError, match="is no export but a file"):
        Manifest.load(tmp_path / "Queue.parquet")


def test_entries_as_they_are_are_nothing_to_judge(tmp_path) -> None:
    manifest(types={"ldap": ExportedType(rows=0, files=())}).write(tmp_path)
    with pytest.raises(ConfigError, match=r"entries as they are alone \(--type ldap\)"):
        export_source(tmp_path)


def sites(folder, **changes) -> None:
    """An export of two sites."""
    (folder / "site").mkdir()
    path = folder / "site" / "part-000-00000.parquet"
    names = pa.array(["Berlin", "Paris"])
    pq.write_table(
        pa.table(
            {one.name: names if one.name == "Name" else pa.nulls(2, one.type) for one in make_schema("site")}
        ),
        path,
    )
    file = ExportedFile(path="site/part-000-00000.parquet", rows=2, sha256=hash_file(path))
    exported = ExportedType(**({"rows": 2, "files": (file,)} | changes.pop("site", {})))
    manifest(types={"site": exported}, **changes).write(folder)


def test_what_is_validated_is_what_was_exported(tmp_path) -> None:
    sites(tmp_path)
    assert export_source(tmp_path).rows == 2
    with (tmp_path / "site" / "part-000-00000.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ConfigError, match=r"is not what was exported \(its SHA-256 differs\)"):
        export_source(tmp_path)


def test_as_many_objects_are_there_as_the_manifest_says(tmp_path) -> None:
    sites(tmp_path, site={"rows": 3})
    with pytest.raises(ConfigError, match="has 2 objects, its manifest says 3"):
        export_source(tmp_path)


@pytest.mark.parametrize("consistent", [True, False])
def test_an_export_of_no_single_moment_is_told_so(tmp_path, caplog, consistent: bool) -> None:
    sites(tmp_path, consistent=consistent)
    export_source(tmp_path)
    assert ("shows no single moment" in caplog.text) is not consistent
