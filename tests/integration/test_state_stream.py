"""The state of running streams, read by any Flight client: what DuckDB says of the same rows.

A checkpoint holds where each split of the generator was, so the rows that its state is of are
known: each value is compared with what DuckDB makes of just these.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.flight as fl
import pytest

import fabric
from fabric import Job, Process, Session, col, count, streams
from fabric.agent import kept_states
from fabric.checkpoint.storage import FolderStorage
from fabric.config import StateBackend
from fabric.errors import DataError, NotFoundError
from fabric.io.readers.generator import rows
from fabric.plan.sources import GeneratorStream
from tests.support.foreign import BUILD_S, go_program
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

N_KEYS, N_SPLITS = 300, 2
START = datetime(2024, 5, 1, tzinfo=UTC)
SOURCE = GeneratorStream(
    n_keys=N_KEYS,
    n_splits=N_SPLITS,
    seed=5,
    start_us=int(START.timestamp() * 1e6),
    rows_per_s=4_000,
)


def events(session: Session, rows_per_s: int = 4_000) -> fabric.DataFrame:
    return streams.generator(
        n_keys=N_KEYS, n_splits=N_SPLITS, seed=5, start=START, session=session,
        rows_per_s=rows_per_s,
    )  # fmt: skip


def counts(session: Session) -> fabric.DataFrame:
    summed = events(session).group_by("key").agg(n=count(), total=col("row").sum())
    return summed.named("counts").changes()


def windows(session: Session) -> fabric.DataFrame:
    timed = events(session).with_watermark("ts", "10 minutes")
    return (
        timed.group_by("key").window("2 seconds").agg(n=count(), most=col("row").max()).named("w")
    )


def known(folder: Path, checkpoint: int) -> pa.Table:
    """The rows that the sources had read at a checkpoint."""
    storage = FolderStorage(folder)
    (job,) = (name for name in storage.jobs() if not name.startswith("."))
    manifest = storage.load(job, checkpoint)
    positions: dict[int, int] = {}
    for task in manifest.tasks:
        for split, data in task.positions:
            positions[int(split.partition("-")[0])] = _row(json.loads(data))
    assert len(positions) == N_SPLITS
    parts = [rows(SOURCE, split, 0, n, SOURCE.start_us) for split, n in positions.items()]
    return pa.concat_tables(parts)


def _row(position: Any) -> int:
    if isinstance(position, dict):
        if "row" in position:
            return int(position["row"])
        position = list(position.values())
    found = [_row(each) for each in position if isinstance(each, dict | list)]
    return found[0]


def of_duckdb(made: pa.Table, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("made", made)
        return connection.sql(query).fetchall()


COUNTS = "SELECT key, count(*), sum(row)::BIGINT FROM made GROUP BY key ORDER BY key"


def cells(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def wait_for(job: Job) -> None:
    wait_until(job.states)


def by_flight(url: str, token: str, *path: str) -> tuple[int, pa.Table]:
    """The checkpoint and all rows, as any Flight client reads them: without a line of ours."""
    auth = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
    with fl.connect(url) as client:
        info = client.get_flight_info(fl.FlightDescriptor.for_path(*path), auth)
        parts = [client.do_get(endpoint.ticket, auth).read_all() for endpoint in info.endpoints]
        listed = [each.descriptor.path for each in client.list_flights(b"state", auth)]
    assert [each.encode() for each in path] in listed
    return json.loads(info.app_metadata)["version"], pa.concat_tables(parts)


@pytest.mark.parametrize("engine", ["memory", "arrow"])
def test_plain_flight_reads_what_duckdb_computes(engine: StateBackend, tmp_path: Path) -> None:
    with fabric.connect(serve=True, parallelism=4) as session:
        session.checkpoints(
            interval_s=0.3, retained=200, folder=tmp_path, state=engine, state_memory="64 KiB"
        )
        job = counts(session).write_stream(streams.to_blackhole(), parallelism=2)
        wait_for(job)
        for _ in range(3):
            path = ("state", job.id, "counts", "groups")
            checkpoint, found = by_flight(session.flight_url, session.token, *path)
            assert cells(found) == of_duckdb(known(tmp_path, checkpoint), COUNTS)
            time.sleep(0.3)
        key = found["key"][0].as_py()
        assert [row["key"] for row in job.state("counts").get(key)] == [key]
        keys = [key, found["key"][1].as_py(), -1]
        assert session.read_state(job, "counts", keys=keys).count() == 2
        job.cancel()


@pytest.mark.timeout(BUILD_S)
def test_a_go_client_reads_what_duckdb_computes(two: LocalFabric, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    program = go_program(root / "clients/foreign/read_flight.go", root / "build" / "foreign")
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        session.checkpoints(interval_s=0.3, retained=200, folder=tmp_path)
        job = counts(session).write_stream(streams.to_blackhole(), parallelism=2)
        wait_for(job)
        address = two.attached()[0].address.removeprefix("grpc+tcp://")
        done = subprocess.run(
            [program, address, "state", job.id, "counts", "groups"], check=False,
            env={**os.environ, "FABRIC_TOKEN": two.token}, capture_output=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        found = pa.csv.read_csv(io.BytesIO(done.stdout))
        checkpoint = json.loads(done.stderr)["version"]
        assert cells(found) == of_duckdb(known(tmp_path, checkpoint), COUNTS)
        job.cancel()


@pytest.mark.parametrize("engine", ["memory", "arrow"])
def test_open_windows_have_their_bounds_and_values(engine: StateBackend, tmp_path: Path) -> None:
    with fabric.connect(serve=True, parallelism=4) as session:
        session.checkpoints(
            interval_s=0.3, retained=200, folder=tmp_path, state=engine, state_memory="64 KiB"
        )
        job = windows(session).write_stream(streams.to_blackhole(), parallelism=2)
        wait_for(job)
        path = ("state", job.id, "w", "groups")
        checkpoint, found = by_flight(session.flight_url, session.token, *path)
        assert found.column_names == ["key", "window_start", "window_end", "n", "most"]
        ends = "time_bucket(INTERVAL 2 SECONDS, ts)"
        wanted = of_duckdb(
            known(tmp_path, checkpoint),
            f"SELECT key, epoch_us({ends}), count(*), max(row) FROM made GROUP BY key, {ends}",
        )
        starts = found["window_start"].cast(pa.timestamp("us")).cast(pa.int64()).combine_chunks()
        told = pa.table([found["key"], starts, found["n"], found["most"]], names=list("abcd"))
        assert cells(told) == sorted(wanted)
        job.cancel()


class Kept(Process):
    """Rows in a value and in a list."""

    def on_rows(self, ctx: Any, key: int, rows: Any) -> None:
        last, every = ctx.state("last"), ctx.state("every")
        last.put(max(last.get() or 0, *rows["row"].to_pylist()))
        every.extend(rows["row"].to_pylist())


@pytest.mark.parametrize("engine", ["memory", "auto"])
def test_keys_have_what_duckdb_computes(engine: StateBackend, tmp_path: Path) -> None:
    """Of steps of all kinds, at the checkpoint at which the job stopped."""
    with fabric.connect(serve=True, parallelism=6) as session:
        session.checkpoints(
            interval_s=0.3, retained=200, folder=tmp_path, state=engine, state_memory="64 KiB"
        )
        kept = events(session).process(
            Kept(), keys="key", schema={"key": "int64"},
            state={"last": streams.value_state("int64"), "every": streams.list_state("int64")},
        ).named("kept")  # fmt: skip
        ends = "time_bucket(INTERVAL 2 SECONDS, ts)"
        for plan, node, state, columns, query in (
            (counts(session), "counts", "groups", ["key", "n", "total"], COUNTS),
            (windows(session), "w", "groups", ["key", "n", "most"],
             f"SELECT key, count(*), max(row) FROM made GROUP BY key, {ends}"),
            (kept, "kept", "last", ["key", "last"], "SELECT key, max(row) FROM made GROUP BY key"),
            (kept, "kept", "every", ["key", "every"],
             "SELECT key, list(row ORDER BY row) FROM made GROUP BY key"),
        ):  # fmt: skip
            folder = tmp_path / f"{node}-{state}"
            session.checkpoints(folder=folder)
            job = plan.write_stream(streams.to_blackhole(), parallelism=2)
            wait_for(job)
            time.sleep(0.5)
            keys = range(-5, N_KEYS)
            assert job.state(node, state).get_many(keys).num_rows  # opened while it runs
            job.stop()
            handle = job.state(node, state)
            wanted = sorted(of_duckdb(known(folder, handle.checkpoint), query))
            found = handle.get_many(keys).select(columns)
            assert sorted((key, *map(_sorted, rest)) for key, *rest in cells(found)) == wanted


def _sorted(cell: Any) -> Any:
    return sorted(cell) if isinstance(cell, list) else cell


def test_what_is_wrong_says_what_there_is(tmp_path: Path) -> None:
    with fabric.connect(serve=True, parallelism=4) as session:
        session.checkpoints(interval_s=0.3, folder=tmp_path)
        job = counts(session).write_stream(streams.to_blackhole(), parallelism=2)
        wait_for(job)
        with pytest.raises(NotFoundError, match="steps with state: counts"):
            job.state("count")
        with pytest.raises(NotFoundError, match="available states: groups"):
            job.state("counts", "group")
        with pytest.raises(NotFoundError, match="there is no job"):
            session.read_state("job-nobody", "counts", "groups")
        with pytest.raises(DataError, match="is keyed by key: int64"):
            job.state("counts").get("a")
        with pytest.raises(DataError, match="got 2 values"):
            job.state("counts").get(1, 2)
        with pytest.raises((pa.ArrowException, KeyError), match="counts"):
            by_flight(session.flight_url, session.token, "state", job.id, "nowhere", "groups")
        job.cancel()


class Newest(Process):
    """The greatest row of each key, twice."""

    def on_rows(self, ctx: Any, key: int, rows: Any) -> None:
        for name in ("_last", "größe"):
            state = ctx.state(name)
            state.put(max(state.get() or 0, *rows["row"].to_pylist()))


def test_any_name_that_a_state_may_have_is_read(tmp_path: Path) -> None:
    with fabric.connect(serve=True, parallelism=2) as session:
        session.checkpoints(interval_s=0.3, retained=200, folder=tmp_path)
        kept = events(session).process(
            Newest(), keys="key", schema={"key": "int64"},
            state={name: streams.value_state("int64") for name in ("_last", "größe")},
        )  # fmt: skip
        job = kept.named("newest").write_stream(streams.to_blackhole(), parallelism=1)
        wait_for(job)
        query = "SELECT key, max(row) FROM made GROUP BY key ORDER BY key"
        for name in ("_last", "größe"):
            path = ("state", job.id, "newest", name)
            checkpoint, found = by_flight(session.flight_url, session.token, *path)
            assert cells(found) == of_duckdb(known(tmp_path, checkpoint), query)
        job.cancel()


@pytest.fixture(scope="module")
def two() -> Iterator[LocalFabric]:
    with local_fabric(2) as running:
        yield running


def test_a_job_on_two_agents(two: LocalFabric, tmp_path: Path) -> None:
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        session.checkpoints(interval_s=0.3, retained=200, folder=tmp_path)
        job = counts(session).write_stream(streams.to_blackhole(), parallelism=2)
        wait_for(job)
        for agent in two.attached():
            path = ("state", job.id, "counts", "groups")
            checkpoint, found = by_flight(agent.address, two.token, *path)
            assert cells(found) == of_duckdb(known(tmp_path, checkpoint), COUNTS)
        state = job.state("counts")
        assert cells(state.table())
        key = found["key"][0].as_py()
        assert state.get(key)
        session._state_url = "grpc+tcp://127.0.0.1:1"  # of an agent that was there before
        assert [row["key"] for row in state.get(key)] == [key]
        assert session.read_state(job, "counts", "groups").count() >= len(found)
        job.cancel()


def test_why_a_job_has_no_state_is_said(two: LocalFabric, tmp_path: Path) -> None:
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session:
        session.checkpoints(interval_s=0.3, folder=tmp_path)
        with pytest.raises(NotFoundError, match="there is no job 'job-9'"):
            session.states("job-9")
        with pytest.raises(NotFoundError, match="there is no job 'job-9'"):
            session.read_state("job-9", "counts")
        job = events(session).write_stream(streams.to_blackhole(), parallelism=1)
        job.savepoint("one")
        assert job.states() == []
        with pytest.raises(NotFoundError, match="steps with state: none"):
            job.state("counts")
        job.cancel()
        done = session.read_arrow(pa.table({"a": [1]})).submit().wait()
        with pytest.raises(NotFoundError, match="reads no stream"):
            done.state("counts")
        with pytest.raises(NotFoundError, match="reads no stream"):
            done.states()


def test_a_checkpoint_that_is_removed_or_damaged_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_states, "HELD_BYTES", -1)  # as if the state were large
    with fabric.connect(serve=True, parallelism=4) as session:
        session.checkpoints(interval_s=0.3, folder=tmp_path)
        job = counts(session).write_stream(streams.to_blackhole(), parallelism=2)
        wait_for(job)
        auth = fl.FlightCallOptions(
            headers=[(b"authorization", f"Bearer {session.token}".encode())]
        )
        path = fl.FlightDescriptor.for_path("state", job.id, "counts", "groups")
        with fl.connect(session.flight_url) as client:
            old = client.get_flight_info(path, auth)
            passed = json.loads(old.app_metadata)["version"]
            wait_until(lambda: not list(tmp_path.glob(f"*/{passed:020}")))
            with pytest.raises((KeyError, pa.ArrowException), match="ask get_flight_info again"):
                client.do_get(old.endpoints[0].ticket, auth).read_all()
        assert job.state("counts").table().num_rows
        job.stop()
        newest = job.state("counts").checkpoint  # older ones are being removed
        files = list(tmp_path.glob(f"*/{newest:020}/counts.*/*.arrow"))
        assert files
        for file in files:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0xFF
            file.write_bytes(data)
        with pytest.raises(DataError, match=r"state 'groups' of 'counts' at checkpoint .* damaged"):
            job.state("counts").table()


def test_nothing_is_read_before_the_first_checkpoint(tmp_path: Path) -> None:
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(interval_s=60, min_pause_s=60, folder=tmp_path)
        job = counts(session).write_stream(streams.to_blackhole(), parallelism=2)
        with pytest.raises(NotFoundError, match="no complete checkpoint yet"):
            session.read_state(job, "counts", "groups")
        job.cancel()
