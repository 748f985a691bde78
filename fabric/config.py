"""Settings: frozen, with units, checked at birth; an unknown one is an error.

One job: `FabricHome` (where files lie), `Limits`, `AgentConfig`, `AdaptiveConfig`, and `load`,
which fills any such dataclass from ``FABRIC_<PREFIX>_<FIELD>`` environment variables and keyword
arguments. The coordinator's settings are in `fabric.coordinator.config`.

Every setting has an environment variable: ``FABRIC_AGENT_IDLE_S=5`` is ``AgentConfig(idle_s=5)``.
"""

from __future__ import annotations

import difflib
import ipaddress
import math
import os
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from fabric.errors import ConfigError, StorageError

T = TypeVar("T")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGtT]?i?[bB]?)")
_UNITS = {
    prefix + binary + b: (1024 if binary else 1000) ** power
    for power, prefix in enumerate(("", "k", "m", "g", "t"))
    for binary in ("", "i")
    for b in ("", "b")
}
MEMORY_MIN = 384 << 20
_SWITCH = {"1": True, "true": True, "0": False, "false": False}


def default_home() -> Path:
    """``FABRIC_HOME``, else ``~/.fabric``."""
    return Path(os.environ.get("FABRIC_HOME") or Path.home() / ".fabric")


class ByteSize(int):
    """A number of bytes; as text with a unit of 1000 (KB, MB, GB) or 1024 (KiB, MiB, GiB).

    >>> ByteSize("512MB"), ByteSize("1.5 GiB"), ByteSize(4096)
    (512000000, 1610612736, 4096)
    """

    def __new__(cls, value: int | str) -> ByteSize:
        """Read it; `ConfigError` when it is none."""
        if not isinstance(value, str):
            return super().__new__(cls, value)
        found = _BYTES.fullmatch(value.strip())
        if found is None:
            raise ConfigError(f"a size is a number and a unit, as in 512MB or 2GiB, not {value!r}")
        return super().__new__(cls, int(float(found[1]) * _UNITS[found[2].lower()]))

    def __repr__(self) -> str:
        return int.__repr__(self)


class Folders(tuple[Path, ...]):
    """Folders; as text separated like PATH.

    >>> [path.as_posix() for path in Folders("/a:/b")]
    ['/a', '/b']
    """

    __slots__ = ()

    def __new__(cls, value: str | Iterable[Path] = ()) -> Folders:
        """Split a text."""
        if isinstance(value, str):
            value = [Path(name) for name in value.split(os.pathsep) if name]
        return super().__new__(cls, value)


@dataclass(frozen=True, slots=True)
class FabricHome:
    """The folder of one fabric on this machine.

    >>> FabricHome(Path("/x")).agent("1").as_posix()
    '/x/agents/1'
    """

    root: Path = field(default_factory=default_home)

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


