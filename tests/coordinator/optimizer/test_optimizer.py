"""The rules together."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.optimizer.passes import Passes
from fabric.coordinator.submit.constants import constant_value
from fabric.plan.check import check
from fabric.plan.codec import decode, encode
from fabric.plan.expr import Agg, Alias, Column, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    Limit,
    Plan,
    Scan,
    Select,
    Sort,
    Union,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.statistics import SourceFacts
from fabric.plan.walk import walk
from tests.support.plans import random_plan, random_tables

K, A = (Column("k"),), Column("a")


def optimised(root: object) -> object:
    return optimize(check(Plan(root))).root


def scans(root: object) -> dict[str, Scan]:
    return {node.path: node for node in walk(root) if isinstance(node, Scan)}


def test_filters_and_columns_reach_the_files(p: SimpleNamespace) -> None:
    left = p.file("l", k=pa.int64(), a=pa.int64(), unused=pa.string())
    right = p.file("r", k=pa.int64(), b=pa.int64(), c=pa.int64())
    joined = Join(Exchange(left, "hash", ("k",)), right, K, K)
    wide = WithColumns(joined, (Alias(p.call("add", "a", "b"), "t"),))
    total = (Alias(Agg("sum", Column("t")), "total"),)
    root = Aggregate(Filter(wide, p.both(p.call("gt", "a", 1), p.call("gt", "c", 2))), K, total)
    found = scans(optimised(root))
    assert (found["l"].columns, found["l"].predicate) == (("k", "a"), p.call("gt", "a", 1))
    assert (found["r"].columns, found["r"].predicate) == (("k", "b"), p.call("gt", "c", 2))
    assert not any(isinstance(n, Filter | Select) for n in walk(optimised(root)))


def test_a_plan_that_is_good_already_is_itself(p: SimpleNamespace) -> None:
    plan = check(Plan(Limit(Sort(p.table(), (SortKey(A),)), 3)))
    assert optimize(plan) is plan


def test_twice_changes_nothing_more(p: SimpleNamespace) -> None:
    root = Select(Filter(Select(p.file(), (A, Column("b"))), p.call("gt", "a", 1)), (A,))
    once = optimize(check(Plan(root)))
    assert optimize(once) is once


def test_shared_work_stays_shared(p: SimpleNamespace) -> None:
    shared = Select(p.file(), (Alias(p.call("add", "a", "b"), "x"), A), path="shared")
    root = Union((Filter(shared, p.call("gt", "a", 1)), Filter(shared, p.call("gt", "a", 2))))
    found = optimised(root)
    assert found.inputs[0].input is found.inputs[1].input
    assert len([n for n in walk(found) if isinstance(n, Scan)]) == 1


def test_what_protects_an_expression_stays_below_it(p: SimpleNamespace) -> None:
    left = p.table("l", k=pa.int64(), a=pa.int64())
    right = p.table("r", k=pa.int64())
    risky = p.call("gt", p.call("divide", 1, "a"), 0)
    for protected in (
        Filter(Filter(left, p.call("ne", "a", 0)), risky),
        Filter(Join(left, right, K, K, "semi"), risky),
        Filter(Limit(left, 3), risky),
    ):
        plan = check(Plan(protected))
        assert optimize(plan).root is plan.root or not any(
            isinstance(n, Filter) and n.predicate == risky for n in walk(optimize(plan).root.input)
        )
        assert optimize(plan).root.predicate == risky


def test_limits_meet_sorts(p: SimpleNamespace) -> None:
    computed = (Alias(p.call("add", "a", 1), "x"),)
    root = Limit(Select(Sort(p.table(), (SortKey(A),)), computed), 3)
    found = optimised(root)
    assert isinstance(found, Select)
    assert isinstance(found.input, Limit)
    assert isinstance(found.input.input, Sort)


def test_config_and_schema_stay(p: SimpleNamespace) -> None:
    root = Select(WithColumns(p.file(), (Alias(A, "z"),)), (Column("z"), A))
    plan = check(Plan(root))
    found = optimize(plan)
    assert found.config == plan.config
    assert schema_of(found.root) == schema_of(plan.root)


def test_a_rule_that_never_rests_is_stopped(p: SimpleNamespace) -> None:
    asked = 0

    def restless(node: object) -> object:
        nonlocal asked
        asked += 1
        return replace(node, n=node.n + 1)

    assert Passes({Limit: (restless,)}, []).until_settled(Limit(p.table(), 0)).n == 100
    assert asked == 100


@settings(deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_what_rules_remember_of_columns_is_what_is_inferred(seed: int) -> None:
    tables = random_tables(Random(5))
    plan = check(Plan(random_plan(Random(seed), tables)))
    paths = [node.path for node in walk(plan.root) if isinstance(node, Scan)]
    facts = {path: SourceFacts(n_rows=10**n, exact=False) for n, path in enumerate(paths)}
    known = optimize(plan, facts, evaluate=constant_value).root
    fresh = decode(encode(Plan(known))).root  # has all to infer
    for one, other in zip(walk(known), walk(fresh), strict=True):
        assert schema_of(one).equals(schema_of(other)), one.path
