"""What Spark would do with a plan, as text.

One job: `explained`: what is refused, and Spark's own plans when nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric.clients.spark.plan.refusals import refused
from fabric.clients.spark.plan.sources import FindHome
from fabric.clients.spark.plan.translate import kept_frames, to_spark_frame
from fabric.plan.nodes import Node, Sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Explained:
    """What is refused (``nothing``), Spark's optimised plan, and its physical plan.

    Spark's columns are named after the plan's, with a number.
    """

    refused: str
    optimised: str
    physical: str


def explained(root: Node, spark: SparkSession, home: FindHome) -> Explained:
    """Nothing runs; `root` is checked, and `spark` a prepared session."""
    if findings := [str(error) for error in refused(root)]:
        text = "\n".join(findings)
        return Explained(text, text, text)
    source = root.input if isinstance(root, Sink) else root
    with kept_frames() as kept:
        frame = to_spark_frame(source, spark, home, kept).df
        execution = frame._jdf.queryExecution()
        jvm = spark._jvm
        assert jvm is not None
        physical: str = jvm.PythonSQLUtils.explainString(execution, "formatted")
        optimised: str = execution.optimizedPlan().toString()
    physical = physical.removeprefix("== Physical Plan ==\n").rstrip()
    return Explained("nothing", optimised.rstrip(), physical)
