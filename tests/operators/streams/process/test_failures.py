"""Calls that fail leave no trace, and what they failed on goes where the policy says."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError, StorageError
from fabric.operators.contract import Context
from fabric.plan.nodes import StateField
from fabric.plan.process import Process
from fabric.testing.operators import Rows, Until, check_operator, run_straight
from tests.support.processing import batch_of, make, node_of, rows_of, udf_of

ROW = st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(-2, 9))
PARTS = st.lists(st.lists(ROW, max_size=6), min_size=1, max_size=5)
SEEN = pa.schema([("k", pa.string()), ("v", pa.int64())])


def first_or_sum(old, new):
    return old + new


STATES = [
    StateField("n", "value", pa.int64()),
    StateField("all", "list", pa.int64()),
    StateField("by", "map", pa.string(), pa.int64()),
    StateField("sum", "reducing", pa.int64(), function=udf_of(first_or_sum)),
    StateField("mean", "aggregating", pa.list_(pa.int64()), function=udf_of(
        (lambda: [0, 0], lambda acc, v: [acc[0] + v, acc[1] + 1], sum))),
]  # fmt: skip


class Fragile(Process):
    """Changes all it can, row by row, and raises at a row below 0."""

    def on_rows(self, ctx, key, rows):
        for row in rows.to_pylist():
            v = row["v"]
            ctx.state("n").put((ctx.state("n").get() or 0) + 1)
            ctx.state("all").append(v)
            if v % 3 == 0:
                ctx.state("by").clear()
            ctx.state("by").put(v, str(v))
            if v % 5 == 0:
                ctx.state("all").clear()
                ctx.state("by").remove(v)
            ctx.state("sum").add(v)
            ctx.state("mean").add(v)
            ctx.timers.set(row["at"])
            ctx.timers.cancel(5)
            ctx.side("seen", {"k": key, "v": v})
            yield {"k": key, "n": v}
            if v < 0:
                raise ValueError(f"{v} is below 0")
            yield {"k": f"{key} {self.states(ctx)}", "n": 0}

    def on_timer(self, ctx, key, time, domain):
        ctx.state("n").put(-time)
        ctx.timers.set(time + 1)
        if time % 4 == 0:
            raise ValueError("no fourth timer")
        ctx.timers.cancel(time + 1)
        return {"k": f"{key} {self.states(ctx)}", "n": time}

    @staticmethod
    def states(ctx):
        found = [ctx.state(name).get() for name in ("n", "all", "sum", "mean")]
        return found, sorted(ctx.state("by").items().items())


def node(policy, **more):
    return node_of(
        Fragile(), STATES, timers=("event",), sides=(("seen", SEEN),), on_error=policy, **more
    )  # fmt: skip


def fine(parts):
    """The rows without the bad ones, whatever came together with them."""
    kept = [[row for row in rows if row[2] >= 0] for rows in parts]
    return kept, Counter(row for rows in parts for row in rows if row[2] < 0)


def steps_of(parts):
    return [step for i, rows in enumerate(parts) for step in (Rows(batch_of(rows)), Until(6 * i))]


@settings(deadline=None, max_examples=40)
@given(parts=PARTS)
def test_what_fails_might_as_well_not_have_come(parts):
    kept, failed = fine(parts)
    out = run_straight(make(node("side")), steps_of(parts))
    without = run_straight(make(node("side")), steps_of(kept))
    errors = out.sides.pop("errors", [])
    again = without.sides.pop("errors", [])
    assert out.multisets() == without.multisets()
    rows = Counter(
        (r["k"], r["at"].microsecond, r["v"])
        for batch in errors for r in batch.to_pylist() if r["v"] is not None
    )  # fmt: skip
    assert rows == failed
    timers = [r for b in errors for r in b.to_pylist() if r["v"] is None]
    assert len(timers) == sum(batch.num_rows for batch in again)
    assert all(r["at"] is None and "no fourth timer (line " in r["error"] for r in timers)


@pytest.mark.parametrize("policy", ["skip", "side"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_an_abort_or_other_tasks_change_nothing(policy, on_disk, tmp_path):
    parts = [[(k, 3 * i + j, 2 * j - i) for k in "abcd" for j in range(i, 5)] for i in range(5)]
    steps = steps_of(parts)
    out = check_operator(make(node(policy), tmp_path if on_disk else None), steps, keys=["k"])
    errors = sum(batch.num_rows for batch in out.sides.get("errors", []))
    assert (errors > 0) == (policy == "side")


def test_failed_rows_are_counted():
    operator = make(node("skip"))()
    operator.open(Context())
    operator.on_batch(0, batch_of([("a", 1, 1), ("a", 1, -1), ("b", 1, 1)]))
    assert operator.counts() == {"failed_rows": 1}
    operator.close()


def test_a_dead_letter_says_what_where_and_in_which_attempt():
    class Long(Process):
        def on_rows(self, ctx, key, rows):
            raise ValueError("x" * 1_000_000)

    operator = make(node_of(Long(), on_error="side", path="process_1"))()
    operator.open(Context("process_1", attempt=3))
    operator.on_batch(0, batch_of([("a", 1, 1)]))
    (letters,) = operator.take_side()["errors"]
    (letter,) = letters.to_pylist()
    assert letter["error"].startswith("the function Long raised ValueError: xxx")
    assert len(letter["error"]) < 2200
    assert (letter["error_node"], letter["error_attempt"]) == ("process_1", 3)
    operator.close()


def test_policy_fail_names_the_key():
    class Raising(Process):
        def on_rows(self, ctx, key, rows):
            raise KeyError("price")

    operator = make(node_of(Raising()))()
    operator.open(Context())
    with pytest.raises(
        ExpressionError, match=r"raised KeyError: 'price' .line .*, for the key 'b'"
    ):
        operator.on_batch(0, batch_of([("b", 1, 1)]))
    operator.close()


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_policy_fail_ends_the_job(error):
    class Raising(Process):
        def on_rows(self, ctx, key, rows):
            raise error

    operator = make(node_of(Raising()))()
    operator.open(Context())
    with pytest.raises(ExpressionError, match=f"function Raising raised {type(error).__name__}"):
        operator.on_batch(0, batch_of([("a", 1, 1)]))
    operator.close()


def test_errors_of_the_world_outside_are_nobodys_policy():
    class Storing(Process):
        def on_rows(self, ctx, key, rows):
            raise StorageError("the disk is full")

    operator = make(node_of(Storing(), on_error="skip"))()
    operator.open(Context())
    with pytest.raises(StorageError, match="the disk is full"):
        operator.on_batch(0, batch_of([("a", 1, 1)]))
    operator.close()


class Slow(Process):
    def on_rows(self, ctx, key, rows):
        ctx.state("n").put(1)
        while key == "slow":
            pass
        return {"k": key, "n": ctx.state("n").get()}


def test_a_call_that_takes_too_long_fails_like_any_other():
    states = [StateField("n", "value", pa.int64())]
    operator = make(node_of(Slow(), states, on_error="side", timeout_us=100_000))()
    operator.open(Context())
    out = operator.on_batch(0, batch_of([("a", 1, 1), ("slow", 2, 2), ("b", 1, 1)]))
    assert sorted(rows_of(out)) == [("a", 1), ("b", 1)]
    (errors,) = operator.take_side()["errors"]
    assert errors.column("k").to_pylist() == ["slow"]
    assert errors.column("error").to_pylist() == ["the function Slow took longer than 0.1 s"]
    operator.close()


class Whole(Process):
    def on_batch(self, ctx, keys, rows):
        ctx.state("n").put_many(keys, rows.column("v"))
        ctx.state("all").append_many(keys, rows.column("v"))
        if -1 in rows.column("v").to_pylist():
            ctx.state("all").clear_many(keys)
            ctx.state("n").remove_many(keys)
            raise ValueError("no")
        lists = ctx.state("all").get_many(keys).to_pylist()
        return {"k": [str(each) for each in lists], "n": ctx.state("n").get_many(keys)}


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_whole_batch_is_taken_back(on_disk, tmp_path):
    made = make(node_of(Whole(), STATES[:2], on_error="side"), tmp_path if on_disk else None)
    steps = [
        Rows(batch_of([(k, 0, v) for k in "ab"])) for v in (1, 2, -1, 3)
    ]  # fmt: skip
    out = check_operator(made, steps, keys=["k"])
    assert rows_of(out.rows) == [("[1]", 1)] * 2 + [("[1, 2]", 2)] * 2 + [("[1, 2, 3]", 3)] * 2
    assert [row[2] for row in rows_of(out.sides["errors"])] == [-1, -1]
