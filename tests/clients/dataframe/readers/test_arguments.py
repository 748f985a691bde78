"""Arguments of what makes streams: what is refused by the call, by the name of the argument."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from fabric import DataFrame, Process, col, streams
from fabric.errors import PlanError
from fabric.plan.event_windows import Tumbling

SECOND = 1_000_000
Refusals = list[tuple[Callable[[], Any], str]]


class Seen(Process):
    def on_rows(self, ctx: Any, key: Any, rows: pa.RecordBatch) -> None:
        """Nothing."""


def rows(**given: Any) -> DataFrame:
    return streams.generator(n_rows=100, **given)


def timed() -> DataFrame:
    return rows().with_watermark("ts", "2 seconds")


def process(**given: Any) -> DataFrame:
    return rows().process(Seen(), **({"keys": "key", "schema": {"a": "int8"}} | given))


TABLE = DataFrame({"ts": [datetime.datetime(2024, 1, 1)]})
ARGUMENTS: Refusals = [
    # numbers
    (lambda: rows().top_n("3", by="value"),
     "top_n: n='3' is not a whole number of at least 1; .* n=3"),
    (lambda: rows().top_n(2.5, by="value"), r"top_n: n=2\.5 is not a whole number"),
    (lambda: rows().top_n(True, by="value"), "top_n: n=True is not a whole number"),
    (lambda: rows(rows_per_s=-1), "generator: rows_per_s=-1 is not a whole number of at least 0"),
    (lambda: streams.generator(n_rows="10"), "n_rows='10' is not .*; write: n_rows=10"),
    (lambda: rows(n_keys=0), "n_keys=0 is not a whole number of at least 1"),
    (lambda: rows(n_splits=1 << 64), "n_splits=18446744073709551616 is not a whole number"),
    (lambda: rows(seed="x"), "seed='x' is not a whole number of at least"),
    (lambda: streams.nexmark(n_events=-1), "nexmark: n_events=-1 is no"),
    (lambda: streams.nexmark(event_rate=0), "nexmark: event_rate=0 is no"),
    (lambda: streams.files("/x", format="csv", n_splits="2"), "files: n_splits='2'"),
    (lambda: streams.flight("x", {"a": "int8"}, buffer_bytes=-1), "flight: buffer_bytes=-1"),
    (lambda: streams.replay(TABLE, "ts", speed="2x"), "replay: speed='2x' is not a number"),
    (lambda: streams.replay(TABLE, "ts", speed=-1), "replay: speed=-1 is not a number of at"),
    (lambda: streams.to_dataset("d", n_partitions=-1), "n_partitions=-1 is not a whole number"),
    (lambda: rows().exchange(n_partitions=None), "exchange: n_partitions=None is not a whole"),
    (lambda: rows().write_dataset("d", mode="append", replicas="2"), "replicas='2' .* replicas=2"),
    (lambda: streams.to_files("/x", roll_rows=-1), "to_files: roll_rows=-1 is not a whole number"),
    (lambda: timed().window("1 second", early_rows="5"), "early_rows='5' is not .* early_rows=5"),
    (lambda: streams.count_window("5"), "rows of a count window must be a whole number, got '5'"),
    # schemas, states, sides
    (lambda: process(schema=["a"]),
     r"process: schema is the type of each .* got \['a'\]; write: sch"),
    (lambda: process(schema=None), "process: schema is .* got None"),
    (lambda: process(schema={1: "int8"}), "process: schema is .* got {1: 'int8'}"),
    (lambda: process(sides=["a"]), r"sides are schemas by tag, got \['a'\]; write: sides="),
    (lambda: process(sides={"odd": ["a"]}), r"process: sides is the type of .* got \['a'\]"),
    (lambda: streams.files("/x", format="csv", schema=["a"]), r"schema is .* got \['a'\]"),
    (lambda: streams.flight("x", 5), "flight: schema is the type of each column .* got 5"),
    (lambda: process(state={"n": "int64"}),
     r'got {\'n\': \'int64\'}; write: state={"n": streams\.value_state\("int64"\)}'),
    (lambda: process(state=streams.value_state("int64")),
     r"process: state is .* write: state={\"n\""),
    (lambda: process(state=["n"]), r"process: state is one of fabric\.streams\.value_state, list_"),
    (lambda: streams.value_state("int64", ttl_on="reads"), "ttl_on='reads' is not .* ttl_on=.read"),
    (lambda: streams.reducing_state("int64", "avg"), "function='avg' is not valid; use 'sum'"),
    (lambda: streams.reducing_state("int64", 5), "'last' or a function of two values, got 5"),
    (lambda: streams.reducing_state("string", "sum"), "numbers have a sum, string has not"),
    (lambda: streams.aggregating_state("int64", "sum"),
     r"takes a fabric\.state\.Aggregate, got 'sum'"),
    # times and names
    (lambda: rows(start="2024-01-01"),
     r"start is a datetime, got '2024-01-01'; write: start=datetime\.datetime\(2024, 1, 1, 0, 0\)"),
    (lambda: streams.nexmark(start=5), "nexmark: start is a datetime, got 5"),
    (lambda: rows().with_watermark(col("ts")), r'names of columns, got col\("ts"\); write: "ts"'),
    (lambda: rows().with_watermark(col("ts") + 1), "with_watermark takes names of columns, got"),
    (lambda: rows().deduplicate("key", by=col("ts")), "deduplicate takes names of columns"),
    (lambda: streams.replay(TABLE, col("ts")), 'replay takes names of columns.*; write: "ts"'),
    (lambda: process(time=col("a")), 'process takes names of columns.*; write: "a"'),
    (lambda: rows().with_watermark("ts", "7 seconds", strategy="monotonic"),
     "bound='7 seconds' says nothing where another strategy"),
    (lambda: rows().with_watermark("ts", "7 seconds", strategy=lambda times: times),
     "says nothing"),
    (lambda: rows().with_watermark("ts", datetime.timedelta(seconds=-1)),
     "bound must be at least 0 seconds, got"),
    (lambda: rows().with_watermark("ts", idle="0 seconds"),
     "idle must be at least 1 microsecond, got '0 seconds'; leave idle out for none"),
    (lambda: rows().with_watermark("ts", every="0 seconds"),
     "every must be at least 1 microsecond"),
    (lambda: streams.value_state("int64", ttl="0 seconds"),
     "ttl must be .* leave ttl out for none"),
    (lambda: rows().deduplicate("key", ttl="0 seconds"), "ttl must be .* leave ttl out for none"),
    (lambda: process(timeout="0 seconds"), "timeout must be .* leave timeout out for none"),
    (lambda: timed().window(0), 'window is a length of time, got 0; write: window="1 second"'),
    (lambda: timed().window("0 seconds"), "window must be at least 1 microsecond, got '0 seconds'"),
    (lambda: timed().window("5 parsecs"),
     "window: .* the units are us, ms, s, m, h, d, w, microseconds, .* weeks"),
    (lambda: timed().window("1 second", early=datetime.timedelta()),
     "interval of an early result must"),
    # steps that are missing, or for streams only
    (lambda: timed().group_by("key").window("1 second").write_stream("/x"),
     r"GroupBy has no attribute 'write_stream'; groups .*: \.agg\(n=count\(\)\)\.write_stream"),
    (lambda: timed().window("1 second").filter, r"\.agg\(n=count\(\)\)\.filter"),
    (lambda: timed().window("1 second").nothing, "GroupBy has no attribute 'nothing'$"),
    (lambda: TABLE.group_by("ts").pivot("ts", [1]).show(), "PivotedGroupBy has no .*agg.*show"),
    (lambda: TABLE.window("1 second").count(),
     "a window is for streams, and these rows have an end"),
    (lambda: TABLE.assign_windows("1 second"),
     "assign_windows is for streams, and these rows have"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), ARGUMENTS)
def test_arguments_are_checked_by_the_call(call: Callable[[], Any], text: str) -> None:
    with pytest.raises((PlanError, AttributeError), match=text):
        call()


def test_groups_are_asked_for_what_frames_have() -> None:
    groups = timed().group_by("key")
    assert not hasattr(groups, "show")
    assert hasattr(groups, "agg")


def test_what_means_the_same_by_default() -> None:
    given = rows().with_watermark("ts", "5 seconds").plan.root
    assert rows().with_watermark("ts").plan.root == given
    monotonic: Any = rows().with_watermark("ts", strategy="monotonic").plan.root
    assert monotonic.strategy == "monotonic"
    shifted = streams.tumbling("1 second", offset=datetime.timedelta(seconds=-1))
    counts: Any = timed().window(shifted).count().plan.root
    assert counts.window == Tumbling(SECOND, -SECOND)


def test_a_stream_that_ends_is_counted() -> None:
    assert (rows().count(), rows().is_empty()) == (100, False)
    assert rows().filter(col("key") < 0).is_empty()
