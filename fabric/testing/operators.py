"""One harness for every operator: straight, aborted and restored, and with another number of tasks.

One job: run the same steps (rows, watermarks, the clock) in these ways, so that a test can say the
outputs agree: `check_operator` says it. Snapshots are taken before each step; an abort throws away
the operator and what it put out since, as a sink would.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.hash import hash_columns, partition_of
from fabric.event_time import END_OF_TIME
from fabric.operators.contract import Batches, Context, Operator
from fabric.operators.snapshots import N_KEY_GROUPS, key_groups

Make = Callable[[], Operator]
_TESTED = Context("tested")


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch of an input (0 is the first), perhaps of a split of a source.

    >>> step = Rows(pa.record_batch({"a": [1, 2]}), input=1)
    >>> step.batch.num_rows, step.input
    (2, 1)
    """

    batch: pa.RecordBatch
    input: int = 0
    split: str = ""


@dataclass(frozen=True, slots=True)
class Until:
    """The watermark has come to `time_us`, in microseconds since the epoch.

    >>> Until(5)
    Until(time_us=5)
    """

    time_us: int


@dataclass(frozen=True, slots=True)
class Clock:
    """The processing time is `now_us`, in microseconds since the epoch.

    >>> Clock(5)
    Clock(now_us=5)
    """

    now_us: int


@dataclass(frozen=True, slots=True)
class SplitEnd:
    """A split of a source has ended.

    >>> SplitEnd("file-1")
    SplitEnd(split='file-1')
    """

    split: str


Step = Rows | Until | Clock | SplitEnd
StreamChain = Sequence[Step]


@dataclass(slots=True)
class Outcome:
    """What an operator put out: rows, and rows aside by tag.

    >>> rows = pa.record_batch({"a": [1, 2]})
    >>> Outcome([rows], {"late": [rows]}).multisets()
    {'': ["{'a': 1}", "{'a': 2}"], 'late': ["{'a': 1}", "{'a': 2}"]}
    """

    rows: Batches = field(default_factory=list)
    sides: dict[str, Batches] = field(default_factory=dict)

    def add(self, other: Outcome) -> None:
        """Append what came after.

        >>> outcome = Outcome()
        >>> outcome.add(Outcome([pa.record_batch({"a": [1, 2]})]))
        >>> len(outcome.rows)
        1
        """
        self.rows += other.rows
        for tag, rows in other.sides.items():
            self.sides.setdefault(tag, []).extend(rows)

    def multisets(self) -> dict[str, list[str]]:
        """All rows as texts, sorted, by tag; "" are the main ones. Two outcomes compare by them.

        >>> Outcome([pa.record_batch({"a": [2, 1]})]).multisets()
        {'': ["{'a': 1}", "{'a': 2}"]}
        """
        return {tag: _lines(rows) for tag, rows in {"": self.rows, **self.sides}.items() if rows}


@dataclass(slots=True)
class Kept:
    """One snapshot in memory: what is written to it is what is read from it.

    A name that is written twice is an `AssertionError`, one that is not there a `KeyError`.

    >>> kept = Kept()
    >>> kept.put("count", b"7")
    >>> kept.names(), kept.read("count").to_pybytes()
    (['count'], b'7')
    """

    files: dict[str, pa.Buffer] = field(default_factory=dict)
    key_groups: range = range(N_KEY_GROUPS)

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """See `SnapshotWriter`."""
        assert name not in self.files, f"{name} was written twice"
        self.files[name] = pa.py_buffer(bytes(data))

    def link(self, name: str, path: Path, content: str) -> None:
        """See `SnapshotWriter`; read at once."""
        self.put(name, path.read_bytes())

    def names(self) -> list[str]:
        """See `SnapshotReader`."""
        return sorted(self.files)

    def read(self, name: str) -> pa.Buffer:
        """See `SnapshotReader`."""
        return self.files[name]

    def fetch(self, name: str, to: Path, *, fixed: bool = False) -> None:
        """See `SnapshotReader`."""
        to.write_bytes(self.files[name])


