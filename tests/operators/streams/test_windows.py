"""Windowed aggregates: the answers of a row-by-row model, straight, aborted and rescaled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import DataError, InternalError
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.operators.contract import Context, Operator
from fabric.operators.node_operators import operator_of
from fabric.operators.snapshots import N_KEY_GROUPS
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
from fabric.plan.schema import schema_of
from fabric.plan.stream import KIND
from fabric.testing.operators import (
    Clock,
    Kept,
    Rows,
    Step,
    Until,
    check_operator,
    run_rescaled,
    run_straight,
)
from tests.support.stream_model import (
    SCHEMA,
    Row,
    answers,
    batch_of,
    folded,
    late_rows,
    random_run,
    rows_of,
)  # fmt: skip

AGGS = (Alias(Agg("count", None), "n"), Alias(Agg("sum", Column("v")), "total"))
KEY = (Column("k"),)
RUNS = st.randoms(use_true_random=False)
FIXED = [
    Tumbling(7), Tumbling(10, 3), Sliding(10, 5), Sliding(9, 4, -1), Sliding(12, 1),
    Cumulative(12, 4), Cumulative(10, 1, 3),
]  # fmt: skip
TRIGGERS = [
    Trigger(), Trigger(late="each"), Trigger(early_us=100), Trigger(count=2),
    Trigger(early_us=40, count=3, late="each"),
]  # fmt: skip


def aggregate(window: Window | None, *, keyed: bool = True, **more: Any) -> StreamAggregate:
    timed = window is not None and not isinstance(window, Count | Global)
    node = StreamAggregate(
        StageInput(0, SCHEMA), KEY if keyed else (), AGGS, window, "t" if timed else "", late="side"
    )
    node = replace(node, **more)
    return replace(node, kinds=node.changes_results)


def maker(node: StreamAggregate, schema: pa.Schema = SCHEMA) -> Callable[[], Operator]:
    output = schema_of(node)

    def make() -> Operator:
        operator = operator_of(node, output, [schema])
        assert operator is not None
        return operator

    return make


def checked(
    node: StreamAggregate, steps: Sequence[Step], rows: Sequence[Row], lateness: int
) -> None:
    assert node.window is not None
    keys = [key.name for key in node.keys if isinstance(key, Column)]
    straight = check_operator(maker(node), steps, keys=keys, behind=0 if node.kinds else 3)
    behind = run_rescaled(maker(node), steps, (2, 3, 1), keys=keys, behind=3)
    for out in (straight, behind):
        found = folded(out.rows, keyed=bool(keys)) + late_rows(out.sides.get("late", []))
        assert found == answers(rows, node.window, lateness, keyed=bool(keys))


@settings(max_examples=60, deadline=None)
@given(
    rng=RUNS, window=st.sampled_from([*FIXED, Session(1), Session(3)]),
    lateness=st.sampled_from([0, 0, 2, 9]), trigger=st.sampled_from(TRIGGERS), keyed=st.booleans(),
)  # fmt: skip
def test_windows_are_those_of_the_model(
    rng: Random, window: Window, lateness: int, trigger: Trigger, keyed: bool
) -> None:
    steps, rows = random_run(rng, "abcdef")
    node = aggregate(window, keyed=keyed, trigger=trigger, lateness_us=lateness)
    checked(node, steps, rows, lateness)


@settings(max_examples=30, deadline=None)
@given(rng=RUNS, n=st.integers(1, 5), keyed=st.booleans())
def test_count_windows_are_rows_in_their_order(rng: Random, n: int, keyed: bool) -> None:
    steps, _ = random_run(rng)
    out = check_operator(maker(aggregate(Count(n), keyed=keyed)), steps, keys=["k"] * keyed)
    met: dict[str, list[int]] = {}
    expected: Counter[tuple[object, ...]] = Counter()
    for step in steps:
        for key, value, *_ in rows_of(step.batch) if isinstance(step, Rows) else []:
            window = met.setdefault(str(key) if keyed else "", [])
            assert isinstance(value, int)
            window.append(value)
            if len(window) == n:
                expected[str(key) if keyed else "", n, sum(window)] += 1
                window.clear()
    assert folded(out.rows, keyed=keyed) == expected


@settings(max_examples=30, deadline=None)
@given(
    rng=RUNS, trigger=st.sampled_from(TRIGGERS), keyed=st.booleans(),
    window=st.sampled_from([None, Global()]),
)  # fmt: skip
def test_running_aggregates_end_as_those_of_all_rows(
    rng: Random, trigger: Trigger, window: Window | None, keyed: bool
) -> None:
    steps, rows = random_run(rng)
    node = aggregate(window, keyed=keyed, trigger=trigger)
    out = check_operator(maker(node), steps, keys=["k"] * keyed)
    groups: dict[str, list[int]] = {}
    for row in rows:
        groups.setdefault(row.key if keyed else "", []).append(row.value)
    expected = Counter((key, len(values), sum(values)) for key, values in groups.items())
    assert folded(out.rows, keyed=keyed) == expected


def test_a_running_aggregate_shows_each_change() -> None:
    rows = [batch_of([Row("a", v, 0, 0), Row("b", 1, 0, 0)][: 1 + (v == 5)]) for v in (2, 5)]
    out = run_straight(maker(aggregate(None)), [Rows(batch) for batch in rows])
    table = pa.Table.from_batches(out.rows).to_pydict()
    assert table == {
        "k": ["a", "a", "a", "b"], "n": [1, 1, 2, 1], "total": [2, 2, 7, 1], KIND: [0, 1, 2, 0],
    }  # fmt: skip


def test_sessions_that_become_one_take_back_what_they_showed() -> None:
    times = (0, 8, 4)
    steps = [step for t in times for step in (Rows(batch_of([Row("a", 1, t, BEGINNING)])),)]
    out = run_straight(maker(aggregate(Session(4), trigger=Trigger(count=1))), steps)
    table = pa.Table.from_batches(out.rows)
    found = list(zip(*(c.to_pylist() for c in table.select(["n", KIND]).columns), strict=True))
    assert found == [(1, 0), (1, 0), (1, 3), (1, 1), (3, 2)]


def closing(lateness: int) -> StreamAggregate:
    return StreamAggregate(
        StageInput(0, SCHEMA), (Column("k"), Column("t")), AGGS, lateness_us=lateness, late="side",
        closes="t",
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(rng=RUNS, lateness=st.sampled_from([0, 3]))
def test_groups_close_by_a_key(rng: Random, lateness: int) -> None:
    steps, rows = random_run(rng)
    out = check_operator(maker(closing(lateness)), steps, keys=["k", "t"], behind=3)
    expected = Counter[tuple[object, ...]]()
    groups: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        if row.time + lateness <= row.watermark:
            expected["late", row.key, row.value, row.time] += 1
        else:
            groups.setdefault((row.key, row.time), []).append(row.value)
    expected.update((*group, len(values), sum(values)) for group, values in groups.items())
    assert folded(out.rows, keyed=True) + late_rows(out.sides.get("late", [])) == expected


def test_late_rows_are_counted_and_dropped_unless_asked_for() -> None:
    steps = [Rows(batch_of([Row("a", 1, 0, 20)])), Until(25)]
    node = replace(aggregate(Tumbling(10)), late="drop")
    operator = maker(node)()
    assert isinstance(steps[0], Rows)
    assert operator.on_batch(0, steps[0].batch) == []
    assert operator.counts() == {"late_rows": 1}
    assert operator.take_side() == {}
    assert operator.on_watermark(END_OF_TIME) == []


def test_rows_of_an_idle_split_never_open_a_window_again() -> None:
    steps: list[Step] = [Rows(batch_of([Row("a", 1, 5, BEGINNING)])), Until(30),
             Rows(batch_of([Row("a", 2, 6, 0), Row("a", 3, 31, 1)]))]  # fmt: skip
    out = check_operator(maker(aggregate(Tumbling(10))), steps, keys=["k"])
    assert folded(out.rows, keyed=True) == Counter({("a", 0, 10, 1, 1): 1, ("a", 30, 40, 1, 3): 1})
    assert late_rows(out.sides["late"]) == Counter({("late", "a", 2, 6): 1})


def test_without_row_watermarks_rows_are_late_by_the_operators() -> None:
    schema = SCHEMA.remove(3)
    node = replace(aggregate(Tumbling(10)), input=StageInput(0, schema))
    batches = [batch_of([Row("a", 1, t, 0)]).select([0, 1, 2]) for t in (3, 12, 4)]
    steps: list[Step] = [Rows(batches[0]), Rows(batches[1]), Until(10), Rows(batches[2])]
    out = check_operator(maker(node, schema), steps, keys=["k"])
    assert sum(folded(out.rows, keyed=True).values()) == 2
    assert late_rows(out.sides["late"]) == Counter({("late", "a", 1, 4): 1})


def test_windows_of_the_clock_close_by_it() -> None:
    node = replace(aggregate(Tumbling(10)), time="")
    steps: list[Step] = []
    for now in (3, 9, 12):
        steps += [Clock(now), Rows(batch_of([Row("a", 1, 0, 99)])), Until(1_000)]
    out = check_operator(maker(node), steps, keys=["k"])
    assert folded(out.rows, keyed=True) == Counter({("a", 0, 10, 2, 2): 1, ("a", 10, 20, 1, 1): 1})
    with pytest.raises(InternalError, match="processing time"):
        maker(node)().on_batch(0, batch_of([Row("a", 1, 0, 0)]))


def test_a_slide_much_shorter_than_the_window_closes_many_at_once() -> None:
    node = aggregate(Sliding(5_000, 1))
    rows = [Row(key, 1, t, BEGINNING) for key in "abc" for t in range(0, 400, 2)]
    out = run_straight(maker(node), [Rows(batch_of(rows)), Until(300)])
    assert folded(out.rows, keyed=True) == answers(rows, Sliding(5_000, 1), 0, keyed=True)
    assert max(batch.num_rows for batch in out.rows) <= 65_536


def test_the_watermark_that_leaves_lets_results_through() -> None:
    assert maker(aggregate(Tumbling(10), lateness_us=4))().watermark(50) == 46
    assert maker(aggregate(Session(3), lateness_us=4))().watermark(50) == 43
    assert maker(aggregate(Tumbling(10), lateness_us=4))().watermark(END_OF_TIME) == END_OF_TIME
    assert maker(aggregate(Tumbling(10), lateness_us=4))().watermark(BEGINNING) == BEGINNING
    assert maker(aggregate(Count(3)))().watermark(50) == 50


def test_a_row_without_time_or_far_away_is_refused() -> None:
    nowhere = batch_of([Row("a", 1, 0, 0)]).set_column(2, "t", pa.nulls(1, SCHEMA.field("t").type))
    with pytest.raises(DataError, match="no time in 't'"):
        maker(aggregate(Tumbling(10)))().on_batch(0, nowhere)
    with pytest.raises(DataError, match="too far"):
        maker(aggregate(Tumbling(10)))().on_batch(0, batch_of([Row("a", 1, 2**62, 0)]))


@pytest.mark.parametrize("trigger", [Trigger(), Trigger(late="each")])
@pytest.mark.parametrize("lateness_h", [0, 2])
def test_a_day_of_25_hours_is_over_when_clocks_say_so(trigger: Trigger, lateness_h: int) -> None:
    """Berlin's 27 October 2024 begins at 22:00 UTC and ends at 23:00 UTC."""
    schema = SCHEMA.set(2, pa.field("t", pa.timestamp("us", "Europe/Berlin")))
    hour, day = 3_600_000_000, 1_729_980_000_000_000
    node = aggregate(Tumbling(24 * hour), trigger=trigger, lateness_us=lateness_h * hour)
    node = replace(node, input=StageInput(0, schema))

    def rows(at_h: float, known_h: float) -> Rows:
        batch = batch_of([Row("a", 1, day + int(at_h * hour), day + int(known_h * hour))])
        return Rows(batch.cast(schema))

    steps: list[Step] = [
        rows(1, 0), Until(day + 24 * hour), rows(24.5, 24.9), rows(25, 24.9),
        Until(day + (25 + lateness_h) * hour - 1), rows(3, 24.9),
        Until(day + (25 + lateness_h) * hour), rows(2, 25 + lateness_h),
    ]  # fmt: skip
    out = check_operator(maker(node, schema), [*steps, Until(END_OF_TIME)], keys=["k"])
    last = {row["window_start"]: row for row in pa.Table.from_batches(out.rows).to_pylist()}
    found = [(row["window_end"].isoformat(), row["n"]) for _, row in sorted(last.items())]
    assert found == [("2024-10-28T00:00:00+01:00", 3), ("2024-10-29T00:00:00+01:00", 1)]
    assert sum(batch.num_rows for batch in out.sides["late"]) == 1


