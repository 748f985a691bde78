"""A function of the rows of each key of a stream: `KeyedProcess`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import pyarrow as pa

from fabric.config import StateBackend
from fabric.errors import PlanError
from fabric.plan.columns import check_different, key_columns, time_type, visible
from fabric.plan.durations import DURATION_US_MAX
from fabric.plan.expr import Alias, Column, Expr, Udf, as_udf
from fabric.plan.faults import ExprFault, listed, quoted
from fabric.plan.infer import infer_boolean
from fabric.plan.mend import free_name, mended
from fabric.plan.node import Columns, Node, Role, Unary
from fabric.plan.python import column_text, dtype_text, expr_text, one_or_list
from fabric.plan.stream import ERRORS, OnBad, Stream

StateKind = Literal["value", "list", "map", "reducing", "aggregating"]
TtlOn = Literal["write", "read"]
Domain = Literal["event", "processing"]
SideSchemas = tuple[tuple[str, pa.Schema], ...]
BroadcastKind = Literal["", "table", "stream", "timed"]
"""What is broadcast: nothing, rows with an end, a stream, or a stream with event time."""
BROADCAST_BYTES = 64 << 20
"""What broadcast rows may take in each task, where nobody says something else."""
BROADCAST_BYTES_MAX = (1 << 31) - 1
"""The most that may be asked for: columns of text hold no more."""


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

    BOUNDS: ClassVar[Mapping[str, float]] = {"ttl_us": DURATION_US_MAX}

    def check(self, names: Sequence[str]) -> None:
        """Refuse what no state can be; `names` are those of all states of its node."""
        name = self.name
        if names.count(name) > 1 or not name.isidentifier():
            raise PlanError(f"process needs states of different, plain names, got {quoted(name)}")
        if (self.kind == "map") != (self.key_dtype is not None):
            raise PlanError(
                f"state {quoted(name)}: a map has a type of its entries, nothing else has"
            )
        if (self.kind in ("reducing", "aggregating")) != (self.function is not None):
            raise PlanError(
                f"state {quoted(name)}: what reduces or aggregates has a function, no other"
            )
        if self.ttl_us < 0:
            raise PlanError(f"state {quoted(name)} needs a ttl of at least 0, got {self.ttl_us}")


@dataclass(frozen=True, slots=True)
class KeyedProcess(Unary):
    """A user's Python `function` of the rows of each key, with state and timers.

    It puts out rows of `schema`, and of `sides` by tag. What it fails on ends the job, is skipped,
    or goes to side `ERRORS` with the error as text; longer than `timeout_us` (0: any) for one
    call is such a failure. `time` names the column put out that is event time ("": none is).

    Every task holds all rows of `broadcast`, at most `broadcast_bytes` of them: in the order in
    which they come, or by `broadcast_keys`, of each the newest; a row of which `broadcast_deleted`
    is true removes its key. `broadcast_is` says what kind of rows they are.
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
    broadcast: Node | None = None
    broadcast_is: BroadcastKind = ""
    broadcast_keys: tuple[str, ...] = ()
    broadcast_deleted: Expr | None = None
    broadcast_bytes: int = 0

    WIRE: ClassVar[str] = "keyed_process"
    OF_STREAM: ClassVar[bool] = True
    ROLE: ClassVar[Role] = "group"
    N_INPUTS: ClassVar[int | None] = None
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "on_error": get_args(OnBad),
        "broadcast_is": get_args(BroadcastKind),
    }
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "timeout_us": DURATION_US_MAX,
        "broadcast_bytes": BROADCAST_BYTES_MAX,
    }
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = (
        "process", "read them with fabric.streams.replay(…)",
    )  # fmt: skip

    @property
    def children(self) -> tuple[Node, ...]:
        """The rows that it is called with, and those that are broadcast, if there are any."""
        return (self.input,) if self.broadcast is None else (self.input, self.broadcast)

    def with_children(self, children: tuple[Node, ...]) -> KeyedProcess:
        """A copy over other inputs; `self` when they are the same objects."""
        source, broadcast = children[0], children[1] if len(children) > 1 else None
        same = source is self.input and broadcast is self.broadcast
        return self if same else replace(self, input=source, broadcast=broadcast)

    @classmethod
    def n_inputs(cls, message: Any) -> int:
        """What is broadcast is one more."""
        return 2 if message.broadcast_is else 1

    @property
    def state_places(self) -> tuple[StateBackend, ...]:
        """See `Node.state_places`."""
        return ("memory", "rocksdb", "auto")

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The keys, the function, those of states, and what says that a broadcast key is gone."""
        states = (state.function for state in self.states if state.function is not None)
        deleted = () if self.broadcast_deleted is None else (self.broadcast_deleted,)
        return (*self.keys, self.function, *states, *deleted)

    def with_expressions(self, exprs: tuple[Expr, ...]) -> KeyedProcess:
        """See `Node.with_expressions`."""
        n_keys, deleted = len(self.keys), self.broadcast_deleted
        if deleted is not None:
            *exprs_, deleted = exprs
            exprs = tuple(exprs_)
        functions = map(as_udf, exprs[n_keys + 1 :])
        states = tuple(
            state if state.function is None else replace(state, function=next(functions))
            for state in self.states
        )
        main = as_udf(exprs[n_keys])
        return replace(
            self, keys=exprs[:n_keys], function=main, states=states, broadcast_deleted=deleted
        )

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns that it declares."""
        schema = inputs[0]
        self._check_broadcast(*inputs[1:])
        if not self.keys:
            raise PlanError('process needs a key, for example .process(f, keys="id", schema={…})')
        for key in self.keys:
            if not isinstance(key, Column):
                name = free_name("key", schema.names)
                named = key if isinstance(key, Alias) else Alias(key, name)
                line = f".with_columns({expr_text(named)})"
                raise mended("process takes columns as keys; compute them before", line)
        key_columns(self.keys, schema, "process")
        for state in self.states:
            state.check([each.name for each in self.states])
        tags = [tag for tag, _ in self.sides]
        for tag in tags:
            if tags.count(tag) > 1 or tag == ERRORS:
                raise PlanError(f"process can't have the side {quoted(tag)} twice; call it another")
        columns = visible(self.schema)
        check_different(columns)
        if self.time:
            time_type(self, "time", self.schema, "event time")
        return columns

    def _check_broadcast(self, rows: pa.Schema | None = None) -> None:
        """Refuse arguments without rows to broadcast, and those that do not fit these rows."""
        arguments = self.broadcast_keys or self.broadcast_deleted or self.broadcast_bytes
        if rows is None:
            if arguments or self.broadcast_is:
                raise PlanError("process: there is nothing to broadcast; write: broadcast=rules")
            return
        rows = pa.schema(visible(rows))
        for key in self.broadcast_keys:
            if key not in rows.names:
                raise PlanError(
                    f"process: there is no column {quoted(key)} in the broadcast rows; their "
                    f"columns are {listed(rows.names)}"
                )
        key_columns(tuple(map(Column, self.broadcast_keys)), rows, "broadcast_keys")
        if self.broadcast_bytes < 1:
            raise PlanError(
                f"process: broadcast_memory is at least 1 byte, got {self.broadcast_bytes}; write: "
                'broadcast_memory="64 MiB"'
            )
        if self.broadcast_deleted is None:
            return
        if not self.broadcast_keys:
            raise PlanError(
                "process: broadcast_deleted says which key is gone, and these rows have none; "
                f"write: broadcast_keys={quoted(rows.names[0])}"
            )
        try:
            infer_boolean(self.broadcast_deleted, rows, "what broadcast_deleted says")
        except ExprFault as fault:
            text = f"broadcast rows: {fault.message}"
            raise ExprFault(text, fault.old, fault.new) from None

    def side_schemas(self, rows: pa.Schema) -> Mapping[str, pa.Schema]:
        """Those that it declares, and rows that it failed on, if they go aside."""
        found = {tag: pa.schema(visible(side)) for tag, side in self.sides}
        if self.on_error != "side":
            return found
        return {**found, ERRORS: dead_letters(pa.schema(visible(rows)))}

    def stream(self, *below: Any) -> Stream:
        """Its own rows."""
        stream, *others = below
        if stream is None:
            raise PlanError(
                "process is called with rows of a stream, and these have an end; replay them: "
                "fabric.streams.replay(…).process(…, broadcast=rules)"
            )
        stream.check_append_only("process")
        for rules in others:
            kind = broadcast_kind(rules)
            if kind != self.broadcast_is:
                raise PlanError(f"process: it broadcasts {kind!r} rows, not {self.broadcast_is!r}")
        if "event" in self.timers or self.time:
            stream.check_timed("a timer of event time" if "event" in self.timers else "event time")
        return Stream(time=self.time, timed=stream.timed)

    def text(self) -> str:
        """``.process(f, keys="id", schema={"n": int64})``."""
        keys = one_or_list(map(column_text, self.keys))
        columns = ", ".join(f"{quoted(f.name)}: {dtype_text(f.type)}" for f in self.schema)
        parts = [self.function.name, f"keys={keys}", f"schema={{{columns}}}"]
        if self.states:
            states = ", ".join(f"{quoted(state.name)}: {state.kind}" for state in self.states)
            parts.append(f"state={{{states}}}")
        parts += [f"timers={one_or_list(map(quoted, self.timers))}"] if self.timers else []
        parts += [f"time={quoted(self.time)}"] if self.time else []
        if self.sides:
            parts.append(f"sides={one_or_list(quoted(tag) for tag, _ in self.sides)}")
        parts += [f"on_error={quoted(self.on_error)}"] if self.on_error != "fail" else []
        return f".process({', '.join([*parts, *self._broadcast_text()])})"

    def _broadcast_text(self) -> list[str]:
        """The arguments about what is broadcast."""
        if not self.broadcast_is:
            return []
        parts = ["broadcast=other"]
        if self.broadcast_keys:
            parts.append(f"broadcast_keys={one_or_list(map(quoted, self.broadcast_keys))}")
        if self.broadcast_deleted is not None:
            parts.append(f"broadcast_deleted={expr_text(self.broadcast_deleted)}")
        if self.broadcast_bytes != BROADCAST_BYTES:
            parts.append(f"broadcast_memory={self.broadcast_bytes}")
        return parts


def broadcast_kind(rows: Stream | None) -> BroadcastKind:
    """What kind of rows a step broadcasts, by what is known of their stream.

    Raises `PlanError` where they replace earlier ones.

    >>> broadcast_kind(None), broadcast_kind(Stream()), broadcast_kind(Stream(timed=True))
    ('table', 'stream', 'timed')
    """
    if rows is None:
        return "table"
    rows.check_append_only("a broadcast")
    return "timed" if rows.timed else "stream"


def dead_letters(rows: pa.Schema) -> pa.Schema:
    """Rows that something failed on: with the error, where, and in which attempt of the task.

    >>> dead_letters(pa.schema([("a", pa.int8())])).names
    ['a', 'error', 'error_node', 'error_attempt']
    """
    added = ("error", pa.string()), ("error_node", pa.string()), ("error_attempt", pa.int32())
    return pa.schema(
        [*rows, *(pa.field(free_name(name, rows.names), dtype) for name, dtype in added)]
    )
