"""Tokens and MACs under the fabric secret.

One job: sign and check. A token says who may do what until when; it travels as ``authorization:
Bearer``. `sign`/`check` put a MAC behind bytes (tickets, functions). Each use has a key of its own,
derived from the secret, so that a ticket can never pass for a token. Time comes in as an argument.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

from fabric.errors import AuthError

Scope = Literal["read", "write", "submit", "agent"]
Purpose = Literal["ticket", "function", "handshake", "form"]

MAC_BYTES = 32
SKEW_S = 60.0
"""How far two machines' clocks may differ."""

_PREFIX = "fab1"
_TOKEN_CHARS_MAX = 4096
_INCLUDES: dict[str, frozenset[str]] = {
    "read": frozenset({"read"}),
    "write": frozenset({"read", "write"}),
    "submit": frozenset({"read", "write", "submit"}),
    "agent": frozenset({"read", "write", "submit", "agent"}),
}


class KnownError(AuthError):
    """The token does not do, but it is genuine: it is known whose it is."""

    subject = ""


class ScopeError(KnownError):
    """Its scope does not suffice."""


class ExpiredError(KnownError):
    """Its time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a checked token says."""

    scope: Scope
    subject: str
    expires_s: float
    token_id: str

    @property
    def is_agent(self) -> bool:
        """Whether the bearer proved to be an agent of this fabric."""
        return self.scope == "agent"

    @property
    def key_owner(self) -> str:
        """Whose the idempotency keys of this bearer are; "" of agents, which use those of jobs."""
        return "" if self.is_agent else f"client {self.subject}"

    def allows(self, scope: Scope) -> bool:
        """Whether this token may do what needs `scope`: submit includes write includes read."""
        return scope in _INCLUDES[self.scope]

    def require(self, scope: Scope, what: str) -> None:
        """Raise `AuthError` unless `scope` is allowed; `what` names the call."""
        if not self.allows(scope):
            text = f"{what} needs a token of scope {scope!r}, this one has {self.scope!r}"
            raise _of(self.subject, ScopeError(text))


class Signer:
    """Signs and checks with keys derived from one secret.

    Examples
    --------
    >>> signer = Signer(b"s" * 32)
    >>> token = signer.token("write", "ann", ttl_s=3600, wall_s=1000.0)
    >>> signer.verify(token, ["read"], wall_s=2000.0).subject
    'ann'
    >>> signer.check(signer.sign(b"payload"))
    b'payload'
    """

    __slots__ = ("_keys",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) < 16:
            raise AuthError(f"a fabric secret has at least 16 bytes, got {len(secret)}")
        uses = ("token", *get_args(Purpose))
        self._keys = {use: _mac(secret, b"fabric v1 " + use.encode()) for use in uses}

    def __repr__(self) -> str:
        return "Signer(...)"

    def token(self, scope: Scope, subject: str, ttl_s: float, wall_s: float) -> str:
        """A token for `subject` that allows `scope` until `wall_s + ttl_s`."""
        if scope not in _INCLUDES:
            raise AuthError(f"scope {scope!r} is unknown; use one of {sorted(_INCLUDES)}")
        claims = {"s": scope, "u": subject, "e": wall_s + ttl_s, "i": secrets.token_hex(8)}
        body = f"{_PREFIX}.{_encode(json.dumps(claims, separators=(',', ':')).encode())}"
        return f"{body}.{_encode(_mac(self._keys['token'], body.encode()))}"

    def verify(self, token: str, scopes: Collection[Scope], wall_s: float) -> Claims:
        """Check signature, time and that one of `scopes` is allowed; return the claims.

        Raises
        ------
        AuthError
            The same text whatever is wrong with the signature; `ExpiredError` when the token is
            (beyond 60 s of clock difference); `ScopeError` when its scope does not suffice.
        """
        body, _, mac = token.rpartition(".")
        known = _mac(self._keys["token"], body.encode("utf-8", "replace"))
        prefix, _, payload = body.partition(".")
        if (
            len(token) > _TOKEN_CHARS_MAX
            or not hmac.compare_digest(known, _decode(mac))
            or prefix != _PREFIX
        ):
            raise AuthError("the token is not one of this fabric; use the text of its token file")
        claims = _claims(_decode(payload))
        if wall_s > claims.expires_s + SKEW_S:
            text = "the token has expired; ask for a new one"
            raise _of(claims.subject, ExpiredError(text))
        if not any(claims.allows(scope) for scope in scopes):
            needed = " or ".join(repr(scope) for scope in scopes)
            text = f"this needs a token of scope {needed}, this one has {claims.scope!r}"
            raise _of(claims.subject, ScopeError(text))
        return claims

    def key(self, purpose: Purpose) -> bytes:
        """The derived key of one purpose, for the native data plane."""
        return self._keys[purpose]

    def sign(self, payload: bytes, purpose: Purpose = "ticket") -> bytes:
        """`payload` and 32 bytes of HMAC-SHA256 behind it."""
        return payload + _mac(self._keys[purpose], payload)

    def check(self, signed: bytes, purpose: Purpose = "ticket") -> bytes:
        """The payload of what `sign` made for the same purpose, else `AuthError`."""
        payload, mac = signed[:-MAC_BYTES], signed[-MAC_BYTES:]
        if not hmac.compare_digest(_mac(self._keys[purpose], payload), mac):
            raise AuthError(f"the {purpose} was not signed by this fabric")
        return payload


def bearer(header: str) -> str:
    """The token of an ``authorization`` header's value; `AuthError` when it is no bearer token."""
    kind, _, token = header.partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise AuthError("the authorization header must be: Bearer <token>")
    return token.strip()


def _claims(payload: bytes) -> Claims:
    data = json.loads(payload)
    return Claims(
        scope=data["s"], subject=str(data["u"]), expires_s=float(data["e"]), token_id=str(data["i"])
    )


def _of(subject: str, error: KnownError) -> KnownError:
    error.subject = subject
    return error


def _mac(key: bytes, payload: bytes) -> bytes:
    return hmac.new(key, payload, hashlib.sha256).digest()


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
    except (ValueError, binascii.Error):
        return b""
