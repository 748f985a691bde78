"""Writing datasets from Spark to a real fabric: all at once, each row once, or nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric._cython.kernels.hash import hash_columns
from fabric.clients.demo.checksum import checksum
from fabric.clients.spark.options import parse_options
from fabric.clients.spark.writer import Transaction
from tests.support.wait import wait_until

NOON = datetime.datetime(2013, 1, 1, 12)
ROWS = pa.table({"k": list(range(1_000)), "s": [f"s{n % 13}" for n in range(1_000)]})
TYPES = pa.table(
    {
        "k": pa.array(range(30)),
        "bool": pa.array([True, None, False] * 10),
        "byte": pa.array([-128, None, 127] * 10, pa.int8()),
        "short": pa.array([-1, None, 1] * 10, pa.int16()),
        "int": pa.array([-1, None, 1] * 10, pa.int32()),
        "float": pa.array([0.5, None, float("nan")] * 10, pa.float32()),
        "double": pa.array([0.1, None, float("-inf")] * 10),
        "decimal": pa.array([Decimal("1.10"), None, Decimal("-2.00")] * 10, pa.decimal128(38, 2)),
        "string": pa.array(["ä", None, ""] * 10),
        "binary": pa.array([b"\x00\xff", None, b""] * 10),
        "date": pa.array([NOON.date(), None, datetime.date(1, 1, 1)] * 10),
        "time": pa.array([datetime.time(1, 2, 3, 4), None, datetime.time(0)] * 10, pa.time64("us")),
        "naive": pa.array([NOON, None, datetime.datetime(1969, 1, 1)] * 10, pa.timestamp("us")),
        "zone": pa.array([NOON, None, NOON] * 10, pa.timestamp("us", "UTC")),
        "wait": pa.array([datetime.timedelta(1, 2, 3), None, datetime.timedelta(0)] * 10),
        "list": pa.array([[1, None], None, []] * 10, pa.list_(pa.int32())),
        "pair": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}] * 10),
        "map": pa.array([[("a", 1)], None, []] * 10, pa.map_(pa.string(), pa.int64())),
    }
)


def back(session: fabric.Session, dataset: str) -> pa.Table:
    return session.read_dataset(dataset).collect()


def test_round_trip_of_all_types(session: fabric.Session, connector: Any) -> None:
    connector.save(TYPES, "types-out", keys="k", partitions="5")
    assert checksum(back(session, "types-out")) == checksum(TYPES)
    assert checksum(connector.load(dataset="types-out").toArrow()) == checksum(TYPES)


@pytest.mark.parametrize("keys", ["k", "s", "s,k"])
def test_rows_lie_where_the_kernel_says(keys: str, connector: Any) -> None:
    """One Spark partition reads one partition of the dataset, in their order."""
    from pyspark.sql.functions import spark_partition_id

    name, n_partitions = f"placed-by-{keys.replace(',', '-')}", 7
    connector.save(ROWS, name, keys=keys, partitions=str(n_partitions))
    frame = connector.load(dataset=name).withColumn("at", spark_partition_id())
    found = frame.toArrow()
    hashes = hash_columns([found[key].combine_chunks() for key in keys.split(",")])
    expected = (hashes >> 49) * n_partitions >> 15
    assert found["at"].to_pylist() == expected.tolist()
    assert checksum(found.select(ROWS.column_names)) == checksum(ROWS)


def test_each_row_to_two_agents(session: fabric.Session, connector: Any) -> None:
    connector.save(ROWS, "twice", keys="k", partitions="3", replicas="2")
    (location,) = (at for at in session.dataset_list().datasets if at.name == "twice")
    assert (location.rows, location.replicas, len(location.owners)) == (ROWS.num_rows, 2, 6)
    assert checksum(back(session, "twice")) == checksum(ROWS)
    assert checksum(connector.load(dataset="twice").toArrow()) == checksum(ROWS)


def test_append_adds_and_overwrite_replaces(session: fabric.Session, connector: Any) -> None:
    connector.save(ROWS, "modes", keys="k")
    connector.save(ROWS.slice(0, 10), "modes")
    assert checksum(back(session, "modes")) == checksum(pa.concat_tables([ROWS, ROWS.slice(0, 10)]))
    connector.save(TYPES.select(["string"]), "modes", mode="overwrite")
    assert checksum(back(session, "modes")) == checksum(TYPES.select(["string"]))


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_the_modes_that_spark_refuses_itself(mode: str, connector: Any) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match='use either the "Append" or "Overwrite" mode'):
        connector.save(ROWS, "modes", mode=mode)


def test_if_it_exists(session: fabric.Session, connector: Any) -> None:
    connector.save(ROWS, "existing", if_exists="error", keys="k")
    connector.save(TYPES, "existing", if_exists="ignore")
    with pytest.raises(Exception, match="dataset 'existing' exists already; append to it without"):
        connector.save(ROWS, "existing", if_exists="error")
    assert checksum(back(session, "existing")) == checksum(ROWS)
    connector.save(ROWS, "existing-2", if_exists="ignore")
    assert checksum(back(session, "existing-2")) == checksum(ROWS)
    with pytest.raises(Exception, match="an overwrite replaces what exists"):
        connector.save(ROWS, "existing", mode="overwrite", if_exists="ignore")


def test_append_by_name_to_what_fabric_wrote(session: fabric.Session, connector: Any) -> None:
    """Types that Spark does not have, order and nullability are the dataset's."""
    schema = pa.schema(
        [
            pa.field("u", pa.uint8(), nullable=False),
            pa.field("ns", pa.timestamp("ns")),
            pa.field("word", pa.dictionary(pa.int32(), pa.string())),
            pa.field("list", pa.large_list(pa.field("item", pa.uint16(), nullable=False))),
        ]
    )
    known = pa.table({"u": [1], "ns": [NOON], "word": ["a"], "list": [[1]]}, schema)
    given = {"url": connector.url, "token": connector.token, "dataset": "of-fabric"}
    transaction = Transaction.begin(parse_options(given, writing=True), schema, "create")
    transaction.commit([transaction.put("w", 0, known.to_batches())])
    more = pa.table({"list": [[2], []], "word": ["b", None], "u": [255, 0], "ns": [NOON, None]})
    frame = connector.frame(
        more.cast(
            pa.schema(
                [
                    ("list", pa.list_(pa.int32())), ("word", pa.string()), ("u", pa.int16()),
                    ("ns", pa.timestamp("us")),
                ]
            )
        )
    )  # fmt: skip
    connector.save(frame, "of-fabric")
    expected = pa.concat_tables([known, more.select(schema.names).cast(schema)])
    assert checksum(back(session, "of-fabric")) == checksum(expected)
    connector.save(frame.selectExpr("list", "word", "u", "ns").limit(0), "of-fabric")
    for expression, message in {
        "smallint(256)": "column 'u' of type int16 does not fit uint8",
        "smallint(null)": "column 'u' is not nullable but holds nulls",
        "int(1)": "the rows to append have list: list",
    }.items():
        with pytest.raises(Exception, match=message):
            connector.save(frame.selectExpr("list", "word", f"{expression} u", "ns"), "of-fabric")
    assert checksum(back(session, "of-fabric")) == checksum(expected)


