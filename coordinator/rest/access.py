"""Who may call what over HTTP.

One job: tokens, from ``Authorization: Bearer`` for the API; sessions, from a cookie, for the pages.
Scopes are those of gRPC (`coordinator/service/auth.py`). A cookie never opens the API; what a
page's form changes needs a word that only a page of ours can hold, so another site can't act for
somebody.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.responses import Response

from fabric.clock import Clock
from fabric.coordinator.rest.sessions import Sessions
from fabric.coordinator.runtime.log import Log
from fabric.errors import AuthError
from fabric.security.callers import Caller, Refusals, called_by
from fabric.security.tokens import Claims, Scope, Signer

COOKIE = "fabric_session"
_SCHEME = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="The text of the file `token` in the fabric's state folder.",
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_SCHEME)]


class Access:
    """Checks tokens with the secret of the fabric; `secure` when all comes by TLS."""

    def __init__(self, signer: Signer, clock: Clock, log: Log, *, secure: bool) -> None:
        self._signer, self._clock, self._secure = signer, clock, secure
        self._sessions = Sessions()
        self._refusals = Refusals(log)

    def close(self) -> None:
        """Write down refused calls that were counted only."""
        self._refusals.settle()

    def needs(self, scope: Scope) -> Callable[[Request, Credentials], Awaitable[Claims]]:
        """A dependency of a call that needs `scope`."""

        async def check(request: Request, credentials: Credentials) -> Claims:
            with self._noting(request):
                if credentials is None:
                    raise AuthError(
                        "this call needs the header Authorization: Bearer <token>; the token is "
                        "the text of the token file that `fabric up` names"
                    )
                claims = self._verify(credentials.credentials, scope)
            called_by(Caller(claims, peer_of(request)))  # in the task of the request
            return claims

        return check

    def knows(self, token: str) -> bool:
        """Whether it is a token of this fabric."""
        try:
            self._verify(token, "read")
        except AuthError:
            return False
        return True

    @contextmanager
    def _noting(self, request: Request) -> Iterator[None]:
        """Have the log say so when a request is refused in here."""
        try:
            yield
        except AuthError as error:
            self._refusals.add(f"{request.method} {request.url.path}", error, peer_of(request))
            raise

    # ---- pages

    def log_in(self, request: Request, token: str, answer: Response) -> None:
        """Begin a session, of which `answer` tells the browser; `AuthError` for a wrong token."""
        with self._noting(request):
            claims = self._verify(token, "read")
        session, seconds = self._sessions.open(claims, self._clock.wall_s())
        answer.set_cookie(
            cookie_of(request),
            session,
            max_age=int(seconds),
            httponly=True,
            samesite="strict",
            secure=self._secure,
        )

    def log_out(self, request: Request, answer: Response) -> None:
        """End the session, if there is one."""
        self._sessions.end(_session(request))
        answer.delete_cookie(
            cookie_of(request), httponly=True, samesite="strict", secure=self._secure
        )

    def page(self, request: Request, scope: Scope = "read") -> Claims:
        """What the reader of a page may do; `AuthError` when that does not suffice."""
        claims = self._sessions.claims(_session(request), self._clock.wall_s())
        if claims is None:
            raise AuthError("log in with a token first")
        claims.require(scope, "this")
        return claims

    def reader(self, request: Request) -> str:
        """Who reads a page; "" for somebody who has not logged in."""
        try:
            return self.page(request).subject
        except AuthError:
            return ""

    def word(self, request: Request) -> str:
        """What forms of this reader carry."""
        session = _session(request).encode("utf-8", "replace")
        signed = self._signer.sign(session, "form")[len(session) :]
        return base64.urlsafe_b64encode(signed).decode("ascii")

    def form(self, request: Request, word: str) -> Caller:
        """May this form change something? It needs scope submit and our own word."""
        with self._noting(request):
            claims = self.page(request, "submit")
            if not hmac.compare_digest(word.encode(), self.word(request).encode()):
                raise AuthError("this form is not of this fabric's pages; open the page again")
        return Caller(claims, peer_of(request))

    def _verify(self, token: str, scope: Scope) -> Claims:
        """What `token` says; `AuthError` when it does not suffice."""
        return self._signer.verify(token, (scope,), self._clock.wall_s())


def cookie_of(request: Request) -> str:
    """The name of our cookie: browsers keep one jar for all ports of a host."""
    _, port = request.scope.get("server") or ("", None)
    return f"{COOKIE}_{port}" if port else COOKIE


def peer_of(request: Request) -> str:
    """Where a request came from."""
    if request.client is None:
        return ""
    host, port = request.client
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _session(request: Request) -> str:
    return request.cookies.get(cookie_of(request), "")
