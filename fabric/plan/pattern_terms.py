"""Conditions and measures of row patterns: what they read of the match so far.

    col("price") > last("A.price") + 1      =>      {price} > {last(A.price)} + 1
                                                     │         └─ term: the last row of A
                                                     └─ term: the current row

One job: `split`, which takes an expression apart into *terms*, each a value of one row or of some
rows of a match, and the expression over them, in which each term is a column. A column that is
called ``"A.price"``, where A is a variable of the pattern, is that of the last row of A.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal as Choice

import pyarrow as pa

from fabric.plan.expr import Agg, Alias, Call, Case, Cast, Column, Expr, IsIn, Literal, Over, Udf
from fabric.plan.expr import children as children_of
from fabric.plan.faults import ExprFault, listed, nearest, quoted
from fabric.plan.functions import AGGREGATES, WINDOW_FUNCTIONS
from fabric.plan.infer import DEPTH_MAX, infer, infer_agg
from fabric.plan.python import expr_text
from fabric.plan.row_pattern import PATTERN_FUNCTIONS
from fabric.plan.walk import fold, with_expr_children

OFFSET_MAX = 10_000
"""Rows that are kept before each match, or looked back at."""
Kind = Choice["row", "aggregate", "classifier", "number"]


@dataclass(frozen=True, slots=True)
class Term:
    """A value of a match, as of one of its rows.

    Kind "row": `value`, an expression of one row's columns, of row number `offset` of `variables`
    (None: of all) counted from the last one back, or with `from_first` from the first one on; then
    `shift` rows on (below 0: back) in the partition. "aggregate": `value` is an `Agg` over the rows
    of `variables`. "classifier": the variable of the last row of `variables`. "number": that of the
    match. `final`: as of the last row of the match, wherever it is asked for.
    """

    kind: Kind
    value: Expr | None = None
    variables: tuple[str, ...] | None = None
    from_first: bool = False
    offset: int = 0
    shift: int = 0
    final: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """`outer` over columns that are the `terms` by name, which have these types in `schema`."""

    outer: Expr
    terms: Mapping[str, Term]
    schema: pa.Schema


def split(expr: Expr, variables: Mapping[str, tuple[str, ...]], schema: pa.Schema) -> Split:
    """Take apart a condition or measure.

    Parameters
    ----------
    variables
        By each name that may stand before a dot, the variables that it means: itself, or those of
        a subset.
    schema
        The columns of the rows.

    Raises
    ------
    ExprFault
        Where it asks what can't be.

    Examples
    --------
    >>> price = pa.schema([("price", pa.int64())])
    >>> found = split(Call("gt", (Column("price"), Column("A.price"))), {"A": ("A",)}, price)
    >>> {name: term.variables for name, term in found.terms.items()}
    {'price': None, 'A.price': ('A',)}
    """
    inner = expr.input if isinstance(expr, Alias) else expr
    if fold(inner, lambda _, below: 1 + max(below, default=0)) > DEPTH_MAX:
        raise ExprFault(f"an expression of a pattern has more than {DEPTH_MAX} levels")
    splitter = _Splitter(variables, schema)
    outer = splitter.outer(inner, final=False)
    types = [(name, _type_of(term, schema)) for name, term in splitter.terms.items()]
    return Split(outer, splitter.terms, pa.schema(types))


def _type_of(term: Term, schema: pa.Schema) -> pa.DataType:
    match term.kind:
        case "classifier":
            return pa.string()
        case "number":
            return pa.int64()
    assert term.value is not None
    return infer_agg(term.value, schema) if term.kind == "aggregate" else infer(term.value, schema)


class _Splitter:
    def __init__(self, variables: Mapping[str, tuple[str, ...]], schema: pa.Schema) -> None:
        self._variables, self._schema = variables, schema
        self.terms: dict[str, Term] = {}

    def outer(self, expr: Expr, *, final: bool) -> Expr:
        """`expr` with columns for its terms."""
        match expr:
            case Column():
                value, variables = self._value(expr)
                return self._term(expr, Term("row", value, variables, final=final))
            case Agg(function="final" | "running", input=inner) if inner is not None:
                return self.outer(inner, final=expr.function == "final")
            case Agg():
                return self._term(expr, replace(self._of_agg(expr), final=final))
            case Over():
                raise ExprFault(
                    "a pattern takes no window function; prev(…) and next(…) read the rows around",
                    expr,
                )
        below = [self.outer(each, final=final) for each in children_of(expr)]
        return with_expr_children(expr, below)

    def _term(self, part: Expr, term: Term) -> Column:
        """The column of a term: the column's own name, else the text that asks for it."""
        name = part.name if isinstance(part, Column) else expr_text(part)
        name += " (final)" if term.final else ""
        self.terms[name] = term
        return Column(name)

    def _of_agg(self, agg: Agg) -> Term:
        name = agg.function
        match name:
            case "first" | "last":
                return self._placed(agg)
            case "prev" | "next":
                return self._shifted(agg)
            case "classifier":
                return Term("classifier", None, self._of_classifier(agg))
            case "match_number":
                return Term("number")
        if name in WINDOW_FUNCTIONS:
            instead = {"lag": "prev", "lead": "next"}.get(name)
            raise ExprFault(
                f"{name} needs a window, and a pattern has none"
                + ("" if instead is None else f"; write: {instead}(…)"), agg,
            )  # fmt: skip
        if name not in AGGREGATES:
            near = nearest(name, [*AGGREGATES, *PATTERN_FUNCTIONS])
            new = None if near is None else replace(agg, function=near)
            raise ExprFault(f"there is no aggregate {name[:80]!r}", agg, new)
        return self._aggregate(agg)

    def _aggregate(self, agg: Agg) -> Term:
        column = agg.input if agg.function == "count" else None
        if isinstance(column, Column) and column.name in self._variables:
            if column.name in self._schema.names:
                raise self._ambiguous(column)
            return Term("aggregate", Agg("count", None), self._variables[column.name])
        below = [self._value(each) for each in children_of(agg)]
        values = [value for value, _ in below]
        asked = {
            variables for each, (_, variables) in zip(children_of(agg), below, strict=True)
            if not isinstance(each, Literal)
        }  # fmt: skip
        if len(asked) > 1:
            raise self._mixed(agg)
        plain = with_expr_children(agg, values)
        return Term("aggregate", plain, next(iter(asked), None))

    def _placed(self, agg: Agg) -> Term:
        """The first or last row of a variable, or one that lies some rows from there."""
        assert agg.input is not None
        value, variables = self._value(agg.input)
        offset = _count(agg, default=0)
        return Term("row", value, variables, agg.function == "first", offset)

    def _shifted(self, agg: Agg) -> Term:
        """A row that lies some rows before or after another one in the partition."""
        if agg.input is None:
            raise ExprFault(f'{agg.function} needs a column, as in {agg.function}("price")', agg)
        inner, n = agg.input, _count(agg, default=1)
        if isinstance(inner, Agg):
            if inner.function not in ("first", "last"):
                raise ExprFault(
                    f"{agg.function} takes a column, or first(…) or last(…) of one", agg
                )
            placed = self._placed(inner)
        else:
            value, variables = self._value(inner)
            placed = Term("row", value, variables)
        return replace(placed, shift=-n if agg.function == "prev" else n)

    def _of_classifier(self, agg: Agg) -> tuple[str, ...] | None:
        if agg.input is not None or len(agg.args) > 1:
            raise ExprFault('classifier takes a variable or nothing: classifier("A")', agg)
        if not agg.args:
            return None
        (name,) = agg.args
        if not isinstance(name, Literal) or name.value not in self._variables:
            said = name.value if isinstance(name, Literal) else expr_text(name)
            raise ExprFault(
                f"classifier needs a variable of the pattern, got {said!r}; they are "
                f"{listed(self._variables)}", agg,
            )  # fmt: skip
        return self._variables[name.value]

    # ---- values of one row

    def _value(self, expr: Expr) -> tuple[Expr, tuple[str, ...] | None]:
        """`expr`, which reads one row, over plain columns; and the variables of that row."""
        found: dict[tuple[str, ...] | None, None] = {}

        def one(part: Expr, below: tuple[Expr, ...]) -> Expr:
            match part:
                case Column():
                    column, variables = self._column(part)
                    found.setdefault(variables)
                    return column
                case Agg() | Over():
                    raise ExprFault(
                        "a function of a pattern takes columns of one row: no aggregate, and none "
                        "of first, last, prev and next but first or last in prev or next", part,
                    )  # fmt: skip
                case Call() | Case() | Cast() | IsIn() | Alias() | Udf():
                    return with_expr_children(part, below)
            return part

        plain = fold(expr, one)
        if len(found) > 1:
            raise self._mixed(expr)
        return plain, next(iter(found), None)

    def _column(self, column: Column) -> tuple[Column, tuple[str, ...] | None]:
        variable, dot, name = column.name.partition(".")
        variables = self._variables.get(variable) if dot else None
        if column.name in self._schema.names:
            if variables is not None and name in self._schema.names:
                raise self._ambiguous(column)
            return column, None
        if variables is None:
            if dot and name in self._schema.names:
                near = nearest(variable, list(self._variables))
                new = None if near is None else Column(f"{near}.{name}")
                raise ExprFault(
                    f"{quoted(variable)} is not a variable of the pattern; they are "
                    f"{listed(self._variables)}", column, new,
                )  # fmt: skip
            infer(column, self._schema)  # raises, with the nearest column
            raise AssertionError(column)
        if name not in self._schema.names:
            near = nearest(name, self._schema.names)
            new = None if near is None else Column(f"{variable}.{near}")
            raise ExprFault(
                f"there is no column {quoted(name)}; the columns are {listed(self._schema.names)}",
                column, new,
            )  # fmt: skip
        return Column(name), variables

    def _mixed(self, expr: Expr) -> ExprFault:
        return ExprFault(
            "a function of a pattern reads rows of one variable, and here columns of several are "
            'mixed; write one call for each, as in last("A.price") - last("B.price")', expr,
        )  # fmt: skip

    def _ambiguous(self, column: Column) -> ExprFault:
        return ExprFault(
            f"{quoted(column.name)} is a column, and what a variable of the pattern has, too; give "
            "the variable another name", column,
        )  # fmt: skip


def _count(agg: Agg, default: int) -> int:
    """The number of rows that `agg` is given."""
    if not agg.args:
        return default
    (arg,) = agg.args if len(agg.args) == 1 else (None,)
    value = arg.value if isinstance(arg, Literal) else None
    if type(value) is not int or not 0 <= value <= OFFSET_MAX:
        raise ExprFault(
            f"{agg.function} needs a constant number of rows from 0 to {OFFSET_MAX:,}", agg
        )
    return value
