"""Names people nearly got right: nearest columns, and PySpark's camelCase methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric.errors import PlanError
from fabric.plan.faults import listed, nearest, quoted

_CAMEL = {
    "withColumn": "with_column", "withColumns": "with_columns", "orderBy": "order_by",
    "withColumnRenamed": "with_column_renamed", "groupBy": "group_by", "unionAll": "union",
    "dropDuplicates": "distinct", "toPandas": "to_pandas", "printSchema": "print_schema",
    "dropna": "drop_nulls", "toArrow": "to_arrow",
}  # fmt: skip


def unknown_name(name: str, known: Sequence[str], what: str) -> PlanError:
    """The error for a column that is not there, with the nearest name."""
    near = nearest(str(name), known)
    hint = f"; did you mean {quoted(near)}?" if near else ";"
    return PlanError(
        f"{what}: there is no column {quoted(str(name))}{hint} the columns are {listed(known)}"
    )


def camel_case(owner: Any, name: str) -> Any:
    """The method `owner` has under its snake_case name, else an `AttributeError` that helps."""
    if name in _CAMEL and hasattr(type(owner), _CAMEL[name]):
        return getattr(owner, _CAMEL[name])
    kind = type(owner).__name__
    if not name.startswith("_") and name in owner.columns:
        raise AttributeError(f'{kind} has no attribute {name!r}; write col("{name}")', name=name)
    raise AttributeError(f"{kind} has no attribute {name!r}", name=name, obj=owner)
