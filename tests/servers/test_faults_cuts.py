"""The connection cut at every byte of an add, a modify and a delete: the reported outcome is the truth."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from support.servers.proxy import Proxy
from support.servers.sessions import clear_text, container, options_for, scratch

from mqdssm.directory.recovery import ReadBack
from mqdssm.directory.requests import ChangeType, Modification, encode_add, encode_delete, encode_modify
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryNotConnected, ObjectAlreadyExists, ObjectNotFound, OutcomeUnknown
from mqdssm.testing.openldap import OpenLdapServer

ANSWER_BYTES = 14  # of a successful add, modify or delete
MORE_BYTES = 3  # the message id on the wire may need more octets than the 1 that is encoded here
PATIENT = ReadBack(settle_s=0.4, limit_s=10)
# nothing can be under way where the server got a part of the request only
HASTY = ReadBack(settle_s=0, limit_s=10)

MADE, NOT_MADE = "made", "not made"


@pytest.fixture(scope="module")
def proxy(openldap_server: OpenLdapServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", openldap_server.port) as running:
        yield running


@pytest.fixture(scope="module")
def witness(openldap_server: OpenLdapServer) -> Iterator[Session]:
    """Looks past the proxy."""
    with Session.open(options_for(openldap_server)) as session:
        yield session


@pytest.fixture
def session(openldap_server: OpenLdapServer, proxy: Proxy) -> Iterator[Session]:
    with Session.open(clear_text(openldap_server, proxy)) as through:
        yield through
    proxy.disarm()


def exists(witness: Session, dn: str) -> bool:
    try:
        witness.get(dn, [])
    except ObjectNotFound:
        return False
    return True


def outcome(session: Session, change: Callable[[], None]) -> str:
    try:
        change()
    except OutcomeUnknown:
        raise
    except DirectoryNotConnected as error:
        return NOT_MADE if "was not carried out" in str(error) else str(error)
    return MADE


def cuts(request: bytes) -> list[tuple[dict[str, int], ReadBack]]:
    """Where to cut: before each byte of the request, behind it, and inside the answer."""
    inside = [({"up": passed}, HASTY) for passed in range(len(request))]
    behind = [({"up": len(request) + more}, PATIENT) for more in range(MORE_BYTES)]
    answer = [({"down": passed}, PATIENT) for passed in range(ANSWER_BYTES)]
    return inside + behind + answer


class TestEveryByte:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.12")
    def test_add(self, session: Session, witness: Session, proxy: Proxy) -> None:
        with scratch(witness) as parent:
            request = encode_add(1, f"CN=q000,{parent}", container(uuid4()))
            claims: dict[str, str] = {}
            for number, (where, patience) in enumerate(cuts(request)):
                dn = f"CN=q{number:03},{parent}"
                session.read_back = patience
                session.get(parent, [])  # a connection is there before the fault is armed
                proxy.arm(**where)
                claims[dn] = outcome(session, lambda dn=dn: session.add(dn, container(uuid4())))
                proxy.disarm()
                assert exists(witness, dn) == (claims[dn] == MADE), (where, claims[dn])
            late = [dn for dn, claim in claims.items() if exists(witness, dn) != (claim == MADE)]
            assert late == []
            assert set(claims.values()) == {MADE, NOT_MADE}

    @pytest.mark.spec("MS-MQDSSM 3.1.6.16")
    def test_modify(self, session: Session, witness: Session, proxy: Proxy) -> None:
        with scratch(witness) as dn:
            change = Modification(ChangeType.REPLACE, "description", [b"v000"])
            request = encode_modify(1, dn, [change])
            claims = set()
            for number, (where, patience) in enumerate(cuts(request)):
                value = f"v{number:03}".encode()
                before = witness.get(dn, ["description"]).all("description")
                session.read_back = patience
                session.get(dn, [])
                proxy.arm(**where)
                claim = outcome(session, lambda value=value: session.modify(dn, {"description": [value]}))
                proxy.disarm()
                after = witness.get(dn, ["description"]).all("description")
                assert after == ([value] if claim == MADE else before), (where, claim)
                claims.add(claim)
            assert claims == {MADE, NOT_MADE}

    @pytest.mark.spec("MS-MQDSSM 3.1.6.13")
    def test_delete(self, session: Session, witness: Session, proxy: Proxy) -> None:
        with scratch(witness) as parent:
            dn = f"CN=victim,{parent}"
            request = encode_delete(1, dn)
            claims = set()
            for where, patience in cuts(request):
                if not exists(witness, dn):
                    witness.add(dn, container(uuid4()))
                session.read_back = patience
                session.get(parent, [])
                proxy.arm(**where)
                claim = outcome(session, lambda: session.delete(dn))
                proxy.disarm()
                assert exists(witness, dn) == (claim == NOT_MADE), (where, claim)
                claims.add(claim)
            assert claims == {MADE, NOT_MADE}

    def test_rename(self, session: Session, witness: Session, proxy: Proxy) -> None:
        with scratch(witness) as parent:
            session.read_back = PATIENT
            claims = set()
            name = "n0"
            witness.add(f"CN={name},{parent}", container(uuid4()))
            for number, where in enumerate([{"up": 0}, {"up": 30}, {"down": 0}, {"down": 5}, {"down": 13}]):
                new = f"n{number + 1}"
                session.get(parent, [])
                proxy.arm(**where)
                claim = outcome(
                    session, lambda name=name, new=new: session.rename(f"CN={name},{parent}", f"CN={new}")
                )
                proxy.disarm()
                assert exists(witness, f"CN={new},{parent}") == (claim == MADE)
                assert exists(witness, f"CN={name},{parent}") == (claim == NOT_MADE)
                claims.add(claim)
                name = new if claim == MADE else name
            assert claims == {MADE, NOT_MADE}


def test_an_add_that_met_another_object_is_not_taken_for_ours(
    session: Session, witness: Session, proxy: Proxy
) -> None:
    with scratch(witness) as parent:
        dn = f"CN=taken,{parent}"
        witness.add(dn, container(uuid4()))
        proxy.arm(down=0)
        with pytest.raises(ObjectAlreadyExists):
            session.add(dn, container(uuid4()))


def test_an_add_that_met_an_older_object_with_the_same_guid_is_not_taken_for_ours(
    session: Session, witness: Session, proxy: Proxy
) -> None:
    """The caller brings the GUID (M37), so that name and GUID prove nothing; the values do."""
    with scratch(witness) as parent:
        dn, guid = f"CN=again,{parent}", uuid4()
        witness.add(dn, container(guid, description=[b"older"]))
        session.get(parent, [])
        proxy.arm(down=0)
        with pytest.raises(ObjectAlreadyExists, match="with other values"):
            session.add(dn, container(guid, description=[b"newer"]))
        assert witness.get(dn, ["description"]).first("description") == b"older"


def test_a_change_that_was_overwritten_at_once_is_not_said_to_have_changed_nothing(
    session: Session, witness: Session, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scratch(witness) as dn:
        session.read_back = HASTY
        session.get(dn, [])
        read, before = session._reading.get_all, []

        def read_after_another_writer(*target: Any, **how: Any) -> Any:
            before.extend(witness.get(dn, ["description"]).all("description"))
            witness.modify(dn, {"description": [b"theirs"]})
            return read(*target, **how)

        monkeypatch.setattr(session._reading, "get_all", read_after_another_writer)
        proxy.arm(down=0)
        with pytest.raises(DirectoryNotConnected, match="does not hold the new values") as caught:
            session.modify(dn, {"description": [b"ours"]})
        assert before[0] == b"ours"  # it had been carried out
        assert not isinstance(caught.value, OutcomeUnknown)
        assert "or somebody has overwritten them" in str(caught.value)
        assert "nothing has changed" not in str(caught.value)


def test_an_add_found_under_another_name_is_not_ours(
    session: Session, witness: Session, proxy: Proxy
) -> None:
    """A GUID that the caller brought may be another object's: nothing is where ours should be."""
    with scratch(witness) as parent:
        guid = uuid4()
        witness.add(f"CN=elsewhere,{parent}", container(guid))
        proxy.arm(up=5)  # this add itself never arrives
        with pytest.raises(ObjectAlreadyExists, match=r"same objectGUID.*CN=elsewhere|cn=elsewhere"):
            session.add(f"CN=original,{parent}", container(guid))
        assert not exists(witness, f"CN=original,{parent}")