class Sinks(Protocol):
    """The sinks of an operator's tasks, see `run_rescaled`."""

    def begin(self, turn: int, n_tasks: int) -> None:
        """So many tasks begin, with what the ones before had at their last barrier."""

    def write(self, task: int, batch: pa.RecordBatch) -> None:
        """A task puts out rows."""

    def barrier(self, turn: int) -> None:
        """All tasks have come to their last barrier, or to the end of their rows."""


def check_operator(
    make: Make,
    steps: StreamChain,
    *,
    keys: Sequence[str] | None = None,
    n_inputs: int = 1,
    tasks: Sequence[int] = (2, 3, 1),
    abort_at: Sequence[int] | None = None,
    behind: int = 0,
    broadcast: Collection[int] = (),
    context: Context = _TESTED,
) -> Outcome:
    """Run in all ways and refuse any difference; returns what came out straight.

    Parameters
    ----------
    make
        A new operator, not opened.
    steps
        What comes in; the end of all inputs follows by itself.
    keys
        Columns by whose hash rows go to tasks; none: all to the first. None: any task may have
        any row (by split, else in turn).
    tasks
        The numbers of tasks one after another, each for its share of the steps; none: not rescaled.
    abort_at
        The steps at which a failure is tried; None: each.
    behind
        By how many steps every other task is behind when the number of tasks changes, as at a
        checkpoint that is not aligned: those rows come to the next tasks. Only for results that
        not depend on whether rows or a watermark come first.
    broadcast
        Inputs whose rows go to all tasks. No task is behind with these.
    context
        Where the operator runs; each attempt has a folder of its own in that of the context.

    Examples
    --------
    >>> from fabric.operators.row_operators import UnionOperator
    >>> rows = pa.record_batch({"a": [1, 2, 3]})
    >>> make = lambda: UnionOperator([rows.schema], rows.schema)
    >>> len(check_operator(make, [Rows(rows), Until(5), Rows(rows)], keys=["a"]).rows)
    2
    """
    straight = run_straight(make, steps, n_inputs, context)
    expected = straight.multisets()
    for at in range(len(steps)) if abort_at is None else abort_at:
        aborted = run_aborted(make, steps, at, n_inputs, context)
        _same(aborted, expected, f"aborted at step {at}")
    for lag in {0, behind} if tasks else ():
        scaled = run_rescaled(
            make, steps, tasks, keys=keys, n_inputs=n_inputs, behind=lag, broadcast=broadcast,
            context=context,
        )  # fmt: skip
        _same(scaled, expected, f"rescaled to {tasks} tasks, some of them {lag} steps behind")
    return straight


def run_straight(
    make: Make, steps: StreamChain, n_inputs: int = 1, context: Context = _TESTED
) -> Outcome:
    """What the operator puts out when nothing goes wrong.

    >>> from fabric.operators.row_operators import LimitOperator
    >>> rows = Rows(pa.record_batch({"a": [1, 2, 3]}))
    >>> [b.num_rows for b in run_straight(lambda: LimitOperator(4, 0), [rows, rows]).rows]
    [3, 1]
    """
    operator = _opened(make, context, splits=_splits(steps))
    out = Outcome()
    for step in steps:
        out.add(_done(operator, step))
    out.add(_ended(operator, n_inputs))
    return out


