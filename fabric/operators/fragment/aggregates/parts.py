"""The shape of an aggregate's form.

One job: `Form`, and the three things its functions see: the aggregate bound to its input (`Bound`),
the DataFusion aggregates they ask for (`Part`) and the columns these became (`Found`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

import datafusion
import pyarrow as pa

from fabric.operators.fragment.relation import Relation
from fabric.operators.fragment.sum_bounds import Fit
from fabric.plan.expr import Agg, Expr, Literal, children
from fabric.plan.literals import scalar_of
from fabric.plan.schema import type_of
from fabric.plan.types import plain

Build = Callable[[datafusion.Expr], datafusion.Expr]

F64, I64 = pa.float64(), pa.int64()
_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Part:
    """One DataFusion aggregate: `build` of `value`, which it is given as `dtype`.

    Two parts with equal `same` (and `dtype` and `build`) are computed once.
    """

    kind: str
    value: datafusion.Expr
    dtype: pa.DataType
    build: Build
    same: object


@dataclass(frozen=True, slots=True)
class Bound:
    """An aggregate over its input; in the final phase `states` has its state columns by kind."""

    agg: Agg
    name: str
    dtype: pa.DataType
    source: Relation
    states: Mapping[str, str] = field(default_factory=dict)
    is_partial: bool = False
    fit: Fit = Fit.UNKNOWN
    """What is known of the sums."""

    @property
    def args(self) -> tuple[Expr, ...]:
        """The input and what else the function takes."""
        return children(self.agg)

    def type(self, index: int = 0) -> pa.DataType:
        """The type of an argument, dictionaries as their values."""
        return plain(type_of(self.args[index], self.source.schema))

    def value(self, index: int = 0) -> datafusion.Expr:
        """An argument, for DataFusion."""
        return self.source.expr(self.args[index])

    def constant(self, index: int) -> float:
        """An argument that is a number the plan holds."""
        literal = self.args[index]
        assert isinstance(literal, Literal)
        return float(scalar_of(literal).as_py())

    def part(
        self,
        kind: str,
        build: Build,
        index: int = 0,
        *,
        dtype: pa.DataType | None = None,
        value: datafusion.Expr | None = None,
        tag: str = "",
    ) -> Part:
        """A part over argument `index`, or over a `value` that `tag` says how it was made."""
        made = self.value(index) if value is None else value
        same = (self.args[index], self.args if tag else (), tag)
        return Part(kind, made, dtype or self.type(index), build, same)

    def merging(self, kind: str, build: Build, dtype: pa.DataType | None = None) -> Part:
        """A part over the state column `kind`."""
        name = self.states[kind]
        has = self.source.schema.field(name).type
        return Part(kind, self.source.column(name), dtype or has, build, (name,))


@dataclass(frozen=True, slots=True)
class Found:
    """The aggregated columns of one `Bound`: internal name by kind, over `relation`."""

    names: Mapping[str, str]
    relation: Relation

    def __getitem__(self, kind: str) -> datafusion.Expr:
        return datafusion.col(self.names[kind])

    def __contains__(self, kind: object) -> bool:
        return kind in self.names

    def type(self, kind: str) -> pa.DataType:
        """The type that DataFusion gave a column."""
        return self.relation.schema.field(self.names[kind]).type


Parts = Callable[[Bound], list[Part]]
Result = Callable[[Bound, Found], datafusion.Expr]


@dataclass(frozen=True, slots=True)
class Form:
    """How one aggregate is computed.

    `rows` are its parts over rows and `merged` those over states; `derived` computes columns of
    those once, which `states` (the state columns, by kind) and `result` then read.
    """

    rows: Parts
    result: Result
    merged: Parts | None = None
    states: Callable[[Bound, Found], Mapping[str, datafusion.Expr]] | None = None
    derived: Callable[[Bound, Found], Mapping[str, datafusion.Expr]] | None = None


def function(
    compute: Callable[..., pa.Array],
    inputs: list[pa.DataType],
    output: pa.DataType,
    *values: datafusion.Expr,
) -> datafusion.Expr:
    """A pure Python function of whole columns, applied to `values`."""

    def run(*columns: pa.Array) -> pa.Array:
        made = compute(*columns)
        return made if made.type.equals(output) else made.cast(output)

    name = f"fabric_agg_{next(_NUMBERS)}"
    return datafusion.udf(run, inputs, output, "immutable", name)(*values)