def test_an_add_without_a_guid_is_compared_by_all_its_values(
    session: Session, witness: Session, proxy: Proxy
) -> None:
    with scratch(witness) as parent:
        proxy.arm(down=0)
        session.add(f"CN=plain,{parent}", {"objectClass": [b"container"], "description": [b"d"]})
        assert witness.get(f"CN=plain,{parent}", ["description"]).first("description") == b"d"


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "gone"])
def test_nothing_can_be_read_back(
    openldap_server: OpenLdapServer, witness: Session, proxy: Proxy, *, silent: bool
) -> None:
    options = clear_text(openldap_server, proxy, operation_timeout_s=0.4, connect_timeout_s=0.4)
    with scratch(witness) as parent, Session.open(options) as session:
        session.read_back = ReadBack(settle_s=0.1, limit_s=0.6)
        dn = f"CN=lost,{parent}"
        if silent:
            proxy.arm(down=0, stall=True)  # from here on nothing comes back, on no connection
        else:
            proxy.arm(down=0)
            proxy.refuse = True
        started = time.monotonic()
        with pytest.raises(OutcomeUnknown, match="nothing was repeated") as caught:
            session.add(dn, container(uuid4()))
        assert time.monotonic() - started < 0.4 + 0.6 + 1
        assert caught.value.dn == dn
        proxy.refuse = False
        proxy.disarm()
        proxy.cut_all()
        witness.get(dn, [])  # it was made indeed, and only once


def test_a_silent_server_is_not_believed(
    openldap_server: OpenLdapServer, witness: Session, proxy: Proxy
) -> None:
    """The request may still lie in its queue: that it is not there yet proves nothing."""
    options = clear_text(openldap_server, proxy, operation_timeout_s=0.4)
    with scratch(witness) as parent, Session.open(options) as session:
        session.read_back = ReadBack(settle_s=0.1, limit_s=5)
        fault = proxy.arm(up=20, stall=True)
        proxy.only_this_connection = True
        with pytest.raises(OutcomeUnknown, match="does not show it"):
            session.add(f"CN=late,{parent}", container(uuid4()))
        assert fault.struck.is_set()
        proxy.only_this_connection = False
        proxy.disarm()
        proxy.cut_all()
