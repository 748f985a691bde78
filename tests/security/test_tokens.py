from __future__ import annotations

import base64
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import AuthError
from fabric.security.tokens import Claims, Scope, ScopeError, Signer, bearer

SECRET = b"a secret of thirty-two bytes...."
NOW_S = 1_700_000_000.0
SIGNER = Signer(SECRET)


def test_a_token_says_who_and_what() -> None:
    token = SIGNER.token("submit", "ann", 60.0, NOW_S)
    claims = SIGNER.verify(token, ["read"], NOW_S)
    assert (claims.scope, claims.subject, claims.expires_s) == ("submit", "ann", NOW_S + 60)
    assert not claims.is_agent
    assert token != SIGNER.token("submit", "ann", 60.0, NOW_S)


@pytest.mark.parametrize("held", get_args(Scope))
@pytest.mark.parametrize("needed", get_args(Scope))
def test_scopes_include_each_other(held: Scope, needed: Scope) -> None:
    token = SIGNER.token(held, "ann", 60.0, NOW_S)
    rank = ["read", "write", "submit", "agent"]
    if rank.index(held) >= rank.index(needed):
        SIGNER.verify(token, [needed], NOW_S).require(needed, "this call")
    else:
        with pytest.raises(ScopeError, match=f"of scope '{needed}', this one has '{held}'"):
            SIGNER.verify(token, [needed], NOW_S)


@pytest.mark.parametrize(("later_s", "holds"), [(0, True), (60, True), (119, True), (121, False)])
def test_expiry_allows_a_minute_of_difference(later_s: float, holds: bool) -> None:
    token = SIGNER.token("read", "ann", 60.0, NOW_S)
    if holds:
        SIGNER.verify(token, ["read"], NOW_S + later_s)
    else:
        with pytest.raises(AuthError, match="has expired"):
            SIGNER.verify(token, ["read"], NOW_S + later_s)


def forged(**claims: Any) -> str:
    body = {"s": "agent", "u": "x", "e": NOW_S + 60, "i": "0", **claims}
    text = base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")
    return f"fab1.{text}"


def test_nothing_else_is_a_token() -> None:
    good = SIGNER.token("agent", "ann", 60.0, NOW_S)
    head, body, mac = good.split(".")
    bad = [
        "", ".", "..", "x", good[:-1], good + "A", good[1:], f"{head}.{body}", f"{head}.{body}.",
        f"none.{body}.{mac}", f"{head}..{mac}", f"{forged()}.{mac}", f"{forged()}.",
        Signer(b"another secret of 32 bytes......").token("agent", "ann", 60.0, NOW_S),
        good.replace(".", "\n"), "é" * 50, "A" * 10_000, f"{good}.{good}",
        base64.b64encode(SIGNER.sign(b"x")).decode(),
    ]  # fmt: skip
    for token in bad:
        with pytest.raises(AuthError, match="not one of this fabric"):
            SIGNER.verify(token, ["read"], NOW_S)


@given(st.integers(0, 300), st.integers(1, 255))
def test_every_changed_character_is_noticed(index: int, change: int) -> None:
    token = SIGNER.token("read", "ann", 60.0, NOW_S)
    index %= len(token)
    changed = token[:index] + chr(ord(token[index]) ^ change) + token[index + 1 :]
    try:
        claims = SIGNER.verify(changed, ["read"], NOW_S)
    except AuthError:
        return
    # base64 has spare bits in its last character: the same bytes may have another spelling.
    assert index in (token.rfind(".") - 1, len(token) - 1)
    assert claims.subject == "ann"


@given(st.binary(max_size=200), st.sampled_from(["ticket", "function", "handshake"]))
def test_signed_bytes_come_back_for_their_purpose_only(payload: bytes, purpose: Any) -> None:
    signed = SIGNER.sign(payload, purpose)
    assert SIGNER.check(signed, purpose) == payload
    others = {"ticket", "function", "handshake"} - {purpose}
    for other in others:
        with pytest.raises(AuthError, match="was not signed by this fabric"):
            SIGNER.check(signed, other)  # type: ignore[arg-type]
    for cut in (signed[:-1], signed[1:], signed + b"x", b""):
        with pytest.raises(AuthError):
            SIGNER.check(cut, purpose)


def test_unknown_scopes_and_short_secrets_are_refused() -> None:
    with pytest.raises(AuthError, match="scope 'root' is unknown"):
        SIGNER.token("root", "x", 1, 1)  # type: ignore[arg-type]
    with pytest.raises(AuthError, match="at least 16 bytes"):
        Signer(b"short")
    assert "secret" not in repr(SIGNER)


def test_bearer() -> None:
    assert bearer("Bearer abc") == bearer("bearer  abc ") == "abc"
    for header in ("", "Bearer", "Bearer ", "Basic abc", "abc"):
        with pytest.raises(AuthError, match="Bearer <token>"):
            bearer(header)


def test_claims_name_the_call_that_is_refused() -> None:
    claims = Claims(scope="read", subject="x", expires_s=0.0, token_id="0")
    with pytest.raises(ScopeError, match="action drop needs a token of scope 'write'"):
        claims.require("write", "action drop")
