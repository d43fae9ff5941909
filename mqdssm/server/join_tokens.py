"""Join tokens that a directory server has made, in a file of its folder (T136).

A token can be used once: the first request binds it to the key of the new server, whose repeated requests
get the same answer. The file is for the server alone, as its private key is.
"""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mqdssm.directory.secret import Secret
from mqdssm.engines.replication.state import key_of
from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.events.durable_files import write_atomically
from mqdssm.server.join_token import JoinToken, TokenClaims

TOKENS_MAX: Final = 1000
"""Tokens that are kept; further ones are refused."""
WRONG_MAX: Final = 16
"""Requests with a wrong code after which a token is withdrawn: somebody guesses, or has changed a request."""
REQUESTS_MAX: Final = 200
"""Good requests of one token that are answered: each may cause a connection."""
KEPT_S: Final = 600
"""Seconds for which an expired token is known, so that its owner is told."""


class TokenRecord(BaseModel):
    """Token in the file.

    Attributes:
        claims: what it states.
        secret: its secret.
        used_by: identity of the new server that has used it; empty: none.
        is_admitted: True if that server was admitted.
        wrong: requests that had a wrong code.
        requests: requests that were good.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    claims: TokenClaims
    secret: str = Field(repr=False)
    used_by: str = ""
    is_admitted: bool = False
    wrong: int = 0
    requests: int = 0

    @property
    def token(self) -> JoinToken:
        """The token."""
        return JoinToken(self.claims, Secret(self.secret))


class _TokensFile(BaseModel):
    """Content of the file."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    tokens: list[TokenRecord] = Field(default_factory=list)


class JoinTokens:
    """Tokens of a directory server; thread-safe.

    Args:
        file: the file; it is made with the first token.
        clock: seconds since 1970.

    Raises:
        ConfigError: the file cannot be used.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._file, self._clock, self._lock = file, clock, Lock()
        self._records: dict[UUID, TokenRecord] = {
            record.claims.token_id: record for record in _read(file).tokens
        }

    def now(self) -> int:
        """Return the time by which tokens expire, in whole seconds since 1970."""
        return int(self._clock())

    def has_any(self) -> bool:
        """Return True if there is a token, or one that has expired just now."""
        with self._lock:
            return any(map(self._is_kept, self._records.values()))

    def add(self, token: JoinToken) -> None:
        """Keep a new token, durably. Another one for the same machine is withdrawn.

        Raises:
            ConfigError: there are too many tokens, or the file cannot be written.
        """
        with self._lock:
            records = self._tokens_of_others(token.claims.machine_name)
            record = TokenRecord(claims=token.claims, secret=token.secret.reveal())
            self._write(records | {token.claims.token_id: record})

    def has(self, machine_name: str) -> bool:
        """Return True if there is a token for a machine."""
        with self._lock:
            return any(_is_for(record, machine_name) for record in self._records.values())

    def check_room(self, machine_name: str) -> None:
        """Check that a token for a machine can be added.

        Raises:
            ConfigError: there are too many tokens.
        """
        with self._lock:
            self._tokens_of_others(machine_name)

    def withdraw(self, machine_name: str) -> bool:
        """Withdraw the tokens for a machine; return False if there is none.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._lock:
            left = {
                token_id: record
                for token_id, record in self._records.items()
                if not _is_for(record, machine_name)
            }
            is_any = len(left) < len(self._records)
            if is_any:
                self._write(left)
            return is_any

    def find(self, token_id: UUID) -> JoinToken | None:
        """Return a token that is kept."""
        with self._lock:
            record = self._records.get(token_id)
            return record.token if record is not None and self._is_kept(record) else None

    def count_wrong(self, token_id: UUID) -> bool:
        """Count a request with a wrong code.

        Returns:
            True if the token is withdrawn, since there were too many.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._lock:
            record = self._records.get(token_id)
            if record is None:
                return False
            wrong = record.wrong + 1
            if wrong < WRONG_MAX:
                self._update(record, wrong=wrong)
            else:
                self._write({other: left for other, left in self._records.items() if other != token_id})
            return wrong >= WRONG_MAX

    def count_request(self, token_id: UUID) -> bool:
        """Count a good request; return False if there were too many to answer it.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._lock:
            record = self._records.get(token_id)
            if record is None or record.requests >= REQUESTS_MAX:
                return False
            self._update(record, requests=record.requests + 1)
            return True

    def use(self, token_id: UUID, identity: str) -> TokenRecord | None:
        """Bind a token to the identity of a new server, before it is admitted.

        Returns:
            The record, which is on the disk; None if another server has used the token.

        Raises:
            ConfigError: the file cannot be written; the server may not be admitted.
        """
        with self._lock:
            record = self._records.get(token_id)
            if record is None or record.used_by not in {"", identity}:
                return None
            return self._update(record, used_by=identity)

    def record_outcome(self, token_id: UUID, *, is_admitted: bool) -> None:
        """Record the outcome of an admission.

        If it was refused, nothing was made, and the token can be used again.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._lock:
            record = self._records.get(token_id)
            if record is not None and not record.is_admitted:
                self._update(record, is_admitted=is_admitted, used_by=record.used_by if is_admitted else "")

    def _tokens_of_others(self, machine_name: str) -> dict[UUID, TokenRecord]:
        """Return the tokens that stay when another one for a machine is added.

        Raises:
            ConfigError: there are too many.
        """
        records = {
            token_id: record
            for token_id, record in self._records.items()
            if self._is_kept(record) and not _is_for(record, machine_name)
        }
        if len(records) >= TOKENS_MAX:
            raise ConfigError(f"{TOKENS_MAX} join tokens are not used yet: withdraw some")
        return records

    def _is_kept(self, record: TokenRecord) -> bool:
        return self._clock() < record.claims.expires + KEPT_S

    def _update(self, record: TokenRecord, **changes: object) -> TokenRecord:
        changed = record.model_copy(update=changes)
        self._write(self._records | {record.claims.token_id: changed})
        return changed

    def _write(self, records: dict[UUID, TokenRecord]) -> None:
        content = _TokensFile(tokens=[record for record in records.values() if self._is_kept(record)])
        write_atomically(self._file, [content.model_dump_json(indent=1)])
        self._records = {record.claims.token_id: record for record in content.tokens}


def _is_for(record: TokenRecord, machine_name: str) -> bool:
    return key_of(record.claims.machine_name) == key_of(machine_name)


def _read(file: Path) -> _TokensFile:
    with convert_folder_errors(f"{file} cannot be read"):
        if not file.exists():
            return _TokensFile()
        data = file.read_bytes()
    try:
        return _TokensFile.model_validate_json(data)
    except ValidationError:  # its words may quote a secret
        raise ConfigError(f"{file} is damaged: remove it, and make the join tokens anew") from None
