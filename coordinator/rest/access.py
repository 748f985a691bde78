"""Who may call what over HTTP.

One job: tokens, from ``Authorization: Bearer`` for the API, from a cookie for the pages. Scopes are
those of gRPC (`coordinator/auth.py`). A cookie never opens the API; what a page's form changes
needs a word that only a page of ours can hold, so another site can't act for somebody.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from fabric.clock import Clock
from fabric.errors import AuthError
from fabric.security.tokens import Claims, Scope, Signer

COOKIE = "fabric_token"
_SCHEME = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="The text of the file `token` in the fabric's state folder.",
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_SCHEME)]


class Access:
    """Checks tokens with the secret of the fabric."""

    def __init__(self, signer: Signer, clock: Clock) -> None:
        self._signer, self._clock = signer, clock

    def needs(self, scope: Scope) -> Callable[[Credentials], Claims]:
        """A dependency of a call that needs `scope`."""

        def check(credentials: Credentials) -> Claims:
            if credentials is None:
                raise AuthError(
                    "this call needs the header Authorization: Bearer <token>; the token is the "
                    "text of the token file that `fabric up` names"
                )
            return self.verify(credentials.credentials, scope)

        return check

    def verify(self, token: str, scope: Scope) -> Claims:
        """What `token` says; `AuthError` when it does not suffice."""
        return self._signer.verify(token, (scope,), self._clock.wall_s())

    def seconds_left(self, claims: Claims) -> int:
        """How long the token of `claims` still holds."""
        return max(0, int(claims.expires_s - self._clock.wall_s()))

    def page(self, request: Request, scope: Scope = "read") -> Claims:
        """What the cookie of a page's reader says; `AuthError` when it does not suffice."""
        token = request.cookies.get(COOKIE)
        if token is None:
            raise AuthError("log in with a token first")
        return self.verify(token, scope)

    def reader(self, request: Request) -> str:
        """Who reads a page; "" for somebody without a token."""
        try:
            return self.page(request).subject
        except AuthError:
            return ""

    def word(self, request: Request) -> str:
        """What forms of this reader carry."""
        token = request.cookies.get(COOKIE, "").encode("utf-8", "replace")
        signed = self._signer.sign(token, "form")[len(token) :]
        return base64.urlsafe_b64encode(signed).decode("ascii")

    def form(self, request: Request, word: str) -> Claims:
        """May this form change something? It needs scope submit and our own word."""
        claims = self.page(request, "submit")
        if not hmac.compare_digest(word.encode(), self.word(request).encode()):
            raise AuthError("this form is not of this fabric's pages; open the page again")
        return claims
