"""Plans to bytes and back; bytes of any kind are a plan or a `PlanError`."""

from __future__ import annotations

import datetime
import pickle
from dataclasses import replace
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import FabricError, PlanError
from fabric.plan import plan_pb2 as pb
from fabric.plan.check import check
from fabric.plan.codec import BYTES_MAX, VERSION, decode, encode
from fabric.plan.expr import Call, Column, Expr, IsIn, Literal
from fabric.plan.nodes import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    Limit,
    Node,
    NodeConfig,
    Plan,
    Scan,
    Select,
    Sink,
    StageInput,
    Union,
)
from fabric.plan.printer import tree
from fabric.plan.sources import DatasetSource, FileSource, FlightSource, MemorySource
from fabric.plan.targets import (
    DatasetTarget,
    FileTarget,
    FlightTarget,
    GateTarget,
    LiveTarget,
    PostgresTarget,
    StreamFileTarget,
)
from fabric.plan.walk import walk
from fabric.plan.wire import tables
from tests.support.folded import folded
from tests.support.plans import random_plan, random_tables

TABLES = random_tables(Random(2))
SCHEMA = pa.schema([pa.field("a", pa.int32(), nullable=False), ("s", pa.string())])
seeds = st.integers(0, 1 << 32)


def scan() -> Scan:
    return Scan(MemorySource("t", 3), SCHEMA)


def round_trip(node: Node) -> Node:
    return decode(encode(Plan(node))).root


# ---- what goes out comes back
@given(seed=seeds)
def test_random_plans(seed: int) -> None:
    for plan in (
        Plan(random_plan(Random(seed), TABLES)),
        check(Plan(random_plan(Random(seed), TABLES))),
    ):
        back = decode(encode(plan))
        assert back == plan
        assert encode(back) == encode(plan)
        assert len(list(walk(back.root))) == len(list(walk(plan.root)))


@pytest.mark.parametrize(
    "source",
    [
        FileSource(
            "csv",
            ("/a", "/b"),
            (
                ("delimiter", ";"),
                ("header", False),
                ("n_rows", 7),
                ("null_values", ("NA", "a,b")),
                ("types", pa.schema([("d", pa.decimal128(10, 2))])),
            ),
            pa.schema([("k", pa.timestamp("us", "UTC"))]),
            "union",
        ),
        MemorySource("token", 1 << 40),
        DatasetSource("d", 7),
        FlightSource("grpc+tls://h:1", ("x", "y"), b"\x00\xff", "secret"),
        FlightSource("grpc+tls://h:1", ("x",), token="secret", tls_roots=b"PEM", insecure=True),
    ],
)
def test_sources(source: object) -> None:
    null = Call("is_null", (Column("a"),))
    node = Scan(source, SCHEMA, ("s",), null, 3, 7, path="p")  # type: ignore[arg-type]
    back = round_trip(node)
    assert back == node
    assert isinstance(back, Scan)
    assert back.schema.equals(SCHEMA)
    assert not back.schema.field("a").nullable


@pytest.mark.parametrize(
    "target",
    [
        FileTarget("parquet", "/x", False, "overwrite", (("compression", "zstd"),)),
        FileTarget("csv", "/x", False, "overwrite", force=True),
        FileTarget("json", "/x", False, "append", (), ("a", "b"), 1 << 40),
        StreamFileTarget("csv", "/x", options=(("header", False),), partition_by=("a",)),
        DatasetTarget("d", ("a", "s"), 8, "append"),
        DatasetTarget("d", replicas=3),
        FlightTarget("grpc://h:1", ("x",), "secret"),
        FlightTarget("grpc+tls://h:1", ("x",), "secret", b"PEM", insecure=True),
        PostgresTarget("t"),
        PostgresTarget(
            "t", "s", ("a",), "upsert", "s", "area", (("host", "h"),), (("password", "p"),), True
        ),
        GateTarget("g"),
        LiveTarget("live-1"),
    ],
)
def test_targets(target: object) -> None:
    node = Sink(scan(), target)  # type: ignore[arg-type]
    assert round_trip(node) == node


