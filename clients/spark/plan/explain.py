"""What Spark would do with a plan, as text.

One job: `explained`: what is refused, and Spark's own plan when nothing is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.clients.spark.plan.refusals import refused
from fabric.clients.spark.plan.sources import FindHome
from fabric.clients.spark.plan.translate import kept_frames, to_spark_frame
from fabric.plan.nodes import Node, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def explained(root: Node, spark: SparkSession, home: FindHome) -> tuple[str, str]:
    """What of the checked plan is refused ("nothing"), and Spark's plan where nothing is.

    `spark` is a prepared session. Spark's columns are named after the plan's, with a number.
    """
    findings = [str(error) for error in refused(root)]
    if findings:
        return "\n".join(findings), "none: the plan is refused"
    source = root.input if isinstance(root, Sink) else root
    with kept_frames() as kept:
        frame = to_spark_frame(source, spark, home, kept).df
        jvm = spark._jvm
        assert jvm is not None
        text: str = jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted")
    return "nothing", text.removeprefix("== Physical Plan ==\n").rstrip()
