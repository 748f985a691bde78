"""Settings of a coordinator.

One job: names, defaults, units and ranges. Where a process finds its files is here too, so that
`fabric up` and the tests agree on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fabric.config import (
    AdaptiveConfig,
    check_port,
    check_positive,
    default_home,
    is_loopback,
    load,
)
from fabric.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """`home` holds ``secret`` and ``coordinator/``; port 0 takes a free one.

    An agent that is silent for `timeout_s` is lost. A job that failed or was cancelled ends when
    its tasks have, after `stop_s` at the latest. Partitions of an ended job are kept `retain_s`; a
    dataset transaction nobody ends is dropped after `transaction_s`. `adaptive` is for jobs whose
    session says nothing else.
    """

    home: Path = field(default_factory=default_home)
    host: str = "127.0.0.1"
    port: int = 6123
    heartbeat_s: float = 1.0
    timeout_s: float = 5.0
    stop_s: float = 10.0
    retain_s: float = 600.0
    transaction_s: float = 3600.0
    jobs_kept_max: int = 1000
    message_bytes_max: int = 64 << 20
    plan_bytes_max: int = 16 << 20
    adaptive: AdaptiveConfig = field(default_factory=lambda: load(AdaptiveConfig, "ADAPTIVE"))

    def __post_init__(self) -> None:
        check_positive(
            self, "heartbeat_s", "timeout_s", "stop_s", "retain_s", "transaction_s",
            "jobs_kept_max", "message_bytes_max", "plan_bytes_max",
        )  # fmt: skip
        check_port(self.port)
        if self.timeout_s < 2 * self.heartbeat_s:
            raise ConfigError(
                f"timeout_s must be at least two heartbeats ({2 * self.heartbeat_s} s), "
                f"got {self.timeout_s}"
            )

    def check_bind(self) -> None:
        """Refuse to listen where strangers can connect, as long as there is no TLS."""
        if not is_loopback(self.host):
            raise ConfigError(
                f"refusing to listen on {self.host!r} without TLS; bind 127.0.0.1 and reach it "
                "through an SSH tunnel"
            )
