"""Passes: rules until they rest, shared work left whole, a node that rests not asked again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from fabric.coordinator.optimizer.filter_pushdown import filter_below_select
from fabric.coordinator.optimizer.passes import Passes, name_of
from fabric.coordinator.optimizer.trace import Fired
from fabric.plan.expr import Column
from fabric.plan.nodes import Filter, Limit, Node, Select, Union

A = (Column("a"),)


def test_a_filter_goes_a_long_way_in_one_pass(p: SimpleNamespace) -> None:
    node: Node = p.table()
    for number in range(5):
        node = Select(node, A, path=f"s{number}")
    fired: list[Fired] = []
    plan = Filter(node, p.call("gt", "a", 1), path="f")
    found = Passes({Filter: (filter_below_select,)}, fired).once(plan)
    assert len(fired) == 5
    assert found.input.input.input.input.input.path == "f"


def test_a_node_that_rests_is_not_asked_again(p: SimpleNamespace) -> None:
    asked = []

    def rests(node: Node) -> Node:
        asked.append(node)
        return node

    passes = Passes({Limit: (rests,)}, [])
    plan = Limit(p.table(), 1)
    assert passes.until_settled(plan) is plan
    assert passes.until_settled(Union((plan, p.table("u")))).inputs[0] is plan
    assert asked == [plan]


def test_what_has_two_parents_is_not_taken_apart(p: SimpleNamespace) -> None:
    shared = Select(p.table(), A, path="shared")
    plan = Union((Filter(shared, p.call("gt", "a", 1)), shared))
    assert Passes({Filter: (filter_below_select,)}, []).until_settled(plan) is plan


def test_names() -> None:
    assert name_of(filter_below_select) == "filter_below_select"
    assert name_of(partial(replace, 1)) == "replace"
