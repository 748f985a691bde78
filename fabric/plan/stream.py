"""What nodes know of endless rows: `Stream`, the names that streams use, and shared refusals.

A `Stream` holds event time, ends of windows and changing results. Each node says what it makes of
those of its input.

Two hidden columns travel with the rows inside a job, and users never see them: `WATERMARK`, how far
event time had come in the row's split before the row, and `KIND`, what the row does to earlier
results. The planner adds them where a node above needs them: last of all, and in this order. Times
are microseconds since the epoch, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.expr import Expr, kept_names
from fabric.plan.faults import quoted

WATERMARK = "__watermark"
"""int64: the most event time of earlier rows of the row's split, less the bound."""
KIND = "__kind"
"""int8: an index into `KINDS`; without it every row is an insert."""
HIDDEN = (WATERMARK, KIND)
RESERVED = (*HIDDEN, "__rank", "__last", "__hash", "__time", "__domain", "__key_group")
"""Names that no column of a stream may have; the last six are in the state of steps by key."""
KINDS = ("+I", "-U", "+U", "-D")
HIDDEN_TYPES = {WATERMARK: pa.int64(), KIND: pa.int8()}

BAD, LATE, ERRORS, UNREADABLE = "bad", "late", "errors", "unreadable"
"""Tags: rows without usable event time, rows behind the watermark, rows a function failed on, parts
of files that can't be read."""
LATE_LEFT, LATE_RIGHT = "late_left", "late_right"
"""Tags, and counts: late rows of each side of a join."""
STILL_LEFT, STILL_RIGHT = "still_left", "still_right"
"""Counts: tasks in which the watermark of a side of a join has not moved for a minute."""
TIMEOUT = "timeout"
"""Tag: matches that were begun and not completed in time."""
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

OnBad = Literal["fail", "skip", "side"]


@dataclass(frozen=True, slots=True)
class Stream:
    """Endless rows. `time` is their column of event time, if there is one yet or still.

    `ends` are columns that hold ends of windows which are complete: a row is as old as just before
    them. `keys`: columns that changing results are told apart by. `split`: rows are still told
    apart by the split they came from. `changes`: a row may replace an earlier one. `sinks`: they
    were written already.
    """

    time: str = ""
    ends: frozenset[str] = frozenset()
    timed: bool = False
    split: bool = False
    changes: bool = False
    sinks: bool = False
    keys: tuple[str, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> Stream:
        """The same rows with other columns: their new names, of those that are left."""
        ends = frozenset(names[name] for name in self.ends if name in names)
        known = all(key in names for key in self.keys)
        keys = tuple(names[key] for key in self.keys) if known else ()
        return replace(self, time=names.get(self.time, ""), ends=ends, keys=keys)

    def check_append_only(self, what: str) -> None:
        """Refuse changing results below `what`."""
        if self.changes:
            raise PlanError(
                f"{what} can't take changing results: the rows below replace earlier ones. Give "
                'the aggregate below a window: .group_by(…).window("1 hour").agg(…), or go on '
                "with .changes(), which makes each change a row of its own"
            )

    def check_timed(self, what: str) -> None:
        """Refuse rows without event time."""
        if not self.timed:
            raise PlanError(
                f"{what} needs event time; write, right after read_stream: "
                '.with_watermark("ts", "5 seconds") with the column of times'
            )

    def check_time(self, column: str) -> None:
        """Refuse a column that is not event time, nor the end of a window."""
        if column == self.time or column in self.ends:
            return
        if not self.time:
            raise PlanError(
                "the column of event time was left out or changed by an earlier step; keep it as "
                "it is"
            )
        raise PlanError(
            f"windows go by event time, which is {quoted(self.time)}, not {quoted(column)}"
        )


def closing(keys: Sequence[Expr], stream: Stream) -> str:
    """The key by which groups are complete one day: one that is the end of a window below."""
    names = kept_names(keys)
    return next((names[end] for end in sorted(stream.ends) if end in names), "")


def endless(what: str, way: str) -> PlanError:
    """The refusal of a step that needs the end of its rows."""
    return PlanError(f"a stream counts as endless, so {what}; {way}")


def two_streams(left: Stream, right: Stream) -> PlanError:
    """The refusal of a join of two streams that would never know when a row has all its partners.

    >>> two_streams(Stream(time="at"), Stream(time="ts")).message.partition("write: ")[2]
    '.join_interval(other, "at", (col("ts"), col("ts") + timedelta(minutes=5)), by="id"); or join \
windows: let the end of a window be a key on both sides; or keep rows for a while, .join(other, \
on="id", ttl="1 day"), whose results change'
    """
    if not (left.time or left.ends) or not (right.time or right.ends):
        return PlanError(
            "a join of two streams goes by event time, which a side has not, or which an earlier "
            "step left out or changed; write, right after each read_stream: "
            '.with_watermark("ts", "5 seconds"), and keep that column as it is'
        )
    a, b = (quoted(stream.time or min(stream.ends)) for stream in (left, right))
    return PlanError(
        "a join of two streams would keep all rows of both for ever, as nothing says how far apart "
        f"in time partners are; write: .join_interval(other, {a}, (col({b}), col({b}) + "
        'timedelta(minutes=5)), by="id"); or join windows: let the end of a window be a key on '
        'both sides; or keep rows for a while, .join(other, on="id", ttl="1 day"), whose results '
        "change"
    )


def turned_round() -> PlanError:
    """The refusal of a join of a table with a stream."""
    return PlanError(
        "a table can't be joined with a stream, only a stream with a table; write: "
        "stream.join(table, …)"
    )
