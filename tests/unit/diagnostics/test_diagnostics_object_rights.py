"""Who may use an object, with groups of everybody and groups that are too large."""

from types import SimpleNamespace
from typing import NoReturn

from mqdssm.diagnostics.accounts import Account, Membership, TooMany
from mqdssm.diagnostics.object_rights import ObjectAccess, find_object_rights
from mqdssm.wire.acl import allow, deny
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, Sid

GROUP = Sid("S-1-5-32-554")
ANN = Sid("S-1-5-21-1-2-3-1104")


def test_groups_of_everybody_are_groups_of_all() -> None:
    """As *Pre-Windows 2000 Compatible Access*, which often has Everyone."""
    account_of = {
        sid: Account(sid, sid.text, "group" if sid == GROUP else "user")
        for sid in (GROUP, ANN, EVERYONE, ANONYMOUS, AUTHENTICATED_USERS)
    }
    accounts = SimpleNamespace(
        by_sid=account_of.get,
        members=lambda group: [Membership(account_of[EVERYONE], (group,))],
    )
    sends = [allow(sid, QueueAccess.WRITE_MESSAGE) for sid in account_of]
    entries = (deny(GROUP, QueueAccess.WRITE_MESSAGE), *sends)
    access = ObjectAccess("q", "CN=q", "mSMQQueue", None, entries)
    answer = find_object_rights(access, accounts)  # type: ignore[arg-type]
    assert {
        grant.account.sid: ("Send" in grant.rights, "Send" in grant.refused) for grant in answer.grants
    } == (dict.fromkeys(account_of, (False, True)))


def test_a_large_group_that_is_refused_rights_is_no_small_matter() -> None:
    """A user whose entry grants a right may be one of its members."""

    def members(group: Account) -> NoReturn:
        raise TooMany("more than 5 members")

    account_of = {GROUP: Account(GROUP, "large", "group"), ANN: Account(ANN, "ann", "user")}
    accounts = SimpleNamespace(by_sid=account_of.get, members=members)
    lists = {"loses": (deny(GROUP, 0x4), allow(ANN, 0x4)), "gains": (allow(GROUP, 0x4), allow(ANN, 0x4))}
    reasons = {}
    for name, entries in lists.items():
        access = ObjectAccess("q", "CN=q", "mSMQQueue", None, entries)
        reasons[name] = find_object_rights(access, accounts).not_expanded  # type: ignore[arg-type]
    title = account_of[GROUP].title
    assert reasons["gains"] == {title: "more than 5 members"}
    assert reasons["loses"] == {
        title: "more than 5 members; its members may lack rights that they seem to have here"
    }
