"""Directories of many objects, made offline: slapadd takes 40,000 entries a second."""

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

from mqdssm.pipeline.ldif import record
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.wire.dtyp import SecurityDescriptor
from support.directory.ldif_reader import comparable, read_ldif

MACHINES = 20


def guid(kind: int, number: int) -> bytes:
    return uuid.UUID(int=(kind << 64) + number).bytes_le


def entries(root: str, queues: int) -> Iterator[bytes]:
    """Computers with queue managers, and queues of many shapes below them."""
    descriptors = [bytes(SecurityDescriptor.from_sddl(f"O:SYG:SYD:(A;;0x{n};;;WD)")) for n in range(1, 6)]
    for n in range(MACHINES):
        computer = f"cn=pc{n},cn=Computers,{root}"
        yield record(
            computer, [("objectClass", [b"computer"]), ("cn", [b"pc%d" % n]), ("objectGUID", [guid(1, n)])]
        )
        manager = [("objectClass", [b"mSMQConfiguration"]), ("cn", [b"msmq"]), ("objectGUID", [guid(2, n)])]
        yield record(f"cn=msmq,{computer}", manager)
    for n in range(queues):
        attributes = [
            ("objectClass", [b"mSMQQueue"]),
            ("cn", [b"q%d" % n]),
            ("objectGUID", [guid(3, n)]),
            ("nTSecurityDescriptor", [descriptors[n % 5]]),
        ]
        if n % 2:
            attributes += [
                ("mSMQLabelEx", [f"Größe {n}".encode()]),
                ("mSMQQueueQuota", [b"%d" % (n % 7 - 3)]),
            ]
        if n % 3:
            attributes += [("mSMQJournal", [b"TRUE" if n % 5 else b"FALSE"]), ("mSMQQueueType", [guid(4, n)])]
        if n % 4:
            attributes += [
                ("mSMQBasePriority", [b"%d" % (n % 9 - 4)]),
                ("mSMQPrivacyLevel", [b"%d" % (n % 3)]),
            ]
        yield record(f"cn=q{n},cn=msmq,cn=pc{n % MACHINES},cn=Computers,{root}", attributes)


def fill(server: OpenLdapServer, queues: int) -> None:
    """Put the objects into a server, which is stopped meanwhile."""
    server.stop()
    file = server.folder / "many.ldif"
    with file.open("wb") as out:
        out.writelines(entries(server.base_dn, queues))
    program = str(shutil.which("slapadd", path="/usr/sbin:/usr/bin"))
    command = [
        program,
        "-q",
        "-f",
        str(server.folder / "conf" / "slapd.conf"),
        "-b",
        server.base_dn,
        "-l",
        str(file),
    ]
    subprocess.run(command, check=True)
    file.unlink()
    server.start()


def ldapsearch(server, wanted: str = "(objectClass=*)", *names: str) -> dict[str, dict[str, list[bytes]]]:
    """What the tool of OpenLDAP shows: lower-case DN -> lower-case attribute -> sorted values."""
    command = [
        "ldapsearch",
        "-LLL",
        "-x",
        "-ZZ",
        "-H",
        server.url,
        "-D",
        server.user,
        "-y",
        _password(server),
    ]
    command += ["-b", server.base_dn, "-o", "ldif_wrap=no", "-E", "pr=1000/noprompt", wanted, *names]
    done = subprocess.run(
        command, check=True, capture_output=True, env={"LDAPTLS_CACERT": str(server.ca_file)}
    )
    text = b"\n".join(line for line in done.stdout.split(b"\n") if not line.startswith(b"# refldap"))
    return comparable(read_ldif(text))


def _password(server) -> str:
    """A file that holds the password and nothing else; no command line shows it."""
    file = Path(server.folder) / "password.bare"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(server.password)
    return str(file)
