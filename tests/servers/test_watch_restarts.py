"""Changes by plain ldapmodify in random order, while watcher and server are stopped, killed and started."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.replication.queue_managers import wait_until
from support.servers.mortal_servers import kind, server
from support.watching.kinds import Kind
from support.watching.watch_story import Story
from support.watching.watchers import watching

import mqdssm

__all__ = ["kind", "server"]

WAIT_S = 120.0


@pytest.fixture
def story(kind: Kind, server: Any, tmp_path: Path) -> Iterator[Story]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MQDSSM_")} | {
        "MQDSSM_URL": server.url if kind.name == "openldap" else server.ldaps_url,
        "MQDSSM_USER": server.user,
        "MQDSSM_PASSWORD": server.password,
        "MQDSSM_CA_FILE": server.ca_file,
    }
    made = Story(kind, server, tmp_path, environment, random.Random(20261121))
    yield made
    if made.program is not None:
        made.program.process.kill()
        made.program.process.wait()


def restart_server(story: Story, *, kill: bool) -> None:
    if kill:
        story.server.kill()
    else:
        story.server.stop()
    story.server.start()


def live_on(story: Story) -> None:
    """Something happens to the watcher, to the server, or to both."""
    match story.chance.randrange(6):
        case 0:
            story.end(signal.SIGTERM)
            story.change()
            story.start()
        case 1:
            story.end(signal.SIGKILL)
            story.change()
            story.start()
        case 2:
            restart_server(story, kill=False)
        case 3:
            restart_server(story, kill=True)
        case 4:
            story.end(signal.SIGTERM)
            story.change()
            restart_server(story, kill=bool(story.chance.randrange(2)))
            story.change()
            story.start()
        case 5:
            time.sleep(story.chance.uniform(0, 1.5))


def run(story: Story, changes: int, events: float) -> None:
    story.begin()
    story.start()
    story.wait_for_state()
    while story.done < changes:
        story.change()
        story.revive()
        if story.chance.random() < events:
            live_on(story)
    with story.kind.connect(story.server) as directory:
        there = story.there(directory)

        def all_is_told() -> bool:
            story.revive()
            return story.believed() == there

        wait_until(all_is_told, WAIT_S)
        assert story.there(directory) == there
    story.end(signal.SIGTERM)
    told = story.check_order()
    assert told >= len(there)
    last = {dn: labels[-1] for dn, labels in story.written.items()}
    assert {dn.lower() for dn, label in last.items() if label is not None} == {dn for dn, _ in there.values()}


@pytest.mark.timeout(300)
def test_a_few_changes_and_restarts(story: Story):
    run(story, 60, 0.3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_thousand_changes_and_restarts(story: Story):
    run(story, 1000, 0.15)


def test_what_was_deleted_just_before_the_server_was_killed_is_told(
    kind: Kind, server: Any, tmp_path: Path
) -> None:
    """Decision C30: slapd has forgotten it, and takes the place of the watcher all the same."""
    plain, name, state = kind.plain(server), f"D{uuid4().hex[:8].upper()}", tmp_path / "state"
    kind.add_computer(server, name)
    machine = f"CN=msmq,CN={name},CN=Computers,{server.base_dn}"

    def add(dn: str, object_class: str) -> str:
        guid = {"objectGUID": uuid4().bytes_le} if kind.keeps_guids else {}
        return plain.add(dn, {"objectClass": object_class, **guid})

    add(machine, "mSMQConfiguration")
    gone, there = add(f"CN=gone,{machine}", "mSMQQueue"), add(f"CN=there,{machine}", "mSMQQueue")
    with kind.connect(server) as directory:
        with watching(directory, mqdssm.Queue, state=state):
            pass
        plain.delete(gone)
        server.kill()
        server.start()
        new = add(f"CN=new,{machine}", "mSMQQueue")
        with watching(directory, mqdssm.Queue, state=state) as told:
            told.one("created", new)
            told.one("deleted", gone)
            assert told.count(there) == 0
