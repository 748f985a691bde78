"""Rows that something fails on are written by ordinary sinks, beside the good ones, each once.

One job writes results to a table and everything that a step puts aside (unreadable lines, rows
without a time, rows that a function fails on, late rows) to tables and files of their own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import fabric
from fabric import DataFrame, Process, ProcessContext, streams
from fabric.clients.session.session import Session
from fabric.errors import FabricError
from fabric.ids import new_id
from tests.services.kafka import kafka_broker
from tests.support.postgres import PostgresServer

N_ROWS = 200
SCHEMA = {"id": "int64", "at": "timestamp[us]", "text": "string"}
MADE = {"id": "int64", "at": "timestamp[us]", "n": "int64"}


class Lengths(Process):
    """Of each text its length; a text with a "!" is more than it can do."""

    def on_rows(self, ctx: ProcessContext, key: int, rows):
        for row in rows.to_pylist():
            if "!" in row["text"]:
                raise ValueError("an exclamation mark")
            yield {"id": row["id"], "at": row["at"], "n": len(row["text"])}


def lines(folder: Path) -> Path:
    """Of 200 lines every 10th is no JSON, every 10th fails, every 10th has no time, and every 10th
    is an hour old."""
    path = folder / "events.ndjson"
    with path.open("w") as file:
        for n in range(N_ROWS):
            row = {"id": n, "at": f"2026-01-01T12:{n // 60:02}:{n % 60:02}", "text": f"row {n}"}
            match n % 10:
                case 3:
                    row["text"] = "help!"
                case 5:
                    del row["at"]
                case 7:
                    row["at"] = "2026-01-01T11:00:00"
            file.write('{"id": oops\n' if n % 10 == 1 else json.dumps(row) + "\n")
    return path


def steps(path: Path, session: Session) -> tuple[DataFrame, dict[str, DataFrame]]:
    read = streams.files(
        path, format="ndjson", schema=SCHEMA, until="now", grows=True, on_bad="side",
        session=session,
    )  # fmt: skip
    timed = read.with_watermark("at", "1 second", on_bad="side")
    made = timed.process(Lengths(), keys="id", schema=MADE, time="at", on_error="side")
    counts = made.group_by().window("1 minute", late="side").agg(n=fabric.count())
    aside = {
        "unreadable": read.side_output("unreadable"), "bad": timed.side_output("bad"),
        "errors": made.side_output("errors"), "late": counts.side_output("late"),
    }  # fmt: skip
    return counts, aside


def test_every_row_is_in_one_place(tmp_path: Path, postgres: PostgresServer) -> None:
    place, dsn = new_id("t").replace("-", "_"), postgres.url()
    with fabric.connect(parallelism=1) as session:
        counts, aside = steps(lines(tmp_path), session)
        also = {
            streams.to_postgres(f"{place}_unreadable", dsn=dsn): aside["unreadable"],
            streams.to_postgres(f"{place}_errors", dsn=dsn): aside["errors"],
            tmp_path / "bad": aside["bad"],
            streams.to_postgres(f"{place}_late", dsn=dsn, key="id", mode="create"): aside["late"],
        }
        counts.write_stream(streams.to_postgres(f"{place}_counts", dsn=dsn), also=also).wait(120)
    ask = postgres.execute
    of = {n: {i for i in range(N_ROWS) if i % 10 == n} for n in (1, 3, 5, 7)}
    found = ask(f'SELECT file, "offset", data, error FROM {place}_unreadable')
    assert len(found) == len(of[1])
    assert {data for _, _, data, _ in found} == {b'{"id": oops\n'}
    found = ask(f"SELECT id, text, error, error_attempt FROM {place}_errors")
    assert sorted(int(str(row[0])) for row in found) == sorted(of[3])
    assert {(text, "exclamation" in str(error)) for _, text, error, _ in found} == {("help!", True)}
    assert sorted(pq.read_table(tmp_path / "bad")["id"].to_pylist()) == sorted(of[5])
    assert {int(str(row[0])) for row in ask(f"SELECT id FROM {place}_late")} <= of[7]
    (((total,),), ((late,),)) = (
        ask(f"SELECT sum(n)::int FROM {place}_counts"), ask(f"SELECT count(*) FROM {place}_late"),
    )  # fmt: skip
    assert int(str(total)) + int(str(late)) == N_ROWS - 3 * N_ROWS // 10
    assert int(str(late)) > 0


def test_they_go_to_topics_of_kafka(tmp_path: Path, postgres: PostgresServer) -> None:
    """Beside results in a table: each record, and each row, once."""
    broker, name, dsn = kafka_broker(), new_id("t").replace("-", "_"), postgres.url()
    topics = {tag: broker.new_topic(tag) for tag in ("errors", "bad", "late")}
    with fabric.connect(parallelism=1) as session:
        counts, aside = steps(lines(tmp_path), session)
        also = {
            streams.to_kafka(topic, servers=broker.servers): aside[tag]
            for tag, topic in topics.items()
        }
        counts.write_stream(streams.to_postgres(name, dsn=dsn), also=also).wait(120)
    found = {
        tag: [json.loads(record.value or b"") for record in broker.records(topic)]
        for tag, topic in topics.items()
    }
    assert sorted(row["id"] for row in found["errors"]) == list(range(3, N_ROWS, 10))
    assert {row["error"].split(":")[-1].split(" (")[0] for row in found["errors"]} == {
        " an exclamation mark"
    }
    assert sorted(row["id"] for row in found["bad"]) == list(range(5, N_ROWS, 10))
    late = [row["id"] for row in found["late"]]
    assert len(late) == len(set(late)) > 0
    (((total,),),) = (postgres.execute(f"SELECT sum(n)::int FROM {name}"),)
    assert int(str(total)) + len(late) == N_ROWS - 3 * N_ROWS // 10


def test_one_that_can_not_be_written_ends_the_job_by_name(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """Before anything is written, and naming the sink among several."""
    place, dsn = new_id("t").replace("-", "_"), postgres.url()
    postgres.execute(f"CREATE TABLE {place}_late (id int)")
    with fabric.connect(parallelism=1) as session:
        counts, aside = steps(lines(tmp_path), session)
        also = {streams.to_postgres(f"{place}_late", dsn=dsn, mode="append"): aside["late"]}
        with pytest.raises(FabricError, match=r"(?s)'id' of type int64 does not fit.*node sink"):
            counts.write_stream(tmp_path / "counts", also=also)
        twice = {streams.to_postgres(f"{place}_both", dsn=dsn): aside["late"]}
        with pytest.raises(FabricError, match="two streams of this job are written to the table"):
            counts.write_stream(streams.to_postgres(f"{place}_both", dsn=dsn), also=twice)
    assert not (tmp_path / "counts").exists()
