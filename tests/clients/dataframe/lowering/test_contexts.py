"""The identity of parents: equal rows stay apart, the same numbers everywhere."""

from __future__ import annotations

import pyarrow as pa

import fabric
from fabric import DataFrame, col, count

ROWS = [{"id": i % 3, "xs": [i % 3, 7]} for i in range(30)]


def test_equal_parents_have_one_hash_and_different_numbers() -> None:
    items = DataFrame(pa.Table.from_pylist(ROWS)).explode("xs", context="item")
    per_parent = items.group_by("item.parent", "item.copy").agg(n=count())
    assert per_parent.collect()["n"].to_pylist() == [2] * 30
    hashes = items.select("id", "item.parent").distinct()
    assert hashes.count() == 3
    copies = items.filter(col("id") == 0).select("item.copy").distinct().collect()
    assert sorted(copies["item.copy"].to_pylist()) == list(range(1, 11))


def test_several_tasks_give_the_same_parents() -> None:
    table = pa.table({"id": [1, 2, 3], "xs": [[1, 2], [3], []]})
    alone = DataFrame(table).explode("xs", context="item").sort("id", "xs").collect()
    with fabric.connect(parallelism=3) as session:
        items = session.read_arrow(table.to_batches(1)).explode("xs", context="item")
        several = items.sort("id", "xs").collect()
        lists = items.gather("item", total=col("xs").sum()).sort("id").collect()
    assert several == alone
    assert lists["total"].to_pylist() == [3, 3, None]


def test_lists_of_collected_values_are_empty_without_items() -> None:
    items = DataFrame({"id": [1, 2], "xs": [[5, 1], [0]]}).explode("xs", context="item")
    found = items.filter(col("xs") > 3).gather("item", kept=col("xs").collect()).sort("id")
    assert found.collect()["kept"].to_pylist() == [[5], []]
