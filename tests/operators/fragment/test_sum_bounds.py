"""Sums that can't overflow are known; none that can is taken for one."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric.errors import ExpressionError
from fabric.io.files.statistics import magnitude
from fabric.operators.fragment import execute_fragment
from fabric.operators.fragment.sum_bounds import Fit, Leaf
from fabric.operators.fragment.sum_bounds import fits as known_of
from fabric.plan.expr import Agg, Alias, Call, Case, Cast, Column, Expr, Literal
from fabric.plan.nodes import Aggregate, Filter, Join, Node, Select, StageInput, Union
from fabric.plan.schema import schema_of
from fabric.plan.sources import FileSource

LEAF = StageInput(0, pa.schema([("k", pa.int64()), ("v", pa.int64()), ("d", pa.decimal128(15, 2))]))
ONE = Literal(1, pa.int64())


def fits(
    expr: Expr, source: Node = LEAF, *, most: float = 1e6, rows: float = 1e6, phase: str = "single"
) -> bool:
    def leaf_most(_: Leaf, name: str) -> float:
        return most if name == "v" else math.inf

    node = Aggregate(source, (Column("k"),), (Alias(Agg("sum", expr), "s"),))
    if phase == "partial":
        node = Aggregate(source, node.keys, node.aggs, "partial")
    return known_of(node, leaf_most, lambda _: rows) == {0: Fit.SUMS}


def test_integers_by_the_largest_value_and_the_rows() -> None:
    v = Column("v")
    assert fits(v)
    assert fits(v, most=9.2e12)
    assert fits(v, phase="partial")
    assert not fits(v, most=9.3e12)
    assert not fits(v, most=math.inf)
    assert not fits(v, rows=math.inf)
    assert not fits(Column("k"))


def test_computed_values() -> None:
    v = Column("v")
    assert fits(Call("multiply", (v, v)))
    assert not fits(Call("multiply", (v, v)), most=4e6)
    assert fits(Call("subtract", (Call("negate", (v,)), ONE)), most=9.2e12)
    assert not fits(Call("add", (v, v)), most=5e12)
    case = Case(((Call("gt", (v, ONE)), Call("multiply", (v, v))),), Literal(0, pa.int64()))
    assert fits(case)
    assert not fits(case, most=1e9)
    assert not fits(Call("floor_divide", (v, ONE)))
    assert fits(Cast(Column("v"), pa.int64()))


def test_decimals_by_their_types() -> None:
    product = Call("multiply", (Column("d"), Call("subtract", (ONE, Column("d")))))
    assert fits(product, rows=6e6)
    assert not fits(product, rows=1e8)
    wide = StageInput(0, pa.schema([("k", pa.int64()), ("d", pa.decimal128(38, 2))]))
    assert not fits(Column("d"), wide, rows=2.0)


def pair_fit(a: Expr, b: Expr, *, most: float, rows: float = 1e6, phase: str = "single") -> Fit:
    agg = Alias(Agg("corr", a, (b,)), "r")
    node = Aggregate(LEAF, (Column("k"),), (agg,))
    if phase != "single":
        node = Aggregate(LEAF, node.keys, node.aggs, "partial")
    found = known_of(node, lambda _, name: most if name == "v" else math.inf, lambda _: rows)
    return found.get(0, Fit.UNKNOWN)


def test_pairs_by_their_products() -> None:
    v = Column("v")
    assert pair_fit(v, v, most=3.0e6) is Fit.SUMS
    assert pair_fit(v, v, most=3.0e6, phase="partial") is Fit.SUMS
    assert pair_fit(v, ONE, most=3.1e6) is Fit.PRODUCTS
    assert pair_fit(ONE, v, most=3.0e9) is Fit.PRODUCTS
    assert pair_fit(v, v, most=3.1e9) is Fit.UNKNOWN
    assert pair_fit(v, v, most=3.0e9, rows=1e8) is Fit.UNKNOWN  # a float sum may be too far away
    assert pair_fit(v, v, most=1.0, rows=math.inf) is Fit.UNKNOWN
    assert pair_fit(v, Column("k"), most=1.0) is Fit.UNKNOWN
    assert pair_fit(v, Column("d"), most=1.0) is Fit.UNKNOWN
    assert pair_fit(v, Call("multiply", (v, v)), most=1000.0) is Fit.SUMS
    assert pair_fit(ONE, Literal(-3, pa.int64()), most=math.inf) is Fit.SUMS


def test_through_nodes() -> None:
    named = Select(LEAF, (Column("k"), Alias(Call("multiply", (Column("v"), ONE)), "x")))
    assert fits(Column("x"), Filter(named, Call("gt", (Column("x"), ONE))))
    assert not fits(Column("x"), named, most=1e13)
    assert fits(Column("v"), Union((LEAF, LEAF)), most=4.6e12)
    assert not fits(Column("v"), Union((LEAF, LEAF)), most=4.7e12)
    key = (Column("k"),)
    for how in ("inner", "full"):
        joined = Join(LEAF, LEAF, key, key, how)
        assert fits(Column("v_right"), joined, most=9.2e6)
        assert not fits(Column("v_right"), joined, most=9.3e6)
        assert not fits(Column("k"), joined)
    assert fits(Column("v"), Join(LEAF, LEAF, key, key, "semi"), most=9.2e12)


def test_what_wraps_is_still_found() -> None:
    rows = pa.table({"k": [1, 2, 2], "v": [1, 1 << 62, 1 << 62], "d": [Decimal(1)] * 3})
    rows = rows.cast(LEAF.schema)
    node = Aggregate(LEAF, (Column("k"),), (Alias(Agg("sum", Column("v")), "s"),))
    with pytest.raises(ExpressionError, match="does not fit"):
        list(execute_fragment(node, {0: rows.to_batches()}, {}))
    partial = Aggregate(LEAF, node.keys, node.aggs, "partial")
    states = list(execute_fragment(partial, {0: rows.to_batches()}, {}))
    final = Aggregate(StageInput(0, schema_of(partial)), node.keys, node.aggs, "final")
    with pytest.raises(ExpressionError, match="does not fit"):
        list(execute_fragment(final, {0: states}, {}))


@pytest.mark.parametrize("format", ["parquet", "ipc"])
def test_files(format: str, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.mkdir()
    for large, name in ((5, "small"), (1 << 62, "large")):
        table = pa.table({"k": [1, 2, 2], "v": [None, -large, -large], "w": [None] * 2 + [large]})
        table = table.cast(pa.schema([("k", pa.int8()), ("v", pa.int64()), ("w", pa.int64())]))
        frame = fabric.from_arrow(table)
        write = frame.write_parquet if format == "parquet" else frame.write_ipc
        write(str(path / name))
    read = fabric.read_parquet if format == "parquet" else fabric.read_ipc
    suffix = "parquet" if format == "parquet" else "arrow"
    small = read(str(path / "small" / f"*.{suffix}")).group_by("k").agg(v=fabric.sum("v"))
    assert sorted(small.collect()["v"].to_pylist(), key=str) == [-10, None]
    large_ = read(str(path / "large" / f"*.{suffix}"))
    assert (
        large_.group_by("k").agg(w=fabric.sum("w")).collect()["w"].to_pylist().count(1 << 62) == 1
    )
    wrapped = large_.group_by("k").agg(v=fabric.sum("v"), n=fabric.sum(fabric.col("w")))
    assert wrapped.collect().num_rows == 2  # -2^63 is the least there is
    below = large_.with_columns(u=fabric.col("v") - 1).group_by("k").agg(u=fabric.sum("u"))
    with pytest.raises(ExpressionError, match="does not fit"):
        below.collect()


def test_magnitudes_of_footers(tmp_path: Path) -> None:
    rows = pa.table(
        {"i": [-7, 3, None], "d": [Decimal("1.50"), None, Decimal("-0.25")], "f": [9.0] * 3}
    )
    for statistics in (True, False):
        path = str(tmp_path / f"{statistics}.parquet")
        pq.write_table(rows, path, write_statistics=statistics)
        source = FileSource("parquet", (path,))
        found = [magnitude(source, rows.schema, name) for name in rows.schema.names]
        assert found == ([7.0, 1.5, math.inf] if statistics else [math.inf] * 3)
