"""Join tokens, and the documents that are sealed with them (decision T136)."""

import json
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel, RootModel
from support.replication.queue_managers import key_of

import mqdssm
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import ConfigError
from mqdssm.server.config import encode_keys
from mqdssm.server.control_protocol import AdmissionReply, AdmissionRequest, KnownKey, RefusedReply
from mqdssm.server.join_token import (
    PREFIX,
    TOKEN_BYTES_MAX,
    JoinReply,
    JoinRequest,
    JoinToken,
    Sealed,
    fingerprint_of,
    open_reply,
    open_request,
    seal_reply,
    seal_request,
)
from mqdssm.server.join_tokens import REQUESTS_MAX, TOKENS_MAX, WRONG_MAX, JoinTokens
from mqdssm.server.token_client import TokenClient, read_token

PEC, PSC, THIEF = key_of("PEC"), key_of("PSC1"), key_of("LEFT")
NONCE = "0123456789abcdef"
EXPIRES = 2_000_000_000


def token(**changes: Any) -> JoinToken:
    claims = {
        "expires": EXPIRES,
        "role": Role.PSC,
        "site": "Paris",
        "machine_name": "PSC1",
        "server_name": "PEC",
        "server_id": uuid4(),
        "address": "10.0.0.5:1801",
        "fingerprint": fingerprint_of(bytes(PEC.public_keys())),
    }
    return JoinToken.new(**{**claims, **changes})


def request(key=PSC) -> JoinRequest:
    asked = AdmissionRequest(
        machine_name="PSC1",
        machine_id=uuid4(),
        role=Role.PSC,
        site="Paris",
        site_id=uuid4(),
        public_keys=encode_keys(key.public_keys()),
        address="10.0.0.6:1801",
    )
    return JoinRequest(nonce=NONCE, request=asked)


def reply(key=PEC) -> JoinReply:
    known = KnownKey(
        machine_name="PEC",
        machine_id=uuid4(),
        role=Role.PEC,
        public_keys=encode_keys(key.public_keys()),
    )
    facts = AdmissionReply(
        enterprise="Contoso", site_id=uuid4(), pec_name="PEC", psc_name="", keys=(known,), hosts={}
    )
    return JoinReply(nonce=NONCE, public_keys=encode_keys(key.public_keys()), reply=facts)


def parsed(body: bytes) -> Sealed:
    sealed = Sealed.parse(body)
    assert sealed is not None
    return sealed


def test_a_token_is_a_text_and_is_printed_nowhere_else():
    made = token()
    text = made.reveal()
    assert JoinToken.parse(f"  {text}\r\n") == made
    assert token().reveal() != text
    assert len(text) < TOKEN_BYTES_MAX
    secret = made.secret.reveal()
    assert len(b64decode(secret)) == 32
    assert secret not in f"{made!r} {made} {made.claims!r}"


def changed(text: str, **changes: Any) -> str:
    content = json.loads(urlsafe_b64decode(text.removeprefix(PREFIX)))
    return PREFIX + urlsafe_b64encode(json.dumps({**content, **changes}).encode()).decode()


@pytest.mark.parametrize(
    "damage",
    [
        lambda _text: "",
        lambda text: text[:-5],
        lambda text: text.removeprefix(PREFIX),
        lambda text: text + "A" * TOKEN_BYTES_MAX,
        lambda text: text[:30] + "é" + text[31:],
        lambda text: changed(text, secret=b64encode(b"short").decode()),
        lambda text: changed(text, secret="?" * 44),
        lambda text: changed(text, claims={}),
    ],
)
def test_texts_that_are_no_token_are_refused_and_not_quoted(damage):
    text = damage(token().reveal())
    with pytest.raises(ConfigError, match="no whole join token") as refused:
        JoinToken.parse(text)
    assert refused.value.__suppress_context__
    assert len(str(refused.value)) < 200


def test_a_token_of_another_version():
    """Decision T152: unknown facts are ignored, another kind of token is refused by its version."""
    made = token()
    text = made.reveal()
    claims = {**made.claims.model_dump(mode="json"), "of_the_next_version": [1]}
    assert JoinToken.parse(changed(text, claims=claims, more=1)) == made
    with pytest.raises(ConfigError, match=r"not of the version that mqdssm [0-9.]+ knows: use the mqdssm of"):
        JoinToken.parse(text.replace("join-1", "join-2"))


