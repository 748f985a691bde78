"""Aggregates with less memory than they need: the same rows, straight, aborted and rescaled."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import StorageError
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.operators.chain import build_chain
from fabric.operators.contract import Context, Operator
from fabric.operators.snapshots import N_KEY_GROUPS, Joint
from fabric.operators.streams.cold_groups import ColdGroups
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
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import StageInput, StreamAggregate
from fabric.state.column_stores import run_files, runs, scans
from fabric.state.column_stores.runs import RunStore
from fabric.testing.operators import (
    Kept,
    Outcome,
    Rows,
    Step,
    Until,
    check_operator,
    run_aborted,
    run_rescaled,
    run_straight,
)
from tests.operators.streams.test_windows import FIXED, RUNS, TRIGGERS, aggregate, closing, maker
from tests.support.little_memory import ROOMS, below
from tests.support.sampled import SOAK
from tests.support.stream_model import (
    SCHEMA,
    TIME,
    Row,
    answers,
    batch_of,
    folded,
    late_rows,
    random_run,
)

EXAMPLES = 100 if SOAK else 8
KEYED = pa.schema({"k0": pa.int64()})
CODE = np.array([4], np.uint64)
OTHER = pa.record_batch({"k0": [9]}), np.array([6], np.uint64), np.array([30], np.int64)
MANY_ROWS = {
    "test_many_open_windows_lie_in_few_generations", "test_keys_that_come_often_stay_in_memory",
}  # fmt: skip
ALL = tuple(
    Alias(agg, name)
    for name, agg in {
        "n": Agg("count", None),
        "total": Agg("sum", Column("v")),
        "mean": Agg("mean", Column("v")),
        "least": Agg("min", Column("v")),
        "var": Agg("var", Column("v")),
        "every": Agg("bool_and", Column("positive")),
        "first": Agg("first", Column("v")),
        "last": Agg("last", Column("v")),
        "at": Agg("max_by", Column("v"), (Column("text"),)),
        "different": Agg("count_distinct", Column("text")),
        "about": Agg("approx_distinct", Column("text")),
        "all": Agg("collect", Column("text")),
        "median": Agg("median", Column("v")),
        "corr": Agg("corr", Column("v"), (Column("w"),)),
    }.items()
)
"""Of each kind of accumulator one, those that go by the order of rows among them."""


@pytest.fixture(autouse=True)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few rows are several blocks, portions and merges."""
    if request.node.originalname in MANY_ROWS:
        return
    monkeypatch.setattr(run_files, "BLOCK_ROWS", {"hash": 4, "time": 4})
    monkeypatch.setattr(scans, "PORTION_ROWS", 6)
    monkeypatch.setattr(runs, "TIER", {"hash": 2, "time": 2})
    monkeypatch.setattr(runs, "MERGE_BYTES", 9_000)


def remembering(make: Callable[[], Operator]) -> tuple[Callable[[], Operator], list[Operator]]:
    """The same, and a list of all that are made."""
    made: list[Operator] = []

    def remembered() -> Operator:
        made.append(make())
        return made[-1]

    return remembered, made


