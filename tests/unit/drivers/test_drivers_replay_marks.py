"""Recorded messages, restarts and wrong clocks (decision R180)."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.replication.queue_managers import guid_of, key_of, sender_of, signed

from mqdssm.drivers.authentication.keyring import PinnedKeys
from mqdssm.drivers.authentication.replay_detection import AGE_MAX_S, ReplayDetector
from mqdssm.drivers.authentication.replay_marks import LEAD_S, ReplayMarks
from mqdssm.drivers.authentication.signatures import Distrust, Signer, Verified, Verifier
from mqdssm.engines.replication.state import REQUEST_TIMEOUT_S
from mqdssm.errors import ConfigError
from mqdssm.model.transport import replication_queue

NOW = 1_700_000_000
AHEAD = 5 * 3600


class Machine:
    """A machine that starts servers, with a clock that goes on and another one that can be set."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.up_s = 0.0
        self.wrong_s = 0.0
        self.marks: ReplayMarks | None = None

    @property
    def now(self) -> float:
        return NOW + self.up_s + self.wrong_s

    def crash(self) -> None:
        """Let go of the file as the end of a process does: what was not written is gone."""
        if self.marks is not None:
            self.marks._document.close()
        self.marks = None

    def start(self) -> None:
        self.crash()
        self.marks = None if self.file is None else ReplayMarks(self.file)
        self.replays = ReplayDetector(self.now, marks=self.marks, monotonic=lambda: self.up_s)

    def admits(self, date: int, signature: bytes = b"", sender: str = "psc1") -> bool:
        if not self.replays.is_in_time(date, self.now):
            return False
        return self.replays.admit(sender, date, signature or b"%d" % date, self.now)


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path / "marks.json")
    yield made
    made.crash()


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
@pytest.mark.parametrize("kept", [True, False])
def test_a_server_that_starts_with_its_clock_ahead_hears_others_when_the_clock_is_right(kept, machine):
    if not kept:
        machine.file = None
    machine.wrong_s = AHEAD
    machine.start()
    assert not machine.admits(NOW)
    machine.up_s += 60
    machine.wrong_s = 0
    assert machine.admits(NOW + 60)
    assert not machine.admits(NOW + 60)
    assert not machine.admits(NOW - 1), "from before the start"


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
def test_what_was_taken_from_a_clock_ahead_is_not_taken_again_after_a_restart(machine):
    """Its sender's clock is half an hour ahead: the message is dated behind our next start."""
    machine.start()
    assert machine.admits(NOW + 1800)
    machine.up_s += 600
    machine.start()
    assert not machine.admits(NOW + 1800)
    assert machine.admits(NOW + 1801 + LEAD_S)
    assert machine.admits(NOW + 600, sender="psc2"), "others are heard as before"


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
def test_what_was_taken_is_not_taken_again_when_the_clock_was_set_back_meanwhile(machine):
    machine.start()
    assert machine.admits(NOW)
    machine.wrong_s = -1800
    machine.start()
    assert not machine.admits(NOW)


def test_a_message_on_its_way_during_a_restart_is_taken(machine):
    """A sender whose clock is behind ours is heard at once, since nothing that it sent was taken."""
    machine.start()
    assert machine.admits(NOW)
    machine.up_s += 600
    machine.start()
    assert machine.admits(NOW + 300)


def test_a_server_with_a_file_that_starts_ahead_is_not_deaf_later(machine):
    machine.start()
    assert machine.admits(NOW)
    machine.wrong_s = AHEAD
    machine.start()
    assert not machine.admits(NOW + 60)
    machine.up_s, machine.wrong_s = 60, 0
    machine.start()
    assert machine.admits(NOW + 60)


def test_a_lost_file_is_as_a_first_start(machine):
    machine.start()
    assert machine.admits(NOW)
    machine.crash()
    machine.file.unlink()
    machine.up_s += 60
    machine.start()
    assert not machine.admits(NOW)
    assert machine.admits(NOW + 60)
    machine.up_s += 60
    machine.start()
    assert not machine.admits(NOW), "nor at the start behind that"


def test_closing_leaves_nothing_refused_that_was_not_taken(machine):
    machine.start()
    assert machine.admits(NOW)
    machine.marks.close()
    machine.up_s += 1
    machine.start()
    assert not machine.admits(NOW)
    assert machine.admits(NOW + 1)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
def test_a_sender_is_heard_soon_behind_a_crash(machine):
    """The reply to the first request counts, also if the server is back at once."""
    machine.start()
    for second in range(20):
        machine.up_s = second
        assert machine.admits(NOW + second)
    machine.crash()
    machine.start()
    machine.up_s += REQUEST_TIMEOUT_S // 2
    assert machine.admits(NOW + int(machine.up_s))


