"""All parts of an agent process, put together.

One job: `AgentProcess`: folder, Flight server, control client, runtime, and the loop that keeps the
link to the coordinator up: after a loss it tries again, ever more slowly, until one is there.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from contextlib import AbstractContextManager, ExitStack, closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from fabric._cython.shuffle.store.budget import Budget
from fabric._cython.shuffle.store.store import Store
from fabric.agent.engine import Engine, Services
from fabric.agent.kept_states import serve_states
from fabric.agent.process.folders import AgentFolder, SpillFolders
from fabric.agent.process.memory import (
    GiveBackTimes,
    MemorySplit,
    give_back,
    give_back_free,
    give_back_heap,
    machine_bytes,
)
from fabric.agent.process.watchdog import Came, Watchdog, engine_runtime, thread_runtime
from fabric.agent.runtime import AgentRuntime
from fabric.agent.slot.pool import SlotLimits, SlotPool
from fabric.checkpoint.local_copies import LocalCopies
from fabric.clock import SystemClock
from fabric.config import TLS, AgentConfig, CheckpointConfig, FabricHome
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.control.grpc_link import GrpcLink
from fabric.errors import ConfigError, ExternalError, FabricError, StorageError
from fabric.flight.backend import Backend
from fabric.flight.inprocess import InProcessTransport
from fabric.flight.locations import LocationTable
from fabric.flight.remote import FlightTransport
from fabric.flight.server import FabricFlightServer
from fabric.flight.sockets import Neighbours, host_id, new_socket, remove_socket
from fabric.io import places
from fabric.io.dataset.access import DatasetAccess, DatasetFiles
from fabric.io.read_threads import be_patient
from fabric.plan_rules import PlanRules
from fabric.security.secret import load_or_create
from fabric.security.tls import read_pair, read_pem
from fabric.security.tokens import Signer
from fabric.settings import load
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from fabric.operators.fragment.session import FragmentMemory

_log = logger("fabric.agent")

RETRY_S, RETRY_S_MAX = 0.1, 1.0
"""The first pause before the coordinator is tried again, and the longest."""
TICK_S = 0.25
"""How often the main thread looks around."""
SWEEP_EVERY_S = 60.0
"""How often dataset files that nobody published are looked for."""
TOKEN_S = 365 * 86_400.0
"""The agent's own token never leaves its memory but to the coordinator."""


