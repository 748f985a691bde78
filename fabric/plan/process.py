"""What a user writes to process the rows of each key with state and timers: `Process`.

One job: the base class, and what its calls are given. Clients pickle an instance, tasks make one
each from it; what an instance keeps in attributes is no state: only `ctx.state(…)` survives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.faults import with_article

Rows: TypeAlias = pa.RecordBatch | pa.Table | Mapping[str, Any]
"""Rows: a batch, a table, columns by name, or the values of one row by name."""
Returned: TypeAlias = Rows | Iterable[Rows] | None
"""What a call puts out: rows, several of them (a generator, say), or none."""
TimerDomain = Literal["event", "processing"]
Time = int | datetime
"""Microseconds since the epoch, or a datetime (naive: UTC)."""


class ProcessTimers(Protocol):
    """Timers of the key (`set`, `cancel`) or of many keys at once."""

    def set(self, time: Time, domain: TimerDomain = "event") -> None:
        """Call `on_timer` for this key at `time`; twice the same is once."""

    def cancel(self, time: Time, domain: TimerDomain = "event") -> None:
        """Take a timer of this key back, if it is set."""

    def set_many(
        self, keys: pa.RecordBatch, times: pa.Array, domain: TimerDomain = "event"
    ) -> None:
        """A timer for each key, at the time (a timestamp or integer) of its row."""

    def cancel_many(
        self, keys: pa.RecordBatch, times: pa.Array, domain: TimerDomain = "event"
    ) -> None:
        """Take timers back."""


class BroadcastRows(Protocol):
    """The rows of `broadcast=` that have come so far, the same in every task; only read.

    With `broadcast_keys` there is one row of each key, the newest, at the place where the key first
    came; else all rows are there, in the order in which they came. Columns have plain types: no
    dictionaries, no run-end encoding.
    """

    @property
    def table(self) -> pa.Table:
        """All rows as columns."""

    @property
    def version(self) -> int:
        """How many rows have come: other rows are there only when it is another one."""

    def get(self, *key: Any) -> dict[str, Any] | None:
        """The row of a key, a value for each column of `broadcast_keys`; None: there is none."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each row by the names of its columns."""


class ProcessContext(Protocol):
    """What a call may use; only while it runs."""

    watermark: int
    """No row earlier than this is expected; once the input has ended it is
    `fabric.streams.END_OF_TIME`. A timer that sets itself again must not do so then."""
    now: int
    """Processing time."""

    @property
    def broadcast(self) -> BroadcastRows:
        """The rows of `broadcast=` that have come so far."""

    @property
    def timers(self) -> ProcessTimers:
        """Timers of the key whose call it is, or of many."""

    def state(self, name: str) -> Any:
        """The state of that name.

        In `on_rows` and `on_timer` it is the key's own: `.get()`, `.put(value)`, `.remove()`; lists
        have `.append(value)`, `.extend(values)`, `.clear()`, maps `.get(entry)`, `.put(entry,
        value)`, `.items()`, what folds `.add(value)`. In `on_batch` and `on_timers` it is that of
        all keys, which come first: `.get_many(keys)`, `.put_many(keys, values)` and so on.
        """

    def side(self, tag: str, rows: Rows) -> None:
        """Put rows out aside, under a tag that was declared."""


