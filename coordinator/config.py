"""Settings of a coordinator.

One job: names, defaults, units and ranges. Where a process finds its files is here too, so that
`fabric up` and the tests agree on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, TypeVar

from google.protobuf.message import Message

from fabric.config import TLS, AdaptiveConfig, CheckpointConfig, default_home
from fabric.control.control_pb2 import SubmitRequest
from fabric.coordinator.planner.placement import POLICIES, Policy
from fabric.errors import ConfigError
from fabric.io import places
from fabric.object_urls import ObjectUrl, is_object_url
from fabric.plan.bounds import LATENCY_US_MAX
from fabric.plan_rules import PlanRules
from fabric.settings import load
from fabric.state.column_stores import check_engine
from fabric.values import ByteSize, check_bind, check_port, check_positive

T = TypeVar("T", AdaptiveConfig, CheckpointConfig)

MEMORY, MEMORY_MIN = ByteSize(4 << 30), 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """`home` holds ``secret`` and ``coordinator/``; port 0 takes a free one.

    REST and pages are served at `rest_port`, metrics for Prometheus at `metrics_port`, unless None.

    With `tls_certificate` and `tls_key` (PEM) agents and clients come by TLS; only so may it listen
    beyond this machine. `tls_roots` may have signed the certificates of other coordinators.

    `metadata` is where it remembers what must outlive it: empty is a folder in `home`, for one
    coordinator; with ``postgresql://…`` several elect one that leads. The leader holds a lease of
    `lease_s`; while the database is away it goes on, without writing, for `lease_grace_s` more. At
    its start a coordinator waits `metadata_wait_s` for the database. `advertise` is the host that
    others reach it by (default: `host`).

    An agent that is silent for `timeout_s` is lost, one whose link broke after `reattach_s`. A task
    that fails for a reason that may pass is tried `attempts_max` times, after pauses of `retry_s`
    that double up to `retry_s_max`; one that can't reach an agent that owns partitions of its
    dataset and is away, because that starts again, until it was away for `owner_wait_s`. Tasks go
    to agents by the policy `placement` ("spread" or "bin_pack"). A job that failed or was cancelled
    ends when its tasks have, after `stop_s` at the latest. Partitions of an ended job are kept
    `retain_s`, of a failed one `retain_failed_s`; a dataset transaction nobody ends is dropped
    after `transaction_s`. Replicas that an agent holds which stays away for `rereplicate_s` are
    made anew on others. The statuses of the last `jobs_kept_max` jobs are kept, no more than that
    many ended jobs whole, and the last `events_kept_max` events. `adaptive` and `checkpoint` are
    for jobs whose session says nothing else, `plans` say what all plans are held to.

    Plans are made ready to run in threads of their own (`submit/plan_pool.py`): within `plan_s`, of
    which a Flight server that a plan reads from has `ask_s` to answer. While the process has more
    than `memory`, it refuses plans, not other calls; an embedded one has no such limits.

    Each port has room for `connections_max` connections: a quarter of them for strangers, half for
    clients with a token, half of either for one address; agents have the rest. A connection that
    has shown no token within `handshake_s` (REST: that has sent no whole request) is ended. Who
    asks for metrics must show the text of the file `metrics_token`, if there is one.
    """

    home: Annotated[Path, "the state folder"] = field(default_factory=default_home)
    host: Annotated[str, "where to listen"] = "127.0.0.1"
    port: Annotated[int, "gRPC, and where agents attach; 0: a free one"] = 6123
    rest_port: Annotated[int | None, "REST and pages; 0: a free one, off: none"] = 8081
    metrics_port: Annotated[int | None, "Prometheus; 0: a free one, off: none"] = None
    tls_certificate: Annotated[Path | None, "PEM; with it all links are TLS"] = None
    tls_key: Annotated[Path | None, "PEM; of the certificate"] = None
    tls_roots: Annotated[Path | None, "PEM; trusted for other coordinators"] = None
    advertise: Annotated[str, "the host that others reach it by, if not `host`"] = ""
    metadata: Annotated[str, "postgresql://user@host/database; empty: a folder in home"] = ""
    metadata_wait_s: Annotated[float, "for the database, at the start"] = 60.0
    lease_s: Annotated[float, "a leader that is gone is followed after so long"] = 5.0
    lease_grace_s: Annotated[float, "a leader goes on so long without the database"] = 30.0
    heartbeat_s: Annotated[float, "between two heartbeats of an agent"] = 5.0
    timeout_s: Annotated[float, "an agent that is silent for so long is lost"] = 15.0
    reattach_s: Annotated[float, "an agent whose link broke is lost after"] = 0.3
    attempts_max: Annotated[int, "how often a task is tried"] = 4
    retry_s: Annotated[float, "before the second attempt of a task that failed; it doubles"] = 0.1
    retry_s_max: Annotated[float, "the longest pause before an attempt"] = 10.0
    owner_wait_s: Annotated[float, "a job waits for an agent with its dataset's rows"] = 45.0
    latency_s: Annotated[float, "rows of a stream may be gathered on their way"] = 0.02
    placement: Annotated[Policy, "of tasks: spread or bin_pack"] = "spread"
    stop_s: Annotated[float, "a job that stops ends after so long at the latest"] = 10.0
    rescale_pause_s: Annotated[float, "a stream follows new slots no sooner than"] = 30.0
    retain_s: Annotated[float, "partitions of an ended job are kept"] = 600.0
    retain_failed_s: Annotated[float, "partitions of a failed job are kept"] = 86_400.0
    rereplicate_s: Annotated[float, "replicas of an absent agent are made anew after"] = 30.0
    transaction_s: Annotated[float, "a dataset transaction that nobody ends is dropped after"] = (
        3600.0
    )
    jobs_kept_max: Annotated[int, "ended jobs that are remembered"] = 10_000
    events_kept_max: Annotated[int, "events that are remembered"] = 10_000
    connections_max: Annotated[int, "connections to a port"] = 4096
    handshake_s: Annotated[float, "a connection must show a token within"] = 20.0
    metrics_token: Annotated[Path | None, "a file; who asks for metrics shows its text"] = None
    message_bytes_max: Annotated[int, "of a message or body of a client"] = 64 << 20
    plan_bytes_max: Annotated[int, "of a plan"] = 16 << 20
    plan_s: Annotated[float, "a plan that is not ready to run after so long is refused"] = 120.0
    ask_s: Annotated[float, "for a Flight server that a plan reads from, to answer"] = 10.0
    memory: Annotated[
        ByteSize | None, "of the process, beyond which plans are refused; off: any"
    ] = MEMORY
    adaptive: AdaptiveConfig = field(default_factory=lambda: load(AdaptiveConfig, "adaptive"))
    checkpoint: CheckpointConfig = field(
        default_factory=lambda: load(CheckpointConfig, "checkpoint")
    )
    plans: PlanRules = field(default_factory=lambda: load(PlanRules, "plans"))

    def __post_init__(self) -> None:
        check_positive(
            self, "lease_s", "heartbeat_s", "timeout_s", "reattach_s", "attempts_max", "retry_s",
            "retry_s_max", "owner_wait_s", "stop_s", "rescale_pause_s", "retain_s",
            "retain_failed_s", "rereplicate_s", "transaction_s", "jobs_kept_max",
            "events_kept_max", "message_bytes_max", "plan_bytes_max", "plan_s", "ask_s",
            "connections_max", "handshake_s",
        )  # fmt: skip
        for port in (self.port, self.rest_port, self.metrics_port):
            check_port(port or 0)
        for name in ("metadata_wait_s", "lease_grace_s", "latency_s"):
            if (value := getattr(self, name)) < 0:
                raise ConfigError(f"{name} must not be negative, got {value!r}")
        if self.latency_s > LATENCY_US_MAX / 1e6:
            raise ConfigError(
                f"latency_s must be at most {LATENCY_US_MAX // 10**6} s, got {self.latency_s!r}"
            )
        if self.placement not in POLICIES:
            known = " or ".join(map(repr, POLICIES))
            raise ConfigError(f"placement must be {known}, got {self.placement!r}")
        if self.memory is not None and self.memory < MEMORY_MIN:
            raise ConfigError(
                f"memory must be at least {MEMORY_MIN >> 20} MiB, got {self.memory} bytes: a "
                "coordinator takes about that much without any plan"
            )
        if self.timeout_s < 2 * self.heartbeat_s:
            raise ConfigError(
                f"timeout_s must be at least two heartbeats ({2 * self.heartbeat_s} s), "
                f"got {self.timeout_s}"
            )

    def check_bind(self) -> None:
        """Refuse to listen where strangers can connect without TLS."""
        check_bind(self.host, self.tls_certificate, self.tls_key)

    def checkpointing(self, given: Message) -> CheckpointConfig:
        """That of a job whose session has set what `given` says; its folder has a full name.

        A folder that the session names is one that plans may write; raises `PlanError` else, and
        `ConfigError` where the state needs a package that is not installed.

        >>> from fabric.control.control_pb2 import Checkpointing
        >>> CoordinatorConfig(home=Path("/x")).checkpointing(Checkpointing(interval_s=1.5)).folder
        '/x/checkpoints'
        """
        found = chosen(given, self.checkpoint)
        check_engine(found.state)
        if is_object_url(found.folder):
            places.check_url(found.folder, own=self.checkpoint.folder)
            return replace(found, folder=str(ObjectUrl.of(found.folder)))
        folder = self._checkpoints(found).absolute()
        if folder != self._checkpoints(self.checkpoint).absolute():
            places.check_write(folder)
        return replace(found, folder=str(folder))

    def latency_us(self, asked: SubmitRequest) -> int:
        """How long rows of a job's stream may be gathered on their whole way.

        >>> from fabric.control.control_pb2 import SubmitRequest
        >>> config = CoordinatorConfig(home=Path("/x"))
        >>> config.latency_us(SubmitRequest()), config.latency_us(SubmitRequest(latency_us=0))
        (20000, 0)
        """
        named = asked.HasField("latency_us")
        return asked.latency_us if named else round(self.latency_s * 1e6)

    def guarded(self, *own: Path) -> places.Places:
        """What plans may touch where this coordinator runs; not what is its `own`."""
        keys = [self.tls_key] if self.tls_key else []
        return places.of_fabric(
            self.home, self.plans, own=[self._checkpoints(self.checkpoint), *own], secrets=keys
        )

    def _checkpoints(self, config: CheckpointConfig) -> Path:
        return Path(config.folder) if config.folder else self.home / "checkpoints"

    @property
    def scheme(self) -> str:
        """What addresses begin with."""
        return TLS if self.tls_certificate else ""


def chosen(given: Message, settings: T) -> T:
    """`settings` with what a session has set of them in a message of the same field names.

    >>> from fabric.control.control_pb2 import Checkpointing
    >>> chosen(Checkpointing(interval_s=1.5), CheckpointConfig()).interval_s
    1.5
    """
    return replace(settings, **{field.name: value for field, value in given.ListFields()})