def grown(document: BaseModel, part: str) -> RootModel[Any]:
    """A document of the next version: it, or a part in it, has another field."""
    content = document.model_dump(mode="json")
    (content[part] if part else content)["of_the_next_version"] = {"a": 7}
    return RootModel(content)


@pytest.mark.parametrize("part", ["", "reply"])
def test_a_reply_of_the_next_version_is_read_without_unknown_fields(part):
    """Decision T152."""
    made, answered = token(), reply()
    newer = parsed(seal_reply(made, PEC, grown(answered, part)))
    assert b"of_the_next_version" in b64decode(newer.document)
    assert open_reply(made, newer) == answered


@pytest.mark.parametrize("part", ["", "request"])
def test_a_request_of_the_next_version_names_its_unknown_fields(part):
    """Decision T152."""
    made, asked = token(), request()
    opened, problem = open_request(made, parsed(seal_request(made, PSC, grown(asked, part))))
    assert opened == asked
    place = f"{part}.of_the_next_version".lstrip(".")
    assert problem.startswith(f"{place}: not known to mqdssm {mqdssm.__version__}: ")
    assert "upgrade the server" in problem
    envelope = {**json.loads(seal_request(made, PSC, asked)), "of_the_next_version": 1}
    assert open_request(made, parsed(json.dumps(envelope).encode())) == (asked, "")


def test_a_token_file_is_for_its_owner_alone(tmp_path):
    file, made = tmp_path / "token", token()
    file.write_text(made.reveal() + "\n")
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="can be read by others"):
        read_token(file)
    file.chmod(0o600)
    assert read_token(file) == made
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(tmp_path / "missing")
    with pytest.raises(ConfigError, match="has expired: make another one at PEC"):
        TokenClient(made, tmp_path / "key.pem", clock=lambda: EXPIRES)


def test_both_sides_open_what_the_other_has_sealed():
    made, asked, answered = token(), request(), reply()
    assert open_request(made, parsed(seal_request(made, PSC, asked))) == (asked, "")
    assert open_reply(made, parsed(seal_reply(made, PEC, answered))) == answered
    refused = answered.model_copy(update={"reply": RefusedReply(problem="no", kind="usage")})
    assert open_reply(made, parsed(seal_reply(made, PEC, refused))) == refused


def test_who_has_no_token_seals_nothing():
    made, other = token(), token()
    forged = parsed(seal_request(other, PSC, request())).model_copy(update={"token_id": made.claims.token_id})
    assert open_request(made, forged) is None
    forged = parsed(seal_reply(other, PEC, reply())).model_copy(update={"token_id": made.claims.token_id})
    assert open_reply(made, forged) is None
    # the identifier is part of each code: the same secret under another identifier is another token
    renamed = JoinToken(made.claims.model_copy(update={"token_id": uuid4()}), made.secret)
    assert open_request(renamed, parsed(seal_request(made, PSC, request()))) is None


def test_a_request_is_no_reply():
    made = token()
    assert open_reply(made, parsed(seal_request(made, PSC, request()))) is None
    assert open_request(made, parsed(seal_reply(made, PEC, reply()))) is None


