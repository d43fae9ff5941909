"""The state of a watch in a file: all of it or none, whose it is, damage, what was told since."""

import json
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqdssm.errors import ConfigError
from mqdssm.events.watching.mirror import Known
from mqdssm.events.watching.state_file import State, StateFile, Subject

KEYS = [f"00000000-0000-0000-0000-00000000000{number}" for number in range(4)]
SUBJECT = Subject(directory=KEYS[0], root="dc=test", types=("queue", "site"))


def known(label: str) -> Known:
    return Known("queue", f"CN={label},DC=test", KEYS[3], json.dumps({"Label": label}))


def state(*labels: str) -> State:
    made = State(subject=SUBJECT, server="ldap://one", place="somewhere")
    for key, label in zip(KEYS, labels, strict=False):
        made.mirror.put(key, known(label))
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


def loaded(path: Path) -> State:
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
    assert found.mirror.is_complete
    assert found.mirror.doubt is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_file_nothing_is_known(tmp_path: Path):
    found = loaded(tmp_path / "state")
    assert (found.subject, found.place, len(found.mirror)) == (None, None, 0)
    assert not found.mirror.is_complete


def test_what_was_noted_was_told_but_for_the_last(saved, tmp_path: Path):
    path = tmp_path / "state"
    file = saved(path, "one", "two")
    file.note(KEYS[0], known("other"))
    file.note(KEYS[1], None)
    file.note(KEYS[2], known("new"))
    found = loaded(path)
    assert dict(found.mirror) == {KEYS[0]: known("other")}
    assert found.mirror.doubt == (KEYS[2], known("new"))


def test_what_is_being_told_while_it_is_saved_stays_in_doubt(saved, tmp_path: Path):
    path = tmp_path / "state"
    file = saved(path, "one")
    file.note(KEYS[0], None)
    file.save(state("one"))
    assert loaded(path).mirror.doubt == (KEYS[0], None)
    file.told()
    file.save(state("one"))
    assert loaded(path).mirror.doubt is None


def test_a_note_that_is_not_whole_was_never_told(saved, tmp_path: Path):
    path = tmp_path / "state"
    file = saved(path, "one")
    file.note(KEYS[0], known("told"))
    notes = tmp_path / "state.told"
    notes.write_bytes(notes.read_bytes() + b'{"key":"0000')
    assert loaded(path).mirror.doubt == (KEYS[0], known("told"))


def test_notes_of_an_older_state_count_for_nothing(saved, tmp_path: Path):
    path = tmp_path / "state"
    file = saved(path, "one")
    file.note(KEYS[0], None)
    notes = (tmp_path / "state.told").read_bytes()
    file.told()
    file.save(state("two"))
    (tmp_path / "state.told").write_bytes(notes)
    found = loaded(path)
    assert dict(found.mirror) == {KEYS[0]: known("two")}
    assert found.mirror.doubt is None


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


def test_a_full_disk_takes_neither_the_state_nor_the_lock(saved, tmp_path: Path):
    """A limit for the size of files stands for it: it stops a write in its middle, as a full disk does."""
    path, limits = tmp_path / "state", resource.getrlimit(resource.RLIMIT_FSIZE)
    saved(path, "one").close()
    file = StateFile(path)
    there = file.load()
    file.save(there)
    file.note(KEYS[0], known("told"))
    room = (tmp_path / "state.told").stat().st_size + 20
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            file.note(KEYS[1], known("never told"))
        with pytest.raises(OSError, match="too large"):
            file.save(state(*("much" for _ in KEYS)))
        file.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "state.new").exists(), "it would keep the disk full"
    assert (tmp_path / "state.told").stat().st_size == room, "half of a note"
    found = loaded(path)
    assert dict(found.mirror) == {KEYS[0]: known("one")}
    assert found.mirror.doubt == (KEYS[0], known("told"))


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

    monkeypatch.setattr("mqdssm.events.watching.state_file.locked", locked)
    with pytest.raises(ConfigError, match=r"state: the state, .*Permission denied.*name a file where"):
        loaded(tmp_path / "state")


def test_nesting_without_end_is_damage(tmp_path: Path):
    path = tmp_path / "state"
    path.write_text('{"a":' * 100_000 + "\n")
    with pytest.raises(ConfigError, match="damaged"):
        loaded(path)
