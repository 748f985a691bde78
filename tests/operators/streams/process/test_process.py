"""Users' functions in all ways of the harness, against models of one thread."""

from collections import Counter, defaultdict

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError, PlanError
from fabric.event_time import END_OF_TIME
from fabric.operators.contract import Context
from fabric.operators.streams.process import operator as process_operator
from fabric.plan.nodes import StateField
from fabric.plan.process import Process
from fabric.testing.operators import Clock, Rows, Until, check_operator, run_straight
from tests.support.processing import (
    OUTPUT,
    SCHEMA,
    batch_of,
    make,
    node_of,
    rows_of,
    udf_of,
)

ROW = st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 30), st.integers(-5, 5))
PARTS = st.lists(st.tuples(st.lists(ROW, max_size=8), st.integers(0, 40)), min_size=1, max_size=5)
COUNT = StateField("n", "value", pa.int64())


@pytest.fixture(params=["memory", "rocksdb"])
def folder(request, tmp_path):
    return tmp_path if request.param == "rocksdb" else None


class Counting(Process):
    """Puts out a running count; at the time of a row takes its value off again."""

    def on_rows(self, ctx, key, rows):
        state = ctx.state("n")
        n = (state.get() or 0) + rows.num_rows
        state.put(n)
        for row in rows.to_pylist():
            ctx.state("pending").put(row["at"], row["v"])
            ctx.timers.set(row["at"])
        yield {"k": key, "n": n}

    def on_timer(self, ctx, key, time, domain):
        for at, v in ctx.state("pending").items().items():
            if at.microsecond == time:
                ctx.side("done", {"k": [key], "v": [v]})
                ctx.state("pending").remove(at)
        return {"k": key, "n": -time}


PENDING = StateField("pending", "map", pa.int64(), pa.timestamp("us"))
COUNTING = node_of(
    Counting(), [COUNT, PENDING], timers=("event",),
    sides=(("done", pa.schema([("k", pa.string()), ("v", pa.int64())])),),
)  # fmt: skip


def counting_model(steps):
    rows, done = Counter(), Counter()
    counts, pending, timers = Counter(), defaultdict(dict), set()
    for step in [*steps, Until(END_OF_TIME)]:
        if isinstance(step, Rows):
            new = Counter()
            for row in step.batch.to_pylist():
                at = row["at"].microsecond
                new[row["k"]] += 1
                pending[row["k"]][at] = row["v"]
                timers.add((row["k"], at))
            for k, n in new.items():
                counts[k] += n
                rows[k, counts[k]] += 1
            continue
        for k, at in [timer for timer in timers if timer[1] <= step.time_us]:
            timers.remove((k, at))
            rows[k, -at] += 1
            if at in pending[k]:
                done[k, pending[k].pop(at)] += 1
    return rows, done


def steps_of(parts):
    known, steps = 0, []
    for rows, until in parts:
        known = max(known, until)
        steps += [Rows(batch_of(rows)), Until(known)]
    return steps


@settings(deadline=None, max_examples=40)
@given(parts=PARTS)
def test_states_and_timers_are_the_models(parts):
    steps = steps_of(parts)
    out = run_straight(make(COUNTING), steps)
    rows, done = counting_model(steps)
    assert Counter(rows_of(out.rows)) == rows
    assert Counter(rows_of(out.sides.get("done", []))) == done


def test_an_abort_or_other_tasks_change_nothing(folder):
    parts = [([(k, at + i, i) for k in ("a", "b", None, "c", "d")], 10 * i)
             for i, at in enumerate((5, 25, 3, 40))]  # fmt: skip
    steps = steps_of(parts)
    out = check_operator(make(COUNTING, folder), steps, keys=["k"])
    rows, done = counting_model(steps)
    assert Counter(rows_of(out.rows)) == rows
    assert Counter(rows_of(out.sides["done"])) == done


