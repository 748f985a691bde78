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
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name, mended
from fabric.plan.node import Columns, Role, Unary
from fabric.plan.python import column_text, dtype_text, expr_text, one_or_list
from fabric.plan.stream import ERRORS, OnBad, Stream

StateKind = Literal["value", "list", "map", "reducing", "aggregating"]
TtlOn = Literal["write", "read"]
Domain = Literal["event", "processing"]
SideSchemas = tuple[tuple[str, pa.Schema], ...]


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

    WIRE: ClassVar[str] = "keyed_process"
    OF_STREAM: ClassVar[bool] = True
    ROLE: ClassVar[Role] = "group"
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {"on_error": get_args(OnBad)}
    BOUNDS: ClassVar[Mapping[str, float]] = {"timeout_us": DURATION_US_MAX}
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = (
        "process", "read them with fabric.streams.replay(…)",
    )  # fmt: skip

    @property
    def state_places(self) -> tuple[StateBackend, ...]:
        """See `Node.state_places`."""
        return ("memory", "rocksdb", "auto")

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The keys, the function, and those of states."""
        states = (state.function for state in self.states if state.function is not None)
        return (*self.keys, self.function, *states)

    def with_expressions(self, exprs: tuple[Expr, ...]) -> KeyedProcess:
        """See `Node.with_expressions`."""
        n_keys = len(self.keys)
        functions = map(as_udf, exprs[n_keys + 1 :])
        states = tuple(
            state if state.function is None else replace(state, function=next(functions))
            for state in self.states
        )
        main = as_udf(exprs[n_keys])
        return replace(self, keys=exprs[:n_keys], function=main, states=states)

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns that it declares."""
        (schema,) = inputs
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

    def side_schemas(self, rows: pa.Schema) -> Mapping[str, pa.Schema]:
        """Those that it declares, and rows that it failed on, if they go aside."""
        found = {tag: pa.schema(visible(side)) for tag, side in self.sides}
        if self.on_error != "side":
            return found
        return {**found, ERRORS: dead_letters(pa.schema(visible(rows)))}

    def stream(self, *below: Any) -> Stream:
        """Its own rows."""
        (stream,) = below
        stream.check_append_only("process")
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
        return f".process({', '.join(parts)})"


def dead_letters(rows: pa.Schema) -> pa.Schema:
    """Rows that something failed on: with the error, where, and in which attempt of the task.

    >>> dead_letters(pa.schema([("a", pa.int8())])).names
    ['a', 'error', 'error_node', 'error_attempt']
    """
    added = ("error", pa.string()), ("error_node", pa.string()), ("error_attempt", pa.int32())
    return pa.schema(
        [*rows, *(pa.field(free_name(name, rows.names), dtype) for name, dtype in added)]
    )
