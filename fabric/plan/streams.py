"""Plan nodes of endless inputs: event time, windows, keyed state.

One job: their shape; what they put out is inferred in `stream_rules.py`, what a stream can't do is
refused in `stream_check.py`. Times are microseconds since the epoch, UTC.

Two columns travel with the rows inside a job and are never seen by users: `WATERMARK`, how far
event time had come in the row's split before it, and `KIND`, what the row does to earlier results.
The planner adds them where a node above needs them: last of all, and in this order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from fabric.plan.base import Base, Leaf, Many, Unary
from fabric.plan.expr import Expr, SortKey, Udf
from fabric.plan.sources import StreamSource
from fabric.plan.windowing import Cumulative, Sliding, Trigger, Tumbling, Window

if TYPE_CHECKING:
    from fabric.plan.nodes import Node

WATERMARK = "__watermark"
"""int64: the most event time of earlier rows of the row's split, less the bound."""
KIND = "__kind"
"""int8: an index into `KINDS`; without it every row is an insert."""
HIDDEN = (WATERMARK, KIND)
KINDS = ("+I", "-U", "+U", "-D")
HIDDEN_TYPES = {WATERMARK: pa.int64(), KIND: pa.int8()}

BOUND_US, EMIT_US = 5_000_000, 200_000
ON_CLOSE = Trigger()
BAD, LATE, ERRORS, UNREADABLE = "bad", "late", "errors", "unreadable"
"""Tags: rows without usable event time, rows behind the watermark, rows a function failed on, parts
of files that can't be read."""
UNREADABLE_SCHEMA = pa.schema(
    [("file", pa.string()), ("offset", pa.int64()), ("data", pa.binary()), ("error", pa.string())]
)
"""`offset`: the byte of a growing file's line, whose bytes are `data`; else the row from which on
a file can't be read."""
BAD_RECORD_SCHEMA = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("data", pa.binary()), ("error", pa.string()),
    ]
)  # fmt: skip
"""Records of Kafka that can't be read: `data` is the value's bytes, or the key's where it is that
which can't be."""

Strategy = Literal["bounded", "monotonic", "custom"]
OnBad = Literal["fail", "skip", "side"]
Late = Literal["drop", "side"]
Keep = Literal["first", "last"]
LookupHow = Literal["inner", "left", "semi", "anti"]
StateKind = Literal["value", "list", "map", "reducing", "aggregating"]
TtlOn = Literal["write", "read"]
Domain = Literal["event", "processing"]
SideSchemas = tuple[tuple[str, pa.Schema], ...]


@dataclass(frozen=True, slots=True)
class StreamScan(Leaf):
    """Read a source without end (or one that is treated so); the output has `columns` (None: all).

    `scan_id` numbers the scans of a stage (set by the planner).
    """

    source: StreamSource
    schema: pa.Schema
    columns: tuple[str, ...] | None = None
    scan_id: int = -1


@dataclass(frozen=True, slots=True)
class Watermark(Unary):
    """Say that `column` is the time of each row, and how far behind rows may come, by split.

    "bounded": the most time so far less `bound_us`; "monotonic": rows come in order; "custom":
    `function` says. A split without rows for `idle_us` holds nothing back (None: it does).
    `drift_us` holds back splits that are that far ahead of the slowest.

    A row without a time, or more than `future_us` ahead of all earlier rows of its split, is bad:
    "fail", "skip" or "side" (tag `BAD`). It moves event time on by `future_us` at most; a split's
    first row is compared with the clock. With `rows`, which only the planner sets, each row carries
    its own watermark.
    """

    column: str
    bound_us: int = BOUND_US
    idle_us: int | None = None
    future_us: int | None = None
    strategy: Strategy = "bounded"
    function: Udf | None = None
    on_bad: OnBad = "fail"
    emit_us: int = EMIT_US
    drift_us: int | None = None
    rows: bool = False


@dataclass(frozen=True, slots=True)
class AssignWindows(Unary):
    """Each row once for each window that its `time` lies in, with that window's start and end."""

    time: str
    window: Tumbling | Sliding | Cumulative


@dataclass(frozen=True, slots=True)
class StreamAggregate(Unary):
    """Group by `keys` and `window`, and compute `aggs` (`Agg` or `Alias` of `Agg`).

    `time` is the column that windows go by; "" is the processing time. Output: keys, then for
    windows in time their start and end, then the aggregates. A window takes rows until its end and
    `lateness_us` more; later ones are dropped and counted, or go to side `LATE`.

    Without a window results change as rows come, unless `closes` names a key that is a time, such
    as the end of a window below: its groups are put out once, when the watermark reaches it. Where
    results change, the planner sets `kinds`: then rows have their `KIND`.
    """

    keys: tuple[Expr, ...]
    aggs: tuple[Expr, ...]
    window: Window | None = None
    time: str = ""
    trigger: Trigger = ON_CLOSE
    lateness_us: int = 0
    late: Late = "drop"
    closes: str = ""
    kinds: bool = False


