"""Random changes by plain LDAP tools, while a watcher and its server are stopped and killed."""

import json
import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import mqdssm
from support.servers.plain_ldap import PlainLdap, Values
from support.watching.kinds import Kind
from support.watching.watch_program import Program

BATCH_MAX: Final = 8
"""Changes of one LDIF file."""
_NOT_CONNECTED: Final = 3


@dataclass
class Story:
    """Queues below one machine, what was written to each, and the lives of a watcher.

    Attributes:
        written: DN -> the labels that it was given, in order; None is its end.
        lives: what each life of the watcher printed, up to its end.
    """

    kind: Kind
    server: Any
    folder: Path
    environment: Mapping[str, str]
    chance: random.Random
    machine: str = ""
    written: dict[str, list[str | None]] = field(default_factory=dict)
    done: int = 0
    lives: list[list[dict[str, Any]]] = field(default_factory=list)
    program: Program | None = None

    @property
    def plain(self) -> PlainLdap:
        return self.kind.plain(self.server)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def begin(self) -> None:
        name = f"Y{uuid4().hex[:8].upper()}"
        self.kind.add_computer(self.server, name)
        self.machine = f"CN=msmq,CN={name},CN=Computers,{self.server.base_dn}"
        self.plain.add(self.machine, {"objectClass": "mSMQConfiguration", **self._guid()})

    def _guid(self) -> dict[str, bytes]:
        return {"objectGUID": uuid4().bytes_le} if self.kind.keeps_guids else {}

    # -- changes by others

    def change(self) -> None:
        """A few changes of one kind, as LDIF files have them."""
        there = [dn for dn, labels in self.written.items() if labels[-1] is not None]
        many = self.chance.randint(1, BATCH_MAX)
        what = self.chance.choices(["add", "label", "delete"], [3, 6, 1])[0]
        if what == "add" or not there:
            self._add(many)
        elif what == "label":
            chosen = [(self.chance.choice(there), self._label()) for _ in range(many)]
            self.plain.modify_many((dn, f"replace: mSMQLabelEx\nmSMQLabelEx: {text}") for dn, text in chosen)
            for dn, text in chosen:
                self.written[dn].append(text)
        else:
            gone = self.chance.sample(there, min(many, len(there)))
            self.plain.delete(*gone)
            for dn in gone:
                self.written[dn].append(None)
            self.done += len(gone)

    def _add(self, many: int) -> None:
        new = [(f"CN=q{uuid4().hex[:10]},{self.machine}", self._label()) for _ in range(many)]
        values: list[tuple[str, Values]] = [
            (dn, {"objectClass": "mSMQQueue", "mSMQLabelEx": text, **self._guid()}) for dn, text in new
        ]
        self.plain.add_many(values)
        self.written.update((dn, [text]) for dn, text in new)

    def _label(self) -> str:
        self.done += 1
        return f"label {self.done}"

    # -- lives

    def start(self) -> None:
        """Another life of the watcher."""
        command = ("queue", "-o", "json", "--state", str(self.state))
        self.program = Program(self.folder, self.environment, *command)

    def wait_for_state(self) -> None:
        assert self.program is not None
        self.program.wait(self.state.exists)

    def revive(self) -> None:
        """Do what supervisors do: a watcher that began while the server was away is started again."""
        if self.program is not None and self.program.process.poll() == _NOT_CONNECTED:
            self.end(signal.SIGTERM)
            self.start()

    def end(self, how: signal.Signals) -> None:
        """The end of a life; what was printed counts."""
        assert self.program is not None
        code = self.program.end(how)
        # a program that has not begun to watch ends by the signal itself, or because the server is away
        assert code in {0 if how is signal.SIGTERM else -how, -how, _NOT_CONNECTED}, (
            self.program.err.read_text()
        )
        self._heard(self.program)
        self.program = None

    def _heard(self, program: Program) -> None:
        lines = program.out.read_text().splitlines(keepends=True)
        whole = [json.loads(line) for line in lines if line.endswith("\n")]
        self.lives.append([one for one in whole if self.machine.lower() in one.get("dn", "").lower()])

    # -- what it came to

    def believed(self) -> dict[UUID, tuple[str, str]]:
        """What somebody who reads along thinks there is: objectGUID -> DN and label."""
        found: dict[UUID, tuple[str, str]] = {}
        for one in self.told():
            guid = UUID(one["guid"])
            if one["event"] == "deleted":
                found.pop(guid, None)
                continue
            label = one["changes"].get("Label")
            found[guid] = one["dn"].lower(), found[guid][1] if label is None else label["new"]
        return found

    def told(self) -> list[dict[str, Any]]:
        """All lines, and those of the present life."""
        now = []
        if self.program is not None:
            lines = self.program.out.read_text().splitlines(keepends=True)
            now = [json.loads(line) for line in lines if line.endswith("\n")]
        return [one for life in self.lives for one in life] + [
            one for one in now if self.machine.lower() in one.get("dn", "").lower()
        ]

    def there(self, directory: mqdssm.Directory) -> dict[UUID, tuple[str, str]]:
        """What the directory has."""
        found = directory.search(mqdssm.Queue, attributes=["Identifier", "FullPath", "Label"])
        return {
            one.identifier: (one.full_path.lower(), one.label)
            for one in found
            if one.identifier is not None and one.full_path and self.machine.lower() in one.full_path.lower()
        }

    def check_order(self) -> int:
        """Each object's labels were told in the order in which they were written, again only after an end.

        Returns:
            How many of the labels that were written were told.
        """
        told: dict[str, list[str | None]] = {}
        for one in self.told():
            label = one["changes"].get("Label")
            text = None if one["event"] == "deleted" else label and label["new"]
            if one["event"] == "deleted" or label is not None:
                told.setdefault(one["dn"].lower(), []).append(text)
        seen = 0
        for dn, labels in self.written.items():
            places = [labels.index(text) for text in told.get(dn.lower(), [])]
            assert places == sorted(places), f"{dn}: {labels} told as {told.get(dn.lower())}"
            repeated = len(places) - len(set(places))
            assert repeated <= len(self.lives), f"{dn}: {places}"
            seen += len(set(places))
        return seen
