"""The state of a watch in a file: all of it or none, whose it is, damage, what was told since."""

import hashlib
import json
import os
import resource
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mqdssm.errors import ConfigError
from mqdssm.events.watching.delivery import Delivery
from mqdssm.events.watching.journal import ObjectNote, WatchPlace
from mqdssm.events.watching.reader import Selection
from mqdssm.events.watching.state_file import StateFile, Subject, WatchState
from mqdssm.events.watching.watch_cache import KnownObject
from mqdssm.model.watching import ChangeEvent, ObjectChange

KEYS = [f"00000000-0000-0000-0000-00000000000{number}" for number in range(4)]
SUBJECT = Subject(directory=KEYS[0], root="dc=test", types=("queue", "site"))


def known(label: str) -> KnownObject:
    return KnownObject(
        "queue", f"CN={label},DC=test", KEYS[3], json.dumps({"Label": label}), f"after {label}"
    )


def state(*labels: str) -> WatchState:
    made = WatchState(subject=SUBJECT, server="ldap://one", place="somewhere")
    for key, label in zip(KEYS, labels, strict=False):
        made.mirror.put(key, known(label))
    made.mirror.others[KEYS[3]] = "of a computer"
    made.mirror.is_complete = True
    return made


@pytest.fixture
def files() -> Iterator[list[StateFile]]:
    made: list[StateFile] = []
    yield made
    for file in made:
        file.close()


@pytest.fixture
def saved(files: list[StateFile]) -> Callable[..., StateFile]:
    def save(path: Path, *labels: str) -> StateFile:
        file = StateFile(path)
        files.append(file)
        file.save(state(*labels))
        return file

    return save


def loaded(path: Path) -> WatchState:
    file = StateFile(path)
    try:
        return file.load()
    finally:
        file.close()


