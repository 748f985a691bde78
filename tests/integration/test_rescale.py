"""A stream that goes on with another number of tasks: the rows are DuckDB's all the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabric
from fabric import DataFrame, Session, col, count, streams
from fabric.clients.cli.main import main
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.jobs.jobs import Reactivity
from fabric.errors import ConfigError
from fabric.io.readers.generator import rows
from fabric.plan.sources import GeneratorStream
from tests.support.held import held
from tests.support.local import LocalFabric, local_fabric
from tests.support.named_streams import KINDS, differing, generated
from tests.support.sampled import sampled
from tests.support.wait import wait_until

START = datetime(2024, 5, 1, tzinfo=UTC)
N_SPLITS, N_KEYS = 4, 1_000


def made(n_rows: int) -> pa.Table:
    """All rows of the source."""
    source = GeneratorStream(
        n_rows=n_rows, n_keys=N_KEYS, n_splits=N_SPLITS, seed=5,
        start_us=int(START.timestamp()) * 10**6,
    )  # fmt: skip
    n = n_rows // N_SPLITS
    parts = [rows(source, split, 0, n, source.start_us) for split in range(N_SPLITS)]
    return pa.concat_tables([part.select(["key", "row"]) for part in parts])


def totals(session: Session, n_rows: int, rows_per_s: int) -> DataFrame:
    """Rows and their sum by key, as they change."""
    source = streams.generator(
        n_rows=n_rows, n_keys=N_KEYS, n_splits=N_SPLITS, seed=5, start=START,
        rows_per_s=rows_per_s, session=session,
    )  # fmt: skip
    return source.group_by("key").agg(n=count(), total=col("row").sum()).changes()


def differs(out: Path, n_rows: int) -> list[tuple[int, ...]]:
    """Last results that are not DuckDB's; each other one was taken back as often as put out."""
    oracle = "SELECT key, count(*) AS n, sum(row)::BIGINT AS total FROM made GROUP BY key"
    sign = "sum(CASE WHEN row_kind IN ('+I', '+U') THEN 1 ELSE -1 END)"
    found = f"SELECT key, n, total FROM '{out}/*.parquet' GROUP BY ALL HAVING {sign} > 0"
    with duckdb.connect() as connection:
        connection.register("made", made(n_rows))
        either = f"(({oracle}) EXCEPT ALL ({found})) UNION ALL (({found}) EXCEPT ALL ({oracle}))"
        return connection.sql(either).fetchall()


@pytest.fixture(scope="module")
def agents() -> Iterator[LocalFabric]:
    with local_fabric(2, slots=4) as two:
        yield two


def connected(to: LocalFabric) -> Session:
    return fabric.connect(f"fabric://{to.address}", token=to.token)


@pytest.fixture
def session() -> Iterator[Session]:
    with fabric.connect(parallelism=4) as made:
        yield made.checkpoints(interval_s=0.1)


