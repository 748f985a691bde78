"""Plan nodes: one frozen logical plan, checked before anything runs.

One job: the shape of a plan. A node knows its children and how to be copied with others; types are
inferred in `schema.py`, names checked in `check.py`. Nodes of endless inputs are in `streams.py`.
A node shared by two parents (the same object) is computed once. `path` is the address a user gave
with ``.named("enrich/join")``; the check gives every other node one of its own (``filter_2``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from fabric.config import StateBackend
from fabric.plan.base import Base, Leaf, Many, Unary
from fabric.plan.expr import Expr, SortKey
from fabric.plan.sources import Source, Target
from fabric.plan.streams import (
    AssignWindows,
    Branches,
    Changes,
    Deduplicate,
    KeyedProcess,
    LookupJoin,
    SideOutput,
    StreamAggregate,
    StreamScan,
    TopN,
    Watermark,
)

JoinHow = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
JoinStrategy = Literal["auto", "broadcast", "hash"]
ExchangeKind = Literal["hash", "broadcast", "round_robin", "gather", "forward"]
ExchangeMode = Literal["auto", "materialised", "pipelined"]
Compression = Literal["none", "lz4", "zstd"]
AggregatePhase = Literal["single", "partial", "final"]
SortPhase = Literal["single", "sample", "place"]


@dataclass(frozen=True, slots=True)
class Scan(Leaf):
    """Read a source of `schema`; `columns` (None: all), `predicate`, `limit` are pushed down.

    The output has `columns` in their order; `predicate` may read columns that are not put out.
    `scan_id` numbers the scans of a stage (set by the planner). With a `limit` each task may stop
    after so many rows, whichever they are: what is above needs no more.
    """

    source: Source
    schema: pa.Schema
    columns: tuple[str, ...] | None = None
    predicate: Expr | None = None
    scan_id: int = -1
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class StageInput(Leaf):
    """Rows that arrive over an edge; only the planner makes it, only inside a stage."""

    edge: int
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Filter(Unary):
    """Keep the rows whose `predicate` is true; null is not true."""

    predicate: Expr


@dataclass(frozen=True, slots=True)
class Select(Unary):
    """Put out exactly `exprs`."""

    exprs: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class WithColumns(Unary):
    """Put out the input and `exprs` after it; overwriting a column needs `replace`."""

    exprs: tuple[Expr, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate(Unary):
    """Group by `keys` (none: one row) and compute `aggs` (`Agg` or `Alias` of `Agg`).

    `phase` is "single" in a logical plan. The planner splits it: "partial" puts out the keys and
    state columns, "final" merges those.
    """

    keys: tuple[Expr, ...]
    aggs: tuple[Expr, ...]
    phase: AggregatePhase = "single"


@dataclass(frozen=True, slots=True)
class Join(Base):
    """Rows of both sides with equal keys for which `condition` is true; null keys match nothing.

    Output: left columns, then (but for semi, anti) right ones. Right keys are not put out again
    where both sides name them alike: that column then has the value of the side there is a row of.
    Another right column that the left side has too gets `suffix`. `condition` reads the columns of
    an inner join by those names. "cross" has neither keys nor condition.
    """

    left: Node
    right: Node
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    how: JoinHow = "inner"
    suffix: str = "_right"
    strategy: JoinStrategy = "auto"
    condition: Expr | None = None

    @property
    def children(self) -> tuple[Node, ...]:
        """Left, right."""
        return (self.left, self.right)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """A copy over other inputs; `self` when they are the same objects."""
        left, right = children
        same = left is self.left and right is self.right
        return self if same else replace(self, left=left, right=right)


@dataclass(frozen=True, slots=True)
class Window(Unary):
    """Put out the input and one column for each of `exprs` (`Over` or `Alias` of it) after it.

    All of them have the same `partition_by`, so that one exchange serves them.
    """

    exprs: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Explode(Unary):
    """One row for each element of list `column`, the element in the list's place.

    Null and empty lists give no row, with `outer` one row with null. `position` names an int32
    column at the end with the element's place, from 0 on.
    """

    column: str
    outer: bool = False
    position: str = ""


@dataclass(frozen=True, slots=True)
class Sort(Base):
    """Order all rows by `keys`.

    `phase` is "single" in a logical plan. For one order over several tasks the planner adds two:
    "sample" puts out the keys of some rows; "place" puts out the rows and the range (0 to
    `n_ranges` - 1) each belongs to, where `samples` are the rows of all "sample" tasks.
    """

    input: Node
    keys: tuple[SortKey, ...]
    phase: SortPhase = "single"
    samples: Node | None = None
    n_ranges: int = 0

    @property
    def children(self) -> tuple[Node, ...]:
        """The rows, and in phase "place" the samples."""
        return (self.input,) if self.samples is None else (self.input, self.samples)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """A copy over other inputs; `self` when they are the same objects."""
        source, samples = children[0], children[1] if len(children) == 2 else None
        same = source is self.input and samples is self.samples
        return self if same else replace(self, input=source, samples=samples)


@dataclass(frozen=True, slots=True)
class Limit(Unary):
    """Skip `offset` rows, put out at most `n`; which ones is open unless a sort is below."""

    n: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Distinct(Unary):
    """Each different row once; nulls are equal, NaNs are equal, -0.0 equals 0.0."""


@dataclass(frozen=True, slots=True)
class Union(Many):
    """All rows of all inputs (UNION ALL); columns are matched by position, names from the first."""


@dataclass(frozen=True, slots=True)
class Exchange(Unary):
    """Send rows to partitions: by hash of `keys`, to all, in turn, to one, or straight on.

    `n_partitions` 0 lets the planner choose. `mode` "auto" is materialised in bounded jobs.
    `compression` is for rows between agents.
    """

    kind: ExchangeKind
    keys: tuple[str, ...] = ()
    n_partitions: int = 0
    mode: ExchangeMode = "auto"
    compression: Compression = "none"


@dataclass(frozen=True, slots=True)
class Sink(Unary):
    """Write the rows to `target`; puts out one row per task: ``rows: int64``."""

    target: Target


Node = (
    Scan | StageInput | Filter | Select | WithColumns | Aggregate | Join | Window | Explode | Sort
    | Limit | Distinct | Union | Exchange | Sink | StreamScan | Watermark | AssignWindows
    | StreamAggregate | Deduplicate | TopN | KeyedProcess | SideOutput | LookupJoin | Changes
    | Branches
)  # fmt: skip
"""Any plan node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Settings of one node path; None leaves the default."""

    parallelism: int | None = None
    exchange: ExchangeMode | None = None
    buffer_batches: int | None = None
    compression: Compression | None = None
    latency_us: int | None = None
    """How long a row of a stream that comes by here may be gathered on its whole way."""
    state: StateBackend | None = None
    """Where a node that knows something of its keys keeps that, whatever the job says."""
    state_memory: int | None = None
    """Bytes that this node alone may use in one task, rather than its part of the job's."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A root and the settings of its node paths, sorted by path."""

    root: Node
    config: tuple[tuple[str, NodeConfig], ...] = ()
