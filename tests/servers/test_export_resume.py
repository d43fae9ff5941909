"""An export that broke off goes on where it was, or says why it cannot."""

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.directory.ldif_reader import comparable, read_ldif
from support.servers.bad_places import small_disk
from support.spark import LOCAL_ENGINE
from support.spark.engines import chosen_engine
from support.spark.exports import access_to, after_reading, around_next_work, breaks_after, contents
from support.spark.exports import export_here as export

import mqdssm
from mqdssm.errors import ConfigError, DirectoryNotConnected, GenericDirectoryError, MqdssmError
from mqdssm.events.durable_files import lock_file
from mqdssm.pipeline.export import load_order, objects
from mqdssm.pipeline.export import run as export_module
from mqdssm.pipeline.export.journal import WORK_NAME, ExportPlan
from mqdssm.pipeline.export.run import Progress
from mqdssm.pipeline.export.worker import STOP_NAME, as_config_error
from mqdssm.pipeline.manifest import MANIFEST_NAME, Manifest
from mqdssm.testing.openldap import OpenLdapServer

QUEUES = 60

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("engine")]


@pytest.fixture(scope="module")
def server():
    with OpenLdapServer(durable=False) as made, mqdssm.connect(made.url, **access_to(made)) as directory:
        site = directory.create(mqdssm.Site(name="Berlin"))
        for n in range(3):
            made.add_computer(f"web{n}")
            directory.create(mqdssm.QueueManager(computer_name=f"web{n}", site_identifier_list=[site]))
        for m in range(QUEUES):
            directory.create(mqdssm.Queue(pathname=rf"web{m % 3}\q{m}"))
        yield made


def run(server, folder: Path, *types: str, **more) -> Manifest:
    return export(server.url, types or ("site", "queue"), folder, file_rows=8, **(access_to(server) | more))


def broken(server, folder: Path, monkeypatch, count: int = 3, **more) -> None:
    breaks_after(monkeypatch, count)
    with pytest.raises(MqdssmError, match=r"broken off; what is complete stays in .*: go on with --resume"):
        run(server, folder, **more)
    assert not (folder / MANIFEST_NAME).exists()


def guids(folder: Path, manifest: Manifest, name: str = "queue") -> list[str]:
    tables = [pq.read_table(folder / one.path) for one in manifest.types[name].files]
    manifest.check(folder)
    return sorted(pa.concat_tables(tables)["Identifier"].to_pylist())


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("*/part-*")}


@pytest.mark.both_engines
def test_it_goes_on(server, tmp_path, monkeypatch) -> None:
    whole = guids(tmp_path / "whole", run(server, tmp_path / "whole"))
    folder = tmp_path / "out"
    broken(server, folder, monkeypatch)
    before = files(folder)
    assert 3 <= len(before) < 9  # workers of Spark's may be two
    assert chosen_engine() == "spark" or len(before) == 3
    (folder / WORK_NAME / STOP_NAME).touch()  # by which a failed worker tells the others
    plan = ExportPlan.load(folder / WORK_NAME)
    plan.model_copy(update={"started": plan.started - timedelta(hours=2)}).write(folder / WORK_NAME)
    manifest = run(server, folder, resume=True)
    assert manifest.ended - manifest.started > timedelta(hours=1)  # since it began for the first time
    assert guids(folder, manifest) == whole
    assert len(whole) == QUEUES
    assert {name: data for name, data in files(folder).items() if name in before} == before
    assert manifest.resumed == 1
    assert not (folder / WORK_NAME).exists()


@pytest.mark.parametrize("dialect", ["openldap", "ad"])
def test_ldif_goes_on(server, tmp_path, monkeypatch, dialect) -> None:
    more = {"format": "ldif", "dialect": dialect}
    whole = run(server, tmp_path / "whole", "ldap", **more)
    folder = tmp_path / "out"
    breaks_after(monkeypatch, 4)
    with pytest.raises(MqdssmError, match="broken off"):
        run(server, folder, "ldap", **more)
    manifest = run(server, folder, "ldap", resume=True, **more)
    texts = [contents(at, one, "ldap") for at, one in ((tmp_path / "whole", whole), (folder, manifest))]
    assert comparable(read_ldif(texts[0])) == comparable(read_ldif(texts[1]))
    assert manifest.types["ldap"].rows == whole.types["ldap"].rows == len(list(read_ldif(texts[1])))


