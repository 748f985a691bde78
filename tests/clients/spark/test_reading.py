"""Reading streams of a real fabric with Spark: the same rows, wherever they lie."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

import fabric
from fabric import col, streams
from fabric.clients.demo.checksum import checksum
from fabric.clients.spark import install
from fabric.plan.nodes import Plan, Sink
from fabric.testing import Gate
from tests.support.local import LocalFabric
from tests.support.wait import wait_until

ROWS = pa.table(
    {
        "k": pa.array([None if n % 11 == 0 else n for n in range(2_000)], pa.int64()),
        "v": pa.array([None if n % 7 == 0 else n % 5 for n in range(2_000)], pa.int32()),
        "s": pa.array([None if n % 3 == 0 else f"s{n % 4}" for n in range(2_000)]),
    }
)
TYPES = pa.table(
    {
        "n": pa.array([0, 1, 2]),
        "u8": pa.array([255, None, 0], pa.uint8()),
        "u64": pa.array([(1 << 64) - 1, None, 0], pa.uint64()),
        "half": pa.array([0.5, None, -0.5], pa.float16()),
        "view": pa.array(["longer than twelve bytes", None, ""], pa.string_view()),
        "bytes": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        "day": pa.array([86_400_000, None, 0], pa.int64()).view(pa.date64()),
        "time": pa.array([1_000, None, 0], pa.time32("ms")),
        "zone": pa.array([1_000, None, 0], pa.timestamp("ms", "America/New_York")),
        "word": pa.array(["a", None, "a"]).dictionary_encode(),
        "list": pa.array([[1, None], None, []], pa.large_list(pa.uint16())),
        "pair": pa.array([{"a": [1]}, None, {"a": None}], pa.struct([("a", pa.list_(pa.uint8()))])),
        "map": pa.array([[(1, "x")], None, []], pa.map_(pa.uint8(), pa.large_string())),
    }
)


@pytest.fixture(scope="module")
def rows(session: fabric.Session) -> str:
    """The dataset of `ROWS`."""
    session.read_arrow(ROWS).write_dataset("reading", keys=["k"])
    return "reading"


def test_types_of_arrow_that_spark_does_not_have(session: fabric.Session, connector: Any) -> None:
    session.read_arrow(TYPES).write_dataset("types-in")
    frame = connector.load(dataset="types-in")
    assert frame.columns == TYPES.column_names
    assert frame.orderBy("n").toArrow().to_pylist() == TYPES.to_pylist()


@pytest.mark.parametrize("scheme", ["fabric://", "grpc+tcp://"])
def test_any_address_of_the_fabric(
    scheme: str, rows: str, two: LocalFabric, session: fabric.Session, connector: Any
) -> None:
    url = f"fabric://{two.address}" if scheme == "fabric://" else session.flight_url
    assert url.startswith(scheme)
    frame = connector.load(dataset=rows, url=url)
    assert checksum(frame.toArrow()) == checksum(ROWS)
    assert frame.rdd.getNumPartitions() == len(two.agents)


def test_the_token_of_the_environment(
    rows: str, connector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the variable where Spark runs; here it was not set when Spark started."""
    from pyspark.errors import AnalysisException

    monkeypatch.setenv("FABRIC_TOKEN", connector.token)
    with pytest.raises(AnalysisException, match=r'needs .option\("token", ...\)'):
        connector.load(dataset=rows, token="")


def physical(frame: Any) -> list[str]:
    """The lines of the plan that runs."""
    text: str = frame._jdf.queryExecution().toString()
    return text.split("Physical Plan")[1].splitlines()


def test_filters_are_pushed_and_not_applied_again(rows: str, connector: Any) -> None:
    frame = connector.load(dataset=rows).where(
        "K > 5 and v in (1, 2) and s like 's%' and k % 2 = 1"
    )
    left = [line for line in physical(frame) if "Filter" in line.split("RuntimeFilters")[0]]
    assert len(left) == 1
    assert re.search(r"Filter \(\(k#\d+L % 2\) = 1\)$", left[0])
    found = frame.toArrow()
    expected = connector.frame(ROWS).where("k > 5 and v in (1, 2) and s like 's%' and k % 2 = 1")
    assert checksum(found) == checksum(expected.toArrow())
    assert found.num_rows


def test_filters_stay_with_spark_when_told_so(rows: str, connector: Any) -> None:
    frame = connector.load(dataset=rows, push_filters="false").where("k > 5")
    assert any("Filter (isnotnull(k#" in line for line in physical(frame))
    assert frame.count() == connector.frame(ROWS).where("k > 5").count()


