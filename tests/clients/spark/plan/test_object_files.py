"""Files in a real object store on Spark: with Hadoop's connector, and without."""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import col
from fabric.errors import PlanError
from tests.services.s3a import s3a_jars
from tests.services.versitygw import KEY, SECRET, environment, object_store
from tests.support.buckets import keys, new_bucket, put, url_of, use_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
import json, sys
import fabric
from fabric import col
from pyspark.sql import SparkSession

url, jars, out = sys.argv[1:]
started = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = started.config("spark.jars", jars).getOrCreate()
with fabric.connect("spark") as session:
    rows = session.read_parquet(url + "rows").filter(col("id") > 5)
    text = rows.explain()
    told = {
        "native": "s3a://" in text, "secret": "fabric-secret" in text,
        "ids": sorted(rows.collect()["id"].to_pylist()),
        "csv": session.read_csv(url + "a.csv").to_dicts(),
    }
    session.read_csv(url + "a.csv").write_parquet(url + "copy")
with open(out, "w") as file:
    json.dump(told, file)
"""


def parquet(*ids: int) -> bytes:
    file = BytesIO()
    pq.write_table(pa.table({"id": ids}), file)
    return file.getvalue()


def test_without_the_connector_it_is_said_what_to_install(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_store(monkeypatch)
    url = put(bucket := new_bucket(), "rows/a.parquet", parquet(1, 2))
    with fabric.connect("spark") as session:
        rows = session.read_parquet(url_of(bucket, "rows")).filter(col("id") > 1)
        said = rf"reads {url} as s3a://.*spark.jars.packages=org.apache.hadoop:hadoop-aws:3\.\d"
        for run in (rows.collect, lambda: rows.write_parquet(url_of(bucket, "out"))):
            with pytest.raises(PlanError, match=said) as caught:
                run()
            assert caught.value.where.node == "scan_1"
        assert "hadoop-aws" in rows.explain()
    with pytest.raises(PlanError, match=said):
        fabric.read_parquet(url).collect(engine="spark")
    assert keys(bucket) == ["rows/a.parquet"]


def test_with_options_our_own_readers_are_used(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a connector, and without an environment: workers are told with the plan."""
    for name in environment(""):
        monkeypatch.delenv(name, raising=False)
    options = {
        "endpoint": object_store()[0], "region": "us-east-1", "access_key_id": KEY,
        "secret_access_key": SECRET,
    }  # fmt: skip
    url = url_of(bucket := new_bucket(), "rows")
    (bucket / "rows").mkdir()
    (bucket / "rows" / "a.parquet").write_bytes(parquet(1, 2))
    with fabric.connect("spark") as session:
        rows = session.read_parquet(url, storage_options=options).filter(col("id") > 1)
        assert rows.to_dicts() == [{"id": 2}]
        assert SECRET not in rows.explain()
        rows.write_parquet(url_of(bucket, "copy"), storage_options=options)
    assert pq.read_table(bucket / "copy").to_pylist() == [{"id": 2}]


def test_with_the_connector_spark_reads_s3a(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    use_store(monkeypatch)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    bucket, out = new_bucket(), tmp_path_factory.mktemp("s3a") / "told.json"
    put(bucket, "rows/a.parquet", parquet(1, 6))
    put(bucket, "rows/b.parquet", parquet(7, 8))
    put(bucket, "a.csv", b"id,t\n1,x\n")
    program = [sys.executable, "-c", PROGRAM, url_of(bucket), ",".join(s3a_jars()), str(out)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(out.read_text()) == {
        "native": True, "secret": False, "ids": [6, 7, 8], "csv": [{"id": 1, "t": "x"}],
    }  # fmt: skip
    assert "copy/_SUCCESS" in keys(bucket)
    assert pq.read_table(bucket / "copy").to_pylist() == [{"id": 1, "t": "x"}]
    assert "fabric-secret" not in done.stdout + done.stderr
