from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.filter_pushdown import (
    filter_below_aggregate,
    filter_below_distinct,
    filter_below_exchange,
    filter_below_explode,
    filter_below_select,
    filter_below_sort,
    filter_below_union,
    filter_below_window,
    filter_below_with_columns,
    filter_into_scan,
    merge_filters,
)
from fabric.plan.expr import Agg, Alias, Column, Over, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Explode,
    Filter,
    Limit,
    Select,
    Sort,
    Union,
    Window,
    WithColumns,
)


def test_merge_filters_fires(p: SimpleNamespace) -> None:
    t, inner, outer = p.table(), p.call("gt", p.call("divide", 1, "a"), 0), p.call("gt", "b", 1)
    plan = Filter(Filter(t, inner, path="i"), outer, path="o")
    assert merge_filters(plan) == Filter(t, p.both(inner, outer), path="o")


def test_merge_filters_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    risky = p.call("gt", p.call("divide", 1, "a"), 0)
    for plan in (Filter(Filter(t, p.call("ne", "a", 0)), risky), Filter(t, risky)):
        assert merge_filters(plan) is plan


def test_filter_below_select_fires(p: SimpleNamespace) -> None:
    t, moved, kept = p.table(), p.call("gt", "x", 1), p.call("gt", "c", 2)
    exprs = (p.alias("a", "x"), p.alias(p.call("add", "a", "b"), "c"))
    plan = Filter(Select(t, exprs), p.both(moved, kept))
    below = Select(Filter(t, p.call("gt", "a", 1)), exprs)
    assert filter_below_select(plan) == Filter(below, kept)
    assert filter_below_select(Filter(Select(t, exprs), moved)) == below


def test_paths_stay(p: SimpleNamespace) -> None:
    plan = Filter(Select(p.table(), (p.alias("a", "x"),), path="s"), p.call("gt", "x", 1), path="f")
    found = filter_below_select(plan)
    assert (found.path, found.children[0].path) == ("s", "f")


def test_filter_below_select_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    computed = (p.alias(p.call("add", "a", "b"), "c"), p.alias(1, "one"))
    for plan in (
        Filter(Select(t, computed), p.call("gt", "c", 2)),
        Filter(Select(t, computed), p.call("gt", "one", 2)),
        Filter(t, p.call("gt", "a", 2)),
        Select(t, computed),
    ):
        assert filter_below_select(plan) is plan


def test_what_can_fail_stays_behind_what_protects_it(p: SimpleNamespace) -> None:
    exprs = (p.alias("a", "x"), p.alias(p.call("is_not_null", "b"), "ok"))
    risky = p.call("gt", p.call("divide", 1, "x"), 2)
    plan = Filter(Select(p.table(), exprs), p.both(p.call("eq", "ok", "ok"), risky))
    assert filter_below_select(plan) is plan


def test_filter_below_with_columns_fires(p: SimpleNamespace) -> None:
    t, moved, kept = p.table(), p.call("gt", "a", 1), p.call("gt", "c", 2)
    exprs = (p.alias(p.call("add", "a", "b"), "c"),)
    below = WithColumns(Filter(t, moved), exprs)
    assert filter_below_with_columns(Filter(WithColumns(t, exprs), moved)) == below
    plan = Filter(WithColumns(t, exprs), p.both(kept, moved))
    assert filter_below_with_columns(plan) == Filter(below, kept)


def test_filter_below_with_columns_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    replaced = WithColumns(t, (p.alias(p.call("add", "a", "b"), "a"),), True)
    for plan in (
        Filter(replaced, p.call("gt", "a", 2)),
        Filter(t, p.call("gt", "a", 2)),
        replaced,
    ):
        assert filter_below_with_columns(plan) is plan


@pytest.mark.parametrize("kind", ["hash", "broadcast", "round_robin", "gather"])
def test_filter_below_exchange_fires(p: SimpleNamespace, kind: str) -> None:
    t, predicate = p.table(), p.call("gt", p.call("divide", 1, "a"), 2)
    plan = Filter(Exchange(t, kind, ("a",), 4, path="e"), predicate, path="f")
    expected = Exchange(Filter(t, predicate, path="f"), kind, ("a",), 4, path="e")
    assert filter_below_exchange(plan) == expected