def test_again_and_again(server, tmp_path, monkeypatch) -> None:
    broken(server, tmp_path / "out", monkeypatch, 1)
    for _ in range(3):
        breaks_after(monkeypatch, 1)
        with pytest.raises(MqdssmError, match="broken off"):
            run(server, tmp_path / "out", resume=True)
    manifest = run(server, tmp_path / "out", resume=True)
    assert manifest.resumed == 4
    assert len(set(guids(tmp_path / "out", manifest))) == manifest.types["queue"].rows == QUEUES


def test_a_damaged_file_and_a_half_line_are_made_anew(server, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "out"
    broken(server, folder, monkeypatch, 4)
    damaged, lost = sorted((folder / "queue").iterdir())[:2]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    lost.unlink()
    (folder / "queue" / "part-000-00099.parquet").write_bytes(b"half")
    with (folder / WORK_NAME / "journal" / "queue-000.jsonl").open("ab") as journal:
        journal.write(b'{"file": {"path": "queue/part-0')
    manifest = run(server, folder, resume=True)
    assert len(set(guids(folder, manifest))) == manifest.types["queue"].rows == QUEUES
    assert set(files(folder)) == {file.path for one in manifest.types.values() for file in one.files}


def test_what_is_above_the_objects_is_written_anew(server, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(load_order, "_find_changed", lambda *_: 1 / 0)  # when the files of LDIF are all there
        with pytest.raises(ZeroDivisionError):
            run(server, folder, "queue", format="ldif")
    (folder / load_order.PARENTS / "part-009-000-00000.ldif").write_text("half")
    manifest = run(server, folder, "queue", format="ldif", resume=True)
    assert manifest.parents
    assert set(files(folder)) == set(manifest.load_order)


def test_what_was_finished_is_looked_at_again_too(server, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(export_module, "_describe_type", lambda *_: 1 / 0)  # behind all of the work
        with pytest.raises(ZeroDivisionError):
            run(server, folder)
    (folder / "site" / "part-000-00000.parquet").unlink()
    manifest = run(server, folder, resume=True)
    assert manifest.types["site"].rows == 1
    assert len(guids(folder, manifest)) == QUEUES


@pytest.mark.parametrize(
    ("types", "more", "words"),
    [
        (["queue"], {}, r"was begun with types site, queue, not queue: resume it with the same"),
        (["site", "queue"], {"format": "csv"}, "was begun with format parquet, not csv"),
        (["site", "queue"], {"compression": "zstd"}, "was begun with compression none, not zstd"),
        (
            ["site", "queue"],
            {"naming_context": "cn=Users,dc=example,dc=com"},
            "was begun with naming context",
        ),
    ],
)
def test_other_arguments_are_refused(server, tmp_path, monkeypatch, types, more, words) -> None:
    broken(server, tmp_path / "out", monkeypatch)
    before = files(tmp_path / "out")
    with pytest.raises(ConfigError, match=words):
        run(server, tmp_path / "out", *types, resume=True, **more)
    assert files(tmp_path / "out") == before


def test_without_resume_an_unfinished_one_is_left_alone(server, tmp_path, monkeypatch) -> None:
    broken(server, tmp_path / "out", monkeypatch)
    with pytest.raises(ConfigError, match="holds an unfinished export: go on with --resume"):
        run(server, tmp_path / "out")


def test_a_kill_after_the_manifest_leaves_a_whole_export(server, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(export_module.ExportFolder, "finish", lambda _: None)
    run(server, tmp_path / "out")
    assert (tmp_path / "out" / WORK_NAME).is_dir()
    with pytest.raises(ConfigError, match="is not empty"):  # not: go on with --resume, which says no, too
        run(server, tmp_path / "out")
    with pytest.raises(ConfigError, match="is complete: there is nothing to resume"):
        run(server, tmp_path / "out", resume=True)


def test_nothing_to_resume(server, tmp_path) -> None:
    run(server, tmp_path / "out")
    with pytest.raises(ConfigError, match="is complete: there is nothing to resume"):
        run(server, tmp_path / "out", resume=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("precious")
    with pytest.raises(ConfigError, match="holds no unfinished export: there is nothing to resume"):
        run(server, tmp_path / "mine", resume=True)
    assert run(server, tmp_path / "fresh", resume=True).resumed == 0  # for scripts that always say so


@pytest.mark.parametrize("place", ["s3a://bucket/export", "hdfs:///export", "file:///tmp/export"])
def test_addresses_are_no_folders(server, tmp_path, monkeypatch, place) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="is no folder: an export needs one of this machine"):
        run(server, Path(place))
    assert not list(tmp_path.iterdir())


def test_two_at_once_in_one_folder(server, tmp_path, monkeypatch) -> None:
    broken(server, tmp_path / "out", monkeypatch)
    lock = tmp_path / "out" / WORK_NAME / "lock"
    with lock_file(lock, wait_s=0, message=""), pytest.raises(ConfigError, match="another export is writing"):
        run(server, tmp_path / "out", resume=True)


def test_a_worker_of_a_killed_export_is_waited_for(server, tmp_path, monkeypatch) -> None:
    broken(server, tmp_path / "out", monkeypatch)
    around_next_work(monkeypatch, partial(patch, "mqdssm.pipeline.export.worker.LOCK_WAIT_S", 0.2))
    lock = tmp_path / "out" / WORK_NAME / "journal" / "queue-000.lock"
    with lock_file(lock, wait_s=0, message=""), pytest.raises(ConfigError, match="wait for its end"):
        run(server, tmp_path / "out", resume=True)


def test_somebody_watches(server, tmp_path, monkeypatch) -> None:
    after_reading(monkeypatch, lambda: time.sleep(0.3))
    monkeypatch.setattr(export_module, "PROGRESS_S", 0.05)
    seen: list[Progress] = []
    run(server, tmp_path / "out", "queue", watch=seen.append)
    assert seen[-1] == Progress(QUEUES, QUEUES)


@contextmanager
def before_reading(step: Callable[[str], object]) -> Iterator[None]:
    """Let a worker do something before it reads a type."""
    real = objects.read

    def read(*args):
        step(args[1])
        return real(*args)

    with patch.object(objects, "read", read):
        yield


@contextmanager
def killing(pid: int) -> Iterator[None]:
    """Let a worker kill a program before it reads queues."""
    with before_reading(lambda name: os.kill(pid, signal.SIGKILL) if name == "queue" else None):
        yield


@contextmanager
def failing_elsewhere(folder: Path) -> Iterator[None]:
    """Let a worker find that another one has failed."""
    with before_reading(lambda _: (folder / WORK_NAME / STOP_NAME).touch()):
        yield


def test_a_server_that_stays_away(tmp_path, monkeypatch) -> None:
    with OpenLdapServer(durable=False) as server:
        around_next_work(monkeypatch, partial(killing, server.pid))
        with pytest.raises(DirectoryNotConnected, match=r"what is complete stays in .*: go on with --resume"):
            run(server, tmp_path / "out")
        assert sorted(files(tmp_path / "out")) == ["site/part-000-00000.parquet"]
        server.kill()
        server.start()
        assert run(server, tmp_path / "out", resume=True).types["queue"].rows == 0


def test_when_one_worker_fails_the_others_end(server, tmp_path, monkeypatch) -> None:
    around_next_work(monkeypatch, partial(failing_elsewhere, tmp_path))
    with pytest.raises(MqdssmError, match="another part of the export failed"):
        run(server, tmp_path)
    assert not (tmp_path / MANIFEST_NAME).exists()


@LOCAL_ENGINE
def test_errors_of_the_system_name_the_folder(tmp_path) -> None:
    words = str(as_config_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), tmp_path))
    why = "No space left on device; when that is mended, go on with --resume"
    assert words == f"the export to {tmp_path} failed: {why}"


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    with small_disk(tmp_path / "small") as folder:
        yield folder


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_full_disk(server, disk, kind) -> None:
    folder = disk / "out"
    filler = disk / "filler"
    filler.write_bytes(bytes(900_000))
    with pytest.raises(ConfigError, match=rf"the export to {folder} failed: .*No space left on device"):
        run(server, folder, "queue", "ldap", format=kind)
    assert not (folder / MANIFEST_NAME).exists()
    with pytest.raises(ConfigError, match="is no export, or one that did not end"):
        Manifest.load(folder)
    filler.unlink()
    manifest = run(server, folder, "queue", "ldap", format=kind, resume=True)
    manifest.check(folder)
    assert manifest.types["queue"].rows == QUEUES


def test_entries_of_a_directory_without_msmq(tmp_path) -> None:
    with OpenLdapServer(durable=False) as server:
        with mqdssm.connect(server.url, **access_to(server)) as directory:
            directory.session.delete("CN=MsmqServices,CN=Services,CN=Configuration,dc=example,dc=com")
        assert run(server, tmp_path / "out", "ldap").types["ldap"].rows == 6
        with pytest.raises(GenericDirectoryError, match="is no MSMQ directory"):
            run(server, tmp_path / "other", "queue")
    assert list((tmp_path / "other").iterdir()) == []