@pytest.mark.parametrize(
    "node",
    [
        StageInput(4, SCHEMA, path="x"),
        Aggregate(scan(), (Column("s"),), (), "final"),
        Exchange(scan(), "hash", ("a", "s"), 9, "pipelined"),
        Exchange(scan(), "gather", compression="zstd"),
        Join(scan(), scan(), (Column("a"),), (Column("a"),), "anti", "_x", "hash"),
        Limit(scan(), (1 << 63) - 1, 5),
        Scan(MemorySource("t", 0), SCHEMA, ()),
        Union(()),
    ],
)
def test_nodes(node: Node) -> None:
    assert round_trip(node) == node


def test_config() -> None:
    pair = NodeConfig(exchange="auto", buffer_batches=1, compression="zstd")
    kept = NodeConfig(state="arrow", state_memory=1 << 40)
    config = (("b", NodeConfig(parallelism=3)), ("a", pair), ("c", NodeConfig()), ("d", kept))
    assert decode(encode(Plan(scan(), config))).config == config
    wrong = NodeConfig(state="disk")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="'disk'"):
        decode(encode(Plan(scan(), (("b", wrong),))))


LITERALS = [
    (None, pa.null()), (None, pa.list_(pa.int8())), (None, pa.int32()), (True, pa.bool_()),
    (-128, pa.int8()), ((1 << 64) - 1, pa.uint64()), (-(1 << 63), pa.int64()),
    (1.5, pa.float32()), (float("inf"), pa.float64()), (-0.0, pa.float64()), ("", pa.string()),
    ("日\x00本", pa.large_string()), ("x", pa.string_view()), (b"\x00\xff", pa.binary()),
    (b"abcd", pa.binary(4)), (Decimal("-1.50"), pa.decimal128(10, 2)),
    (Decimal("1" + "0" * 40), pa.decimal256(50, 0)), (datetime.date(1, 1, 1), pa.date32()),
    (datetime.date(2013, 1, 2), pa.date64()), (datetime.time(23, 59, 59, 5), pa.time64("us")),
    (datetime.time(1), pa.time32("s")), (datetime.timedelta(-1, 3), pa.duration("us")),
    (datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), pa.timestamp("us")),
    (datetime.datetime(1969, 12, 31), pa.timestamp("s")),
    (1_356_998_400_123_456_789, pa.timestamp("ns")), (5, pa.duration("ns")), (7, pa.time64("ns")),
    ("a", pa.dictionary(pa.int8(), pa.string())), (3, pa.dictionary(pa.int32(), pa.int64())),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype"), LITERALS, ids=lambda v: str(v)[:40])
def test_literals(value: object, dtype: pa.DataType) -> None:
    literal = Literal(value, dtype)
    back = round_trip(Select(scan(), (literal, IsIn(Column("a"), (literal, literal)))))
    assert isinstance(back, Select)
    assert back.exprs[0] == literal
    assert repr(back.exprs[0].value) == repr(value)  # type: ignore[union-attr]  # -0.0, too


def test_a_nan_is_still_one() -> None:
    back = round_trip(Select(scan(), (Literal(float("nan"), pa.float64()),)))
    assert str(back.exprs[0].value) == "nan"  # type: ignore[union-attr]


def test_a_zoned_time_is_the_same_moment() -> None:
    moment = datetime.datetime(2013, 1, 1, 12, tzinfo=datetime.UTC)
    literal = Literal(moment, pa.timestamp("us", "America/New_York"))
    back = round_trip(Select(scan(), (literal,)))
    assert back.exprs[0].value == moment  # type: ignore[union-attr]


