from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.passes import unnoted
from fabric.coordinator.optimizer.prune_columns import prune_columns
from fabric.plan.expr import Agg, Alias, Column, Over, SortKey
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Explode,
    Filter,
    Join,
    Scan,
    Select,
    Sort,
    Union,
    Window,
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk

K = (Column("k"),)


def scans(root: object) -> dict[str, tuple[str, ...] | None]:
    return {node.path: node.columns for node in walk(root) if isinstance(node, Scan)}


def test_scan_reads_what_is_needed(p: SimpleNamespace) -> None:
    t = p.table()
    plan = Select(Filter(t, p.call("gt", "b", 1)), (Column("a"),))
    expected = Select(Filter(replace(t, columns=("a", "b")), p.call("gt", "b", 1)), (Column("a"),))
    assert prune_columns(plan, unnoted) == expected


def test_columns_nobody_reads_are_not_computed(p: SimpleNamespace) -> None:
    t = p.table()
    risky = p.alias(p.call("divide", "a", "b"), "q")
    plan = Select(WithColumns(t, (risky,)), (Column("a"),))
    assert prune_columns(plan, unnoted) == Select(replace(t, columns=("a",)), (Column("a"),))
    plan = Select(WithColumns(t, (risky, p.alias("s", "z"))), (Column("z"),))
    found = prune_columns(plan, unnoted)
    assert found.input.exprs == (p.alias("s", "z"),)
    assert scans(found) == {"t": ("s",)}


def test_replaced_column_keeps_its_place(p: SimpleNamespace) -> None:
    t = p.table()
    plan = WithColumns(t, (p.alias(p.call("add", "b", 1), "a"),), True)
    assert prune_columns(plan, unnoted) is plan
    narrow = Select(plan, (Column("a"), Column("s")))
    assert schema_of(prune_columns(narrow, unnoted)) == schema_of(narrow)


def test_join_sides_send_only_what_is_read(p: SimpleNamespace) -> None:
    left = p.table("l", k=pa.int64(), a=pa.int64(), b=pa.int64())
    right = p.table("r", k=pa.int64(), c=pa.int64(), d=pa.int64())
    filtered = Filter(right, p.call("gt", "d", 1), path="f")
    plan = Select(Join(left, filtered, K, K), (Column("a"), Column("c")))
    found = prune_columns(plan, unnoted)
    assert scans(found) == {"l": ("k", "a"), "r": None}
    assert isinstance(found.input.right, Select)
    assert schema_of(found.input.right).names == ["k", "c"]
    assert found.input.right.path == "f/columns"


def test_suffix_survives(p: SimpleNamespace) -> None:
    left = p.table("l", k=pa.int64(), x=pa.int64(), y=pa.int64())
    right = p.table("r", k=pa.int64(), x=pa.int64())
    plan = Select(Join(left, right, K, K), (Column("x_right"),))
    found = prune_columns(plan, unnoted)
    assert scans(found) == {"l": ("k", "x"), "r": None}
    assert schema_of(found) == schema_of(plan)


def test_semi_join_needs_only_keys_of_the_right(p: SimpleNamespace) -> None:
    left = p.table("l", k=pa.int64(), a=pa.int64())
    right = p.table("r", k=pa.int64(), c=pa.int64())
    assert scans(prune_columns(Join(left, right, K, K, "semi"), unnoted)) == {
        "l": None,
        "r": ("k",),
    }


def test_count_reads_the_cheapest_column(p: SimpleNamespace) -> None:
    t = p.table(s=pa.string(), b=pa.int64(), c=pa.int16())
    plan = Aggregate(t, (), (Agg("count", None),))
    assert scans(prune_columns(plan, unnoted)) == {"t": ("c",)}


def test_aggregates_nobody_reads_are_dropped(p: SimpleNamespace) -> None:
    t = p.table()
    aggs = (Alias(Agg("sum", Column("b")), "x"), Alias(Agg("count", None), "n"))
    found = prune_columns(Select(Aggregate(t, (Column("a"),), aggs), (Column("n"),)), unnoted)
    assert found.input == Aggregate(replace(t, columns=("a",)), (Column("a"),), aggs[1:])


def test_union_goes_by_position(p: SimpleNamespace) -> None:
    x = p.table("x", a=pa.int64(), b=pa.int64())
    y = p.table("y", c=pa.int64(), d=pa.int64())
    filtered = Filter(y, p.call("gt", "c", 1), path="f")
    found = prune_columns(Select(Union((x, filtered)), (Column("b"),)), unnoted)
    assert scans(found) == {"x": ("b",), "y": None}
    assert [schema_of(child).names for child in found.input.inputs] == [["b"], ["d"]]


