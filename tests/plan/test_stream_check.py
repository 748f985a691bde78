"""What a stream can't do is refused with its place and a way out; what it can do passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.check import check, schema_after
from fabric.plan.event_windows import Count, Trigger, Tumbling
from fabric.plan.expr import Agg, Alias, Call, Column, SortKey
from fabric.plan.nodes import (
    Aggregate,
    AsofJoin,
    AssignWindows,
    Changes,
    Deduplicate,
    Distinct,
    Exchange,
    Filter,
    Join,
    KeyedProcess,
    Limit,
    LookupJoin,
    MapAsync,
    Node,
    NodeConfig,
    Plan,
    Select,
    SideOutput,
    Sink,
    Sort,
    StateField,
    StreamAggregate,
    StreamJoin,
    StreamScan,
    TopN,
    Union,
    UpdatingJoin,
    Watermark,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import GeneratorStream
from fabric.plan.stream import Stream, closing
from fabric.plan.stream_facts import is_endless, stream_of
from fabric.plan.targets import DatasetTarget, FileTarget, StreamFileTarget
from tests.support.plans.streams import FUNCTION, SCHEMA, TABLE

SECOND = 1_000_000
K, V, TS, END = Column("k"), Column("v"), Column("ts"), Column("window_end")
SCAN = StreamScan(GeneratorStream(), SCHEMA)
TIMED = Watermark(SCAN, "ts")
COUNT = (Alias(Agg("count", None), "n"),)
HOURLY = StreamAggregate(TIMED, (K,), COUNT, Tumbling(3600 * SECOND), "ts")
TOTALS = StreamAggregate(TIMED, (K,), COUNT)
OUT = StreamFileTarget("parquet", "/out")
INT = pa.int64()
LISTS = Call("array", (V, V))


def with_state(state: StateField) -> KeyedProcess:
    return KeyedProcess(TIMED, (K,), FUNCTION, SCHEMA, (state,))


def timed_as(dtype: pa.DataType, *more: pa.Field) -> Watermark:
    schema = pa.schema([("k", pa.string()), ("ts", dtype), *more])
    return Watermark(StreamScan(GeneratorStream(), schema), "ts")


PRICE = pa.schema([("price", pa.int64())])
NEAR = StreamJoin(TIMED, TIMED, (K,), (K,), "ts", "ts", -SECOND, SECOND)
KEPT = UpdatingJoin(TIMED, TIMED, (K,), (K,), "", "", ttl_us=SECOND)
AS_OF = AsofJoin(TIMED, TIMED, (K,), (K,), "ts", "ts")
ENDING = replace(TABLE, schema=SCHEMA)
EARLY = replace(HOURLY, trigger=Trigger(early_us=SECOND))
NANOS, NAIVE = timed_as(pa.timestamp("ns", "UTC")), timed_as(pa.timestamp("us"))
NESTED = timed_as(pa.timestamp("us", "UTC"), pa.field("l", pa.list_(INT)))

REFUSED: list[tuple[Node, str]] = [
    (Sort(TIMED, (SortKey(K),)), r"can't be sorted; use \.top_n"),
    (Limit(TIMED, 3), r"a stream counts as endless, so a limit .*\.top_n"),
    (Distinct(TIMED), r"write: \.deduplicate"),
    (Deduplicate(TIMED, (K, K)), 'the keys of deduplicate have the column "k" twice'),
    (Aggregate(TIMED, (K,), COUNT), r'write: \.group_by\(…\)\.window\("1 hour"\)\.agg'),
    (Join(TIMED, TIMED, (K,), (K,)), "join of two streams would keep .* write: .join_interval"),
    (Join(TABLE, TIMED, (K,), (K,)), r"write: stream\.join\(table"),
    (Join(TIMED, TABLE, (K,), (K,), "full"), "a full join of a stream would have to wait"),
    (LookupJoin(TIMED, TIMED, (K,), (K,)), "a join of two streams"),
    (LookupJoin(TABLE, TIMED, (K,), (K,)), r"write: stream\.join\(table"),
    # ---- joins by event time
    (replace(NEAR, left=ENDING), r"is of two streams; .*write: stream\.join\(table"),
    (replace(NEAR, right=SCAN), r"right side of a join of two streams needs .*\.with_watermark"),
    (replace(NEAR, left=TOTALS, left_time="k"), "must be a timestamp"),
    (replace(NEAR, left=Select(Changes(TOTALS), (K, Alias(TS, "at")))), 'no column "ts"'),
    (replace(NEAR, left=EARLY, left_time="window_end"), r"can't take changing .*\.changes\(\)"),
    (replace(NEAR, left=WithColumns(TIMED, (Alias(TS, "at"),)), left_time="at"),
     r'would keep all rows .* write: \.join_interval\(other, "ts", \(col\("ts"\), '),
    (replace(NEAR, left=WithColumns(TIMED, (Alias(TS, "ts"),), True)), "left out or changed"),
    (replace(NEAR, lower_us=2, upper_us=1), "no row lies between 2 and 1 microseconds"),
    (replace(NEAR, upper_us=1 << 62), "upper_us is at most"),
    (replace(NEAR, left=NANOS), r'whole microseconds, and "ts" is timestamp\[ns, tz=UTC\]; write'),
    (replace(NEAR, left=NAIVE), "both have a zone or none"),
    (replace(NEAR, left=NESTED), 'keeps no lists and structs, and "l" is'),
    (replace(NEAR, right_keys=(V,)), r"the join keys can't be compared: \"k\" is string"),
    (replace(NEAR, left=ENDING, right=ENDING), r"is for streams, .*write: \.join_interval\(other"),
    (replace(NEAR, condition=V), r'must be true or false, .* write: \.join_interval\(other, '),
    (replace(NEAR, suffix="", how="semi", condition=Call("eq", (V, V))),
     r'can.t tell two columns apart; write: \.join_interval\(.*suffix="_2"'),
    (replace(NEAR, how="cross"), 'how="cross" is not one of|is not one of "inner"'),
    # ---- as-of joins
    (replace(AS_OF, left=ENDING), r"is of two streams; .*write: stream\.join\(table"),
    (replace(AS_OF, right=SCAN), r"right side of a join of two streams needs .*\.with_watermark"),
    (replace(AS_OF, left=EARLY, left_time="window_end"), r"can't take changing .*\.changes\(\)"),
    (replace(AS_OF, left=NANOS), r'whole microseconds, and "ts" is timestamp\[ns, tz=UTC\]; write'),
    (replace(AS_OF, left_keys=(), right_keys=()), r'needs a key .*write: \.join_asof\(…, by="id"'),
    (replace(AS_OF, right_keys=(V,)),
     r'"k" is string.*write: \.join_asof\(other, on="ts", left_by='),
    (replace(AS_OF, strategy="forward"), r'without a bound.* write: .*tolerance="10 minutes"\)'),
    (replace(AS_OF, strategy="past"), 'is not one of "backward"'),
    (replace(AS_OF, how="full"), 'is not one of "inner"'),
    (replace(AS_OF, tolerance_us=-1), "a tolerance is at least 0"),
    (replace(AS_OF, tolerance_us=1 << 62), "tolerance_us is at most"),
    (replace(AS_OF, shift_us=1), "shift_us=1 is not one of"),
    (replace(AS_OF, deleted=V), "what deleted of a join says must be true or false"),
    (replace(AS_OF, left=ENDING, right=ENDING), r"is for streams, .*write: \.join_asof\(other"),
    # ---- joins whose results change
    (replace(KEPT, ttl_us=0), r'keep all rows of both for ever; .*ttl="1 day"'),
    (replace(KEPT, ttl_us=1 << 62), "ttl_us is at most"),
    (replace(KEPT, left_keys=(), right_keys=()), r'needs a key .*ttl="1 day"'),
    (replace(KEPT, left=ENDING), r"is of two streams; .*write: stream\.join\(table"),
    (replace(KEPT, left=ENDING, right=ENDING), "is for streams, .*leave ttl out"),
    (replace(KEPT, left=NESTED), 'keeps no lists and structs, and "l" is'),
    (replace(KEPT, late="side"), 'late=.side. is not one of "drop"'),
    (replace(KEPT, left_time="ts"), "left_time=.ts. is not one of"),
    (replace(KEPT, kinds=True), "kinds=True is not one of"),
    (replace(KEPT, condition=V), r"must be true or false, .* write: \.join\(other, "),
    (Sink(KEPT, OUT), r'write: \.changes\(\)\.write_stream\("/out"'),
    (Union((TIMED, Select(TABLE, (K,)))), "inputs of as many columns"),
    (Union((Select(TIMED, (K,)), Select(TABLE, (K,)))), "a union of a stream and rows with an end"),
    (Exchange(TIMED, "broadcast"), "a stream can't be broadcast"),
    (Exchange(TIMED, "hash", ("k",), mode="materialised"), r'write: \.exchange\("k"\)'),
    (Sink(TIMED, FileTarget("csv", "/a", False)), r'write: \.write_stream\("/a", format="csv"\)'),
    (Sink(TIMED, DatasetTarget("d", mode="overwrite")), r'write: \.write_dataset\("d"\)'),
    (Sink(TOTALS, OUT), r'write: \.changes\(\)\.write_stream\("/out"'),
    (Sink(TABLE, OUT), r'rows have an end; write: \.write_parquet\("/out"\)'),
    (Limit(Sink(TIMED, OUT), 1), "a write is the last step"),
    # ---- event time
    (Watermark(SCAN, "v"), r'"v" is int32; write: .with_columns\(col\("v"\)\.cast\("timestamp'),
    (Watermark(SCAN, "tss"), 'no column "tss" here; .* write: .with_watermark\\("ts"\\)'),
    (Watermark(TIMED, "ts"), 'event time is "ts" already'),
    (Watermark(Select(TIMED, (K,)), "k"), '"k" is string'),
    (Watermark(Union((SCAN, SCAN)), "ts"), "right after each read_stream, before union"),
    (Watermark(TABLE, "k"), '"k" is string'),
    (Watermark(SCAN, "ts", bound_us=-1), "bound of at least 0 seconds, got -1 microsecond"),
    (Watermark(SCAN, "ts", strategy="custom"), "a custom watermark needs a function"),
    (replace(HOURLY, input=SCAN), r'needs event time; write, .*\.with_watermark\("ts"'),
    (replace(HOURLY, input=WithColumns(TIMED, (Alias(TS, "at"),)), time="at"),
     'windows go by event time, which is "ts", not "at"'),
    (replace(HOURLY, input=WithColumns(TIMED, (Alias(TS, "ts"),), True)), "left out or changed"),
    (replace(HOURLY, input=TABLE, time=""), "a window is for streams"),
    (AssignWindows(SCAN, "ts", Tumbling(1)), "a window needs event time"),
    (replace(HOURLY, window=Count(3)), "a window of rows has no time"),
    (replace(TOTALS, late="side"), "without a window of event time no row is late"),
    (replace(TOTALS, lateness_us=-1), "lateness must be at least 0"),
    (replace(TOTALS, closes="n"), 'close only by one of their keys, and "n" is not one'),
    (replace(TOTALS, closes="k"), '"k" is not the end of a window below'),
    (MapAsync(TOTALS, FUNCTION, SCHEMA), r"map_async can't take changing .*\.changes\(\)"),
    (MapAsync(TIMED, FUNCTION, PRICE, ("tss",)), r"can't keep \"tss\"; .*write: keep=\"ts\""),
    (MapAsync(TIMED, FUNCTION, SCHEMA, ("k",)), 'put out "k" twice: it is in keep= and in schema='),
    (MapAsync(TIMED, FUNCTION, PRICE, ("k", "k")), 'two columns would be called "k"'),
    (MapAsync(TIMED, FUNCTION, pa.schema([("a", pa.int8())] * 2)), "would be called"),
    (MapAsync(TIMED, FUNCTION, pa.schema([])), r'columns that come out: schema=\{"price"'),
    (MapAsync(TIMED, FUNCTION, PRICE, capacity=0), "needs capacity of at least 1, got 0"),
    (MapAsync(TIMED, FUNCTION, PRICE, rate_per_s=-1.0), "needs rate_per_s of at least 0, got -1"),
    (MapAsync(TIMED, FUNCTION, PRICE, batch=101), r"up to 101 rows, and 100 may .*capacity=1010"),
    (MapAsync(TABLE, FUNCTION, PRICE, on_error="side"), r'for streams, .*write: on_error="skip"'),
    (replace(HOURLY, input=MapAsync(TIMED, FUNCTION, PRICE, ("k",))), 'no column "ts"'),
    (Watermark(MapAsync(SCAN, FUNCTION, PRICE, ("ts",)), "ts"), "right after each read_stream"),
    (KeyedProcess(SCAN, (K,), FUNCTION, SCHEMA, timers=("event",)), "a timer of event time needs"),
    (KeyedProcess(TIMED, (), FUNCTION, SCHEMA), "process needs a key"),
    (KeyedProcess(TIMED, (K,), FUNCTION, pa.schema([("a", pa.int8())] * 2)), "would be called"),
    (KeyedProcess(TIMED, (K,), FUNCTION, SCHEMA, sides=(("errors", SCHEMA),)), 'side "errors"'),
    (with_state(StateField("a b", "value", INT)), "plain names"),
    (with_state(StateField("a", "map", INT)), "a map has a type"),
    (with_state(StateField("a", "reducing", INT)), "a function"),
    (with_state(StateField("a", "list", INT, ttl_us=-1)), "ttl"),
    (StreamAggregate(TIMED, (LISTS,), COUNT), "can't be grouped by lists and structs.*its parts"),
    (StreamAggregate(TIMED, (K,), (Agg("count_distinct", LISTS),)), "takes no lists or structs"),
    # ---- changes
    (StreamAggregate(TOTALS, (K,), COUNT), "an aggregate can't take changing results.*window"),
    (Deduplicate(Filter(TOTALS, Column("b")), (K,)), "there is no column"),
    (Deduplicate(TOTALS, (K,)), r"deduplicate can't take changing results.*\.changes\(\)"),
    (TopN(TOTALS, (K,), (SortKey(K),), 1), "top_n can't take changing results"),
    (KeyedProcess(TOTALS, (K,), FUNCTION, SCHEMA), "process can't take changing results"),
    (Changes(WithColumns(TOTALS, (Alias(K, "row_kind"),))), r'write: \.changes\("row_kind_2"\)'),
    # ---- sides
    (SideOutput(HOURLY, "late"), 'no side output "late"; it has none, .* it says late="side"'),
    (SideOutput(replace(HOURLY, late="side"), "lat"), r'write: \.side_output\("late"\)'),
    (SideOutput(NEAR, "late_left"), r'it has none, \.join_interval\(…, late="side"\) makes it'),
    (SideOutput(replace(NEAR, late="side"), "late"), r'write: \.side_output\("late_'),
    (SideOutput(SCAN, "late"), "it has none"),
    (SideOutput(TIMED, "bad"), 'on_bad="side"'),
    # ---- rows with an end
    (TopN(TABLE, (K,), (SortKey(K),), 1), "top_n is for streams"),
    (Deduplicate(TABLE, (K,)), r"write: \.distinct\(\)"),
    (KeyedProcess(TABLE, (K,), FUNCTION, SCHEMA), r"fabric\.streams\.replay"),
    (Changes(TABLE), "changes is for streams"),
    (TopN(TIMED, (K,), (SortKey(K),), 0), r"top_n needs at least 1 row, got 0; write: \.top_n\(1"),
    (TopN(TIMED, (K,), (SortKey(K),), 1, rank="k"), 'write: .*rank="k_2"'),
    (WithColumns(TIMED, (Alias(V, "__kind"),)), 'a name of Fabric\'s own'),
    (StreamScan(GeneratorStream(), pa.schema([("__watermark", pa.int8())])), "Fabric's own"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "text"), REFUSED)
def test_refused_with_place_and_way_out(node: Node, text: str) -> None:
    named = replace(node, path="here")
    with pytest.raises(PlanError, match=text) as error:
        check(Plan(named))
    assert error.value.where.node
    with pytest.raises(PlanError, match=text):
        schema_after(Plan(node))


def test_a_step_is_refused_though_the_steps_below_were_looked_at_before() -> None:
    assert schema_after(Plan(TIMED)).names == SCHEMA.names
    with pytest.raises(PlanError, match="can't be sorted") as error:
        schema_after(Plan(Sort(TIMED, (SortKey(K),))))
    assert error.value.where.node == "sort_1"


def test_what_is_known_of_rows() -> None:
    assert stream_of(TABLE) is None
    assert stream_of(SCAN) == Stream(split=True)
    assert stream_of(TIMED) == Stream(time="ts", timed=True, split=True)
    renamed = Select(TIMED, (Alias(TS, "at"), K))
    assert stream_of(renamed) == Stream(time="at", timed=True, split=True)
    assert stream_of(Select(TIMED, (K,))) == Stream(timed=True, split=True)
    end = frozenset({"window_end"})
    assert stream_of(HOURLY) == Stream(time="window_end", ends=end, timed=True)
    assert stream_of(TOTALS) == Stream(timed=True, changes=True, keys=("k",))
    assert stream_of(Changes(TOTALS)) == Stream(timed=True, keys=("k",))
    late = SideOutput(replace(HOURLY, late="side"), "late")
    assert stream_of(late) == Stream(timed=True)
    both = Union((TIMED, Filter(TIMED, Column("k"))))
    assert schema_of(replace(both, inputs=(TIMED, TIMED))).names == SCHEMA.names
    assert stream_of(Union((TIMED, TIMED))) == Stream(time="ts", timed=True)
    assert stream_of(Union((TIMED, SCAN))) == Stream()


def test_what_is_known_of_rows_that_a_service_answered() -> None:
    kept = MapAsync(HOURLY, FUNCTION, PRICE, ("k", "window_end"))
    ends = frozenset({"window_end"})
    assert stream_of(kept) == Stream(time="window_end", ends=ends, timed=True)
    assert stream_of(replace(kept, input=TIMED, keep=("ts",))) == Stream(time="ts", timed=True)
    assert stream_of(replace(kept, input=TIMED, keep=())) == Stream(timed=True)
    assert stream_of(replace(kept, input=SCAN, keep=("ts",))) == Stream()
    errors = SideOutput(replace(kept, on_error="side"), "errors")
    assert schema_of(errors).names[-3:] == ["error", "error_node", "error_attempt"]
    assert stream_of(errors) == Stream(timed=True)


def test_what_is_known_of_rows_of_two_streams() -> None:
    timed = Stream(time="ts", timed=True)
    assert stream_of(NEAR) == timed
    assert stream_of(replace(NEAR, how="semi")) == timed
    assert stream_of(replace(NEAR, how="right")) == replace(timed, time="ts_right")
    assert stream_of(replace(NEAR, how="full")) == replace(timed, time="")
    ends = frozenset({"window_end"})
    keys = (K, END)
    windows = AssignWindows(TIMED, "ts", Tumbling(3600 * SECOND))
    joined = StreamJoin(windows, HOURLY, keys, keys, "window_end", "window_end")
    # event time of the left rows is not further on than the window that they waited for
    assert stream_of(joined) == Stream(time="window_end", ends=ends, timed=True)
    assert closing(keys, stream_of(joined) or Stream()) == "window_end"
    by_rows = replace(joined, left_time="ts", lower_us=0, upper_us=SECOND)
    assert stream_of(by_rows) == Stream(time="ts", ends=ends, timed=True)
    check(Plan(Sink(StreamAggregate(joined, keys, COUNT, closes="window_end"), OUT)))


def test_results_of_windows_close_the_groups_above() -> None:
    stream = stream_of(HOURLY)
    assert stream is not None
    assert closing((Alias(END, "end"), K), stream) == "end"
    assert closing((K,), stream) == ""
    busiest = TopN(HOURLY, (END,), (SortKey(Column("n"), descending=True),), 1, closes="window_end")
    per_end = StreamAggregate(HOURLY, (Alias(END, "end"),), COUNT, closes="end")
    for node in (busiest, per_end):
        check(Plan(Sink(node, OUT)))
    daily = StreamAggregate(HOURLY, (K,), COUNT, Tumbling(86_400 * SECOND), "window_end")
    check(Plan(Sink(daily, OUT)))


def test_results_that_come_early_or_again_change() -> None:
    assert not (stream_of(HOURLY) or Stream()).changes
    for change in ({"trigger": Trigger(early_us=1)},
                   {"trigger": Trigger(late="each"), "lateness_us": 1}):  # fmt: skip
        assert (stream_of(replace(HOURLY, **change)) or Stream()).changes
    assert not (stream_of(Deduplicate(TIMED, (K,))) or Stream()).changes
    assert (stream_of(Deduplicate(TIMED, (K,), by="ts")) or Stream()).changes


def test_several_writes_are_one_plan() -> None:
    counted = replace(HOURLY, late="side")
    late = Sink(SideOutput(counted, "late"), replace(OUT, path="/late"))
    root = check(Plan(Union((Sink(counted, OUT), late)))).root
    assert schema_of(root).names == ["rows"]
    assert is_endless(root)
    with pytest.raises(PlanError, match="a write is the last step"):
        check(Plan(Union((Sink(TABLE, FileTarget("csv", "/a", True)),))))
    with pytest.raises(PlanError, match="a write is the last step"):
        check(Plan(Union((late, Select(TIMED, (V,))))))


PROCESS = KeyedProcess(TOTALS.input, (K,), FUNCTION, SCHEMA, path="own")
RANKED = TopN(replace(HOURLY, path="hourly"), (END,), (SortKey(Column("n"), True),), 3, path="top")
KNOWN = LookupJoin(TIMED, TABLE, (K,), (K,), path="known")


@pytest.mark.parametrize("settings", [
    NodeConfig(state="memory"), NodeConfig(state="arrow", state_memory=1), NodeConfig(state="auto"),
    NodeConfig(state="tonbo"), NodeConfig(state_memory=1 << 40),
])  # fmt: skip
@pytest.mark.parametrize("node", [
    HOURLY, TOTALS, RANKED, Deduplicate(TIMED, (K,)),
], ids=["window", "totals", "top", "deduplicate"])  # fmt: skip
def test_steps_with_groups_may_say_where_these_lie(node: Node, settings: NodeConfig) -> None:
    config = (("it", settings),)
    assert check(Plan(Changes(replace(node, path="it")), config)).config == config


@pytest.mark.parametrize("settings", [
    NodeConfig(state="memory"), NodeConfig(state="rocksdb"), NodeConfig(state="auto"),
])  # fmt: skip
def test_a_function_may_say_where_its_state_lies(settings: NodeConfig) -> None:
    assert check(Plan(PROCESS, (("own", settings),))).config == (("own", settings),)


@pytest.mark.parametrize(
    ("root", "path", "settings", "message"),
    [
        (RANKED, "top", NodeConfig(state="rocksdb"),
         'the state of top n "top" can be in "memory", "arrow", "tonbo", "auto", '
         "got state='rocksdb'"),
        (RANKED, "top", NodeConfig(state="aro"),  # type: ignore[arg-type]
         "state='aro' is not one of .*; did you mean state=\"arrow\""),
        (RANKED, "top", NodeConfig(state_memory=0), "state_memory must be 1 to .*, got 0"),
        (RANKED, "top", NodeConfig(state_memory=True), "state_memory must be 1 to .*, got True"),
        (RANKED, "watermark_1", NodeConfig(state="arrow"),
         'watermark "watermark_1" keeps no state; aggregates and windows of streams, top_n, '
         'deduplicate and process do, in this plan: "hourly", "top"'),
        (RANKED, "stream_scan_1", NodeConfig(state_memory=1), 'stream scan "stream_scan_1" keeps'),
        (KNOWN, "known", NodeConfig(state="memory"),
         'lookup join "known" keeps no state; .*, in this plan: none'),
        (PROCESS, "own", NodeConfig(state="arrow"),
         'the state of keyed process "own" can be in "memory", "rocksdb", "auto", '
         "got state='arrow'"),
        (PROCESS, "own", NodeConfig(state="rocksdb", state_memory=1), "leave state_memory out"),
    ],
)  # fmt: skip
def test_state_is_where_a_step_can_have_it(
    root: Node, path: str, settings: NodeConfig, message: str
) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        check(Plan(root, ((path, settings),)))
    assert caught.value.where.node == path


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"broadcast": TABLE, "broadcast_is": "stream"},
            "it broadcasts 'table' rows, not 'stream'",
        ),
        (
            {"broadcast": TIMED, "broadcast_is": "stream"},
            "it broadcasts 'timed' rows, not 'stream'",
        ),
        ({"broadcast": TOTALS, "broadcast_is": "timed"}, "a broadcast can't take changing results"),
        ({"broadcast": SCAN}, "it broadcasts 'stream' rows, not ''"),
        ({"broadcast_is": "table"}, "nothing to broadcast"),
        ({"broadcast_keys": ("k",)}, "nothing to broadcast"),
        ({"broadcast": SCAN, "broadcast_is": "stream", "broadcast_bytes": 0}, "at least 1 byte"),
        ({"broadcast": SCAN, "broadcast_is": "stream", "broadcast_keys": ("k", "k")}, "twice"),
    ],
)
def test_what_can_not_be_broadcast(fields: dict[str, Any], why: str) -> None:
    step = KeyedProcess(TIMED, (K,), FUNCTION, SCHEMA, **{"broadcast_bytes": 9, **fields})
    with pytest.raises(PlanError, match=why):
        check(Plan(Sink(step, OUT)))
