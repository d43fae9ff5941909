"""The runner of this machine: little work here, the rest in processes that may crash, fail and be stopped."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.project.source_tree import ROOT
from support.spark.runner_work import MINUTE_S, TestWork, are_gone, begun_pids, job

from mqdssm.errors import ConfigError, DecodeError, GenericDirectoryError
from mqdssm.pipeline import local
from mqdssm.pipeline.local import (
    SIGNALS,
    WORKER_BYTES,
    LocalRunner,
    WorkerDiedError,
    WorkerProcess,
    choose_workers,
)
from mqdssm.pipeline.runner import ATTEMPTS, Stopped, StopRequest, WorkerFailed
from mqdssm.pipeline.worker import GRACE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the pieces of work look into /proc"),
]


@pytest.fixture
def work(tmp_path):
    def make(kind: str, **more) -> TestWork:
        return TestWork(tmp_path, kind, **more)

    return make


@pytest.fixture(autouse=True)
def _started_workers(monkeypatch):
    """Start workers as the product does: tests fork them elsewhere."""
    monkeypatch.setattr(local, "subprocess", subprocess)


@pytest.fixture(autouse=True)
def no_process_is_left(_started_workers):
    yield
    mine = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in mine]
    assert not [command for command in commands if b"mqdssm.pipeline.worker" in command]


def test_results_come_in_the_order_of_their_numbers(work) -> None:
    done = []
    found = LocalRunner(2).run(job(work("square"), 12), on_done=lambda *now: done.append(now))
    assert [value for value, _ in found] == [number * number for number in range(12)]
    assert len({pid for _, pid in found} - {os.getpid()}) == 2
    assert done == [(count, 12) for count in range(1, 13)]
    # each worker opens once, and closes in peace
    assert len(work("").names("opened-")) == len(work("").names("closed-")) == 2


def test_an_idle_worker_ends_with_its_input(work) -> None:
    worker = WorkerProcess()
    worker.prepare(pickle.dumps(work("square")))
    assert worker.ask(0)
    worker.release()
    worker.end(MINUTE_S)
    worker.close()
    assert worker._process.returncode == 0  # 1 after GRACE_S, where it waits for more pieces


def test_kept_workers_do_the_next_job(work, tmp_path) -> None:
    """Each job opens and closes its own resources; the end of the context ends the processes."""
    with LocalRunner(2) as runner:
        jobs = [{pid for _, pid in runner.run(job(work("square"), 12))} for _ in range(2)]
        assert len(work("").names("closed-")) == 2  # as soon as the job has ended
        first, second = sorted(jobs[0])
        os.kill(first, signal.SIGKILL)
        assert are_gone([first])
        found = runner.run(job(work("square"), 12))
        assert [value for value, _ in found] == [number * number for number in range(12)]
        assert first not in {pid for _, pid in found}
    assert jobs[0] == jobs[1] == {first, second}
    assert second in {pid for _, pid in found}
    assert are_gone([pid for _, pid in found])


def test_no_worker_is_kept_that_failed_or_was_stopped(work) -> None:
    with LocalRunner(2) as runner:
        with pytest.raises(GenericDirectoryError):
            runner.run(job(work("fail"), 4))
        stop, waiting = StopRequest(), work("wait")
        for name in waiting.names("begun-"):
            (waiting.folder / name).unlink()
        threading.Thread(target=lambda: (begun_pids(waiting, 2), stop.set())).start()
        with pytest.raises(Stopped):
            runner.run(job(waiting, 2), stop=stop)
        stopped = begun_pids(waiting, 2)
        found = runner.run(job(work("square"), 12))
        assert [value for value, _ in found] == [number * number for number in range(12)]
        assert not {pid for _, pid in found} & set(stopped)


@pytest.mark.parametrize(
    ("workers", "count", "is_small"), [(2, 12, True), (1, 12, False), (2, 1, False)], ids=str
)
def test_little_work_is_done_in_this_process(work, workers, count, is_small) -> None:
    done = []
    found = LocalRunner(workers).run(
        job(work("square"), count, is_small=is_small), on_done=lambda *now: done.append(now)
    )
    assert found == [(number * number, os.getpid()) for number in range(count)]
    assert done == [(number, count) for number in range(1, count + 1)]


def test_nothing_to_do(work) -> None:
    assert LocalRunner(2).run(job(work("square"), 0)) == []
    assert work("").names("opened-") == []


def test_no_worker_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="one worker at least"):
        LocalRunner(0)


def test_only_the_piece_of_a_killed_worker_is_done_again(work) -> None:
    found = LocalRunner(2).run(job(work("crash_once")))
    assert [value for value, _ in found] == [number * number for number in range(6)]
    done = work("").names("done-")
    assert [name.split("-")[1] for name in done] == [str(number) for number in range(6)]
    assert len(work("").names("opened-")) == 3


def test_a_piece_that_kills_every_worker_is_named(work) -> None:
    words = f"piece 1 failed: its worker crashed {ATTEMPTS} times, the last time killed by SIGKILL"
    with pytest.raises(WorkerFailed, match=words):
        LocalRunner(2).run(job(work("crash")))
    assert len(work("").names("crash-")) == ATTEMPTS


def test_the_last_words_of_a_worker_are_told(work) -> None:
    with pytest.raises(WorkerFailed, match="exit code 7: last words"):
        LocalRunner(2).run(job(work("leave")))


def test_an_error_keeps_its_class_and_attributes_and_ends_the_others(work) -> None:
    started = time.monotonic()
    with pytest.raises(GenericDirectoryError) as found:
        LocalRunner(3).run(job(work("fail"), 4))
    error = found.value
    assert (error.message, error.dn, error.ldap_code, error.hint) == ("refused", "cn=x", 53, "do not")
    assert time.monotonic() - started < 30  # the others would wait for a minute


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_whose_arguments_are_not_its_text(work, workers) -> None:
    with pytest.raises(DecodeError) as found:
        LocalRunner(workers).run(job(work("fail_to_decode")))
    assert (found.value.field, found.value.offset) == ("Owner", 3)


def test_errors_that_no_one_foresaw_are_not_tried_again(work) -> None:
    with pytest.raises(WorkerFailed, match="a worker failed: KeyError: 'unforeseen'"):
        LocalRunner(2).run(job(work("fail_unforeseen")))
    with pytest.raises(WorkerFailed, match=r"a worker failed: .*pickle"):
        LocalRunner(2).run(job(work("unpicklable")))
    assert len(work("").names("opened-")) <= 4


def test_stopping_from_another_thread(work) -> None:
    stop, waiting = StopRequest(), work("wait")
    threading.Thread(target=lambda: (begun_pids(waiting, 2), stop.set())).start()
    with pytest.raises(Stopped):
        LocalRunner(2).run(job(waiting), stop=stop)
    assert len(waiting.names("begun-")) == 2
    assert sorted(waiting.names("ended-")) == ["ended-0", "ended-1"]  # at a safe place


def test_a_piece_that_does_not_stop_is_killed(work) -> None:
    stop, hanging = StopRequest(), work("hang")
    threading.Thread(target=lambda: (begun_pids(hanging, 2), stop.set())).start()
    started = time.monotonic()
    with pytest.raises(Stopped):
        LocalRunner(2).run(job(hanging), stop=stop)
    assert time.monotonic() - started < 40
    assert are_gone(begun_pids(hanging, 2))


SCRIPT = """
import sys
from pathlib import Path
from mqdssm.pipeline import local
from mqdssm.pipeline.local import LocalRunner
from support.spark.runner_work import TestWork, job
local.GRACE_S = float(sys.argv[4])
with (Path(sys.argv[1]) / "script").open("a") as file:
    file.write("run\\n")
