"""Stages and edges while they are still being made.

The planner adds exchanges to a `Draft`; each distinct producer object becomes one stage, however
many edges leave it. `finish.py` makes the `StageGraph` of it. A `Flow` is the rows of a stage that
is still growing: the node that computes them, in how many tasks, and by which keys they are
partitioned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from fabric.coordinator.planner.stages import RESULT, Edge, EdgeKind
from fabric.errors import PlanError
from fabric.plan.nodes import Compression, ExchangeMode, Node, NodeConfig, StageInput, StreamScan
from fabric.plan.schema import schema_of, sides_at
from fabric.plan.walk import walk

MAX_PARALLELISM = 128
TASKS_MAX = 100_000
"""Of one job: each is a record of the coordinator's, in memory and on its disk."""
UNREAD = -2
"""The consumer of an edge until all stages are known."""
_MEASURED: tuple[EdgeKind, ...] = ("hash", "range")
"""Edges whose partitions are as large as the rows make them."""


@dataclass(slots=True)
class DraftStage:
    """One stage: its root and its number of tasks."""

    root: Node
    n_tasks: int
    flexible: bool


class Draft:
    """Stages by number in order of creation, edges by id."""

    def __init__(self, config: dict[str, NodeConfig]) -> None:
        self._config = config
        self.stages: list[DraftStage] = []
        self.edges: list[Edge] = []
        self.modes: dict[int, ExchangeMode] = {}
        """What mode is wanted of each edge; `finish.py` says which it has."""
        self._endless: set[int] = set()
        self._by_root: dict[int, int] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._n_tasks = 0
        self._paths: set[str] = set()
        self._replaced: list[Node] = []  # alive, so that no new node gets the id of an old one

    def stage(self, root: Node, n_tasks: int, *, flexible: bool) -> int:
        """The stage that ends in `root`, made when it is new."""
        number = self._by_root.get(id(root))
        if number is None:
            number = self._by_root[id(root)] = len(self.stages)
            self._n_tasks += n_tasks
            if self._n_tasks > TASKS_MAX:
                raise PlanError(
                    f"the plan needs more than {TASKS_MAX} tasks; submit it in several jobs, or "
                    "with a smaller parallelism",
                    node=root.path,
                )
            self.stages.append(DraftStage(root, n_tasks, flexible))
        stage = self.stages[number]
        stage.n_tasks = max(stage.n_tasks, n_tasks)  # only a flexible one is asked for twice
        return number

    def known(self, flow: Flow) -> Flow:
        """The same flow; the keys that its rows are partitioned by are those of forward edges."""
        self._keys[flow.node.path] = tuple(name for name, _ in flow.keys or ())
        return flow

    def set_root(self, number: int, root: Node) -> None:
        """Replace what a stage computes; the old root is still found as its producer."""
        self._replaced.append(self.stages[number].root)
        self.stages[number].root = root
        self._by_root[id(root)] = number

    def edge(
        self,
        producer: int,
        *,
        path: str,
        kind: EdgeKind,
        n_partitions: int,
        keys: tuple[str, ...] = (),
        mode: ExchangeMode = "auto",
        buffer_batches: int = 0,
        compression: Compression = "none",
        settings: str = "",
        is_result: bool = False,
        fixed: bool = False,
        side: str = "",
    ) -> StageInput:
        """Add an edge out of a stage; returns what stands for its rows in the consumer.

        The partitions of a `fixed` one, or of one with a configured parallelism, stay as they are.
        Out of a stream each is pipelined, and a forward one has the keys by which its rows are
        partitioned, so that rows in flight over it can be dealt out to other tasks. `side` is the
        tag of a side output of the stage's root.
        """
        check_parallelism(n_partitions, settings or path)
        configured = self._config.get(settings or path, NodeConfig())
        endless = not is_result and self.is_endless(self.stages[producer].root)
        if endless and configured.exchange == "materialised":
            raise PlanError(
                "a stream never ends, so its rows can't be materialised; leave "
                'exchange="materialised" out of configure',
                node=settings or path,
            )
        if endless and kind == "forward" and not side:
            keys = self._keys.get(self.stages[producer].root.path, ())
        edge = Edge(
            edge=len(self.edges),
            path=self._unique(path),
            producer=producer,
            consumer=RESULT if is_result else UNREAD,
            kind=kind,
            mode="materialised",
            n_partitions=n_partitions,
            keys=keys,
            buffer_batches=configured.buffer_batches or buffer_batches,
            compression=configured.compression or compression,
            schema=_put_out(self.stages[producer].root, side),
            side=side,
            adaptive=kind in _MEASURED and not fixed and configured.parallelism is None,
        )
        wanted: ExchangeMode = "pipelined" if endless else configured.exchange or mode
        return self._add(edge, wanted, endless=endless)

    def again(self, number: int) -> StageInput:
        """What stands for the rows of an edge in one more consumer, over an edge of its own."""
        edge = replace(
            self.edges[number], edge=len(self.edges), path=self._unique(self.edges[number].path)
        )
        return self._add(edge, self.modes[number], endless=number in self._endless)

    def _add(self, edge: Edge, mode: ExchangeMode, *, endless: bool) -> StageInput:
        self.edges.append(edge)
        self.modes[edge.edge] = mode
        if endless:
            self._endless.add(edge.edge)
        return StageInput(edge.edge, edge.schema, path=edge.path)

    def is_endless(self, root: Node) -> bool:
        """Whether a stage with this root reads a stream, itself or over an edge."""
        return any(
            isinstance(node, StreamScan)
            or (isinstance(node, StageInput) and node.edge in self._endless)
            for node in walk(root)
        )

    def _unique(self, path: str) -> str:
        candidate, number = path, 1
        while candidate in self._paths:
            number += 1
            candidate = f"{path}_{number}"
        self._paths.add(candidate)
        return candidate


