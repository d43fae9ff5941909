"""Signing certificates that are registered and removed one by one (decision M117)."""

import threading

import pytest
from support.wire.certificates import certificate

import mqdssm
from mqdssm.directory.session import Session
from mqdssm.wire.certificates import digest_of


def a_user(world) -> mqdssm.User:
    dn, _ = world.user()
    return world.directory.read(mqdssm.User, mqdssm.Filter("FullPath", "==", dn))


def stored(world, dn: str) -> list[bytes]:
    """The registered certificates of an entry; its digests must be theirs."""
    entry = world.ldap.entry(dn)
    images = entry.get("mSMQSignCertificates", [])
    certificates = mqdssm.UserSignCerts.from_bytes(images[0]).certificates if images else ()
    assert sorted(entry.get("mSMQDigests", [])) == sorted(digest_of(one.der) for one in certificates)
    return [one.der for one in certificates]


def der(name: str) -> bytes:
    return mqdssm.UserSignCerts.from_certificates([certificate(name)]).certificates[0].der


def test_certificates_of_a_user(world) -> None:
    user = a_user(world)
    first = world.directory.add_certificate(user, certificate("one"))
    second = world.directory.add_certificate(user, der("two"))
    assert world.directory.add_certificate(user, der("one")) == first != second
    assert stored(world, user.full_path) == [der("one"), der("two")]
    world.directory.add_certificate(user, certificate("three"))
    world.directory.remove_certificate(user, second)
    assert stored(world, user.full_path) == [der("one"), der("three")]
    world.directory.remove_certificate(user, digest_of(der("one")))
    world.directory.remove_certificate(user, certificate("three"))
    assert stored(world, user.full_path) == []
    with pytest.raises(mqdssm.AttributeNotFound, match="no such certificate"):
        world.directory.remove_certificate(user, first)


def test_certificates_of_a_queue_manager_are_in_its_computer(world) -> None:
    computer = world.computer()
    world.queue_manager(computer)
    manager, dn = mqdssm.QueueManager(computer_name=computer), world.computer_dn(computer)
    notices: list[mqdssm.Notice] = []
    with world.connect(notify=notices.append) as directory:
        directory.add_certificate(manager, certificate("one"))
        assert stored(world, dn) == [der("one")]
        directory.remove_certificate(manager, certificate("one"))
    assert stored(world, dn) == []
    assert [notice.changed for notice in notices] == [{"PublicSigningKeyList"}] * 2


def test_another_program_registers_one_at_the_same_moment(world, monkeypatch) -> None:
    user = a_user(world)
    modify, others = Session.modify, [certificate("two"), certificate("three")]
    with world.connect() as second:

        def racing(session: Session, *args, **options) -> None:
            if others and session is world.directory.session:
                second.add_certificate(user, others.pop(0))
            modify(session, *args, **options)

        monkeypatch.setattr(Session, "modify", racing)
        world.directory.add_certificate(user, certificate("one"))
    assert stored(world, user.full_path) == [der("two"), der("three"), der("one")]


def test_many_programs_lose_none(world) -> None:
    user = a_user(world)
    names = [f"many{number}" for number in range(12)]
    made = {name: der(name) for name in names}

    def register(mine: list[str]) -> None:
        with world.connect() as directory:
            for name in mine:
                directory.add_certificate(user, made[name])

    threads = [threading.Thread(target=register, args=(names[part::4],)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(stored(world, user.full_path)) == sorted(made.values())


def test_what_is_no_certificate_does_not_get_in(world) -> None:
    user = a_user(world)
    with pytest.raises(ValueError, match=r"no X\.509 certificate"):
        world.directory.add_certificate(user, b"no certificate at all")
    assert stored(world, user.full_path) == []
    with pytest.raises(mqdssm.GenericDirectoryError, match="Site objects cannot be given certificates"):
        world.directory.add_certificate(mqdssm.Site(name="x"), certificate("one"))


def test_damaged_certificates_are_left_alone(world) -> None:
    user = a_user(world)
    world.directory.session.modify(user.full_path, {"mSMQSignCertificates": (b"\x05",)})
    with pytest.raises(mqdssm.GenericDirectoryError, match="mSMQSignCertificates cannot be read"):
        world.directory.add_certificate(user, certificate("one"))
    assert world.ldap.entry(user.full_path)["mSMQSignCertificates"] == [b"\x05"]


def test_more_than_a_directory_holds(world, monkeypatch) -> None:
    user = a_user(world)
    world.directory.add_certificate(user, certificate("one"))
    monkeypatch.setattr("mqdssm.events.certificates.CERTIFICATE_BYTES_MAX", 600)
    with pytest.raises(ValueError, match="the limit is 600"):
        world.directory.add_certificate(user, certificate("two"))
    assert stored(world, user.full_path) == [der("one")]
