"""What rules ask of expressions."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.optimizer.expressions import (
    conjoin,
    conjuncts,
    fits,
    named,
    passed_through,
    split,
    substitute,
)
from fabric.plan.expr import Alias, Call, Column, Expr, Literal

SCHEMA = pa.schema(
    {"i": pa.int64(), "j": pa.int32(), "f": pa.float64(), "s": pa.string(), "d": pa.date32()}
)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40))
def test_conjoin_keeps_order_and_does_not_nest_deep(names: list[str]) -> None:
    joined = conjoin([Column(name) for name in names])
    assert [part.name for part in conjuncts(joined) if isinstance(part, Column)] == names
    assert fits(joined)


def test_a_part_that_can_fail_does_not_overtake_what_may_protect_it() -> None:
    protect = Call("ne", (Column("i"), Literal(0, pa.int64())))
    risky = Call("gt", (Call("divide", (Literal(1, pa.int64()), Column("i"))), Column("f")))
    safe = Call("gt", (Column("i"), Literal(5, pa.int64())))

    def movable(expr: Expr) -> bool:
        return expr is not protect

    assert split(conjoin([protect, risky, safe]), SCHEMA, movable) == ([safe], [protect, risky])
    assert split(conjoin([risky, safe]), SCHEMA, movable) == ([risky, safe], [])
    assert split(conjoin([risky, safe]), SCHEMA, movable, only_total=True) == ([safe], [risky])


def test_a_volatile_part_stays_where_it_is() -> None:
    drawn = Call("random", (Column("i"), Literal(1, pa.int64())))
    volatile = Call("lt", (drawn, Literal(0.5, pa.float64())))
    safe = Call("gt", (Column("i"), Literal(5, pa.int64())))
    expected = ([safe], [volatile])
    assert split(conjoin([volatile, safe]), SCHEMA, lambda _: True) == expected
    assert split(conjoin([safe, volatile]), SCHEMA, lambda _: True) == expected


def test_substitute() -> None:
    expr = Call("add", (Column("i"), Call("negate", (Column("j"),))))
    found = substitute(expr, {"j": Column("k")})
    assert found == Call("add", (Column("i"), Call("negate", (Column("k"),))))


def test_passed_through_and_named() -> None:
    exprs = (Column("a"), Alias(Column("b"), "c"), Alias(Literal(1, pa.int64()), "one"))
    assert passed_through(exprs) == {"a": Column("a"), "c": Column("b")}
    assert named(Alias(Column("a"), "x"), "a") == Column("a")
    assert named(Call("add", (Column("a"), Column("b"))), "z") == Alias(
        Call("add", (Column("a"), Column("b"))), "z"
    )
