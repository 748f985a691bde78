"""Steps as users write them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from fabric.plan.expr import Agg, Call, Cast, Column, Literal, SortKey
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
from fabric.plan.sources import DatasetSource, FileSource, FlightSource
from fabric.plan.targets import (
    DatasetTarget,
    FileTarget,
    FlightTarget,
    GateTarget,
    KafkaTarget,
    PostgresTarget,
)

A, B = Column("a"), Column("b")
SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int32())])
SECRET = "do-not-show"


def read(source: object) -> Scan:
    return Scan(source, SCHEMA)  # type: ignore[arg-type]


STEPS: list[tuple[Callable[[Scan], Node], str]] = [
    (lambda s: Filter(s, Call("is_null", (A,))), '.filter(col("a").is_null())'),
    (lambda s: Select(s, (A, Call("abs", (B,)))), '.select("a", col("b").abs())'),
    (lambda s: WithColumns(s, (A,), replace=True), '.with_columns("a", replace=True)'),
    (lambda s: Aggregate(s, (A,), (Agg("sum", B),)), '.group_by("a").agg(col("b").sum())'),
    (lambda s: Aggregate(s, (), (Agg("count", None),), "partial"), ".agg(count()) partial"),
    (lambda s: Join(s, s, (A,), (A,)), '.join(other, on="a")'),
    (lambda s: Join(s, s, (A, B), (A, B), "left"), '.join(other, on=["a", "b"], how="left")'),
    (lambda s: Join(s, s, (A,), (Cast(B, pa.int64()),), "inner", "_r", "broadcast"),
     '.join(other, left_on="a", right_on=col("b").cast("int64"), suffix="_r", '
     'strategy="broadcast")'),
    (lambda s: Sort(s, (SortKey(A), SortKey(B, True, True))), '.sort("a", col("b").desc())'),
    (lambda s: Limit(s, 3, 2), ".limit(3, offset=2)"),
    (Distinct, ".distinct()"),
    (lambda s: Union((s, s)), ".union(other)"),
    (lambda s: Union((s, s, s)), ".union(other_1, other_2)"),
    (lambda s: Union((s,)), ".union()"),
    (lambda s: Exchange(s, "hash", ("a",), 8, "pipelined"),
     '.exchange("a", n_partitions=8, mode="pipelined")'),
    (lambda s: Exchange(s, "hash", ("a",), compression="lz4"),
     '.exchange("a", compression="lz4")'),
    (lambda s: Exchange(s, "gather"), '.exchange(kind="gather")'),
    (lambda s: Sink(s, FileTarget("csv", "/x/y", False, "overwrite", force=True)),
     '.write_csv("/x/y", mode="overwrite", force=True)'),
    (lambda s: Sink(s, FileTarget("csv", "/x/y.csv", True, "overwrite")),
     '.write_csv("/x/y.csv", mode="overwrite")'),
    (lambda s: Sink(s, DatasetTarget("d", ("a",))), '.write_dataset("d", keys=["a"])'),
    (lambda s: Sink(s, DatasetTarget("d", replicas=2)), '.write_dataset("d", replicas=2)'),
    (lambda s: Sink(s, FlightTarget("grpc://h:1", ("x",), SECRET)), '.write_flight("grpc://h:1")'),
    (lambda s: Sink(s, KafkaTarget("h:1", "t", key=("a",), secrets=(("sasl.password", SECRET),))),
     '.write_kafka("t", servers="h:1", key="a")'),
    (lambda s: Sink(s, PostgresTarget("t", key=("a",), secrets=(("password", SECRET),))),
     '.write_postgres("t", key="a", mode="create")'),
    (lambda s: Sink(s, PostgresTarget("t", "s", mode="append")),
     '.write_postgres("s.t", mode="append")'),
    (lambda s: Sink(s, GateTarget("g")), '.write_gate("g")'),
    (lambda _: StageInput(4, SCHEMA), "stage_input(4)"),
    (lambda s: s, 'read_parquet("/x/*.pq" and 1 more)'),
    (lambda s: Scan(s.source, SCHEMA, ("a",), Call("is_null", (B,))),
     'read_parquet("/x/*.pq" and 1 more).filter(col("b").is_null()).select("a")'),
    (lambda _: read(DatasetSource("d", 3)), 'read_dataset("d", version=3)'),
    (lambda _: read(FlightSource("grpc://h:1", token=SECRET)), 'read_flight("grpc://h:1")'),
]  # fmt: skip


@pytest.mark.parametrize(("build", "text"), STEPS, ids=[text for _, text in STEPS])
def test_step(build: Callable[[Scan], Node], text: str) -> None:
    node = build(read(FileSource("parquet", ("/x/*.pq", "/x/b.pq"))))
    assert node.text() == text
    assert SECRET not in node.text()


def test_a_token_is_not_in_a_repr_either() -> None:
    assert SECRET not in repr(read(FlightSource("grpc://h:1", token=SECRET)))


def test_literals_in_steps() -> None:
    node = Filter(read(DatasetSource("d")), Call("eq", (A, Literal(1, pa.int64()))))
    assert node.text() == '.filter(col("a") == lit(1, "int64"))'