def some_of(steps: list[Step]) -> range:
    """Where a failure is tried: files take their time."""
    return range(0, len(steps), max(1, len(steps) // 4))


def rest(operator: Operator, time_us: int) -> list[pa.RecordBatch]:
    """All that a watermark completes."""
    found = operator.on_watermark(time_us)
    while operator.has_more:
        found += operator.more()
    return found


def total(operators: list[Operator], name: str) -> int:
    return sum(operator.counts().get(name, 0) for operator in operators)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    rng=RUNS, window=st.sampled_from(FIXED), lateness=st.sampled_from([0, 2, 9]),
    keyed=st.booleans(), room=st.sampled_from(ROOMS[1:]),
)  # fmt: skip
def test_windows_below_memory_are_those_of_the_model(
    rng: Random, window: Window, lateness: int, keyed: bool, room: int
) -> None:
    steps, rows = random_run(rng)
    node = aggregate(window, keyed=keyed, lateness_us=lateness)
    make, made = remembering(maker(node))
    with below(room) as context:
        out = check_operator(
            make, steps, keys=["k"] * keyed, context=context, abort_at=some_of(steps), behind=3
        )
    found = folded(out.rows, keyed=keyed) + late_rows(out.sides.get("late", []))
    assert found == answers(rows, window, lateness, keyed=keyed)
    if room == 1 and any(isinstance(step, Rows) for step in steps) and rows:
        assert total(made, "state_evicted_rows") > 0
        assert total(made, "state_read_back_rows") > 0


@settings(max_examples=EXAMPLES, deadline=None)
@given(rng=RUNS, lateness=st.sampled_from([0, 3]), room=st.sampled_from(ROOMS[1:]))
def test_groups_that_close_by_a_key_below_memory(rng: Random, lateness: int, room: int) -> None:
    steps, _ = random_run(rng)
    expected = run_straight(maker(closing(lateness)), steps)
    with below(room) as context:
        make = maker(closing(lateness))
        out = check_operator(
            make, steps, keys=["k", "t"], context=context, abort_at=some_of(steps), behind=3
        )
    assert out.multisets() == expected.multisets()


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    rng=RUNS,
    window=st.sampled_from([None, Global(), Count(2), Session(1), Session(3), Session(9), *FIXED]),
    trigger=st.sampled_from(TRIGGERS), lateness=st.sampled_from([0, 2, 9]), keyed=st.booleans(),
    room=st.sampled_from(ROOMS[1:]),
)  # fmt: skip
def test_results_that_change_are_those_in_memory(
    rng: Random, window: Window | None, trigger: Trigger, *, lateness: int, keyed: bool, room: int
) -> None:
    steps, _ = random_run(rng, "abcdef")
    if isinstance(window, Count):
        trigger = Trigger()
    timed = window is not None and not isinstance(window, Count | Global)
    node = aggregate(window, keyed=keyed, trigger=trigger, lateness_us=lateness if timed else 0)
    expected = run_straight(maker(node), steps)
    make, made = remembering(maker(node))
    with below(room) as context:
        out = check_operator(
            make, steps, keys=["k"] * keyed, context=context, abort_at=some_of(steps)
        )
    assert out.multisets() == expected.multisets()
    is_down = not isinstance(window, Count) and (keyed or not isinstance(window, Session))
    if room == 1 and trigger.early_us is None and out.rows and is_down:
        assert total(made, "state_evicted_rows") > 0
        assert total(made, "state_read_back_rows") > 0


def test_windows_of_rows_are_filled_in_files() -> None:
    make = maker(aggregate(Count(3)))
    with below(1) as context:
        operator = make()
        operator.open(context)
        found = []
        for v in range(1, 7):
            found += operator.on_batch(0, batch_of([Row(k, v, 0, 0) for k in "abc"]))
        assert operator.counts()["state_read_back_rows"] == 12
        operator.close()
    assert folded(found, keyed=True) == Counter({(k, 3, n): 1 for k in "abc" for n in (6, 15)})


def test_keys_that_come_often_stay_in_memory() -> None:
    make = maker(aggregate(None))
    often = [Row(f"often {i}", 1, 0, 0) for i in range(20)]
    with below(60_000) as context:
        operator = make()
        operator.open(context)
        for n in range(60):
            once = [Row(f"once {n} {i}", 1, 0, 0) for i in range(100)]
            operator.on_batch(0, batch_of([*often, *once]))
        told = operator.counts()
        assert told["state_evicted_rows"] > 3_000
        assert told["state_read_back_rows"] == 0
        assert told["state_hot_bytes"] <= 60_000
        [shown] = operator.on_batch(0, batch_of([Row("once 0 7", 1, 0, 0)]))
        assert shown.column("n").to_pylist() == [1, 2]
        assert operator.counts()["state_read_back_rows"] == 1
        operator.close()


