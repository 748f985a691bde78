"""The DuckDB oracle gives Spark's answers to what it translates of the golden table."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from golden_expressions import GoldenFile, all_files, differences

from fabric.plan.expr import Expr
from fabric.plan.schema import type_of
from fabric.testing.duckdb.expressions import expr_sql

NAMES = ("texts", "split", "patterns", "like", "encoding", "math", "math_binary", "bitwise",
         "extremes", "remainders")  # fmt: skip
OTHERWISE = {
    "ilike(c.s, 'ας')", "ilike(c.s, '%σ')", "ilike(c.s, 'i̇s%')",  # letters are mapped one by one
    "pmod(c.a, c.b)",  # Java's sum wraps
}  # fmt: skip
FILES = [file for file in all_files() if file.name in NAMES]


def by_duckdb(expr: Expr, batch: pa.RecordBatch) -> pa.Array | None:
    """None where there is no translation."""
    columns = {field.name: (f'"{field.name}"', field.type) for field in batch.schema}
    try:
        sql = expr_sql(expr, columns).sql
    except ValueError:
        return None
    table = pa.Table.from_batches([batch])
    with duckdb.connect() as connection:
        connection.register("batch", table)
        found = connection.sql(f"SELECT {sql} AS out FROM batch").arrow()
    return pa.table(found)["out"].combine_chunks().cast(type_of(expr, batch.schema))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_answers(file: GoldenFile) -> None:
    wrong, n_asked = [], 0
    for case in file.answers:
        if case.text in OTHERWISE:
            continue
        try:
            answer = by_duckdb(case.expr, case.batch)
        except duckdb.Error as error:
            wrong.append(f"{case.text}: {error}")
            continue
        if answer is not None:
            n_asked += 1
            wrong += [f"{case.text}: {found}" for found in differences(answer, case.expected)]
    assert not wrong, "\n".join(wrong)
    assert n_asked >= 5
