"""What nodes put out: types, names, order; partial and final aggregates; joins."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.expr import (
    Agg,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    IsIn,
    Literal,
    SortKey,
)
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Filter,
    Join,
    Limit,
    Node,
    Scan,
    Select,
    Sink,
    Sort,
    StageInput,
    Union,
    WithColumns,
)
from fabric.plan.nodes.aggregate import partial_schema
from fabric.plan.schema import is_known, schema_of, type_of
from fabric.plan.sources import MemorySource
from fabric.plan.targets import FileTarget


def one(value: int = 1) -> Literal:
    return Literal(value, pa.int32())


def shape(node: Node) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in schema_of(node)]


def source(**columns: pa.DataType) -> StageInput:
    return StageInput(0, pa.schema(list(columns.items())))


def test_scan_puts_out_the_chosen_columns_in_their_order(flights: Scan) -> None:
    scan = Scan(flights.source, flights.schema, ("delay", "carrier"))
    assert shape(scan) == [("delay", "int32"), ("carrier", "string")]


def test_every_field_may_be_null_and_has_no_metadata() -> None:
    field = pa.field("a", pa.int32(), nullable=False, metadata={"k": "v"})
    schema = schema_of(Scan(MemorySource("t", 1), pa.schema([field], metadata={"m": "n"})))
    assert schema.field("a").nullable
    assert schema.metadata is None
    assert schema.field("a").metadata is None


@pytest.mark.parametrize(
    "above",
    [
        lambda s: Filter(s, Column("late")),
        lambda s: Sort(s, (SortKey(Column("delay")),)),
        lambda s: Limit(s, 3),
        Distinct,
        lambda s: Exchange(s, "hash", ("carrier",), 4),
        lambda s: Union((s, s)),
    ],
)
def test_nodes_that_keep_the_columns(flights: Scan, above: object) -> None:
    assert schema_of(above(flights)) == schema_of(flights)  # type: ignore[operator]


def test_select(flights: Scan) -> None:
    node = Select(flights, (Column("delay"), Alias(Call("divide", (Column("delay"), one())), "x")))
    assert shape(node) == [("delay", "int32"), ("x", "double")]


def test_with_columns_adds_after_and_replaces_in_place() -> None:
    scan = source(a=pa.int32(), b=pa.string())
    assert shape(WithColumns(scan, (Alias(Column("a"), "c"),)))[-1] == ("c", "int32")
    swapped = WithColumns(scan, (Alias(Column("b"), "a"), Alias(Column("a"), "b")), replace=True)
    assert shape(swapped) == [("a", "string"), ("b", "int32")]


def test_aggregate_types() -> None:
    scan = source(k=pa.string(), i=pa.int8(), f=pa.float32(), d=pa.decimal128(10, 2), u=pa.uint64())
    aggs: list[Expr] = [Agg("count", None)]
    aggs += [Alias(Agg(f, Column(c)), f"{f}_{c}") for f in ("sum", "mean", "min") for c in "ifdu"]
    aggs.append(Alias(Agg("count_distinct", Column("k")), "n"))
    assert shape(Aggregate(scan, (Column("k"),), tuple(aggs))) == [
        ("k", "string"), ("count", "int64"),
        ("sum_i", "int64"), ("sum_f", "double"), ("sum_d", "decimal128(20, 2)"),
        ("sum_u", "decimal128(30, 0)"),
        ("mean_i", "double"), ("mean_f", "double"), ("mean_d", "decimal128(14, 6)"),
        ("mean_u", "decimal128(24, 4)"),
        ("min_i", "int8"), ("min_f", "float"), ("min_d", "decimal128(10, 2)"), ("min_u", "uint64"),
        ("n", "int64"),
    ]  # fmt: skip


def test_partial_states() -> None:
    scan = source(k=pa.string(), i=pa.int32(), j=pa.int64(), d=pa.decimal128(10, 2))
    aggs = (
        Agg("sum", Column("i")), Agg("sum", Column("j")), Alias(Agg("mean", Column("i")), "m"),
        Alias(Agg("mean", Column("d")), "e"), Agg("count", None),
        Alias(Agg("max", Column("d")), "x"),
    )  # fmt: skip
    node = Aggregate(scan, (Column("k"),), aggs, "partial")
    assert shape(node) == [
        ("k", "string"), ("0.sum", "int64"), ("1.sum", "int64"), ("1.sum_f64", "double"),
        ("2.sum", "double"), ("2.count", "int64"), ("3.sum", "decimal128(20, 2)"),
        ("3.count", "int64"), ("4.count", "int64"), ("5.max", "decimal128(10, 2)"),
    ]  # fmt: skip
    assert partial_schema(Aggregate(scan, (Column("k"),), aggs)) == schema_of(node)


@pytest.mark.parametrize("dtype", [pa.int8(), pa.int64(), pa.uint64(), pa.float32(),
                                   pa.decimal128(10, 2), pa.decimal128(27, 2)])  # fmt: skip
def test_final_puts_out_what_single_would(dtype: pa.DataType) -> None:
    scan = source(k=pa.string(), v=dtype)
    names = ("sum", "mean", "min", "max", "count")
    aggs = tuple(Alias(Agg(name, Column("v")), name) for name in names)
    key = Alias(Call("upper", (Column("k"),)), "K")
    single = Aggregate(scan, (key,), aggs)
    partial = Aggregate(scan, (key,), aggs, "partial")
    final = Aggregate(partial, (Column("K"),), aggs, "final")
    assert schema_of(final) == schema_of(single)


def test_final_mean_of_a_wide_decimal_takes_its_type_from_a_typed_null() -> None:
    scan = source(v=pa.decimal128(30, 2))
    single = Aggregate(scan, (), (Agg("mean", Column("v")),))
    partial = Aggregate(scan, (), single.aggs, "partial")
    typed = Alias(Agg("mean", Literal(None, pa.decimal128(30, 2))), "v")
    assert schema_of(Aggregate(partial, (), (typed,), "final")) == schema_of(single)


def test_a_key_called_like_a_state_keeps_its_name() -> None:
    scan = StageInput(0, pa.schema([("0.sum", pa.string()), ("v", pa.int32())]))
    partial = Aggregate(scan, (Column("0.sum"),), (Agg("sum", Column("v")),), "partial")
    assert schema_of(partial).names == ["0.sum", "0.sum_"]
    final = Aggregate(partial, (Column("0.sum"),), partial.aggs, "final")
    assert shape(final) == [("0.sum", "string"), ("v", "int64")]


def test_count_distinct_has_no_partial_form() -> None:
    scan = source(v=pa.int32())
    with pytest.raises(PlanError, match="count_distinct has no partial form; exchange the rows"):
        schema_of(Aggregate(scan, (), (Agg("count_distinct", Column("v")),), "partial"))


@pytest.mark.parametrize(
    ("how", "names"),
    [
        ("inner", ["k", "a", "b", "a_right", "z"]),
        ("left", ["k", "a", "b", "a_right", "z"]),
        ("semi", ["k", "a", "b"]),
        ("anti", ["k", "a", "b"]),
    ],
)
def test_join_names(how: str, names: list[str]) -> None:
    left = source(k=pa.int32(), a=pa.int32(), b=pa.int32())
    right = source(a=pa.string(), k=pa.int64(), z=pa.int32())
    join = Join(left, right, (Column("k"),), (Column("k"),), how)  # type: ignore[arg-type]
    assert schema_of(join).names == names
    assert schema_of(join).field("k").type == pa.int32()


def test_join_keys_of_other_names_are_both_put_out() -> None:
    join = Join(source(a=pa.int8()), source(b=pa.int64()), (Column("a"),), (Column("b"),))
    assert shape(join) == [("a", "int8"), ("b", "int64")]
    same = Join(source(a=pa.int8()), source(a=pa.int8()),
                (Cast(Column("a"), pa.int64()),), (Column("a"),))  # fmt: skip
    assert schema_of(same).names == ["a", "a_right"]


def test_union_widens_and_takes_the_first_names() -> None:
    node = Union((source(a=pa.int8()), source(b=pa.int64()), source(c=pa.float32())))
    assert shape(node) == [("a", "double")]


def test_sink_puts_out_rows(flights: Scan) -> None:
    assert shape(Sink(flights, FileTarget("parquet", "/x", True))) == [("rows", "int64")]


@pytest.mark.parametrize(
    ("expr", "dtype"),
    [
        (Case(((Column("late"), Literal(1, pa.int8())),), Column("delay")), pa.int32()),
        (Case(((Column("late"), Column("carrier")),), Literal(None, pa.null())), pa.string()),
        (IsIn(Column("delay"), (one(), Literal(None, pa.null()))), pa.bool_()),
        (IsIn(Column("delay"), ()), pa.bool_()),
        (Cast(Column("carrier"), pa.date32(), try_=True), pa.date32()),
        (Alias(Agg("sum", Column("delay")), "x"), pa.int64()),
        (Call("concat", (Column("carrier"),) * 5), pa.string()),
        (Call("add_interval", (Column("day"), one(), Literal("day", pa.string()))),
         pa.timestamp("us", "UTC")),
    ],
)  # fmt: skip
def test_type_of(flights: Scan, expr: Expr, dtype: pa.DataType) -> None:
    assert type_of(expr, flights.schema) == dtype


def test_type_of_names_the_mended_expression(flights: Scan) -> None:
    with pytest.raises(PlanError, match=r'did you mean "delay".*; write: col\("delay"\)$'):
        type_of(Column("dealy"), flights.schema)
    with pytest.raises(PlanError, match=r'write: col\("carrier"\)\.cast\("int32"\) > 1$'):
        type_of(Call("gt", (Column("carrier"), one())), flights.schema)


def test_a_schema_is_remembered_by_its_node_alone(flights: Scan) -> None:
    node = Filter(flights, Column("late"))
    assert not is_known(node)
    assert schema_of(node) is schema_of(node)
    assert is_known(node)
    copies = (replace(node), copy.copy(node), Filter(flights, Column("late")))
    assert not any(map(is_known, copies))
    assert all(one == node and repr(one) == repr(node) for one in copies)


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that take turns after almost every step."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_tasks_that_share_a_plan_find_its_schema_at_once(hasty: None) -> None:
    together = Barrier(4)

    def find(node: Node) -> pa.Schema:
        together.wait()
        return schema_of(node)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(500):
            node: Node = source(a=pa.int32())
            for _ in range(3):
                node = Distinct(node)
            expected = schema_of(copy.deepcopy(node))
            assert set(pool.map(find, [node] * 4)) == {expected}