@given(name=st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name(name: str) -> None:
    schema = pa.schema([(name, pa.int8())])
    node = Select(Scan(MemorySource(name, 1), schema), (Column(name),), path=name)
    assert round_trip(node) == node


def test_nested_types_and_their_nullability() -> None:
    inner = pa.struct([pa.field("x", pa.list_(pa.field("i", pa.int8(), nullable=False)))])
    schema = pa.schema([("m", pa.map_(pa.string(), inner)), ("d", pa.dictionary(pa.int8(), inner))])
    back = round_trip(Scan(MemorySource("t", 1), schema))
    assert isinstance(back, Scan)
    assert back.schema.equals(schema)


def test_sharing_survives() -> None:
    shared = Filter(scan(), Call("is_null", (Column("a"),)))
    root = round_trip(Union((Limit(shared, 1), shared)))
    assert root.children[0].children[0] is root.children[1]
    expr: Expr = Column("a")
    for _ in range(60):
        expr = Call("add", (expr, expr))
    data = encode(Plan(Select(scan(), (expr,))))
    assert len(data) < 5_000
    assert encode(decode(data)) == data


def test_secrets_travel_but_are_not_shown() -> None:
    source = FlightSource("grpc://h:1", token="secret")
    back = round_trip(Scan(source, SCHEMA))
    assert back == Scan(source, SCHEMA)
    assert "secret" not in tree(back) + repr(back)


# ---- what can't go out
def test_names_that_are_no_text_are_refused() -> None:
    with pytest.raises(PlanError, match="the plan can't be sent"):
        encode(Plan(Select(scan(), (Column("\ud800"),))))


def test_constants_without_a_form_are_refused() -> None:
    with pytest.raises(PlanError, match="a constant can't be a list<item: int8>"):
        encode(Plan(Select(scan(), (Literal([1], pa.list_(pa.int8())),))))
    with pytest.raises(PlanError, match="the plan can't be sent"):
        encode(Plan(Select(scan(), (Literal("x", pa.int8()),))))


def test_a_plan_too_deep_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fabric.plan.codec.writer.DEPTH_MAX", 5)
    node: Node = scan()
    for _ in range(5):
        node = Limit(node, 1)
    with pytest.raises(PlanError, match="nodes nested more than 5 deep"):
        encode(Plan(node))


def test_an_expression_too_deep_is_refused() -> None:
    expr: Expr = Column("a")
    for _ in range(tables.EXPR_DEPTH_MAX):
        expr = Call("abs", (expr,))
    with pytest.raises(PlanError, match="expressions nested more than 400 deep"):
        encode(Plan(Select(scan(), (expr,))))


# ---- what may come in
def valid(seed: int) -> bytes:
    return encode(check(Plan(random_plan(Random(seed), TABLES))))


def decode_or_refuse(data: bytes) -> None:
    """Any bytes are a plan, which can be checked, printed and sent on, or a `PlanError`."""
    try:
        plan = decode(data)
    except PlanError:
        return
    encode(plan)
    try:
        tree(check(plan).root)
    except FabricError:
        return


@settings(max_examples=150)
@given(data=st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    decode_or_refuse(data)


@settings(max_examples=150)
@given(seed=st.integers(0, 20), data=st.data())
def test_damaged_plans(seed: int, data: st.DataObject) -> None:
    good = bytearray(valid(seed))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(good) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "drop", "insert"])):
            case "flip":
                good[at] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                good = good[: at + 1]
            case "drop":
                del good[at : at + data.draw(st.integers(1, 8))]
                good = good or bytearray(b"\x00")
            case _:
                good[at:at] = data.draw(st.binary(min_size=1, max_size=8))
    decode_or_refuse(bytes(good))


@settings(max_examples=150)
@given(seed=st.integers(0, 20), data=st.data())
def test_plans_with_other_numbers_in_them(seed: int, data: st.DataObject) -> None:
    """Well-formed protobuf whose indices, counts and words are not what they should be."""
    message = pb.Plan.FromString(valid(seed))
    for _ in range(data.draw(st.integers(1, 3))):
        node = data.draw(st.sampled_from(list(message.nodes)))
        expr = data.draw(st.sampled_from(list(message.exprs) or [pb.Expr(column="x")]))
        number = data.draw(st.sampled_from([0, 1, 2, 7, 1 << 31, (1 << 32) - 1]))
        match data.draw(st.integers(0, 8)):
            case 0:
                node.inputs.append(number)
            case 1:
                del node.inputs[:]
            case 2:
                message.root = number
            case 3:
                expr.call.args.append(number)
            case 4:
                expr.cast.type = number
            case 5:
                expr.literal.CopyFrom(pb.Literal(type=number, text="x"))
            case 6:
                node.join.how = data.draw(st.text(max_size=5))
            case 7:
                node.limit.n = (1 << 64) - 1 - number
            case _:
                message.types = data.draw(st.binary(max_size=60))
    decode_or_refuse(message.SerializeToString())


