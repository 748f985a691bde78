from __future__ import annotations

import pytest

from fabric.coordinator.config import CoordinatorConfig
from fabric.errors import ConfigError
from fabric.settings import load
from fabric.values import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_may_be_bound(host: str) -> None:
    CoordinatorConfig(host=host).check_bind()
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_other_addresses_need_tls(host: str) -> None:
    with pytest.raises(ConfigError, match=r"refusing to listen on .* without TLS"):
        CoordinatorConfig(host=host).check_bind()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"retain_s": 0}, "retain_s must be positive, got 0"),
        ({"port": 70000}, "port must be 0 to 65535, got 70000"),
        ({"heartbeat_s": 8.0}, r"timeout_s must be at least two heartbeats \(16.0 s\), got 15.0"),
    ],
)
def test_out_of_range(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CoordinatorConfig(**fields)


def test_the_memory_of_the_process_is_a_size() -> None:
    def memory(text: str | None) -> int | None:
        return load(CoordinatorConfig, "coordinator", {}, memory=text).memory

    assert (memory("512MB"), memory(None), memory("off")) == (512_000_000, 4 << 30, None)
    with pytest.raises(ConfigError, match="at least 128 MiB"):
        memory("100MiB")