def test_filter_below_exchange_leaves_others(p: SimpleNamespace) -> None:
    tapped = Exchange(p.table(), "forward", mode="pipelined")
    predicate = p.call("gt", "a", 2)
    for plan in (
        Filter(p.table(), predicate), Exchange(p.table(), "gather"), Filter(tapped, predicate)
    ):  # fmt: skip
        assert filter_below_exchange(plan) is plan


def test_fires_with_names_by_position(p: SimpleNamespace) -> None:
    x, y = p.table("x", a=pa.int64(), b=pa.int64()), p.table("y", b=pa.int64(), c=pa.int64())
    predicate = p.call("gt", "a", "b")
    expected = Union((Filter(x, predicate), Filter(y, p.call("gt", "b", "c"))))
    assert filter_below_union(Filter(Union((x, y)), predicate)) == expected


def test_filter_below_union_leaves_others(p: SimpleNamespace) -> None:
    x, y = p.table("x", a=pa.int64()), p.table("y", a=pa.int32())
    for plan in (Filter(Union((x, y)), p.call("gt", "a", 1)), Union((x, x))):
        assert filter_below_union(plan) is plan


COUNT = (Agg("count", None),)


def test_filter_below_aggregate_fires(p: SimpleNamespace) -> None:
    t, keys = p.table(), (p.alias("a", "k"), Column("s"))
    moved, kept = p.call("gt", "k", 1), p.call("gt", "count", 2)
    below = Aggregate(Filter(t, p.call("gt", "a", 1)), keys, COUNT)
    assert filter_below_aggregate(Filter(Aggregate(t, keys, COUNT), moved)) == below
    plan = Filter(Aggregate(t, keys, COUNT), p.both(moved, kept))
    assert filter_below_aggregate(plan) == Filter(below, kept)


def test_filter_below_aggregate_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    computed = (p.alias(p.call("add", "a", "b"), "k"),)
    floats = p.table(f=pa.float64())
    for plan in (
        Filter(Aggregate(t, computed, COUNT), p.call("gt", "k", 1)),
        Filter(Aggregate(t, (Column("a"),), COUNT), p.call("gt", "count", 1)),
        Filter(Aggregate(t, (), COUNT), p.call("lt", 2, 1)),
        Filter(Aggregate(floats, (Column("f"),), COUNT), p.call("is_null", "f")),
        Filter(t, p.call("gt", "a", 2)),
    ):
        assert filter_below_aggregate(plan) is plan


def numbered(source: object, *keys: str) -> Window:
    over = Over(Agg("row_number", None), tuple(map(Column, keys)), (SortKey(Column("b")),))
    return Window(source, (Alias(over, "n"),))


def test_fires_on_partition_keys(p: SimpleNamespace) -> None:
    key, number = p.call("gt", "a", 1), p.call("lt", "n", 3)
    source = p.table()
    plan = Filter(numbered(source, "a", "s"), p.both(number, key))
    assert filter_below_window(plan) == Filter(numbered(Filter(source, key), "a", "s"), number)
    plan = Filter(numbered(source, "a"), key)
    assert filter_below_window(plan) == numbered(Filter(source, key), "a")


def test_filter_below_window_leaves_others(p: SimpleNamespace) -> None:
    source = p.table("t", a=pa.int64(), b=pa.int64(), f=pa.float64())
    for plan in (
        Filter(numbered(source, "a"), p.call("lt", "n", 3)),
        Filter(numbered(source, "a"), p.call("lt", "b", 3)),
        Filter(numbered(source, "a"), p.call("gt", p.call("divide", 1, "a"), 0)),
        Filter(numbered(source, "f"), p.call("gt", "f", 1)),
        Filter(numbered(source), p.call("gt", "a", 1)),
        Filter(source, p.call("gt", "a", 1)),
        numbered(source, "a"),
    ):
        assert filter_below_window(plan) is plan


