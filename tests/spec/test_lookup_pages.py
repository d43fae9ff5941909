"""Pages, limits and numbers of what is found (decision M112), on every kind of server."""

from uuid import UUID

import pytest
from support.enterprises.hand_made import HandMade

import mqdssm
from mqdssm import Filter, Queue, QueueManager, Site, SortKey


@pytest.fixture
def computer(world) -> str:
    made = HandMade(world.ldap, world.root)
    computer = world.name("pc")
    made.queue_manager(computer)
    for number in range(7):
        paid = {"mSMQLabelEx": "Paid", "mSMQQueueQuota": str(number)} if number % 2 else {}
        made.queue(computer, f"q{number}", paid)
    return computer


def walk(directory, filters=(), **options) -> list[UUID]:
    """All pages, one after the other."""
    found: list[UUID] = []
    token: str | None = None
    for _ in range(20):
        page = directory.search_page(Queue, filters, token=token, **options)
        assert len(page.items) <= options["limit"]
        found += [queue.identifier for queue in page.items]
        token = page.next_token
        if token is None:
            return found
        assert token.isascii()
        assert set(token) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
    raise AssertionError("the pages do not come to an end")


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_pages_have_every_object_once(world, computer, limit) -> None:
    everything = sorted(queue.identifier for queue in world.directory.search(Queue))
    assert len(everything) == 7
    assert walk(world.directory, limit=limit) == everything
    for condition in (Queue.label == "paid", (Queue.quota > 1) & (Queue.quota < 7), ~Queue.label.exists()):
        wanted = sorted(queue.identifier for queue in world.directory.search(Queue, condition))
        assert wanted
        assert walk(world.directory, condition, limit=limit) == wanted


def test_a_page_has_the_attributes_that_are_asked_for(world, computer) -> None:
    page = world.directory.search_page(Queue, Queue.quota < 7, limit=1, attributes=["Label"])
    assert [queue.populated for queue in page.items] == [{"Label"}]
    whole = world.directory.search_page(Queue, Queue.quota < 7, limit=1)
    assert [*whole.items] == [world.directory.read(Queue, Queue.identifier == whole.items[0].identifier)]
    place = world.computer_dn(computer)
    assert world.directory.search_page(QueueManager, limit=5, below=place).next_token is None
    assert world.directory.search_page(Queue, limit=5, below=f"CN=none,{world.root}") == mqdssm.SearchPage(
        (), None
    )


def test_what_is_there_all_the_time_is_on_one_page_whatever_else_changes(world, computer) -> None:
    directory = world.directory
    before = sorted(directory.search(Queue), key=lambda queue: queue.identifier)
    first = directory.search_page(Queue, limit=3)
    assert [queue.identifier for queue in first.items] == [queue.identifier for queue in before[:3]]
    directory.delete(before[2])  # the last one of the page
    directory.delete(before[3])  # the first one of the next
    created = [world.queue(computer) for _ in range(3)]
    other = world.connect()  # as another process has it
    try:
        rest = walk_from(other, first.next_token)
    finally:
        other.close()
    stayed = {queue.identifier for queue in before[4:]}
    assert len(rest) == len(set(rest))
    assert stayed <= set(rest) <= stayed | set(created)
    assert all(guid > before[2].identifier for guid in rest)


def walk_from(directory, token: str) -> list[UUID]:
    found = []
    while token is not None:
        page = directory.search_page(Queue, limit=2, token=token)
        found += [queue.identifier for queue in page.items]
        token = page.next_token
    return found


def test_tokens_belong_to_their_query(world, computer) -> None:
    directory = world.directory
    condition = (Queue.quota > 1) & (Queue.label == "Paid")
    token = directory.search_page(Queue, condition, limit=1).next_token
    equal = [Filter("Label", "==", "Paid"), Queue.quota > 1]
    assert directory.search_page(Queue, equal, limit=1, token=token).items
    for other in ((), Queue.quota > 1, (Queue.quota > 2) & (Queue.label == "Paid"), ~condition):
        with pytest.raises(ValueError, match="the token belongs to another query"):
            directory.search_page(Queue, other, limit=1, token=token)
    with pytest.raises(ValueError, match="the token belongs to another query"):
        directory.search_page(Queue, condition, limit=1, token=token, below=world.root)
    with pytest.raises(ValueError, match="the token belongs to another query"):
        directory.search_page(Site, limit=1, token=token)
    for damaged in (
        "",
        token[:-1],
        f"{token[:-1]}{'A' if token[-1] != 'A' else 'B'}",
        f"{token} ",
        "ü",
        "A" * 39,
    ):
        with pytest.raises(ValueError, match="is no token of a page"):
            directory.search_page(Queue, condition, limit=1, token=damaged)
    with pytest.raises(TypeError, match="give a text"):
        directory.search_page(Queue, condition, limit=1, token=b"x")


def test_counts(world, computer) -> None:
    count = world.directory.count
    assert count(Queue) == 7
    assert count(Queue, below=world.computer_dn(computer)) == 7
    assert count(Queue, below=f"CN=none,{world.root}") == 0
    assert count(Queue, Queue.label == "paid") == 3
    assert count(Queue, (Queue.quota > 1) & (Queue.quota < 7)) == 2  # on our side
    assert count(Queue, Queue.pathname == rf"{computer}\q1") == 1
    assert count(Queue, [Queue.pathname == rf"{computer}\q1", ~Queue.label.exists()]) == 0
    with pytest.raises(mqdssm.GenericDirectoryError, match="Lable"):
        count(Queue, Filter("Lable", "==", "x"))


def test_limits(world, computer) -> None:
    search = world.directory.search
    assert [len(list(search(Queue, limit=limit))) for limit in (0, 1, 3, 7, 8, None)] == [0, 1, 3, 7, 7, 7]
    quotas = [queue.quota for queue in search(Queue, Queue.quota < 9, sort=SortKey("Quota"), limit=2)]
    assert quotas == [1, 3]
    assert len(list(search(Queue, Queue.quota < 9, limit=2))) == 2
    for wrong in (True, 1.5, "1"):
        with pytest.raises(TypeError, match="give a whole number"):
            search(Queue, limit=wrong)
    with pytest.raises(ValueError, match="limit=-1: give 0 or more"):
        search(Queue, limit=-1)
    with pytest.raises(ValueError, match="limit=0: give 1 or more"):
        world.directory.search_page(Queue, limit=0)