def test_union_over_a_shared_scan_keeps_its_width(p: SimpleNamespace) -> None:
    t = p.table()
    narrow = Select(Union((t, t)), (Column("a"),))
    root = Join(narrow, t, (Column("a"),), (Column("b"),), "semi")
    wide = Union((root, Select(t, (Column("b"),))))
    found = prune_columns(wide, unnoted)
    assert schema_of(found) == schema_of(wide)
    (union,) = (n for n in walk(found) if isinstance(n, Union) and n is not found)
    assert [schema_of(child).names for child in union.inputs] == [["a"], ["a"]]


def test_exchange_and_sort_keep_their_keys(p: SimpleNamespace) -> None:
    t = p.table()
    sent = Select(Exchange(t, "hash", ("b",)), (Column("a"),))
    assert scans(prune_columns(sent, unnoted)) == {"t": ("a", "b")}
    ordered = Select(Sort(t, (SortKey(Column("s")),)), (Column("a"),))
    assert scans(prune_columns(ordered, unnoted)) == {"t": ("a", "s")}


def test_shared_node_keeps_what_either_parent_needs(p: SimpleNamespace) -> None:
    t = p.table()
    shared = Filter(t, p.call("gt", "a", 1), path="f")
    plan = Union((Select(shared, (Column("a"),)), Select(shared, (Column("b"),))))
    found = prune_columns(plan, unnoted)
    assert scans(found) == {"t": ("a", "b")}
    assert found.inputs[0].input is found.inputs[1].input


def test_a_join_of_a_shared_scan_is_sent_its_own_columns(p: SimpleNamespace) -> None:
    t = p.table()
    k = (Column("a"),)
    wide = Filter(t, p.call("gt", "b", 1))
    found = prune_columns(Select(Join(wide, t, k, k, "semi"), k), unnoted)
    (join,) = (node for node in walk(found) if isinstance(node, Join))
    assert scans(found) == {"t": ("a", "b")}
    assert schema_of(join.right).names == ["a"]


def test_leaves_others(p: SimpleNamespace) -> None:
    t = p.table()
    for plan in (t, Distinct(t), Select(t, (Column("a"), Column("b"), Column("s")))):
        assert prune_columns(plan, unnoted) is plan


def test_windows_keep_what_is_read(p: SimpleNamespace) -> None:
    t = p.table()
    by_a = (Column("a"),)
    total = Alias(Over(Agg("sum", Column("b")), by_a), "total")
    longest = Alias(Over(Agg("max", Column("s")), by_a), "longest")
    both = Window(t, (total, longest))
    found = prune_columns(Select(both, (Column("total"),)), unnoted)
    assert found.input.exprs == (total,)
    assert scans(found) == {"t": ("a", "b")}
    found = prune_columns(Select(both, (Column("s"),)), unnoted)
    assert scans(found) == {"t": ("s",)}
    assert not any(isinstance(node, Window) for node in walk(found))


def test_explode_keeps_its_list(p: SimpleNamespace) -> None:
    t = p.table("t", a=pa.int64(), b=pa.int64(), e=pa.list_(pa.int64()))
    found = prune_columns(Select(Explode(t, "e", position="i"), (Column("a"),)), unnoted)
    assert scans(found) == {"t": ("a", "e")}
    assert found.input.position == ""


def test_explode_keeps_a_column_without_a_name(p: SimpleNamespace) -> None:
    t = p.table("t", **{"": pa.int64(), "e": pa.list_(pa.int64())})
    found = prune_columns(Select(Explode(t, "e"), (Column(""),)), unnoted)
    assert schema_of(found).names == [""]


def test_a_condition_keeps_its_columns_and_their_names(p: SimpleNamespace) -> None:
    left = p.table("l", k=pa.int64(), a=pa.int64(), x=pa.int64())
    right = p.table("r", k=pa.int64(), a=pa.int64(), y=pa.int64())
    for how, expected in (
        ("inner", {"l": ("k", "a"), "r": ("k", "a")}),
        ("semi", {"l": ("k", "a"), "r": ("k", "a")}),
        ("full", {"l": ("k", "a"), "r": ("k", "a")}),
    ):
        joined = Join(left, right, K, K, how, condition=p.call("gt", "a_right", 1))
        plan = Select(joined, (Column("k"),))
        found = prune_columns(plan, unnoted)
        assert scans(found) == expected
        assert schema_of(found).equals(schema_of(plan))


def test_merged_keys_of_outer_joins_are_read_on_both_sides(p: SimpleNamespace) -> None:
    left = p.table("l", k=pa.int64(), a=pa.int64())
    right = p.table("r", k=pa.int64(), b=pa.int64())
    for how in ("right", "full"):
        plan = Select(Join(left, right, K, K, how), (Column("k"),))
        found = prune_columns(plan, unnoted)
        assert scans(found) == {"l": ("k",), "r": ("k",)}
        assert schema_of(found).equals(schema_of(plan))
