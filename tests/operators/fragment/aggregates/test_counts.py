"""approx_distinct: close for many values, exact for few, in phases too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import Aggregate, StageInput

Run = Callable[..., pa.Table]
DISTINCT = (Alias(Agg("approx_distinct", Column("a")), "n"),)


@pytest.mark.parametrize("n_values", [1, 100, 5_000, 60_000])
def test_it_is_close(run: Run, in_phases: Run, n_values: int) -> None:
    values = np.arange(max(n_values, 20_000)) % n_values
    table = pa.table({"a": values})
    node = Aggregate(StageInput(0, table.schema), (), DISTINCT)
    (found,) = run(node, table, crumb=10_000)["n"].to_pylist()
    assert found == pytest.approx(n_values, rel=0.07)
    half = len(values) // 2
    parts = [table.slice(0, half).combine_chunks(), table.slice(half).combine_chunks()]
    assert in_phases(node, parts)["n"].to_pylist() == [found]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b", "a", None]), pa.array([[1], [1], [2]]),
        pa.array([0.0, -0.0, float("nan")]), pa.array([{"x": 1}, {"x": 2}]),
        pa.array(["x", "y"]).dictionary_encode(), pa.array(["x", "y"], pa.string_view()),
    ],
    ids=lambda values: str(values.type),
)  # fmt: skip
def test_every_type_has_a_hash(run: Run, values: pa.Array) -> None:
    table = pa.table({"a": values})
    node = Aggregate(StageInput(0, table.schema), (), DISTINCT)
    assert run(node, table)["n"].to_pylist() == [2]
