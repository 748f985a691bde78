"""Every operator straight, aborted at each batch and restored, and on another number of tasks."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.operators.contract import Context, Files, Operator
from fabric.operators.row_operators import (
    FilterOperator,
    LimitOperator,
    ProjectOperator,
    UnionOperator,
)
from fabric.operators.snapshots import N_KEY_GROUPS, key_groups
from fabric.plan.expr import Call, Column, Literal
from fabric.testing.operators import Rows, run_aborted, run_rescaled, run_straight

SCHEMA = pa.schema([("a", pa.int64())])
BATCHES = [pa.record_batch({"a": range(i * 10, i * 10 + 3 + i)}, SCHEMA) for i in range(5)]
INPUTS = [Rows(batch) for batch in BATCHES]
ODD = Call("eq", (Call("modulo", (Column("a"), Literal(2, pa.int64()))), Literal(1, pa.int64())))
OUTPUT = pa.schema([("b", pa.bool_())])
STATELESS = {
    "filter": lambda: FilterOperator(ODD, SCHEMA),
    "project": lambda: ProjectOperator([ODD], SCHEMA, OUTPUT),
    "union": lambda: UnionOperator([SCHEMA], pa.schema([("a", pa.int64())])),
}
ALL = {**STATELESS, "limit": lambda: LimitOperator(11, 4)}


def values(batches):
    return [value for batch in batches for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize("abort_at", range(5))
@pytest.mark.parametrize("name", ALL)
def test_an_abort_changes_nothing(name, abort_at):
    straight = values(run_straight(ALL[name], INPUTS).rows)
    assert straight
    assert values(run_aborted(ALL[name], INPUTS, abort_at).rows) == straight


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 4)])
@pytest.mark.parametrize("name", STATELESS)
def test_another_number_of_tasks_changes_no_row(name, before, after):
    straight = values(run_straight(STATELESS[name], INPUTS).rows)
    rescaled = run_rescaled(STATELESS[name], INPUTS, [before, after])
    assert sorted(values(rescaled.rows)) == sorted(straight)


def test_the_harness_sees_state_that_is_not_in_the_snapshot():
    class Forgetful(LimitOperator):
        def on_barrier(self, checkpoint):
            return Files()

    straight = values(run_straight(ALL["limit"], INPUTS).rows)
    assert values(run_aborted(lambda: Forgetful(11, 4), INPUTS, 3).rows) != straight


@pytest.mark.parametrize(("n", "offset"), [(0, 0), (3, 0), (4, 2), (100, 0), (2, 24), (5, 100)])
def test_limit_is_a_slice(n, offset):
    everything = values(BATCHES)
    found = values(run_straight(lambda: LimitOperator(n, offset), INPUTS).rows)
    assert found == everything[offset : offset + n]


def test_defaults_pass_time_through():
    class Plain(Operator):
        def on_batch(self, input, batch):
            return [batch]

    operator = Plain()
    operator.open(Context())
    assert operator.on_watermark(5) == []
    assert operator.watermark(5) == 5
    assert operator.on_time(7) == []
    assert operator.take_side() == {}
    assert operator.on_barrier(1) == Files()
    assert operator.on_end(0) == []
    assert not operator.done
    operator.on_complete(1)
    operator.on_abort(2)
    operator.restore([], range(10))
    operator.close()


def test_filter_copies_nothing_when_all_or_none_pass():
    batch = pa.record_batch({"a": [1, 3]}, SCHEMA)
    operator = STATELESS["filter"]()
    assert operator.on_batch(0, batch)[0] is batch
    assert operator.on_batch(0, pa.record_batch({"a": [2, None]}, SCHEMA)) == []


@given(n=st.integers(1, 128), group=st.integers(0, N_KEY_GROUPS - 1))
def test_key_groups_are_those_of_the_partitions(n, group):
    assert group in key_groups(group * n >> 15, n)
    assert sum(len(key_groups(task, n)) for task in range(n)) == N_KEY_GROUPS
