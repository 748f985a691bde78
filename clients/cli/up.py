"""``fabric up``: a coordinator and agents on this machine, as processes of their own.

One job: start them, say how to reach them, and stop all of them cleanly on Ctrl-C, SIGTERM, or when
one of them ends by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from fabric.clients.cli.options import Home, MetricsPort, RestPort, home_of
from fabric.clients.cli.ports import port_is_free
from fabric.clients.cli.stopping import POLL_S, stop_asked
from fabric.config import FabricHome
from fabric.control import control_pb2 as pb
from fabric.errors import ConfigError, ExternalError, PeerLostError

START_S = 30.0
STOP_S = 10.0
_POLL_S = 0.05


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

    Metrics are at --metrics-port and, of the agents, at the ports after it.
    """
    folder = home_of(home)
    local = LocalProcesses(folder, port, rest_port=rest_port, metrics_port=metrics_port)
    with stop_asked() as stop:
        try:
            local.start(agents, stop)
            if not stop.is_set():
                typer.echo(welcome(port, folder, local.agents(), local.pages()))
            while not stop.wait(POLL_S):
                local.check()
        finally:
            local.stop()
    typer.echo("stopped")


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
        wanted = {"--port": str(port), "--rest-port": self._rest, "--metrics-port": self._metrics}
        for option, number in wanted.items():
            if number.isdigit() and int(number) and not port_is_free("127.0.0.1", int(number)):
                raise ConfigError(
                    f"port {number} is taken, maybe by another fabric; stop it, or use: "
                    f"fabric up {option} {int(number) + 1}"
                )
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    @property
    def address(self) -> str:
        """The coordinator's, as ``host:port``."""
        return f"127.0.0.1:{self.port}"

    def start(self, n_agents: int, stop: threading.Event | None = None) -> None:
        """Start all and wait until every agent is attached (or `stop` is set)."""
        halted = stop or threading.Event()
        common = ["--home", str(self.home.root)]
        ports = ["--port", str(self.port), "--rest-port", self._rest]
        self._spawn("coordinator", [*common, *ports, *self._metrics_at(0)])
        self._until(lambda: self._answers() is not None, "the coordinator does not answer", halted)
        for number in range(n_agents):
            self._spawn_agent(number)
        attached = f"not all of {n_agents} agents attached"
        self._until(lambda: len(self._answers() or ()) >= n_agents, attached, halted)

    def add_agent(self) -> str:
        """Start one more and wait until it is attached; returns its id."""
        before = {agent.agent_id for agent in self.agents()}
        self._spawn_agent(sum(name != "coordinator" for name, _ in self._running))

        def new() -> set[str]:
            return {agent.agent_id for agent in self.agents()} - before

        self._until(new, "the new agent did not attach", threading.Event())
        return new().pop()

    def kill_newest(self) -> None:
        """SIGKILL the process that was started last, as a crash would end it."""
        _, process = self._running.pop()
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
        found = []
        if self._rest.isdigit() and int(self._rest):
            found.append(f"  pages   http://127.0.0.1:{self._rest} (REST: /docs)")
        if self._metrics.isdigit() and int(self._metrics):
            last = int(self._metrics) + len(self._running) - 1
            found.append(f"  metrics http://127.0.0.1:{self._metrics}/metrics to port {last}")
        return found

    def agents(self) -> list[pb.AgentStatus]:
        """The agents that are attached now."""
        return self._answers() or []

    def check(self) -> None:
        """`PeerLostError` when one of the processes has ended."""
        for name, process in self._running:
            if (code := process.poll()) is not None:
                how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
                raise PeerLostError(f"the {name} {how}; what it said is {self._where}")

    def stop(self) -> None:
        """Ask agents, then the coordinator, to end; what has not after 10 s is killed."""
        for name, process in reversed(self._running):
            if process.poll() is None and name != "coordinator":
                process.terminate()
        for _, process in reversed(self._running):  # the coordinator is the first that was started
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def _spawn(self, kind: str, arguments: Sequence[str], name: str = "") -> None:
        base = [sys.executable, "-m", "fabric.clients.cli", kind, "--parent", str(os.getpid())]
        with ExitStack() as stack:
            out = stack.enter_context(self._log.open("ab")) if self._log else None
            process = subprocess.Popen(
                [*base, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,  # Ctrl-C is ours; we stop them in order
            )
        self._running.append((name or kind, process))

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
        from fabric.clients.session.connect import token_of
        from fabric.control.client import GrpcControl

        if not self.home.token.exists():
            return None
        control = GrpcControl(self.address, token_of(self.home))
        try:
            known = control.list_agents(pb.ListRequest()).agents
            return [agent for agent in known if agent.state != "starting"]  # as of an earlier run
        except PeerLostError:
            return None
        finally:
            control.close()


def welcome(
    port: int, home: FabricHome, agents: Sequence[pb.AgentStatus], pages: Sequence[str] = ()
) -> str:
    """What a person needs to go on."""
    address, token_file = f"fabric://127.0.0.1:{port}", home.token
    usual = home == FabricHome()
    token = "" if usual else f', token=open("{token_file}").read().strip()'
    return "\n".join(
        (
            f"{address} is up with {len(agents)} agents",
            f"  token   {token_file}",
            *pages,
            *(f"  agent   {agent.agent_id} at {agent.address}" for agent in agents),
            "",
            "  import fabric",
            f'  session = fabric.connect("{address}"{token})',
            '  fabric.read_csv("flights.csv").group_by("carrier").count().show()',
            "",
            "Ctrl-C stops everything",
        )
    )
