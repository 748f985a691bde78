"""Expressions that mean the same in PySpark and in Fabric: how they are read, run and compared.

One job: from the text files in `pyspark/` to columns of both. A file holds expressions, one a line,
which are Python over ``F`` (PySpark's functions, or Fabric's) and ``col``, below the table they
read and, for aggregates, the key of the groups::

    @ texts
    F.upper("s")
    @ groups by k
    F.sum("v")

All expressions of a table are one query, since a query of Spark takes its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from golden_polars import TABLES, Rows, rows_of
from golden_polars import answer as polars_answer
from golden_spark import frame

import fabric

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "pyspark"


@dataclass(frozen=True)
class Questions:
    """Expressions over one table, or over its groups by `key`."""

    table: str
    key: str
    texts: tuple[str, ...]


def questions() -> list[Questions]:
    """All of the folder."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted(FOLDER.glob("*.txt")):
        where = ("", "")
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("@ "):
                table, _, key = line[2:].partition(" by ")
                where = (table.strip(), key.strip())
            elif line.strip() and not line.startswith("#"):
                found.setdefault(where, []).append(line.strip())
    return [Questions(*where, tuple(texts)) for where, texts in found.items()]


def by_spark(spark: SparkSession, asked: Questions) -> list[Rows]:
    """What Spark answers to each."""
    from pyspark.sql import functions as sf

    batch = TABLES[asked.table].combine_chunks().to_batches()[0]
    df = frame(spark, batch)
    exprs = [eval(text, {"F": sf, "col": sf.col}).alias(f"r{i}") for i, text in _numbered(asked)]
    found = df.groupBy(asked.key).agg(*exprs) if asked.key else df.select(*exprs)
    return _columns(found.toArrow(), asked)


def by_fabric(asked: Questions) -> list[Rows]:
    """What Fabric answers to each, embedded."""
    names = {"F": fabric.functions, "col": fabric.col}
    df = fabric.from_arrow(TABLES[asked.table])
    exprs = [eval(text, names).alias(f"r{i}") for i, text in _numbered(asked)]
    found = df.group_by(asked.key).agg(*exprs) if asked.key else df.select(*exprs)
    return _columns(found.collect(), asked)


def _numbered(asked: Questions) -> list[tuple[int, str]]:
    return list(enumerate(asked.texts))


def _columns(table: Any, asked: Questions) -> list[Rows]:
    """Each column by itself, beside the key where there is one."""
    keys = [asked.key] if asked.key else []
    return [rows_of(table.select([*keys, f"r{i}"]), ordered=not keys) for i, _ in _numbered(asked)]


def answer(ask: Any, table: str, text: str) -> str:
    """What `by_spark` or `by_fabric` says to one expression, in a line."""
    return polars_answer(lambda *_, **__: ask(Questions(table, "", (text,)))[0], table, text)