@dataclass(frozen=True, slots=True)
class Deduplicate(Unary):
    """The first (or last) row of each key, in order of `by` ("": as they come).

    A key is forgotten after `ttl_us` without rows (0: never). `closes`, `late` and `kinds` are as
    in `StreamAggregate`; with `rows`, which only the planner sets, a row keeps its own watermark.
    """

    keys: tuple[Expr, ...]
    keep: Keep = "first"
    by: str = ""
    ttl_us: int = 0
    closes: str = ""
    lateness_us: int = 0
    late: Late = "drop"
    kinds: bool = False
    rows: bool = False


@dataclass(frozen=True, slots=True)
class TopN(Unary):
    """The first `n` rows of each key in the order of `by`, with `ties` all equal to the last too.

    `rank` names a column at the end: 1, 2, 3, …, with `ties` the same number for equals. `closes`,
    `late` and `kinds` are as in `StreamAggregate`.
    """

    keys: tuple[Expr, ...]
    by: tuple[SortKey, ...]
    n: int
    ties: bool = False
    rank: str = ""
    closes: str = ""
    lateness_us: int = 0
    late: Late = "drop"
    kinds: bool = False


@dataclass(frozen=True, slots=True)
class StateField:
    """A named state of a `KeyedProcess`: one of `kind` for each key.

    `dtype` is the type of the value, of a list's elements or of a map's values; `function` combines
    two values of a reducing state, or is the pickled pair of an aggregating one. What was not
    written (or read either) for `ttl_us` is gone; 0 keeps it.
    """

    name: str
    kind: StateKind
    dtype: pa.DataType
    key_dtype: pa.DataType | None = None
    function: Udf | None = None
    ttl_us: int = 0
    ttl_on: TtlOn = "write"


@dataclass(frozen=True, slots=True)
class KeyedProcess(Unary):
    """A user's Python `function` of the rows of each key, with state and timers.

    It puts out rows of `schema`, and of `sides` by tag. What it fails on ends the job, is skipped,
    or goes to side `ERRORS` with the error as text; longer than `timeout_us` (0: any) for one
    call is such a failure. `time` names the column put out that is event time ("": none is).
    """

    keys: tuple[Expr, ...]
    function: Udf
    schema: pa.Schema
    states: tuple[StateField, ...] = ()
    timers: tuple[Domain, ...] = ()
    sides: SideSchemas = ()
    on_error: OnBad = "fail"
    timeout_us: int = 0
    time: str = ""


@dataclass(frozen=True, slots=True)
class SideOutput(Unary):
    """The rows that its input puts out aside, under `tag`."""

    tag: str


@dataclass(frozen=True, slots=True)
class LookupJoin(Base):
    """Rows of a stream with those of `table` that have equal keys; `table` has an end.

    The table is read whole before the first row. Columns as in `Join`.
    """

    input: Node
    table: Node
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    how: LookupHow = "inner"
    suffix: str = "_right"

    @property
    def children(self) -> tuple[Node, ...]:
        """The stream, the table."""
        return (self.input, self.table)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """A copy over other inputs; `self` when they are the same objects."""
        left, right = children
        same = left is self.input and right is self.table
        return self if same else replace(self, input=left, table=right)


@dataclass(frozen=True, slots=True)
class Changes(Unary):
    """Changing results as rows of their own: a first `column` says which of `KINDS` each is."""

    column: str = "row_kind"


@dataclass(frozen=True, slots=True)
class Branches(Many):
    """Branches of one source, which is read once; each has rows and event time of its own.

    It puts out nothing itself: the rows of a branch are a side output, see `branch_side`. It stands
    at the top of a stage, and only the planner makes it.
    """


def branch_side(branch: int, tag: str = "") -> str:
    """The side of `Branches` with the rows of a branch, or with what its step puts aside.

    >>> branch_side(1), branch_side(1, "bad")
    ('1', '1/bad')
    """
    return f"{branch}/{tag}" if tag else str(branch)


StreamNode = (
    StreamScan | Watermark | AssignWindows | StreamAggregate | Deduplicate | TopN | KeyedProcess
    | SideOutput | LookupJoin | Changes | Branches
)  # fmt: skip
"""Any of these."""
Keyed = StreamAggregate | Deduplicate | TopN | KeyedProcess
"""Nodes that hold state by key."""
