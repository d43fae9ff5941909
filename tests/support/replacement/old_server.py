"""A server that is to be replaced, with everything that refers to it, in a directory of any kind."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import mqdssm
from mqdssm.directory.filters import Equal, Present
from mqdssm.model.dn import normalize
from mqdssm.pipeline.migrate.applying import apply_plan
from mqdssm.pipeline.migrate.report import MigrationReport
from mqdssm.pipeline.replacement import Replacement, replace_server
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.sid import Sid
from support.spark.engines import chosen_engine

Entries = Mapping[str, Mapping[str, Sequence[bytes]]]
VOLATILE = frozenset({"whenchanged", "whencreated", "usnchanged", "usncreated", "dscorepropagationdata"})
"""Attributes that the server writes by itself at each change."""
QUEUES = ("orders", "q" * 80, "a=b.c_$")
KEY = b"old public keys"


@dataclass
class OldServer:
    """A routing server with queues, and a computer that takes its place.

    Attributes:
        server: the directory server.
        url: by which it is reached.
        old: name of the computer with the queue manager.
        new: name of the computer without.
        other: name of a computer with a queue manager that refers to the first one.
        guid: of the queue manager.
        queues: path name of a queue -> its GUID.
        link: DN of a routing link with the queue manager as gate.
        alias: DN of a queue alias of a direct format name.
        group: DN of a distribution list of a queue, with the old computer as a member, too.
        sites: names of its site, and of the one at the other end of the link.
    """

    server: Any
    url: str
    old: str
    new: str
    other: str
    guid: UUID
    queues: Mapping[str, UUID]
    link: str
    alias: str
    group: str
    sites: tuple[str, str]

    @classmethod
    def make(cls, server: Any, *, names: Sequence[str] = QUEUES) -> "OldServer":
        """Make the objects, all of a test's own."""
        unique = uuid4().hex[:8]
        old, new, other = (f"{prefix}{unique}" for prefix in ("old", "new", "oth"))
        computers = [server.add_computer(name) for name in (old, new, other)]
        sites = (f"RA-{unique}", f"RB-{unique}")
        url = server.ldapi_url
        login = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
        with mqdssm.connect(url, **login) as directory:
            session = directory.session
            home, far = (directory.create(mqdssm.Site(name=name)) for name in sites)
            guid = directory.create(
                mqdssm.QueueManager(
                    computer_name=old,
                    site_identifier_list=[home],
                    routing_server=True,
                    public_encryption_key_list=KEY,
                )
            )
            directory.create(
                mqdssm.QueueManager(
                    computer_name=other,
                    site_identifier_list=[home],
                    out_routing_server_identifier_list=[guid],
                )
            )
            link = mqdssm.RoutingLink(
                site1_identifier=home, site2_identifier=far, site_gate_identifier_list=[guid], actual_cost=1
            )
            directory.create(link)
            sid = sid_of(session, computers[0])
            rights = bytes(SecurityDescriptor.from_sddl(f"D:(A;;0x3;;;{sid})(A;;0xf003f;;;BA)(A;;0x4;;;WD)"))
            queues = {}
            for name in names:
                path = f"{old}\\{name}"
                queues[path] = directory.create(mqdssm.Queue(pathname=path, label=name[:5], security=rights))
            directory.create(mqdssm.Queue(pathname=f"{other}\\theirs", security=rights))
            users = session.naming.root.child("CN", "Users")
            alias, by_address, group = (
                str(users.child("CN", f"{prefix}{unique}")) for prefix in ("alias", "tcp", "list")
            )
            for dn, text in (
                (alias, f"DIRECT=OS:{old.upper()}\\orders"),
                (by_address, r"DIRECT=TCP:1.2.3.4\q"),
            ):
                values = {
                    "objectClass": [b"msMQ-Custom-Recipient"],
                    "msMQ-Recipient-FormatName": [text.encode()],
                }
                session.add(dn, values)
            queue = directory.read(mqdssm.Queue, [mqdssm.Filter("Pathname", "==", f"{old}\\orders")])
            members = [str(queue.full_path).encode(), computers[0].encode()]
            session.add(group, {"objectClass": [b"group"], "member": members})
            (found,) = session.find(
                session.naming.configuration,
                Equal("mSMQSiteGates", str(_manager(computers[0])).encode()),
                ["cn"],
            )
        return cls(server, url, old, new, other, guid, queues, found.dn, alias, group, sites)

    @property
    def login(self) -> dict[str, Any]:
        return {"user": self.server.user, "password": self.server.password, "ca_file": self.server.ca_file}

    def connect(self) -> mqdssm.Directory:
        return mqdssm.connect(self.url, **self.login)

    def plan(self, to: Path, *, old: str = "", new: str = "", **asked: Any) -> Replacement:
        return replace_server(old or self.old, new or self.new, self.url, to, **asked, **self.login)

    def apply(self, plan: Path) -> MigrationReport:
        return apply_plan(plan, self.url, engine=chosen_engine(), **self.login)

    def manager(self, computer: str) -> mqdssm.QueueManager:
        with self.connect() as directory:
            return directory.read(mqdssm.QueueManager, [mqdssm.Filter("ComputerName", "==", computer)])

    def queues_of(self, computer: str) -> dict[str, UUID]:
        """Path names and GUIDs of the queues of a computer."""
        with self.connect() as directory:
            return {
                str(queue.pathname): queue.identifier
                for queue in directory.search(mqdssm.Queue)
                if str(queue.pathname).startswith(f"{computer}\\") and queue.identifier
            }

    @property
    def keeps_guids(self) -> bool:
        with self.connect() as directory:
            return directory.session.keeps_guids

    def computer(self, name: str) -> str:
        with self.connect() as directory:
            return f"CN={name},CN=Computers,{directory.session.naming.root}"

    def manager_dn(self, name: str) -> str:
        return f"CN=msmq,{self.computer(name)}"

    def sid(self, name: str) -> Sid:
        with self.connect() as directory:
            return sid_of(directory.session, self.computer(name))

    def rights(self, dn: str) -> dict[Sid, list[int]]:
        """Own entries of the DACL of an object: account -> masks."""
        with self.connect() as directory:
            image = directory.session.get(dn, ["nTSecurityDescriptor"]).first("nTSecurityDescriptor")
        dacl = SecurityDescriptor.from_bytes(image or b"").dacl
        rights: dict[Sid, list[int]] = {}
        for ace in dacl.aces if dacl else ():
            if ace.sid is not None and not ace.inherited:
                rights.setdefault(ace.sid, []).append(ace.mask)
        return rights

    def settings(self) -> list[str]:
        """Names of the settings objects of the queue manager: object, server and site."""
        with self.connect() as directory:
            session = directory.session
            owned = Equal("mSMQQMID", self.guid.bytes_le)
            found = [entry.name for entry in session.find(session.naming.configuration, owned, ["mSMQQMID"])]
        return sorted(f"{dn.name},{dn.parent.name},{dn.parent.parent.parent.name}" for dn in found)

    def values(self, dn: str, attribute: str) -> list[str]:
        with self.connect() as directory:
            return sorted(raw.decode() for raw in directory.session.get(dn, [attribute]).all(attribute))

    def entries(self) -> Entries:
        """All entries of the directory with their attributes and descriptors, but what servers write."""
        found: dict[str, dict[str, list[bytes]]] = {}
        with self.connect() as directory:
            session = directory.session
            for base in session.naming.guid_bases:
                for entry in session.find(base, Present("objectClass"), ["*", "nTSecurityDescriptor"]):
                    attributes = {
                        name: sorted(raws)
                        for name, raws in entry.attributes.items()
                        if name.lower() not in VOLATILE
                    }
                    found[normalize(entry.dn)] = attributes
        return found

    def undo(self, plan: Path, *, is_again: bool = False) -> None:
        """Load the undo file with OpenLDAP's own tool, over the server's socket.

        A second time some of its changes are refused.
        """
        command = ["ldapmodify", "-c", "-H", self.server.url, "-x", "-ZZ"]
        command += ["-D", self.server.user, "-w", self.server.password, "-f", str(plan / "undo.ldif")]
        environment = {"LDAPTLS_CACERT": self.server.ca_file, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, capture_output=True, env=environment, timeout=100, check=False)
        assert (done.returncode != 0) is is_again, done.stderr.decode()


def sid_of(session: Any, computer: str) -> Sid:
    return Sid.from_bytes(session.get(computer, ["objectSid"]).first("objectSid"))


def _manager(computer: str) -> str:
    return f"CN=msmq,{computer}"
