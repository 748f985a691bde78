"""Nodes of streams: random plans pass the check, travel, and are shown as they would be written."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import PlanError
from fabric.plan import plan_pb2 as pb
from fabric.plan.check import check
from fabric.plan.codec import decode, encode
from fabric.plan.event_windows import (
    Count,
    Cumulative,
    Global,
    Session,
    Sliding,
    Trigger,
    Tumbling,
    Window,
)
from fabric.plan.expr import Agg, Alias, Call, Column, Literal, SortKey, Udf
from fabric.plan.nodes import (
    AsofJoin,
    AssignWindows,
    Changes,
    Deduplicate,
    KeyedProcess,
    LookupJoin,
    MapAsync,
    Match,
    Node,
    Plan,
    Select,
    SideOutput,
    Sink,
    StateField,
    StreamAggregate,
    StreamJoin,
    StreamScan,
    TopN,
    UpdatingJoin,
    Watermark,
)
from fabric.plan.places import RowFormat
from fabric.plan.printer import tree
from fabric.plan.schema import schema_of
from fabric.plan.sources import (
    FileSource,
    FlightStream,
    FollowedFiles,
    GeneratorStream,
    KafkaStream,
    NexmarkStream,
    ReplayStream,
    StreamSource,
)
from fabric.plan.stream import HIDDEN, KIND, WATERMARK
from fabric.plan.stream_facts import stream_of
from fabric.plan.svg import svg
from fabric.plan.targets import BlackholeTarget, LiveTarget, StreamFileTarget
from fabric.plan.walk import map_exprs, walk
from tests.support.plans.streams import FUNCTION, SCHEMA, TABLE, random_stream, written

seeds = st.integers(0, 1 << 32)
SECOND = 1_000_000
K, V, TS = Column("k"), Column("v"), Column("ts")
SCAN = StreamScan(GeneratorStream(), SCHEMA)
TIMED = Watermark(SCAN, "ts")
COUNT = (Alias(Agg("count", None), "n"),)
ONE, TWO = (Literal(n, pa.int32()) for n in (1, 2))
SAME = Call("eq", (K, Agg("prev", Agg("last", Column("A.k"), (ONE,)), (TWO,))))
HOURLY = StreamAggregate(TIMED, (K,), COUNT, Tumbling(3600 * SECOND), "ts")


@given(seed=seeds)
def test_random_streams_are_whole_and_show_no_hidden_column(seed: int) -> None:
    done = check(Plan(written(random_stream(Random(seed))))).root
    assert all(node.path for node in walk(done))
    assert not any(name in schema_of(node).names for node in walk(done) for name in HIDDEN)
    assert check(Plan(done)).root is done
    assert svg(done).count("<g>") == len(list(walk(done)))
    assert "?" not in tree(done)


@given(seed=seeds)
def test_random_streams_travel(seed: int) -> None:
    plan = check(Plan(written(random_stream(Random(seed)))))
    back = decode(encode(plan))
    assert back == plan
    assert encode(back) == encode(plan)


SECRET = "do-not-show"
AVRO = RowFormat(
    "avro", (("n", 1),), registry="http://r:1", strategy="record",
    registry_secrets=(("password", SECRET),),
)  # fmt: skip
SOURCES: list[tuple[StreamSource, str]] = [
    (GeneratorStream(), "streams.generator()"),
    (GeneratorStream(2, 10, 3, 5, -4, -5, 7),
     "streams.generator(rows_per_s=2, n_rows=10, n_keys=3, n_splits=5, seed=-4, start_us=-5, "
     "disorder_us=7)"),
    (NexmarkStream("bid", 1000, 9, 2, 1, -1, 3),
     'streams.nexmark("bid", events_per_s=1000, n_events=9, n_splits=2, seed=1, start_us=-1, '
     "event_rate=3)"),
    (ReplayStream(FileSource("parquet", ("/a",)), "ts", "origin", True, 0.5),
     'streams.replay(read_parquet("/a"), "ts", split_by="origin", by_file=True, speed=0.5)'),
    (FollowedFiles("ndjson", "/in", True, "now", 3, 5.0, 0.5, (("a", "b"),)),
     'read_stream("/in", format="ndjson", grows=True, until="now", n_splits=3, poll_s=5.0, '
     "settle_s=0.5)"),
    (FlightStream("in", "received", 2, 9),
     'streams.flight("in", acknowledge="received", n_splits=2, buffer_bytes=9)'),
    (KafkaStream("h:1", ("a",), secrets=(("sasl.password", SECRET),)),
     'read_kafka("a", servers="h:1")'),
    (KafkaStream("h:1", ("a", "b"), value=AVRO, key=("k",), key_format=RowFormat("text"),
                 columns=(("offset", "o"),), start="offsets", offsets=(("a", 0, 1 << 40),),
                 until="now", on_expired="latest", on_bad="side", isolation="read_uncommitted",
                 group="g", discover_s=5.0, rows_per_s=7, bytes_per_s=8, buffer_bytes=9,
                 settings=(("x", "y"),)),
     'read_kafka(["a", "b"], servers="h:1", value=formats.avro(registry="http://r:1", '
     'strategy="record"), key="k", key_format="text", start="offsets", '
     "offsets=(('a', 0, 1099511627776),), "
     'until="now", on_expired="latest", on_bad="side", isolation="read_uncommitted", group="g", '
     'discover_s=5.0, rows_per_s=7, bytes_per_s=8, buffer_bytes=9, offset="o")'),
    (KafkaStream("h:1", pattern="a.*", start="time", start_ms=-1),
     'read_kafka(servers="h:1", pattern="a.*", start="time", start_ms=-1)'),
]  # fmt: skip


@pytest.mark.parametrize(("source", "text"), SOURCES)
def test_sources_travel_and_are_shown(source: StreamSource, text: str) -> None:
    scan = StreamScan(source, SCHEMA, ("k", "ts"), 3)
    assert decode(encode(Plan(scan))).root == scan
    assert replace(scan, columns=None).text() == text
    assert scan.text() == text + '.select("k", "ts")'
    assert SECRET not in repr(scan)


OWN = pa.schema([("n", pa.int64()), ("ts", pa.timestamp("us"))])
FULL_STATE = StateField("s", "aggregating", pa.int64(), None, FUNCTION, 7, "read")
MAP_STATE = StateField("m", "map", pa.int64(), pa.string())
STEPS: list[tuple[Node, str]] = [
    (TIMED, '.with_watermark("ts")'),
    (Watermark(SCAN, "ts", 2 * SECOND, 60 * SECOND, 3600 * SECOND, "bounded", None, "side",
               SECOND, 5 * SECOND),
     '.with_watermark("ts", "2 seconds", idle="1 minute", future="1 hour", drift="5 seconds", '
     'on_bad="side", every="1 second")'),
    (Watermark(SCAN, "ts", strategy="monotonic"), '.with_watermark("ts", strategy="monotonic")'),
    (Watermark(SCAN, "ts", strategy="custom", function=FUNCTION),
     '.with_watermark("ts", strategy=own)'),
    (AssignWindows(TIMED, "ts", Tumbling(SECOND)), '.assign_windows(tumbling("1 second"))'),
    (HOURLY, '.group_by("k").window(tumbling("1 hour")).agg(count().alias("n"))'),
    (replace(HOURLY, window=Session(SECOND), trigger=Trigger(SECOND, 5, "each"), lateness_us=SECOND,
             late="side"),
     '.group_by("k").window(session("1 second"), early="1 second", early_rows=5, updates=True, '
     'lateness="1 second", late="side").agg(count().alias("n")) [changes]'),
    (StreamAggregate(SCAN, (), COUNT, Sliding(2 * SECOND, SECOND, 3)),
     '.group_by().window(sliding("2 seconds", "1 second", offset="3 microseconds"), '
     'time="processing").agg(count().alias("n"))'),
    (StreamAggregate(SCAN, (K,), COUNT), '.group_by("k").agg(count().alias("n")) [changes]'),
    (StreamAggregate(HOURLY, (Column("window_end"),), COUNT, closes="window_end"),
     '.group_by("window_end").agg(count().alias("n")) [complete at window_end]'),
    (Deduplicate(TIMED, (K,), "last", "ts", SECOND),
     '.deduplicate("k", keep="last", by="ts", ttl="1 second") [changes]'),
    (Deduplicate(TIMED, (K,)), '.deduplicate("k")'),
    (TopN(TIMED, (K,), (SortKey(V, True, True),), 3, True, "place"),
     '.top_n(3, by=col("v").desc(), keys="k", ties=True, rank="place") [changes]'),
    (KeyedProcess(TIMED, (K,), FUNCTION, OWN, (FULL_STATE, MAP_STATE), ("event", "processing"),
                  (("odd", SCHEMA),), "side", 9, "ts"),
     '.process(own, keys="k", schema={"n": "int64", "ts": "timestamp[us]"}, '
     'state={"s": aggregating, "m": map}, timers=["event", "processing"], time="ts", sides="odd", '
     'on_error="side")'),
    (KeyedProcess(TIMED, (K,), FUNCTION, OWN, (FULL_STATE,), broadcast=TABLE, broadcast_is="table",
                  broadcast_keys=("k",), broadcast_deleted=Call("is_null", (K,)),
                  broadcast_bytes=1 << 20),
     '.process(own, keys="k", schema={"n": "int64", "ts": "timestamp[us]"}, state={"s": '
     'aggregating}, broadcast=other, broadcast_keys="k", broadcast_deleted=col("k").is_null(), '
     'broadcast_memory=1048576)'),
    (MapAsync(TIMED, FUNCTION, OWN, on_error="side"),
     '.map_async(own, schema={"n": "int64", "ts": "timestamp[us]"}, on_error="side")'),
    (MapAsync(TIMED, FUNCTION, pa.schema([("n", pa.int64())]), ("k", "ts"), 7, 8, False, SECOND, 3,
              2 * SECOND, 2.5, 4, "skip"),
     '.map_async(own, schema={"n": "int64"}, keep=["k", "ts"], capacity=7, capacity_bytes=8, '
     'ordered=False, timeout="1 second", retry=3, backoff="2 seconds", rate=2.5, batch=4, '
     'on_error="skip")'),
    (SideOutput(replace(HOURLY, late="side"), "late"), '.side_output("late")'),
    (LookupJoin(TIMED, TABLE, (K,), (K,), "left", "_t"),
     '.join(other, on="k", how="left", suffix="_t")'),
    (StreamJoin(TIMED, TIMED, (K,), (K,), "ts", "ts", -SECOND, 0, "left", suffix="_t",
                late="side"),
     '.join_interval(other, (col("ts") - datetime.timedelta(seconds=1), "ts"), "ts", by="k", '
     'how="left", suffix="_t", late="side")'),
    (StreamJoin(HOURLY, HOURLY, (K, Column("window_end")), (K, Column("window_end")), "window_end",
                "window_end", how="semi", condition=Call("ne", (Column("n"), Column("n_right")))),
     '.join(other, on=["k", "window_end"], how="semi", where=col("n") != col("n_right"))'),
    (AsofJoin(TIMED, TIMED, (K,), (K,), "ts", "ts", "left", "nearest", SECOND, False,
              suffix="_t", late="side"),
     '.join_asof(other, on="ts", by="k", strategy="nearest", tolerance="1 second", '
     'allow_exact_matches=False, suffix="_t", late="side")'),
    (AsofJoin(TIMED, HOURLY, (K,), (K,), "ts", "window_end", "inner",
              deleted=Call("is_null", (Column("n"),))),
     '.join_temporal(other, on="k", deleted=col("n").is_null())'),
    (UpdatingJoin(SCAN, TIMED, (K,), (K,), "", "", "full", SECOND, Call("eq", (V, V)),
                  suffix="_t"),
     '.join(other, on="k", how="full", where=col("v") == col("v"), suffix="_t", '
     'ttl="1 second")'),
    (Match(TIMED, "A B{2,}?", (K,), (), (Alias(SAME, "B"),),
           (Alias(Agg("count", Column("B")), "n"),), (("U", "A B"),), SECOND, "to_last U", "all",
           "side", "side", "ts"),
     '.match("A B{2,}?", define={"B": col("k") == prev(last("A.k", 1), 2)}, '
     'measures={"n": col("B").count()}, partition_by="k", subsets={"U": ["A", "B"]}, '
     'within="1 second", after="to_last U", rows="all", late="side", timeout="side")'),
    (Changes(StreamAggregate(SCAN, (K,), COUNT)), ".changes()"),
    (Sink(TIMED, StreamFileTarget("ipc", "/out", 1, 2, 3.0, 4, 5.0, (("a", "b"),))),
     '.write_stream("/out", format="ipc")'),
    (Sink(TIMED, BlackholeTarget()), ".write_stream(streams.to_blackhole())"),
    (Sink(TIMED, LiveTarget("live-1")), ".iter_batches()"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "text"), STEPS)
def test_steps_travel_and_are_shown(node: Node, text: str) -> None:
    assert decode(encode(Plan(node))).root == node
    assert node.text() == text
    check(Plan(node))
    own = Udf("other", (), pa.null(), "object", b"x")
    changed = map_exprs(node, lambda e: own if isinstance(e, Udf) else Call("f", (e,)))
    assert len(changed.expressions) == len(node.expressions)
    assert changed is node or changed.expressions != node.expressions


@pytest.mark.parametrize(
    "window",
    [Tumbling(5), Sliding(5, 2, 1), Session(3), Cumulative(6, 2, -3), Count(7), Global()],
)
def test_windows_travel(window: Window) -> None:
    node = StreamAggregate(SCAN, (K,), COUNT, window, trigger=Trigger(1, 2, "each"))
    assert decode(encode(Plan(node))).root == node


def test_what_is_put_out() -> None:
    us = pa.timestamp("us", "UTC")
    assert schema_of(HOURLY) == pa.schema(
        [("k", pa.string()), ("window_start", us), ("window_end", us), ("n", pa.int64())]
    )
    counted = StreamAggregate(SCAN, (K,), COUNT, Count(3))
    assert schema_of(counted).names == ["k", "n"]
    assert schema_of(TopN(TIMED, (K,), (SortKey(V),), 1, rank="r")).names[-1] == "r"
    assert schema_of(AssignWindows(TIMED, "ts", Tumbling(1))).names[-2:] == [
        "window_start", "window_end"]  # fmt: skip
    assert schema_of(Changes(HOURLY)).names[0] == "row_kind"
    failed = KeyedProcess(TIMED, (K,), FUNCTION, SCHEMA, on_error="side")
    assert schema_of(SideOutput(failed, "errors")).names == [
        *SCHEMA.names,
        "error",
        "error_node",
        "error_attempt",
    ]


def test_zone_of_windows_is_that_of_their_time() -> None:
    schema = pa.schema([("k", pa.string()), ("ts", pa.timestamp("ns"))])
    timed = Watermark(StreamScan(GeneratorStream(), schema), "ts")
    node = StreamAggregate(timed, (K,), COUNT, Tumbling(SECOND), "ts")
    assert schema_of(node).field("window_start").type == pa.timestamp("us")
    processing = StreamAggregate(timed, (K,), COUNT, Tumbling(SECOND))
    assert schema_of(processing).field("window_start").type == pa.timestamp("us", "UTC")


def test_hidden_columns_are_put_out_where_the_planner_says() -> None:
    rows = replace(TIMED, rows=True)
    assert schema_of(rows).names[-1] == WATERMARK
    assert WATERMARK not in schema_of(replace(HOURLY, input=rows)).names
    once = Deduplicate(rows, (K,))
    assert WATERMARK not in schema_of(once).names
    assert schema_of(replace(once, rows=True)).names[-1] == WATERMARK
    changing = StreamAggregate(rows, (K,), COUNT, kinds=True)
    assert schema_of(changing).names[-1] == KIND
    assert schema_of(Changes(changing)).names == ["row_kind", "k", "n"]
    assert schema_of(AssignWindows(rows, "ts", Tumbling(1))).names[-1] == WATERMARK
    joined = LookupJoin(rows, TABLE, (K,), (K,))
    assert schema_of(joined).names[-2:] == ["name", WATERMARK]
    with pytest.raises(PlanError, match="rows=True is not one of"):
        check(Plan(rows))


@given(seed=seeds, data=st.data())
def test_streams_with_other_numbers_in_them_are_refused_or_plans(
    seed: int, data: st.DataObject
) -> None:
    message = pb.Plan.FromString(encode(Plan(written(random_stream(Random(seed))))))
    node = data.draw(st.sampled_from(list(message.nodes)))
    inner = getattr(node, node.WhichOneof("kind"))
    if isinstance(inner, str | int):
        return
    if not inner.DESCRIPTOR.fields:
        return
    field = data.draw(st.sampled_from(list(inner.DESCRIPTOR.fields)))
    drawn = data.draw(st.sampled_from([0, 1, (1 << 31) - 1, "x", True]))
    try:
        setattr(inner, field.name, drawn)
    except (TypeError, AttributeError, ValueError):
        inner.ClearField(field.name)
    with contextlib.suppress(PlanError):
        check(decode(message.SerializeToString()))


@pytest.mark.parametrize("name", ["__watermark", "__rank", "__last", "__key_group"])
def test_a_name_of_the_engine_is_refused_in_a_stream(name: str) -> None:
    """It was an InternalError of the operator, or a column that was there twice."""
    rows = StreamScan(GeneratorStream(), pa.schema([("k", pa.int64())]))
    with pytest.raises(PlanError, match=f'"{name}" is a name of Fabric\'s own; choose another'):
        stream_of(Select(rows, (Alias(Column("k"), name),)))
    scan = StreamScan(GeneratorStream(), pa.schema([(name, pa.int64())]))
    with pytest.raises(PlanError, match="a name of Fabric's own"):
        schema_of(scan)