def test_many_messages_are_few_writes(machine, monkeypatch):
    writes = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (writes.append(handle), real(handle))[1])
    machine.start()
    for second in range(60):
        machine.up_s = second
        for sender in range(20):
            assert machine.admits(NOW + second, b"%d" % second, sender=f"psc{sender}")
    # one write, of file and folder, for a new sender, and about one in half of the lead for all
    assert len(writes) <= 2 * (20 + 2 * 60 // LEAD_S + 2)


def test_the_file_is_small_and_its_owners(machine, monkeypatch):
    monkeypatch.setattr("mqdssm.drivers.authentication.replay_marks.MARKS_MAX", 20)
    machine.start()
    for number in range(60):
        machine.up_s = number * 2 * LEAD_S
        assert machine.admits(NOW + int(machine.up_s), sender=f"machine{number}")
    kept = json.loads(machine.file.read_bytes())
    assert len(kept["senders"]) <= 20
    assert stat.S_IMODE(machine.file.stat().st_mode) == 0o600
    machine.start()
    for number in (59, 39):
        assert not machine.admits(NOW + number * 2 * LEAD_S, sender=f"machine{number}")


def test_a_message_that_cannot_be_noted_is_not_taken(machine, monkeypatch):
    def full(*_arguments, **_keywords):
        raise ConfigError("no room")

    machine.start()
    judge = Verifier(PinnedKeys({guid_of("PSC1"): sender_of("PSC1")}), NOW, marks=machine.marks)
    signer = Signer(guid_of("PSC1"), key_of("PSC1"))
    first, second = (
        signer.sign(signed("PSC1", sent_at=NOW + one, destination=replication_queue("PSC2")))
        for one in (0, 1)
    )
    with monkeypatch.context() as patched:
        patched.setattr("mqdssm.events.durable_files.write_atomically", full)
        assert judge.verify(first, NOW) is Distrust.UNRECORDED
    assert machine.marks.problem == "no room"
    assert not Distrust.UNRECORDED.is_bad_signature
    assert isinstance(judge.verify(second, NOW), Verified)
    assert machine.marks.problem == ""


def test_a_folder_that_cannot_be_written_to_disk_is_no_defect_of_ours(machine, monkeypatch):
    def broken(_folder):
        raise OSError(5, "Input/output error")

    machine.start()
    with monkeypatch.context() as patched:
        patched.setattr("mqdssm.events.durable_files.sync_folder", broken)
        with pytest.raises(ConfigError, match="cannot be written: Input/output error"):
            machine.admits(NOW)


def test_many_senders_with_dates_ahead_silence_nobody_else(machine, monkeypatch):
    """Decision R98: a PSC can make machines with keys, as many as it likes."""
    monkeypatch.setattr("mqdssm.drivers.authentication.replay_marks.MARKS_MAX", 5)
    machine.start()
    for number in range(20):
        assert machine.admits(NOW + AGE_MAX_S - 60, sender=f"mine{number}")
    machine.start()
    machine.up_s = 60
    assert machine.admits(NOW + 60, sender="psc1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": "else", "floor": 0, "senders": {}}',
        '{"format": "mqdssm replay marks", "floor": "x", "senders": {}}',
        '{"format": "mqdssm replay marks", "floor": 0, "senders": {"a": true}}',
    ],
)
def test_a_file_that_is_damaged_is_refused(text, tmp_path):
    file = tmp_path / "marks.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"marks\.json.*remove"):
        ReplayMarks(file)


def test_two_servers_have_no_file_together(tmp_path):
    with ReplayMarks(tmp_path / "marks.json"), pytest.raises(ConfigError, match="another server"):
        ReplayMarks(tmp_path / "marks.json")
    with ReplayMarks(tmp_path / "marks.json"):
        pass


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match="marks"):
        ReplayMarks(tmp_path / "none" / "marks.json")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("ab"), st.integers(0, 5000), st.integers(0, 3)),
            st.tuples(st.just("crash"), st.integers(-4000, 4000), st.just(0)),
            st.tuples(st.just("stop"), st.integers(-4000, 4000), st.just(0)),
            st.tuples(st.just("set"), st.integers(-4000, 4000), st.just(0)),
            st.tuples(st.just("pass"), st.integers(0, 2000), st.just(0)),
        ),
        max_size=40,
    )
)
def test_nothing_is_admitted_twice_over_any_restarts_and_clocks(tmp_path_factory, steps):
    machine = Machine(tmp_path_factory.mktemp("marks") / "marks.json")
    machine.start()
    passed = set()
    for what, number, name in steps:
        match what:
            case "crash" | "stop":
                if what == "stop":
                    machine.marks.close()
                machine.crash()
                machine.wrong_s = number
                machine.start()
                assert not any(machine.admits(date, text, sender) for sender, date, text in passed)
            case "set":
                machine.wrong_s = number
            case "pass":
                machine.up_s += number
            case sender:
                date = NOW + number
                one = sender, date, b"%d %d" % (number, name)
                if machine.admits(date, one[2], sender):
                    assert one not in passed
                    assert abs(date - machine.now) <= AGE_MAX_S
                    passed.add(one)
    machine.crash()
    machine.start()
    assert not any(machine.admits(date, text, sender) for sender, date, text in passed)
    machine.crash()


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.1")
def test_a_renamed_machines_messages_are_not_taken_again(machine):
    """Decision R162: what was taken is known by the key, in the file, too (seed 340070)."""
    machine.start()
    queue = replication_queue("PSC2")
    recorded = Signer(guid_of("PSC1"), key_of("PSC1")).sign(signed("PSC1", sent_at=NOW, destination=queue))
    known = {guid_of("PSC1"): sender_of("PSC1")}
    judge = Verifier(PinnedKeys(known), NOW, marks=machine.marks)
    assert isinstance(judge.verify(recorded, NOW), Verified)
    known[guid_of("PSC1")] = replace(sender_of("PSC1"), machine_name="PSC9")
    assert judge.verify(recorded, NOW) is Distrust.REPLAYED
    machine.start()
    assert Verifier(PinnedKeys(known), NOW, marks=machine.marks).verify(recorded, NOW) is Distrust.REPLAYED
