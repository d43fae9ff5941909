"""The directory seen by other programs: OpenLDAP's own command line tools, never our code."""

import base64
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mqdssm.testing.openldap import OpenLdapServer

Entry = dict[str, list[bytes]]
Values = Mapping[str, Sequence[str | bytes] | str | bytes]


@dataclass(frozen=True)
class PlainLdap:
    """ldapsearch, ldapadd, ldapmodify and ldapdelete as the owner of the server, over its local socket."""

    server: OpenLdapServer

    def login(self) -> tuple[str, ...]:
        """Where and as whom the tools work."""
        return ("-Q", "-Y", "EXTERNAL", "-H", self.server.ldapi_url)

    def _run(self, program: str, *arguments: str, ldif: str = "") -> str:
        command = [program, *self.login(), *arguments]
        done = subprocess.run(
            command,
            input=ldif,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"LDAPNOINIT": "1"},
        )
        if done.returncode:
            raise AssertionError(f"{program} exit {done.returncode}: {done.stderr}")
        return done.stdout

    def search(
        self, base: str, search_filter: str = "(objectClass=*)", *attributes: str, scope: str = "sub"
    ) -> dict[str, Entry]:
        """Entries by DN, attribute names as the server spells them."""
        text = self._run(
            "ldapsearch", "-LLL", "-o", "ldif-wrap=no", "-b", base, "-s", scope, search_filter, *attributes
        )
        return _parse(text)

    def entry(self, dn: str, *attributes: str) -> Entry:
        """One entry; an AssertionError when it is not there."""
        found = self.search(dn, "(objectClass=*)", *attributes, scope="base")
        assert len(found) == 1, f"{dn}: {len(found)} entries"
        return next(iter(found.values()))

    def exists(self, dn: str) -> bool:
        """Whether an entry is there."""
        try:
            return bool(self.search(dn, "(objectClass=*)", "1.1", scope="base"))
        except AssertionError as error:
            if "No such object" not in str(error):
                raise
            return False

    def dns(self, base: str, search_filter: str = "(objectClass=*)") -> list[str]:
        """The DNs of all matching entries."""
        return list(self.search(base, search_filter, "1.1"))

    def versions(self, base: str) -> dict[str, Any]:
        """What is different after any change at or below an entry."""
        return self.search(base, "(objectClass=*)", "*", "modifyTimestamp", "entryCSN")

    def add(self, dn: str, attributes: Values) -> str:
        """Add an entry as a person with an LDIF file would."""
        self.add_many([(dn, attributes)])
        return dn

    def add_many(self, entries: Iterable[tuple[str, Values]]) -> None:
        """Add entries with one LDIF file."""
        self._run("ldapadd", *self._add_options(), ldif="\n".join(_ldif(*entry) for entry in entries))

    def _add_options(self) -> tuple[str, ...]:
        return ()

    def modify(self, dn: str, changes: str) -> None:
        """Modify an entry; the text is what follows ``changetype: modify`` in LDIF."""
        self.modify_many([(dn, changes)])

    def modify_many(self, changes: Iterable[tuple[str, str]]) -> None:
        """Modify entries with one LDIF file."""
        records = (f"{_line('dn', dn)}\nchangetype: modify\n{text.strip()}\n" for dn, text in changes)
        self._run("ldapmodify", ldif="\n".join(records))

    def move_many(self, moves: Iterable[tuple[str, str]]) -> None:
        """Move entries below others with one LDIF file: each DN, and where to."""
        records = (
            f"{_line('dn', dn)}\nchangetype: modrdn\n{_line('newrdn', dn.partition(',')[0])}\n"
            f"deleteoldrdn: 1\n{_line('newsuperior', place)}\n"
            for dn, place in moves
        )
        self._run("ldapmodify", ldif="\n".join(records))

    def add_again(self, dn: str, entry: Entry) -> None:
        """Put back what `entry` gave before it was deleted."""
        self.add(dn, entry)

    def delete(self, *dns: str) -> None:
        """Delete entries, in the order given."""
        self._run("ldapdelete", "-c", ldif="".join(f"{dn}\n" for dn in dns))


def _line(name: str, value: str | bytes) -> str:
    raw = value.encode() if isinstance(value, str) else value
    return f"{name}:: {base64.b64encode(raw).decode()}"


def _ldif(dn: str, attributes: Values) -> str:
    lines = [_line("dn", dn)]
    for name, values in attributes.items():
        many = [values] if isinstance(values, (str, bytes)) else values
        lines += [_line(name, value) for value in many]
    return "\n".join(lines) + "\n"


def _parse(text: str) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for block in text.split("\n\n"):
        dn: str | None = None
        entry: Entry = {}
        for line in block.splitlines():
            if not line or line.startswith("#"):
                continue
            name, _, rest = line.partition(":")
            raw = base64.b64decode(rest[1:].strip()) if rest.startswith(":") else rest[1:].encode()
            if name == "dn":
                dn = raw.decode()
            else:
                entry.setdefault(name, []).append(raw)
        if dn is not None:
            entries[dn] = entry
    return entries
