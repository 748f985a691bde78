from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import fabric
from fabric import col
from fabric.clients.dataframe.session import default_session
from fabric.clients.spark.plan import session as spark_session
from fabric.clients.spark.plan.run import prepared
from fabric.clients.spark.plan.session import SparkPlanSession
from fabric.control import control_pb2 as pb
from fabric.errors import CancelledError, ConfigError, ExpressionError, NotFoundError, PlanError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table({"a.b": [3, 1, 2, None], "k": ["x", "y", "x", "y"]})


@pytest.fixture(scope="module")
def here(spark: SparkSession) -> Iterator[fabric.Session]:
    with fabric.connect(spark=spark) as session:
        yield session


def test_frames_run_on_spark(here: fabric.Session, spark: SparkSession, capsys: Any) -> None:
    df = here.read_arrow(ROWS)
    top = df.sort("a.b").filter(col("a.b").is_not_null())
    assert top.collect()["a.b"].to_pylist() == [1, 2, 3]
    assert df.count() == 4
    assert [batch.num_rows for batch in top.iter_batches()] == [3]
    top.show()
    assert "│     3 │ x" in capsys.readouterr().out
    assert repr(here) == f"Session({spark.sparkContext.master})"


def test_the_callers_session_stays_as_it_was(here: fabric.Session, spark: SparkSession) -> None:
    before = dict(spark.conf.getAll)
    active = type(spark)._activeSession
    here.read_arrow(ROWS).group_by("k").count().collect()
    assert dict(spark.conf.getAll) == before
    assert type(spark)._activeSession is active


