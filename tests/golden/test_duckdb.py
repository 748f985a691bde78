"""The DuckDB oracle beside Spark's answers: where a function has a translation, it is right."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from golden_expressions import FOLDER, GoldenFile, differences, load

from fabric.plan.expr import columns_of
from tests.support.duckdb.expressions import expr_sql

NAMES = (
    "bitwise", "calendar", "dates", "encoding", "epochs", "extremes", "like", "lists", "math",
    "math_binary", "patterns", "remainders", "split", "structs", "texts",
)  # fmt: skip
KNOWN = {
    "date_add(c.d, 2147483647)": "DuckDB has no such day",
    "timestamp_micros(9223372036854775807)": "that is DuckDB's infinity",
    "array()": "DuckDB has no list of nothing",
    "struct('n', None, 'a', c.a)": "DuckDB has no column of nothing",
    "ilike(c.s, 'ας')": "DuckDB maps letters one by one, wherever they stand",
    "ilike(c.s, '%σ')": "as above",
    "ilike(c.s, 'i̇s%')": "as above",
    "pmod(c.a, c.b)": "Java's sum wraps",
    "list_min(c.f)": "of 0.0 and -0.0 DuckDB takes the later",
}


@pytest.mark.parametrize("name", NAMES)
def test_translations_mean_the_same(name: str) -> None:
    file = load(FOLDER / f"{name}.json")
    found = {case.text: _asked(file, case.text) for case in file.answers}
    wrong = [
        f"{case.text}: {difference}"
        for case in file.answers
        if (answer := found[case.text]) is not None and case.text not in KNOWN
        for difference in differences(_like(answer, case.expected), case.expected)
    ]
    assert not wrong, "\n".join(wrong)
    translated = [answer for answer in found.values() if answer is not None]
    assert len(translated) > 0.25 * len(found), "many have a translation"


def _asked(file: GoldenFile, text: str) -> pa.Array | None:
    """DuckDB's answer; None when the expression has no translation or is known to differ."""
    case = next(case for case in file.answers if case.text == text)
    if any(_has_clocks(file.batch.schema.field(name).type) for name in columns_of(case.expr)):
        return None
    columns = {f.name: (f'"{f.name}"', f.type) for f in file.batch.schema}
    try:
        sql = expr_sql(case.expr, columns).sql
    except ValueError:
        return None
    if text in KNOWN:
        return None
    rows = pa.table([_unzoned(c) for c in file.batch.columns], file.batch.schema.names)
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        table = connection.sql(f"SELECT {sql} AS answer FROM rows").to_arrow_table()
    return table["answer"].combine_chunks()


def _has_clocks(dtype: pa.DataType) -> bool:
    """Whether fields of such times are those of a zone, which the oracle doesn't know."""
    return pa.types.is_timestamp(dtype) and dtype.tz not in (None, "UTC")


def _unzoned(column: pa.Array) -> pa.Array:
    """As the oracle keeps timestamps: in UTC, without a zone."""
    if pa.types.is_timestamp(column.type):
        return column.view(pa.timestamp(column.type.unit))
    return column


def _like(answer: pa.Array, expected: pa.Array) -> pa.Array:
    """Result types need not be the plan's, values are."""
    if pa.types.is_timestamp(expected.type):
        return answer.cast(pa.timestamp(expected.type.unit)).view(expected.type)
    return answer.cast(expected.type)
