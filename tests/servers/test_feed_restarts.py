"""From plain ldapmodify to subscribers and other owners, while watcher and server are stopped and killed."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.servers.mortal_servers import kind, server
from support.watching.feed_story import FeedStory, feed_story
from support.watching.kinds import Kind

import mqdssm
from mqdssm.errors import DirectoryNotConnected
from mqdssm.model.watching import ChangeEvent, ObjectChange

__all__ = ["kind", "server"]

RESTS = 0.3


@pytest.fixture
def story(kind: Kind, server: Any, tmp_path: Path) -> Iterator[FeedStory]:
    seed = int(os.environ.get("MQDSSM_FEED_SEED") or random.randrange(1 << 32))
    print(f"MQDSSM_FEED_SEED={seed}")  # noqa: T201  to do it again
    with feed_story(kind, server, tmp_path, seed) as begun:
        yield begun


def run(story: FeedStory, changes: int, events: float) -> None:
    """Changes, and now and then a restart: subscribers must hold what the directory has, in the end.

    What is there when all is told was seen, so that of changes that are waited for none may be left out.
    """
    while story.plain.done < changes:
        story.change()
        story.revive()
        if story.chance.random() < events:
            story.live_on()
        if story.chance.random() < RESTS:
            story.rest()
    story.check()
    print(story.summary())  # noqa: T201  for who wants to know how much of all it was


@pytest.mark.timeout(300)
@pytest.mark.spec("MS-MQCN 3.2.5.2")
def test_a_few_changes_and_restarts_reach_all_subscribers(story: FeedStory) -> None:
    run(story, 80, 0.3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.spec("MS-MQCN 3.2.5.2")
def test_a_thousand_changes_and_restarts_reach_all_subscribers(story: FeedStory) -> None:
    run(story, 1000, 0.15)


@pytest.mark.spec("MS-MQCN 3.3.4.1")
def test_whom_to_notify_is_not_known_while_the_directory_is_away(kind: Kind, server: Any) -> None:
    """Decision C28: that is another thing than that nobody has to know."""
    kind.add_computer(server, "AWAY1")
    with kind.connect(server) as directory:
        site = directory.create(mqdssm.Site(name="A"))
        directory.create(mqdssm.QueueManager(computer_name="AWAY1", site_identifier_list=(site,)))
        queue = directory.create(mqdssm.Queue(pathname="AWAY1\\q"))
        dn = f"CN=q,CN=msmq,CN=AWAY1,CN=Computers,{server.base_dn}"
        events = set(ChangeEvent) - {ChangeEvent.EXISTING}  # which nobody made
        changes = [ObjectChange(event=one, type="queue", dn=dn, guid=queue) for one in events]
        for change in changes:
            notice = directory.notice_of(change)
            assert notice is not None
            assert notice.machine.upper() == "AWAY1"
        server.stop()
        for change in changes:
            with pytest.raises(DirectoryNotConnected):
                directory.notice_of(change)
