"""``fabric up``: a coordinator and agents on this machine, as processes of their own.

One job: start them, say how to reach them, start again what died, and stop all of them cleanly on
Ctrl-C, SIGTERM, or when there is no coordinator or no agent any more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fabric.clients.cli.options import Home, MetricsPort, RestPort, home_of
from fabric.clients.cli.processes import POLL_S, port_is_free, stop_asked
from fabric.config import TLS, AgentConfig, FabricHome
from fabric.errors import ConfigError, ExternalError, PeerLostError
from fabric.settings import load

if TYPE_CHECKING:
    from fabric.control import control_pb2 as pb

START_S = 30.0
STOP_S = 10.0
_POLL_S = 0.05
AGAIN_S = 1.0
"""The pause before a process that died is started again; it doubles each time."""
AGAIN_MAX, AGAIN_WITHIN_S = 5, 600.0
"""A process is started again so often at most within so long."""


def up(
    agents: Annotated[int, typer.Option("--agents", min=1, help="How many agents.")] = 2,
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="The coordinator's port.")
    ] = 6123,
    rest_port: RestPort = "8081",
    metrics_port: MetricsPort = "9090",
    home: Home = None,
) -> None:
    """Start a coordinator and agents here; Ctrl-C stops all of them.

    With tls_certificate, tls_key and tls_roots of both (FABRIC_COORDINATOR_TLS_CERTIFICATE,
    FABRIC_AGENT_TLS_CERTIFICATE and so on, or fabric.toml) all links are TLS.
    A process that dies is started again, at most five times in ten minutes; jobs go on. Metrics
    are at --metrics-port and, of the agents, at the ports after it.
    """
    folder = home_of(home)
    local = LocalProcesses(folder, port, rest_port=rest_port, metrics_port=metrics_port)
    with stop_asked() as stop:
        try:
            local.start(agents, stop)
            if not stop.is_set():
                typer.echo(welcome(local))
            while not stop.wait(POLL_S):
                for line in local.mend(time.monotonic()):
                    typer.echo(line)
        finally:
            local.stop()
    typer.echo("stopped")


@dataclass(slots=True)
class _Child:
    """A process of ours, and how it is started."""

    kind: str
    name: str
    arguments: Sequence[str]
    process: subprocess.Popen[bytes]
    died: tuple[float, ...] = ()
    """When, of late."""
    due: float | None = None
    """When it is started again."""
    is_over: bool = False

    def ended(self) -> str:
        """How; empty while it runs."""
        code = self.process.poll()
        if code is None:
            return ""
        if code >= 0:
            return f"ended with code {code}"
        with suppress(ValueError):  # of the real-time ones
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
        return f"was killed by signal {-code}"

    @property
    def shown(self) -> str:
        """What people call it."""
        return self.name if self.kind == "agent" else f"the {self.name}"


@dataclass(frozen=True, slots=True)
class Way:
    """How the coordinator is reached by agents and people, as the settings say."""

    host: str
    encrypted: bool
    roots: Path | None

    @classmethod
    def of(cls, home: FabricHome) -> Way:
        """From the settings; `ConfigError` when those of TLS are wrong or of one side only."""
        from fabric.coordinator.config import CoordinatorConfig
        from fabric.security.tls import read_pair

        first = load(CoordinatorConfig, "coordinator", home=home.root)
        agent = load(AgentConfig, "agent", home=home.root)
        named = {"coordinator": first.tls_certificate, "agent": agent.tls_certificate}
        if None in named.values() and any(named.values()):
            lacks = next(name for name, certificate in named.items() if certificate is None)
            raise ConfigError(
                f"TLS is for all of a fabric: {lacks}.tls_certificate and {lacks}.tls_key are not "
                f"set; set FABRIC_{lacks.upper()}_TLS_CERTIFICATE and "
                f"FABRIC_{lacks.upper()}_TLS_KEY, or leave TLS out"
            )
        for config in (first, agent):
            if config.tls_certificate and config.tls_key:
                read_pair(config.tls_certificate, config.tls_key)
        host = first.advertise or {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(first.host, first.host)
        trusted = agent.tls_roots or first.tls_roots
        return cls(f"[{host}]" if ":" in host else host, first.scheme != "", trusted)


class LocalProcesses:
    """The coordinator and the agents of one fabric on this machine; `stop` leaves none behind."""

    def __init__(
        self,
        home: FabricHome,
        port: int,
        log: Path | None = None,
        *,
        rest_port: str | None = "off",
        metrics_port: str | None = "off",
    ) -> None:
        """`log` takes what the processes print, which else goes to this process's stderr."""
        self.home, self.port, self._log = home, port, log
        self._rest, self._metrics = rest_port or "off", metrics_port or "off"
        self.way = Way.of(home)
        wanted = {"--port": str(port), "--rest-port": self._rest, "--metrics-port": self._metrics}
        for option, number in wanted.items():
            if number.isdigit() and int(number) and not port_is_free("127.0.0.1", int(number)):
                raise ConfigError(
                    f"port {number} is taken, maybe by another fabric; stop it, or use: "
                    f"fabric up {option} {int(number) + 1}"
                )
        self._running: list[_Child] = []
        self._had_metadata = False

    @property
    def address(self) -> str:
        """The coordinator's, for processes."""
        return f"{TLS if self.way.encrypted else ''}{self.way.host}:{self.port}"

    @property
    def url(self) -> str:
        """The coordinator's, for people."""
        return f"fabric{'+tls' if self.way.encrypted else ''}://{self.way.host}:{self.port}"

    def start(self, n_agents: int, stop: threading.Event | None = None) -> None:
        """Start all and wait until every agent is attached (or `stop` is set)."""
        halted = stop or threading.Event()
        common = ["--home", str(self.home.root)]
        ports = ["--port", str(self.port), "--rest-port", self._rest]
        self._spawn("coordinator", [*common, *ports, *self._metrics_at(0)])
        self._until(lambda: self._answers() is not None, "the coordinator does not answer", halted)
        self._had_metadata = (self._metadata / "CURRENT").exists()  # or it is in a database
        for number in range(n_agents):
            self._spawn_agent(number)
        attached = f"not all of {n_agents} agents attached"
        self._until(lambda: len(self._answers() or ()) >= n_agents, attached, halted)

    def add_agent(self) -> str:
        """Start one more and wait until it is attached; returns its id."""
        before = {agent.agent_id for agent in self.agents()}
        self._spawn_agent(len(self._agents_here()))

        def new() -> set[str]:
            return {agent.agent_id for agent in self.agents()} - before

        self._until(new, "the new agent did not attach", threading.Event())
        return new().pop()

    def kill_newest(self) -> None:
        """SIGKILL the process that was started last, as a crash would end it."""
        process = self._running.pop().process
        process.kill()
        process.wait()

    def _spawn_agent(self, number: int) -> None:
        common = ["--coordinator", self.address, "--home", str(self.home.root)]
        arguments = [*common, "--name", str(number + 1), *self._metrics_at(number + 1)]
        self._spawn("agent", arguments, f"agent {number + 1}")

    def _metrics_at(self, n_before: int) -> list[str]:
        """The option for the process that `n_before` others were started before."""
        first = self._metrics
        port = str(int(first) + n_before) if first.isdigit() and int(first) else first
        return ["--metrics-port", port]

    @property
    def _where(self) -> str:
        return f"in {self._log}" if self._log else "above"

    def pages(self) -> list[str]:
        """Lines that say where people and Prometheus look; of a port 0 its process says it."""
        found, http = [], f"http{'s' if self.way.encrypted else ''}://{self.way.host}"
        if self._rest.isdigit() and int(self._rest):
            found.append(f"  pages   {http}:{self._rest} (REST: /docs)")
        if self._metrics.isdigit() and int(self._metrics):
            last = int(self._metrics) + len(self._running) - 1
            found.append(f"  metrics {http}:{self._metrics}/metrics to port {last}")
        return found

    def agents(self) -> list[pb.AgentStatus]:
        """The agents that are attached now."""
        return self._answers() or []

    def check(self) -> None:
        """`PeerLostError` when one of the processes has ended."""
        for child in self._running:
            if how := child.ended():
                raise PeerLostError(f"{child.shown} {how}; what it said is {self._where}")

    def mend(self, now_s: float) -> list[str]:
        """Start again what died, each after a pause; returns what people should know.

        Raises
        ------
        PeerLostError
            The coordinator has ended for good, or the last agent.
        """
        coordinator, agents = self._running[0], self._agents_here()
        said = [line for child in self._running for line in self._mend(child, now_s)]
        if coordinator.is_over:
            raise PeerLostError("\n".join(said))
        if all(agent.is_over for agent in agents):
            why = "".join(f"{line}\n" for line in said)
            raise PeerLostError(f"{why}no agent is left; what they said is {self._where}")
        return said

    def _mend(self, child: _Child, now_s: float) -> list[str]:
        if child.due is not None:
            if now_s < child.due:
                return []
            child.due, child.process = None, self._launched(child.kind, child.arguments)
            return [f"{child.shown} is started again"]
        how = "" if child.is_over else child.ended()
        if not how:
            return []
        lately = tuple(at for at in child.died if now_s - at < AGAIN_WITHIN_S)
        child.died = (*lately, now_s)
        if child.process.poll() == 0:
            child.is_over = True
            return [f"{child.shown} was stopped, and stays so"]
        if child.kind == "coordinator" and self._has_lost_metadata():
            child.is_over = True
            return [
                f"{child.shown} {how}, and its metadata in {self._metadata} is gone: put it back, "
                f"or start again to begin with none; what it said is {self._where}"
            ]
        if len(lately) >= AGAIN_MAX:
            child.is_over = True
            return [
                f"{child.shown} {how}; it died {len(child.died)} times in "
                f"{AGAIN_WITHIN_S / 60:.0f} minutes and is not started again; what it said is "
                f"{self._where}"
            ]
        pause_s = AGAIN_S * 2 ** len(lately)
        child.due = now_s + pause_s
        return [f"{child.shown} {how}; it is started again in {pause_s:.0f} s"]

    @property
    def _metadata(self) -> Path:
        return self.home.root / "coordinator"

    def _has_lost_metadata(self) -> bool:
        """Whether a coordinator would begin with nothing where there was something."""
        return self._had_metadata and not (self._metadata / "CURRENT").exists()

    def _agents_here(self) -> list[_Child]:
        return [child for child in self._running if child.kind == "agent"]

    def stop(self) -> None:
        """Ask agents, then the coordinator, to end; what has not after 10 s is killed."""
        for child in reversed(self._agents_here()):
            if child.process.poll() is None:
                child.process.terminate()
        for child in reversed(self._running):  # the coordinator is the first that was started
            process = child.process
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def _spawn(self, kind: str, arguments: Sequence[str], name: str = "") -> None:
        process = self._launched(kind, arguments)
        self._running.append(_Child(kind, name or kind, arguments, process))

    def command(self, kind: str, arguments: Sequence[str]) -> list[str]:
        """What is run as a process."""
        base = [sys.executable, "-m", "fabric.clients.cli", kind, "--parent", str(os.getpid())]
        return [*base, *arguments]

    def _launched(self, kind: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        with ExitStack() as stack:
            out = stack.enter_context(self._log.open("ab")) if self._log else None
            return subprocess.Popen(
                self.command(kind, arguments),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,  # Ctrl-C is ours; we stop them in order
            )

    def _until(self, reached: Any, otherwise: str, halted: threading.Event) -> None:
        end_s = time.monotonic() + START_S
        while not halted.is_set() and not reached():
            self.check()
            if time.monotonic() > end_s:
                raise ExternalError(
                    f"{otherwise} after {START_S:.0f} s; what they said is {self._where}"
                )
            halted.wait(_POLL_S)

    def _answers(self) -> list[pb.AgentStatus] | None:
        """The agents that are attached, or None while the coordinator does not answer."""
        from fabric.clients.session.address import read_roots, token_of
        from fabric.control import control_pb2 as pb
        from fabric.control.client import GrpcControl
        from fabric.security.tls import TlsError

        if not self.home.token.exists():
            return None
        roots = read_roots(self.way.roots) if self.way.encrypted else None
        control = GrpcControl(self.address, token_of(self.home), tls_roots=roots)
        try:
            known = control.list_agents(pb.ListRequest()).agents
            return [agent for agent in known if agent.state != "starting"]  # as of an earlier run
        except TlsError:  # it is there, and will not be another one
            raise
        except PeerLostError:
            return None
        finally:
            control.close()


def welcome(local: LocalProcesses) -> str:
    """What a person needs to go on."""
    agents, home, roots = local.agents(), local.home, local.way.roots
    token = "" if home == FabricHome() else f', token=open("{home.token}").read().strip()'
    trusts = f', tls_roots="{roots}"' if local.way.encrypted and roots else ""
    return "\n".join(
        (
            f"{local.url} is up with {len(agents)} agents",
            f"  token   {home.token}",
            *local.pages(),
            *(f"  agent   {agent.agent_id} at {agent.address}" for agent in agents),
            "",
            "  import fabric",
            f'  session = fabric.connect("{local.url}"{token}{trusts})',
            '  fabric.read_csv("flights.csv").group_by("carrier").count().show()',
            "",
            "Ctrl-C stops everything",
        )
    )