def everything(window: Window, key: pa.DataType) -> tuple[StreamAggregate, pa.Schema]:
    """A node with all aggregates, over rows with keys of a type."""
    schema = pa.schema([
        ("k", key), ("v", pa.int64()), ("t", SCHEMA.field("t").type), ("w", pa.float64()),
        ("text", pa.string()), ("positive", pa.bool_()),
    ])  # fmt: skip
    node = replace(aggregate(window), input=StageInput(0, schema), aggs=ALL, late="drop")
    return node, schema


def batches(schema: pa.Schema, rng: np.random.Generator, n: int) -> list[Step]:
    steps: list[Step] = []
    for at in range(n):
        v = rng.integers(-50, 50, 40)
        table = pa.table({
            "k": pa.array([None if x == 7 else f"key {x}" for x in rng.integers(0, 12, 40)]),
            "v": v, "t": pa.array(rng.integers(at * 4, at * 4 + 30, 40)),
            "w": rng.normal(size=40), "text": [f"ü{x}" if x % 5 else None for x in v],
            "positive": v > 0,
        })  # fmt: skip
        table = table.set_column(2, "t", table["t"].cast(schema.field("t").type))
        if pa.types.is_dictionary(schema.field("k").type):
            keys = table["k"].dictionary_encode().cast(schema.field("k").type)
            table = table.set_column(0, "k", keys)
        steps += [Rows(table.cast(schema).combine_chunks().to_batches()[0]), Until(at * 4)]
    return steps


