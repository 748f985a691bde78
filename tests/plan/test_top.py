"""Which filters keep the first rows of partitions."""

import pyarrow as pa
import pytest

from fabric.plan.expr import Agg, Alias, Call, Column, Expr, Literal, Over, SortKey
from fabric.plan.nodes import Filter, StageInput, Window
from fabric.plan.top import first_rows

SOURCE = StageInput(0, pa.schema([("a", pa.int64())]))
A, N = Column("a"), Column("n")


def whole(value: int | None) -> Literal:
    return Literal(value, pa.int32())


def window(*functions: str, order: str = "a") -> Window:
    return Window(
        SOURCE,
        tuple(
            Alias(Over(Agg(name, None), (), (SortKey(Column(order)),)), "nmo"[i])
            for i, name in enumerate(functions)
        ),
    )


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Call("le", (N, whole(3))), 3),
        (Call("lt", (N, whole(3))), 2),
        (Call("eq", (N, whole(2))), 2),
        (Call("ge", (whole(3), N)), 3),
        (Call("gt", (whole(3), N)), 2),
        (Call("eq", (whole(1), N)), 1),
        (Call("and", (Call("gt", (A, whole(0))), Call("le", (N, whole(5))))), 5),
        (Call("and", (Call("le", (N, whole(2))), Call("le", (N, whole(5))))), 2),
        (Call("or", (Call("le", (N, whole(2))), Call("le", (N, whole(5))))), None),
        (Call("ge", (N, whole(3))), None),
        (Call("le", (A, whole(3))), None),
        (Call("le", (N, A)), None),
        (Call("le", (N, whole(None))), None),
        (Call("le", (N, whole(0))), None),
        (Call("le", (N, whole(65))), None),
        (Call("is_null", (N,)), None),
    ],
)
def test_bounds(predicate: Expr, expected: int | None) -> None:
    assert first_rows(Filter(window("row_number"), predicate)) == expected


def test_other_functions_must_see_the_same_rows() -> None:
    bound = Call("le", (N, whole(3)))
    assert first_rows(Filter(window("rank", "dense_rank"), bound)) == 3
    assert first_rows(Filter(window("dense_rank", "rank"), bound)) is None
    assert first_rows(Filter(window("row_number", "percent_rank"), bound)) is None
    assert first_rows(Filter(SOURCE, bound)) is None
    others = window("rank", "rank", order="b").exprs[1:]
    mixed = Window(SOURCE, (*window("row_number").exprs, *others))
    assert first_rows(Filter(mixed, bound)) is None
