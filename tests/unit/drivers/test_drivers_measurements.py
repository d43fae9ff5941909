"""What drivers measure: messages by type and outcome, the last notes, durations of operations."""

from mqdssm.drivers import measurements
from mqdssm.drivers.measurements import (
    DURATION_LIMITS_S,
    NOTE_CHARS_MAX,
    NOTES_MAX,
    MessageCounts,
    MessageOutcome,
    OperationTimes,
    RecentNotes,
)
from mqdssm.model.messages import PSCAckMessage


def test_messages_are_counted_by_type_and_outcome():
    counts = MessageCounts()
    message = PSCAckMessage.__new__(PSCAckMessage)
    for outcome in (MessageOutcome.SENT, MessageOutcome.SENT, MessageOutcome.REFUSED):
        counts.add(message, outcome)
    counts.add(None, MessageOutcome.DROPPED)
    assert counts.copy() == {
        ("PSCAckMessage", "sent"): 2,
        ("PSCAckMessage", "refused"): 1,
        ("unknown", "dropped"): 1,
    }


def test_the_machines_that_were_heard_are_limited(monkeypatch):
    monkeypatch.setattr(measurements, "SENDERS_MAX", 2)
    counts = MessageCounts()
    for now, name in enumerate(["One", "Two", "ONE", "Three"]):
        counts.record_message(name, now)
    assert [counts.find_last_heard(name) for name in ("one", "two", "three", "four")] == [2, None, 3, None]


def test_the_newest_note_comes_first_and_equal_ones_are_one():
    notes = RecentNotes()
    notes.add("first", "of one", 1, is_warning=False)
    notes.add("second", "of two", 2, is_warning=True)
    notes.add("second", "of two", 3, is_warning=True)
    notes.add("second", "of three", 4, is_warning=True)
    assert [(note.at, note.summary, note.detail, note.count) for note in notes.list_latest()] == [
        (4, "second", "of three", 1),
        (3, "second", "of two", 2),
        (1, "first", "of one", 1),
    ]


def test_notes_are_limited_and_never_displace_warnings():
    notes = RecentNotes()
    notes.add("a warning", "x" * 10_000, 0, is_warning=True)
    for number in range(3 * NOTES_MAX):
        notes.add("a note", str(number), 1 + number, is_warning=False)
    latest = notes.list_latest()
    assert len(latest) == NOTES_MAX + 1
    assert latest[0].detail == str(3 * NOTES_MAX - 1)
    assert latest[-1].summary == "a warning"
    assert len(latest[-1].detail) == NOTE_CHARS_MAX


def test_durations_are_counted_in_classes():
    times = OperationTimes()
    for seconds in (0.0, DURATION_LIMITS_S[0], 0.07, 1000.0):
        times.add("Read", seconds)
    times.add("Write", 0.002)
    seen = times.copy()
    assert seen["Read"].classes == (2, 0, 0, 0, 1, 0, 0, 0, 0, 1)
    assert seen["Read"].count == 4
    assert seen["Read"].longest_s == 1000
    assert 1000 < seen["Read"].total_s < 1000.1
    assert seen["Write"].classes[1] == 1