def test_what_is_saved_is_loaded(saved, tmp_path: Path):
    path = tmp_path / "state"
    saved(path, "one", "zwei — Ünï").close()
    found = loaded(path)
    assert (found.subject, found.server, found.place) == (SUBJECT, "ldap://one", "somewhere")
    assert dict(found.mirror) == dict(state("one", "zwei — Ünï").mirror)
    assert found.mirror.others == {KEYS[3]: "of a computer"}
    assert found.mirror.is_complete
    assert not found.doubts
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_state_without_versions_is_known_and_compared(tmp_path: Path):
    path = tmp_path / "state"
    of_object = {"key": KEYS[1], "type": "queue", "dn": "CN=one", "guid": None, "body": "{}"}
    head = {"format": "mqdssm watch", "version": 1, "subject": asdict(SUBJECT), "told": None}
    place = {"server": "ldap://one", "place": "somewhere"}
    lines = [json.dumps(one).encode() + b"\n" for one in (head | place, of_object)]
    end = {"objects": 1, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
    path.write_bytes(b"".join(lines) + json.dumps(end).encode() + b"\n")
    found = loaded(path)
    assert dict(found.mirror) == {KEYS[1]: KnownObject("queue", "CN=one", None, "{}")}
    assert (found.subject, found.mirror.is_complete) == (SUBJECT, True)
    assert found.place is None, "nothing is known of the versions, so that everything is compared"


def test_a_state_of_a_later_version_is_refused(saved, tmp_path: Path):
    path = tmp_path / "state"
    saved(path, "one").close()
    path.write_bytes(path.read_bytes().replace(b'"version":2', b'"version":3', 1))
    with pytest.raises(ConfigError, match="its version is 3, not 2"):
        loaded(path)


def test_without_a_file_nothing_is_known(tmp_path: Path):
    found = loaded(tmp_path / "state")
    assert (found.subject, found.place, len(found.mirror)) == (None, None, 0)
    assert not found.mirror.is_complete


def change(number: int, label: str | None) -> ObjectNote:
    """The note of a change."""
    body = None if label is None else known(label)
    return ObjectNote(
        key=KEYS[number], known_object=body, id=f"id-{number}", time=5.5, event=ChangeEvent.CHANGED
    )


def noted(path: Path, *notes: ObjectNote, acknowledged: int = 0) -> None:
    """Go on with a state, and end without a farewell."""
    file = StateFile(path)
    file.load()
    for one in notes:
        file.journal.note(one)
    if acknowledged:
        file.journal.acknowledge(acknowledged)
    file.close()


def test_what_was_acknowledged_is_known_and_the_rest_is_in_doubt(saved, tmp_path: Path):
    path = tmp_path / "state"
    saved(path, "one", "two").close()
    gone, new = change(1, None), change(2, "new")
    noted(path, change(0, "other"), gone, new, acknowledged=1)
    found = loaded(path)
    assert dict(found.mirror) == {KEYS[0]: known("other"), KEYS[1]: known("two")}
    assert [(one.key, one.known_object, one.number) for one in found.doubts] == [
        (KEYS[1], None, 2),
        (KEYS[2], known("new"), 3),
    ]
    first = found.doubts[0]
    assert (first.id, first.time, first.event) == (gone.id, gone.time, gone.event)
    noted(path, acknowledged=3)
    assert dict(loaded(path).mirror) == {KEYS[0]: known("other"), KEYS[2]: known("new")}
    assert not loaded(path).doubts


def test_what_is_not_told_is_known_in_its_turn(saved, tmp_path: Path):
    path = tmp_path / "state"
    saved(path, "one").close()
    silent = ObjectNote(key=KEYS[1], known_object=known("silent"))
    noted(path, silent)
    assert KEYS[1] in dict(loaded(path).mirror)
    noted(path, change(0, "told"), ObjectNote(key=KEYS[0], known_object=known("silent")))
    found = loaded(path)
    assert dict(found.mirror)[KEYS[0]] == known("one")
    assert [(one.known_object, one.is_change) for one in found.doubts] == [
        (known("told"), True),
        (known("silent"), False),
    ]


def test_a_place_counts_once_all_before_it_is_acknowledged(saved, tmp_path: Path):
    path = tmp_path / "state"
    file = saved(path, "one")
    file.journal.note(change(0, "told"))
    file.journal.place(WatchPlace(server="ldap://two", place="later", is_first=False))
    file.close()
    assert (loaded(path).server, loaded(path).place) == ("ldap://one", "somewhere")
    noted(path, acknowledged=1)
    assert (loaded(path).server, loaded(path).place) == ("ldap://two", "later")


@pytest.mark.parametrize("tail", [b'{"key":"0000', b"\0" * 4096, b'00000000 {"acknowledged":1}\n'])
def test_the_end_of_a_journal_that_is_not_whole_counts_for_nothing(saved, tmp_path: Path, tail):
    path, journal = tmp_path / "state", tmp_path / "state.journal"
    saved(path, "one").close()
    noted(path, change(0, "told"))
    journal.write_bytes(journal.read_bytes() + tail)
    assert [one.known_object for one in loaded(path).doubts] == [known("told")]
    noted(path, change(0, "again"), acknowledged=2)
    assert dict(loaded(path).mirror) == {KEYS[0]: known("again")}, "what is behind it is not hidden"


def test_the_journal_of_an_older_state_counts_for_nothing(saved, tmp_path: Path):
    path, journal = tmp_path / "state", tmp_path / "state.journal"
    saved(path, "one").close()
    noted(path, change(0, "told"))
    older = journal.read_bytes()
    saved(path, "two").close()
    journal.write_bytes(older)
    found = loaded(path)
    assert dict(found.mirror) == {KEYS[0]: known("two")}
    assert not found.doubts


def test_a_state_is_due_when_its_journal_is_larger(saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mqdssm.events.watching.state_file.JOURNAL_BYTES_MIN", 0)
    file = saved(tmp_path / "state", "one", "two", "three")
    assert not file.is_due
    for _ in range(6):
        file.journal.place(WatchPlace(server="ldap://one", place="a" * 40, is_first=False))
    assert not file.is_due
    for _ in range(6):
        file.journal.place(WatchPlace(server="ldap://one", place="a" * 100, is_first=False))
    assert file.is_due
    file.save(state("one"))
    assert not file.is_due


@pytest.fixture
def version_1(tmp_path: Path) -> Path:
    """A state as version 1 of the format had it: one change told while it was saved, two since."""
    path = tmp_path / "state"

    def line(said: dict[str, object]) -> bytes:
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def entry(number: int, label: str) -> dict[str, object]:
        body = json.dumps({"Label": label})
        return {
            "key": KEYS[number],
            "type": "queue",
            "dn": f"CN={label},DC=test",
            "guid": KEYS[3],
            "body": body,
        }

    subject = {"directory": KEYS[0], "root": "dc=test", "types": ["queue", "site"]}
    head = {"format": "mqdssm watch", "version": 1, "subject": subject}
    head |= {"server": "ldap://one", "place": "somewhere", "told": {"key": KEYS[1]}}
    lines = line(head) + line(entry(0, "one")) + line(entry(1, "two"))
    digest = hashlib.sha256(lines).hexdigest()
    path.write_bytes(lines + line({"objects": 2, "sha256": digest}))
    since = line({"state": digest}) + line(entry(0, "other")) + line(entry(2, "new"))
    (tmp_path / "state.told").write_bytes(since + b'{"key":"0000')
    return path


def test_a_state_of_version_1_is_gone_on_with(version_1: Path):
    for _ in range(2):  # whoever begins with it may be killed
        found = loaded(version_1)
        assert found.subject == SUBJECT
        assert dict(found.mirror) == {KEYS[0]: replace(known("other"), version="")}
        assert [(one.key, one.known_object) for one in found.doubts] == [
            (KEYS[2], replace(known("new"), version=""))
        ]
        assert not version_1.with_name("state.told").exists()
    again, later = loaded(version_1).doubts[0], loaded(version_1).doubts[0]
    assert again == later
    assert again.id


def test_every_damage_is_noticed(saved, tmp_path: Path):
    path = tmp_path / "state"
    saved(path, "one", "two").close()
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place])
        if place:  # an empty file is no state, either
            with pytest.raises(ConfigError, match=str(path)):
                loaded(path)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ConfigError, match=str(path)):
            loaded(path)
    path.write_bytes(whole + b"{}\n")
    with pytest.raises(ConfigError, match="damaged"):
        loaded(path)
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="its end is missing"):
        loaded(path)


