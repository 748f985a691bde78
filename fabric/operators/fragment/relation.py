"""A DataFusion data frame seen under the user's column names.

One job: keep user names out of DataFusion. Inside, columns are called c0, c1, ... and no two of one
fragment alike, so names may hold anything and joins never clash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

import datafusion
import pyarrow as pa

from fabric.operators.expressions.datafusion import to_datafusion
from fabric.operators.fragment.keys import unmovable
from fabric.plan.expr import Alias, Column, Expr
from fabric.plan.walk import rewrite_expr

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Names:
    """Gives out internal names."""

    _numbers: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        """A name that was not there before."""
        return f"c{next(self._numbers)}"


@dataclass(frozen=True, slots=True)
class Output:
    """One column to put out: what DataFusion computes, its user name and its type in the plan."""

    expr: datafusion.Expr
    name: str
    dtype: pa.DataType


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows of a node: `schema` has user names and plan types, `inner` the internal name of each."""

    df: datafusion.DataFrame
    schema: pa.Schema
    inner: tuple[str, ...]
    names: Names
    streamed: bool = False
    """Whether a dataset's scan lies below, into which no filter may move."""

    def column(self, name: str) -> datafusion.Expr:
        """The user's column `name`."""
        return datafusion.col(self.inner[self.schema.get_field_index(name)])

    def expr(self, expr: Expr) -> datafusion.Expr:
        """`expr`, which reads user names, for this data frame; its alias is left out."""
        bare = expr.input if isinstance(expr, Alias) else expr
        to_inner = dict(zip(self.schema.names, self.inner, strict=True))

        def rename(part: Expr) -> Expr:
            return Column(to_inner[part.name]) if isinstance(part, Column) else part

        return to_datafusion(rewrite_expr(bare, rename), self.inner_schema)

    @property
    def inner_schema(self) -> pa.Schema:
        """Plan types under internal names."""
        return pa.schema(list(zip(self.inner, self.schema.types, strict=True)))

    def outputs(self) -> list[Output]:
        """All columns as they are."""
        pairs = zip(self.schema, self.inner, strict=True)
        return [Output(datafusion.col(inner), f.name, f.type) for f, inner in pairs]

    def over(self, df: datafusion.DataFrame) -> Relation:
        """The same columns of another data frame: filtered, sorted, limited."""
        return replace(self, df=df)

    def filtered(self, predicate: Expr) -> Relation:
        """The rows for which `predicate` is true."""
        lowered = self.expr(predicate)
        return self.over(self.df.filter(unmovable(lowered) if self.streamed else lowered))

    def renamed(self) -> Relation:
        """The same rows under fresh internal names, for the second use of a shared node."""
        return select(self.df, self.outputs(), self.names)


def select(df: datafusion.DataFrame, outputs: Sequence[Output], names: Names) -> Relation:
    """A projection to `outputs`, each in exactly the type the plan says.

    Without outputs (rows are only counted) some column is kept inside, so that rows stay.
    """
    inner = tuple(names.fresh() for _ in outputs)
    if outputs:
        df = df.select(*(o.expr.alias(name) for o, name in zip(outputs, inner, strict=True)))
        df = _cast(df, inner, [output.dtype for output in outputs])
    schema = pa.schema([(output.name, output.dtype) for output in outputs])
    return Relation(df, schema, inner, names)


def _cast(
    df: datafusion.DataFrame, inner: Iterable[str], dtypes: Sequence[pa.DataType]
) -> datafusion.DataFrame:
    found = df.schema().types
    if all(a.equals(b) for a, b in zip(found, dtypes, strict=True)):
        return df
    exprs = []
    for name, has, wanted in zip(inner, found, dtypes, strict=True):
        column = datafusion.col(name)
        exprs.append(column if has.equals(wanted) else column.cast(wanted).alias(name))
    return df.select(*exprs)