def refused(message: pb.Plan, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        decode(message.SerializeToString())


def simple() -> pb.Plan:
    return pb.Plan.FromString(encode(Plan(Filter(scan(), Call("is_null", (Column("a"),))))))


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(PlanError, match="these bytes are no plan: not the protobuf expected"):
        decode(b"\xff\xff\xff")
    refused(pb.Plan(), "the plan has version 0, this Fabric reads version 2; use the same release")
    newer = simple()
    newer.version = VERSION + 1
    refused(newer, "the plan has version 3")
    for change, text in (
        (lambda m: m.nodes[1].inputs.__setitem__(0, 1), "node 1 points to 1, which is not before"),
        (lambda m: m.exprs[1].call.args.__setitem__(0, 9), "expression 1 points to 9"),
        (lambda m: setattr(m, "root", 2), "root node 2 of 2 does not exist"),
        (lambda m: setattr(m.nodes[1], "filter", 5), "expression 5 of 2 does not exist"),
        (lambda m: m.nodes[0].ClearField("scan"), "an empty node"),
        (lambda m: m.nodes[1].ClearField("inputs"), "a filter needs 1 inputs, got 0"),
        (lambda m: m.nodes[0].scan.ClearField("source"), "a scan without a source"),
        (lambda m: m.exprs[0].ClearField("column"), "an empty expression"),
        (lambda m: m.schemas.__setitem__(0, b"x"), "not an Arrow schema"),
        (lambda m: m.ClearField("types"), "not an Arrow schema"),
    ):
        message = simple()
        change(message)
        refused(message, text)


def test_a_constant_its_type_can_not_hold_is_refused() -> None:
    message = pb.Plan.FromString(encode(Plan(Select(scan(), (Literal(1, pa.int8()),)))))
    message.exprs[0].literal.integer = 300
    refused(message, "these bytes are no plan")
    message.exprs[0].literal.text = "1"
    refused(message, "a text value is not a valid int8")


@pytest.mark.parametrize("number", ["1E-999999999", "1E+999999999", "NaN", "sNaN", "9" * 5000, "x"])
def test_a_hostile_decimal_is_refused(number: str) -> None:
    """pyarrow 25.0.1 dies of the first one."""
    good = Literal(Decimal(1), pa.decimal128(38, 2))
    message = pb.Plan.FromString(encode(Plan(Select(scan(), (good,)))))
    message.exprs[0].literal.text = number
    refused(message, "these bytes are no plan")


def test_a_hostile_type_is_refused() -> None:
    """A scale of 2**24 + 2, which pyarrow 25.0.1 reads and dies of; a name that is no text."""
    dtypes = pa.schema([("0", pa.decimal128(38, 2))]).serialize().to_pybytes()
    assert dtypes.endswith(b"\x26\x00\x00\x00\x02\x00\x00\x00")  # precision, scale
    message = simple()
    message.types = dtypes[:-1] + b"\x01"
    refused(message, "a decimal of 38 digits, 16777218 after the point")
    message = simple()
    message.schemas[0] = pa.schema([("abc", pa.int8())]).serialize().to_pybytes().replace(
        b"abc", b"a\xffc")  # fmt: skip
    refused(message, "not an Arrow schema: 'utf-8' codec can't decode byte 0xff")
    message = simple()
    names = ["x" * (1 << 17), *map(str, range(1000))]
    message.schemas[0] = folded(pa.schema([(name, pa.int8()) for name in names]))
    refused(message, "not an Arrow schema: names and metadata of a message have at most")


def test_large_input_is_refused_before_it_is_read() -> None:
    with pytest.raises(PlanError, match=f"a plan has at most {BYTES_MAX} bytes"):
        decode(bytes(BYTES_MAX + 1))


def test_too_many_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fabric.plan.codec.reader.NODES_MAX", 1)
    refused(simple(), "more than 1 nodes")


def test_a_pickle_is_no_plan() -> None:
    with pytest.raises(PlanError, match=r"these bytes are no plan|the plan has version"):
        decode(pickle.dumps(replace(scan(), path="x").path))
