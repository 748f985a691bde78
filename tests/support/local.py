"""Real coordinator and agent processes on this machine, for tests.

One job: `local_fabric`: start them by the command line on free loopback ports in a temporary
folder, wait until every agent is attached, stop them all. They end even when the thread that
started them is killed. What they print goes to files in the folder, and into the message when one
does not start.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyarrow as pa

from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.errors import ExternalError, PeerLostError
from fabric.flight.remote import FlightTransport
from fabric.plan.nodes import Node, NodeConfig
from fabric.security.secret import load
from fabric.security.tokens import Signer
from tests.support import forked, running
from tests.support.forked import Forked
from tests.support.held import held

START_S = 60.0
STOP_S = 60.0
POLL_S = 0.02
HERE = ("active", "busy", "draining")
"""States of agents that are attached."""
SETTINGS = {
    "FABRIC_COORDINATOR_HEARTBEAT_S": "1",
    "FABRIC_COORDINATOR_TIMEOUT_S": "30",
    "FABRIC_COORDINATOR_OWNER_WAIT_S": "1",
    "FABRIC_COORDINATOR_REST_PORT": "off",
}
"""Of every process, unless a test says otherwise. Agents outlast a machine that stands still for
seconds; one that is killed is lost at once all the same, as its link breaks."""
SOON = {"FABRIC_COORDINATOR_HEARTBEAT_S": "0.5", "FABRIC_COORDINATOR_TIMEOUT_S": "10"}
"""For tests of silent agents: lost as soon as may be on a machine that stands still for seconds."""

ALLOCATORS = {"FABRIC_AGENT_MEMORY", "FABRIC_AGENT_GIVE_BACK_S"}
"""Settings that an agent's allocators follow from its first import on."""


@dataclass(slots=True)
class Child:
    """One process of a fabric."""

    name: str
    process: subprocess.Popen[bytes] | Forked
    log: Path

    def said(self, prefix: str) -> str | None:
        """The rest of the line it printed that begins so."""
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith(prefix):
                return line.removeprefix(prefix).strip()
        return None

    def check(self) -> None:
        """`ExternalError` with what it printed when it has ended."""
        if (code := self.process.poll()) is not None:
            text = self.log.read_text(errors="replace")[-2000:]
            raise ExternalError(f"the {self.name} ended with code {code} and said: {text}")


