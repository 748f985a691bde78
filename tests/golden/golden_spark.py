"""Evaluate expressions on a live Spark: the oracle of the golden table."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from golden_expressions import FOLDER

from fabric.clients.spark.expressions import spark_type, to_spark
from fabric.plan.expr import Expr
from fabric.plan.schema import type_of
from fabric.plan.types import flat_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Without `skipForShortcutExpr` Spark computes an expression that two right sides of AND share on
# every row, and raises where each of them alone would not. Projections of local rows are not folded
# by the optimizer, so that the generated code runs.
_AS_IN_A_JOB = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    ),
}


def adapt(spark: SparkSession) -> SparkSession:
    """The session, set to compute expressions as the semantics demand it."""
    for name, value in _AS_IN_A_JOB.items():
        spark.conf.set(name, value)
    return spark


def start() -> SparkSession:
    """A Spark of its own, for `record.py`."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need Fabric too
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(FOLDER / "no-warehouse"),
    }
    builder = SparkSession.builder.master("local[1]").appName("golden")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return adapt(session)


def frame(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    """The rows of a batch as a Spark data frame."""
    from pyspark.sql.types import StructField, StructType

    batch = _whole(batch)
    schema = StructType([StructField(f.name, spark_type(f.type), True) for f in batch.schema])
    columns = [pa.chunked_array([batch.column(i)]).cast(_spark_arrow(f.type))
               for i, f in enumerate(batch.schema)]  # fmt: skip
    return spark.createDataFrame(pa.table(columns, batch.schema.names), schema=schema)


def _whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy that is no slice: PySpark refuses slices of lists of timestamps."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def _spark_arrow(kind: pa.DataType) -> pa.DataType:
    """The Arrow type in which Spark takes and gives values of `kind`."""
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(spark_type(kind), timezone="UTC")


def ask(spark: SparkSession, batch: pa.RecordBatch, exprs: Sequence[Expr]) -> list[pa.Array]:
    """What Spark answers to all of `exprs`, cast to Fabric's types."""
    columns = [to_spark(e, batch.schema).alias(f"r{i}") for i, e in enumerate(exprs)]
    table = frame(spark, batch).select(*columns).toArrow()
    kinds = [type_of(expr, batch.schema) for expr in exprs]
    return [_as(table.column(i), kind) for i, kind in enumerate(kinds)]


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Spark's type must be the one that stands for Fabric's; only then is the layout changed.

    Fabric leaves out that values in a list or struct are never null.
    """
    assert flat_type(column.type) == flat_type(_spark_arrow(kind)), (
        f"Spark says {column.type}, Fabric {kind}"
    )
    values = column.combine_chunks()
    if pa.types.is_dictionary(kind):
        return values.dictionary_encode().cast(kind)
    return values.cast(kind)


def condition(spark: SparkSession, batch: pa.RecordBatch, expr: Expr) -> str:
    """The error condition Spark answers with; empty when there is none."""
    from pyspark.errors import PySparkException

    try:
        ask(spark, batch, [expr])
    except PySparkException as error:
        return str(error.getCondition())
    return ""
