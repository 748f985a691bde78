"""Addresses, tokens, and which session is the default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fabric
from fabric.clients.dataframe.session import common_session, default_session
from fabric.clients.session.address import find_token, parse_address
from fabric.control import control_pb2 as pb
from fabric.errors import AuthError, ConfigError, NotFoundError, PlanError


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("fabric://host:7000", "host:7000"),
        ("fabric://host", "host:6123"),
        ("fabric://host/", "host:6123"),
        ("127.0.0.1:7000", "127.0.0.1:7000"),
        ("fabric://[::1]:7000", "[::1]:7000"),
        ("fabric://a:1,b", "a:1,b:6123"),
        ("fabric+tls://a,[::1]:2/", "grpc+tls://a:6123,grpc+tls://[::1]:2"),
        ("a:1,b:2", "a:1,b:2"),
    ],
)
def test_addresses(target: str, address: str) -> None:
    assert parse_address(target) == address


@pytest.mark.parametrize(
    "target",
    [
        "http://host:1",
        "fabric://",
        "fabric://host:99999",
        "fabric://host:x",
        "fabric://h/x",
        "fabric://a,,b",
        "fabric://a,b/x",
        "fabric://u:p@h",
        "a://b",
    ],
)
def test_what_is_no_address(target: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid fabric address; write connect"):
        parse_address(target)


def test_token_from_variable_then_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRIC_HOME", str(tmp_path))
    monkeypatch.delenv("FABRIC_TOKEN", raising=False)
    with pytest.raises(AuthError, match=r"FABRIC_TOKEN is not set and .*token can't be read"):
        find_token()
    (tmp_path / "token").write_text("from file\n")
    assert find_token() == "from file"
    monkeypatch.setenv("FABRIC_TOKEN", "from variable")
    assert find_token() == "from variable"


def test_embedded_and_remote_options_do_not_mix() -> None:
    with pytest.raises(ConfigError, match="needs no token"):
        fabric.connect(token="x")
    with pytest.raises(ConfigError, match="serve=True is for embedded"):
        fabric.connect("fabric://host", serve=True)


def test_the_newest_open_session_is_the_default(session: Any, control: Any) -> None:
    assert default_session() is session
    with type(session)(control) as newer:
        assert default_session() is newer
    assert default_session() is session


def test_a_closed_session_says_so(session: Any) -> None:
    session.close()
    session.close()
    with pytest.raises(NotFoundError, match="this session is closed"):
        session.jobs()


def test_jobs_by_id(session: Any, control: Any) -> None:
    control.say(pb.JOB_RUNNING)
    assert session.job("job-1").name == "test"
    with pytest.raises(NotFoundError, match="there is no job 'job-2'"):
        session.job("job-2")


def test_frames_of_two_sessions_do_not_mix(session: Any, control: Any) -> None:
    with type(session)(control) as other:
        assert common_session([None, session, session]) is session
        assert common_session([None]) is None
        with pytest.raises(PlanError, match="different sessions"):
            common_session([session, other])


def test_parallelism_is_checked(session: Any, control: Any) -> None:
    with pytest.raises(PlanError, match="parallelism must be at least 1, got 0"):
        type(session)(control, parallelism=0)
