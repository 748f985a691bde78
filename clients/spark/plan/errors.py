"""What Spark raised, as one of Fabric's errors.

One job: `as_fabric`. A condition of Spark's about a value is an `ExpressionError` in the words the
other engines use, an error of ours inside a Python worker is itself again, and nothing carries a
JVM traceback. The node's path is told where only one node can have raised it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger  # a plain logger of that name would break PySpark

from fabric.errors import (
    ERRORS,
    CancelledError,
    ExpressionError,
    ExternalError,
    FabricError,
    InternalError,
    PlanError,
)
from fabric.plan.expr import Agg, Alias, Expr, Over
from fabric.plan.nodes import Join, Node, Scan
from fabric.plan.nodes.join import condition_columns
from fabric.plan.schema import schema_of
from fabric.plan.total import total
from fabric.plan.walk import walk

_OURS = re.compile(rf"fabric\.errors\.(?P<kind>{'|'.join(ERRORS)}): (?P<text>[^\n]*)")
_CONDITION = re.compile(r"^\[([A-Z0-9_.]+)\] (?P<text>.*?)(?: SQLSTATE: \w+)?$")
_WORDS = (
    (re.compile(r"(DIVIDE|REMAINDER)_BY_ZERO"), "division by zero"),
    (re.compile(r"OVERFLOW|OUT_OF_(SUPPORTED_)?RANGE"), "overflow"),
)
_TRACEBACK = "Traceback (most recent call last):"
_CANCELLED = re.compile(r"cancelled|OPERATION_CANCELED", re.IGNORECASE)
_TYPES = {
    "BIGINT": "int64", "INT": "int32", "SMALLINT": "int16", "TINYINT": "int8", "DOUBLE": "float64",
    "FLOAT": "float32", "BOOLEAN": "bool", "DATE": "date32",
}  # fmt: skip
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_RAISING = frozenset(("sum", "mean"))
"""Aggregates that may overflow."""


@contextmanager
def as_ours(root: Node) -> Iterator[None]:
    """Whatever Spark raises inside comes out as a `FabricError`; PySpark's own log stays still."""
    loggers: list[logging.Logger] = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    except (FabricError, KeyboardInterrupt):
        raise
    except Exception as error:  # whatever Spark, its gateway and its workers raise
        found = as_fabric(error, root)
        raise found from (error if isinstance(found, InternalError) else None)
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def as_fabric(error: BaseException, root: Node) -> FabricError:
    """The error to raise for `error`, which ended the plan under `root`."""
    if isinstance(error, FabricError):
        return error
    found = _error(error)
    if isinstance(found, ExpressionError):
        paths = [node.path for node in walk(root) if _can_raise(node)]
        found.at(node=paths[0] if len(paths) == 1 else "")
    return found


def _error(error: BaseException) -> FabricError:
    text = str(error)
    if ours := list(_OURS.finditer(text)):
        return ERRORS[ours[-1]["kind"]](ours[-1]["text"])
    if worker := _of_worker(text):
        return ExternalError(f"a Python worker of Spark failed: {worker}")
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return ExternalError("Spark's JVM does not answer any more; start a new session")
    if isinstance(error, PySparkException):
        return _of_spark(error, text)
    if isinstance(error, Py4JError):
        return _of_job(text)
    return InternalError(f"{type(error).__name__}: {_line(text)}")


def _of_worker(text: str) -> str:
    """The last line of a Python traceback inside Spark's text; empty when there is none."""
    _, found, traceback = text.rpartition(_TRACEBACK)
    lines = traceback.splitlines() if found else []
    last = next((line for line in lines if line and not line[0].isspace()), "")
    if "No module named" in last:
        last += "; set PYSPARK_PYTHON to a Python that has Fabric, before Spark starts"
    return last[:500]


def _of_spark(error: PySparkException, text: str) -> FabricError:
    """By the condition's name and its SQLSTATE: class 22 is about a value, 42 about the query."""
    condition = error.getCondition() or ""
    for pattern, words in _WORDS:
        if pattern.search(condition):
            return ExpressionError(words)
    if condition == "CAST_INVALID_INPUT":
        return ExpressionError(_bad_cast(error.getMessageParameters() or {}))
    state = error.getSqlState() or ""
    if state.startswith("22"):
        return ExpressionError(_line(text))
    if isinstance(error, AnalysisException) or state.startswith("42"):
        return PlanError(f"Spark refuses the plan: {_line(text)}")
    return _of_job(text)


def _bad_cast(parameters: dict[str, Any]) -> str:
    target = str(parameters.get("targetType", "")).strip('"')
    dtype = _TYPES.get(target, target.lower())
    return f"{parameters.get('expression', 'a value')} is not a valid {dtype}"


def _of_job(text: str) -> FabricError:
    """A job that Spark gave up: cancelled, or an executor, a disk, memory was lost."""
    line = _line(text)
    if _CANCELLED.search(line):
        return CancelledError("the job was cancelled")
    return ExternalError(f"Spark gave the job up: {line}")


def _line(text: str) -> str:
    """The first line that says something, without Spark's codes and without a traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((line.lstrip(": ") for line in lines if not line.startswith("An error occ")), "")
    match = _CONDITION.match(first)
    return (match["text"] if match else first)[:500]


def _can_raise(node: Node) -> bool:
    """Whether values can break in `node` itself."""
    return any(not total(expr, schema) for expr, schema in _parts(node))


def _parts(node: Node) -> Iterator[tuple[Expr, pa.Schema]]:
    """The expressions of `node` with the columns they read; aggregates as what they read."""
    if isinstance(node, Join):
        left, right = schema_of(node.left), schema_of(node.right)
        yield from ((key, left) for key in node.left_keys)
        yield from ((key, right) for key in node.right_keys)
        if node.condition is not None:
            columns = condition_columns(node, left, right)
            yield node.condition, pa.schema([(c.name, c.dtype) for c in columns])
        return
    schema = node.schema if isinstance(node, Scan) else None
    for expr in node.expressions:
        inner = expr.input if isinstance(expr, Alias) else expr
        agg = inner.input if isinstance(inner, Over) else inner
        schema = schema or schema_of(node.children[0])
        if isinstance(agg, Agg) and agg.function not in _RAISING:
            yield from ((arg, schema) for arg in (agg.input, *agg.args) if arg is not None)
        else:
            yield inner, schema
