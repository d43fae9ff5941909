"""Export and validation, from a real server to findings."""

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

import mqdssm
from mqdssm.errors import ConfigError, DirectoryNotConnected
from mqdssm.spark import export as export_module
from mqdssm.spark.arrow import batches
from mqdssm.spark.columns import TYPES, columns_of
from mqdssm.spark.export import export
from mqdssm.spark.failures import SparkFailed
from mqdssm.spark.manifest import MANIFEST_NAME, ExportedType, Manifest, sha256
from mqdssm.spark.rules import RULES
from mqdssm.spark.validate import validate

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.xdist_group("spark")]


def run(enterprise, folder: Path, *types: str) -> Manifest:
    return export(enterprise.server.url, types or tuple(TYPES), folder, **enterprise.access)


def rows(folder: Path, manifest: dict, name: str) -> list[dict]:
    return [
        row
        for part in manifest["types"][name]["files"]
        for row in pq.read_table(folder / part["path"]).to_pylist()
    ]


def test_the_whole_directory_and_back(spark, enterprise, tmp_path) -> None:
    folder = tmp_path / "new" / "export"
    before = datetime.now(UTC).replace(microsecond=0)
    run(enterprise, folder)
    manifest = json.loads((folder / MANIFEST_NAME).read_text())
    assert manifest["server"] == enterprise.server.url
    assert manifest["naming_context"].lower() == enterprise.server.base_dn.lower()
    started, ended = (datetime.fromisoformat(manifest[name]) for name in ("started", "ended"))
    assert before <= started <= ended <= datetime.now(UTC)
    assert manifest["versions"]["pyspark"].startswith("4.")
    assert list(manifest["types"]) == list(TYPES)
    with enterprise.connect() as directory:
        for name, element in TYPES.items():
            (expected,) = batches(directory.search(element), columns_of(element))
            names = expected.schema.names  # technical columns come behind them
            found = [{column: row[column] for column in names} for row in rows(folder, manifest, name)]
            assert sorted(found, key=str) == sorted(expected.to_pylist(), key=str)
            assert manifest["types"][name]["rows"] == len(found) > 0


def test_files_are_as_the_manifest_says_and_no_others_are_left(spark, enterprise, tmp_path) -> None:
    folder = tmp_path / "out"
    manifest = run(enterprise, folder, "queue", "queue")
    (part,) = manifest.types["queue"].files
    path = folder / part.path
    assert {each for each in folder.rglob("*") if each.is_file()} == {folder / MANIFEST_NAME, path}
    assert (part.rows, part.sha256) == (pq.read_metadata(path).num_rows, sha256(path))
    assert pq.read_metadata(path).row_group(0).column(0).compression == "UNCOMPRESSED"
    assert str(pq.read_schema(path).field("CreateTime").type) == "timestamp[us, tz=UTC]"
    assert Manifest.load(folder) == manifest


def test_over_the_local_socket_without_a_password(spark, enterprise, tmp_path) -> None:
    assert export(enterprise.server.ldapi_url, ["site"], tmp_path / "out").types["site"].rows == 2


def test_a_folder_with_something_in_it_is_left_alone(enterprise, tmp_path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ConfigError, match="is not empty: an export needs a folder of its own"):
        run(enterprise, tmp_path)
    with pytest.raises(ConfigError, match="cannot be used: File exists"):
        run(enterprise, tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.parametrize("types", [["machine"], ["Queue"], ["queue", "ldap"], []])
def test_unknown_types_are_refused(types: list[str], tmp_path) -> None:
    with pytest.raises(ConfigError, match="one of enterprise, site, routing-link, queue-manager"):
        export("ldap://127.0.0.1:1", types, tmp_path)


@pytest.fixture
def no_spark(monkeypatch) -> None:
    """Fail where a JVM would be started."""

    def start(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr(export_module, "spark_session", start)


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
        export("ldap://127.0.0.1:1", ["queue"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def before_each_type(monkeypatch, step) -> None:
    """Do something each time that an export begins with a type."""
    real = export_module._export_type

    def stepping(spark, name, folder, options):
        step(name, options)
        return real(spark, name, folder, options)

    monkeypatch.setattr(export_module, "_export_type", stepping)


def test_a_server_that_goes_away_leaves_no_export(spark, enterprise, tmp_path, monkeypatch) -> None:
    before_each_type(monkeypatch, lambda name, _: name == "queue" and enterprise.server.kill())
    with pytest.raises(DirectoryNotConnected):
        run(enterprise, tmp_path / "out", "site", "queue")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_failure_of_sparks_own_leaves_no_export(spark, enterprise, tmp_path, monkeypatch) -> None:
    def occupy(name: str, _) -> None:
        (tmp_path / "out" / ".staging").mkdir(exist_ok=True)
        (tmp_path / "out" / ".staging" / name).write_text("in the way")

    before_each_type(monkeypatch, occupy)
    with pytest.raises(SparkFailed, match=r"Spark failed: .*PATH_ALREADY_EXISTS"):
        run(enterprise, tmp_path / "out", "site")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_password_is_in_a_private_file_for_as_long_as_it_is_needed(
    spark, enterprise, tmp_path, monkeypatch
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    seen = []

    def look(_, options) -> None:
        (file,) = private.iterdir()
        seen.append((options["credentialsfile"] == str(file), oct(file.stat().st_mode), file.read_text()))
        assert enterprise.server.password not in str(options)

    before_each_type(monkeypatch, look)
    run(enterprise, tmp_path / "out", "site")
    assert seen == [(True, "0o100600", enterprise.server.password + "\n")]
    assert list(private.iterdir()) == []


def test_a_sound_directory_has_no_finding(spark, enterprise, tmp_path) -> None:
    run(enterprise, tmp_path / "out")
    result = validate(tmp_path / "out")
    assert result.findings == ()
    assert set(result.rules) == {rule.id for rule in RULES}
    assert result.skipped == ()


def test_rules_that_need_other_types_are_skipped_and_named(spark, enterprise, tmp_path) -> None:
    run(enterprise, tmp_path / "out", "queue")
    result = validate(tmp_path / "out")
    assert set(result.rules) == {"guid-unique", "security-required"}
    assert set(result.skipped) == {"link-cost-range", "queue-manager-exists", "queue-manager-sites-exist"}


def test_planted_defects_are_found_and_nothing_else(spark, enterprise, tmp_path) -> None:
    with enterprise.connect() as directory:
        planted = plant(directory)
    run(enterprise, tmp_path / "out")
    found = validate(tmp_path / "out").findings
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


def test_a_truncated_file_is_refused(spark, enterprise, tmp_path) -> None:
    manifest = run(enterprise, tmp_path / "out", "site")
    part = tmp_path / "out" / manifest.types["site"].files[0].path
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(ConfigError, match="is not what was exported"):
        validate(tmp_path / "out")


def test_a_type_of_a_later_program_is_refused(tmp_path) -> None:
    now = datetime.now(UTC)
    Manifest(
        schema_version=1,
        server="",
        naming_context="DC=x",
        started=now,
        ended=now + timedelta(seconds=1),
        types={"connected-network": ExportedType(rows=0, files=())},
        versions={},
    ).write(tmp_path)
    with pytest.raises(ConfigError, match="connected-network, which this program does not know"):
        validate(tmp_path)
