"""Every case of the golden table, on every evaluator: pyarrow chain, DataFusion, live Spark."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import datafusion
import pyarrow as pa
import pytest
from golden_expressions import (
    MESSAGES,
    Failure,
    GoldenFile,
    all_files,
    differences,
    expression,
)
from golden_spark import ask, condition

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.expressions.datafusion import to_datafusion
from fabric.operators.expressions.errors import as_fabric
from fabric.plan.expr import Alias, Call, Case, Cast, Column, Expr, IsIn, Literal, children
from fabric.plan.functions import FUNCTIONS
from fabric.plan.schema import type_of
from tests.support.sampled import sampled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = all_files()
by_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


def by_arrow(expr: Expr, batch: pa.RecordBatch) -> pa.Array:
    return compile_expr(expr, batch.schema)(batch)


def by_datafusion(expr: Expr, batch: pa.RecordBatch) -> pa.Array:
    """One select over the batch, as a fragment does it."""
    frame = datafusion.SessionContext().from_arrow(pa.Table.from_batches([batch]))
    lowered = to_datafusion(expr, batch.schema).alias("out")
    try:
        return frame.select(lowered).to_arrow_table()["out"].combine_chunks()
    except Exception as error:
        raise as_fabric(error) from error


EVALUATORS = {"arrow": by_arrow, "datafusion": by_datafusion}
by_evaluator = pytest.mark.parametrize("evaluate", EVALUATORS.values(), ids=EVALUATORS)


@by_file
@by_evaluator
def test_answers(file: GoldenFile, evaluate: Any) -> None:
    wrong = []
    for case in file.answers:
        try:
            found = differences(evaluate(case.expr, case.batch), case.expected)
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        wrong += [f"{case.text}: {difference}" for difference in found]
    assert not wrong, "\n".join(wrong)


@by_file
@by_evaluator
def test_failures(file: GoldenFile, evaluate: Any) -> None:
    wrong = [
        f"{case.text} on rows of {case.batch.to_pylist()}: {found}"
        for case in file.failures
        if (found := _wrong_failure(case, evaluate))
    ]
    assert not wrong, "\n".join(wrong)


def _wrong_failure(case: Failure, evaluate: Any) -> str:
    try:
        answer = evaluate(case.expr, case.batch)
    except ExpressionError as error:
        wanted = MESSAGES[case.condition].split("|")
        return "" if any(text in str(error) for text in wanted) else f"says {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"answers {answer.to_pylist()}"


@by_file
@by_evaluator
def test_no_rows(file: GoldenFile, evaluate: Any) -> None:
    """Nothing is evaluated on no rows, not even a constant that would raise."""
    for case in (*file.answers, *file.failures):
        answer = evaluate(case.expr, case.batch.slice(0, 0))
        assert len(answer) == 0
        assert answer.type == type_of(case.expr, case.batch.schema)


@by_file
def test_types(file: GoldenFile) -> None:
    for case in file.answers:
        assert type_of(case.expr, case.batch.schema) == case.expected.type, case.text


@by_file
def test_spark_answers(file: GoldenFile, spark: SparkSession) -> None:
    answers = ask(spark, file.batch, [case.expr for case in file.answers])
    wrong = [
        f"{case.text}: {difference}"
        for case, answer in zip(file.answers, answers, strict=True)
        for difference in differences(answer, case.expected)
    ]
    assert not wrong, "\n".join(wrong)


@by_file
def test_spark_failures(file: GoldenFile, spark: SparkSession) -> None:
    """Each is a job of its own: a twelfth of them in `make test`."""
    tried = sampled(file.failures, -(-len(file.failures) // 12), salt=file.name)
    found = {case.text: condition(spark, case.batch, case.expr) for case in tried}
    assert found == {case.text: case.condition for case in tried}


def _parts(expr: Expr) -> list[Expr]:
    return [expr, *(part for child in children(expr) for part in _parts(child))]


@cache
def _functions(text: str) -> set[str]:
    """Those that an expression calls."""
    return {part.function for part in _parts(expression(text)) if isinstance(part, Call)}


@pytest.mark.parametrize("name", [name for name, f in FUNCTIONS.items() if not f.volatile])
def test_every_function_is_covered(name: str) -> None:
    """Answers with and without a null, and an error inside or of the function itself."""

    answers = [case for file in FILES for case in file.answers if name in _functions(case.text)]
    assert len(answers) >= 3, "at least three answers"
    never_null = name in ("is_null", "is_not_null", "is_nan", "eq_null_safe")
    assert never_null or any(case.expected.null_count for case in answers), "one with a null"
    assert any(name in _functions(case.text) for file in FILES for case in file.failures), (
        "one error"
    )


@pytest.mark.parametrize("kind", [Column, Literal, Call, Case, Cast, IsIn, Alias])
def test_every_node_is_covered(kind: type[Expr]) -> None:
    cases = [case for file in FILES for case in (*file.answers, *file.failures)]
    uses = [case for case in cases if any(isinstance(e, kind) for e in _parts(case.expr))]
    assert any(isinstance(case, Failure) for case in uses)
    assert any(case.expected.null_count for case in uses if not isinstance(case, Failure))
