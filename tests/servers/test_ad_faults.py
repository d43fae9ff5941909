"""Answers of a domain controller that are lost: the reported outcome is the truth, without a GUID of ours."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.servers.proxy import Proxy

import mqdssm
from mqdssm.directory.recovery import ReadBack
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryNotConnected, ObjectAlreadyExists, ObjectNotFound, OutcomeUnknown
from mqdssm.events.facade import Directory
from mqdssm.testing import SambaDomainController
from mqdssm.wire.dtyp import SecurityDescriptor, Sid, allow
from mqdssm.wire.masks import QueueAccess

PATIENT = ReadBack(settle_s=0.4, limit_s=10)
CUTS: list[dict[str, int]] = [{"up": 0}, {"up": 3}, {"up": 40}, {"down": 0}, {"down": 3}, {"down": 20}]
"""Before and in the sealed request, before and in the sealed answer; its length alone takes 4 octets."""
MADE, NOT_MADE = "made", "not made"
EVERYONE = Sid("S-1-1-0")


@pytest.fixture
def proxy(samba_server: SambaDomainController) -> Iterator[Proxy]:
    parts = urlsplit(samba_server.url)
    with Proxy(str(parts.hostname), parts.port or 389) as running:
        yield running


@pytest.fixture
def directory(samba_server: SambaDomainController, proxy: Proxy) -> Iterator[Directory]:
    """Through the proxy, signed and sealed."""
    with mqdssm.connect(
        proxy.url, user=samba_server.user, password=samba_server.password, authentication="ntlm"
    ) as through:
        through.session.read_back = PATIENT
        yield through
    proxy.disarm()


@pytest.fixture
def parent(samba_directory: Directory, samba_server: SambaDomainController) -> str:
    """A queue manager."""
    session, name = samba_directory.session, f"F{len(list(_computers(samba_directory))):03}FAULT"
    computer = f"CN={name},CN=Computers,{samba_server.base_dn}"
    session.add(computer, {"objectClass": [b"computer"], "sAMAccountName": [f"{name}$".encode()]})
    session.add(f"CN=msmq,{computer}", {"objectClass": [b"mSMQConfiguration"]})
    return f"CN=msmq,{computer}"


def _computers(directory: Directory) -> Iterator[Any]:
    session = directory.session
    return session.find(session.naming.root, session.profile.build_class_filter("computer"), ["1.1"])


def descriptor(mask: int) -> bytes:
    return bytes(SecurityDescriptor.build(dacl=[allow(EVERYONE, mask)]))


def queue(label: bytes) -> dict[str, list[bytes]]:
    return {"objectClass": [b"mSMQQueue"], "mSMQLabelEx": [label], "nTSecurityDescriptor": [descriptor(0x94)]}


def outcome(change: Callable[[], object]) -> str:
    try:
        change()
    except OutcomeUnknown:
        raise
    except DirectoryNotConnected:
        return NOT_MADE
    return MADE


def holds(witness: Session, dn: str) -> tuple[bytes | None, int] | None:
    """The label of a queue, and what it grants everyone."""
    try:
        entry = witness.get(dn, ["mSMQLabelEx", "nTSecurityDescriptor"])
    except ObjectNotFound:
        return None
    found = SecurityDescriptor.from_bytes(entry.first("nTSecurityDescriptor") or b"").explicit_aces()
    return entry.first("mSMQLabelEx"), next((ace.mask for ace in found if ace.sid == EVERYONE), 0)


@pytest.mark.spec("MS-MQDSSM 3.1.6.12")
def test_add(directory: Directory, samba_directory: Directory, proxy: Proxy, parent: str) -> None:
    claims = []
    for number, where in enumerate(CUTS):
        dn = f"CN=a{number},{parent}"
        directory.session.get(parent, [])  # a connection is there before the fault is armed
        proxy.arm(**where)
        claims.append(outcome(lambda dn=dn: directory.session.add(dn, queue(b"new"))))
        proxy.disarm()
        there = holds(samba_directory.session, dn)
        assert there == ((b"new", 0x94) if claims[-1] == MADE else None), where
    assert claims == [NOT_MADE] * 3 + [MADE] * 3


@pytest.mark.spec("MS-MQDSSM 3.1.6.16")
def test_modify(directory: Directory, samba_directory: Directory, proxy: Proxy, parent: str) -> None:
    dn, claims = f"CN=m,{parent}", []
    samba_directory.session.add(dn, queue(b"old"))
    before = holds(samba_directory.session, dn)
    assert before == (b"old", 0x94)
    for number, where in enumerate(CUTS):
        label, mask = b"new" if number % 2 else before[0], 1 << (number + 4)
        wanted = {"nTSecurityDescriptor": [descriptor(mask)]}  # alone, it decides whether the change is there
        wanted |= {"mSMQLabelEx": [label]} if number % 2 else {}
        directory.session.get(parent, [])
        proxy.arm(**where)
        claims.append(outcome(lambda wanted=wanted: directory.session.modify(dn, wanted)))
        proxy.disarm()
        after = holds(samba_directory.session, dn)
        assert after == ((label, mask) if claims[-1] == MADE else before), where
        before = after
    assert claims == [NOT_MADE] * 3 + [MADE] * 3


@pytest.mark.spec("MS-MQDSSM 3.1.6.13")
def test_delete_and_rename(
    directory: Directory, samba_directory: Directory, proxy: Proxy, parent: str
) -> None:
    witness = samba_directory.session
    for number, where in enumerate(CUTS):
        victim, old, new = (f"CN={stem}{number},{parent}" for stem in ("d", "o", "n"))
        witness.add(victim, queue(b"d"))
        witness.add(old, queue(b"r"))
        directory.session.get(parent, [])
        proxy.arm(**where)
        deleted = outcome(lambda victim=victim: directory.session.delete(victim))
        proxy.disarm()
        assert (holds(witness, victim) is None) == (deleted == MADE), where
        directory.session.get(parent, [])
        proxy.arm(**where)
        renamed = outcome(lambda old=old, number=number: directory.session.rename(old, f"CN=n{number}"))
        proxy.disarm()
        assert (holds(witness, new) is not None) == (holds(witness, old) is None) == (renamed == MADE), where
        if "down" in where:
            assert (deleted, renamed) == (MADE, MADE)


def test_the_object_of_somebody_else(
    directory: Directory, samba_directory: Directory, proxy: Proxy, parent: str
) -> None:
    """The controller made no objectGUID for us to compare: values decide, so that an equal one is ours."""
    dn = f"CN=taken,{parent}"
    samba_directory.session.add(dn, queue(b"theirs"))
    directory.session.get(parent, [])
    proxy.arm(down=0)
    with pytest.raises(ObjectAlreadyExists, match="with other values"):
        directory.session.add(dn, queue(b"ours"))
    proxy.disarm()
    directory.session.get(parent, [])
    proxy.arm(down=0)
    directory.session.add(dn, queue(b"theirs"))
    proxy.disarm()
    assert holds(samba_directory.session, dn) == (b"theirs", 0x94)


def test_the_guid_of_an_object_whose_answer_was_lost(
    directory: Directory, samba_directory: Directory, proxy: Proxy, parent: str
) -> None:
    computer = parent.split(",")[1].removeprefix("CN=")
    path = mqdssm.Filter("Pathname", "==", rf"{computer}\q")
    directory.read(
        mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", computer), attributes=["FullPath"]
    )
    with pytest.raises(ObjectNotFound):
        directory.read(mqdssm.Queue, path)  # the computer is known now, so that the next request is the add
    security = bytes(SecurityDescriptor.build(dacl=[allow(EVERYONE, QueueAccess.GENERIC_READ)]))
    proxy.arm(down=0)
    guid = directory.create(mqdssm.Queue(pathname=rf"{computer}\q", label="ours", security=security))
    proxy.disarm()
    read = samba_directory.read(mqdssm.Queue, path)
    assert (read.identifier, read.label) == (guid, "ours")
