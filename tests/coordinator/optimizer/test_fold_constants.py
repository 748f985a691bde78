from functools import partial
from types import SimpleNamespace

import pyarrow as pa

from fabric.coordinator.optimizer.fold_constants import fold_constants
from fabric.coordinator.submit.constants import constant_value
from fabric.plan.expr import Alias, Cast, Column, Literal, Udf
from fabric.plan.nodes import Filter, Select
from fabric.plan.schema import schema_of

fold = partial(fold_constants, constant_value)


def test_fires(p: SimpleNamespace) -> None:
    source = p.table()
    hour = p.call("multiply", 60, 60)
    assert fold(Filter(source, p.call("lt", "a", hour))) == Filter(source, p.call("lt", "a", 3600))
    text = p.call("upper", Literal("x", pa.string()))
    plan = Select(source, (Alias(text, "x"), text, p.call("add", "a", p.call("add", 1, 2))))
    found = fold(plan)
    big = Literal("X", pa.string())
    assert found.exprs == (Alias(big, "x"), big, p.call("add", "a", 3))
    assert schema_of(found) == schema_of(plan)


def test_a_constant_that_fails_stays_to_fail(p: SimpleNamespace) -> None:
    source = p.table()
    for bad in (p.call("divide", 1, 0), Cast(Literal("x", pa.string()), pa.int64())):
        plan = Filter(source, p.call("lt", "a", bad))
        assert fold(plan) is plan


def test_leaves_others(p: SimpleNamespace) -> None:
    source = p.table("t", a=pa.int64(), d=pa.decimal128(10, 2))
    user = Udf("f", (Literal(1, pa.int64()),), pa.int64(), "arrow", b"")
    for plan in (
        Filter(source, p.call("lt", "a", 1)),
        Select(source, (Alias(user, "x"),)),
        Select(source, (p.call("add", "d", p.call("add", 1, 2)),)),  # 3 is a decimal(1, 0)
        Select(source, (Column("a"),)),
        source,
    ):
        assert fold(plan) is plan