KEYS = [pa.string(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()]
LITTLE = [(key, ROOMS[1]) for key in KEYS] + [(KEYS[0], ROOMS[2])]
WINDOWS = [Tumbling(10), Sliding(12, 4), Cumulative(12, 4)]
EVERY = [(window, *little) for little in LITTLE for window in WINDOWS]
EACH = [(WINDOWS[n % len(WINDOWS)], *little) for n, little in enumerate(LITTLE)]
"""Each window, key and room at least once."""


@pytest.mark.parametrize(("window", "key", "room"), EVERY if SOAK else EACH, ids=str)
def test_every_aggregate_below_memory_is_as_in_it(
    window: Window, key: pa.DataType, room: int
) -> None:
    node, schema = everything(window, key)
    steps = batches(schema, np.random.default_rng(7), 6)
    expected = rounded(run_straight(maker(node, schema), steps))
    make, made = remembering(maker(node, schema))
    with below(room) as context:
        assert rounded(run_straight(make, steps, context=context)) == expected
        assert rounded(run_aborted(make, steps, 7, context=context)) == expected
        if key != pa.string_view():  # Arrow can't filter them
            scaled = run_rescaled(make, steps, (2, 3, 1), keys=["k"], context=context)
            assert rounded(scaled) == expected
    assert total(made, "state_evicted_rows") > 0


def rounded(out: Outcome) -> Counter[str]:
    """Sums of floats depend on their order in the last digits."""
    said = Counter[str]()
    for row in (each for batch in out.rows for each in batch.to_pylist()):
        said[repr({n: round(v, 6) if isinstance(v, float) else v for n, v in row.items()})] += 1
    return said


@pytest.mark.parametrize("node", [
    aggregate(Sliding(10, 5)), aggregate(Tumbling(10)), aggregate(None), aggregate(Count(11)),
    aggregate(Tumbling(10), trigger=Trigger(count=3)), aggregate(Session(2)),
], ids=["sliding", "tumbling", "running", "count", "changing", "session"])  # fmt: skip
def test_a_checkpoint_with_files_is_restored_into_memory_and_the_other_way(
    node: StreamAggregate,
) -> None:
    rows = [Row(key, 1, t, 0) for key in "abcdefgh" for t in range(0, 40, 3)]
    more = [Row(key, 1, t, 0) for key in "abcxyz" for t in range(21, 40, 3)]
    steps = [Rows(batch_of(rows)), Until(20), Rows(batch_of(more))]
    expected = run_straight(maker(node), steps)
    with below(1) as context:
        for first, then in ((context, Context()), (Context(), context)):
            operator = maker(node)()
            operator.open(replace(first, folder=first.folder and first.folder / "first"))
            out = operator.on_batch(0, batch_of(rows)) + rest(operator, 20)
            operator.on_barrier(1).write(kept := Kept())
            operator.close()
            operator = maker(node)()
            operator.open(replace(then, folder=then.folder and then.folder / "then"))
            operator.restore([kept], range(N_KEY_GROUPS))
            out += operator.on_batch(0, batch_of(more)) + rest(operator, END_OF_TIME)
            operator.close()
            assert folded(out, keyed=True) == folded(expected.rows, keyed=True)


def test_many_open_windows_lie_in_few_generations() -> None:
    n = 100_000
    make = maker(replace(aggregate(Tumbling(1)), late="drop"))
    with below(1) as context:
        operator = make()
        operator.open(context)
        for begin in range(0, n, n // 4):
            times = np.arange(begin, begin + n // 4)
            one = batch_of([Row("a", 1, 0, 0)]).take(pa.array(np.zeros(n // 4, np.int64)))
            operator.on_batch(0, one.set_column(2, SCHEMA.field("t"), pa.array(times).view(TIME)))
        told = operator.counts()
        assert (told["state_cold_rows"], told["state_evicted_rows"]) == (n, n)
        assert told["state_cold_files"] <= 400
        fired = 0
        for until in (10, 1_000, 60_000, END_OF_TIME):
            fired += sum(batch.num_rows for batch in rest(operator, until))
            assert fired == min(until, n)
            assert operator.counts()["state_cold_rows"] <= n - fired + n // 16
        assert operator.counts()["state_cold_files"] == 0
        operator.close()


def test_counts_say_where_groups_lie() -> None:
    make = maker(replace(aggregate(Tumbling(10)), late="drop"))
    with below(1) as context:
        operator = make()
        operator.open(context)
        operator.on_batch(0, batch_of([Row("a", 1, 0, 0), Row("b", 1, 0, 0)]))
        told: dict[str, Any] = operator.counts()
        assert told["state_cold_rows"] == told["state_evicted_rows"] == 2
        assert told["state_cold_bytes"] > 0 < told["state_hot_bytes"]
        assert told["state_read_back_rows"] == 0
        assert sum(batch.num_rows for batch in rest(operator, 10)) == 2
        assert operator.counts()["state_read_back_rows"] == 2
        operator.close()


def rows_behind(store: RunStore) -> ColdGroups:
    """Groups below memory, of which rows of keys 7 and 8 are being written."""
    cold = ColdGroups(store, KEYED, 10)
    ends = np.array([10, 20], np.int64)
    cold.put_behind(pa.record_batch({"k0": [7, 8]}), np.array([4, 5], np.uint64), ends)
    return cold


@pytest.mark.parametrize(
    "ask",
    [
        lambda cold: [rows.to_pydict() for rows in cold.due(20)] == [{"k0": [7, 8]}],
        lambda cold: [len(rows) for rows in cold.by_key()] == [1, 1],
        lambda cold: [rows.to_pydict() for rows in cold.take_back(CODE)] == [{"k0": [7]}],
        lambda cold: cold.counts()["state_cold_rows"] == 2,
        lambda cold: not cold.is_empty,
        lambda cold: isinstance(cold.beside(Joint({})), Joint),
        lambda cold: cold.expire(20) or cold.is_empty,
        lambda cold: cold.put(*OTHER) or cold.counts()["state_evicted_rows"] == 3,
        lambda cold: cold.put_behind(*OTHER) or cold.counts()["state_evicted_rows"] == 3,
    ],
)
def test_who_asks_for_groups_sees_those_that_are_being_written(
    ask: Callable[[ColdGroups], bool],
) -> None:
    writes = threading.Event()

    class Slow(RunStore):
        def _put(self, *args: Any) -> None:
            assert writes.wait(60.0)
            super()._put(*args)

    cold = rows_behind(Slow(KEYED, order="time"))  # returns before anything is written
    timer = threading.Timer(0.05, writes.set)
    timer.start()
    assert ask(cold)
    timer.join()
    cold.close()


class Full(RunStore):
    def _put(self, *args: Any) -> None:
        raise StorageError("the disk is full")


def test_every_later_call_says_that_groups_could_not_be_written() -> None:
    cold = rows_behind(Full(KEYED, order="time"))
    asks: list[Callable[[], object]] = [
        lambda: cold.is_empty,  # first, as a barrier does: then no checkpoint is complete
        lambda: cold.beside(Joint({})),
        cold.counts,
        lambda: list(cold.due(20)),
        lambda: cold.put_behind(*OTHER),
    ]
    for ask in (*asks, *asks):
        with pytest.raises(StorageError, match="the disk is full"):
            ask()
    rows_behind(Full(KEYED, order="time")).close()  # of a task that has failed for another reason


def test_groups_are_written_also_when_the_program_ends() -> None:
    cold = ColdGroups(RunStore(KEYED, order="time"), KEYED, 10)
    cold._thread.shutdown()  # as the interpreter does before its threads have ended
    cold.put_behind(*OTHER)
    assert [rows.to_pydict() for rows in cold.due(30)] == [{"k0": [9]}]


def test_groups_are_written_once_when_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool keeps work whose thread did not start, and does it when a later thread does."""
    cold = ColdGroups(RunStore(KEYED, order="time"), KEYED, 10)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        cold.put_behind(*OTHER)
    cold.put_behind(*OTHER)
    assert cold.counts()["state_cold_rows"] == 2
    assert [rows.to_pydict() for rows in cold.due(30)] == [{"k0": [9, 9]}]
    cold.close()


def test_a_failed_write_fails_the_task_and_no_checkpoint_goes_without_its_rows() -> None:
    make = maker(replace(aggregate(Tumbling(10)), late="drop"))
    with below(1) as context:
        operator = make()
        operator.open(context)
        store = operator.state.below._store  # type: ignore[attr-defined]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "_put", partial(Full._put, store))
            operator.on_batch(0, batch_of([Row("a", 1, 0, 0)]))
            for _ in range(2):
                with pytest.raises(StorageError, match="full"):
                    operator.on_barrier(1)
        with pytest.raises(StorageError, match="full"):
            rest(operator, 10)
        operator.close()


def test_groups_may_be_written_and_taken_while_a_scan_is_read() -> None:
    n = 3 * scans.PORTION_ROWS
    keys, ends = np.arange(n), np.full(n, 10)
    cold = ColdGroups(RunStore(KEYED, order="time"), KEYED, 10)
    cold.put(pa.record_batch({"k0": keys}), keys.astype(np.uint64), ends)
    met = list[int]()
    for rows in cold.due(10):
        met += rows["k0"].to_pylist()
        cold.put_behind(*OTHER)
        assert cold.counts()["state_cold_rows"] > n
    assert met == keys.tolist()


def test_what_lies_in_memory_alone_says_nothing_of_files() -> None:
    operator = maker(replace(aggregate(Tumbling(10)), late="drop"))()
    operator.open(Context())
    assert operator.counts() == {"late_rows": 0}


def test_time_stands_still_for_who_gets_rows_until_all_are_out() -> None:
    """Windows of windows: the second ones close only when they have all rows of the first ones."""
    n_keys = 50
    node = replace(aggregate(Tumbling(10)), late="drop", path="first")
    above = StreamAggregate(
        node, (Column("window_end"),), (Alias(Agg("count", None), "keys"),), closes="window_end",
        path="second",
    )  # fmt: skip
    rows = batch_of([Row(f"key {i}", 1, t, 0) for i in range(n_keys) for t in (1, 11)])
    with below(1) as context:
        chain = build_chain(above, context)
        out = chain.on_batch(0, rows) + chain.on_watermark(0, 10)
        assert chain.has_more
        passes = 0
        while chain.has_more:
            assert chain.watermarks == {"": BEGINNING}
            out += chain.more()
            passes += 1
        assert chain.watermarks == {"": 10}
        assert passes > n_keys // 10
        out += chain.on_end(0)
        while chain.has_more:
            out += chain.more()
        chain.close()
    assert [row["keys"] for batch in out for row in batch.to_pylist()] == [n_keys, n_keys]
