"""What a user of ``format("fabric")`` reads when something is wrong: what, and what to do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

import fabric
from fabric.clients.demo.checksum import checksum
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

ROWS = pa.table({"k": list(range(100)), "v": list(range(100))})


@pytest.fixture(scope="module")
def rows(session: fabric.Session) -> str:
    """A dataset of 100 rows."""
    session.read_arrow(ROWS).write_dataset("failing", keys=["k"])
    return "failing"


def said(call: Any) -> str:
    """The error's text; it is short and shows one of our frames at most."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        call()
    text = str(caught.value)
    assert text.count("/fabric/") <= 1, text
    assert len(text) < 1_000, text
    return text


READS: dict[str, tuple[dict[str, str], str]] = {
    "wrong token": (
        {"token": "not.one"},
        "AuthError: the token is not one of this fabric; use the text of its token file",
    ),
    "no token": ({"token": ""}, 'ConfigError: format("fabric") needs .option("token", ...)'),
    "unknown dataset": ({"dataset": "nope"}, "NotFoundError: there is no dataset 'nope'; known: "),
    "unknown job": (
        {"dataset": "", "job": "job-0", "path": "by_k"},
        "NotFoundError: ",
    ),
    "no url": ({"url": ""}, 'ConfigError: format("fabric") needs .option("url", ...)'),
    "no flight url": ({"url": "localhost:6123"}, "ConfigError: .option"),
    "unknown option": ({"tabel": "x"}, "has no option 'tabel' for reading; its options are url"),
    "misspelt option": ({"colums": "k"}, "no option 'colums' for reading; did you mean 'columns'?"),
    "unknown column": (
        {"columns": "k,w"},
        "ConfigError: the stream has no column 'w'; it has k, v",
    ),
    "token file": ({"token": "", "token_file": "/nowhere/token"}, "can't be read on the driver"),
    "nobody there": (
        {"url": "grpc+tcp://127.0.0.1:1"},
        "Connection refused); is the agent still running? (agent grpc+tcp://127.0.0.1:1)",
    ),
    "no coordinator": (
        {"url": "fabric://127.0.0.1:1"},
        "no coordinator answers at 127.0.0.1:1; is it running? `fabric up` starts one",
    ),
}


@pytest.mark.parametrize("case", READS)
def test_reading(case: str, rows: str, connector: Any) -> None:
    options, message = READS[case]
    assert message in said(lambda: connector.load(**{"dataset": rows, **options}))


def test_a_column_that_is_not_there(rows: str, connector: Any) -> None:
    text = said(lambda: connector.load("k long, w long", dataset=rows).collect())
    assert "DataError: the stream has no column 'w'; it has k, v" in text


def test_a_column_that_does_not_fit(session: fabric.Session, connector: Any) -> None:
    table = pa.table({"ns": pa.array([1], pa.timestamp("ns"))})
    session.read_arrow(table).write_dataset("nanoseconds")
    text = said(lambda: connector.load(dataset="nanoseconds").collect())
    assert "column 'ns' of type timestamp[ns] does not fit timestamp[us]: " in text
    assert "cast it before reading" in text


def test_a_type_without_a_spark_type(session: fabric.Session, connector: Any) -> None:
    table = pa.table({"k": [1], "x": pa.array([None], pa.decimal256(40, 2))})
    session.read_arrow(table).write_dataset("too-wide")
    text = said(lambda: connector.load(dataset="too-wide"))
    assert "Spark has no type for column 'x' (decimal256(40, 2)); before reading, use " in text
    assert connector.load("k long", dataset="too-wide").count() == 1  # as it advises


WRITES: dict[str, tuple[dict[str, str], str]] = {
    "wrong token": ({"token": "not.one"}, "AuthError: the token is not one of this fabric"),
    "unknown key": (
        {"dataset": "new", "keys": "kk"},
        "key 'kk' is not a column of the dataset; its columns are k, v",
    ),
    "other partitions": ({"partitions": "9"}, "an append can't have 9"),
    "no number": ({"partitions": "many"}, "must be a whole number, got 'many'"),
    "misspelt option": ({"partition": "3"}, "for writing; did you mean 'partitions'?; its options"),
    "no name": ({"dataset": ""}, 'writing format("fabric") needs .save(dataset name), or'),
    "a name that is none": ({"dataset": "../x"}, "'../x'"),
    "nobody there": ({"url": "grpc+tcp://127.0.0.1:1"}, "is the agent still running?"),
}


@pytest.mark.parametrize("case", WRITES)
def test_writing(case: str, rows: str, connector: Any) -> None:
    options, message = WRITES[case]
    assert message in said(lambda: connector.save(ROWS, **{"dataset": rows, **options}))


def test_other_columns_are_not_appended(rows: str, connector: Any) -> None:
    text = said(lambda: connector.save(pa.table({"x": [1]}), rows))
    assert (
        "dataset 'failing' has columns k: int64, v: int64, the rows to append have x: int64" in text
    )


def test_a_column_that_spark_can_not_give(connector: Any) -> None:
    frame = connector.spark.sql("select 1 as ok, interval '2' month as wait")
    text = said(lambda: connector.save(frame, "intervals"))
    assert "Spark's column 'wait' (interval month) has no Arrow type; cast it first" in text


