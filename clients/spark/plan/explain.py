"""What Spark would do with a plan: what is refused, and its plans as text.

One job: `REFUSALS`, a table of what Spark can't do the same way and what to do instead, and
`explained`. A plan is looked through before anything runs; a node that a refusal finds is a
`PlanError` with its path. `docs/decisions/069-spark-refuses-before-it-starts.md` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as t
from pyspark.sql import SparkSession

from fabric.clients.spark.plan.operators import ROWS_MAX
from fabric.clients.spark.plan.sources import FindHome, hadoop_version, has_s3a, needs_s3a
from fabric.clients.spark.plan.translate import kept_frames, to_spark_frame
from fabric.clients.spark.types import spark_schema
from fabric.errors import DataError, PlanError
from fabric.plan.faults import quoted
from fabric.plan.nodes import (
    Exchange,
    Limit,
    MapAsync,
    Match,
    Node,
    NodeConfig,
    Plan,
    Scan,
    Sink,
    StreamScan,
    Window,
)
from fabric.plan.nodes.window import aggs_of
from fabric.plan.schema import schema_of, type_of
from fabric.plan.sources import DatasetSource
from fabric.plan.types import is_nested, plain
from fabric.plan.walk import walk


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
    if findings := [str(error) for error in (*refused(root), *unconnected(root, spark))]:
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


Find = Callable[[Node], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A difference: `what` is refused, `why`, what to do `instead`; `find` gives the details."""

    what: str
    why: str
    instead: str
    find: Find


def _types(node: Node) -> Iterator[str]:
    for field in schema_of(node):
        try:
            spark_schema(pa.schema([(field.name, field.type)]))
        except DataError:
            yield f"column {quoted(field.name)} is {field.type}"
        else:
            if is_nested(field.type) and _has(t.is_null, field.type):
                yield f"column {quoted(field.name)} is {field.type}"


def _far(node: Node) -> Iterator[str]:
    if isinstance(node, Limit) and node.offset > ROWS_MAX:
        yield f"the limit skips {node.offset:,} rows"


def _sets(node: Node) -> Iterator[str]:
    if not isinstance(node, Window):
        return
    for agg in aggs_of(node):
        if agg.function == "count_distinct" and agg.input is not None:
            dtype = type_of(agg.input, schema_of(node.input))
            if is_nested(dtype) and _has(t.is_floating, dtype):
                yield f"count_distinct of {dtype} over a window"


def _patterns(node: Node) -> Iterator[str]:
    if isinstance(node, Match):
        yield f"match {quoted(node.pattern[:80])}"


def _has(test: Callable[[pa.DataType], bool], dtype: pa.DataType) -> bool:
    """Whether a value inside is of a type that passes `test`."""
    dtype = plain(dtype)
    if is_nested(dtype):
        return any(_has(test, dtype.field(i).type) for i in range(dtype.num_fields))
    return bool(test(dtype))


def _versions(node: Node) -> Iterator[str]:
    if isinstance(node, Scan) and isinstance(node.source, DatasetSource) and node.source.version:
        yield f"version {node.source.version} of dataset {quoted(node.source.name)}"


def _rates(node: Node) -> Iterator[str]:
    if isinstance(node, MapAsync) and node.rate_per_s:
        yield f"map_async with rate={node.rate_per_s:g}"


REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        "columns of types Spark has not: decimals of more than 38 digits or a negative scale, "
        "unions, calendar intervals, encodings inside nested values, lists of nothing but nulls",
        "Spark has no such type, or does not give it back",
        "cast the column or drop it before",
        _types,
    ),
    Refusal(
        f"limits that skip more than {ROWS_MAX:,} rows",
        "Spark counts them in 32 bits",
        "filter by a row number instead",
        _far,
    ),
    Refusal(
        "count_distinct over a window of lists and structs of floats",
        "Spark tells -0.0 from 0.0 there",
        "cast the floats to decimals before",
        _sets,
    ),
    Refusal(
        "row patterns (match)",
        "Spark has no MATCH_RECOGNIZE",
        "write them with window functions (lag, lead) and aggregates",
        _patterns,
    ),
    Refusal(
        "a dataset's older version",
        "the connector reads the newest",
        "leave the version out",
        _versions,
    ),
    Refusal(
        "a rate of map_async",
        "Spark does not say how many tasks at once would share it",
        "leave rate out, and choose capacity for one task",
        _rates,
    ),
)
"""Every difference between Spark and the other places, each refused before start."""


def refused(root: Node) -> Iterator[PlanError]:
    """What of the checked plan under `root` is refused, one error a finding."""
    seen: set[str] = set()
    yield from _streams(root)
    for node in walk(root):
        for refusal in REFUSALS:
            for detail in refusal.find(node):
                if detail not in seen:
                    seen.add(detail)
                    yield PlanError(
                        f"Spark can't run this: {detail}; {refusal.why}: {refusal.instead}, or "
                        "run the plan embedded or on agents",
                        node=node.path,
                    )


def _streams(root: Node) -> Iterator[PlanError]:
    """Streams are Fabric's own; steps over them are told with their source."""
    for node in walk(root):
        if isinstance(node, StreamScan):
            yield PlanError(
                f"Spark can't run this: {node.text()} is a stream, and streams run on Fabric "
                'alone: leave engine="spark" out, or run the plan embedded or on agents',
                node=node.path,
            )


def unconnected(root: Node, spark: SparkSession) -> Iterator[PlanError]:
    """Objects of ``s3://`` that Spark would read, where it has no connector to do so."""
    for node in walk(root):
        if isinstance(node, Scan) and (path := needs_s3a(node)) and not has_s3a(spark):
            yield PlanError(
                f"Spark can't run this: it reads {path} as s3a://, and Hadoop's connector for that "
                "is missing: start Spark with "
                f"spark.jars.packages=org.apache.hadoop:hadoop-aws:{hadoop_version(spark)}, or run "
                "the plan embedded or on agents",
                node=node.path,
            )


def refuse(root: Node, spark: SparkSession | None = None) -> None:
    """Raise the first refusal; without `spark` those that no session needs to be asked for."""
    below = root.input if isinstance(root, Sink) else root
    for error in (*refused(below), *(unconnected(below, spark) if spark is not None else ())):
        raise error