@given(
    rng=RUNS, window=st.sampled_from(FIXED), lateness=st.integers(0, 9), keyed=st.booleans(),
    split=st.integers(0, 20),
)  # fmt: skip
def test_nothing_comes_out_before_the_operator_says_so(
    rng: Random, window: Window, lateness: int, keyed: bool, split: int
) -> None:
    """Not by rows, not aside, and not by an earlier watermark; restored on the way, too."""
    steps, _ = random_run(rng)
    node = aggregate(window, keyed=keyed, lateness_us=lateness, late="drop")
    make = maker(node)
    operator, now = make(), BEGINNING
    operator.open(Context())
    for at, step in enumerate([*steps, Until(END_OF_TIME)]):
        if at == split:
            store = Kept()
            operator.on_barrier(1).write(store)
            operator = make()
            operator.open(Context())
            operator.restore([store], range(N_KEY_GROUPS))
        silent = operator.silent_until()
        match step:
            case Rows(batch=batch):
                assert not operator.on_batch(0, batch)
            case Until(time_us=time_us) if time_us > now:
                now = time_us
                out = operator.on_watermark(now)
                assert not out or silent <= now
                assert operator.silent_until() > now or now == END_OF_TIME
        assert not operator.take_side()


@pytest.mark.parametrize(
    "more",
    [{"late": "side"}, {"window": Session(5)}, {"window": Count(2)}, {"time": ""},
     {"trigger": Trigger(count=2)}, {"window": None, "closes": "t", "keys": (*KEY, Column("t"))}],
)  # fmt: skip
def test_who_may_put_out_something_at_any_time_is_not_silent(more: dict[str, Any]) -> None:
    node = aggregate(**{"window": Tumbling(7), "late": "drop", **more})
    operator = maker(node)()
    operator.open(Context())
    operator.on_watermark(3)
    assert operator.silent_until() == BEGINNING
