"""Settings: frozen, with units, checked at birth; an unknown one is an error.

One job: `FabricHome` (where files lie), `Limits`, `AgentConfig`, `AdaptiveConfig` and
`CheckpointConfig`. The coordinator's settings are in `fabric.coordinator.config`. The text in a
field's type is what `fabric config --explain` says of it; where values come from is known to
`fabric.settings`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal, get_args

from fabric.errors import ConfigError, StorageError
from fabric.object_urls import ObjectUrl, is_object_url
from fabric.values import (
    ByteSize,
    Folders,
    Names,
    check_bind,
    check_numbers,
    check_port,
    check_positive,
    one_of,
    unreachable_folder,
)

MEMORY_MIN = 384 << 20
TLS = "grpc+tls://"
"""What addresses begin with where TLS is spoken."""


def default_home(environ: Mapping[str, str] = os.environ) -> Path:
    """``FABRIC_HOME``, else ``~/.fabric``."""
    named = environ.get("FABRIC_HOME", "")
    if refused := unreachable_folder(named, "FABRIC_HOME"):
        raise ConfigError(refused)
    return Path(named or Path.home() / ".fabric")


@dataclass(frozen=True, slots=True)
class FabricHome:
    """The folder of one fabric on this machine.

    >>> FabricHome(Path("/x")).agent("1").as_posix()
    '/x/agents/1'
    """

    root: Path = field(default_factory=default_home)

    def __post_init__(self) -> None:
        if refused := unreachable_folder(self.root, "the home folder"):
            raise ConfigError(refused)

    @property
    def secret(self) -> Path:
        """The fabric secret (0600); whoever reads it is the fabric."""
        return self.root / "secret"

    @property
    def token(self) -> Path:
        """A token of scope submit for this user (0600)."""
        return self.root / "token"

    @property
    def coordinator(self) -> Path:
        """The coordinator's metadata."""
        return self.root / "coordinator"

    def agent(self, name: str) -> Path:
        """The folder of one agent: its id, its dataset files."""
        return self.root / "agents" / name

    def create(self) -> FabricHome:
        """Make the folder, for its owner only; returns itself."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StorageError(f"can't make the folder {self.root}: {error.strerror}") from error
        return self


StateBackend = Literal["memory", "rocksdb", "arrow", "tonbo", "auto"]
"""Where state lies. Of users' functions: in the task's memory, with "rocksdb" and "auto" in files
beside it. Of groups: in memory, with "arrow", "tonbo" and "auto" in files once that is spent."""
_MESSAGE_BYTES, _UNPACKED_BYTES = ByteSize(256 << 20), ByteSize(1 << 30)
_PEER_BYTES = ByteSize(64 << 20)
_STATE_MEMORY = ByteSize(256 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What clients may ask of an agent's Flight server.

    So many calls may be open at once (`streams_max`; a quarter of them without a token), of one
    client (`peer_streams_max`), and so many connections; calls of agents are not counted. A message
    has at most `message_bytes`, a batch with its dictionaries `unpacked_bytes` once decompressed. A
    client that neither reads nor writes for `peer_idle_s` while its call waits for it loses its
    connection, one that has shown no token within `handshake_s` as well. Of the connections a
    quarter is for those, half for clients with a token, half of either for one address.

    >>> Limits(peer_idle_s=60).peer_idle_s
    60
    """

    streams_max: Annotated[int, "open calls"] = 512
    peer_streams_max: Annotated[int, "open calls of one client"] = 256
    connections_max: Annotated[int, "connections"] = 4096
    message_bytes: Annotated[ByteSize, "of a message of a client"] = _MESSAGE_BYTES
    unpacked_bytes: Annotated[ByteSize, "of a batch once decompressed"] = _UNPACKED_BYTES
    peer_idle_s: Annotated[
        float, "a client that neither reads nor writes for so long loses its connection"
    ] = 300.0
    handshake_s: Annotated[float, "a connection must show a token within"] = 20.0

    def check_limits(self) -> None:
        """Raise `ConfigError` unless all are positive, and what gRPC can count."""
        check_positive(self, *(limit.name for limit in fields(Limits)))
        if self.message_bytes >= 1 << 31:
            raise ConfigError(f"message_bytes must be below 2 GiB, got {self.message_bytes}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig(Limits):
    """One agent process.

    `folder` holds the agent's id and data (default: ``agents/<name>`` in `home`). `port` 0 takes a
    free one; `advertise` is the host that others reach it by (default: `host`). It runs `slots`
    tasks at a time. A message of a stream may take `idle_s`; a ticket holds `ticket_s`; an
    abandoned dataset transaction's files go after `sweep_s`; stopping waits `drain_s` for open
    streams. A read of a file that takes `stuck_s` fails its task; an agent of which a thread that
    must turn does not for so long ends with code 75, for ``fabric up`` to start it again.
    Every `give_back_s` a busy agent gives memory that is free just then back to the system, and one
    that is idle for so long all that it keeps for the next job.
    Agents of one host reach each other by `unix_sockets`, but never an agent with TLS.
    A Python function may take `batch_s` for one batch; then its process is stopped. Such processes
    see what every program needs of the agent's environment, and what `slot_environment` names; one
    that takes more than `slot_memory` is stopped.

    `memory` bounds the whole process (see `fabric.agent.process.memory`); without it, partitions
    may take most of the machine's memory and queries are not bounded. What has no room is spilled
    to `spill_folders` in turn (default: ``spill`` in its folder), in folders of its own there that
    go with it; those of agents that died go after `sweep_s`. Of what one other agent sends,
    `peer_bytes_max` may be here untaken, and tasks that gather their input have `peer_requests_max`
    requests there at a time."""

    home: Annotated[Path, "the state folder"] = field(default_factory=default_home)
    name: Annotated[str, "the agent's folder in the state folder"] = "1"
    folder: Annotated[Path | None, "the agent's folder, wherever it is"] = None
    coordinator: Annotated[str, "host:port of the coordinator"] = "127.0.0.1:6123"
    host: Annotated[str, "where to listen"] = "127.0.0.1"
    port: Annotated[int, "Flight; 0: a free one"] = 0
    metrics_port: Annotated[int | None, "Prometheus; 0: a free one, off: none"] = None
    metrics_token: Annotated[Path | None, "a file; who asks for metrics shows its text"] = None
    advertise: Annotated[str, "the host that others reach it by; empty: host"] = ""
    slots: Annotated[int, "tasks at a time"] = 4
    idle_s: Annotated[float, "a message of a stream may take"] = 30.0
    ticket_s: Annotated[float, "a ticket holds"] = 3600.0
    sweep_s: Annotated[float, "files that nobody commits or owns go after"] = 3600.0
    drain_s: Annotated[float, "stopping waits for open streams"] = 5.0
    stuck_s: Annotated[float, "a read, or a step of its own, may take; then it restarts"] = 120.0
    give_back_s: Annotated[float, "so often, or idle for so long, it gives memory back"] = 180.0
    batch_s: Annotated[float, "a Python function may take for one batch"] = 300.0
    slot_memory: Annotated[
        ByteSize | None, "of a process for Python functions; off: its share of memory"
    ] = None
    slot_environment: Annotated[
        Names, "variables that Python functions see, too; PRE_*: all that begin so"
    ] = field(default_factory=Names)
    unix_sockets: Annotated[bool, "agents of one host reach each other by Unix sockets"] = True
    memory: Annotated[ByteSize | None, "of the whole process; off: not bounded"] = None
    spill_folders: Annotated[Folders, "where rows go that memory has no room for"] = field(
        default_factory=Folders
    )
    peer_bytes_max: Annotated[ByteSize, "bytes of one other agent that nobody took yet"] = (
        _PEER_BYTES
    )
    peer_requests_max: Annotated[
        int, "requests at another agent at a time, of tasks that gather"
    ] = 16
    tls_certificate: Annotated[Path | None, "PEM; with it all links are TLS"] = None
    tls_key: Annotated[Path | None, "PEM; of the certificate"] = None
    tls_roots: Annotated[Path | None, "PEM; who is trusted to have signed certificates"] = None

    def __post_init__(self) -> None:
        check_port(self.port)
        check_port(self.metrics_port or 0)
        self.check_limits()
        check_positive(
            self, "idle_s", "ticket_s", "sweep_s", "drain_s", "stuck_s", "give_back_s", "batch_s",
            "slots", "peer_bytes_max", "peer_requests_max",
        )  # fmt: skip
        if self.memory is not None and self.memory < MEMORY_MIN:
            raise ConfigError(
                f"memory must be at least {MEMORY_MIN >> 20} MiB, got {self.memory} bytes: an "
                "agent that does nothing has half of that"
            )
        if self.slot_memory is not None:
            check_positive(self, "slot_memory")
        check_bind(self.host, self.tls_certificate, self.tls_key)

    @property
    def files(self) -> Path:
        """Where this agent keeps what must outlive it."""
        return self.folder or FabricHome(self.home).agent(self.name)

    @property
    def spills_to(self) -> tuple[Path, ...]:
        """Where it spills."""
        return self.spill_folders or (self.files / "spill",)

    @property
    def scheme(self) -> str:
        """Of the advertised address."""
        return "grpc+tls" if self.tls_certificate else "grpc+tcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveConfig:
    """How a job's stages are planned anew, between stages, from what was measured.

    Only exchanges that the planner adds (for joins, groups, windows, sorts) are changed; those that
    a plan has, and steps with a configured parallelism, stay as they are. A coordinator takes these
    from ``FABRIC_ADAPTIVE_…``, a session changes them for its jobs (`Session.configure`).

    Parameters
    ----------
    enabled
        Whether anything is changed at all.
    broadcast_bytes
        A side of a join of up to so many bytes may be sent to all tasks: when the job is planned,
        by an estimate, and in place of a hash exchange once it was measured. 0: never.
    target_bytes
        What a task should read at most: a partition of more may be split, and no partitions are
        read by one task that are more together.
    tiny_bytes
        Partitions of up to so many bytes together are read by one task, even if slots stay free.
    skew_factor
        A partition is hot when it has so many times the bytes of the others' median, and more than
        `target_bytes`.
    """

    enabled: Annotated[bool, "whether stages are planned anew"] = True
    broadcast_bytes: Annotated[
        int, "a side of a join up to which it may go to all tasks; 0: never"
    ] = 64 << 20
    target_bytes: Annotated[int, "what a task should read at most"] = 64 << 20
    tiny_bytes: Annotated[int, "partitions up to which one task reads them"] = 1 << 20
    skew_factor: Annotated[float, "how many times the others' median makes a partition hot"] = 4.0

    def __post_init__(self) -> None:
        check_positive(self, "target_bytes")
        for name in ("broadcast_bytes", "tiny_bytes"):
            if (value := getattr(self, name)) < 0:
                raise ConfigError(f"{name} must not be negative, got {value!r}")
        if not 1 <= self.skew_factor < math.inf:
            raise ConfigError(f"skew_factor must be 1 or more, got {self.skew_factor!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """When a stream's checkpoints are made, and how many are kept.

    A coordinator takes these from ``FABRIC_CHECKPOINT_…``, a stream may have others.

    Parameters
    ----------
    interval_s
        Between the beginnings of two.
    min_pause_s
        At least so long lies between the end of one and the beginning of the next.
    timeout_s
        One that is not complete after so long is given up; the job goes on.
    failures_max
        The job fails when more than so many in a row were not completed; none: it never does.
    retained
        The newest ones that are kept; with 2 or more a damaged one does not end the job.
    seen_twice
        When a checkpoint whose rows are out is damaged, and a sink can't take them back: whether
        the job goes on, with these rows seen twice, or fails.
    held_bytes_max
        A task gives a checkpoint up when more waits for its last barriers.
    unaligned_after_s
        A checkpoint that takes longer no longer waits for rows before its barriers: tasks take
        their snapshots at once, with the rows in flight. 0: each is unaligned from its beginning.
    folder
        Where they lie, the same for all hosts: a folder, or the URL of an object store, such as
        ``s3://bucket/prefix``. Empty: ``checkpoints`` in the home folder. Those of a job are
        removed when it is forgotten.
    state
        Where state lies between. "memory": there, all of it. "rocksdb": that of `DataFrame.process`
        in files of the agent, of which a checkpoint takes only what has changed. "arrow":
        aggregates, windows, top-N and deduplication keep groups in files when they take more than
        `state_memory`; `DataFrame.process` is in memory. "tonbo": as "arrow", with Tonbo's files,
        which needs the package flight-fabric-tonbo. "auto": as "arrow", and
        `DataFrame.process` as with "rocksdb".
    state_memory
        With "arrow", "tonbo" and "auto": what groups may take in memory, of a job in one slot.
    """

    interval_s: Annotated[float, "between the beginnings of two checkpoints"] = 10.0
    min_pause_s: Annotated[float, "between the end of one and the beginning of the next"] = 0.0
    timeout_s: Annotated[float, "a checkpoint that takes longer is given up"] = 60.0
    failures_max: Annotated[int | None, "failures in a row that a job bears; none: any"] = None
    retained: Annotated[int, "the newest checkpoints that are kept"] = 3
    held_bytes_max: Annotated[int, "what may wait in a task for the last barriers"] = 256 << 20
    unaligned_after_s: Annotated[float, "then rows in flight belong to it; 0: always"] = 30.0
    state: Annotated[StateBackend, "of streams: memory, rocksdb, arrow, tonbo or auto"] = "memory"
    state_memory: Annotated[ByteSize, "of a job in a slot, with arrow, tonbo and auto"] = (
        _STATE_MEMORY
    )
    seen_twice: Annotated[bool, "go on where rows that are out can't be taken back"] = False
    folder: Annotated[str, "where they lie, the same for all hosts; empty: in home"] = ""

    def __post_init__(self) -> None:
        check_numbers(self, "interval_s", "min_pause_s", "timeout_s", "unaligned_after_s")
        bearable = () if self.failures_max is None else ("failures_max",)
        counts = ("retained", "held_bytes_max", "state_memory")
        check_numbers(self, *counts, *bearable, whole=True)
        if not isinstance(self.seen_twice, bool):
            raise ConfigError(f"seen_twice must be True or False, got {self.seen_twice!r}")
        check_positive(self, "interval_s", "timeout_s", *counts)
        if not isinstance(self.folder, str):
            raise ConfigError(f"folder must be text, got {self.folder!r}")
        if is_object_url(self.folder):
            ObjectUrl.of(self.folder)  # refuses what is none
        elif refused := unreachable_folder(self.folder, "checkpoints", stores=True):
            raise ConfigError(refused)
        if self.min_pause_s < 0 or (self.failures_max is not None and self.failures_max < 0):
            raise ConfigError(
                f"min_pause_s and failures_max must not be negative, got {self.min_pause_s!r} and "
                f"{self.failures_max!r}"
            )
        if self.unaligned_after_s < 0:
            raise ConfigError(
                "unaligned_after_s must not be negative; use 0 to always skip alignment; got "
                f"{self.unaligned_after_s!r}"
            )
        if self.state not in get_args(StateBackend):
            raise ConfigError(f"state must be {one_of(StateBackend)}, got {self.state!r}")
