"""A PEC that admits servers with join tokens."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mqdssm.drivers.tcp.network import TcpNetwork
from mqdssm.engines.replication.operations import ObjectRead, ReadObject
from mqdssm.engines.replication.settings import Role
from mqdssm.model.hresults import is_failure
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.socket_addresses import SocketAddress
from mqdssm.server.admission import Admission
from mqdssm.server.config import ServerConfig, TransportSection
from mqdssm.server.control_protocol import TokenRequest
from mqdssm.server.hosts import HostTable
from mqdssm.server.join_token import JoinToken
from mqdssm.server.join_tokens import JoinTokens
from mqdssm.server.token_admission import TokenAdmission
from support.replication.live_servers import Enterprise, pec_with_site, section_of_pec
from support.replication.queue_managers import key_of
from support.replication.tcp_machines import QUICK


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Berlin:
    """A PEC in memory with one carrier over TCP, which admits with tokens; it knows PSC1 of Site1."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.clock = Clock()
        self.reports: list[str] = []
        self.hosts = HostTable(folder / "hosts.json", {}, {}, None)
        network = TcpNetwork(
            SocketAddress("127.0.0.1", 0), folder / "numbers.json", self.hosts.resolver, settings=QUICK
        )
        self.enterprise = Enterprise(network=_OneMachine(network))  # type: ignore[arg-type]
        stack.callback(self.enterprise.close)
        pec_with_site(self.enterprise)
        self.pec = self.enterprise.servers["PEC"]
        self.address = network.address
        config = ServerConfig(server=section_of_pec(), transport=TransportSection(listen=str(self.address)))
        admission = Admission(self.pec.server, config, key_of("PEC").public_keys(), self.hosts)
        self.tokens = JoinTokens(folder / "tokens.json", self.clock)
        self.admission = TokenAdmission(
            admission, self.tokens, key_of("PEC"), listen=network.address, on_report=self.reports.append
        )
        stack.enter_context(self.admission)

    def token(self, **changes: Any) -> JoinToken:
        asked = {"role": Role.PSC, "site": "Rome", "machine_name": "PSC2", "valid_s": 3600, **changes}
        return JoinToken.parse(self.admission.make(TokenRequest(**asked)).token)

    def site(self, name: str) -> dict[Propid, Any] | None:
        read = self.pec.store.lookup(ReadObject(object_type=ObjectType.SITE, path_name=name))
        assert isinstance(read, ObjectRead)
        return None if is_failure(read.status) else dict(read.properties or ())

    def counted(self, outcome: str) -> int:
        return self.admission.counts.copy().get(outcome, 0)


class _OneMachine:
    """A carrier, with the interface of a network."""

    def __init__(self, network: TcpNetwork) -> None:
        self.add = network.add

    def close(self) -> None:
        """Do nothing: the queue manager ends the carrier."""