class AgentProcess:
    """All parts of one agent process, built at once; they end with `stack`."""

    def __init__(self, config: AgentConfig, stack: ExitStack) -> None:
        self._config = config
        self._attached = threading.Event()
        self._n_turns = 0
        self._pause_s = RETRY_S
        self._clock = SystemClock()
        self._swept = self._clock.monotonic_s()
        self._giving = GiveBackTimes(config.give_back_s, self._swept)
        folder = stack.enter_context(AgentFolder(config.files))
        self.agent_id, self._folder = folder.agent_id, folder.path
        self._signer = Signer(load_or_create(FabricHome(config.home).create().secret))
        self._token = self._signer.token("agent", self.agent_id, TOKEN_S, self._clock.wall_s())
        self._slots = config.slots
        self._split = MemorySplit.of(config.memory, self._slots)
        self._spill = stack.enter_context(
            SpillFolders(config.spills_to, self.agent_id, sweep_s=config.sweep_s, clock=self._clock)
        )
        self._copies = LocalCopies(folder.path / "snapshots")
        self._datasets = DatasetFiles(folder.path / "datasets", self.agent_id)
        stack.enter_context(places.guarding(self._guarded()))
        self._locations = LocationTable()
        self._build(stack)

    def _build(self, stack: ExitStack) -> None:
        config, local = self._config, InProcessTransport()
        check_same(config)
        budget = Budget(self._split.edges)
        store = Store(self.agent_id, budget, self._spill.paths)
        roots = read_pem(config.tls_roots) if config.tls_roots else None
        trusted = roots if config.coordinator.startswith(TLS) else None
        control = GrpcControl(config.coordinator, self._token, tls_roots=trusted)
        stack.callback(control.close)
        transport = FlightTransport(
            self._signer,
            agent_id=self.agent_id,
            local=local,
            clock=self._clock,
            idle_s=config.idle_s,
            tls_roots=roots,
            budget=budget,
            peer_bytes=config.peer_bytes_max,
            peer_requests=config.peer_requests_max,
        )
        stack.callback(transport.close)
        scratch = _scratch(self._folder, "states")
        self._states = serve_states(control, self._datasets, self.agent_id, scratch)
        backend = Backend(
            agent_id=self.agent_id,
            source=store,
            locations=self._locations,
            datasets=self._datasets,
            control=control,
            transport=transport,
            states=self._states,
        )
        self._server = self._serve(backend)
        stack.callback(self._server.stop, config.drain_s)
        self._socket = self._open_socket(stack)
        self.address = f"{config.scheme}://{config.advertise or config.host}:{self._server.port}"
        local.register(self.address, store, self._datasets)
        limits = SlotLimits(
            batch_s=config.batch_s,
            pool_bytes=self._split.fragment or 0,
            spill_folders=tuple(self._spill.paths) if self._split.fragment else (),
            memory=config.slot_memory or 0,
            environment=config.slot_environment,
        )
        self._slot_processes = SlotPool(limits, self._clock)
        stack.callback(self._slot_processes.close)
        self.runtime = AgentRuntime(
            hello=self._hello(),
            link=GrpcLink(config.coordinator, self._token, tls_roots=trusted),
            services=self._services(store, transport),
            locations=self._locations,
            datasets=self._datasets,
            on_lost=self._lost,
            access=DatasetAccess(
                control=control,
                transport=transport,
                locations=self._locations,
                agent_id=self.agent_id,
                views=self._datasets.views,
            ),
            served=backend.exchanges,
            on_locations=Neighbours(transport, host_id() if config.unix_sockets else "").update,
        )
        if config.metrics_port is not None:
            _log.info("metrics", agent=self.agent_id, url=stack.enter_context(self._metrics()))
        self.runtime.start()
        stack.callback(self._stop)

    def _services(self, store: Store, transport: FlightTransport) -> Services:
        return Services(
            agent_id=self.agent_id,
            store=store,
            transport=transport,
            engine=Engine(self._signer, self._fragment_memory()),
            clock=self._clock,
            slots=self._slot_processes,
            scratch=_scratch(self._folder, "streams"),
            copies=self._copies.folder,
            ring_bytes=self._split.ring if self._config.memory else 0,
        )

    def _guarded(self) -> places.Places:
        """What plans may touch on this machine, by the settings that coordinators read, too."""
        config = self._config
        environ = {**os.environ, "FABRIC_HOME": str(config.home)}
        kept = load(CheckpointConfig, "checkpoint", environ).folder
        own = [
            self._folder,
            *map(Path, self._spill.paths),
            *([Path(kept)] if kept else []),
        ]
        keys = [config.tls_key] if config.tls_key else []
        rules = load(PlanRules, "plans", environ)
        return places.of_fabric(config.home, rules, own=own, secrets=keys)

    def _metrics(self) -> AbstractContextManager[str]:
        from fabric.agent.process.metrics import AgentCollector
        from fabric.telemetry.metrics import metrics_served

        config, runtime = self._config, self.runtime
        return metrics_served(
            AgentCollector(self.agent_id, self._slots, runtime.tally, runtime.beat),
            host=config.host,
            port=config.metrics_port or 0,
            tls_certificate=config.tls_certificate,
            tls_key=config.tls_key,
            token=config.metrics_token,
        )

    def _fragment_memory(self) -> FragmentMemory | None:
        """What DataFusion may have for each fragment."""
        if self._split.fragment is None:
            return None
        from fabric.operators.fragment.session import FragmentMemory

        return FragmentMemory(self._split.fragment, tuple(self._spill.paths))

    def _serve(self, backend: Backend) -> FabricFlightServer:
        config, tls = self._config, None
        if config.tls_certificate and config.tls_key:
            tls = read_pair(config.tls_certificate, config.tls_key)
        return FabricFlightServer(
            backend,
            self._signer,
            f"{config.scheme}://{config.host}:{config.port}",
            clock=self._clock,
            ticket_s=config.ticket_s,
            limits=config,
            version=_version(),
            tls=tls,
            idle_s=config.idle_s,
        )

    def _open_socket(self, stack: ExitStack) -> Path | None:
        """A Unix socket for the agents of this host; without one they use TCP."""
        if not self._config.unix_sockets or self._config.tls_certificate or not host_id():
            return None
        try:
            path = new_socket(self._folder)
            stack.callback(remove_socket, path)
            self._server.listen(path)
        except StorageError as error:
            _log.info("no Unix socket", agent=self.agent_id, error=str(error))
            return None
        return path

    def _hello(self) -> pb.Hello:
        path = self._socket
        return pb.Hello(
            agent_id=self.agent_id,
            address=self.address,
            host=socket.gethostname(),
            slots=self._slots,
            cpus=len(os.sched_getaffinity(0)),
            memory_bytes=self._config.memory or machine_bytes(),
            version=_version(),
            socket=pb.UnixSocket(host_id=host_id(), path=str(path)) if path else None,
        )

    def run(self, halt: threading.Event) -> None:
        """Keep the link up until `halt`, and this process while it turns."""
        be_patient(self._config.stuck_s)
        with closing(self._watchdog()):
            self._keep_up(halt)
        _log.info("agent stops", agent=self.agent_id)

    def _watchdog(self) -> Watchdog:
        def ask_main() -> Came:
            before = self._n_turns
            return lambda: self._n_turns != before

        def ask_agent() -> Came:
            answer = self.runtime.sign()
            return lambda: not answer.empty()

        runtime, here = self.runtime, threading.current_thread()
        watched = [
            thread_runtime("the agent's main thread", here, ask_main),
            thread_runtime("the agent's thread", runtime.thread, ask_agent),
            engine_runtime(lambda: bool(runtime.running_tasks)),
        ]
        return Watchdog(watched, self._config.stuck_s)

    def _keep_up(self, halt: threading.Event) -> None:
        next_s = 0.0
        while not halt.is_set():
            self._n_turns += 1
            if self._attached.is_set():
                self._keep_house()
            elif self._clock.monotonic_s() >= next_s and not self._attach():
                next_s = self._clock.monotonic_s() + self._pause_s
                self._pause_s = min(2 * self._pause_s, RETRY_S_MAX)
            halt.wait(TICK_S if self._attached.is_set() else min(TICK_S, self._pause_s))

    def _attach(self) -> bool:
        """Try once; a coordinator that has never been there may still come, a refusal is final."""
        self._attached.set()
        try:
            self.runtime.attach()
        except ExternalError as error:
            self._attached.clear()
            if self._pause_s == RETRY_S:
                _log.warning("waiting for the coordinator", agent=self.agent_id, error=str(error))
            return False
        except BaseException:
            self._attached.clear()
            raise
        self._pause_s = RETRY_S
        _log.info("agent attached", agent=self.agent_id, address=self.address)
        return True

    def _lost(self, error: FabricError) -> None:
        _log.warning("coordinator lost", agent=self.agent_id, error=str(error))
        self._attached.clear()

    def _keep_house(self) -> None:
        """Give memory back; remove files that nobody published, left or reads any more."""
        now = self._clock.monotonic_s()
        n_events = self.runtime.n_events + self._server.n_changes
        due = self._giving.due(busy=bool(self.runtime.running_tasks), n_events=n_events, now=now)
        if due == "all":
            self._slot_processes.trim()
            give_back()
        elif due == "free":
            give_back_free()
        elif due == "heap":
            give_back_heap()
        if now - self._swept > SWEEP_EVERY_S:
            self._swept = now
            live = {d.name: {p.transaction for p in d.parts} for d in self._locations.datasets()}
            self._datasets.sweep(live, now, self._config.sweep_s)
            self._states.tidy(now)
            self._spill.sweep()
            self._copies.sweep(self._config.sweep_s)

    def _stop(self) -> None:
        """Goodbye first, so that nobody sends more; then open replies; then tasks."""
        self.runtime.detach()
        self._server.stop(self._config.drain_s)
        self.runtime.close()


def check_same(config: AgentConfig) -> None:
    """Refuse to attach by TLS while others would have to reach us without."""
    if config.coordinator.startswith(TLS) and config.tls_certificate is None:
        raise ConfigError(
            f"the coordinator at {config.coordinator} has TLS and this agent has none: others "
            "would reach its rows in the clear; give it tls_certificate and tls_key "
            "(FABRIC_AGENT_TLS_CERTIFICATE, FABRIC_AGENT_TLS_KEY)"
        )


def _version() -> str:
    try:
        return version("flight-fabric")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "unknown"


def _scratch(folder: Path, name: str) -> Path:
    """Where files are kept; what an earlier life left there is of no use."""
    path = folder / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path