def _put_out(root: Node, side: str) -> pa.Schema:
    """The rows that leave a stage by its root, or aside from there."""
    if not side:
        return schema_of(root)
    return sides_at(root)[side]


def check_parallelism(n_tasks: int, path: str) -> int:
    """`n_tasks` if it is allowed."""
    if not 1 <= n_tasks <= MAX_PARALLELISM:
        raise PlanError(f"parallelism must be 1 to {MAX_PARALLELISM}, got {n_tasks}", node=path)
    return n_tasks


HashKeys = tuple[tuple[str, pa.DataType], ...]
"""Columns that rows are hash-partitioned by, and the type each was hashed as."""


@dataclass(frozen=True, slots=True)
class Request:
    """An exchange that waits for its consumer, because only that knows how many tasks it has."""

    path: str
    mode: ExchangeMode
    compression: Compression


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows computed by `node` in `n` tasks of the stage that is being built.

    A flexible flow only scans: it can be spread over any number of tasks. `keys` is set when equal
    values of them are all in one task. `broadcast` is set when the consumer must make every task
    see all rows.
    """

    node: Node
    n: int
    flexible: bool = False
    keys: HashKeys | None = None
    broadcast: Request | None = None

    def has_together(self, names: Collection[str]) -> bool:
        """Whether rows with equal values of the columns `names` are in one task each."""
        return self.keys is not None and all(name in names for name, _ in self.keys)

    def over(self, node: Node) -> Flow:
        """The flow after a narrow operator that keeps all columns."""
        return replace(self, node=node)

    def renamed(self, node: Node, names: Mapping[str, str]) -> Flow:
        """The flow after an operator under which only the columns in `names` live on, renamed."""
        if self.keys is None or any(name not in names for name, _ in self.keys):
            return replace(self, node=node, keys=None)
        keys = tuple((names[name], dtype) for name, dtype in self.keys)
        return replace(self, node=node, keys=keys)
