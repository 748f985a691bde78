"""Random plans: valid, different, equal for equal seeds, and of every kind there is."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pyarrow as pa
import pytest

from fabric.plan.check import check
from fabric.plan.codec import encode
from fabric.plan.expr import Agg, Call
from fabric.plan.functions import AGGREGATES, FUNCTIONS, WINDOW_FUNCTIONS
from fabric.plan.nodes import Limit, Plan, Sort
from fabric.plan.schema import schema_of, type_of
from fabric.plan.walk import walk, walk_expr
from tests.support.plans import random_plan, random_tables
from tests.support.plans.calls import CLOSE, EXACT, SELDOM
from tests.support.plans.expressions import FAMILIES, NESTED, Expressions, family

N_PLANS = 320
LEFT_OUT = {
    # need values of a certain form
    "to_timestamp", "try_to_timestamp", "unbase64", "unhex", "decode_hex", "list_item",
    "make_timestamp",
    "total_days", "total_hours", "total_minutes", "total_seconds", "total_milliseconds",
    "total_microseconds",  # durations
    "list_any", "list_all", "list_flatten", "list_zip",  # lists of other things
    "approx_distinct",  # says about how many
    "random", "poisson",  # samples
}  # fmt: skip
N_RARE = 25
"""So many functions may be in no plan of these seeds; each new recipe draws other plans."""


def plan(seed: int) -> Plan:
    return Plan(random_plan(Random(seed), random_tables(Random(seed))))


@cache
def plans() -> list[Plan]:
    return [plan(seed) for seed in range(N_PLANS)]


def test_they_are_valid_and_cover_everything() -> None:
    seen: Counter[str] = Counter()
    for one in plans():
        for node in walk(check(one).root):
            seen[type(node).__name__] += 1
            seen[getattr(node, "how", "")] += 1
            for expr in node.expressions:
                seen.update(p.function for p in walk_expr(expr) if isinstance(p, Call | Agg))
    nodes = {"Scan", "Filter", "Select", "WithColumns", "Aggregate", "Join", "Sort", "Limit",
             "Distinct", "Union", "Exchange", "Window", "Explode"}  # fmt: skip
    joins = {"inner", "left", "right", "full", "cross", "semi", "anti"}
    assert (nodes | joins) <= set(seen)
    known = {*FUNCTIONS, *AGGREGATES, *WINDOW_FUNCTIONS} - LEFT_OUT
    assert len(known - set(seen)) <= N_RARE, known - set(seen)


def test_a_recipe_for_every_function() -> None:
    recipes = [name for made in EXACT.values() for name, _ in made] + [name for name, _ in CLOSE]
    drawn = set(SELDOM) | set(recipes)
    assert drawn <= set(FUNCTIONS)
    by_hand = set(FUNCTIONS) - drawn - LEFT_OUT
    assert {"add", "and", "coalesce", "concat", "date_trunc"} <= by_hand
    assert len(by_hand) < 55, by_hand


def test_they_differ() -> None:
    assert len({encode(one) for one in plans()}) > N_PLANS * 0.95


def test_equal_seeds_give_equal_plans() -> None:
    assert [encode(plan(seed)) for seed in range(30)] == [encode(p) for p in plans()[:30]]


def test_some_share_a_part() -> None:
    def shares(one: Plan) -> bool:
        uses = Counter(id(child) for node in walk(one.root) for child in node.children)
        return any(n > 1 for n in uses.values())

    assert sum(map(shares, plans())) > N_PLANS / 10


def test_a_limit_is_above_a_sort_by_all_columns() -> None:
    for one in plans():
        for node in walk(one.root):
            if isinstance(node, Limit):
                assert isinstance(node.input, Sort)
                assert len(node.input.keys) == len(schema_of(node))


@pytest.mark.parametrize("kind", FAMILIES + NESTED)
def test_an_expression_is_of_the_wanted_family(kind: str) -> None:
    for seed in range(100):
        rng = Random(seed)
        schema = random_tables(rng, 1)["table_0"].schema
        dtype = type_of(Expressions(rng, schema, frozenset()).of(kind, 3), schema)
        assert family(dtype) == kind


def test_tables_have_nulls_chunks_and_odd_names() -> None:
    tables = [table for seed in range(40) for table in random_tables(Random(seed)).values()]
    assert any(column.null_count for table in tables for column in table.columns)
    assert any(table.num_rows == 0 for table in tables)
    assert any("" in table.schema.names for table in tables)
    assert {f.type for t in tables for f in t.schema} >= {pa.float64(), pa.decimal128(10, 2)}
    assert all(table.column(0).num_chunks == 2 for table in tables)