try:
    with LocalRunner(int(sys.argv[3])) as runner:
        before = Path(sys.argv[1]) / "before"
        before.mkdir()
        runner.run(job(TestWork(before, "square")))  # its workers do the next job, too
        runner.run(job(TestWork(Path(sys.argv[1]), sys.argv[2])))
except KeyboardInterrupt:
    sys.exit(77)
"""


def script(folder: Path, kind: str, workers: int = 2, grace_s: float = GRACE_S) -> subprocess.Popen[bytes]:
    """A user's script: its code is not guarded by ``if __name__ == "__main__"``."""
    (folder / "script.py").write_text(SCRIPT)
    places = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    return subprocess.Popen(
        [sys.executable, str(folder / "script.py"), str(folder), kind, str(workers), str(grace_s)],
        env={**os.environ, "PYTHONPATH": places},
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("kind", ["wait", "hang"])
def test_workers_end_when_their_parent_is_killed(work, tmp_path, kind) -> None:
    with script(tmp_path, kind) as process:
        pids = begun_pids(work(kind), 2)
        process.kill()
    assert are_gone(pids)
    assert len(work("").names("ended-")) == (2 if kind == "wait" else 0)
    assert (tmp_path / "script").read_text() == "run\n"  # by no worker once more


def test_ctrl_c_stops_at_a_safe_place(work, tmp_path) -> None:
    with script(tmp_path, "wait") as process:
        pids = begun_pids(work("wait"), 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (77, b"")
    assert work("").names("ended-") == ["ended-0", "ended-1"]
    assert are_gone(pids)


def test_ctrl_c_in_this_process_stops_at_a_safe_place(work, tmp_path) -> None:
    with script(tmp_path, "wait", 1) as process:
        begun_pids(work("wait"), 1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (77, b"")
    assert work("").names("ended-") == ["ended-0"]
    assert len(work("").names("closed-")) == 0  # it was left by an error


@pytest.mark.parametrize(("times", "grace_s"), [(1, 0.3), (2, 50.0)])
def test_ctrl_c_ends_a_piece_without_a_safe_place(work, tmp_path, times, grace_s) -> None:
    """When its time is over, or at the second one."""
    with script(tmp_path, "hang", 1, grace_s) as process:
        begun_pids(work("hang"), 1)
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        if times == 2:
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (77, b"")
    assert time.monotonic() - started < 40


def test_signals_have_their_handlers_again(work) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    LocalRunner(1).run(job(work("square"), 2))
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_terminated_worker_stops_at_a_safe_place_and_its_piece_is_done_again(work) -> None:
    runner, slow = LocalRunner(2), work("wait_once")
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(runner.run(job(slow, 2))))
    thread.start()
    pids = begun_pids(slow, 2)
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    thread.join(60)
    assert found == [0, 1]
    assert slow.names("ended-") == ["ended-0", "ended-1"]
    assert len(slow.names("opened-")) == 4


def test_a_terminated_worker_without_a_safe_place_ends_all_the_same(work) -> None:
    """Two hang in pieces that others do again; one waits for work, and one gets work then."""
    idle, asked = WorkerProcess(), WorkerProcess()
    for process in (idle, asked):
        process.prepare(pickle.dumps(work("square")))
        assert process.ask(0)
    hanging = work("hang_once")
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(LocalRunner(2).run(job(hanging, 2))))
    thread.start()
    pids = begun_pids(hanging, 2)
    started = time.monotonic()
    for pid in (*pids, idle.pid, asked.pid):
        os.kill(pid, signal.SIGTERM)
    with pytest.raises(WorkerDiedError, match="exit code 143"):
        list(map(asked.ask, range(1000)))  # the signal may come after the first piece
    assert time.monotonic() - started < GRACE_S
    idle.end(MINUTE_S)
    assert GRACE_S - 0.5 <= time.monotonic() - started < MINUTE_S
    with pytest.raises(WorkerDiedError, match="exit code 143"):
        idle.ask(1)
    thread.join(60)
    assert found == [0, 1]
    assert time.monotonic() - started < MINUTE_S
    assert are_gone(pids)
    for process in (idle, asked):
        process.close()


def test_what_a_worker_shows_of_itself(work, monkeypatch) -> None:
    monkeypatch.setenv("MQDSSM_PASSWORD", "of the environment")
    for seen in LocalRunner(2).run(job(work("look", secret="of the work"), 4)):
        assert seen["pid"] != os.getpid()
        assert seen["secret"] == "of the work"  # it arrived
        for secret in (b"of the environment", b"of the work"):
            assert secret not in seen["command"] + seen["environment"]
        assert not seen["has_pandas"]
        assert seen["path"] == sys.path


def test_default_workers(tmp_path) -> None:
    def place(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    cores = len(os.sched_getaffinity(0))
    assert choose_workers(tmp_path) == cores
    place("proc/meminfo", f"MemTotal: 1 kB\nMemAvailable:  {100 * WORKER_BYTES // 1024} kB\n")
    place("sys/fs/cgroup/cpu.max", "max 100000\n")
    assert choose_workers(tmp_path) == cores
    place("sys/fs/cgroup/cpu.max", "50000 100000\n")
    assert choose_workers(tmp_path) == 1
    place("sys/fs/cgroup/cpu.max", "max 100000\n")
    place("sys/fs/cgroup/memory.max", f"{3 * WORKER_BYTES}\n")
    place("sys/fs/cgroup/memory.current", f"{2 * WORKER_BYTES}\n")
    assert choose_workers(tmp_path) == 1
    place("sys/fs/cgroup/memory.current", f"{4 * WORKER_BYTES}\n")
    assert choose_workers(tmp_path) == 1


def test_a_signal_whose_exception_was_lost_acts_at_the_end() -> None:
    """As in a finalizer, whose exceptions Python prints and drops."""
    called = []

    def interrupt(number: int, _frame: object) -> None:
        called.append(number)
        raise KeyboardInterrupt

    def work() -> None:
        with local.defer_signals(StopRequest()):
            signal.raise_signal(signal.SIGTERM)
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            raise Stopped("the work was stopped")

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert called == [signal.SIGTERM] * 2
