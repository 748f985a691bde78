"""Sessions of the pages: opaque, bounded, of one port, and over when they should be."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.rest.server import RestServer
from fabric.coordinator.rest.sessions import SESSION_S, SESSIONS_MAX, SESSIONS_OF_ONE, Sessions
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Parts
from fabric.coordinator.submit.plan_pool import PlanPool
from fabric.security.tokens import Claims, Scope, Signer

SIGNER = Signer(b"s" * 32)
NOW_S = 1_000_000.0


def claims(subject: str = "ann", expires_s: float = NOW_S + 10 * SESSION_S) -> Claims:
    return Claims(scope="submit", subject=subject, expires_s=expires_s, token_id="1")


def test_a_session_ends_after_its_time_or_with_its_token() -> None:
    sessions = Sessions()
    long, seconds = sessions.open(claims(), NOW_S)
    assert seconds == SESSION_S
    short, seconds = sessions.open(claims(expires_s=NOW_S + 5), NOW_S)
    assert (seconds, short != long) == (5, True)
    assert sessions.claims(short, NOW_S + 4) == claims(expires_s=NOW_S + 5)
    assert sessions.claims(short, NOW_S + 5) is None
    assert sessions.claims(long, NOW_S + SESSION_S) is None
    assert sessions.claims("", NOW_S) is None
    sessions.end(long)
    assert sessions.claims(long, NOW_S) is None


def test_nobody_pushes_another_out() -> None:
    sessions = Sessions()
    hers, _ = sessions.open(claims("bea"), NOW_S)
    his = [sessions.open(claims("carl"), NOW_S)[0] for _ in range(SESSIONS_OF_ONE + 3)]
    assert sessions.claims(hers, NOW_S) is not None
    open_ = [name for name in his if sessions.claims(name, NOW_S)]
    assert open_ == his[3:]


def test_there_are_no_more_than_so_many() -> None:
    sessions = Sessions()
    names = [sessions.open(claims(f"u{n}"), NOW_S)[0] for n in range(SESSIONS_MAX + 2)]
    assert [name for name in names if not sessions.claims(name, NOW_S)] == names[:2]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    clock = SystemClock()
    config = CoordinatorConfig(home=tmp_path_factory.mktemp("home"), rest_port=0)

    def token(scope: Scope, ttl_s: float = 600.0) -> str:
        return SIGNER.token(scope, "ann", ttl_s, clock.wall_s())

    with CoordinatorRuntime(config=config, clock=clock) as runtime:
        runtime.attach("a", pb.Hello(agent_id="a", address="local:a"), lambda _: None)
        parts = Parts(config, SIGNER, clock, lambda *_: None)
        servers = [RestServer(parts, runtime, PlanPool()) for _ in range(2)]
        yield SimpleNamespace(
            urls=[s.start() for s in servers], token=token, parts=parts, runtime=runtime
        )
        for server in servers:
            server.stop()


def test_the_cookie_is_a_session_and_never_the_token(served: Any) -> None:
    url, token = served.urls[0], served.token("submit")
    with httpx.Client(base_url=url, timeout=60.0) as browser:
        answer = browser.post("/login", data={"token": token})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert not any(part in cookie for part in token.split("."))
        (name,) = browser.cookies
        assert name == f"fabric_session_{url.rpartition(':')[2]}"
        session = browser.cookies[name]
        assert browser.get("/jobs").status_code == 200
        for scheme in ("Bearer", "Basic"):  # it opens nothing but pages
            headers = {"Authorization": f"{scheme} {session}"}
            assert httpx.get(f"{url}/api/v1/jobs", headers=headers, timeout=60.0).status_code == 401
        assert browser.get("/api/v1/jobs").status_code == 401
        # the token is no session, on whatever name
        for jar in ({name: token}, {"fabric_token": token}):
            assert (
                httpx.get(f"{url}/jobs", cookies=jar, timeout=60.0).headers["location"] == "/login"
            )


def test_a_session_is_of_one_port(served: Any) -> None:
    first, second = served.urls
    with httpx.Client(timeout=60.0) as browser:  # one jar for all ports, as browsers have
        for url in (first, second):
            browser.post(f"{url}/login", data={"token": served.token("submit")})
        assert len(browser.cookies) == 2
        for url in (first, second):
            assert browser.get(f"{url}/jobs").status_code == 200
        browser.post(f"{first}/logout")
        assert browser.get(f"{first}/jobs").status_code == 303
        assert browser.get(f"{second}/jobs").status_code == 200


def test_after_the_logout_the_cookie_is_worth_nothing(served: Any) -> None:
    with httpx.Client(base_url=served.urls[0], timeout=60.0) as browser:
        browser.post("/login", data={"token": served.token("submit")})
        kept = dict(browser.cookies)
        browser.post("/logout")
        assert httpx.get(f"{served.urls[0]}/jobs", cookies=kept, timeout=60.0).status_code == 303


def test_by_tls_the_cookie_is_for_tls_alone(served: Any) -> None:
    tls = Path(__file__).parents[1] / "flight" / "tls"
    secure = {"tls_certificate": tls / "ours.pem", "tls_key": tls / "ours.key"}
    config = replace(served.parts.config, **secure)
    server = RestServer(replace(served.parts, config=config), served.runtime, PlanPool())
    url = server.start()
    trusted = ssl.create_default_context(cafile=str(tls / "ours.pem"))
    data = {"token": served.token("read")}
    answer = httpx.post(f"{url}/login", data=data, verify=trusted, timeout=60.0)
    assert "; Secure" in answer.headers["set-cookie"]
    server.stop()