_MESSAGE_BYTES, _UNPACKED_BYTES = ByteSize(256 << 20), ByteSize(1 << 30)
_PEER_BYTES = ByteSize(64 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What clients may ask of an agent's Flight server.

    So many calls may be open at once (`streams_max`; a quarter of them without a token), of one
    client (`peer_streams_max`), and so many connections; calls of agents are not counted. A message
    has at most `message_bytes`, a batch with its dictionaries `unpacked_bytes` once decompressed. A
    client that neither reads nor writes for `peer_idle_s` while its call waits for it loses its
    connection, one that does not get through its handshake within `handshake_s` as well.

    >>> Limits(peer_idle_s=60).peer_idle_s
    60
    """

    streams_max: int = 512
    peer_streams_max: int = 256
    connections_max: int = 4096
    message_bytes: ByteSize = _MESSAGE_BYTES
    unpacked_bytes: ByteSize = _UNPACKED_BYTES
    peer_idle_s: float = 300.0
    handshake_s: float = 20.0

    def check_limits(self) -> None:
        """Raise `ConfigError` unless all are positive, and what gRPC can count."""
        check_positive(self, *(limit.name for limit in fields(Limits)))
        if self.message_bytes >= 1 << 31:
            raise ConfigError(f"message_bytes must be below 2 GiB, got {self.message_bytes}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig(Limits):
    """One agent process.

    `folder` holds the agent's id and data (default: ``agents/<name>`` in `home`). `port` 0 takes a
    free one; `advertise` is the host that others reach it by (default: `host`). `slots` 0 is the
    number of CPUs. A message of a stream may take `idle_s`; a ticket holds `ticket_s`; an abandoned
    dataset transaction's files go after `sweep_s`; stopping waits `drain_s` for open streams.
    Idle for `give_back_s`, an agent gives the memory it keeps for the next job back to the system.
    Agents of one host reach each other by `unix_sockets`, but never an agent with TLS.

    `memory` bounds the whole process (see `fabric.agent.split`); without it, partitions may take
    most of the machine's memory and queries are not bounded. What has no room is spilled to
    `spill_folders` in turn (default: ``spill`` in its folder), in folders of its own there that go
    with it; those of agents that died go after `sweep_s`. Of what one other agent sends,
    `peer_bytes_max` may be here untaken, and tasks that gather their input have
    `peer_requests_max` requests there at a time.
    """

    home: Path = field(default_factory=default_home)
    name: str = "1"
    folder: Path | None = None
    coordinator: str = "127.0.0.1:6123"
    host: str = "127.0.0.1"
    port: int = 0
    advertise: str = ""
    slots: int = 0
    idle_s: float = 30.0
    ticket_s: float = 3600.0
    sweep_s: float = 3600.0
    drain_s: float = 5.0
    give_back_s: float = 180.0
    unix_sockets: bool = True
    memory: ByteSize | None = None
    spill_folders: Folders = field(default_factory=Folders)
    peer_bytes_max: ByteSize = _PEER_BYTES
    peer_requests_max: int = 16
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_roots: Path | None = None

    def __post_init__(self) -> None:
        check_port(self.port)
        self.check_limits()
        check_positive(
            self, "idle_s", "ticket_s", "sweep_s", "drain_s", "give_back_s",
            "peer_bytes_max", "peer_requests_max",
        )  # fmt: skip
        if self.memory is not None and self.memory < MEMORY_MIN:
            raise ConfigError(
                f"memory must be at least {MEMORY_MIN >> 20} MiB, got {self.memory} bytes: an "
                "agent that does nothing has half of that"
            )
        if self.slots < 0:
            raise ConfigError(f"slots must not be negative, got {self.slots!r}")
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

    enabled: bool = True
    broadcast_bytes: int = 64 << 20
    target_bytes: int = 64 << 20
    tiny_bytes: int = 1 << 20
    skew_factor: float = 4.0

    def __post_init__(self) -> None:
        check_positive(self, "target_bytes")
        for name in ("broadcast_bytes", "tiny_bytes"):
            if (value := getattr(self, name)) < 0:
                raise ConfigError(f"{name} must not be negative, got {value!r}")
        if not 1 <= self.skew_factor < math.inf:
            raise ConfigError(f"skew_factor must be 1 or more, got {self.skew_factor!r}")


def load(kind: type[T], prefix: str, environ: Mapping[str, str] | None = None, **given: Any) -> T:
    """A `kind` from ``FABRIC_<prefix>_*`` in `environ`, with `given` before those.

    Raises
    ------
    ConfigError
        For a variable that names no field (with the nearest that does), or a value of a wrong type.

    Examples
    --------
    >>> load(AgentConfig, "AGENT", {"FABRIC_AGENT_IDLE_S": "5"}, port=7000).idle_s
    5.0
    """
    environ = os.environ if environ is None else environ
    start = f"FABRIC_{prefix}_"
    known = typing.get_type_hints(kind)
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    _check_known(given, names, "setting", str)
    variables = {key: value for key, value in environ.items() if key.startswith(start)}
    by_name = {key.removeprefix(start).lower(): (key, value) for key, value in variables.items()}
    _check_known(by_name, names, "environment variable", lambda name: start + name.upper())
    values = {
        name: _convert(text, known[name], key)
        for name, (key, text) in by_name.items()
        if given.get(name) is None
    }
    return kind(**values, **{name: value for name, value in given.items() if value is not None})


def check_port(port: int) -> None:
    """Raise `ConfigError` unless `port` is one, or 0."""
    if not 0 <= port < 65536:
        raise ConfigError(f"port must be 0 to 65535, got {port!r}")


def check_positive(config: object, *names: str) -> None:
    """Raise `ConfigError` unless these fields of `config` are positive."""
    for name in names:
        if (value := getattr(config, name)) <= 0:
            raise ConfigError(f"{name} must be positive, got {value!r}")


def check_bind(host: str, tls_certificate: Path | None, tls_key: Path | None) -> None:
    """Refuse to listen where strangers can connect unless the line is encrypted.

    Authentication by token is always on, but a token sent in the clear can be read on the way.
    """
    if (tls_certificate is None) != (tls_key is None):
        raise ConfigError("tls_certificate and tls_key belong together; give both or none")
    if tls_certificate is None and not is_loopback(host):
        raise ConfigError(
            f"refusing to listen on {host!r} without TLS; give tls_certificate and tls_key, or "
            "listen on 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to `host`.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_known(
    given: typing.Iterable[str], names: list[str], what: str, shown: typing.Callable[[str], str]
) -> None:
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {shown(near[0])}?" if near else ""
            raise ConfigError(f"{what} {shown(name)} is unknown{hint}")


def _convert(text: str, kind: Any, key: str) -> Any:
    """`text` as a field's type; Optional types take their first member."""
    options = [k for k in typing.get_args(kind) or (kind,) if k is not type(None)]
    if options[0] is bool:
        if text not in _SWITCH:
            raise ConfigError(f"{key} must be 1 or 0, got {text[:80]!r}")
        return _SWITCH[text]
    try:
        return options[0](text)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{key} must be {options[0].__name__}, got {text[:80]!r}") from error