@dataclass(slots=True)
class LocalFabric:
    """A running fabric; `address` is the coordinator's ``host:port``."""

    home: Path
    slots: int
    options: tuple[str, ...] = ()
    """Of every agent's command line."""
    environ: dict[str, str] = field(default_factory=dict)
    """Of every process, beside the test's own."""
    faults: dict[str, str] = field(default_factory=dict)
    """Failpoints (`fabric.failpoints`) by process, as "agent 1" or "coordinator", of its next start
    only."""
    address: str = ""
    coordinator: Child | None = None
    agents: list[Child] = field(default_factory=list)
    tls_roots: bytes | None = None
    _wakers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    control: GrpcControl = field(init=False)
    transport: FlightTransport = field(init=False)

    @property
    def token(self) -> str:
        """A token of scope submit."""
        return (self.home / "token").read_text(encoding="ascii").strip()

    @property
    def signer(self) -> Signer:
        """Signs with the fabric's secret."""
        return Signer(load(self.home / "secret"))

    def attached(self) -> list[pb.AgentStatus]:
        """The agents the coordinator knows now."""
        return list(self.control.list_agents(pb.ListRequest()).agents)

    def agent_id(self, i: int) -> str:
        """The id that agent `i` keeps in its folder."""
        return (self.agents[i].log.parent / "agent-id").read_text(encoding="ascii").strip()

    def place(self, name: str) -> list[str]:
        """What the command of a process begins with; `NetnsFabric` says where it runs."""
        return []

    def listens(self, name: str) -> list[str]:
        """Options that say where a process listens."""
        return []

    def submit(
        self, root: Node, *, parallelism: int = 0, config: dict[str, NodeConfig] | None = None
    ) -> str:
        """Start a plan; returns the job's id."""
        return running.submit(self.control, root, parallelism, config)

    def wait(self, job_id: str) -> pb.JobStatus:
        """The status in which a job ended; its error is raised."""
        return running.wait(self.control, job_id)

    def collect(
        self, root: Node, *, parallelism: int = 0, config: dict[str, NodeConfig] | None = None
    ) -> pa.Table:
        """Run a plan, take its rows, release the job."""
        job_id = self.submit(root, parallelism=parallelism, config=config)
        try:
            self.wait(job_id)
            return running.result(self.control, self.transport, job_id)
        finally:
            self.control.release(pb.JobRequest(job_id=job_id))

    def kill(self, i: int) -> None:
        """SIGKILL agent `i` and wait for its end."""
        self.agents[i].process.kill()
        self.agents[i].process.wait()

    def terminate(self, i: int) -> int:
        """Ask agent `i` to stop (SIGTERM); returns its exit code."""
        self.agents[i].process.terminate()
        return self.agents[i].process.wait(STOP_S)

    def pause(self, i: int) -> None:
        """SIGSTOP agent `i`: it is there and says nothing."""
        self._wake_later(self.agents[i].process.pid)
        self.agents[i].process.send_signal(signal.SIGSTOP)

    def resume(self, i: int) -> None:
        """SIGCONT agent `i`."""
        self.agents[i].process.send_signal(signal.SIGCONT)

    def restart(self, i: int) -> None:
        """Start agent `i`, which has died, anew in its folder, and wait until it is attached."""
        self.agents[i].process.wait(STOP_S)
        self.agents[i] = self.start_agent(i)
        self.wait_attached()

    def start(self, n_agents: int) -> None:
        """Start everything; called once."""
        self.start_coordinator()
        self.transport = FlightTransport(self.signer, agent_id="test", tls_roots=self.tls_roots)
        self.agents = [self.start_agent(i) for i in range(n_agents)]
        self.wait_attached()

    def start_coordinator(self) -> None:
        """Start the coordinator, on the same port when there was one before."""
        started, prefix = self.spawn_coordinator(), "coordinator listening on "
        said = "the coordinator did not start"
        self._until(lambda: started.said(prefix), said, [started])  # agents may be dead by intent
        self.address = started.said(prefix) or ""
        self.control = GrpcControl(self.address, self.token, tls_roots=self.tls_roots)

    def spawn_coordinator(self) -> Child:
        """The same, without waiting until it listens."""
        port = self.address.rpartition(":")[2] or "0"
        arguments = ["coordinator", "--home", str(self.home), "--port", port]
        arguments += self.listens("coordinator")
        self.coordinator = self._spawn("coordinator", arguments, self.home)
        return self.coordinator

    def kill_coordinator(self) -> None:
        """SIGKILL the coordinator and wait for its end."""
        if self.coordinator is not None:
            self.control.close()
            self.coordinator.process.kill()
            self.coordinator.process.wait()
            self.coordinator = None

    def stop_coordinator(self) -> None:
        """Ask the coordinator to end (SIGTERM) and wait for that."""
        if self.coordinator is not None:
            self.control.close()
            self.coordinator.process.terminate()
            assert self.coordinator.process.wait(STOP_S) == 0
            self.coordinator = None

    def wait_attached(self) -> None:
        """Wait until every agent is attached."""
        all_here = [*self.agents, *([self.coordinator] if self.coordinator else [])]
        self._until(self._all_attached, "not all agents attached", all_here)

    def stop(self) -> None:
        """End every process; agents first, so that none looks for a coordinator."""
        for name in ("control", "transport"):
            if hasattr(self, name):
                getattr(self, name).close()
        for group in (self.agents, [self.coordinator] if self.coordinator else []):
            for child in group:
                child.process.terminate()
                child.process.send_signal(signal.SIGCONT)
            for child in group:
                try:
                    child.process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    child.process.kill()
                    child.process.wait()
        for waker in self._wakers:
            waker.communicate()

    def held(self) -> AbstractContextManager[None]:
        """Hold the last rows of generators back in all agents, see `tests.support.held`."""
        assert all(isinstance(agent.process, Forked) for agent in self.agents)
        return held(self.home / "held")

    def start_agent(self, i: int) -> Child:
        """Start an agent in folder `i`, without waiting until it is attached."""
        folder = self.home / "agents" / str(i)
        arguments = [
            "agent", "--home", str(self.home), "--name", str(i), "--slots", str(self.slots),
            "--coordinator", self.address, *self.listens(f"agent {i}"), *self.options,
        ]  # fmt: skip
        return self._spawn(f"agent {i}", arguments, folder)

    def _all_attached(self) -> bool:
        wanted = len(self.agents)
        ids = {agent.agent_id for agent in self.attached() if agent.state in HERE}
        ready = [c for c in self.agents if (c.log.parent / "agent-id").exists()]
        return len(ready) == wanted and all(self.agent_id(i) in ids for i in range(wanted))

    def _spawn(self, name: str, arguments: list[str], folder: Path) -> Child:
        folder.mkdir(parents=True, exist_ok=True)
        held = {forked.HELD: str(self.home / "held")}
        log, environ = folder / "log", {**held, **self.environ}
        if point := self.faults.pop(name, ""):
            environ |= {"FABRIC_TESTING": "1", "FABRIC_FAILPOINT": point}
        log.unlink(missing_ok=True)  # what a slot of its predecessor still says goes elsewhere
        with log.open("wb") as out:
            process = _started(self.place(name), arguments, out, environ)
        if point.endswith(":stop"):
            self._wake_later(process.pid)
        return Child(name, process, log)

    def _wake_later(self, pid: int) -> None:
        """Continue a stopped process should this one be killed: only so can it end, too."""
        command = ["sh", "-c", 'read -r _; kill -CONT "$0" 2>/dev/null', str(pid)]
        self._wakers.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        )

    def _until(
        self, reached: Callable[[], object], otherwise: str, children: Sequence[Child]
    ) -> None:
        clock = SystemClock()
        deadline = clock.monotonic_s() + START_S
        while not reached():
            for child in children:
                child.check()
            if clock.monotonic_s() > deadline:
                raise PeerLostError(f"{otherwise} within {START_S:.0f} s")
            time.sleep(POLL_S)


@contextmanager
def local_fabric(
    n_agents: int = 2,
    *,
    slots: int = 2,
    options: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    faults: Mapping[str, str] | None = None,
) -> Iterator[LocalFabric]:
    """A coordinator and `n_agents` agent processes with `slots` slots each; none outlives it.

    `options` go to the command line of each agent; see `LocalFabric` for `environ` and `faults`.
    """
    with tempfile.TemporaryDirectory(prefix="fabric-test-") as folder:
        fabric = LocalFabric(
            Path(folder), slots, tuple(options), dict(environ or {}), dict(faults or {})
        )
        try:
            fabric.start(n_agents)
            yield fabric
        finally:
            fabric.stop()


def _started(
    place: list[str], arguments: list[str], out: IO[bytes], environ: Mapping[str, str]
) -> subprocess.Popen[bytes] | Forked:
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", **SETTINGS, **environ}
    if not place and "--memory" not in arguments and not ALLOCATORS & environ.keys():
        return forked.start(arguments, out, environ)
    command = [*place, sys.executable, "-m", "fabric.clients.cli", *arguments]
    return subprocess.Popen(
        [*command, "--parent", str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=environ,
    )