def test_the_callers_settings_change_no_meaning(spark: SparkSession) -> None:
    mine = spark.newSession()
    for name, value in {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.legacy.statisticalAggregate": "true",
        "spark.sql.legacy.sizeOfNull": "true",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    }.items():
        mine.conf.set(name, value)
    with fabric.connect(spark=mine) as session:
        table = pa.table({"a": [1], "A": [0], "t": pa.array([0], pa.timestamp("us", "UTC"))})
        df = session.read_arrow(table)
        hour = df.select(hour=col("t").dt.hour())
        assert hour.collect().to_pylist() == [{"hour": 0}]
        one = df.agg(fabric.functions.var("a").alias("v"))
        assert one.collect().to_pylist() == [{"v": None}]
        with pytest.raises(ExpressionError, match="division by zero"):
            df.select(n=col("a") // col("A")).collect()
    assert mine.conf.get("spark.sql.ansi.enabled") == "false"


def test_jobs(here: fabric.Session) -> None:
    job = here.read_arrow(ROWS).submit("four rows")
    assert job.wait(60).state == "finished"
    assert (job.rows, job.name) == (4, "four rows")
    assert job.id in [known.id for known in here.jobs()]
    assert job.collect().equals(ROWS)
    assert job.release().state == "released"
    with pytest.raises(NotFoundError, match="are not held any more"):
        job.collect()
    with pytest.raises(NotFoundError, match="has no partitions that Flight clients could read"):
        job.partitions()
    assert here.agents() == []
    with pytest.raises(NotFoundError, match="there is no job 'job-x'"):
        here.job("job-x")


def test_a_failed_job(here: fabric.Session) -> None:
    job = here.read_arrow(ROWS).select(n=1 // (col("a.b") - 1)).submit()
    with pytest.raises(ExpressionError, match=r"division by zero \(job job-\w+, node select_1\)"):
        job.wait()
    assert job.state == "failed"
    assert "Traceback" not in str(job.error)


def test_a_cancelled_job(here: fabric.Session, spark: SparkSession) -> None:
    many = here.read_arrow({"a": list(range(3_000))})
    wide = many.join(many.select(b="a"), how="cross").join(many.select(c="a"), how="cross")
    job = wide.agg(fabric.sum("c").alias("s")).submit()
    job.cancel()
    assert job.state == "cancelled"
    with pytest.raises(CancelledError):
        job.wait()
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_what_spark_refuses_is_refused_at_once(here: fabric.Session) -> None:
    table = pa.table({"wide": pa.array([None], pa.decimal256(50, 2))})
    with pytest.raises(PlanError, match=r'"wide" is decimal256\(50, 2\).*\(node scan_1\)'):
        here.read_arrow(table).submit()


def test_datasets_of_this_machine(here: fabric.Session, tmp_path: Path) -> None:
    """A fabric of its own starts when the first is asked for, and is nobody's default."""
    job = here.read_arrow(ROWS).write_dataset("mine", keys="k")
    assert job.rows == 4
    assert here.datasets() == ["mine"]
    assert here.read_dataset("mine").sort("a.b").collect()["k"].to_pylist() == ["y", "y", "x", "x"]
    assert default_session() is here
    here.read_arrow(ROWS).write_parquet(tmp_path / "x.parquet")
    assert fabric.read_parquet(tmp_path / "x.parquet").count() == 4
    here.drop_dataset("mine")
    assert here.datasets() == []


def test_datasets_of_another_fabric(spark: SparkSession, two: Any, session: fabric.Session) -> None:
    address = f"fabric://{two.address}"
    with fabric.connect(spark=spark, datasets=address, token=two.token) as here:
        here.read_arrow(ROWS).write_dataset("theirs", mode="overwrite")
        assert here.read_dataset("theirs").count() == 4
    with fabric.connect(spark=spark, datasets=session) as here:
        assert "theirs" in here.datasets()
    assert session.read_dataset("theirs").count() == 4  # still open


def test_engine_spark_of_any_frame(spark: SparkSession, session: fabric.Session) -> None:
    session.read_arrow(ROWS).write_dataset("engine", mode="overwrite")
    with fabric.connect() as embedded:
        df = embedded.read_arrow(ROWS).sort("a.b")
        assert df.collect(engine="spark").equals(df.collect())
        with pytest.raises(NotFoundError, match="serves no Flight clients"):
            spark_session.collect(session.read_dataset("engine").plan, embedded)
    assert session.read_dataset("engine").collect(engine="spark").num_rows == 4


def test_addresses(spark: SparkSession) -> None:
    with fabric.connect("spark") as found:
        assert isinstance(found, SparkPlanSession)
        assert found.spark.sparkContext is spark.sparkContext
    assert spark.sparkContext._jsc is not None  # not ours to stop
    with pytest.raises(ConfigError, match="stop it before connecting to spark://nowhere:7077"):
        fabric.connect("spark://nowhere:7077")
    with pytest.raises(ConfigError, match="an address or a Spark session, not both"):
        fabric.connect("local[2]", spark=spark)
    with pytest.raises(ConfigError, match="needs no token"):
        fabric.connect(spark=spark, token="x")
    with pytest.raises(ConfigError, match="is for sessions on Spark"):
        fabric.connect(datasets="fabric://host")
    with pytest.raises(ConfigError, match="Spark serves no Flight clients"):
        fabric.connect(spark=spark, serve=True)
    with pytest.raises(ConfigError, match="Spark Connect has no JVM"):
        fabric.connect(spark=object())  # type: ignore[arg-type]


def test_parallelism_is_partitions_after_a_shuffle(spark: SparkSession) -> None:
    from fabric.clients.spark.plan.run import prepared

    with prepared(spark, parallelism=7) as inside:
        assert inside.conf.get("spark.sql.shuffle.partitions") == "7"


def test_explain(here: fabric.Session) -> None:
    df = here.read_arrow(ROWS).filter(col("k") == "x").named("only x")
    text = str(df.explain())
    assert "only x" in text
    assert "LocalTableScan" in text
    with fabric.connect() as embedded:
        report = str(embedded.read_arrow(ROWS).filter(col("k") == "x").explain(engine="spark"))
        packed = embedded.read_arrow(ROWS).exchange("k", compression="lz4").named("sent")
        packed_report = str(packed.explain(engine="spark"))
    assert "refused on Spark\n  nothing" in report
    assert "left to Spark" not in report
    assert "left to Spark\n  sent: compression=lz4, because Spark" in packed_report
    configured = df.exchange("k").named("sent").configure("sent", compression="zstd")
    assert "left to Spark: sent: compression=zstd" in str(configured.explain())
    wide = here.read_arrow(pa.table({"wide": pa.array([None], pa.decimal256(50, 2))}))
    assert "decimal256(50, 2)" in str(wide.explain())


def test_configure_speaks_sparks_words(spark: SparkSession) -> None:
    before = dict(spark.conf.getAll)
    given = pb.Adaptive(enabled=False, broadcast_bytes=0, target_bytes=5 << 20, skew_factor=3.0)
    with prepared(spark, adaptive=given) as inside:
        conf = {name: inside.conf.get(f"spark.sql.{name}") for name in (
            "adaptive.enabled", "autoBroadcastJoinThreshold",
            "adaptive.advisoryPartitionSizeInBytes",
            "adaptive.skewJoin.skewedPartitionFactor",
        )}  # fmt: skip
    assert list(conf.values()) == ["false", "-1", f"{5 << 20}", "3.0"]
    assert dict(spark.conf.getAll) == before
    with fabric.connect(spark=spark) as session:
        session.configure(broadcast_bytes=0, skew_factor=2.0, tiny_bytes=1)
        assert session.read_arrow(ROWS).group_by("k").count().collect().num_rows == 2
        with pytest.raises(ConfigError, match="skew_factor"):
            session.configure(skew_factor=0.0)


def test_combinations_are_counted_as_spark_counts_them(
    here: fabric.Session, spark: SparkSession
) -> None:
    from pyspark.sql import functions as theirs

    nan = float("nan")
    rows = {
        "g": [1, 1, 1, 1, 2, 2, 2],
        "k": ["a", "a", "b", None, "a", "a", "b"],
        "f": [0.0, -0.0, nan, nan, nan, None, nan],
    }
    ours = fabric.functions.countDistinct("k", "f").alias("n")
    frame = spark.createDataFrame([*zip(*rows.values(), strict=True)], [*rows])
    grouped = frame.groupBy("g").agg(theirs.countDistinct("k", "f").alias("n"))
    wanted = sorted(map(tuple, grouped.collect()))
    for df in (fabric.from_dict(rows), here.read_arrow(pa.table(rows))):
        counted = df.group_by("g").agg(ours).sort("g").to_dicts()
        assert [(row["g"], row["n"]) for row in counted] == wanted