class Columns(Process):
    """The same count for all keys at once, and timers of processing time."""

    def on_batch(self, ctx, keys, rows):
        state = ctx.state("n")
        ones = pa.array([1] * keys.num_rows)
        state.add_many(keys, ones)
        times = pc.add(rows.column("v"), ctx.now)
        ctx.timers.set_many(keys, times, "processing")
        return pa.table({"n": state.get_many(keys), "k": keys.column("k")})

    def on_timers(self, ctx, keys, times, domain):
        assert domain == "processing"
        ctx.timers.cancel_many(keys, pc.add(times, 1), domain)
        return {"k": keys.column("k"), "n": pc.negate(times)}


def test_whole_batches(folder):
    state = StateField("n", "reducing", pa.int64(), function=udf_of("sum"))
    node = node_of(Columns(), [state], timers=("processing",))
    steps = [Clock(100)]
    for i in range(4):
        rows = [(k, 0, v) for k in "abcd" for v in (1, 2, 7)]
        steps += [Rows(batch_of(rows[i:])), Clock(105 + 4 * i)]
    out = check_operator(make(node, folder), steps, keys=["k"])
    found = rows_of(out.rows)
    assert max(n for k, n in found if k == "d") == 12
    fired = sorted(-n for k, n in found if k == "d" and n < 0)
    assert fired == [101, 106, 110, 112, 114, 116]  # each takes the next microsecond back


class Rings(Process):
    """Timers that set timers, to be called at once."""

    def on_rows(self, ctx, key, rows):
        ctx.timers.set(10)
        ctx.timers.set(30)
        ctx.timers.set(50)

    def on_timer(self, ctx, key, time, domain):
        if time == 10:
            ctx.timers.set(20)
            ctx.timers.cancel(30)
        if time == 50:
            ctx.timers.set(60)
        return {"k": key, "n": time}


@pytest.mark.parametrize("times", [[100], [10, 100], [5, 25, 55, 100]])
def test_timers_of_a_key_come_in_order_whatever_the_watermarks(times):
    steps = [Rows(batch_of([("a", 0, 0)])), *map(Until, times)]
    out = check_operator(make(node_of(Rings(), timers=("event",))), steps, keys=["k"])
    assert rows_of(out.rows) == [("a", 10), ("a", 20), ("a", 50), ("a", 60)]


class Periodic(Process):
    def on_rows(self, ctx, key, rows):
        ctx.timers.set(10)

    def on_timer(self, ctx, key, time, domain):
        if ctx.watermark < END_OF_TIME:
            ctx.timers.set(time + 10)
        return {"k": key, "n": time}


def test_the_end_of_the_input_ends_a_periodic_timer():
    steps = [Rows(batch_of([("a", 0, 0)])), Until(30)]
    out = run_straight(make(node_of(Periodic(), timers=("event",))), steps)
    assert [n for _, n in rows_of(out.rows)] == [10, 20, 30, 40]


class Kept(Process):
    """Attributes are of one task's instance, and no state."""

    def __init__(self):
        self.n = 0

    def open(self):
        self.opened = True

    def on_rows(self, ctx, key, rows):
        assert self.opened
        self.n += 1
        return {"k": key, "n": self.n}


def test_each_task_has_an_instance_of_its_own():
    operators = [make(node_of(Kept()))() for _ in range(2)]
    found = []
    for operator in operators:
        operator.open(Context())
        found += rows_of(operator.on_batch(0, batch_of([("a", 0, 0)])))
        operator.close()
    assert found == [("a", 1), ("a", 1)]


class Ageing(Process):
    def on_rows(self, ctx, key, rows):
        n = (ctx.state("n").get() or 0) + 1
        ctx.state("n").put(n)
        return {"k": key, "n": n}


def test_states_age_by_processing_time():
    node = node_of(Ageing(), [StateField("n", "value", pa.int64(), ttl_us=10)])
    row = Rows(batch_of([("a", 0, 0)]))
    steps = [Clock(0), row, Clock(9), row, Clock(18), row, Clock(28), row]
    out = check_operator(make(node), steps, keys=["k"])
    assert [n for _, n in rows_of(out.rows)] == [1, 2, 3, 1]


class Several(Process):
    def on_rows(self, ctx, key, rows):
        ctx.state("n").put((ctx.state("n").get() or 0) + rows.num_rows)
        return {"k": str(key), "n": ctx.state("n").get()}


