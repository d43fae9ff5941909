"""Map of old SIDs to new ones, applied to users and to security descriptors."""

import csv
import hashlib
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from mqdssm.errors import ConfigError
from mqdssm.events.input_files import TooLongFileError, read_limited
from mqdssm.wire.acl import Acl
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.sid import Sid

MAP_BYTES_MAX: Final = 256 * 1024 * 1024
_DESCRIPTORS_REMEMBERED: Final = 4096
"""Thousands of queues share a few descriptors."""


@dataclass(frozen=True, slots=True)
class SidMap:
    """Map of old SIDs to new SIDs.

    Attributes:
        sids: single ones.
        domains: of whole domains: the last number stays.
        names: old SIDs -> names of accounts, which the target must resolve first.
        sha256: of the file; empty for no map.
    """

    sids: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""

    def look_up(self, sid: Sid) -> Sid | None:
        """Return the new SID for an old one; None if it is not in the map."""
        single = self.sids.get(sid.text)
        if single is not None:
            return Sid(single)
        domain = sid.domain
        whole = None if domain is None else self.domains.get(domain.text)
        return None if whole is None else Sid(f"{whole}-{sid.rid}")

    def resolve_names(self, sids: Mapping[str, str]) -> "SidMap":
        """Return the map with names of accounts replaced by their SIDs.

        Args:
            sids: lower-case name -> SID.

        Raises:
            ConfigError: accounts that the target does not have.
        """
        missing = sorted({name for name in self.names.values() if name.lower() not in sids})
        if missing:
            examples = ", ".join(missing[:10]) + (
                f" and {len(missing) - 10} more" if len(missing) > 10 else ""
            )
            raise ConfigError(f"the map of SIDs names accounts that the directory does not have: {examples}")
        named = {sid: sids[name.lower()] for sid, name in self.names.items()}
        return replace(self, sids={**self.sids, **named}, names={})


def load_sid_map(path: Path) -> SidMap:
    """Read a map of SIDs from TOML or CSV.

    TOML has tables ``sids`` and ``domains``; a line of CSV has old and new SID.

    Raises:
        ConfigError: it cannot be read or used; naming the line or entry.
    """
    try:
        data = read_limited(path, MAP_BYTES_MAX)
        text = data.decode("utf-8-sig")
    except TooLongFileError:
        raise ConfigError(f"{path} is no map of SIDs: it is larger than {MAP_BYTES_MAX} bytes") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error.reason}") from error
    pairs = _of_csv(path, text) if path.suffix.lower() == ".csv" else _of_toml(path, text)
    sids: dict[str, str] = {}
    domains: dict[str, str] = {}
    names: dict[str, str] = {}
    for where, old, new in pairs:
        _add(where, old, new, (sids, domains, names))
    return SidMap(sids, domains, names, hashlib.sha256(data).hexdigest())


Pairs = Iterator[tuple[str, str, Any]]


def _of_csv(path: Path, text: str) -> Pairs:
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if number == 1 and not cells[0].upper().startswith("S-"):
            continue  # a line with names of columns
        if len(cells) != 2:
            raise ConfigError(f"{path} line {number}: an old SID and what stands for it are expected")
        yield f"{path} line {number}", cells[0], cells[1]


def _of_toml(path: Path, text: str) -> Pairs:
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error
    for name, table in read.items():
        if name not in {"sids", "domains"} or not isinstance(table, dict):
            raise ConfigError(f"{path} may hold the tables [sids] and [domains], not {name}")
        for old, new in table.items():
            yield f"{path} [{name}]", old, new


def _add(where: str, old: str, new: Any, maps: tuple[dict[str, str], dict[str, str], dict[str, str]]) -> None:
    sids, domains, names = maps
    try:
        source = Sid.parse(old)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not isinstance(new, str) or not new:
        raise ConfigError(f"{where}: {old} needs a SID or the name of an account")
    if source.text in sids or source.text in names or source.text in domains:
        raise ConfigError(f"{where}: {source} is there twice")
    if not new.upper().startswith("S-1-"):
        if _is_domain(source):
            raise ConfigError(f"{where}: {old} is a domain: it needs the SID of another one")
        names[source.text] = new
        return
    try:
        target = Sid.parse(new)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    if _is_domain(source) != _is_domain(target):
        raise ConfigError(f"{where}: {old} and {new}: one is a domain, the other is an account")
    (domains if _is_domain(source) else sids)[source.text] = target.text


def _is_domain(sid: Sid) -> bool:
    return sid.authority == 5 and len(sid.subauthorities) == 4 and sid.subauthorities[0] == 21


class SidRewriter:
    """Replaces old SIDs by new ones, and counts SIDs that the map does not know.

    Args:
        sids: the map, its names resolved.

    Attributes:
        unmapped: (SID, where) -> how often; of accounts of domains: others mean the same everywhere.
    """

    def __init__(self, sids: SidMap) -> None:
        self._map = sids
        self.unmapped: Counter[tuple[str, str]] = Counter()
        self._rewritten = lru_cache(_DESCRIPTORS_REMEMBERED)(self._rewrite)

    def rewrite_sid(self, text: str, where: str) -> str:
        """Return the new SID for an old one; the old one if it is not in the map."""
        old = Sid.parse(text)
        new = self._map.look_up(old)
        if new is None:
            if old.domain is not None:
                self.unmapped[old.text, where] += 1
            return text
        return new.text

    def rewrite_descriptor(self, image: bytes, where: str) -> bytes:
        """Return a security descriptor with new SIDs.

        The octets are unchanged if no SID is.

        Raises:
            DecodeError: it is none.
        """
        new_image, unmapped = self._rewritten(image)
        for sid in unmapped:
            self.unmapped[sid, where] += 1
        return new_image

    def _rewrite(self, image: bytes) -> tuple[bytes, tuple[str, ...]]:
        unmapped: list[str] = []

        def new(sid: Sid | None) -> Sid | None:
            if sid is None:
                return None
            new_sid = self._map.look_up(sid)
            if new_sid is None and sid.domain is not None:
                unmapped.append(sid.text)
            return new_sid or sid

        def new_list(acl: Acl | None) -> Acl | None:
            if acl is None:
                return None
            aces = tuple(ace if ace.sid is None else replace(ace, sid=new(ace.sid)) for ace in acl.aces)
            return acl if aces == tuple(acl.aces) else replace(acl, aces=aces)

        old = SecurityDescriptor.from_bytes(image)
        new_descriptor = replace(
            old, owner=new(old.owner), group=new(old.group), sacl=new_list(old.sacl), dacl=new_list(old.dacl)
        )
        parts = (
            (descriptor.owner, descriptor.group, descriptor.sacl, descriptor.dacl)
            for descriptor in (old, new_descriptor)
        )
        return (image if next(parts) == next(parts) else bytes(new_descriptor)), tuple(unmapped)
