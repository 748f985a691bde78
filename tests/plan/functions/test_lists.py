"""Types of list functions, and calls they refuse."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.functions import signature

I, L, F, S, B = pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_()  # noqa: E741


def lists(dtype: pa.DataType) -> pa.DataType:
    return pa.list_(dtype)


@pytest.mark.parametrize(
    ("name", "types", "result"),
    [
        ("array", [], lists(pa.null())),
        ("array", [I, L, pa.null()], lists(L)),
        ("array", [pa.uint32(), F], lists(F)),
        ("list_len", [pa.large_list(S)], I),
        ("list_get", [pa.list_(pa.string_view(), 2), pa.int8()], S),
        ("list_contains", [lists(I), L], B),
        ("list_position", [lists(I), pa.null()], L),
        ("list_append", [lists(I), F], lists(F)),
        ("list_concat", [lists(I), lists(L), pa.null()], lists(L)),
        ("concat_list", [I, L, pa.null()], lists(L)),
        ("concat_list", [lists(I), F, lists(L)], lists(F)),
        ("concat_list", [lists(lists(I)), lists(lists(L))], lists(lists(L))),
        ("list_flatten", [lists(pa.large_list(I))], lists(I)),
        ("list_union", [lists(pa.decimal128(5, 2)), lists(I)], lists(pa.decimal128(12, 2))),
        ("list_sum", [lists(pa.int8())], L),
        ("list_sum", [lists(pa.float32())], F),
        ("list_sum", [lists(pa.decimal128(10, 2))], pa.decimal128(20, 2)),
        ("list_mean", [lists(pa.decimal128(10, 2))], F),
        ("list_min", [pa.list_view(pa.date64())], pa.date32()),
        ("sequence", [pa.int8(), pa.uint8()], lists(pa.int16())),
        ("list_repeat", [lists(I), I], lists(lists(I))),
    ],
)
def test_types(name: str, types: list[pa.DataType], result: pa.DataType) -> None:
    assert signature(name, types).result == result


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("array", [I, S], "array can't make int32 and string one type"),
        ("list_len", [S], "list_len takes a list, got string as argument 1"),
        ("list_get", [lists(I), S], "list_get takes a whole number, got string as argument 2"),
        ("list_contains", [lists(I), S], "list_contains can't make one type of int32 and string"),
        ("list_concat", [lists(I), lists(S)], "can't make one type of int32 and string"),
        ("concat_list", [lists(I), S], "concat_list can't make one type of int32 and string"),
        ("concat_list", [lists(lists(I)), lists(I)], "can't make one type of list<.*> and int32"),
        ("list_flatten", [lists(I)], "list_flatten takes a list of lists"),
        ("list_sum", [lists(S)], "list_sum takes a list of numbers"),
        ("list_any", [lists(I)], "list_any takes a list of booleans"),
        ("list_join", [lists(I), S], "list_join takes a list of strings"),
        ("list_sort", [lists(pa.map_(I, I)), B, B], "list_sort can't compare values of type map"),
        ("sequence", [F, I], "sequence takes a whole number, got double"),
        ("list_zip", [S, lists(I), S], "list_zip takes names and values in turn, got 3"),
    ],
)
def test_refusals(name: str, types: list[pa.DataType], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        signature(name, types)
