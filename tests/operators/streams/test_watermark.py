"""The watermark operator: row by row, split by split, straight, aborted and rescaled."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import DataError, InternalError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.operators.contract import Context, Operator
from fabric.operators.functions.trust import vouch
from fabric.operators.node_operators import operator_of
from fabric.plan.expr import Udf
from fabric.plan.nodes import StageInput, Watermark
from fabric.plan.schema import schema_of
from fabric.plan.stream import WATERMARK
from fabric.testing.operators import Clock, Rows, SplitEnd, Step, Until, check_operator

SOURCE = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ms"))])


def maker(**more: Any) -> Callable[[], Operator]:
    node = Watermark(StageInput(0, SOURCE), "at", **{"rows": True, "bound_us": 5_000, **more})
    output = schema_of(node)

    def make() -> Operator:
        operator = operator_of(node, output, [SOURCE])
        assert operator is not None
        return operator

    return make


def opened(*splits: str, **more: Any) -> Operator:
    operator = maker(**more)()
    operator.open(Context(splits=splits))
    return operator


def batch(*times: int | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(len(times))), pa.array(times)], ["id", "at"]).cast(
        SOURCE
    )


def sent(operator: Operator, split: str, *times: int | None) -> int:
    operator.on_split(split)
    operator.on_batch(0, batch(*times))
    return operator.watermark(BEGINNING)


@settings(max_examples=30, deadline=None)
@given(rng=st.randoms(use_true_random=False), rows=st.booleans())
def test_rows_carry_what_their_split_had_seen(rng: Random, rows: bool) -> None:
    steps: list[Step] = [Clock(1)]
    expected: list[tuple[int, int | None]] = []
    most: dict[str, int] = {}
    for _ in range(rng.randint(1, 8)):
        split = rng.choice("abc")
        times = [rng.randint(0, 60) for _ in range(rng.randint(1, 5))]
        steps.append(Rows(batch(*times), split=split))
        for time in times:
            known = most.get(split)
            expected.append((time, BEGINNING if known is None else known * 1_000 - 5_000))
            most[split] = max(time, most.get(split, time))
    out = check_operator(maker(rows=rows), steps)
    table = pa.Table.from_batches(out.rows)
    assert (WATERMARK in table.column_names) == rows
    assert table.column("at").cast(pa.int64()).to_pylist() == [time for time, _ in expected]
    if rows:
        assert table.column(WATERMARK).to_pylist() == [known for _, known in expected]


def test_a_split_that_sent_nothing_holds_the_watermark_back() -> None:
    operator = opened("a", "b")
    assert sent(operator, "a", 100) == BEGINNING
    assert sent(operator, "b", 40, 30) == 35_000
    assert sent(operator, "b", 200) == 95_000
    operator.on_split_end("a")
    assert operator.watermark(BEGINNING) == 195_000
    assert operator.watermark(END_OF_TIME) == END_OF_TIME


def test_a_task_without_splits_is_idle() -> None:
    assert opened().watermark(BEGINNING) == IDLE


def test_quiet_splits_become_idle_and_that_is_told_in_time() -> None:
    operator = opened("a", "b", idle_us=1_000, emit_us=500)
    operator.on_time(0)
    assert sent(operator, "a", 100) == BEGINNING
    operator.on_time(900)
    operator.on_split("a")
    operator.on_batch(0, batch(101))
    operator.on_time(999)
    assert operator.watermark(BEGINNING) == BEGINNING
    operator.on_time(1_001)
    assert operator.watermark(BEGINNING) == 96_000


def test_splits_far_ahead_are_held_back() -> None:
    operator = opened("a", "b", drift_us=10_000)
    sent(operator, "a", 100)
    sent(operator, "b", 10)
    assert operator.held_back() == frozenset("a")


@pytest.mark.parametrize("times", [(1, None), (1, 10**9)])
def test_bad_rows_by_policy(times: tuple[int | None, ...]) -> None:
    steps: list[Step] = [Clock(0), Rows(batch(*times), split="a"), Rows(batch(2), split="a")]
    policies = {policy: maker(on_bad=policy, future_us=50_000) for policy in ("side", "skip")}
    aside = check_operator(policies["side"], steps)
    skipped = check_operator(policies["skip"], steps)
    for out in (aside, skipped):
        assert [each.column("at").cast(pa.int64()).to_pylist() for each in out.rows] == [[1], [2]]
    (bad,) = aside.sides["bad"]
    assert bad.schema.equals(SOURCE)
    assert bad.column("at").cast(pa.int64()).to_pylist() == [times[1]]
    assert not skipped.sides
    operator = opened("a", future_us=50_000)
    operator.on_time(0)
    operator.on_split("a")
    with pytest.raises(DataError, match=r"a row of a has .*on_bad"):
        operator.on_batch(0, batch(*times))


def test_bad_rows_are_counted() -> None:
    operator = opened("a", on_bad="skip")
    sent(operator, "a", 1, None, None)
    assert operator.counts() == {"bad_rows": 2}


def test_the_clock_is_needed_where_it_is_used() -> None:
    with pytest.raises(InternalError, match="processing time"):
        sent(opened("a", future_us=1), "a", 1)


@pytest.mark.parametrize(
    ("strategy", "expected"), [("monotonic", 100_000), ("bounded", 95_000), ("custom", 93_000)]
)
def test_strategies(strategy: str, expected: int) -> None:
    payload = cloudpickle.dumps(lambda times, greatest: greatest - 7_000)
    vouch(payload)
    function = Udf("behind", (), pa.int64(), "object", payload) if strategy == "custom" else None
    assert sent(opened("a", strategy=strategy, function=function), "a", 100, 90) == expected


def test_ended_splits_and_watermarks_that_come_in_change_no_row() -> None:
    steps: list[Step] = [
        Rows(batch(5, 1), split="a"), Until(3), Rows(batch(9), split="b"), SplitEnd("a"),
        Rows(batch(2, 7), split="b"),
    ]  # fmt: skip
    out = check_operator(maker(), steps)
    assert sum(each.num_rows for each in out.rows) == 5
