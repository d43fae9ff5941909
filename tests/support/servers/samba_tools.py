"""The domain seen by Samba's own tools, never by our code: ldbsearch, ldbadd, samba-tool.

Most work on the database of a controller that runs (Samba allows it), some over LDAP as the administrator.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mqdssm.testing.samba import SambaDomainController
from support.servers.plain_ldap import Entry, _ldif, _parse

SHOW_DELETED = "show_deleted:1"
RELAX = "relax:0"
COMMAND_S = 600  # ten thousand objects at once take a minute on a quiet machine


def missing() -> str:
    """Why the tools cannot be run here, or nothing."""
    absent = [name for name in ("ldbsearch", "ldbadd", "samba-tool") if shutil.which(name) is None]
    return f"{', '.join(absent)} not found (Debian: apt install ldb-tools samba-common-bin)" if absent else ""


def take_ticket(server: SambaDomainController) -> None:
    """Put a ticket of the administrator into the cache that KRB5CCNAME names."""
    name = f"Administrator@{server.realm}"
    subprocess.run(["kinit", name], input=f"{server.password}\n".encode(), check=True, capture_output=True)


@dataclass(frozen=True)
class SambaTools:
    """Samba's command line on one controller."""

    server: SambaDomainController

    def _run(self, command: Sequence[str], ldif: str = "", *, failure_is_fine: bool = False) -> str:
        done = subprocess.run(
            command,
            input=ldif,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
        if done.returncode and not failure_is_fine:
            raise AssertionError(
                f"{command[0]} exit {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done.stdout

    def _ldb(self, program: str, *arguments: str, ldif: str = "", controls: Sequence[str] = ()) -> str:
        given = [f"--controls={control}" for control in controls]
        return self._run(
            [
                program,
                f"--configfile={self.server.settings_file}",
                "-H",
                self.server.database,
                *given,
                *arguments,
            ],
            ldif,
        )

    def search(
        self,
        search_filter: str,
        *attributes: str,
        base: str | None = None,
        scope: str = "sub",
        controls: Sequence[str] = (),
    ) -> dict[str, Entry]:
        """Entries by DN, as ldbsearch reads them from the database; `base` None is the domain."""
        where = self.server.base_dn if base is None else base
        text = self._ldb(
            "ldbsearch", "-b", where, f"--scope={scope}", search_filter, *attributes, controls=controls
        )
        return _parse(_unfolded(text))

    def entry(self, dn: str, *attributes: str, controls: Sequence[str] = ()) -> Entry:
        """One entry; an AssertionError when it is not there."""
        found = self.search("(objectClass=*)", *attributes, base=dn, scope="base", controls=controls)
        assert len(found) == 1, f"{dn}: {len(found)} entries"
        return next(iter(found.values()))

    def add(
        self,
        dn: str,
        attributes: Mapping[str, Sequence[str | bytes] | str | bytes],
        controls: Sequence[str] = (),
    ) -> str:
        """Add an entry below all rules of LDAP: with ``relax:0`` also with an objectGUID of its own."""
        self._ldb("ldbadd", ldif=_ldif(dn, attributes), controls=controls)
        return dn

    def add_text(self, ldif: str) -> None:
        """Add all entries of an LDIF text at once."""
        self._ldb("ldbadd", ldif=ldif)

    def modify(self, dn: str, changes: str, controls: Sequence[str] = ()) -> None:
        """Modify an entry; the text is what follows ``changetype: modify`` in LDIF."""
        self._ldb("ldbmodify", ldif=f"dn: {dn}\nchangetype: modify\n{changes.strip()}\n", controls=controls)

    def delete(self, *dns: str) -> None:
        """Delete entries, in the order given."""
        self._ldb("ldbdel", *dns)

    def tool(self, *arguments: str) -> str:
        """What ``samba-tool`` prints, with this controller's settings."""
        return self._run(["samba-tool", *arguments, "-s", self.server.settings_file])

    def sddl(self, dn: str) -> str:
        """The security descriptor of an object, as ``samba-tool dsacl get`` writes it."""
        text = self.tool("dsacl", "get", f"--objectdn={dn}", "-H", self.server.database)
        return text.partition("descriptor for ")[2].partition(":\n")[2].strip()

    def check_database(self) -> None:
        """Raise AssertionError when ``samba-tool dbcheck`` finds an error in what tests write to.

        That is the domain and its configuration. Half of the time would be for the schema.
        """
        command = ["samba-tool", "dbcheck", "-s", self.server.settings_file, "-H", self.server.database]
        for context in (self.server.base_dn, f"CN=Configuration,{self.server.base_dn}"):
            text = self._run([*command, context], failure_is_fine=True)
            assert "(0 errors)" in text, text[-4000:]


def _unfolded(text: str) -> str:
    """LDIF with one line a value, without the remarks of ldbsearch."""
    return text.replace("\n ", "")