@pytest.mark.parametrize("name", ["document", "code"])
def test_a_changed_document_is_dropped(name):
    """Somebody in the middle of the session can change it, and has no token."""
    made = token()
    for sealed, opened in (
        (parsed(seal_request(made, PSC, request())), open_request),
        (parsed(seal_reply(made, PEC, reply())), open_reply),
    ):
        octets = bytearray(b64decode(getattr(sealed, name)))
        for at in (0, len(octets) // 2, -1):
            octets[at] ^= 1
            damaged = sealed.model_copy(update={name: b64encode(octets).decode()})
            assert opened(made, damaged) is None
            octets[at] ^= 1
        assert opened(made, sealed.model_copy(update={name: "?"})) is None


def test_a_request_is_signed_with_its_own_key():
    """A thief of the token cannot have another machine's key pinned."""
    made = token()
    with pytest.raises(ValueError, match="not signed with its key"):
        open_request(made, parsed(seal_request(made, THIEF, request(PSC))))
    swapped = parsed(seal_request(made, PSC, request())).model_copy(
        update={"signature": parsed(seal_request(made, PSC, request())).signature}
    )
    with pytest.raises(ValueError, match="not signed with its key"):
        open_request(made, swapped)


def test_the_new_server_believes_only_the_key_that_the_token_pins():
    """A thief of the token who answers in the PEC's place has another key."""
    made = token()
    assert open_reply(made, parsed(seal_reply(made, THIEF, reply(THIEF)))) is None
    assert open_reply(made, parsed(seal_reply(made, THIEF, reply(PEC)))) is None


def test_bodies_that_are_no_sealed_documents():
    for body in (b"", b"{", b"\xff", b"[]", b'{"token_id": 1}', b"{}" * 100):
        assert Sealed.parse(body) is None


def test_nobody_chooses_the_identifier_to_which_the_answer_goes():
    made = token()
    assert made.channel(NONCE) == made.channel(NONCE)
    assert len({made.channel(NONCE), made.channel(NONCE + "0"), token().channel(NONCE)}) == 3


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_tokens_survive_a_restart_and_expire(tmp_path, clock):
    file, made = tmp_path / "tokens", token(expires=1_000_100)
    tokens = JoinTokens(file, clock)
    assert not tokens.has_any()
    tokens.add(made)
    assert file.stat().st_mode & 0o777 == 0o600
    tokens = JoinTokens(file, clock)
    assert tokens.has_any()
    assert tokens.find(made.claims.token_id) == made
    assert tokens.find(uuid4()) is None
    clock.now = 1_000_699.0
    assert made.is_expired(tokens.now())
    assert tokens.find(made.claims.token_id) == made, "its owner is told that it has expired"
    clock.now = 1_000_700.0
    assert not tokens.has_any()
    assert tokens.find(made.claims.token_id) is None
    tokens.add(token(machine_name="PSC2"))
    assert str(made.claims.token_id) not in file.read_text()


def test_a_token_is_used_by_one_server(tmp_path, clock):
    tokens, made = JoinTokens(tmp_path / "tokens", clock), token()
    tokens.add(made)
    token_id = made.claims.token_id
    first = tokens.use(token_id, "one")
    assert first is not None
    assert not first.is_admitted
    tokens = JoinTokens(tmp_path / "tokens", clock)  # behind a crash
    assert tokens.use(token_id, "two") is None
    tokens.record_outcome(token_id, is_admitted=False)  # refused: nothing was made
    assert tokens.use(token_id, "two") is not None
    tokens.record_outcome(token_id, is_admitted=True)
    tokens.record_outcome(token_id, is_admitted=False)  # a refused repetition admits nobody else
    assert tokens.use(token_id, "one") is None
    repeated = tokens.use(token_id, "two")
    assert repeated is not None
    assert repeated.is_admitted
    assert tokens.use(uuid4(), "one") is None


@pytest.mark.slow
def test_guesses_and_requests_are_bounded(tmp_path, clock):
    tokens, made = JoinTokens(tmp_path / "tokens", clock), token()
    tokens.add(made)
    token_id = made.claims.token_id
    assert [tokens.count_request(token_id) for _ in range(REQUESTS_MAX + 1)] == [True] * REQUESTS_MAX + [
        False
    ]
    for _ in range(WRONG_MAX - 2):
        assert not tokens.count_wrong(token_id)
    tokens = JoinTokens(tmp_path / "tokens", clock)
    assert [tokens.count_wrong(token_id) for _ in range(3)] == [False, True, False]
    assert tokens.find(token_id) is None
    assert not tokens.count_request(token_id)


def test_another_token_for_a_machine_replaces_the_first(tmp_path, clock):
    tokens, first, second = JoinTokens(tmp_path / "tokens", clock), token(), token(machine_name="psc1")
    tokens.add(first)
    tokens.add(second)
    assert tokens.find(first.claims.token_id) is None
    assert tokens.find(second.claims.token_id) == second
    assert tokens.withdraw("PSC1")
    assert not tokens.withdraw("PSC1")
    assert not tokens.has_any()


def test_tokens_are_bounded_and_a_damaged_file_is_named(tmp_path, clock, monkeypatch):
    assert TOKENS_MAX == 1000
    monkeypatch.setattr("mqdssm.server.join_tokens.TOKENS_MAX", 2)
    tokens = JoinTokens(tmp_path / "tokens", clock)
    for name in "A", "B", "b":
        tokens.add(token(machine_name=name))
    with pytest.raises(ConfigError, match="2 join tokens are not used yet"):
        tokens.add(token(machine_name="C"))
    text = (tmp_path / "tokens").read_text()
    (tmp_path / "tokens").write_text(text[:-20])
    with pytest.raises(ConfigError, match="is damaged") as refused:
        JoinTokens(tmp_path / "tokens", clock)
    assert refused.value.__suppress_context__
    (tmp_path / "tokens").unlink()
    (tmp_path / "tokens").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        JoinTokens(tmp_path / "tokens", clock)
