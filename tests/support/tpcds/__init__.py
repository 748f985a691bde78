"""TPC-DS: 26 of its questions as DataFrames, their tables, and DuckDB's answers to them.

`QUESTIONS` has them by number, with the parameters of DuckDB's texts and without their limits.
"""

from __future__ import annotations

from collections.abc import Callable

from fabric import DataFrame
from tests.support.tpcds import rollups, subqueries, windows
from tests.support.tpcds.data import Tables, answer, folder

__all__ = ["QUESTIONS", "Tables", "answer", "folder"]

QUESTIONS: dict[int, Callable[[Tables], DataFrame]] = {
    int(name[1:]): question
    for module in (rollups, subqueries, windows)
    for name, question in vars(module).items()
    if name.startswith("q")
}
