"""Window functions: the way of each, one data frame of all, and the native way.

One job: `lower_window`. Functions that DataFusion has with Spark's meaning stay in DataFusion; the
others make the rows be sorted into memory first, once for each different order (`sorted_rows.py`).

Native functions go in as text, because the Python interface has no frames that lie on one side of
the row. Aggregates are those of `aggregates/`, part by part over the window, so that types,
overflow and NaN are the same as in a group. Where rows leave the frame, DataFusion subtracts them
again, which loses NaN, infinities and digits of floats: those are not native. Nor is a range with a
distance: DataFusion 55 puts a row out before it has seen all of its peers that are null.
"""

from __future__ import annotations

from collections.abc import Sequence

import datafusion
import pyarrow as pa
from datafusion import functions as f
from pyarrow import types as t

from fabric.operators.expressions.arrow.compile import constant, converted, value_of
from fabric.operators.fragment.aggregates import FORMS, Bound, Found, Part
from fabric.operators.fragment.over.first_rows import can_prune, pruned
from fabric.operators.fragment.over.inputs import (
    PLACED,
    Inputs,
    distance_type,
    is_growing,
    over_text,
)
from fabric.operators.fragment.over.sorted_rows import store
from fabric.operators.fragment.relation import Collect, Output, Relation, select
from fabric.operators.fragment.scan import Tables
from fabric.plan.expr import Agg, Literal, Over, SortKey
from fabric.plan.functions import WINDOW_FUNCTIONS
from fabric.plan.literals import scalar_of
from fabric.plan.nodes import Window
from fabric.plan.nodes.window import unaliased_over
from fabric.plan.schema import schema_of, type_of
from fabric.plan.types import numeric, plain

Wanted = Sequence[tuple[Over, pa.Field]]


def lower_window(
    node: Window,
    source: Relation,
    tables: Tables,
    collect: Collect,
    *,
    first: int | None = None,
    n_rows: float = 0.0,
) -> Relation:
    """`node` over `source`, about `n_rows`; `collect` runs a data frame to the end.

    `first` says that of each partition only so many first rows will be kept.
    """
    schema = schema_of(node)
    fields = list(schema)[len(source.schema) :]
    wanted = [(unaliased_over(e), f) for e, f in zip(node.exprs, fields, strict=True)]
    native = [(over, field) for over, field in wanted if is_native(over, source.schema)]
    others = [(over, field) for over, field in wanted if not is_native(over, source.schema)]
    if first is not None and can_prune(wanted[0][0], source.schema):
        source = pruned(source, wanted[0][0], first, tables, collect, n_rows=n_rows)
    for group in _by_order(others):
        source = store(source, group, tables, collect)
    work = Native(Inputs(source))
    for over, field in native:
        work.add(over, field)
    df, made = work.outputs()
    known = {output.name: output for output in (*source.outputs(), *made)}
    return select(df, [known[field.name] for field in schema], source.names)


def _by_order(wanted: Wanted) -> list[Wanted]:
    """Those with the same order together."""
    found: dict[tuple[SortKey, ...], list[tuple[Over, pa.Field]]] = {}
    for over, field in wanted:
        found.setdefault(over.order_by, []).append((over, field))
    return list(found.values())


_ALWAYS = ("count", "count_if")
_GROWING = ("sum", "mean", "min", "max", "bool_and", "bool_or", "var", "std", "var_pop", "std_pop")


def is_native(over: Over, schema: pa.Schema) -> bool:
    """Whether DataFusion computes `over` as Spark does."""
    agg = over.input
    name = agg.function
    if distance_type(over, schema) is not None:
        return False
    if name in WINDOW_FUNCTIONS or name in PLACED or name in _ALWAYS:
        return True
    if name not in _GROWING:
        return False
    if is_growing(over):
        return True
    assert agg.input is not None
    dtype = plain(type_of(agg.input, schema))
    match name:
        case "min" | "max":
            return not t.is_floating(dtype)
        case "sum" | "mean":
            number = numeric(dtype)
            exact = number is not None and (t.is_decimal(number) or t.is_integer(number))
            return exact and (name == "sum" or t.is_decimal(number))
        case _:
            return False


