"""What tasks of an agent work with: its services, and what runs the plan of a task.

`Engine` decodes the plan of a stage, whose functions must be signed, runs its fragment or builds
its chain, and opens its readers and its sink. Tests put their own in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fabric._cython.shuffle.store.store import Store
from fabric.agent.attempts import TaskSpec
from fabric.agent.pipes import Exchanges
from fabric.agent.slot.pool import SlotPool
from fabric.agent.stream_tasks.restore import state_of
from fabric.agent.tally import TaskTally
from fabric.clock import Clock, SystemClock
from fabric.errors import InternalError
from fabric.flight.transport import Transport
from fabric.io import places, sinks
from fabric.io.readers import open_reader
from fabric.io.readers.protocol import Share
from fabric.io.readers.reader import StreamReader
from fabric.io.sinks.protocol import SinkStart, SinkWriter
from fabric.lru_cache import LruCache
from fabric.operators.chain import Chain, SplitNames, build_chain
from fabric.operators.contract import Context
from fabric.operators.fragment import FragmentStream, execute_fragment
from fabric.operators.fragment.session import FragmentMemory, Inputs
from fabric.operators.functions.trust import check_functions, functions_of
from fabric.plan.codec import decode
from fabric.plan.nodes import Node, Sink, StreamScan
from fabric.plan.schema import schema_of
from fabric.plan.sources import Split
from fabric.plan.targets import FileTarget, GateTarget
from fabric.security.tokens import Signer

Splits = Mapping[int, Sequence[Split]]
"""What each scan reads."""


class Engine:
    """Runs plans; user functions must be signed by `signer`; each fragment has `memory`."""

    def __init__(self, signer: Signer | None = None, memory: FragmentMemory | None = None) -> None:
        self._signer, self._memory = signer, memory
        self._decoded: LruCache[Node] = LruCache(64)

    def decode(self, fragment: bytes) -> Node:
        """The root of a stage; `AuthError` when a function in it was not signed by this fabric."""
        root = self._decoded.get(fragment)  # all tasks of a stage have the same
        if root is None:
            root = decode(fragment).root
            self._decoded.keep(fragment, root)
        places.check_functions(udf.name for udf in functions_of(root))
        check_functions(root, self._signer)
        return root

    def has_functions(self, root: Node) -> bool:
        """Whether a user's Python functions are in it."""
        return next(functions_of(root), None) is not None

    def execute(
        self, root: Node, inputs: Inputs, splits: Splits, target_partitions: int
    ) -> FragmentStream:
        """Run a fragment."""
        return execute_fragment(
            root, inputs, splits, target_partitions=target_partitions, memory=self._memory
        )

    def chain(
        self, root: Node, context: Context | None = None, splits: SplitNames | None = None
    ) -> Chain:
        """See `fabric.operators.chain.build_chain`."""
        return build_chain(root, context, splits)

    def open_reader(self, scan: StreamScan, share: Share) -> StreamReader:
        """A reader of a stream, to be given splits; those it finds itself are of `share`."""
        return open_reader(scan.source, schema_of(scan), full=scan.schema, share=share)

    def open_sink(self, root: Sink, spec: TaskSpec, scratch: Path | None = None) -> SinkWriter:
        """Open one task's writer of a sink; a view, which has state, has files in `scratch`."""
        target, schema, deploy = root.target, schema_of(root.input), spec.deploy
        if not deploy.HasField("stream"):
            start = SinkStart(deploy.run, deploy.sink_folder)
            return sinks.open_sink(target, schema, spec.id, deploy.n_tasks, start)
        if isinstance(target, FileTarget | GateTarget):
            raise InternalError(f"a stream was planned to write a {type(target).__name__}")
        stream = deploy.stream
        state, _ = state_of(stream.states[root.path])
        start = SinkStart(stream.turn, stream.folder, scratch, state)
        task = replace(spec.id, job=stream.state)
        return sinks.open_stream_sink(target, schema, task, spec.n_tasks, start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every task of one agent works with."""

    agent_id: str
    store: Store
    transport: Transport
    engine: Engine
    clock: Clock = field(default_factory=SystemClock)
    slots: SlotPool | None = None
    """Processes for tasks with Python functions; None: such tasks are threads as all others."""
    scratch: Path | None = None
    """Where tasks of streams keep files; None: where the system has its temporary ones."""
    copies: Path | None = None
    """Where files of snapshots stay that are stored in an object store; None: nowhere."""
    ring_bytes: int = 0
    """What the rings of one pipelined edge may hold together; 0: as much as rings like."""
    tally: TaskTally = field(default_factory=TaskTally)
    exchanges: Exchanges = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "exchanges", Exchanges(self.agent_id, self.transport))
