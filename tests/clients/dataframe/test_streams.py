"""The API of streams: what each call makes, and what is refused with the line to write."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import DataFrame, Process, col, count, streams
from fabric.errors import FabricError, PlanError
from fabric.plan.event_windows import Count, Cumulative, Session, Sliding, Trigger, Tumbling
from fabric.plan.expr import Agg, Alias, Column, SortKey
from fabric.plan.nodes import (
    AssignWindows,
    Changes,
    Deduplicate,
    KeyedProcess,
    LookupJoin,
    Node,
    Plan,
    Select,
    SideOutput,
    Sink,
    StateField,
    StreamAggregate,
    StreamScan,
    TopN,
    Union,
    Watermark,
)
from fabric.plan.sources import (
    FlightStream,
    FollowedFiles,
    GeneratorStream,
    NexmarkStream,
    ReplayStream,
)
from fabric.plan.targets import DatasetTarget, FlightTarget, StreamFileTarget
from fabric.plan.walk import walk

SECOND = 1_000_000
K = Column("key")


def rows(**given: Any) -> DataFrame:
    return streams.generator(n_rows=100, **given)


def timed() -> DataFrame:
    return rows().with_watermark("ts", "2 seconds")


def root(frame: DataFrame) -> Any:
    return frame.plan.root


def below(frame: DataFrame, kind: type[Node]) -> Any:
    (found,) = (node for node in walk(frame.plan.root) if isinstance(node, kind))
    return found


# ---- sources
def test_generators() -> None:
    frame = streams.generator(rows_per_s=5, n_keys=3, n_splits=2, seed=9, disorder="1 second",
                              start=datetime.datetime(1970, 1, 1, 0, 0, 1))  # fmt: skip
    assert root(frame).source == GeneratorStream(5, 0, 3, 2, 9, SECOND, SECOND)
    assert root(streams.nexmark("bid", n_events=10)).source == NexmarkStream("bid", n_events=10)
    assert streams.nexmark().columns
    with pytest.raises(PlanError, match='write: table="person"'):
        streams.nexmark("persons")  # type: ignore[arg-type]


def test_files_as_they_come(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "one.parquet")
    frame = fabric.read_stream(tmp_path, poll="2 seconds", settle="500 ms", n_splits=3)
    assert root(frame).source == FollowedFiles("parquet", str(tmp_path), False, "", 3, 2.0, 0.5)
    assert frame.columns == ["a"]
    empty = fabric.read_stream(tmp_path / "x", format="csv", schema={"b": "int64"}, delimiter=";")
    assert root(empty).source.options == (("delimiter", ";"),)
    assert empty.schema == pa.schema([("b", pa.int64())])
    with pytest.raises(PlanError, match=r'can\'t tell the format.*write: format="parquet"'):
        fabric.read_stream(tmp_path / "x", schema={"b": "int64"})
    with pytest.raises(PlanError, match="until='soon' is not valid"):
        fabric.read_stream(tmp_path, until="soon")


def test_a_table_once_more() -> None:
    table = DataFrame({"ts": [datetime.datetime(2024, 1, 1)], "origin": ["JFK"]})
    replayed = streams.replay(table, "ts", split_by="origin", speed=2.0)
    assert root(replayed).source == ReplayStream(root(table).source, "ts", "origin", speed=2.0)
    with pytest.raises(PlanError, match='no column "tss"'):
        streams.replay(table, "tss")
    with pytest.raises(PlanError, match="replay takes what was just read"):
        streams.replay(table.filter(col("origin") == "JFK"), "ts")
    with pytest.raises(PlanError, match=r"becomes a stream by fabric\.streams\.replay"):
        fabric.read_stream(table)  # type: ignore[arg-type]


def test_flight_and_descriptions() -> None:
    clicks = streams.flight("clicks", {"at": "timestamp[us]"}, acknowledge="received")
    assert root(clicks).source == FlightStream("clicks", "received")
    assert root(fabric.read_stream(GeneratorStream(n_rows=3))).source.n_rows == 3


# ---- event time
def test_event_time() -> None:
    frame = rows().with_watermark("ts", "1 minute", idle="5 seconds", future="1 hour",
                                  drift=datetime.timedelta(seconds=3), on_bad="side",
                                  every="1 second")  # fmt: skip
    assert root(frame) == Watermark(
        root(frame).input, "ts", 60 * SECOND, 5 * SECOND, 3600 * SECOND, "bounded", None, "side",
        SECOND, 3 * SECOND,
    )  # fmt: skip
    own = root(rows().with_watermark("ts", strategy=lambda times: times))
    assert own.strategy == "custom"
    assert own.function.kind == "object"
    with pytest.raises(PlanError, match='write: strategy="monotonic"'):
        rows().with_watermark("ts", strategy="monotone")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r'no column "tss".* write: \.with_watermark\("ts"\)'):
        rows().with_watermark("tss")
    with pytest.raises(PlanError, match='bound is a length of time, got 5; write: bound="5 second'):
        rows().with_watermark("ts", 5)  # type: ignore[arg-type]


WINDOWS: list[tuple[tuple[Any, ...], dict[str, Any], object]] = [
    (("1 second",), {}, Tumbling(SECOND)),
    (("1 second",), {"offset": "1 ms"}, Tumbling(SECOND, 1000)),
    (("4 seconds",), {"slide": "1 second"}, Sliding(4 * SECOND, SECOND)),
    (("4 seconds",), {"step": "1 second"}, Cumulative(4 * SECOND, SECOND)),
    ((fabric.session("1 second"),), {}, Session(SECOND)),
    ((fabric.count_window(5),), {}, Count(5)),
    ((fabric.sliding("2 seconds", "1 second", offset="1 second"),), {},
     Sliding(2 * SECOND, SECOND, SECOND)),
]  # fmt: skip


@pytest.mark.parametrize(("given", "options", "window"), WINDOWS)
def test_windows(given: tuple[Any, ...], options: dict[str, Any], window: object) -> None:
    node = root(timed().group_by("key").window(*given, **options).agg(n=count()))
    assert node.window == window
    assert node.time == ("" if isinstance(window, Count) else "ts")
    assert node.keys == (K,)


def test_when_windows_give_results() -> None:
    node = root(timed().group_by("key").window(
        "1 second", lateness="3 seconds", late="side", updates=True, early="100 ms", early_rows=7,
    ).count())  # fmt: skip
    assert node.trigger == Trigger(100_000, 7, "each")
    assert (node.lateness_us, node.late) == (3 * SECOND, "side")
    assert root(rows().window("1 second", time="processing").count()).time == ""


def test_arithmetic_around_aggregates_keeps_the_window() -> None:
    rate = timed().group_by("key").window("1 second").agg(mean=col("value").sum() / count())
    assert isinstance(root(rate), Select)
    assert rate.columns == ["key", "window_start", "window_end", "mean"]


def test_groups_close_at_the_end_of_windows_below() -> None:
    minutes = timed().group_by("key").window("1 minute").agg(n=count())
    totals = minutes.group_by("window_end").agg(n=col("n").sum())
    assert root(totals).closes == "window_end"
    assert root(minutes.top_n(1, by="n", keys=["window_end"])).closes == "window_end"
    assert root(minutes.group_by("key").agg(n=col("n").sum())).closes == ""
    busy = timed().assign_windows("1 minute").deduplicate("key", "window_end", keep="last", by="ts")
    assert root(busy).closes == "window_end"
    busy.plan  # noqa: B018


def test_keyed_steps() -> None:
    first = root(rows().deduplicate("key", ttl="1 hour"))
    assert first == Deduplicate(first.input, (K,), "first", "", 3600 * SECOND)
    assert root(rows().distinct("key")) == Deduplicate(first.input, (K,))
    assert len(root(rows().distinct()).keys) == 5
    best = root(timed().top_n(3, by=col("value").desc(), keys="key", ties=True, rank="place"))
    order = (SortKey(Column("value"), descending=True, nulls_last=True),)
    assert best == TopN(best.input, (K,), order, 3, True, "place")
    assert isinstance(root(rows().group_by("key").count().changes()), Changes)


class Seen(Process):
    def on_rows(self, ctx: Any, key: Any, rows: pa.RecordBatch) -> None:
        """Nothing."""

    def on_timer(self, ctx: Any, key: Any, time: int, domain: str) -> None:
        """Nothing."""


class Empty(Process):
    pass


class Timeless(Process):
    def on_batch(self, ctx: Any, keys: pa.RecordBatch, rows: pa.RecordBatch) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (Seen, r"derived from fabric\.Process, not the class Seen; write Seen\(…\)"),
        (len, "not a builtin_function_or_method"),
        (Empty(), "Empty has neither on_rows nor on_batch"),
        (Timeless(), "Timeless has timers and neither on_timer nor on_timers"),
    ],
)
def test_what_is_no_process_is_refused(function: Any, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        rows().process(function, keys="key", schema={"a": "int8"}, timers="event")


def test_process() -> None:
    frame = timed().process(
        Seen(),
        keys="key",
        schema={"key": "int64", "at": "timestamp[us]"},
        state={"seen": streams.map_state("string", "int64", ttl="1 day", ttl_on="read"),
               "n": streams.reducing_state("int64", "sum")},
        timers="event",
        time="at",
        sides={"odd": {"a": "int8"}},
        on_error="side",
        timeout="5 seconds",
    )  # fmt: skip
    node = root(frame)
    assert isinstance(node, KeyedProcess)
    day = 86_400 * SECOND
    assert node.states[0] == StateField("seen", "map", pa.int64(), pa.string(), None, day, "read")
    assert node.states[1].kind == "reducing"
    assert (node.timers, node.time, node.timeout_us) == (("event",), "at", 5 * SECOND)
    assert frame.side_output("odd").columns == ["a"]
    assert frame.side_output("errors").columns[-3:] == ["error", "error_node", "error_attempt"]
    assert frame.window("1 minute").count().columns == ["window_start", "window_end", "count"]
    with pytest.raises(PlanError, match=r"process takes columns as keys; .* write: \.with_columns"):
        rows().process(Seen(), keys=col("key") + 1, schema={"a": "int8"})


def test_side_outputs_are_of_the_last_step_that_has_them() -> None:
    counts = timed().group_by("key").window("1 second", late="side").agg(m=count() * 2)
    side = root(counts.filter(col("m") > 2).side_output("late"))
    assert isinstance(side, SideOutput)
    assert side.input is below(counts, StreamAggregate)
    with pytest.raises(PlanError, match='no side output "late"; it has none'):
        timed().side_output("late")


def test_a_stream_joins_a_table() -> None:
    names = DataFrame({"key": [1], "name": ["one"]})
    joined = timed().join(names, on="key", how="left")
    assert isinstance(root(joined), LookupJoin)
    assert joined.columns[-1] == "name"
    hows: list[Any] = ["right", "full", "cross"]
    for how in hows:
        with pytest.raises(PlanError, match="would have to wait for its end"):
            timed().join(names, on=None if how == "cross" else "key", how=how)
    with pytest.raises(PlanError, match=r"write: stream\.join\(table"):
        names.join(timed(), on="key")


# ---- what needs an end
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: rows().sort("key"), r"can't be sorted; use \.top_n"),
    (lambda: rows().limit(3), r"use \.top_n"),
    (lambda: rows().group_by("key").rollup().count(), "grouping sets are for rows with an end"),
    (lambda: rows().count_rows, "count_rows"),
    (lambda: rows().group_by("key").window("1 second").count(), r"\.with_watermark\(.ts., .5 sec"),
    (lambda: DataFrame({"key": [1]}).group_by("key").window("1 second", time="processing").count(),
     "a window is for streams"),
    (lambda: DataFrame({"key": [1]}).with_watermark("key"), "must be a timestamp"),
    (lambda: timed().group_by("key").window("1 second", time="event time").count(),
     "time='event time' is not valid"),
    (lambda: timed().group_by("key").rollup().window("1 second"), "a window needs plain groups"),
    (lambda: timed().window("1 second", slide="1 ms", step="1 ms"), "not both"),
    (lambda: timed().window(fabric.session("1 second"), slide="1 ms"), "leave slide= out"),
    (lambda: timed().assign_windows(fabric.session("1 second")), r"\.group_by\(…\)\.window"),
    (lambda: timed().select("key").window("1 second").count(), "left out or changed"),
    (lambda: streams.generator().collect(), r'has no end.*write: \.write_stream\("folder"\)'),
    (lambda: rows().write_stream(5), "write_stream takes a folder"),
    (lambda: rows().write_stream("/x", format="xml"), "format='xml' is not valid"),
    (lambda: rows().write_stream("/x", mode="overwrite"), "mode='overwrite' is not valid"),
    (lambda: rows().group_by("key").count().write_stream("/x"), r"write: \.changes\(\)\.write_str"),
    (lambda: rows().write_parquet("/x/y.parquet"), r"write: \.write_stream\("),
    (lambda: rows().write_dataset("d", mode="overwrite"), r"drop it first, and write: \.write_d"),
    (lambda: streams.to_flight("grpc://x"), "to_flight needs a path"),
    (lambda: rows().write_stream("/x", name=5), 'name of a job is text, got 5; write: name="5"'),
    (lambda: rows().write_stream("/x", parallelism="2"), "parallelism='2' is not .* parallelism=2"),
    (lambda: rows().group_by("key").count().count(), r"can't be taken back; write: \.changes\(\)"),
    (lambda: streams.generator().count(), "this stream has no end"),
    (lambda: rows().show(-1), "show: n=-1 is not a whole number of at least 0"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_refused_with_the_way_out(call: Callable[[], Any], text: str) -> None:
    with pytest.raises((FabricError, AttributeError), match=text):
        call()


# ---- writing
class Asked(Exception):
    """What would have been submitted."""

    def __init__(self, plan: Plan, name: str) -> None:
        super().__init__(name)
        self.plan, self.name = plan, name


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Asked]:
    def submit(
        self: DataFrame, name: str, parallelism: int | None, latency: str | None, stream: Any
    ) -> Any:
        raise Asked(self.plan, name)

    monkeypatch.setattr(DataFrame, "_submitted", submit)

    def ask(call: Callable[[], Any]) -> Asked:
        with pytest.raises(Asked) as asked:
            call()
        return asked.value

    return ask


def test_where_streams_are_written(submitted: Callable[[Callable[[], Any]], Asked]) -> None:
    asked = submitted(lambda: timed().write_stream("/data/out", format="ipc", name="mine"))
    assert asked.name == "mine"
    assert isinstance(asked.plan.root, Sink)
    assert asked.plan.root.target == StreamFileTarget("ipc", "/data/out")
    rolled = streams.to_files(
        "/o", roll="1 minute", roll_rows=5, compact="1 hour", compression="zstd"
    )
    assert rolled == StreamFileTarget(
        "parquet",
        "/o",
        roll_rows=5,
        roll_s=60.0,
        compact_s=3600.0,
        options=(("compression", "zstd"),),
    )
    table = submitted(lambda: timed().write_stream(streams.to_dataset("d", keys="key")))
    assert isinstance(table.plan.root, Sink)
    assert table.plan.root.target == DatasetTarget("d", ("key",), mode="create")
    assert table.name == "write stream d"
    more = submitted(lambda: timed().write_stream("/o", mode="append", also={"/l": timed()}))
    assert [sink.target.mode for sink in more.plan.root.inputs] == ["append", "append"]
    into = submitted(lambda: timed().write_stream(streams.to_dataset("d"), mode="append"))
    assert into.plan.root.target == DatasetTarget("d", mode="append")
    away = submitted(lambda: timed().write_stream(streams.to_flight("grpc://h:1", "x", "y")))
    assert away.name == "write stream x/y"
    assert isinstance(away.plan.root, Sink)
    assert away.plan.root.target == FlightTarget("grpc://h:1", ("x", "y"))


def test_several_streams_are_written_by_one_job(
    submitted: Callable[[Callable[[], Any]], Asked],
) -> None:
    counts = timed().group_by("key").window("1 second", late="side").count()
    also: Mapping[Any, DataFrame] = {"/late": counts.side_output("late")}
    made = submitted(lambda: counts.write_stream("/out", also=also)).plan.root
    assert isinstance(made, Union)
    assert [sink.text() for sink in made.inputs] == [
        '.write_stream("/out", format="parquet")',
        '.write_stream("/late", format="parquet")',
    ]
    scans = [node for node in walk(made) if isinstance(node, StreamScan)]
    assert len(scans) == 1
    assert len([node for node in walk(made) if isinstance(node, AssignWindows)]) == 0


def test_several_streams_without_an_end_are_written_by_one_job(
    submitted: Callable[[Callable[[], Any]], Asked],
) -> None:
    made = streams.generator(rows_per_s=10)
    also: Mapping[Any, DataFrame] = {"/late": made.filter(col("value") > 0)}
    root = submitted(lambda: made.write_stream("/out", also=also)).plan.root
    assert [type(part) for part in root.children] == [Sink, Sink]


def test_aggregates_by_name() -> None:
    node = root(rows().group_by("key").agg(total=col("value").sum()))
    assert node == StreamAggregate(node.input, (K,), (Alias(Agg("sum", Column("value")), "total"),))
