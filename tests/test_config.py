from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

from fabric.config import AdaptiveConfig, AgentConfig, ByteSize, FabricHome, default_home, load
from fabric.errors import ConfigError, StorageError


def test_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FABRIC_HOME", str(tmp_path / "x"))
    assert default_home() == tmp_path / "x"
    home = FabricHome().create()
    assert home.root.stat().st_mode & 0o777 == 0o700
    assert home.secret == tmp_path / "x" / "secret"
    assert AgentConfig(name="3").files == tmp_path / "x" / "agents" / "3"
    monkeypatch.delenv("FABRIC_HOME")
    assert default_home() == Path.home() / ".fabric"
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="can't make the folder"):
        FabricHome(tmp_path / "file" / "below").create()


def test_environment_then_arguments() -> None:
    environ = {"FABRIC_AGENT_IDLE_S": "2.5", "FABRIC_AGENT_PORT": "7", "FABRIC_AGENT_HOME": "/h",
               "FABRIC_AGENT_FOLDER": "/f", "FABRIC_TOKEN": "x", "OTHER": "y"}  # fmt: skip
    config = load(AgentConfig, "AGENT", environ, port=9, folder=None)
    assert (config.idle_s, config.port) == (2.5, 9)
    assert (config.home, config.files) == (Path("/h"), Path("/f"))
    with pytest.raises(FrozenInstanceError):
        config.port = 1  # type: ignore[misc]


def test_switches() -> None:
    for text, on in (("1", True), ("true", True), ("0", False), ("false", False)):
        assert load(AgentConfig, "AGENT", {"FABRIC_AGENT_UNIX_SOCKETS": text}).unix_sockets is on


@pytest.mark.parametrize(
    ("environ", "given", "message"),
    [
        ({"FABRIC_AGENT_PROT": "1"}, {}, "AGENT_PROT is unknown; did you mean FABRIC_AGENT_PORT"),
        ({}, {"prot": 1}, "setting prot is unknown; did you mean port"),
        ({"FABRIC_AGENT_PORT": "x"}, {}, "FABRIC_AGENT_PORT must be int, got 'x'"),
        ({"FABRIC_AGENT_UNIX_SOCKETS": "maybe"}, {}, "UNIX_SOCKETS must be 1 or 0, got 'maybe'"),
        ({}, {"port": 65536}, "port must be 0 to 65535"),
        ({}, {"idle_s": 0}, "idle_s must be positive, got 0"),
        ({}, {"slots": -1}, "slots must not be negative"),
        ({}, {"streams_max": 0}, "streams_max must be positive"),
        ({}, {"host": "0.0.0.0"}, "refusing to listen on '0.0.0.0' without TLS"),
        ({}, {"host": "agent.example"}, "without TLS"),
        ({}, {"tls_key": Path("k")}, "belong together"),
        ({"FABRIC_AGENT_MEMORY": "lots"}, {}, "AGENT_MEMORY: a size is a number and a unit"),
        ({"FABRIC_AGENT_MEMORY": "100MB"}, {}, "memory must be at least 384 MiB, got 100000000"),
        ({}, {"peer_requests_max": 0}, "peer_requests_max must be positive"),
    ],
)  # fmt: skip
def test_refusals(environ: dict[str, str], given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(AgentConfig, "AGENT", environ, **given)


def test_sizes_and_folders() -> None:
    environ = {"FABRIC_AGENT_MEMORY": "1.5GiB", "FABRIC_AGENT_SPILL_FOLDERS": "/a:/b"}
    config = load(AgentConfig, "AGENT", environ)
    assert (config.memory, config.spills_to) == (3 << 29, (Path("/a"), Path("/b")))
    assert AgentConfig(folder=Path("/f")).spills_to == (Path("/f/spill"),)
    sizes = {"1": 1, "1b": 1, "2k": 2000, "2KiB": 2048, "3 MB": 3_000_000, "1G": 10**9}
    assert {text: int(ByteSize(text)) for text in sizes} == sizes
    for wrong in ("", "-1", "1XB", "1 2", "MB"):
        with pytest.raises(ConfigError, match="a size is a number and a unit"):
            ByteSize(wrong)


def test_other_hosts_need_tls() -> None:
    tls = {"tls_certificate": Path("c"), "tls_key": Path("k")}
    assert AgentConfig(host="0.0.0.0", **tls).scheme == "grpc+tls"  # type: ignore[arg-type]
    assert AgentConfig(host="::1").scheme == AgentConfig(host="localhost").scheme == "grpc+tcp"


def test_adaptive_settings_from_the_environment() -> None:
    environ = {"FABRIC_ADAPTIVE_ENABLED": "0", "FABRIC_ADAPTIVE_SKEW_FACTOR": "2.5"}
    config = load(AdaptiveConfig, "ADAPTIVE", environ, target_bytes=7)
    assert (config.enabled, config.skew_factor, config.target_bytes) == (False, 2.5, 7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target_bytes": 0}, "target_bytes must be positive, got 0"),
        ({"tiny_bytes": -1}, "tiny_bytes must not be negative, got -1"),
        ({"broadcast_bytes": -1}, "broadcast_bytes must not be negative"),
        ({"skew_factor": 0.5}, "skew_factor must be 1 or more, got 0.5"),
        ({"skew_factor": float("nan")}, "skew_factor must be 1 or more, got nan"),
    ],
)
def test_adaptive_settings_are_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AdaptiveConfig(**given)