def run_aborted(
    make: Make, steps: StreamChain, abort_at: int, n_inputs: int = 1, context: Context = _TESTED
) -> Outcome:
    """The same with a failure while step `abort_at` is worked on, and a restore.

    >>> from fabric.operators.row_operators import LimitOperator
    >>> rows = Rows(pa.record_batch({"a": [1, 2, 3]}))
    >>> [b.num_rows for b in run_aborted(lambda: LimitOperator(4, 0), [rows, rows], 1).rows]
    [3, 1]
    """
    splits = _splits(steps)
    operator, published = _opened(make, context, splits=splits), Outcome()
    state, begin = Kept(), max(0, abort_at - 1)
    for checkpoint, step in enumerate(steps[: abort_at + 1]):
        if checkpoint <= begin:
            state = _state(operator, checkpoint)
            operator.on_complete(checkpoint)
        found = _done(operator, step)
        if checkpoint < begin:
            published.add(found)
    operator.on_abort(begin + 1)
    operator.close()
    again = _opened(make, context, splits=splits)
    again.restore([state] if state.files else [], range(N_KEY_GROUPS))
    for step in [*_last(Clock, steps[:begin]), *steps[begin:]]:
        published.add(_done(again, step))
    published.add(_ended(again, n_inputs))
    return published


