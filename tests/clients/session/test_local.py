"""Embedded sessions end to end: rows as other engines have them, errors, files, Flight."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.flight as fl
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import DataFrame, Session, col, count, count_distinct, mean, sum, when
from fabric.errors import (
    ConfigError,
    DataError,
    ExpressionError,
    FabricError,
    NotFoundError,
    PlanError,
)
from tests.support.wait import wait_until

N = 1000
ROWS = pa.table(
    {
        "k": pa.array([None if i % 11 == 0 else f"k{i % 7}" for i in range(N)]),
        "x": pa.array([i % 97 for i in range(N)], pa.int32()),
        "y": pa.array([None if i % 13 == 0 else i / 8 for i in range(N)]),
    }
)
NAMES = pa.table({"k": ["k0", "k1", "k2", "zz"], "name": ["zero", "one", "two", "none"]})


@pytest.fixture(scope="module", params=[1, 3], ids=["one fragment", "parallelism 3"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with fabric.connect(parallelism=request.param) as opened:
        yield opened


def test_joins_and_groups_agree_with_duckdb(session: Session) -> None:
    rows, names = session.read_arrow(ROWS), session.read_arrow(NAMES)
    late = when(col("x") > 50).then(1).otherwise(0)
    ours = (
        rows.filter(col("y").is_not_null())
        .join(names, on="k", how="left")
        .group_by("k", "name")
        .agg(count().alias("n"), sum(late).alias("late"), mean("y").alias("y"),
             count_distinct("x").alias("d"))
        .sort("n", "k", descending=[True, False])
        .collect()
    )  # fmt: skip
    theirs = duckdb.sql(
        "select r.k, name, count(*) n, sum(case when x > 50 then 1 else 0 end)::bigint late, "
        "avg(y) y, count(distinct x) d from ROWS r left join NAMES m on r.k = m.k "
        "where y is not null group by 1, 2 order by n desc, r.k nulls first"
    ).to_arrow_table()
    assert ours.to_pylist() == theirs.to_pylist()


def test_every_verb(session: Session) -> None:
    rows = session.read_arrow(ROWS)
    assert rows.count() == N
    assert rows.select("k").distinct().count() == 8
    assert rows.union(rows).count() == 2 * N
    assert rows.sort(col("x").desc()).head(3).to_dicts()[0]["x"] == 96
    assert rows.exchange("k", n_partitions=4).named("by_k").count() == N
    assert (
        rows.join(session.read_arrow(NAMES), on="k", how="anti").select("k").distinct().count() == 5
    )
    assert rows.drop_nulls("k").count() == ROWS["k"].drop_null().length()
    assert rows.agg(total=sum("x") / count()).to_dicts()[0]["total"] == pytest.approx(
        duckdb.sql("select sum(x) / count(*) from ROWS").fetchall()[0][0]
    )


def test_small_rows_keep_their_order() -> None:
    with fabric.connect() as session:
        frame = session.read_arrow(ROWS).with_columns(z=col("x") * 2).filter(col("x") >= 0)
        assert frame.select("k", "x", "y").collect().equals(ROWS)


def test_other_shapes(session: Session) -> None:
    frame = session.read_arrow(NAMES).sort("k")
    assert frame.to_pandas()["name"].tolist() == ["zero", "one", "two", "none"]
    assert frame.to_polars()["name"].to_list() == ["zero", "one", "two", "none"]
    assert pa.Table.from_batches(frame.iter_batches()).num_rows == 4
    assert frame.limit(0).collect().equals(NAMES.slice(0, 0))


def test_show(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.read_arrow(NAMES).sort("k").show(2)
    out = capsys.readouterr().out
    assert "│ k0     │ zero   │" in out
    assert out.endswith("first 2 rows, there are more\n")


def test_a_value_that_breaks_an_expression_names_the_step(session: Session) -> None:
    broken = session.read_arrow(ROWS).with_columns(r=col("x") // (col("x") - col("x"))).named("r")
    with pytest.raises(ExpressionError, match="zero") as caught:
        broken.collect()
    assert caught.value.where.node
    assert session.read_arrow(NAMES).count() == 4  # the session goes on


def test_files_there_and_back(session: Session, tmp_path: Path) -> None:
    frame = session.read_arrow(ROWS)
    job = frame.write_parquet(tmp_path / "one.parquet")
    assert (job.state, job.rows) == ("finished", N)
    assert pq.read_table(tmp_path / "one.parquet").num_rows == N
    assert frame.write_csv(tmp_path / "parts").rows == N
    assert frame.write_ipc(tmp_path / "one.arrow").rows == N
    assert session.read_csv(tmp_path / "parts").count() == N
    back = session.read_ipc(tmp_path / "one.arrow").sort("x", "k", "y").collect()
    assert back.equals(session.read_parquet(tmp_path / "one.parquet").sort("x", "k", "y").collect())
    with pytest.raises(FabricError, match="exists"):
        frame.write_parquet(tmp_path / "one.parquet")
    assert frame.limit(1).write_parquet(tmp_path / "one.parquet", mode="overwrite").rows == 1


def test_a_failed_write_leaves_nothing(session: Session, tmp_path: Path) -> None:
    broken = session.read_arrow(ROWS).select(r=col("x") // (col("x") - col("x")))
    with pytest.raises(ExpressionError):
        broken.write_parquet(tmp_path / "out")
    # the other tasks are told to stop, and clean up after themselves
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_bad_files_are_named(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"a\.parquet"):
        session.read_parquet(tmp_path / "a.parquet")
    pq.write_table(ROWS, tmp_path / "a.parquet")
    pq.write_table(NAMES, tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet"):
        session.read_parquet(tmp_path).count()
    with pytest.raises(ConfigError, match="delimeter"):
        session.read_csv(_csv(tmp_path), delimeter=";")


def _csv(folder: Path) -> Path:
    pyarrow.csv.write_csv(NAMES, folder / "names.csv")
    return folder / "names.csv"


def test_csv_options(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a;b\n1;NA\n2;x\n")
    frame = session.read_csv(path, delimiter=";", null_values=["NA"], types={"a": "int32"})
    assert frame.dtypes == {"a": pa.int32(), "b": pa.string()}
    assert frame.sort("a").collect().to_pydict() == {"a": [1, 2], "b": [None, "x"]}


def test_datasets(session: Session) -> None:
    job = session.read_arrow(ROWS).write_dataset("rows", keys="k", n_partitions=3, mode="overwrite")
    assert job.rows == N
    assert session.datasets() == ["rows"]
    assert session.read_dataset("rows").count() == N
    session.read_arrow(ROWS).write_dataset("rows", mode="append")
    assert session.read_dataset("rows").count() == 2 * N
    with pytest.raises(ConfigError, match="exists already"):
        session.read_arrow(ROWS).write_dataset("rows")
    with pytest.raises(NotFoundError, match="there is no dataset 'row'; there are: rows"):
        session.read_dataset("row")
    session.drop_dataset("rows")
    assert session.datasets() == []


def test_replicas_need_as_many_agents(session: fabric.Session) -> None:
    rows = session.read_arrow(ROWS)
    with pytest.raises(PlanError, match="replicas=0 is not a whole number of at least 1"):
        rows.write_dataset("twice", replicas=0)
    with pytest.raises(ConfigError, match="replicas=2 needs as many agents, and 1 is attached"):
        rows.write_dataset("twice", replicas=2)
    rows.write_dataset("once", replicas=1)
    with pytest.raises(ConfigError, match="has replicas=1, an append can't have replicas=2"):
        rows.write_dataset("once", replicas=2, mode="append")


def test_a_table_lives_as_long_as_its_job(session: Session) -> None:
    job = DataFrame({"a": [1, 2, 3]}).submit("orphan")
    assert job.wait().collect().num_rows == 3
    job.release()


def test_jobs_are_listed_until_released(session: Session) -> None:
    job = session.read_arrow(NAMES).submit("names").wait()
    assert session.job(job.id).name == "names"
    assert "names" in repr(job)
    job.release()
    assert session.job(job.id).state == "released"


def test_explain_shows_plan_and_stages(session: Session) -> None:
    frame = session.read_arrow(ROWS).filter(col("x") > 1).group_by("k").count()
    text = frame.explain()
    assert [word in text for word in ("plan", "optimised plan", "stages")] == [True] * 3
    assert frame.explain("svg").startswith("<svg")


def test_any_flight_client_reads_a_served_job() -> None:
    with fabric.connect(serve=True, parallelism=2) as session:
        job = session.read_arrow(ROWS).exchange("k", n_partitions=2).named("by_k").submit().wait()
        parts = job.partitions()
        assert {part.number for part in parts} == {0, 1}
        bearer = [(b"authorization", f"Bearer {session.token}".encode())]
        options = fl.FlightCallOptions(headers=bearer)
        with fl.connect(session.flight_url) as client:
            tables = [client.do_get(fl.Ticket(part.ticket), options).read_all() for part in parts]
        assert pa.concat_tables(tables).num_rows == N
        keys = [set(table["k"].to_pylist()) for table in tables]
        assert keys[0].isdisjoint(keys[1])


def test_an_unserved_session_says_so(session: Session) -> None:
    with pytest.raises(NotFoundError, match=r"connect\(serve=True\)"):
        session.flight_url  # noqa: B018


def test_closing_leaves_no_threads() -> None:
    before = set(threading.enumerate())
    for _ in range(3):
        with fabric.connect(serve=True) as session:
            assert session.read_arrow(NAMES).count() == 4
    left = {t for t in set(threading.enumerate()) - before if t.is_alive()}
    assert not {t.name for t in left if "fabric" in t.name or "agent" in t.name or "task" in t.name}


def test_frames_of_one_session_do_not_run_on_another(session: Session) -> None:
    with fabric.connect() as other, pytest.raises(PlanError, match="different sessions"):
        session.read_arrow(NAMES).union(other.read_arrow(NAMES))


def test_where_states_of_streams_lie_is_said_by_the_session() -> None:
    with fabric.connect() as session:
        with pytest.raises(ConfigError, match="'arrow', 'tonbo' or 'auto', got 'disk'"):
            session.checkpoints(state="disk")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="interval_s must be a number, got '1'"):
            session.checkpoints(interval_s="1")  # type: ignore[arg-type]
        session.checkpoints(state="rocksdb")
        job = session.submit(fabric.streams.generator(n_rows=10)).wait()
        assert job.rows == 10
