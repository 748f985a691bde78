"""A DataFusion data frame seen under the user's column names.

One job: keep user names out of DataFusion. Inside, columns are called c0, c1, ... and no two of one
fragment alike, so names may hold anything and joins never clash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

import datafusion
import pyarrow as pa

from fabric.operators.expressions.arrow.compile import Compiler
from fabric.operators.expressions.datafusion import held, to_datafusion
from fabric.operators.expressions.predicates import can_raise, split_filter
from fabric.plan.expr import Alias, Expr

if TYPE_CHECKING:
    from collections.abc import Iterator

Collect = Callable[[datafusion.DataFrame], list[pa.RecordBatch]]
"""Runs a data frame to its end."""


@dataclass(slots=True)
class Names:
    """Gives out internal names."""

    _numbers: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        """A name that was not there before."""
        return f"c{next(self._numbers)}"


class Lowered:
    """What was worked out of expressions over one schema and its internal names."""

    def __init__(self) -> None:
        self._compiler: Compiler | None = None
        self._exprs: dict[int, tuple[Expr, datafusion.Expr]] = {}

    def compiler(self, schema: pa.Schema) -> Compiler:
        """The one of `schema`, which is the same each time."""
        if self._compiler is None:
            self._compiler = Compiler(schema)
        return self._compiler

    def expr(self, expr: Expr, schema: pa.Schema, inner: Sequence[str]) -> datafusion.Expr:
        """`expr` for DataFusion; the same again for the same object."""
        known = self._exprs.get(id(expr))
        if known is None:
            lowered = to_datafusion(expr, schema, inner, self.compiler(schema))
            known = self._exprs[id(expr)] = expr, lowered
        return known[1]


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
    raises: bool = False
    """Whether a column below is computed by what can raise; filters on it must not move."""
    lowered: Lowered = field(default_factory=Lowered, compare=False, repr=False)
    """Goes on to copies: they differ in their rows, never in `schema` and `inner`."""

    def column(self, name: str) -> datafusion.Expr:
        """The user's column `name`."""
        return datafusion.col(self.inner[self.schema.get_field_index(name)])

    def expr(self, expr: Expr) -> datafusion.Expr:
        """`expr`, which reads user names, for this data frame; its alias is left out."""
        bare = expr.input if isinstance(expr, Alias) else expr
        return self.lowered.expr(bare, self.schema, self.inner)

    def can_raise(self, expr: Expr) -> bool:
        """Whether some value can make `expr`, which reads user names, an error."""
        return can_raise(expr, self.schema, self.lowered.compiler(self.schema))

    def outputs(self) -> list[Output]:
        """All columns as they are."""
        pairs = zip(self.schema, self.inner, strict=True)
        return [Output(datafusion.col(inner), f.name, f.type) for f, inner in pairs]

    def rows(self, collect: Collect) -> list[pa.RecordBatch]:
        """All rows, under user names."""
        if not self.inner:  # without columns, a batch still has rows
            ones = self.df.select(datafusion.lit(True))
            return [batch.select([]) for batch in collect(ones)]
        names = [f'"{name}"' for name in self.inner]
        arrays = [batch.columns for batch in collect(self.df.select(*names))]
        return [pa.RecordBatch.from_arrays(columns, schema=self.schema) for columns in arrays]

    def over(self, df: datafusion.DataFrame) -> Relation:
        """The same columns of another data frame: filtered, sorted, limited."""
        return replace(self, df=df)

    def filtered(self, predicate: Expr, *, narrowed: bool = False) -> Relation:
        """The rows for which `predicate` is true.

        `narrowed` says that filters or joins lie below. Then what can raise is evaluated on the
        rows that these left over, and held where it is.
        """
        total, raising = split_filter(predicate, self.schema, self.lowered.compiler(self.schema))
        if raising is not None and total is None and not narrowed:
            total, raising = raising, None
        df = self.df
        if total is not None:
            lowered = self.expr(total)
            df = df.filter(held(lowered) if self.streamed or self.raises else lowered)
        if raising is not None:
            kept, passes = [datafusion.col(name) for name in self.inner], self.names.fresh()
            df = df.select(*kept, self.expr(raising).alias(passes))
            df = df.filter(held(datafusion.col(passes))).select(*kept)
        return self.over(df)

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
