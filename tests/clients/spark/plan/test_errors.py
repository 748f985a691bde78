from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from plan_frames import call, col, lit, scan
from pyspark.logger import PySparkLogger

from fabric.clients.spark.plan.errors import as_fabric
from fabric.errors import CancelledError, ExpressionError, ExternalError, InternalError
from fabric.plan.check import check
from fabric.plan.expr import Alias, Cast, Expr
from fabric.plan.nodes import Filter, Node, Plan, Select

TABLE = pa.table({"v": pa.array([0, 1], pa.int64()), "s": ["x", "1"],
                  "d": pa.array([2**63 - 1, 1], pa.int64())})  # fmt: skip
RAISING: dict[str, tuple[Expr, str]] = {
    "divide": (call("divide", col("d"), col("v")), "division by zero"),
    "modulo": (call("modulo", col("d"), col("v")), "division by zero"),
    "add": (call("add", col("d"), lit(1, pa.int64())), "overflow"),
    "cast": (Cast(col("s"), pa.int32()), "'x' is not a valid int32"),
    "narrow": (Cast(col("d"), pa.int8()), "overflow"),
    "date": (Cast(col("s"), pa.date32()), "is not a valid date32"),
}


@pytest.mark.parametrize("case", RAISING)
def test_values_that_break_expressions(case: str, on_spark: Any, capfd: Any) -> None:
    expr, message = RAISING[case]
    with pytest.raises(ExpressionError, match=message) as caught:
        on_spark(Select(scan(TABLE), (Alias(expr, "n"),)))
    assert caught.value.where.node == "select_1"
    assert "\n" not in str(caught.value)
    assert "Exception" not in "".join(capfd.readouterr())


def test_the_node_is_named_where_one_can_be(on_spark: Any) -> None:
    ninth = call("floor_divide", 9, col("v"))
    one = Filter(Select(scan(TABLE), (col("v"),)), call("gt", ninth, 1))
    with pytest.raises(ExpressionError, match=r"\(node filter_1\)"):
        on_spark(one)
    two = Select(one, (Alias(ninth, "n"),))
    with pytest.raises(ExpressionError) as caught:
        on_spark(two)
    assert caught.value.where.node == ""


def test_loggers_of_pyspark_are_as_before(on_spark: Any) -> None:
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    with pytest.raises(ExpressionError):
        on_spark(Select(scan(TABLE), (Alias(RAISING["divide"][0], "n"),)))
    assert not logger.disabled


def _root() -> Node:
    return check(Plan(scan(TABLE))).root


def test_what_jobs_and_gateways_raise() -> None:
    from py4j.protocol import Py4JError, Py4JNetworkError

    lost = as_fabric(Py4JNetworkError("Answer from Java side is empty"), _root())
    assert isinstance(lost, ExternalError)
    assert "JVM does not answer" in str(lost)
    stopped = Py4JError(
        "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: "
        "Job 3 cancelled part of cancelled job group job-1\n\tat org.apache…"
    )
    assert isinstance(as_fabric(stopped, _root()), CancelledError)
    failed = as_fabric(
        Py4JError(": org.apache.spark.SparkException: no space left\n\tat x"), _root()
    )
    assert str(failed) == "Spark gave the job up: org.apache.spark.SparkException: no space left"
    assert isinstance(as_fabric(ValueError("odd"), _root()), InternalError)


def test_what_python_workers_raise() -> None:
    """Ours is itself again, another one is one line; a Python without Fabric is told what to do."""
    from py4j.protocol import Py4JError

    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "x.py", line 3, in call\n    raise it\n{}\n\n\tat org.apache.spark.X'
    )
    ours = as_fabric(Py4JError(text.format("fabric.errors.DataError: x.csv is cut")), _root())
    assert repr(ours) == "DataError('x.csv is cut')"
    other = as_fabric(Py4JError(text.format("ValueError: odd")), _root())
    assert repr(other) == "ExternalError('a Python worker of Spark failed: ValueError: odd')"
    bare = as_fabric(
        Py4JError(text.format("ModuleNotFoundError: No module named 'fabric'")), _root()
    )
    assert "set PYSPARK_PYTHON to a Python that has Fabric" in str(bare)
