"""Event-time aggregates row by row in plain Python: what the operators are compared with.

One job: `answers`, and the steps in which the same rows come to an operator. Rows lie in splits;
row r of a split carries the most time of the rows before it less the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from fabric.event_time import BEGINNING
from fabric.operators.contract import Batches
from fabric.plan.event_windows import Cumulative, Session, Sliding, Tumbling, Window
from fabric.plan.stream import KIND, WATERMARK
from fabric.testing.operators import Clock, Rows, Step, Until

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("t", TIME), (WATERMARK, pa.int64())])


@dataclass(frozen=True)
class Row:
    """A row as the model sees it; `watermark` is what it carries."""

    key: str
    value: int
    time: int
    watermark: int


Split = list[Row]
Found = Counter[tuple[object, ...]]


def random_run(rng: Random, keys: str = "ab") -> tuple[list[Step], list[Row]]:
    """StreamChain of a run over some splits, and its rows; watermarks never pass what rows carry.

    >>> steps, rows = random_run(Random(1))
    >>> sum(len(step.batch) for step in steps if isinstance(step, Rows)) == len(rows)
    True
    """
    bound = rng.randint(0, 6)
    splits = [list(_split(rng, keys, bound)) for _ in range(rng.randint(0, 3))]
    begun, steps, now = [0] * len(splits), list[Step](), 1_000
    while left := [i for i, split in enumerate(splits) if begun[i] < len(split)]:
        which = rng.choice(left)
        taken = splits[which][begun[which] :][: rng.randint(1, 6)]
        steps.append(Rows(batch_of(taken)))
        begun[which] += len(taken)
        match rng.randint(0, 3):
            case 0:
                now += rng.randint(1, 150)
                steps.append(Clock(now))
            case 1 | 2:
                steps.append(Until(_least(splits, begun, bound)))
    return steps, [row for split in splits for row in split]


def _split(rng: Random, keys: str, bound: int) -> Iterator[Row]:
    """Rows whose time goes up by what is drawn, and down again."""
    most, time = BEGINNING, 0
    for _ in range(rng.randint(0, 12)):
        time += rng.randint(-3, 8)
        known = most if most == BEGINNING else most - bound
        yield Row(rng.choice(keys), rng.randint(0, 3), time, known)
        most = max(most, time)


def _least(splits: Sequence[Split], begun: Sequence[int], bound: int) -> int:
    """The least over the splits of what has come; one that has ended holds nobody back."""
    open_ = [split[:n] for split, n in zip(splits, begun, strict=True) if n < len(split)]
    most = [max((row.time for row in split), default=BEGINNING + bound) - bound for split in open_]
    return min(most, default=max(row.time for split in splits for row in split) - bound)


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as a batch of `SCHEMA`."""
    return pa.record_batch(
        [
            pa.array([row.key for row in rows], pa.string()),
            pa.array([row.value for row in rows], pa.int64()),
            pa.array([row.time for row in rows], pa.int64()).view(TIME),
            pa.array([row.watermark for row in rows], pa.int64()),
        ],
        schema=SCHEMA,
    )


def windows_of(window: Window, time: int) -> list[tuple[int, int]]:
    """All windows of fixed length that a time is in, found by looking at all near it."""
    match window:
        case Tumbling(size_us=size, offset_us=offset):
            begins, lengths = range(offset, offset + 1, 1), [size]
            slide = size
        case Sliding(size_us=size, slide_us=slide, offset_us=offset):
            lengths = [size]
        case Cumulative(size_us=size, step_us=step, offset_us=offset):
            slide, lengths = size, list(range(step, size + 1, step))
        case _:
            raise AssertionError(window)
    first = (time - size - offset) // slide - 1
    begins = range(first * slide + offset, time + 1, slide)
    return [(b, b + n) for b in begins for n in lengths if b <= time < b + n]


def answers(rows: Sequence[Row], window: Window, lateness: int, *, keyed: bool) -> Found:
    """Key, start, end, count and sum of each window; ("late", key, value, time) of late rows."""
    groups: dict[tuple[object, ...], list[int]] = {}
    found: Found = Counter()
    times: dict[str, list[Row]] = {}
    for row in rows:
        key = row.key if keyed else ""
        if isinstance(window, Session):
            spans = [(row.time, row.time + window.gap_us)]
        else:
            spans = windows_of(window, row.time)
        spans = [span for span in spans if span[1] + lateness > row.watermark]
        if not spans:
            found["late", row.key, row.value, row.time] += 1
        elif isinstance(window, Session):
            times.setdefault(key, []).append(row)
        else:
            for span in spans:
                groups.setdefault((key, *span), []).append(row.value)
    if isinstance(window, Session):
        for key, members in times.items():
            groups.update(_sessions(key, members, window.gap_us))
    found.update((*group, len(values), sum(values)) for group, values in groups.items())
    return found


def _sessions(key: str, rows: list[Row], gap: int) -> dict[tuple[object, ...], list[int]]:
    found: dict[tuple[object, ...], list[int]] = {}
    session: list[Row] = []
    for row in sorted(rows, key=lambda row: row.time):
        if session and row.time - session[-1].time > gap:
            found[key, session[0].time, session[-1].time + gap] = [r.value for r in session]
            session = []
        session.append(row)
    found[key, session[0].time, session[-1].time + gap] = [r.value for r in session]
    return found


def folded(batches: Batches, *, keyed: bool) -> Found:
    """What is left of results when later ones have taken the place of earlier ones."""
    found: Found = Counter()
    for batch in batches:
        visible = [name for name in batch.schema.names if name != KIND]
        kinds = batch.column(KIND).to_pylist() if KIND in batch.schema.names else [0] * len(batch)
        for kind, values in zip(kinds, rows_of(batch.select(visible)), strict=True):
            row = values if keyed else ("", *values)
            if kind in (0, 2):
                found[row] += 1
            else:
                assert found[row] > 0, f"{row} goes before it came"
                found[row] -= 1
    return +found


def rows_of(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    """Rows with times as integers."""
    columns = [c.view(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in batch.columns]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def late_rows(batches: Batches) -> Found:
    """Rows put aside, as `answers` names them."""
    return Counter(("late", *row) for batch in batches for row in rows_of(batch))
