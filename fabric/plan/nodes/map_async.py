"""Asynchronous calls of a user's function, a row or some rows each: `MapAsync`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.bounds import BUFFER_BYTES_MAX, PARTITIONS_MAX, ROWS_PER_S_MAX
from fabric.plan.columns import check_different, hidden_of, visible
from fabric.plan.durations import DURATION_US_MAX, lengths_text
from fabric.plan.expr import Udf
from fabric.plan.faults import listed, nearest, quoted
from fabric.plan.node import Columns, Unary
from fabric.plan.nodes.keyed_process import dead_letters
from fabric.plan.python import dtype_text, one_or_list
from fabric.plan.stream import ERRORS, OnBad, Stream

CAPACITY_MAX = 1 << 20
CAPACITY, CAPACITY_BYTES = 100, 64 << 20
TIMEOUT_US, BACKOFF_US = 30_000_000, 100_000
RATE_MIN = 0.001


@dataclass(frozen=True, slots=True)
class MapAsync(Unary):
    """What an asynchronous Python `function` answers for each row, or for up to `batch` of them.

    Puts out columns `keep` of the row, then those of `schema`. At most `capacity` rows and
    `capacity_bytes` are inside of a task. An attempt may take `timeout_us`; one that fails is made
    again `retries` times, after `backoff_us`, doubled each time. `rate_per_s` (0: any) counts the
    attempts of all tasks, whose number `n_tasks` the planner sets.
    """

    function: Udf
    schema: pa.Schema
    keep: tuple[str, ...] = ()
    capacity: int = CAPACITY
    capacity_bytes: int = CAPACITY_BYTES
    ordered: bool = True
    timeout_us: int = TIMEOUT_US
    retries: int = 0
    backoff_us: int = BACKOFF_US
    rate_per_s: float = 0.0
    batch: int = 0
    on_error: OnBad = "fail"
    n_tasks: int = 1

    WIRE: ClassVar[str] = "map_async"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("function",)
    LOOKS_AT_ROWS: ClassVar[bool] = True
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "on_error": get_args(OnBad), "n_tasks": (1,),
    }  # fmt: skip
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "capacity": CAPACITY_MAX, "capacity_bytes": BUFFER_BYTES_MAX, "timeout_us": DURATION_US_MAX,
        "retries": 1_000, "backoff_us": DURATION_US_MAX, "rate_per_s": ROWS_PER_S_MAX,
        "batch": CAPACITY_MAX, "n_tasks": PARTITIONS_MAX,
    }  # fmt: skip

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns that are kept, those of the answers, and hidden ones."""
        (schema,) = inputs
        self._check_numbers()
        shown = dict(visible(schema))
        for name in self.keep:
            if name not in shown:
                near = nearest(name, shown)
                hint = "" if near is None else f"; write: keep={quoted(near)}"
                raise PlanError(
                    f"map_async can't keep {quoted(name)}; the columns are {listed(shown)}{hint}"
                )
        columns = [(name, shown[name]) for name in self.keep]
        made = visible(self.schema)
        if not made:
            raise PlanError('map_async needs the columns that come out: schema={"price": "int64"}')
        check_different(columns)
        for name, _ in made:
            if name in self.keep:
                raise PlanError(
                    f"map_async would put out {quoted(name)} twice: it is in keep= and in schema=; "
                    "leave it out of one of them"
                )
        check_different(made)
        return [*columns, *made, *hidden_of(schema)]

    def _check_numbers(self) -> None:
        least = {
            "capacity": 1, "capacity_bytes": 1, "timeout_us": 1, "retries": 0, "backoff_us": 1,
            "rate_per_s": 0, "batch": 0, "n_tasks": 1,
        }  # fmt: skip
        for name, number in least.items():
            if (value := getattr(self, name)) < number:
                raise PlanError(f"map_async needs {name} of at least {number}, got {value}")
        if 0 < self.rate_per_s < RATE_MIN:
            raise PlanError(
                f"map_async needs a rate of at least {RATE_MIN} calls a second, got "
                f"{self.rate_per_s:g}"
            )
        if self.batch > self.capacity:
            raise PlanError(
                f"map_async calls its function with up to {self.batch} rows, and {self.capacity} "
                f"may be inside; write: capacity={self.batch * 10}"
            )

    def side_schemas(self, rows: pa.Schema) -> Mapping[str, pa.Schema]:
        """Rows that it failed on, if they go aside."""
        return {ERRORS: dead_letters(pa.schema(visible(rows)))} if self.on_error == "side" else {}

    def bounded(self) -> None:
        """Side outputs are of streams alone."""
        if self.on_error == "side":
            raise PlanError(
                'on_error="side" is for streams, and these rows have an end; write: '
                'on_error="skip", or let the function answer with a column that says what failed'
            )

    def stream(self, *below: Any) -> Stream:
        """Event time and ends of windows are those of the columns that are kept."""
        (stream,) = below
        stream.check_append_only("map_async")
        kept: Stream = stream.renamed({name: name for name in self.keep})
        return Stream(time=kept.time, ends=kept.ends, timed=stream.timed)

    def text(self) -> str:
        """``.map_async(f, schema={"price": float64}, keep="id", capacity=10)``."""
        columns = ", ".join(f"{quoted(f.name)}: {dtype_text(f.type)}" for f in self.schema)
        parts = [self.function.name, f"schema={{{columns}}}"]
        parts += [f"keep={one_or_list(map(quoted, self.keep))}"] if self.keep else []
        parts += [f"capacity={self.capacity}"] if self.capacity != CAPACITY else []
        if self.capacity_bytes != CAPACITY_BYTES:
            parts.append(f"capacity_bytes={self.capacity_bytes}")
        parts += [] if self.ordered else ["ordered=False"]
        if self.timeout_us != TIMEOUT_US:
            parts.append(f"timeout={lengths_text(self.timeout_us)}")
        parts += [f"retry={self.retries}"] if self.retries else []
        if self.backoff_us != BACKOFF_US:
            parts.append(f"backoff={lengths_text(self.backoff_us)}")
        parts += [f"rate={self.rate_per_s:g}"] if self.rate_per_s else []
        parts += [f"batch={self.batch}"] if self.batch else []
        parts += [f"on_error={quoted(self.on_error)}"] if self.on_error != "fail" else []
        return f".map_async({', '.join(parts)})"
