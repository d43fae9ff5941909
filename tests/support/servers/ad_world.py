"""A domain for the tests of Active Directory: our directory, the controller, and its own tools."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import mqdssm
from mqdssm.testing import SambaDomainController
from support.servers.limits_proxy import LimitsProxy
from support.servers.limits_rules import Limits
from support.servers.samba_tools import SambaTools

_numbers = count(1)
_RUN = uuid4().hex[:4].upper()


@dataclass
class Domain:
    """What most tests of Active Directory begin with; names are never used twice."""

    directory: mqdssm.Directory
    server: SambaDomainController
    tools: SambaTools

    @property
    def root(self) -> str:
        return self.server.base_dn

    def name(self, prefix: str = "M") -> str:
        return f"{prefix}{_RUN}{next(_numbers)}"

    def machine(self) -> str:
        """A computer without MSMQ."""
        name = self.name()
        self.server.add_computer(name)
        return name

    def site(self) -> UUID:
        return self.directory.create(mqdssm.Site(name=self.name("S")))

    def queue_manager(self, **more: Any) -> tuple[str, UUID]:
        """A computer with MSMQ; returns its name and the queue manager's GUID."""
        name = self.machine()
        sites = tuple(more.pop("site_identifier_list", None) or [self.site()])
        manager = mqdssm.QueueManager(computer_name=name, site_identifier_list=sites, **more)
        return name, self.directory.create(manager)

    @contextmanager
    def as_user(self, user: str, password: str, **more: Any) -> Iterator[mqdssm.Directory]:
        """The directory of somebody else."""
        with mqdssm.connect(
            self.server.ldaps_url, user=user, password=password, ca_file=self.server.ca_file, **more
        ) as directory:
            yield directory

    @contextmanager
    def proxy(self, port: int, folder: Path, **limits: Any) -> Iterator[LimitsProxy]:
        """The proxy that does what Windows does and Samba does not, before one of the controller's ports."""
        with LimitsProxy(
            self.server.address,
            port,
            folder,
            ca_file=self.server.ca_file,
            limits=Limits(**limits),
            system_socket=self.server.folder / "private" / "ldap_priv" / "ldapi",
        ) as proxy:
            yield proxy

    @contextmanager
    def in_forest(
        self, folder: Path, *, other_domain: str = "", **more: Any
    ) -> Iterator[tuple[mqdssm.Directory, LimitsProxy, LimitsProxy]]:
        """The directory of a whole forest, its domain controller and its catalog as narrow as Windows'."""
        with (
            self.proxy(636, folder / "dc", other_domain=other_domain) as controller,
            self.proxy(3269, folder / "gc", other_domain=other_domain, catalog=True) as catalog,
        ):
            both = folder / "both.pem"
            both.write_text("".join(Path(one.ca_file).read_text() for one in (controller, catalog)))
            with mqdssm.connect(
                controller.ldaps_url,
                user=self.server.user,
                password=self.server.password,
                ca_file=str(both),
                forest=True,
                catalog=catalog.ldaps_url,
                **more,
            ) as directory:
                yield directory, controller, catalog

    @contextmanager
    def behind_limits(self, folder: Path, **limits: Any) -> Iterator[tuple[mqdssm.Directory, LimitsProxy]]:
        """The directory through the proxy that does what Windows does and Samba does not."""
        with (
            self.proxy(636, folder / "proxy", **limits) as proxy,
            mqdssm.connect(
                proxy.ldaps_url, user=self.server.user, password=self.server.password, ca_file=proxy.ca_file
            ) as directory,
        ):
            yield directory, proxy


@contextmanager
def own_domain() -> Iterator[Domain]:
    """A domain on a controller of its own; what the tests have left in it must be sound."""
    with SambaDomainController() as server:
        with mqdssm.connect(
            server.ldaps_url, user=server.user, password=server.password, ca_file=server.ca_file
        ) as directory:
            yield Domain(directory, server, SambaTools(server))
        SambaTools(server).check_database()
