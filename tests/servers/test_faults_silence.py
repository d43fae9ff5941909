"""Servers that say nothing, or almost nothing: every call returns within its limit."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from support.servers import answers
from support.servers.processes import stop
from support.servers.proxy import Proxy, black_hole, say_nothing, scripted_server
from support.servers.sessions import clear_text, container, options_for

from mqdssm.directory.filters import TRUE
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.recovery import ReadBack
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryNotConnected, OutcomeUnknown
from mqdssm.testing.openldap import OpenLdapServer

LIMIT_S = 0.3
SLACK_S = 1.0


def timed(call: Callable[[], object], limit_s: float) -> DirectoryNotConnected:
    """The error of a call, which must come in time."""
    started = time.monotonic()
    with pytest.raises(DirectoryNotConnected) as caught:
        call()
    assert time.monotonic() - started < limit_s + SLACK_S
    return caught.value


class TestConnecting:
    def options(self, port: int, scheme: str = "ldap", **settings: object) -> ConnectionOptions:
        return ConnectionOptions.of(
            f"{scheme}://127.0.0.1:{port}",
            connect_timeout_s=LIMIT_S,
            operation_timeout_s=LIMIT_S,
            **settings,  # type: ignore[arg-type]
        )

    def test_black_hole(self) -> None:
        with black_hole() as port:
            error = timed(lambda: Session.open(self.options(port, tls="none")), LIMIT_S)
        assert "time limit" in str(error)

    @pytest.mark.parametrize(("scheme", "tls"), [("ldap", "none"), ("ldap", "starttls"), ("ldaps", "ldaps")])
    def test_half_open(self, scheme: str, tls: str) -> None:
        with scripted_server(say_nothing) as port:
            error = timed(lambda: Session.open(self.options(port, scheme, tls=tls)), LIMIT_S)
        assert "time limit" in str(error)

    def test_half_open_after_the_bind(self) -> None:
        with scripted_server(answers.conversation(answers.bind_done)) as port:
            timed(lambda: Session.open(self.options(port, tls="none")), 2 * LIMIT_S)

    def test_slow_loris(self) -> None:
        """Single bytes, each well within a time-out of its own."""

        def drip(connection: object) -> None:
            connection.recv(4096)  # type: ignore[attr-defined]
            for octet in b"\x30\x84\x00\x00\x10\x00" + bytes(4096):
                connection.sendall(bytes((octet,)))  # type: ignore[attr-defined]
                time.sleep(0.02)

        with scripted_server(drip) as port:
            timed(lambda: Session.open(self.options(port, tls="none")), LIMIT_S)

    def test_list_of_silent_servers_takes_the_sum_of_their_limits(self) -> None:
        with black_hole() as hole, scripted_server(say_nothing) as half:
            options = ConnectionOptions.of(
                [f"ldap://127.0.0.1:{hole}", f"ldap://127.0.0.1:{half}"], connect_timeout_s=LIMIT_S
            )
            timed(lambda: Session.open(options), 2 * LIMIT_S)

    def test_closes_at_once(self) -> None:
        with scripted_server(lambda _: None) as port:
            timed(lambda: Session.open(self.options(port, tls="none")), LIMIT_S)


class TestOperations:
    @pytest.fixture
    def proxy(self, openldap_server: OpenLdapServer) -> Iterator[Proxy]:
        with Proxy("127.0.0.1", openldap_server.port) as running:
            yield running

    @pytest.fixture
    def session(self, openldap_server: OpenLdapServer, proxy: Proxy) -> Iterator[Session]:
        options = clear_text(openldap_server, proxy, operation_timeout_s=LIMIT_S, connect_timeout_s=LIMIT_S)
        with Session.open(options) as opened:
            opened.read_back = ReadBack(settle_s=0.1, limit_s=LIMIT_S)
            yield opened
            proxy.disarm()
            proxy.cut_all()

    CALLS: dict[str, tuple[Callable[[Session, str], object], float]] = {  # noqa: RUF012  a table of tests
        "get": (lambda session, base: session.get(base, ["*"]), LIMIT_S),
        "get by guid": (lambda session, _: session.get(uuid4(), []), LIMIT_S),
        "find": (lambda session, base: list(session.find(base, TRUE, ["*"])), LIMIT_S),
        "rows": (lambda session, base: list(session.rows(base, TRUE, ["cn"])), LIMIT_S),
        "who am I": (lambda session, _: session.bound_name(), LIMIT_S),
        "add": (lambda session, base: session.add(f"CN=x,{base}", container(uuid4())), 2 * LIMIT_S),
        "modify": (
            lambda session, base: session.modify(f"CN=nobody,{base}", {"description": [uuid4().bytes]}),
            2 * LIMIT_S,
        ),
        "delete": (lambda session, base: session.delete(f"CN=nobody,{base}"), 2 * LIMIT_S),
        "rename": (lambda session, base: session.rename(f"CN=nobody,{base}", "CN=x"), 2 * LIMIT_S),
    }

    @pytest.mark.parametrize("name", CALLS)
    def test_server_falls_silent(
        self, session: Session, proxy: Proxy, openldap_server: OpenLdapServer, name: str
    ) -> None:
        call, limit_s = self.CALLS[name]
        proxy.arm(up=0, stall=True)
        error = timed(lambda: call(session, openldap_server.base_dn), limit_s)
        assert isinstance(error, OutcomeUnknown) == (limit_s > LIMIT_S)
        assert session.references == 0

    def test_answers_that_drip(self, session: Session, proxy: Proxy, openldap_server: OpenLdapServer) -> None:
        proxy.down_delay_s = 0.02
        timed(lambda: session.get(openldap_server.base_dn, ["*"]), LIMIT_S)
        timed(lambda: list(session.find(openldap_server.base_dn, TRUE, ["*"])), LIMIT_S)

    def test_stopped_server_that_goes_on_later(self) -> None:
        """SIGSTOP: the kernel still takes connections and bytes, nobody reads them."""
        with OpenLdapServer(durable=False) as server:
            options = options_for(server, operation_timeout_s=LIMIT_S, connect_timeout_s=LIMIT_S)
            with Session.open(options) as session:
                session.read_back = ReadBack(settle_s=0.1, limit_s=LIMIT_S)
                pid = server.pid
                assert pid is not None
                stop(pid)
                try:
                    timed(lambda: session.get(server.base_dn, []), LIMIT_S)
                    timed(lambda: session.get(server.base_dn, []), LIMIT_S)  # on a new connection
                finally:
                    os.kill(pid, signal.SIGCONT)
                assert session.get(server.base_dn, []).dn
