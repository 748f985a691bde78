"""A Spark data frame with the names and types of the plan beside it.

One job: `Relation` and the names inside. Spark's columns get names of their own (``delay_12``), so
that a plan's names may hold dots, backticks and anything else, or differ in case only. What can
raise is guarded: Spark's optimizer moves conditions across joins, projections and filters, and
would evaluate it on rows that the plan has kept from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame as SparkFrame
from pyspark.sql import functions as sf

from fabric.clients.spark.expressions import spark_type, to_spark
from fabric.clients.spark.expressions.zones import cast
from fabric.plan.expr import Alias, Cast, Column, Expr
from fabric.plan.schema import type_of
from fabric.plan.total import total
from fabric.plan.walk import rewrite_expr

if TYPE_CHECKING:
    from collections.abc import Iterator


_HINT_CHARS = 24


class Names:
    """Hands out column names that no other column of the plan has."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count()

    def fresh(self, hint: str = "c") -> str:
        """A new name that looks like `hint`.

        >>> Names().fresh("dep. delay")
        'dep__delay_0'
        """
        plain = re.sub(r"[^A-Za-z0-9_]", "_", hint)[:_HINT_CHARS] or "c"
        return f"{plain}_{next(self._numbers)}"


@dataclass(frozen=True, slots=True)
class Relation:
    """The rows of one node: `inner` are Spark's names of the columns of `schema`, in its order."""

    df: SparkFrame
    schema: pa.Schema
    inner: tuple[str, ...]
    names: Names = field(default_factory=Names)

    def column(self, name: str) -> SparkColumn:
        """The Spark column of the plan's column `name`."""
        return sf.col(self.place(name))

    def place(self, name: str) -> str:
        """What Spark calls the plan's column `name`."""
        index: int = self.schema.names.index(name)
        return self.inner[index]

    def columns(self) -> list[SparkColumn]:
        """All of them, in order."""
        return [sf.col(name) for name in self.inner]

    def scope(self) -> Scope:
        """What expressions over this relation may read."""
        return Scope(self.schema, dict(zip(self.schema.names, self.inner, strict=True)))

    def value(self, expr: Expr, dtype: pa.DataType | None = None) -> SparkColumn:
        """`expr` over these rows as a column of `dtype`, guarded where it can raise."""
        return self.scope().value(expr, dtype)

    def appended(self, outputs: Iterable[tuple[SparkColumn, str]]) -> tuple[Relation, list[str]]:
        """Further Spark columns that the plan does not know, and their names."""
        made = [(column, self.names.fresh(hint)) for column, hint in outputs]
        if not made:
            return self, []
        df = self.df.select(*self.columns(), *(column.alias(name) for column, name in made))
        return replace(self, df=df), [name for _, name in made]

    def selected(self, outputs: Sequence[SparkColumn | str], schema: pa.Schema) -> Relation:
        """Put out `outputs` as the columns of `schema`: a name stays, a column gets a new one."""
        inner, columns = [], []
        for output, name in zip(outputs, schema.names, strict=True):
            if isinstance(output, str):
                inner.append(output)
                columns.append(sf.col(output))
            else:
                inner.append(self.names.fresh(name))
                columns.append(output.alias(inner[-1]))
        return Relation(self.df.select(*columns), schema, tuple(inner), self.names)

    def renamed(self) -> Relation:
        """The same rows under new names inside, for a node that meets itself."""
        return self.selected(self.columns(), self.schema)

    def over(self, df: SparkFrame) -> Relation:
        """Other rows of the same columns."""
        return replace(self, df=df)


@dataclass(frozen=True, slots=True)
class Scope:
    """Columns of a plan by name, and what Spark calls them."""

    schema: pa.Schema
    inner: Mapping[str, str]

    def can_raise(self, expr: Expr) -> bool:
        """Whether some row may make `expr` an error."""
        return not total(expr, self.schema)

    def value(self, expr: Expr, dtype: pa.DataType | None = None) -> SparkColumn:
        """`expr` as a column of `dtype` (None: of its own type), guarded where it can raise."""
        bare = expr.input if isinstance(expr, Alias) else expr
        wanted = bare if dtype is None or dtype.equals(self.type_of(bare)) else Cast(bare, dtype)
        column = self.unguarded(wanted)
        return guarded(column) if self.can_raise(wanted) else column

    def unguarded(self, expr: Expr) -> SparkColumn:
        """`expr` as a column that Spark may evaluate wherever it likes."""
        inside = pa.schema(
            [pa.field(self.inner[f.name], f.type) for f in self.schema if f.name in self.inner]
        )
        return to_spark(rewrite_expr(expr, self._inside), inside)

    def type_of(self, expr: Expr) -> pa.DataType:
        """The type `expr` has by itself."""
        return type_of(expr, self.schema)

    def _inside(self, expr: Expr) -> Expr:
        return Column(self.inner[expr.name]) if isinstance(expr, Column) else expr


def guarded(column: SparkColumn) -> SparkColumn:
    """The same values, in a form that Spark's optimizer leaves where it is.

    A column that is not deterministic is never moved below a join, a filter or a projection, merged
    with another condition or folded into a constant.
    """
    return sf.when(sf.spark_partition_id() >= 0, column)


def retyped(column: SparkColumn, given: pa.DataType, wanted: pa.DataType) -> SparkColumn:
    """`column`, cast where Spark's types differ; for types between which no value is lost."""
    return column if spark_type(given) == spark_type(wanted) else cast(column, given, wanted)