def test_never_null_in_spark_may_be_null_later(connector: Any, session: fabric.Session) -> None:
    connector.save(connector.spark.range(3), "nullable")
    connector.save(connector.spark.sql("select cast(null as bigint) id"), "nullable")
    assert session.read_dataset("nullable").count() == 4


def test_a_variant_comes_back_as_one(connector: Any) -> None:
    connector.save(connector.spark.sql("""select parse_json('{"a": [1, 2]}') v"""), "variants")
    found = connector.load(dataset="variants")
    assert found.dtypes == [("v", "variant")]
    assert found.selectExpr("v:a[1]::int x").collect()[0].x == 2


def test_an_empty_frame(session: fabric.Session, connector: Any) -> None:
    connector.save(ROWS.slice(0, 0), "empty", keys="k")
    assert back(session, "empty").schema.names == ["k", "s"]
    found = connector.load(dataset="empty")
    assert (found.columns, found.count()) == (["k", "s"], 0)
    connector.save(connector.frame(ROWS).where("k < 0"), "empty")
    assert found.count() == 0


def test_many_spark_partitions_most_of_them_empty(session: fabric.Session, connector: Any) -> None:
    frame = connector.frame(ROWS).repartition(23, "s")
    connector.save(frame, "scattered", keys="k")
    assert checksum(back(session, "scattered")) == checksum(ROWS)


def spoiled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass a batch on, then fail."""
    yield next(batches)
    raise ValueError("spoiled on purpose")


def spoiled_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same in a task's first attempt only."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return spoiled(batches) if context.attemptNumber() == 0 else batches


def many(connector: Any) -> Any:
    """Enough rows that a task has several batches."""
    return connector.spark.range(40_000, numPartitions=2)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_that_fails_leaves_nothing(
    mode: str, session: fabric.Session, connector: Any
) -> None:
    name = f"spoiled-{mode}"
    frame = many(connector).mapInArrow(spoiled, "id long")
    with pytest.raises(Exception, match="spoiled on purpose"):
        connector.save(frame, name, mode=mode)
    assert name not in session.datasets()
    wait_until(lambda: connector.files(name) == [], timeout_s=60)
    connector.save(ROWS, name)
    before = connector.files(name)
    with pytest.raises(Exception, match="spoiled on purpose"):
        connector.save(frame.selectExpr("id k", "string(id) s"), name, mode=mode)
    assert checksum(back(session, name)) == checksum(ROWS)
    wait_until(lambda: connector.files(name) == before)


def test_a_retried_task_writes_its_rows_once(session: fabric.Session, connector: Any) -> None:
    frame = many(connector).mapInArrow(spoiled_at_first, "id long")
    connector.save(frame, "retried", keys="id")
    assert checksum(back(session, "retried")) == checksum(pa.table({"id": range(40_000)}))


def test_only_attempts_that_were_committed_count(session: fabric.Session, connector: Any) -> None:
    """Two attempts of one task, as with speculation; a commit may come twice."""
    given = {"url": connector.url, "token": connector.token, "dataset": "attempts"}
    transaction = Transaction.begin(parse_options(given, writing=True), ROWS.schema, "append")
    parts = [transaction.put("spark-0", attempt, ROWS.to_batches()) for attempt in (7, 8)]
    assert [part.rows for part in parts] == [ROWS.num_rows] * 2
    for _ in range(2):
        transaction.commit(parts[1:])
    assert checksum(back(session, "attempts")) == checksum(ROWS)
