"""What a watch does about errors: it waits for a server that is away, and asks people about all others."""

import pytest

from mqdssm.errors import DirectoryError, DirectoryNotConnected, GenericDirectoryError, ObjectNotFound
from mqdssm.events.watching.watch import Pauses, is_for_people


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DirectoryNotConnected("the connection was lost"), False),
        (DirectoryNotConnected("it does not let us in", ldap_code=49), True),
        (DirectoryNotConnected("it is busy", ldap_code=51), False),
        (GenericDirectoryError("time limit", ldap_code=3), False),
        (GenericDirectoryError("limit of the administrator", ldap_code=11), False),
        (GenericDirectoryError("busy", ldap_code=51), False),
        (GenericDirectoryError("unavailable", ldap_code=52), False),
        (GenericDirectoryError("size limit", ldap_code=4), True),
        (GenericDirectoryError("no rights", ldap_code=50), True),
        (GenericDirectoryError("it is no LDAP"), True),
        (ObjectNotFound("there is no such object", ldap_code=32), True),
    ],
)
def test_what_may_be_better_soon_is_waited_for(error: DirectoryError, told: bool):
    assert is_for_people(error) is told


def test_pauses_grow_up_to_a_limit_and_are_left_to_chance():
    pauses = Pauses(first_s=1, longest_s=10, factor=2, jitter=0.5, chance=lambda: 0)
    assert [pauses.after(one) for one in (1, 2, 3, 4, 5, 10_000)] == [1, 2, 4, 8, 10, 10]
    shorter = Pauses(first_s=1, longest_s=10, factor=2, jitter=0.5, chance=lambda: 1)
    assert [shorter.after(one) for one in (1, 4, 9)] == [0.5, 4, 5]