def test_names_that_differ_in_case_only(session: fabric.Session, connector: Any) -> None:
    table = pa.table({"k": [1, 2, None], "K": [2, 1, 5]})
    session.read_arrow(table).write_dataset("cases")
    spark = connector.spark.newSession()
    spark.conf.set("spark.sql.caseSensitive", "true")
    frame = replace(connector, spark=install(spark)).load(dataset="cases")
    assert [tuple(row) for row in frame.where("K > 1 and k = 1").collect()] == [(1, 2)]
    assert [tuple(row) for row in frame.where("k is null").collect()] == [(None, 5)]
    install(connector.spark)


def test_numbers_of_the_stream_are_filtered_as_spark_sees_them(
    session: fabric.Session, connector: Any
) -> None:
    """The schema asks for wider types; a filter is on these."""
    table = pa.table({"n": pa.array([1, 2, None], pa.uint8()), "w": pa.array(["a", "b", "a"])})
    session.read_arrow(table).write_dataset("narrow")
    frame = connector.load("n double, w string", dataset="narrow").where("n > 1.5D")
    assert [tuple(row) for row in frame.collect()] == [(2.0, "b")]


@pytest.mark.parametrize(
    "predicate",
    [
        "k is not null",
        "v > 1",
        "not (v > 1)",
        "v <=> null or s = 's1'",
        "coalesce(v, 9) > 3 and k % 2 = 1",
        "s in ('s0', null)",
        "v is null and s is null",
    ],
)
def test_a_filter_after_the_read(predicate: str, rows: str, connector: Any) -> None:
    found = connector.load(dataset=rows).where(predicate).toArrow()
    expected = connector.frame(ROWS).where(predicate).toArrow()
    assert checksum(found) == checksum(expected)


def test_some_columns_by_a_schema(rows: str, connector: Any) -> None:
    frame = connector.load("k long", dataset=rows)
    assert frame.columns == ["k"]
    assert checksum(frame.toArrow()) == checksum(ROWS.select(["k"]))


def test_columns_in_another_order_and_wider(rows: str, connector: Any) -> None:
    frame = connector.load("s string, v long", dataset=rows)
    assert frame.dtypes == [("s", "string"), ("v", "bigint")]
    assert checksum(frame.toArrow()) == checksum(ROWS.select(["s", "v"]))


def test_some_columns_by_the_option(rows: str, connector: Any) -> None:
    frame = connector.load(dataset=rows, columns="s,k")
    assert frame.dtypes == [("s", "string"), ("k", "bigint")]
    assert checksum(frame.toArrow()) == checksum(ROWS.select(["s", "k"]))


@pytest.mark.parametrize(
    ("options", "n_partitions"),
    [
        ({}, 5),
        ({"min_partitions": "12"}, 12),
        ({"max_partitions": "2"}, 2),
        ({"max_partitions": "9", "min_partitions": "3"}, 5),
    ],
)
def test_endpoints_are_split_and_coalesced(
    options: dict[str, str], n_partitions: int, session: fabric.Session, connector: Any
) -> None:
    table = pa.table({"n": range(100_000)})
    if "many-endpoints" not in session.datasets():
        connector.save(table, "many-endpoints", keys="n", partitions="5")
    frame = connector.load(dataset="many-endpoints", **options)
    assert frame.rdd.getNumPartitions() == n_partitions
    assert checksum(frame.toArrow()) == checksum(table)


def test_select_and_count_and_join(rows: str, connector: Any) -> None:
    frame = connector.load(dataset=rows)
    assert frame.select("v").distinct().count() == 6
    assert frame.count() == ROWS.num_rows
    names = connector.frame(pa.table({"v": pa.array([1, 2], pa.int32()), "name": ["one", "two"]}))
    joined = frame.join(names, "v").groupBy("name").count().orderBy("name").collect()
    values = ROWS["v"].to_pylist()
    assert [tuple(r) for r in joined] == [("one", values.count(1)), ("two", values.count(2))]


def test_a_result_and_an_exchange_while_the_job_is_held(
    session: fabric.Session, connector: Any
) -> None:
    df = session.read_arrow(ROWS).exchange("k", n_partitions=3).named("by_k")
    df = df.with_columns((col("k") + 1).alias("next"))
    with Gate() as gate, session.submit(Plan(Sink(df.plan.root, gate.target))) as job:
        wait_until(lambda: sealed_rows(session, job.id, "by_k") == ROWS.num_rows, 60)
        frame = connector.load(job=job.id, path="by_k")
        found = frame.toArrow()
        assert job.state == "running"
        assert checksum(found) == checksum(ROWS)
        assert frame.rdd.getNumPartitions() >= 3
        gate.open()
        job.wait()


