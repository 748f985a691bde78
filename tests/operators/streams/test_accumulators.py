"""Incremental aggregates give the fragment's answers, however rows are cut, merged and cleared."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import ExpressionError, PlanError
from fabric.operators.fragment import execute_fragment
from fabric.operators.fragment.aggregates import FORMS
from fabric.operators.fragment.aggregates.moments import RESULTS
from fabric.operators.fragment.aggregates.quantiles import SAMPLE
from fabric.operators.streams.accumulators import Aggregates, RowGroups
from fabric.plan.expr import Agg, Alias, Column, Expr, Literal
from fabric.plan.faults import ExprFault
from fabric.plan.functions import AGGREGATES
from fabric.plan.nodes import Aggregate, StageInput
from fabric.plan.nodes.aggregate import unaliased
from fabric.plan.schema import schema_of
from fabric.plan.types import is_comparable, numeric
from tests.support.compare import unlike
from tests.support.plans.tables import random_tables
from tests.support.sampled import SOAK

FRACTION = Literal(0.3, pa.float64())
ANY_ORDER = {"collect", "min_by", "max_by", "first", "last", "any_value"}
CLOSE = {"approx_quantile"}


def calls(schema: pa.Schema) -> list[Alias]:
    """Every aggregate over every column that it takes; of those of two columns some."""
    found: list[Expr] = [Agg("count", None), Agg("sum", Literal(3, pa.int32()))]
    names = [name for name in schema.names if name != "g"]
    numbers = [name for name in names if numeric(schema.field(name).type) is not None]
    comparable = [name for name in names if is_comparable(schema.field(name).type)]
    for name, aggregate in AGGREGATES.items():
        second = numbers if name.startswith(("covar", "corr")) else comparable
        for column in names:
            args: tuple[Expr, ...] = ()
            if aggregate.arity[0] == 2:
                if not second:
                    continue
                args = (FRACTION,) if "quantile" in name else (Column(second[-1]),)
            agg = Agg(name, Column(column), args)
            try:
                Aggregates([agg], schema)
            except (ExprFault, PlanError):  # not of this type
                continue
            found.append(agg)
    return [Alias(agg, f"{i}") for i, agg in enumerate(found)]


def fragment(aggs: list[Alias], rows: pa.Table) -> pa.Table:
    node = Aggregate(StageInput(0, rows.schema), (Column("g"),), tuple(aggs))
    batches = rows.combine_chunks().to_batches()
    found = list(execute_fragment(node, {0: batches}, {}, target_partitions=1, batch_rows=8192))
    return pa.Table.from_batches(found, schema_of(node))


def streamed(aggs: list[Alias], rows: pa.Table, rng: Random) -> pa.Table:
    """Some batches here, others there, merged; and some groups begun, cleared and begun anew."""
    batches = rows.combine_chunks().to_batches(max_chunksize=rng.randint(1, 9))
    groups = sorted(set(rows.column("g").to_pylist()))
    number = {group: i for i, group in enumerate(groups)}
    ids = np.arange(len(groups))
    turned = np.array(rng.sample(range(len(groups)), len(groups)), np.int64)
    here = Aggregates(aggs, rows.schema)
    there = here.fresh()
    for made in (here, there):
        made.resize(len(groups))
    if batches:
        here.update(RowGroups(np.zeros(len(batches[0]), np.int64)), batches[0])
        here.clear(np.array([0]))
    for i, batch in enumerate(batches):
        of = np.array([number[g] for g in batch.column("g").to_pylist()], np.int64)
        if i % 2:
            here.update(RowGroups(of), batch)
        else:
            there.update(RowGroups(turned[of]), batch)
    sent = pa.RecordBatch.from_arrays(there.states(turned), schema=there.state_schema)
    here.merge(RowGroups(ids), sent.columns)
    return pa.table([pa.array(groups), *here.results(ids)], ["g", *here.result_schema.names])


@settings(max_examples=25 if SOAK else 12, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_answers_are_the_fragments(seed: int) -> None:
    rng = Random(seed)
    (table,) = random_tables(rng, 1).values()
    names = [f"c{i}" for i in range(table.num_columns)]
    rows = table.rename_columns(names).append_column(
        "g", pa.array([rng.choice("abc") for _ in range(len(table))], pa.string())
    )
    aggs = calls(rows.schema)
    assert aggs
    expected, found = fragment(aggs, rows), streamed(aggs, rows, rng)
    for alias in aggs:
        if unaliased(alias).function in ANY_ORDER | CLOSE:
            continue
        pair = ["g", alias.name]
        if unaliased(alias).function in RESULTS:  # the last digits of powers are open
            assert near(found.select(pair)) == pytest.approx(near(expected.select(pair)), rel=1e-5,
                                                             abs=1e-6, nan_ok=True)  # fmt: skip
            continue
        differ = unlike(found.select(pair), expected.select(pair))
        assert not differ, f"{alias}: {differ}"
    assert found.schema.field(1).type == expected.schema.field(1).type


def near(table: pa.Table) -> list[float]:
    pairs = sorted(zip(*table.to_pydict().values(), strict=True))
    return [-7.0 if value is None else value for _, value in pairs]


def one_group(agg: Expr, *batches: pa.RecordBatch) -> object:
    made = Aggregates([agg], batches[0].schema)
    made.resize(1)
    for batch in batches:
        made.update(RowGroups(np.zeros(len(batch), np.int64)), batch)
    return made.results(np.array([0]))[0].to_pylist()[0]


def test_there_is_an_accumulator_for_every_aggregate() -> None:
    rows = pa.record_batch({"x": [1.0], "y": [2], "b": [True]})
    for name in FORMS:
        x, y, b = (Column(each) for each in "xyb")
        second = (FRACTION,) if "quantile" in name else (y,)
        args = second if AGGREGATES[name].arity[0] == 2 else ()
        one_group(Agg(name, b if name in ("count_if", "bool_and", "bool_or") else x, args), rows)


def test_order_decides_first_and_last() -> None:
    rows = [pa.record_batch({"x": pa.array(x, pa.string())}) for x in ([None, "a"], ["b", None])]
    x = Column("x")
    answers = [one_group(Agg(name, x), *rows) for name in ("first", "last", "any_value")]
    assert answers == [None, None, "a"]
    assert one_group(Agg("collect", x), *rows) == ["a", "b"]
    turned = rows[::-1]
    assert [one_group(Agg(name, x), *turned) for name in ("first", "last")] == ["b", "a"]


def test_the_first_of_equal_rows_is_taken_by_min_by() -> None:
    rows = [pa.record_batch({"x": x, "y": y}) for x, y in (("ab", [2, 1]), ("cd", [1, 3]))
            for x in [list(x)]]  # fmt: skip
    assert one_group(Agg("min_by", Column("x"), (Column("y"),)), *rows) == "b"
    assert one_group(Agg("max_by", Column("x"), (Column("y"),)), *rows) == "d"


@pytest.mark.parametrize("dtype", [pa.int64(), pa.decimal128(38, 0)])
def test_a_sum_may_leave_its_type_on_the_way_but_not_in_the_end(dtype: pa.DataType) -> None:
    most = 2**63 - 1 if dtype == pa.int64() else 10**38 - 1
    rows = [pa.record_batch([pa.array([value], dtype)], ["x"]) for value in (most, most, -most)]
    assert one_group(Agg("sum", Column("x")), *rows) == most
    with pytest.raises(ExpressionError, match="does not fit"):
        one_group(Agg("sum", Column("x")), *rows[:2])


def test_a_quantile_of_many_rows_keeps_a_sample_and_is_near() -> None:
    values = np.random.default_rng(1).permutation(200_000)
    batches = [pa.record_batch({"x": piece}) for piece in np.split(values, 40)]
    agg = Agg("approx_quantile", Column("x"), (FRACTION,))
    made = Aggregates([agg], batches[0].schema)
    made.resize(1)
    for batch in batches:
        made.update(RowGroups(np.zeros(len(batch), np.int64)), batch)
    (state,) = made.states(np.array([0]))
    assert len(state.flatten()) <= 2 * SAMPLE + 5000
    (answer,) = made.results(np.array([0]))
    assert abs(answer[0].as_py() - 60_000) < 200_000 / SAMPLE * 10


def test_nested_values_are_not_counted_apart() -> None:
    rows = pa.schema([("x", pa.list_(pa.int8()))])
    with pytest.raises(PlanError, match="takes no lists or structs"):
        Aggregates([Agg("count_distinct", Column("x"))], rows)