class Native:
    """Window functions over `inputs`, all in one data frame."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._texts: list[tuple[str, str]] = []
        self._exprs: list[datafusion.Expr] = []
        self._bound: list[tuple[Bound, dict[str, str]] | str] = []
        self._fields: list[pa.Field] = []

    def add(self, over: Over, field: pa.Field) -> None:
        """Compute `over` as column `field`."""
        agg = over.input
        self._fields.append(field)
        if agg.function in ("lag", "lead"):
            self._bound.append(self._shifted(over))
        elif agg.function in WINDOW_FUNCTIONS or agg.function in PLACED:
            self._bound.append(self._text(self._call(agg), over))
        else:
            self._bound.append(self._aggregate(over, field))

    def outputs(self) -> tuple[datafusion.DataFrame, list[Output]]:
        """The data frame with all parts computed, and what to put out of it."""
        df = self._inputs.frame()
        kept = [datafusion.col(name) for name in df.schema().names]
        made = [df.parse_sql_expr(text).alias(name) for text, name in self._texts]
        df = df.select(*kept, *made, *self._exprs)
        types = dict(zip(df.schema().names, df.schema().types, strict=True))
        outputs = []
        for field, bound in zip(self._fields, self._bound, strict=True):
            if isinstance(bound, str):
                outputs.append(Output(datafusion.col(bound), field.name, field.type))
                continue
            agg, names = bound
            inner = tuple(names.values())
            schema = pa.schema([(name, types[name]) for name in inner])
            found = Found(names, Relation(df, schema, inner, self._inputs.source.names))
            outputs.append(Output(FORMS[agg.agg.function].result(agg, found), *_named(field)))
        return df, outputs

    def _text(self, call: str, over: Over) -> str:
        name = self._inputs.source.names.fresh()
        self._texts.append((f"{call} {over_text(self._inputs, over)}", name))
        return name

    def _call(self, agg: Agg) -> str:
        """The call of a function that only a window has."""
        name, skips = PLACED.get(agg.function, (agg.function, False))
        if agg.input is None:
            return f"{name}({', '.join(map(_number, agg.args))})"
        dtype = plain(type_of(agg.input, self._inputs.source.schema))
        value = self._inputs.add(self._inputs.source.expr(agg.input).cast(dtype))
        args = list(agg.args)
        if name == "nth_value":
            value = f"{value}, {_number(args.pop(0))}"
        if args:
            skips = _constant(args[0]) is True
        return f"{name}({value}){' ignore nulls' if skips else ''}"

    def _shifted(self, over: Over) -> str:
        """lag and lead: their default is any constant, which text can't say."""
        agg = over.input
        assert agg.input is not None
        inputs = self._inputs
        dtype = plain(type_of(agg.input, inputs.source.schema))
        value = datafusion.col(inputs.add(inputs.source.expr(agg.input).cast(dtype)))
        offset = int(_number(agg.args[0])) if agg.args else 1
        default = None
        if len(agg.args) == 2:
            assert isinstance(agg.args[1], Literal)
            given = constant(scalar_of(agg.args[1]))
            default = value_of(converted(given, dtype, agg.args[1])).cast(dtype)
        partition = [datafusion.col(inputs.key(key)) for key in over.partition_by]
        order: list[datafusion.Expr | datafusion.expr.SortExpr | str] = [
            datafusion.col(inputs.key(key.input)).sort(
                ascending=not key.descending, nulls_first=not key.nulls_last
            )
            for key in over.order_by
        ]
        build = f.lag if agg.function == "lag" else f.lead
        name = inputs.source.names.fresh()
        shifted = build(value, offset, default, partition_by=partition or None, order_by=order)
        self._exprs.append(shifted.alias(name))
        return name

    def _aggregate(self, over: Over, field: pa.Field) -> tuple[Bound, dict[str, str]]:
        """The parts of an aggregate, each over the window."""
        bound = Bound(over.input, field.name, field.type, self._inputs.source)
        names = {}
        for part in FORMS[over.input.function].rows(bound):
            value = self._inputs.add(part.value.cast(part.dtype))
            call = _built(part, value)
            names[part.kind] = self._text(call, over)
        return bound, names


def _built(part: Part, value: str) -> str:
    return str(part.build(datafusion.col(value)).canonical_name())


def _named(field: pa.Field) -> tuple[str, pa.DataType]:
    return field.name, field.type


def _constant(arg: object) -> object:
    assert isinstance(arg, Literal)
    return arg.value


def _number(arg: object) -> str:
    return str(_constant(arg))