def sealed_rows(session: fabric.Session, job_id: str, path: str) -> int:
    headers = [(b"authorization", f"Bearer {session.token}".encode())]
    with flight.connect(session.flight_url) as client:
        infos = list(client.list_flights(options=flight.FlightCallOptions(headers=headers)))
    wanted = [b"job", job_id.encode(), path.encode()]
    return sum(i.total_records for i in infos if i.descriptor.path[:3] == wanted)


def test_the_result_of_a_finished_job(session: fabric.Session, connector: Any) -> None:
    df = session.read_arrow(ROWS).group_by("v").agg(fabric.count().alias("n"))
    with session.submit(df) as job:
        expected = job.wait().collect()
        frame = connector.load(job=job.id, path=job.result_path)
        assert checksum(frame.toArrow()) == checksum(expected)
        assert checksum(frame.toArrow()) == checksum(expected)  # it can be read again


def test_one_partition_of_a_node(session: fabric.Session, connector: Any) -> None:
    df = session.read_arrow(ROWS).exchange("k", n_partitions=3).named("by_k")
    with session.submit(df) as job:
        job.wait()
        frames = [connector.load(job=job.id, path="by_k", partition=str(n)) for n in range(3)]
        tables = [frame.toArrow() for frame in frames]
        assert sum(table.num_rows for table in tables) == ROWS.num_rows
        assert checksum(pa.concat_tables(tables)) == checksum(ROWS)


class Foreign(flight.FlightServerBase):  # type: ignore[misc]
    """Not a fabric: no token, a command or a path, endpoints without places."""

    def get_flight_info(self, context: Any, descriptor: Any) -> flight.FlightInfo:
        asked = descriptor.command or b"/".join(descriptor.path)
        ends = [flight.FlightEndpoint(asked + b"?" + n, []) for n in (b"1", b"2")]
        return flight.FlightInfo(pa.schema([("said", pa.string())]), descriptor, ends, -1, -1)

    def do_get(self, context: Any, ticket: Any) -> flight.RecordBatchStream:
        return flight.RecordBatchStream(pa.table({"said": [ticket.ticket.decode()]}))


@pytest.mark.parametrize(
    ("options", "asked"),
    [({"command": "select 1"}, "select 1"), ({"descriptor": '["a", "b c"]'}, "a/b c")],
)
def test_any_flight_server(options: dict[str, str], asked: str, connector: Any) -> None:
    with Foreign("grpc+tcp://127.0.0.1:0") as server:
        url = f"grpc+tcp://127.0.0.1:{server.port}"
        frame = connector.load(url=url, token="", **options)
        assert sorted(row.said for row in frame.collect()) == [f"{asked}?1", f"{asked}?2"]
        assert frame.where("said like '%?2'").count() == 1


def test_a_view_while_its_job_runs(two: LocalFabric, connector: Any, tmp_path: Path) -> None:
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        session.checkpoints(interval_s=0.3, folder=tmp_path)
        check_balances(session, connector)


def check_balances(session: fabric.Session, connector: Any) -> None:
    """Each of 200,000 rows a second moves one from an account to the next one."""
    source = streams.generator(n_keys=100, n_splits=2, rows_per_s=200_000, session=session)
    sides = source.select("key", side=fabric.array(fabric.lit(1), fabric.lit(-1))).explode("side")
    account = (col("key") + (col("side") > 0).cast("int64")).alias("account")
    moved = sides.select(account, "side").group_by("account").agg(n=col("side").sum())
    job = moved.materialize("balances", key="account", parallelism=2)
    try:
        wait_until(lambda: "balances" in session.datasets())
        seen = set()
        for _ in range(30):
            rows = connector.load(dataset="balances").toArrow().to_pydict()
            assert sum(rows["n"]) == 0
            assert len(set(rows["account"])) == len(rows["account"])
            if len(rows["account"]) == 101:
                seen.add(rows["n"][rows["account"].index(0)])
            if len(seen) == 3:
                break
        assert len(seen) == 3
    finally:
        job.cancel()


def test_the_state_of_a_running_stream(
    session: fabric.Session, connector: Any, tmp_path: Path
) -> None:
    session.checkpoints(interval_s=0.3, folder=tmp_path)
    source = streams.generator(n_keys=7, n_splits=2, rows_per_s=500, session=session)
    counted = source.group_by("key").count().named("counts").changes()
    job = counted.write_stream(streams.to_blackhole(), parallelism=2)
    try:
        wait_until(lambda: bool(job.states()) and job.state("counts").table().num_rows == 7)
        before = job.state("counts").table()["count"].to_pylist()
        frame = connector.load(descriptor=f'["state", "{job.id}", "counts", "groups"]')
        found = frame.orderBy("key").toArrow()
    finally:
        job.cancel()
    assert found["key"].to_pylist() == list(range(7))
    assert sum(found["count"].to_pylist()) >= sum(before)
