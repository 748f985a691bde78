from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.outer_to_inner import outer_to_inner, rejects_nulls
from fabric.plan.expr import Call, Cast, Column, IsIn, Literal
from fabric.plan.nodes import Filter, Join

K = (Column("k"),)


INT = pa.int64()


def join(p: SimpleNamespace, how: str, key: pa.DataType = INT) -> Join:
    left = p.table("l", k=key, a=pa.int64())
    return Join(left, p.table("r", k=key, b=pa.int64()), K, K, how)


@pytest.mark.parametrize(
    ("how", "names", "expected"),
    [
        ("left", "b", "inner"),
        ("right", "a", "inner"),
        ("full", "a", "left"),
        ("full", "b", "right"),
        ("full", "ab", "inner"),
    ],
)
def test_fires(p: SimpleNamespace, how: str, names: str, expected: str) -> None:
    predicate = p.both(*(p.call("gt", name, 1) for name in names))
    assert outer_to_inner(Filter(join(p, how), predicate)) == Filter(join(p, expected), predicate)


def test_leaves_others(p: SimpleNamespace) -> None:
    for plan in (
        Filter(join(p, "left"), p.call("gt", "a", 1)),
        Filter(join(p, "left"), p.call("is_null", "b")),
        Filter(join(p, "left"), p.call("gt", p.call("coalesce", "b", 5), 1)),
        Filter(join(p, "full"), p.call("gt", "k", 1)),
        Filter(join(p, "right", pa.float64()), p.call("gt", "a", 1)),  # keys may be -0.0 and 0.0
        Filter(join(p, "inner"), p.call("gt", "b", 1)),
        join(p, "left"),
    ):
        assert outer_to_inner(plan) is plan


A, B = Column("a"), Column("b")
ONE = Literal(1, pa.int64())


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Call("is_not_null", (B,)), True),
        (Call("not", (Call("is_not_null", (B,)),)), False),
        (Call("or", (Call("gt", (B, ONE)), Call("lt", (B, ONE)))), True),
        (Call("or", (Call("gt", (B, ONE)), Call("lt", (A, ONE)))), False),
        (Call("and", (Call("gt", (B, ONE)), Call("lt", (A, ONE)))), True),
        (IsIn(Cast(B, pa.int32()), (ONE,)), True),
        (Call("not", (Call("eq", (B, ONE)),)), True),
        (Call("eq_null_safe", (B, ONE)), False),
        (B, True),
        (A, False),
    ],
)
def test_rejects_nulls(predicate: object, expected: bool) -> None:
    assert rejects_nulls(predicate, frozenset("b")) is expected
