from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pyarrow as pa
import pytest
from plan_frames import ROWS, call, col, scan

from fabric.clients.spark.plan import translate
from fabric.plan.expr import Agg, Alias
from fabric.plan.nodes import Aggregate, Explode, Filter, Node, WithColumns

Same = Callable[[Node], pa.Table]


@pytest.mark.parametrize(("outer", "position"), [*product((False, True), ("", "p.o`s"))])
def test_explode(outer: bool, position: str, same: Same) -> None:
    found = same(Explode(scan(ROWS), "l", outer, position))
    assert found.column_names == [*ROWS.column_names, *([position] if position else [])]
    assert found.schema.field("l").type == pa.int16()


@pytest.mark.parametrize(
    "dtype",
    [pa.large_list(pa.string()), pa.list_(pa.list_(pa.uint8())), pa.list_(pa.int32(), 2),
     pa.list_(pa.struct([("a", pa.int8()), ("A", pa.string())]))],
    ids=str,
)  # fmt: skip
def test_lists_of_every_layout(dtype: pa.DataType, same: Same) -> None:
    values = {
        pa.large_list(pa.string()): [["a", None], [], None],
        pa.list_(pa.list_(pa.uint8())): [[[1, 2], None], [[]], []],
        pa.list_(pa.int32(), 2): [[1, 2], None, [3, None]],
    }.get(dtype, [[{"a": 1, "A": "x"}, None], None, []])
    same(Explode(scan(pa.table({"l": pa.array(values, dtype)})), "l", True, "at"))


def test_filters_above_and_below(same: Same) -> None:
    below = Explode(Filter(scan(ROWS), call("ne", col("i"), 0)), "l")
    ninth = WithColumns(below, (Alias(call("floor_divide", 9, col("i")), "n"),))
    same(Filter(ninth, call("gt", col("n"), 0)))
    same(Aggregate(below, (col("l"),), ()))


@pytest.mark.parametrize("outer", [False, True])
def test_by_the_operator_of_agents(
    outer: bool, same: Same, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a row-wise step runs that has no form of its own here."""
    monkeypatch.delitem(translate._NODES, Explode)
    step = Explode(scan(ROWS), "l", outer, "at")
    same(step)
    same(Aggregate(step, (col("l"),), (Alias(Agg("count", None), "n"),)))
    same(Aggregate(step, (), (Alias(Agg("count", None), "n"),)))
    same(Filter(step, call("gt", col("l"), 1)))