def lists(p: SimpleNamespace) -> object:
    return p.table("t", a=pa.int64(), e=pa.list_(pa.int64()))


def test_fires_on_other_columns(p: SimpleNamespace) -> None:
    source = lists(p)
    other, element, place = p.call("gt", "a", 1), p.call("gt", "e", 1), p.call("lt", "i", 2)
    plan = Filter(Explode(source, "e", position="i"), p.both(element, other, place))
    below = Explode(Filter(source, other), "e", position="i")
    assert filter_below_explode(plan) == Filter(below, p.both(element, place))
    assert filter_below_explode(Filter(Explode(source, "e", True), other)) == Explode(
        Filter(source, other), "e", True
    )


def test_filter_below_explode_leaves_others(p: SimpleNamespace) -> None:
    source = lists(p)
    for plan in (
        Filter(Explode(source, "e"), p.call("gt", "e", 1)),
        Filter(Explode(source, "e"), p.call("gt", p.call("divide", 1, "a"), 0)),
        Filter(source, p.call("gt", "a", 1)),
        Explode(source, "e"),
    ):
        assert filter_below_explode(plan) is plan


def test_filter_below_sort_fires(p: SimpleNamespace) -> None:
    t, predicate, keys = p.table(), p.call("gt", "a", 2), (SortKey(Column("b")),)
    assert filter_below_sort(Filter(Sort(t, keys), predicate)) == Sort(Filter(t, predicate), keys)


def test_filter_below_sort_leaves_others(p: SimpleNamespace) -> None:
    sort = Sort(p.table(), (SortKey(Column("b")),))
    for plan in (Filter(Limit(sort, 3), p.call("gt", "a", 2)), sort):
        assert filter_below_sort(plan) is plan


def test_filter_below_distinct_fires(p: SimpleNamespace) -> None:
    t, predicate = p.table(), p.call("gt", "a", 2)
    assert filter_below_distinct(Filter(Distinct(t), predicate)) == Distinct(Filter(t, predicate))


def test_floats_stay_above(p: SimpleNamespace) -> None:
    t = p.table(a=pa.int64(), f=pa.float64(), l=pa.list_(pa.float32()))
    exact, other = p.call("gt", "a", 2), p.call("gt", "f", "f")
    plan = Filter(Distinct(t), p.both(exact, other))
    assert filter_below_distinct(plan) == Filter(Distinct(Filter(t, exact)), other)
    for name in ("f", "l"):
        plan = Filter(Distinct(t), p.call("is_null", name))
        assert filter_below_distinct(plan) is plan


def test_filter_below_distinct_leaves_others(p: SimpleNamespace) -> None:
    for plan in (Filter(p.table(), p.call("gt", "a", 2)), Distinct(p.table())):
        assert filter_below_distinct(plan) is plan


def test_filter_into_scan_fires(p: SimpleNamespace) -> None:
    scan, first, second = p.file(), p.call("gt", "a", 1), p.call("gt", "b", 1)
    once = replace(scan, predicate=first)
    assert filter_into_scan(Filter(scan, first)) == once
    assert filter_into_scan(Filter(once, second)) == replace(scan, predicate=p.both(first, second))


def test_reads_columns_that_are_not_put_out(p: SimpleNamespace) -> None:
    scan = replace(p.file(), columns=("a", "b"), predicate=p.call("is_null", "s"))
    expected = p.both(p.call("is_null", "s"), p.call("gt", "a", 1))
    assert filter_into_scan(Filter(scan, p.call("gt", "a", 1))).predicate == expected


def test_filter_into_scan_leaves_others(p: SimpleNamespace) -> None:
    risky = p.call("gt", p.call("divide", 1, "a"), 0)
    protected = replace(p.file(), predicate=p.call("ne", "a", 0))
    for plan in (Filter(p.table(), p.call("gt", "a", 1)), Filter(protected, risky), p.file()):
        assert filter_into_scan(plan) is plan