class Process:
    """A function of the rows of each key; write `on_rows`, or `on_batch` for all keys at once.

    A call that fails under "skip" or "side" has changed nothing: what it wrote to state, set as
    timers and put out is taken back. Then it is called again with fewer of the rows, until those
    that fail alone are known; attributes of the instance and the world outside see each try.

    >>> class Count(Process):
    ...     def on_rows(self, ctx, key, rows):
    ...         n = (ctx.state("n").get() or 0) + rows.num_rows
    ...         ctx.state("n").put(n)
    ...         return {"key": key, "n": n}
    >>> per_key(Count()), timed(Count())
    (True, False)
    """

    def open(self) -> None:
        """Once in each task, before the first row: connections, models.

        >>> class Scored(Process):
        ...     def open(self):
        ...         self.model = {"ann": 1}
        ...     def on_rows(self, ctx, key, rows):
        ...         return {"key": key, "score": self.model.get(key, 0)}
        """

    def close(self) -> None:
        """After the last call."""

    def on_rows(self, ctx: ProcessContext, key: Any, rows: pa.RecordBatch) -> Returned:
        """New rows of one key (a tuple where there are several key columns).

        Returns the rows put out: a batch, a table or a dict; several of them, as a generator does;
        or None.

        >>> class Sizes(Process):
        ...     def on_rows(self, ctx, key, rows):
        ...         yield {"key": key, "n": rows.num_rows}
        """
        raise NotImplementedError

    def on_batch(self, ctx: ProcessContext, keys: pa.RecordBatch, rows: pa.RecordBatch) -> Returned:
        """New rows of all keys, and the key of each row.

        >>> class Labelled(Process):
        ...     def on_batch(self, ctx, keys, rows):
        ...         return rows.append_column("label", keys.column(0))
        """
        raise NotImplementedError

    def on_broadcast(self, ctx: ProcessContext, rows: pa.RecordBatch) -> None:
        """Rows of `broadcast=` have come, and are in `ctx.broadcast`; again, all of them, when the
        task goes on from a checkpoint.

        It is called in every task, about no key: it has no states, timers and side outputs, and
        puts out nothing. It is the place to prepare what rows need, in attributes of the instance.
        What it raises ends the job, whatever `on_error` says.

        >>> class Above(Process):
        ...     def on_broadcast(self, ctx, rows):
        ...         self.limits = {rule["key"]: rule["limit"] for rule in ctx.broadcast}
        ...     def on_rows(self, ctx, key, rows):
        ...         limit = self.limits.get(key) if ctx.broadcast.version else None
        ...         return [row for row in rows.to_pylist() if limit and row["v"] > limit]
        """
        raise NotImplementedError

    def on_timer(self, ctx: ProcessContext, key: Any, time: int, domain: TimerDomain) -> Returned:
        """A timer of one key is due. Timers of a key come in the order of their times.

        `time` is in microseconds since the epoch, as `domain` counts it.

        >>> class Idle(Process):
        ...     def on_rows(self, ctx, key, rows):
        ...         ctx.timers.set(ctx.watermark + 60_000_000)
        ...     def on_timer(self, ctx, key, time, domain):
        ...         return {"key": key, "idle_at": time}
        """
        raise NotImplementedError

    def on_timers(
        self, ctx: ProcessContext, keys: pa.RecordBatch, times: pa.Array, domain: TimerDomain
    ) -> Returned:
        """Timers of several keys are due; of each key the earliest."""
        raise NotImplementedError


def check_process(
    function: object, timers: Sequence[TimerDomain], *, broadcasts: bool = True
) -> Process:
    """`function` itself, if it can be called; `broadcasts`: rows are broadcast to it.

    >>> check_process(len, ())
    Traceback (most recent call last):
    fabric.errors.PlanError: process takes an instance of a class derived from fabric.Process, \
not a builtin_function_or_method
    """
    if not isinstance(function, Process):
        given = f"the class {function.__name__}; write {function.__name__}(…)" if isinstance(
            function, type
        ) else with_article(type(function).__name__)  # fmt: skip
        raise PlanError(
            f"process takes an instance of a class derived from fabric.Process, not {given}"
        )
    name = type(function).__name__
    if per_key(function) is None:
        raise PlanError(f"{name} has neither on_rows nor on_batch; write one of them")
    if timers and not timed(function):
        raise PlanError(f"{name} has timers and neither on_timer nor on_timers; write one of them")
    if hears_broadcast(function) and not broadcasts:
        raise PlanError(f"{name} has on_broadcast, and no rows to call it with; write: "
                        f".process({name}(…), broadcast=rules, …)")  # fmt: skip
    return function


def per_key(process: Process) -> bool | None:
    """Whether rows come key by key; None when neither form is written."""
    if _is_written(process, "on_batch"):
        return False
    return True if _is_written(process, "on_rows") else None


def timed(process: Process) -> bool:
    """Whether it can take timers."""
    return _is_written(process, "on_timer") or _is_written(process, "on_timers")


def hears_broadcast(process: Process) -> bool:
    """Whether it is told of rows that are broadcast."""
    return _is_written(process, "on_broadcast")


def timers_by_key(process: Process) -> bool:
    """Whether timers come key by key."""
    return not _is_written(process, "on_timers")


def _is_written(process: Process, name: str) -> bool:
    return getattr(type(process), name) is not getattr(Process, name)
