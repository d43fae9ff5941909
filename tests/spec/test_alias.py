"""Queue aliases and distribution lists ([MS-MQDSSM] 2.3, 3.1.6.8, 3.1.6.9)."""

from uuid import UUID, uuid4

import pytest

import mqdssm


def alias(world, format_name: str | None = "DIRECT=OS:pc\\private$\\q", name: str | None = None) -> str:
    values: dict[str, str | bytes] = {"objectClass": "msMQ-Custom-Recipient", "objectGUID": uuid4().bytes_le}
    if format_name is not None:
        values["msMQ-Recipient-FormatName"] = format_name
    return world.ldap.add(f"CN={name or world.name('alias')},CN=Users,{world.root}", values)


def group(world, *members: str) -> tuple[UUID, str]:
    guid = uuid4()
    dn = world.ldap.add(
        f"CN={world.name('group')},CN=Users,{world.root}",
        {"objectClass": "group", "objectGUID": guid.bytes_le}
        | ({"member": list(members)} if members else {}),
    )
    return guid, dn


def queue(world, computer: str) -> tuple[str, str]:
    """The DN of a new queue and its public format name."""
    name = world.name("q")
    guid = world.queue(computer, name)
    return world.queue_dn(computer, name), f"PUBLIC={str(guid).upper()}"


@pytest.mark.spec("MS-MQDSSM 3.1.6.8")
@pytest.mark.spec("MS-MQDSSM 2.3")
def test_an_alias_gives_its_format_name(world) -> None:
    assert world.directory.resolve_queue_alias(alias(world)) == "DIRECT=OS:pc\\private$\\q"


@pytest.mark.spec("MS-MQDSSM 3.1.6.8")
def test_aliases_that_lead_nowhere(world) -> None:
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.resolve_queue_alias(f"CN=nobody,CN=Users,{world.root}")
    with pytest.raises(mqdssm.AttributeNotFound) as failed:
        world.directory.resolve_queue_alias(alias(world, None))
    assert failed.value.result is mqdssm.DirectoryOperationResult.ATTRIBUTE_NOT_FOUND
    for nothing in ("no name at all", ""):
        with pytest.raises(ValueError, match="distinguished name"):
            world.directory.resolve_queue_alias(nothing)


@pytest.mark.spec("MS-MQDSSM 2.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.8")
def test_an_alias_with_a_nasty_name(world) -> None:
    dn = alias(world, "PUBLIC=5EEFD5C9-1111-4222-8333-444455556666", name="a\\, b\\+c\\\\d")
    assert world.directory.resolve_queue_alias(dn) == "PUBLIC=5EEFD5C9-1111-4222-8333-444455556666"


@pytest.mark.spec("MS-MQDSSM 3.1.6.9")
def test_queues_aliases_and_nested_lists_in_first_seen_order(world) -> None:
    """A diamond gives each queue once (decision M19)."""
    computer = world.computer_of(world.queue_manager())
    one, two, three = (queue(world, computer) for _ in range(3))
    other = alias(world, "DIRECT=TCP:10.0.0.1\\q")
    _, inner = group(world, two[0], one[0], other)
    _, middle = group(world, inner, three[0])
    guid, _ = group(world, one[0], middle, inner, other)
    found = world.directory.resolve_distribution_list(f"DL={guid}")
    assert set(found) == {one[1], two[1], three[1], "DIRECT=TCP:10.0.0.1\\q"}
    assert len(found) == 4
    assert world.directory.resolve_distribution_list(f"dl={str(guid).upper()}@example.com") == found


@pytest.mark.spec("MS-MQDSSM 3.1.6.9")
def test_members_of_one_group_keep_its_order(world) -> None:
    computer = world.computer_of(world.queue_manager())
    queues = [queue(world, computer) for _ in range(5)]
    guid, dn = group(world, *(one for one, _ in queues))
    stored = [value.decode() for value in world.ldap.entry(dn)["member"]]
    names = {one.lower(): name for one, name in queues}
    assert world.directory.resolve_distribution_list(f"DL={guid}") == [names[one.lower()] for one in stored]


@pytest.mark.spec("MS-MQDSSM 3.1.6.9")
def test_lists_that_contain_each_other_end(world) -> None:
    """Decision M19."""
    computer = world.computer_of(world.queue_manager())
    member, name = queue(world, computer)
    guid, one = group(world, member)
    _, two = group(world, one)
    world.ldap.modify(one, f"add: member\nmember: {two}\nmember: {one}")
    assert world.directory.resolve_distribution_list(f"DL={guid}") == [name]


@pytest.mark.spec("MS-MQDSSM 3.1.6.9")
def test_a_chain_of_lists_deeper_than_pythons_stack_would_like(world) -> None:
    computer = world.computer_of(world.queue_manager())
    below, name = queue(world, computer)
    guid = uuid4()
    for _ in range(120):
        guid, below = group(world, below)
    assert world.directory.resolve_distribution_list(f"DL={guid}") == [name]


@pytest.mark.spec("MS-MQDSSM 3.1.6.9")
def test_more_members_than_one_request_asks_for(world) -> None:
    computer = world.computer_of(world.queue_manager())
    queues = [queue(world, computer) for _ in range(205)]
    guid, _ = group(world, *(dn for dn, _ in queues))
    before = world.directory.session.round_trips
    assert set(world.directory.resolve_distribution_list(f"DL={guid}")) == {name for _, name in queues}
    # the list, then three pages of members, each looked for in every naming context
    assert world.directory.session.round_trips - before <= 2 + 3 * world.kind.contexts


@pytest.mark.spec("MS-MQDSSM 3.1.6.9")
def test_members_that_are_gone_are_skipped(world) -> None:
    """Decision M40."""
    computer = world.computer_of(world.queue_manager())
    member, name = queue(world, computer)
    gone, _ = queue(world, computer)
    guid, _ = group(world, gone, member)
    world.ldap.delete(gone)
    assert world.directory.resolve_distribution_list(f"DL={guid}") == [name]


@pytest.mark.spec("MS-MQDSSM 3.1.6.9")
def test_what_cannot_be_resolved(world) -> None:
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.resolve_distribution_list(f"DL={uuid4()}")
    with pytest.raises(ValueError, match="DL"):
        world.directory.resolve_distribution_list(f"PUBLIC={uuid4()}")
    user, _ = world.user()
    guid, _ = group(world, user)
    with pytest.raises(mqdssm.GenericDirectoryError, match="user"):
        world.directory.resolve_distribution_list(f"DL={guid}")
    guid, _ = group(world, alias(world, None))
    with pytest.raises(mqdssm.GenericDirectoryError) as failed:
        world.directory.resolve_distribution_list(f"DL={guid}")
    assert failed.value.result is mqdssm.DirectoryOperationResult.GENERIC_ERROR
    empty, _ = group(world)
    assert world.directory.resolve_distribution_list(f"DL={empty}") == []
