"""Export and validation, from a real server to findings."""

import json
import pickle
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from support.spark import SPARK_IN_SOAK

import mqdssm
from mqdssm.errors import ConfigError, DirectoryNotConnected
from mqdssm.pipeline.export import run as export_module
from mqdssm.pipeline.export.run import export
from mqdssm.pipeline.failures import SparkFailed
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.manifest import MANIFEST_NAME, SCHEMA_VERSION, ExportedType, Manifest, hash_file
from mqdssm.pipeline.validate.findings import ValidationSummary
from mqdssm.pipeline.validate.rules.rule import Finding
from mqdssm.pipeline.validate.run import validation
from mqdssm.spark import runner as runner_module
from mqdssm.spark.source import make_spark_schema

pytestmark = [pytest.mark.spark, pytest.mark.server]


@pytest.fixture(params=["local", "spark"])
def engine(request, monkeypatch) -> str:
    """Each of the engines: `export` and `validation` use it."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    for function in (export, validation):
        chosen = partial(function, engine=request.param)
        monkeypatch.setattr(sys.modules[__name__], function.__name__, chosen)
    return str(request.param)


def run(enterprise, folder: Path, *types: str) -> Manifest:
    return export(enterprise.server.url, types or tuple(FRAME_TYPES), folder, **enterprise.access)


def rows(folder: Path, manifest: dict, name: str) -> list[dict]:
    return [
        row
        for part in manifest["types"][name]["files"]
        for row in pq.read_table(folder / part["path"]).to_pylist()
    ]


def test_the_whole_directory_and_back(engine, enterprise, tmp_path) -> None:
    folder = tmp_path / "new" / "export"
    before = datetime.now(UTC).replace(microsecond=0)
    run(enterprise, folder)
    manifest = json.loads((folder / MANIFEST_NAME).read_text())
    assert manifest["server"] == enterprise.server.url
    assert manifest["naming_context"].lower() == enterprise.server.base_dn.lower()
    started, ended = (datetime.fromisoformat(manifest[name]) for name in ("started", "ended"))
    assert before <= started <= ended <= datetime.now(UTC)
    assert manifest["versions"]["pyspark"].startswith("4.")
    assert manifest["engine"] == engine
    assert manifest["consistent"] is True
    assert manifest["changed"] == []
    assert list(manifest["types"]) == list(FRAME_TYPES)
    with enterprise.connect() as directory:
        for name, frame in FRAME_TYPES.items():
            expected = [row for batch in read_batches(directory, frame) for row in batch.to_pylist()]
            found = rows(folder, manifest, name)
            assert sorted(found, key=str) == sorted(expected, key=str)
            assert manifest["types"][name]["rows"] == len(found)
            assert found


def test_files_are_as_the_manifest_says_and_no_others_are_left(engine, enterprise, tmp_path) -> None:
    folder = tmp_path / "out"
    manifest = run(enterprise, folder, "queue", "queue")
    (part,) = manifest.types["queue"].files
    path = folder / part.path
    assert {each for each in folder.rglob("*") if each.is_file()} == {folder / MANIFEST_NAME, path}
    assert (part.rows, part.sha256) == (pq.read_metadata(path).num_rows, hash_file(path))
    assert pq.read_metadata(path).row_group(0).column(0).compression == "UNCOMPRESSED"
    assert str(pq.read_schema(path).field("CreateTime").type) == "timestamp[us, tz=UTC]"
    assert manifest.types["queue"].columns["CreateTime"] == "timestamp[us, tz=UTC]"
    assert Manifest.load(folder) == manifest


@SPARK_IN_SOAK
def test_compressed(engine, enterprise, tmp_path) -> None:
    options = {"compression": "zstd", **enterprise.access}
    (part,) = export(enterprise.server.url, ["queue"], tmp_path / "out", **options).types["queue"].files
    assert pq.read_metadata(tmp_path / "out" / part.path).row_group(0).column(0).compression == "ZSTD"


def test_spark_reads_what_was_written(spark, enterprise, tmp_path) -> None:
    manifest = run(enterprise, tmp_path / "out", "queue", "ldap")
    for name, exported in manifest.types.items():
        frame = spark.read.parquet(*(str(tmp_path / "out" / part.path) for part in exported.files))
        assert frame.count() == exported.rows > 0
        assert frame.schema == make_spark_schema(FRAME_TYPES[name].columns)


def test_spark_reads_csv_as_the_documentation_says(spark, enterprise, tmp_path) -> None:
    with enterprise.connect() as directory:
        for place, text in enumerate(["", ' a "b" ', "line\nline"]):
            queue = directory.read(
                mqdssm.Queue, mqdssm.Filter("Pathname", "==", rf"web0{place % 2 + 1}\orders#{place}")
            )
            queue.label = text
            directory.write(queue)
    manifest = export(enterprise.server.url, ["queue"], tmp_path / "out", format="csv", **enterprise.access)
    options = {"header": True, "multiLine": True, "escape": '"', "nullValue": "\\N", "emptyValue": ""}
    paths = [str(tmp_path / "out" / part.path) for part in manifest.types["queue"].files]
    found = {row["Label"]: row for row in spark.read.options(**options).csv(paths).collect()}
    assert set(found) == {"", ' a "b" ', "line\nline"}
    assert {(row["OriginalIdentifier"], row["MulticastAddress"]) for row in found.values()} == {(None, "")}


def test_over_the_local_socket_without_a_password(engine, enterprise, tmp_path) -> None:
    assert export(enterprise.server.ldapi_url, ["site"], tmp_path / "out").types["site"].rows == 2


def test_a_folder_with_something_in_it_is_left_alone(enterprise, tmp_path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ConfigError, match="is not empty: an export needs a folder of its own"):
        run(enterprise, tmp_path)
    with pytest.raises(ConfigError, match="cannot be used: a file is there: name a folder"):
        run(enterprise, tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.parametrize("types", [["machine"], ["Queue"], ["queue", "all"], []])
def test_unknown_types_are_refused(types: list[str], tmp_path) -> None:
    with pytest.raises(ConfigError, match="one of enterprise, site, routing-link, queue-manager"):
        export("ldap://127.0.0.1:1", types, tmp_path)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"format": "xml"}, "'xml' is no format: use one of parquet, csv, jsonl, ldif"),
        ({"format": "ldif", "dialect": "novell"}, "'novell' is no dialect: use one of openldap, ad"),
        ({"dialect": "ad"}, "a dialect is for LDIF alone, not for parquet"),
        ({"compression": "lzo"}, "'lzo' is no compression"),
        ({"compression": "zstd", "format": "csv"}, "compression is for Parquet alone, not for csv"),
    ],
)
def test_options_that_do_not_go_together(tmp_path, more, words) -> None:
    with pytest.raises(ConfigError, match=words):
        export("ldap://127.0.0.1:1", ["queue"], tmp_path, **more)


@pytest.fixture
def no_spark(monkeypatch) -> None:
    """Fail where a JVM would be started."""

    def start(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("mqdssm.spark.runner.spark_session", start)


@pytest.mark.usefixtures("no_spark")
def test_a_server_that_does_not_let_us_in_is_found_before_java_starts(enterprise, tmp_path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(DirectoryNotConnected):
        export("ldap://127.0.0.1:1", ["queue"], folder)
    enterprise.access["password"] = "wrong"
    with pytest.raises(DirectoryNotConnected, match="49"):
        run(enterprise, folder)
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("no_spark")
def test_without_java_nothing_is_done(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match="needs Java 17"):
        export("ldap://127.0.0.1:1", ["queue"], tmp_path / "out", engine="spark")
    assert not (tmp_path / "out").exists()


def before_reading(monkeypatch, engine: str, step) -> None:
    """Do something when all is prepared, and before the workers begin."""
    real = export_module._read

    def stepping(task, chosen, **more) -> None:
        assert chosen.kind == engine
        step(task)
        real(task, chosen, **more)

    monkeypatch.setattr(export_module, "_read", stepping)


def test_a_server_that_goes_away_leaves_no_export(engine, enterprise, tmp_path, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        before_reading(patch, engine, lambda _: enterprise.server.kill())
        with pytest.raises(DirectoryNotConnected, match="go on with --resume"):
            run(enterprise, tmp_path / "out", "site", "queue")
    with pytest.raises(ConfigError, match="is no export, or one that did not end"):
        Manifest.load(tmp_path / "out")
    enterprise.server.start()
    found = export(
        enterprise.server.url, ["site", "queue"], tmp_path / "out", resume=True, **enterprise.access
    )
    assert found.types["queue"].rows == 3


def test_a_failure_of_sparks_own_leaves_no_export(spark, enterprise, tmp_path, monkeypatch) -> None:
    def crash(*_) -> None:
        raise ValueError("unforeseen")

    monkeypatch.setattr(runner_module, "_make_worker", lambda *_: crash)
    with pytest.raises(SparkFailed, match=r"Spark failed: .*unforeseen"):
        run(enterprise, tmp_path / "out", "site")
    assert not (tmp_path / "out" / MANIFEST_NAME).exists()


def test_the_password_is_in_no_file(engine, enterprise, tmp_path, monkeypatch) -> None:
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    seen = []

    def look(task) -> None:
        seen.append((list(private.iterdir()), task.access.password()))
        assert enterprise.server.password.encode() not in pickle.dumps(task)
        plan = tmp_path / "out" / ".export" / "plan.json"
        assert enterprise.server.password not in plan.read_text()

    before_reading(monkeypatch, engine, look)
    run(enterprise, tmp_path / "out", "site")
    assert seen == [([], enterprise.server.password)]
    assert list(private.iterdir()) == []


def test_the_events_of_spark_hold_no_password(spark, enterprise, tmp_path, event_log) -> None:
    run(enterprise, tmp_path / "out", "site", "ldap")
    told = b"".join(path.read_bytes() for path in event_log.rglob("*") if path.is_file())
    assert b"MapInArrow" in told
    assert enterprise.server.password.encode() not in told


def validate(folder: Path) -> tuple[ValidationSummary, list[Finding]]:
    with validation(folder) as found:
        return found.summary, list(found.findings)


@SPARK_IN_SOAK
def test_a_sound_directory_has_no_finding(engine, enterprise, tmp_path) -> None:
    run(enterprise, tmp_path / "out")
    summary, findings = validate(tmp_path / "out")
    assert findings == []
    assert {"guid-unique", "queue-manager-exists", "link-gates-exist"} <= {one.id for one in summary.rules}


@SPARK_IN_SOAK
def test_rules_that_need_other_types_are_skipped_and_named(engine, enterprise, tmp_path) -> None:
    run(enterprise, tmp_path / "out", "queue")
    summary, _ = validate(tmp_path / "out")
    assert {"guid-unique", "security-required"} <= {one.id for one in summary.rules}
    skipped = {one.id for one in summary.skipped}
    assert {"link-cost-range", "queue-manager-exists", "queue-manager-sites-exist"} <= skipped
    assert skipped.isdisjoint(one.id for one in summary.rules)


def test_planted_defects_are_found_and_nothing_else(engine, enterprise, tmp_path) -> None:
    with enterprise.connect() as directory:
        planted = plant(directory)
    run(enterprise, tmp_path / "out")
    _, found = validate(tmp_path / "out")
    assert {(each.rule, each.type, each.dn) for each in found} == planted
    assert len(found) == len(planted)


def plant(directory) -> set[tuple[str, str, str]]:
    """Break one thing for each rule, by plain LDAP as other programs would."""
    session = directory.session
    queues = {queue.label: queue for queue in directory.search(mqdssm.Queue)}
    site = next(directory.search(mqdssm.Site))
    link = next(directory.search(mqdssm.RoutingLink))
    machine = next(directory.search(mqdssm.QueueManager))
    twin, bare = queues["Größe 0"].full_path, queues["Größe 1"].full_path
    session.modify(twin, {"objectGUID": [site.identifier.bytes_le]})
    session.modify(bare, {"nTSecurityDescriptor": []})
    session.modify(link.full_path, {"mSMQCost": [b"1000000"]})
    session.modify(machine.full_path, {"mSMQSites": [uuid4().bytes_le, site.identifier.bytes_le]})
    stray = f"cn=stray,cn=Users,{session.naming.root}"
    session.add(
        stray,
        {
            "objectClass": [b"mSMQQueue"],
            "objectGUID": [uuid4().bytes_le],
            "nTSecurityDescriptor": [queues["Größe 2"].security],
        },
    )
    return {
        ("guid-unique", "queue", twin),
        ("guid-unique", "site", site.full_path),
        ("security-required", "queue", bare),
        ("link-cost-range", "routing-link", link.full_path),
        ("queue-manager-sites-exist", "queue-manager", machine.full_path),
        ("queue-manager-exists", "queue", stray),
    }


def test_what_is_no_export_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="is no export"):
        validate(tmp_path)


@SPARK_IN_SOAK
def test_a_truncated_file_is_refused(engine, enterprise, tmp_path) -> None:
    manifest = run(enterprise, tmp_path / "out", "site")
    part = tmp_path / "out" / manifest.types["site"].files[0].path
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(ConfigError, match="is not what was exported"):
        validate(tmp_path / "out")


def test_a_type_of_a_later_program_is_refused(tmp_path) -> None:
    now = datetime.now(UTC)
    Manifest(
        schema_version=SCHEMA_VERSION,
        server="",
        naming_context="DC=x",
        started=now,
        ended=now + timedelta(seconds=1),
        types={"connected-network": ExportedType(rows=0, files=())},
        versions={},
    ).write(tmp_path)
    with pytest.raises(ConfigError, match="connected-network, which this program does not know"):
        validate(tmp_path)
