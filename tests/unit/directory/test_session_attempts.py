"""A broken connection lets a read be tried again; an answer that is no LDAP does not."""

import socket
from collections.abc import Callable

import pytest
from support.servers import answers
from support.servers.proxy import scripted_server

from mqdssm.directory import channel as channel_module
from mqdssm.directory.filters import TRUE
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.requests import encode_delete
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryNotConnected

READS: dict[str, Callable[[Session], object]] = {
    "get": lambda session: session.get("DC=x", ["cn"]),
    "find": lambda session: list(session.find("DC=x", TRUE, ["cn"])),
    "rows": lambda session: list(session.rows("DC=x", TRUE, ["cn"])),
    "who am I": lambda session: session.bound_name(),
}
NONSENSE: dict[str, Callable[[int], bytes]] = {
    "garbage": lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "another id": lambda number: answers.search_done(number + 1),
    "a request": lambda number: encode_delete(number, "DC=x"),
    "without end": lambda number: answers.entry(number, "DC=x", {"cn": [b"v" * 3000]}),
}


@pytest.mark.parametrize("answer", NONSENSE)
@pytest.mark.parametrize("read", READS)
def test_nonsense_is_asked_for_once(read: str, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def nonsense(number: int) -> bytes:
        asked.append(number)
        return NONSENSE[answer](number)

    # each connection starts a new conversation; the root DSE is read on the first one only
    connections = [answers.conversation(answers.bind_done, answers.openldap_root_dse, nonsense)]
    connections += [answers.conversation(answers.bind_done, nonsense)] * 2

    def converse(connection: socket.socket) -> None:
        connections.pop(0)(connection)

    with scripted_server(converse) as port:
        options = ConnectionOptions.of(f"ldap://127.0.0.1:{port}", tls="none", operation_timeout_s=5)
        with Session.open(options) as session:
            monkeypatch.setattr(channel_module, "ANSWER_BYTES_MAX", 2000)
            with pytest.raises(DirectoryNotConnected, match="broke the LDAP protocol"):
                READS[read](session)
    assert len(asked) == 1
