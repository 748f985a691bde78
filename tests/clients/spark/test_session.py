"""`install`: what it sets, and what it refuses before Spark would fail less clearly."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import fabric
from fabric.clients.spark import install
from fabric.clients.spark import session as installing
from fabric.clients.spark.session import (
    check_java,
    check_pyspark,
    check_worker_python,
    java_major,
    java_problem,
    run_workers_here,
)
from fabric.errors import ConfigError, ExternalError
from tests.clients.spark.conftest import Connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH; the ``java`` in it is written by the test."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "java"


def says(java: Path, line: str) -> None:
    java.parent.mkdir(exist_ok=True)
    java.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    java.chmod(0o700)


def test_none(java: Path) -> None:
    assert java_major() is None
    with pytest.raises(
        ExternalError, match="Java is missing, and Spark runs on it; install Java 17"
    ):
        check_java()


@pytest.mark.parametrize(
    ("line", "major"),
    [('openjdk version "1.8.0_402"', 8), ('openjdk version "11.0.2" 2019-01-15', 11)],
)
def test_older(java: Path, line: str, major: int) -> None:
    says(java, line)
    with pytest.raises(ExternalError, match=f"Java {major} is too old for Spark; install Java 17"):
        check_java()


def test_new_enough(java: Path) -> None:
    says(java, 'openjdk version "21" 2023-09-19')
    assert java_problem() == ""
    check_java()


def test_the_one_of_java_home_counts(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(java, 'openjdk version "21"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert "Java is missing in JAVA_HOME (" in java_problem()
    (tmp_path / "jdk").mkdir()
    says(tmp_path / "jdk" / "bin" / "java", 'openjdk version "11.0.2"')
    assert "Java 11 is too old for Spark" in java_problem()


def test_something_that_is_no_java(java: Path) -> None:
    says(java, "hello")
    assert java_major() is None


def jvm(environment: dict[str, str]) -> Any:
    return SimpleNamespace(System=SimpleNamespace(getenv=lambda: environment))


def test_it_is_the_public_name() -> None:
    assert fabric.spark.install is install


def test_settings_and_again(spark: SparkSession) -> None:
    session = spark.newSession()
    assert install(session) is session
    assert session.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert install(install(session)) is session
    install(spark)


def test_a_session_without_it_says_so(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="fabric"):
        spark.newSession().read.format("fabric").load()


def test_pyspark_is_missing_or_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.1")
    with pytest.raises(ExternalError, match=r"PySpark 3.5.1 is too old, Fabric needs 4.1"):
        check_pyspark()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ExternalError, match=r"PySpark is missing: pip install 'flight-fabric\[s"):
        check_pyspark()


@pytest.mark.parametrize(
    "line",
    ['fabric.connect("spark")', 'fabric.from_dict({"a": [1]}).collect(engine="spark")'],
)
def test_whoever_asks_for_spark_without_pyspark_learns_what_to_install(line: str) -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        f"import fabric\ntry:\n    {line}\nexcept fabric.FabricError as error: print(error)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout == "PySpark is missing: pip install 'flight-fabric[spark]'\n", done.stderr


def test_the_python_of_the_workers(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o700)
    check_worker_python(jvm({"PYSPARK_PYTHON": sys.executable}))
    for environment, message in [
        ({"PYSPARK_PYTHON": str(bare)}, "python3', which has no Fabric; before the Spark session"),
        ({"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": "/nowhere/python"},
         "'/nowhere/python', which is not there; before"),
    ]:  # fmt: skip
        with pytest.raises(ConfigError, match=message) as caught:
            check_worker_python(jvm(environment))
        assert f"PYSPARK_PYTHON, here to {sys.executable}" in str(caught.value)


def test_another_python_with_fabric_will_do(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o700)
    check_worker_python(jvm({"PYSPARK_PYTHON": str(other)}))


def test_workers_run_this_python_unless_somebody_chose_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def workers(environment: dict[str, str], master: str) -> str:
        context = SimpleNamespace(master=master, pythonExec="python3")
        run_workers_here(SimpleNamespace(sparkContext=context, _jvm=jvm(environment)))
        return context.pythonExec

    assert workers({}, "local[2]") == workers({}, "local-cluster[2,1,512]") == sys.executable
    assert workers({"PYSPARK_PYTHON": "/opt/python"}, "local[2]") == "python3"
    assert workers({"PYSPARK_DRIVER_PYTHON": "/opt/python"}, "local[2]") == "python3"
    assert workers({}, "spark://h:7077") == "python3"


def test_after_install_plans_and_the_format_run_in_this_python(
    connector: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where ``python3`` is one without Fabric, and nobody has set PYSPARK_PYTHON."""
    spark: Any = connector.spark
    monkeypatch.setattr(installing, "_named_python", lambda jvm: None)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python3")
    mine = install(spark.newSession())
    connector.save(pa.table({"k": [1, 2, 3]}), "by_this_python")
    assert replace(connector, spark=mine).load(dataset="by_this_python").count() == 3
    twice = fabric.udf(lambda k: 2 * k, returns="int64", compile=False)
    made = fabric.from_dict({"k": [1, 2]}).select(k=twice(fabric.col("k")))
    assert made.collect(engine="spark").to_pydict() == {"k": [2, 4]}
