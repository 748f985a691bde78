"""Row groups left out by statistics: never one with a row that a filter keeps."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.io.files import parquet
from fabric.io.files.statistics import pruning_filter
from fabric.operators.expressions.arrow.compile import compile_expr
from fabric.plan.expr import Call, Column, Expr, IsIn, Literal

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [1, 2, 3, 5, -9]),
    "f": (pa.float64(), [1.0, 2.5, -0.0, 0.0, math.nan, math.inf, -math.inf]),
    "s": (pa.string(), ["", "a", "ab", "abc", "b", "ü", "z\U0010ffff"]),
    "d": (pa.date32(), [date(2020, 1, 1), date(2021, 5, 5), date(1960, 2, 2)]),
    "t": (pa.timestamp("us"), [datetime(2020, 1, 1, 3), datetime(1999, 1, 1)]),
    "n": (pa.decimal128(10, 2), [Decimal("1.25"), Decimal("-3.00")]),
    "b": (pa.bool_(), [True, False]),
}
SCHEMA = pa.schema([(name, dtype) for name, (dtype, _) in COLUMNS.items()])
N_ROWS, GROUP_ROWS = 12, 3


def literal(name: str, value: Any) -> Literal:
    return Literal(value, COLUMNS[name][0])


def test_what_is_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"i": range(12), "s": list("aaabbbcccddd")}), path, row_group_size=3)
    schema = pa.schema([("i", pa.int64()), ("s", pa.string())])
    i, s = Column("i"), Column("s")

    def groups(expr: Expr) -> list[int]:
        part = parquet.pruned(parquet.fragment(path, 0, 0), pruning_filter(expr, schema))
        return [group.id for group in part.row_groups]

    low, high = (Call(f, (i, Literal(n, pa.int64()))) for f, n in (("lt", 3), ("ge", 9)))
    assert groups(Call("or", (low, high))) == [0, 3]
    assert groups(
        Call("and", (Call("or", (low, high)), Call("lt", (i, Literal(1, pa.int32())))))
    ) == [0]
    assert groups(Call("is_null", (i,))) == []
    assert groups(Call("starts_with", (s, Literal("c", pa.string())))) == [2]
    assert groups(IsIn(i, (Literal(4, pa.int64()), Literal(None, pa.int64())))) == [1]
    assert groups(Call("or", (low, Call("not", (high,))))) == [0, 1, 2, 3]
    many = tuple(Literal(n, pa.int64()) for n in range(4, 20_000))  # "or" between them: a crash
    assert groups(IsIn(i, many)) == [1, 2, 3]
    assert groups(IsIn(s, tuple(Literal(f"c{n}", pa.string()) for n in range(200)))) == []


VALUES = {name: st.none() | st.sampled_from(values) for name, (_, values) in COLUMNS.items()}


@st.composite
def predicates(draw: st.DrawFn) -> Expr:
    kind = draw(st.sampled_from(("compare", "compare", "null", "in", "prefix", "and", "or")))
    name = draw(st.sampled_from(sorted(COLUMNS)))
    column = Column(name)
    match kind:
        case "compare":
            function = draw(st.sampled_from(("eq", "ne", "lt", "le", "gt", "ge")))
            sides = [column, literal(name, draw(VALUES[name]))]
            return Call(function, tuple(draw(st.permutations(sides))))
        case "null":
            return Call(draw(st.sampled_from(("is_null", "is_not_null"))), (column,))
        case "in":
            values = draw(st.lists(VALUES[name], min_size=1, max_size=3))
            values *= draw(st.sampled_from((1, 200)))  # of many, the least and the most
            return IsIn(column, tuple(literal(name, value) for value in values))
        case "prefix":
            prefix = draw(st.sampled_from(("", "a", "ab", "z\U0010ffff", "\ud7ff")))
            return Call("starts_with", (Column("s"), Literal(prefix, pa.string())))
        case _:
            return Call(kind, (draw(predicates()), draw(predicates())))


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    predicate=predicates(),
    rows=st.lists(st.fixed_dictionaries(VALUES), min_size=N_ROWS, max_size=N_ROWS),
)
def test_no_row_is_lost(tmp_path: Path, predicate: Expr, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    pruning = pruning_filter(predicate, SCHEMA)
    part = parquet.pruned(parquet.fragment(path, 0, 0), pruning)
    kept = {group.id for group in part.row_groups}
    keeps = compile_expr(predicate, SCHEMA)
    for number in range(N_ROWS // GROUP_ROWS):
        batch = table.slice(number * GROUP_ROWS, GROUP_ROWS).combine_chunks().to_batches()[0]
        if number not in kept:
            assert not pc.any(keeps(batch)).as_py()


@pytest.mark.parametrize(
    "predicate",
    [
        None,
        Call("gt", (Column("f"), literal("f", 1.0))),
        Call("lt", (Column("f"), literal("f", math.nan))),
        Call("lt", (Column("f"), Literal(1, pa.int64()))),
        Call("eq", (Column("i"), Column("f"))),
        Call("eq", (Column("x"), literal("i", 1))),
        Call("not", (Call("eq", (Column("i"), literal("i", 1))),)),
    ],
)
def test_nothing_is_known(predicate: Expr | None) -> None:
    assert pruning_filter(predicate, SCHEMA) is None
