from types import SimpleNamespace

import pyarrow as pa
import pytest

from fabric.coordinator.optimizer.simplify_filter import simplify_filter
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.nodes import Filter, Limit

TRUE, FALSE, NULL = (Literal(value, pa.bool_()) for value in (True, False, None))


def test_fires(p: SimpleNamespace) -> None:
    source, more = p.table(), p.call("gt", "b", 1)
    valid = Call("is_not_null", (Column("a"),))
    for always in (p.call("eq", "a", "a"), p.call("le", "a", "a")):
        assert simplify_filter(Filter(source, always)) == Filter(source, valid)
        assert simplify_filter(Filter(source, p.both(more, always))) == Filter(
            source, p.both(more, valid)
        )
    assert simplify_filter(Filter(source, p.both(more, TRUE))) == Filter(source, more)
    assert simplify_filter(Filter(source, p.both(more, more))) == Filter(source, more)
    assert simplify_filter(Filter(source, TRUE)) is source
    assert simplify_filter(Filter(source, p.call("eq_null_safe", "a", "a"))) is source


@pytest.mark.parametrize("never", ["false", "null", "different", "with null"])
def test_what_keeps_nothing_reads_nothing(p: SimpleNamespace, never: str) -> None:
    source = p.table()
    predicate = {
        "false": FALSE,
        "null": NULL,
        "different": p.call("lt", "a", "a"),
        "with null": p.call("eq", "a", Literal(None, pa.int64())),
    }[never]
    for plan in (
        Filter(source, predicate, path="f"),
        Filter(source, p.both(predicate, TRUE), path="f"),
    ):
        assert simplify_filter(plan) == Limit(source, 0, path="f")


def test_leaves_others(p: SimpleNamespace) -> None:
    source = p.table()
    half = p.call("divide", 1, "a")
    for plan in (
        Filter(source, p.call("gt", "a", 1)),
        Filter(source, p.call("eq", "a", "b")),
        Filter(source, p.call("eq", half, half)),
        Filter(source, p.call("eq_null_safe", "a", Literal(None, pa.int64()))),
        source,
    ):
        assert simplify_filter(plan) is plan