def test_several_key_columns_are_a_tuple():
    node = node_of(Several(), [COUNT], keys=("k", "v"))
    steps = [Rows(batch_of([("a", 0, 1), ("a", 0, 2), ("a", 0, 1), (None, 0, 1)]))] * 2
    out = check_operator(make(node), steps, keys=["k", "v"])
    assert rows_of(out.rows)[-3:] == [("('a', 1)", 4), ("('a', 2)", 2), ("(None, 1)", 2)]


class Wrong(Process):
    def __init__(self, what):
        self.what = what

    def on_rows(self, ctx, key, rows):
        return self.what(ctx)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (lambda ctx: ctx.state("m"), "the state 'm' was not declared; declared are: n"),
        (lambda ctx: ctx.state("n").add(1), "a value state of one key has get, put, remove"),
        (lambda ctx: ctx.side("x", {}), "the side 'x' was not declared; declared are: none"),
        (lambda ctx: ctx.timers.set(5), "timers of 'event' time were not declared"),
        (lambda ctx: ctx.timers.set_many(None, None), "raised AttributeError"),
        (lambda ctx: ctx.state("n").put("text"), "state 'n'"),
        (lambda ctx: 1 / 0, "the function Wrong raised ZeroDivisionError: division by zero"),
        (lambda ctx: "rows", "the function Wrong: it returned a str"),
        (lambda ctx: {"k": "a"}, "it returned the columns k; declared are k, n"),
    ],
)  # fmt: skip
def test_a_mistake_ends_the_job_with_what_to_do(what, text):
    operator = make(node_of(Wrong(what), [COUNT]))()
    operator.open(Context())
    with pytest.raises(ExpressionError, match=text):
        operator.on_batch(0, batch_of([("a", 0, 0)]))
    operator.close()


def test_something_else_than_a_process_is_refused():
    operator = make(node_of(len))()
    with pytest.raises(PlanError, match="process takes an instance of a class derived from"):
        operator.open(Context())


class Broken(Process):
    def open(self):
        raise OSError("no model")

    def on_rows(self, ctx, key, rows):
        raise AssertionError


def test_a_function_that_does_not_open_is_an_error_of_the_plan():
    operator = make(node_of(Broken()))()
    with pytest.raises(PlanError, match=r"Broken\.open raised OSError: no model"):
        operator.open(Context())


def test_hidden_columns_are_not_the_functions():
    class Seen(Process):
        def on_rows(self, ctx, key, rows):
            assert rows.schema.names == ["k", "at", "v"]
            return {"k": key, "n": ctx.watermark}

    hidden = pa.schema([*SCHEMA, ("__watermark", pa.int64())])
    operator = make(node_of(Seen(), source=hidden))()
    operator.open(Context())
    operator.on_watermark(7)
    batch = batch_of([("a", 0, 0)]).append_column("__watermark", pa.array([3]))
    assert rows_of(operator.on_batch(0, batch)) == [("a", 7)]
    operator.close()
    assert OUTPUT.names == ["k", "n"]


class Chained(Process):
    """Each timer sets the next one, up to `last`; without it for ever, also when all has ended."""

    def __init__(self, last):
        self.last = last

    def on_rows(self, ctx, key, rows):
        ctx.timers.set(1)

    def on_timer(self, ctx, key, time, domain):
        if self.last is None or time < self.last:
            ctx.timers.set(time + 10)
        return {"k": key, "n": time}


def test_timers_that_are_set_at_the_end_are_called():
    node = node_of(Chained(last=61), timers=("event",))
    steps = [Rows(batch_of([("a", 1, 1), ("b", 1, 1)])), Until(25)]
    found = rows_of(run_straight(make(node), steps).rows)
    assert sorted(found) == [(k, n) for k in ("a", "b") for n in range(1, 62, 10)]


def test_timers_without_end_are_an_error(monkeypatch):
    monkeypatch.setattr(process_operator, "LAST_ROUNDS", 20)
    node = node_of(Chained(last=None), timers=("event",))
    with pytest.raises(ExpressionError, match="Chained sets timers without end"):
        run_straight(make(node), [Rows(batch_of([("a", 1, 1)])), Until(5)])