def test_an_agent_that_is_gone(connector: Any) -> None:
    with local_fabric(2) as two:
        with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
            session.read_arrow(ROWS).write_dataset("halved", keys=["k"])
        first, second = (agent.address for agent in two.attached())
        by_id = {agent.agent_id: agent.address for agent in two.attached()}
        gone, stays = by_id[two.agent_id(1)], by_id[two.agent_id(0)]
        assert {gone, stays} == {first, second}
        here = replace(connector, url=stays, token=two.token, home=two.home)
        frame = here.load(dataset="halved")
        assert frame.count() == ROWS.num_rows
        two.kill(1)
        assert two.agent_id(1) in said(frame.collect)
        text = said(lambda: here.load(dataset="halved").collect())
        assert f"agent {two.agent_id(1)}, which is not connected; start it again" in text
        assert gone in said(lambda: here.load(dataset="halved", url=gone))
        two.restart(1)
        assert here.load(dataset="halved").count() == ROWS.num_rows


def dies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The Python worker of the first attempt of each task is killed after two batches."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    for n, batch in enumerate(batches):
        if n == 2 and context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch


def test_a_worker_killed_while_it_writes(session: fabric.Session, connector: Any) -> None:
    frame = connector.spark.range(80_000, numPartitions=2).mapInArrow(dies, "id long")
    connector.save(frame, "killed-worker", keys="id")
    whole = checksum(pa.table({"id": range(80_000)}))
    assert checksum(session.read_dataset("killed-worker").collect()) == whole


@pytest.fixture
def three() -> Iterator[LocalFabric]:
    """A fabric of its own, whose agents the test kills."""
    with local_fabric(3) as running:
        yield running


def fatal(pid: int) -> Any:
    """For `mapInArrow`: kill process `pid` when a batch has been passed on."""

    def kill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for n, batch in enumerate(batches):
            if n == 1 and os.path.exists(f"/proc/{pid}"):
                os.kill(pid, signal.SIGKILL)
            yield batch

    return kill


def test_an_agent_killed_while_spark_writes(connector: Any, three: LocalFabric) -> None:
    """Absent with a named error; then complete, on the agents that are left."""
    url = f"fabric://{three.address}"
    here = replace(connector, url=url, token=three.token, home=three.home)
    lost, pid = three.agent_id(2), three.agents[2].process.pid
    frame = connector.spark.range(100_000, numPartitions=2)
    shot = frame.mapInArrow(fatal(pid), "id long")
    text = said(lambda: here.save(shot, "shot", keys="id", timeout_s="5"))
    assert lost in text
    three.agents[2].process.wait()
    with fabric.connect(url, token=three.token) as session:
        assert "shot" not in session.datasets()
        here.save(frame, "shot", keys="id", partitions="6")
        whole = checksum(pa.table({"id": range(100_000)}))
        assert checksum(session.read_dataset("shot").collect()) == whole


def test_an_agent_killed_while_spark_reads(connector: Any, three: LocalFabric) -> None:
    """A named error, never a part of the rows; all of them once it is back."""
    url, rows = f"fabric://{three.address}", pa.table({"id": range(3_000_000)})
    with fabric.connect(url, token=three.token) as session:
        session.read_arrow(rows).write_dataset("read", keys=["id"])
        with flight.connect(session.flight_url) as client:
            headers = [(b"authorization", b"Bearer " + three.token.encode())]
            options = flight.FlightCallOptions(headers=headers)
            path = flight.FlightDescriptor.for_path("dataset", "read")
            last = client.get_flight_info(path, options).endpoints[-1].locations[0].uri.decode()
    owner = next(one.agent_id for one in three.attached() if one.address == last)
    [n] = [n for n in range(3) if three.agent_id(n) == owner]
    here = replace(connector, url=url, token=three.token, home=three.home)
    frame = here.load(dataset="read", max_partitions="1")
    reading = frame.mapInArrow(fatal(three.agents[n].process.pid), "id long")
    text = said(lambda: reading.write.format("noop").mode("overwrite").save())
    assert owner in text or last in text
    three.agents[n].process.wait()
    three.restart(n)
    assert frame.selectExpr("count(id)", "sum(id)").collect() == [
        (3_000_000, sum(range(3_000_000)))
    ]


def test_no_agents_at_all(connector: Any, three: LocalFabric) -> None:
    for n in range(3):
        three.kill(n)
    wait_until(lambda: not three.attached())
    here = replace(connector, url=f"fabric://{three.address}", token=three.token)
    assert "has no agents; start one: fabric agent" in said(lambda: here.load(dataset="d"))
    assert "has no agents; start one: fabric agent" in said(lambda: here.save(ROWS, "d"))


def test_no_plan_and_no_error_shows_the_token(rows: str, connector: Any) -> None:
    frame = connector.load(dataset=rows).where("k > 1")
    shown = [frame._jdf.queryExecution().toString(), repr(frame), frame._jdf.logicalPlan().toJSON()]
    frame.createOrReplaceTempView("shown")
    connector.spark.sql("create or replace temp view shown2 as select * from shown")
    shown += [r[0] for r in connector.spark.sql("explain extended select * from shown2").collect()]
    shown.append(said(lambda: connector.load("k boolean", dataset=rows).collect()))
    shown.append(said(lambda: connector.load(dataset=rows, url="grpc+tcp://127.0.0.1:1")))
    shown.append(said(lambda: connector.save(ROWS, rows, partitions="9")))
    assert [text for text in shown if connector.token in text] == []