def test_a_failed_save_leaves_the_old_state(saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "state"
    file = saved(path, "one")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        file.save(state("two"))
    monkeypatch.undo()
    assert dict(loaded(path).mirror) == {KEYS[0]: known("one")}


def test_a_state_whose_name_is_not_on_the_disk_is_an_error_and_gets_later_notes(
    saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "state"
    file = saved(path, "one")

    def broken(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        file.save(state("two"))
    monkeypatch.undo()
    file.journal.note(change(0, "three"))  # belongs to the state that is there
    file.close()
    assert [note.known_object for note in loaded(path).doubts] == [change(0, "three").known_object]


def test_a_commit_after_a_save_that_failed_acknowledges_no_later_change(
    saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The journal is new then: a number of the old one would acknowledge changes that nobody saw."""
    path = tmp_path / "state"
    file = saved(path, "one")
    delivery = Delivery(state("one"), file, Selection.of(("queue",)))
    told = ObjectChange(event=ChangeEvent.CHANGED, type="queue", dn="CN=two,DC=test", guid=None)
    delivery.note(KEYS[0], known("two"), told)
    delivery.record_returned()
    delivery.acknowledge()

    def broken(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(StateFile, "is_due", True)
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        delivery.perform_due_work()
    monkeypatch.undo()
    delivery.acknowledge()
    delivery.close()
    noted(path, change(0, "three"))
    assert [note.known_object for note in loaded(path).doubts] == [known("three")]


def test_the_end_of_a_snapshot_is_noted_at_once(saved, tmp_path: Path):
    """A program that is killed right behind it would report new objects as existing ones."""
    path, watched = tmp_path / "state", state("one")
    file = saved(path, "one")
    watched.is_first = True
    file.save(watched)
    delivery = Delivery(watched, file, Selection.of(("queue",)))
    delivery.perform_due_work()  # notes the place, which is not due again for a second
    watched.is_first = False
    delivery.perform_due_work()
    copy = tmp_path / "copy"
    copy.mkdir()
    for each in (path, path.with_name("state.journal")):
        (copy / each.name).write_bytes(each.read_bytes())
    delivery.close()
    assert not loaded(copy / "state").is_first


def test_a_full_disk_takes_neither_the_state_nor_the_lock(saved, tmp_path: Path):
    """A limit for the size of files stands for it: it stops a write in its middle, as a full disk does."""
    path, limits = tmp_path / "state", resource.getrlimit(resource.RLIMIT_FSIZE)
    saved(path, "one").close()
    file = StateFile(path)
    file.load()
    file.journal.note(change(0, "told"))
    size = file.journal.size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            file.journal.note(change(1, "never told"))
        with pytest.raises(OSError, match="too large"):
            file.save(state(*("much" for _ in KEYS)))
        file.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "state.new").exists(), "it would keep the disk full"
    assert (tmp_path / "state.journal").stat().st_size == size, "half of a note is taken back"
    found = loaded(path)
    assert dict(found.mirror) == {KEYS[0]: known("one")}
    assert [one.known_object for one in found.doubts] == [known("told")]


def test_a_link_to_a_state_is_another_name_of_it(saved, tmp_path: Path):
    path, link = tmp_path / "state", tmp_path / "link"
    saved(path, "one").close()
    link.symlink_to(path)
    first = StateFile(link)
    first.load()
    with pytest.raises(ConfigError, match="another watcher"):
        StateFile(path).load()
    first.save(state("two"))
    first.close()
    assert link.is_symlink()
    assert dict(loaded(path).mirror) == {KEYS[0]: known("two")}


def test_two_watchers_do_not_share_a_state(saved, tmp_path: Path):
    path = tmp_path / "state"
    saved(path, "one").close()
    first = StateFile(path)
    first.load()
    with pytest.raises(ConfigError, match="another watcher"):
        StateFile(path).load()
    first.close()
    assert loaded(path).place == "somewhere"


def test_a_folder_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def locked(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("mqdssm.events.watching.state_file.lock_file", locked)
    with pytest.raises(ConfigError, match=r"state: the state, .*Permission denied.*name a file where"):
        loaded(tmp_path / "state")


def test_nesting_without_end_is_damage(tmp_path: Path):
    path = tmp_path / "state"
    path.write_text('{"a":' * 100_000 + "\n")
    with pytest.raises(ConfigError, match="damaged"):
        loaded(path)
