"""TPC-H: its data, its 22 questions with the DataFrame API and in SQL.

data.py            the tables as Parquet, by tpchgen-cli
queries_1_11.py    the questions with the DataFrame API, and
queries_12_22.py   the other half
sql.py             the questions in SQL
answers.py         what makes two engines' answers comparable
runs.py            an engine ready for one question
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fabric import DataFrame


def queries() -> dict[str, Callable[[Any], DataFrame]]:
    """The function of each question by its name, q1 to q22."""
    from bench.tpch_questions import queries_1_11, queries_12_22

    found = {}
    for number in range(1, 23):
        module = queries_1_11 if number <= 11 else queries_12_22
        found[f"q{number}"] = getattr(module, f"q{number}")
    return found