def run_rescaled(
    make: Make,
    steps: StreamChain,
    tasks: Sequence[int],
    *,
    keys: Sequence[str] | None = None,
    n_inputs: int = 1,
    sinks: Sinks | None = None,
    behind: int = 0,
    broadcast: Collection[int] = (),
    context: Context = _TESTED,
) -> Outcome:
    """Each share of the steps on another number of tasks, which take over the state before.

    What each task puts out goes to `sinks` as well. For the rest see `check_operator`.

    >>> from fabric.operators.row_operators import UnionOperator
    >>> rows = pa.record_batch({"a": [1, 2, 3]})
    >>> make = lambda: UnionOperator([rows.schema], rows.schema)
    >>> found = run_rescaled(make, [Rows(rows), Rows(rows)], tasks=(1, 2), keys=["a"])
    >>> sum(batch.num_rows for batch in found.rows)
    6
    """
    splits, out = _splits(steps), Outcome()
    states: list[Kept] = []
    operators: list[Operator] = []
    in_flight: list[Rows] = []
    for turn, n_tasks in enumerate(tasks):
        if sinks is not None:
            sinks.begin(turn, n_tasks)
        operators = [
            _opened(make, replace(context, task=i, n_tasks=n_tasks), splits[i::n_tasks])
            for i in range(n_tasks)
        ]
        for i, operator in enumerate(operators):
            operator.restore(states, key_groups(i, n_tasks))
        begin, end = (len(steps) * at // len(tasks) for at in (turn, turn + 1))
        came: list[list[Step]] = [[] for _ in operators]
        told = _last(Until, steps[:begin]) if turn + 1 == len(tasks) else []
        sent = [*in_flight, *told]  # before, a watermark is still on its way
        in_flight = []
        for number, step in enumerate([*_last(Clock, steps[:begin]), *sent, *steps[begin:end]]):
            to_all = isinstance(step, Rows) and step.input in broadcast
            routed = [(task, step) for task in range(n_tasks)] if to_all else None
            for task, share in routed or _routed(step, n_tasks, keys, splits, number):
                came[task].append(share)
        for task, shares in enumerate(came):
            lag = behind if (turn + task) % 2 == 0 and turn + 1 < len(tasks) else 0
            left = _since_clock(shares, lag)
            late = [share for share in shares[left:] if isinstance(share, Rows)]
            in_flight += [share for share in late if share.input not in broadcast]
            for share in [*shares[:left], *(share for share in late if share.input in broadcast)]:
                out.add(_sunk(_done(operators[task], share), task, sinks))
        if turn + 1 < len(tasks):
            kept = [_state(each, turn, key_groups(i, n_tasks)) for i, each in enumerate(operators)]
            states = [state for state in kept if state.files]
            for operator in operators:
                operator.close()
            if sinks is not None:
                sinks.barrier(turn)
    for task, operator in enumerate(operators):
        out.add(_sunk(_ended(operator, n_inputs), task, sinks))
    if sinks is not None:
        sinks.barrier(len(tasks) - 1)
    return out


def _sunk(found: Outcome, task: int, sinks: Sinks | None) -> Outcome:
    if sinks is not None:
        for batch in found.rows:
            sinks.write(task, batch)
    return found


def _same(found: Outcome, expected: dict[str, list[str]], how: str) -> None:
    rows = found.multisets()
    for tag in sorted(rows.keys() | expected.keys()):
        missing = _less(expected.get(tag, []), rows.get(tag, []))
        extra = _less(rows.get(tag, []), expected.get(tag, []))
        differs = f"{how}, output {tag!r} lacks {missing[:5]} and has besides {extra[:5]}"
        wrong = missing + extra
        assert not wrong, differs


def _less(rows: list[str], others: list[str]) -> list[str]:
    return sorted((Counter(rows) - Counter(others)).elements())


def _lines(batches: Batches) -> list[str]:
    return sorted(repr(row) for batch in batches for row in batch.to_pylist())


def _last(kind: type[Until] | type[Clock], steps: StreamChain) -> StreamChain:
    """The last step of a kind, if there is one: what a task is told anew when it begins again."""
    return [step for step in steps if isinstance(step, kind)][-1:]


def _since_clock(steps: StreamChain, n: int) -> int:
    """Where the last `n` steps begin, or those after the clock: what time it was would change."""
    clocks = (number + 1 for number, step in enumerate(steps) if isinstance(step, Clock))
    return max(len(steps) - n, *clocks, 0)


def _splits(steps: StreamChain) -> tuple[str, ...]:
    """All splits, in order of their first rows."""
    return tuple(
        dict.fromkeys(s.split for s in steps if isinstance(s, Rows | SplitEnd) and s.split)
    )


def _routed(
    step: Step, n_tasks: int, keys: Sequence[str] | None, splits: Sequence[str], number: int
) -> list[tuple[int, Step]]:
    """Which task gets what of a step."""
    if isinstance(step, SplitEnd):
        return [(splits.index(step.split) % n_tasks, step)]
    if not isinstance(step, Rows):
        return [(task, step) for task in range(n_tasks)]
    if keys is None:
        return [((splits.index(step.split) if step.split else number) % n_tasks, step)]
    if not keys:
        return [(0, step)]
    of = partition_of(hash_columns([step.batch.column(key) for key in keys]), n_tasks)
    masks = ((task, of == task) for task in range(n_tasks))
    return [
        (task, replace(step, batch=step.batch.filter(pa.array(mask))))
        for task, mask in masks
        if np.any(mask)
    ]


def _opened(make: Make, context: Context, splits: tuple[str, ...] = ()) -> Operator:
    operator = make()
    folder = None if context.folder is None else context.folder / uuid.uuid4().hex
    operator.open(replace(context, folder=folder, splits=splits))
    return operator


def _state(operator: Operator, checkpoint: int, key_groups: range = range(N_KEY_GROUPS)) -> Kept:
    kept = Kept(key_groups=key_groups)
    operator.on_barrier(checkpoint).write(kept)
    return kept


def _done(operator: Operator, step: Step) -> Outcome:
    """What one step puts out."""
    match step:
        case Rows(batch=batch, input=index, split=split):
            if split:
                operator.on_split(split)
            rows = operator.on_batch(index, batch)
        case Until(time_us=time_us):
            rows = operator.on_watermark(time_us)
        case Clock(now_us=now_us):
            rows = operator.on_time(now_us)
        case SplitEnd(split=split):
            operator.on_split_end(split)
            rows = []
    return Outcome(list(rows) + _rest(operator), operator.take_side())


def _rest(operator: Operator) -> Batches:
    rows = Batches()
    while operator.has_more:
        rows += operator.more()
    return rows


def _ended(operator: Operator, n_inputs: int) -> Outcome:
    rows = list(operator.on_watermark(END_OF_TIME)) + _rest(operator)
    for index in range(n_inputs):
        rows += [*operator.on_end(index), *_rest(operator)]
    sides = operator.take_side()
    operator.close()
    return Outcome(rows, sides)
