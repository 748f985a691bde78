"""What Spark would do with a plan, as text.

One job: `explained`: what is refused, what Spark does its own way, and its plans when nothing is
refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric.clients.spark.plan.refusals import refused
from fabric.clients.spark.plan.sources import FindHome
from fabric.clients.spark.plan.translate import kept_frames, to_spark_frame
from fabric.plan.nodes import Exchange, NodeConfig, Plan, Sink
from fabric.plan.walk import walk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Explained:
    """What is refused (``nothing``), what Spark does its own way, and its two plans.

    Spark's columns are named after the plan's, with a number.
    """

    refused: str
    left: str
    optimised: str
    physical: str


def explained(plan: Plan, spark: SparkSession, home: FindHome) -> Explained:
    """Nothing runs; `plan` is checked, and `spark` a prepared session."""
    root, left = plan.root, left_to_spark(plan)
    if findings := [str(error) for error in refused(root)]:
        text = "\n".join(findings)
        return Explained(text, left, text, text)
    source = root.input if isinstance(root, Sink) else root
    with kept_frames() as kept:
        frame = to_spark_frame(source, spark, home, kept).df
        execution = frame._jdf.queryExecution()
        jvm = spark._jvm
        assert jvm is not None
        physical: str = jvm.PythonSQLUtils.explainString(execution, "formatted")
        optimised: str = execution.optimizedPlan().toString()
    physical = physical.removeprefix("== Physical Plan ==\n").rstrip()
    return Explained("nothing", left, optimised.rstrip(), physical)


def left_to_spark(plan: Plan) -> str:
    """A line for each step that says how rows between agents are compressed, or ``nothing``."""
    config = dict(plan.config)
    lines = []
    for node in walk(plan.root):
        own = node.compression if isinstance(node, Exchange) else "none"
        codec = config.get(node.path, NodeConfig()).compression or own
        if codec != "none":
            lines.append(
                f"{node.path}: compression={codec}, because Spark compresses its shuffles as "
                "spark.shuffle.compress and spark.io.compression.codec say"
            )
    return "\n".join(lines) or "nothing"