@pytest.mark.parametrize("seed", sampled(range(5), 1, salt="rescale"))
def test_rows_flow_and_agents_die(agents: LocalFabric, tmp_path: Path, seed: int) -> None:
    n_rows, rng = 1_000_000, random.Random(seed)
    with connected(agents) as session:
        session.checkpoints(interval_s=0.2, folder=tmp_path / "checkpoints")
        results = totals(session, n_rows, rows_per_s=100_000)
        job = results.write_stream(streams.to_files(tmp_path / "out"), parallelism=2)
        with agents.held():
            for parallelism in (3, 1, 4):
                wait_until(job.checkpoints)
                dies, comes_back = rng.random() < 0.7, rng.random() < 0.5
                if dies:
                    agents.kill(at := rng.randrange(2))
                    if comes_back:
                        agents.restart(at)
                assert job.rescale(parallelism, timeout_s=120).status.parallelism == parallelism
                if dies and not comes_back:
                    agents.restart(at)
        job.wait(300.0)
        assert max(stage.n_tasks for stage in job.status.stages) == 4
    assert differs(tmp_path / "out", n_rows) == []


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_state_is_dealt_out(session: Session, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    session.checkpoints(folder=tmp_path / "checkpoints")
    frame = KINDS[kind][0](generated(session, rows_per_s=1_000))
    with held(tmp_path / "held"):
        job = frame.write_stream(out, name=f"{kind} by key", parallelism=2)
        for parallelism in (4, 1, 3):
            wait_until(lambda: any(each.state == "published" for each in job.checkpoints()))
            job.rescale(parallelism, timeout_s=60)
    job.wait(120)
    assert job.status.stream.name == f"{kind} by key"
    assert differing(kind, out) == ""


def test_a_coordinator_that_dies_keeps_the_number(tmp_path: Path) -> None:
    n_rows = 200_000
    with local_fabric(2, slots=2) as fabric_, connected(fabric_) as session:
        session.checkpoints(interval_s=0.1, folder=tmp_path / "checkpoints")
        results = totals(session, n_rows, rows_per_s=40_000)
        with fabric_.held():
            job = results.write_stream(streams.to_files(tmp_path / "out"), parallelism=1)
            wait_until(job.checkpoints)
            job.rescale(3, timeout_s=60)
            fabric_.kill_coordinator()
            fabric_.start_coordinator()
            fabric_.wait_attached()
            wait_until(lambda: job.status.parallelism == 3)
            assert job.rescale(2, timeout_s=60).status.parallelism == 2
        job.wait(120.0)
    assert differs(tmp_path / "out", n_rows) == []


def test_what_is_refused_changes_nothing(session: Session, tmp_path: Path) -> None:
    bounded = session.read_arrow(pa.table({"a": [1, 2]})).submit().wait()
    with pytest.raises(ConfigError, match="is no stream: a stage takes its number of tasks"):
        bounded.rescale(2)
    with pytest.raises(ConfigError, match='parallelism="slots" is for streams'):
        session.submit(session.read_arrow(pa.table({"a": [1]})), parallelism="slots")
    endless = totals(session, 0, rows_per_s=1_000)
    with endless.write_stream(streams.to_blackhole(), parallelism=2) as job:
        for n in (0, 129):
            with pytest.raises(ConfigError, match=f"parallelism must be 1 to 128, got {n}"):
                job.rescale(n)
        with pytest.raises(ConfigError, match="needs 5 slots at once, and there are 4 for it"):
            job.rescale(5)
        assert job.rescale(2).status.parallelism == 2  # as it is
        assert (job.status.n_attempts, job.state) == (0, "running")
        job.cancel()
        with pytest.raises(ConfigError, match="no longer runs"):
            job.rescale(3)


def test_exchanges_that_are_no_more_are_not_listed(agents: LocalFabric) -> None:
    address = agents.attached()[0].address
    options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {agents.token}".encode())])
    with connected(agents) as session, fl.connect(address) as client:

        def exchanges() -> list[tuple[bytes, ...]]:
            found = client.list_flights(options=options)
            paths = [tuple(info.descriptor.path) for info in found]
            return [path for path in paths if path[:2] == (b"job", job.id.encode())]

        session.checkpoints(interval_s=0.2)
        endless = totals(session, 0, rows_per_s=1_000)
        with endless.write_stream(streams.to_blackhole(), parallelism=2) as job:
            before = wait_until(exchanges)
            assert len(before) > 1
            job.rescale(1)
            wait_until(lambda: 0 < len(exchanges()) < len(before))
            job.rescale(2)
            wait_until(lambda: exchanges() == before)
            job.cancel()


def test_the_command_line(
    agents: LocalFabric, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRIC_TOKEN", agents.token)
    where = ["--connect", f"fabric://{agents.address}"]
    with connected(agents) as session:
        endless = totals(session.checkpoints(interval_s=0.2), 0, rows_per_s=1_000)
        with endless.write_stream(streams.to_blackhole(), parallelism=1) as job:
            for given, n_tasks in (("2", 2), ("slots", 8), ("1", 1)):
                assert main(["jobs", "rescale", job.id, given, *where]) == 0
                n_all = sum(stage.n_tasks for stage in job.status.stages)
                assert f"running, 0 of {n_all} tasks done" in capsys.readouterr().out
                assert (job.status.parallelism, job.status.reactive) == (n_tasks, n_tasks == 8)
            for given, why in (("many", "TASKS is a number or"), ("200", "must be 1 to 128")):
                assert main(["jobs", "rescale", job.id, given, *where]) != 0
                assert why in capsys.readouterr().err
            job.cancel()


def test_a_stream_follows_the_slots(tmp_path: Path) -> None:
    """Of agents that come, die and drain."""
    n_rows = 300_000
    environ = {"FABRIC_COORDINATOR_RESCALE_PAUSE_S": "0.5"}
    with local_fabric(1, slots=1, environ=environ) as some, connected(some) as session:
        session.checkpoints(interval_s=0.1, folder=tmp_path / "checkpoints")
        results = totals(session, n_rows, rows_per_s=25_000)
        with some.held():
            job = results.write_stream(streams.to_files(tmp_path / "out"), parallelism="slots")
            assert (job.status.parallelism, job.status.reactive) == (1, True)
            for _ in range(2):
                some.agents.append(some.start_agent(len(some.agents)))
            wait_until(lambda: job.status.parallelism == 3)
            some.kill(2)  # it stands still with two agents of three
            wait_until(lambda: job.status.parallelism == 2)
            some.control.drain(pb.AgentRequest(agent_id=some.agent_id(1)))
            wait_until(lambda: job.status.parallelism == 1)
            assert job.rescale(1).status.reactive is False  # as it is from now on
            some.control.undrain(pb.AgentRequest(agent_id=some.agent_id(1)))
        job.wait(120.0)
        assert job.status.parallelism == 1
    assert differs(tmp_path / "out", n_rows) == []


@given(
    st.lists(st.tuples(st.floats(0.0, 20.0), st.integers(0, 200), st.booleans()), max_size=30),
    st.floats(0.1, 60.0),
)
def test_changes_are_apart_and_end_where_the_slots_are(
    told: list[tuple[float, int, bool]], pause_s: float
) -> None:
    follows, n_tasks, now, changes = Reactivity(changed=0.0), 1, 0.0, [(0.0, False)]
    for after_s, n_slots, stands_still in told:
        now += after_s
        wanted = follows.decide(
            n_tasks, n_slots, stands_still=stands_still, now=now, pause_s=pause_s
        )
        if wanted is not None:
            assert 1 <= wanted == min(n_slots, 128) != n_tasks
            changes.append((now, stands_still))
            n_tasks = wanted
    for (before, _), (at, stood_still) in pairwise(changes):
        assert stood_still or at >= before + pause_s
    at_last = follows.decide(n_tasks, 7, stands_still=False, now=now + pause_s, pause_s=pause_s)
    assert at_last == (None if n_tasks == 7 else 7), "when its time has come it has what there is"
