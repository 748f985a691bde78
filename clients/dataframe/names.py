"""Names people nearly got right: nearest columns, mended calls, and PySpark's camelCase methods.

One job: the error at the call. Numbers and words out of a few are checked here as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from pyarrow import types as t

from fabric.clients.dataframe.expressions.types import ColumnName, Expression
from fabric.errors import PlanError
from fabric.plan.expr import Column
from fabric.plan.faults import listed, nearest, quoted

_CAMEL = {
    "withColumn": "with_column", "withColumns": "with_columns", "orderBy": "order_by",
    "withColumnRenamed": "with_column_renamed", "groupBy": "group_by", "unionAll": "union",
    "dropDuplicates": "distinct", "toPandas": "to_pandas", "printSchema": "print_schema",
    "dropna": "drop_nulls", "toArrow": "to_arrow", "unionByName": "union_by_name",
    "crossJoin": "cross_join", "exceptAll": "except_all", "intersectAll": "intersect_all",
    "groupingSets": "grouping_sets", "fillna": "fill_null", "withColumnsRenamed": "rename",
    "isEmpty": "is_empty",
}  # fmt: skip

INSTEAD: dict[str, tuple[str, str]] = {
    "shape": ("its rows are not counted yet", "(df.count(), len(df.columns))"),
    "height": ("its rows are not counted yet", "df.count()"),
    "width": ("", "len(df.columns)"),
    "size": ("its rows are not counted yet", "df.count()"),
    "iloc": ("rows have no places before they have an order",
             'df.sort("{x}").limit(10, offset=20)'),
    "iat": ("rows have no places before they have an order", 'df.sort("{x}").limit(1, offset=20)'),
    "loc": ("rows have no labels", 'df.filter(col("{x}").is_not_null())'),
    "at": ("rows have no labels", 'df.filter(col("{x}").is_not_null())'),
    "index": ("rows have no labels", 'df.with_row_index("row", order_by="{x}")'),
    "reset_index": ("rows have no labels", 'df.with_row_index("row", order_by="{x}")'),
    "set_index": ("rows have no labels", 'df.filter(col("{x}").is_not_null())'),
    "merge": ("", 'df.join(other, on="{x}")'),
    "apply": ("its rows are not in this process",
              'df.with_columns(y=udf(lambda value: value, returns=df.schema.field("{x}").type, '
              'compile=False)("{x}"))'),
    "map_rows": ("its rows are not in this process",
                 'df.with_columns(y=udf(lambda value: value, returns=df.schema.field("{x}").type, '
                 'compile=False)("{x}"))'),
    "assign": ("", 'df.with_columns(y=col("{x}"))'),
    "astype": ("", 'df.with_columns(col("{x}").cast("string").alias("y"))'),
    **{name: ("", f"df.group_by().{name}()")
       for name in ("sum", "mean", "max", "min", "std", "var", "median")},
    "sort_values": ("", 'df.sort("{x}")'),
    "isna": ("", 'df.select(col("{x}").is_null())'),
    "isnull": ("", 'df.select(col("{x}").is_null())'),
    "notna": ("", 'df.select(col("{x}").is_not_null())'),
    "notnull": ("", 'df.select(col("{x}").is_not_null())'),
    "first": ("rows have no first one before they have an order",
              'df.sort("{x}").limit(1).to_dicts()'),
    "row": ("rows have no places before they have an order",
            'df.sort("{x}").limit(1, offset=20).to_dicts()'),
    "slice": ("rows have no places before they have an order",
              'df.sort("{x}").limit(10, offset=20)'),
    "item": ("its rows are not in this process", 'df.limit(1).to_dicts()'),
    "rdd": ("", "df.iter_batches()"),
    "na": ("its methods are those of the frame, fill_null too", "df.drop_nulls()"),
    "T": ("its rows are not counted yet", "df.to_pandas().T"),
    "transpose": ("its rows are not counted yet", "df.to_pandas().T"),
    "copy": ("a frame never changes, so it needs no copy", "df"),
    "clone": ("a frame never changes, so it needs no copy", "df"),
    "alias": ("a frame has no name, and a join gives columns of the other one a suffix",
              'df.join(other, on="{x}", suffix="_right")'),
    "glimpse": ("", "df.show()"),
    **{name: ("", f'df.with_columns(y=col("{{n}}").{line}.over(order_by="{{x}}"))')
       for name, line in (("cumsum", "cum_sum()"), ("cum_sum", "cum_sum()"),
                          ("cummax", "cum_max()"), ("cummin", "cum_min()"),
                          ("rolling", "rolling_mean(3)"))},
    "replace": ("", 'df.with_columns(y=col("{n}").replace(1, 2))'),
    "toDF": ("", 'df.rename({"{x}": "y"})'),
    **dict.fromkeys(
        ("createOrReplaceTempView", "createTempView", "registerTempTable",
         "createGlobalTempView", "createOrReplaceGlobalTempView"),
        ("SQL text is not read", 'df.filter(col("{x}").is_not_null())')),
    "nlargest": ("", 'df.top_k(3, "{x}")'),
    "nsmallest": ("", 'df.bottom_k(3, "{x}")'),
    "query": ("SQL text is not read", 'df.filter(col("{x}").is_not_null())'),
    "sql": ("SQL text is not read", 'df.filter(col("{x}").is_not_null())'),
    "selectExpr": ("SQL text is not read", 'df.select(col("{x}").alias("y"))'),
    "append": ("", "df.union(other)"),
    "extend": ("", "df.union(other)"),
    "values": ("", "df.to_pandas().to_numpy()"),
    "to_numpy": ("", "df.to_pandas().to_numpy()"),
    "to_dict": ("", "df.collect().to_pydict()"),
    "rows": ("", "df.to_dicts()"),
    "iter_rows": ("", "df.to_dicts()"),
    "iterrows": ("", "df.to_dicts()"),
    "itertuples": ("", "df.to_dicts()"),
    "take": ("", "df.limit(5).to_dicts()"),
    "tail": ("rows have no last ones before they have an order",
             'df.sort("{x}", descending=True).limit(10)'),
    "get_column": ("", 'df.select("{x}").collect()["{x}"]'),
    "lazy": ("it is lazy already", "df.explain()"),
    "info": ("", "df.print_schema()"),
    "persist": ("", "df.cache()"),
    "write": ("", 'df.write_parquet("folder")'),
    "to_parquet": ("", 'df.write_parquet("folder")'),
    "to_csv": ("", 'df.write_csv("rows.csv")'),
    "sink_parquet": ("", 'df.write_parquet("folder")'),
}  # fmt: skip
"""What frames of other libraries have: why not here, and what to write, ``{x}`` a column
and ``{n}`` one of numbers, if there is one."""


MODULE_INSTEAD = {
    "format": 'fabric.concat_str(col("a").cast("string"), col("b").cast("string"), separator=" ")',
    "duration": "lit(datetime.timedelta(days=1))",
    "datetime": "lit(datetime.datetime(2024, 1, 31))",
    "date": "lit(datetime.date(2024, 1, 31))",
    "Series": 'fabric.DataFrame({"a": [1, 2]})',
}
"""What other libraries have at their top, and what to write."""


def unknown_name(
    name: str, known: Sequence[str], what: str, line: Callable[[str], str] | None = None
) -> PlanError:
    """The error for a column that is not there, with the nearest name and the call with it."""
    near = nearest(str(name), known)
    hint = f"; did you mean {quoted(near)}?" if near else ";"
    mended = f"; write: {line(near)}" if near and line else ""
    return PlanError(
        f"{what}: there is no column {quoted(str(name))}{hint} the columns are {listed(known)}"
        f"{mended}"
    )


def known_names(
    names: Sequence[str], known: Sequence[str], verb: str, line: Callable[[list[str]], str]
) -> list[str]:
    """`names` when all are among `known`; `line` writes the call with other names."""
    for index, name in enumerate(names):
        if name not in known:

            def with_near(near: str, at: int = index) -> str:
                return line([*names[:at], near, *names[at + 1 :]])

            raise unknown_name(name, known, verb, with_near)
    return list(names)


def column_name(name: ColumnName | Iterable[str], verb: str) -> str:
    """`name` when it is text; an expression is none."""
    if isinstance(name, str):
        return name
    node = getattr(name, "node", None)
    hint = f"; write: {quoted(node.name)}" if isinstance(node, Column) else ""
    raise PlanError(f"{verb} takes names of columns, got {name!r}{hint}")


def column_names(given: ColumnName | Iterable[str], verb: str) -> tuple[str, ...]:
    """The names in `given`, which may be a single one."""
    is_one = isinstance(given, str | Expression) or not isinstance(given, Iterable)
    names: Any = [given] if is_one else given
    return tuple(column_name(name, verb) for name in names)


def text(value: str, verb: str, name: str) -> str:
    """`value` of the argument `name` when it is text."""
    if isinstance(value, str):
        return value
    raise PlanError(f"{verb}: {name}={value!r} is not text; write: {name}={quoted(str(value))}")


def known_one(name: str, known: Sequence[str], verb: str, **arguments: Any) -> str:
    """`name` when it is among `known`; `arguments` are the call's, in which it stands somewhere."""
    column_name(name, verb)

    def line(near: str) -> str:
        given = {key: near if value is name else value for key, value in arguments.items()}
        return call_text(verb, **given)

    if name not in known:
        raise unknown_name(name, known, verb, line)
    return name


def call_text(verb: str, *arguments: Any, **named: Any) -> str:
    """A method call as a user would write it; what is None is left out of `named`.

    >>> print(call_text("drop", "a", "b", strict=True))
    .drop("a", "b", strict=True)
    """
    parts = [value_text(value) for value in arguments]
    parts += [f"{key}={value_text(value)}" for key, value in named.items() if value is not None]
    return f".{verb}({', '.join(parts)})"


def value_text(value: Any) -> str:
    """A Python value as a user would write it.

    >>> print(value_text(["a", {"b": 1}]))
    ["a", {"b": 1}]
    """
    match value:
        case str():
            return quoted(value)
        case list():
            return f"[{', '.join(map(value_text, value))}]"
        case tuple():
            return f"({', '.join(map(value_text, value))}{',' if len(value) == 1 else ''})"
        case dict():
            pairs = (f"{value_text(key)}: {value_text(one)}" for key, one in value.items())
            return "{" + ", ".join(pairs) + "}"
        case _:
            return repr(value)


def choice(value: str, allowed: Sequence[str], verb: str, name: str) -> str:
    """`value` when it is one of `allowed`."""
    if value in allowed:
        return str(value)
    near = nearest(str(value), allowed)
    hint = f"; write: {name}={quoted(near)}" if near else ""
    raise PlanError(
        f"{verb}: {name}={value!r} is not valid; use {', '.join(map(repr, allowed))}{hint}"
    )


def whole(value: int, least: int, verb: str, name: str) -> int:
    """`value` when it is a whole number of at least `least` that fits 64 bits.

    >>> whole("10", 1, "generator", "n_rows")
    Traceback (most recent call last):
    fabric.errors.PlanError: generator: n_rows='10' is not a whole number of at least 1; write: \
n_rows=10
    """
    fits = isinstance(value, Integral) and not isinstance(value, bool)
    if fits and least <= value < 1 << 63:
        return int(value)
    text = str(value)
    hint = f"; write: {name}={text}" if text.isdecimal() and not fits else ""
    raise PlanError(f"{verb}: {name}={value!r} is not a whole number of at least {least}{hint}")


def number(value: float, verb: str, name: str) -> float:
    """`value` when it is a finite number of at least 0."""
    if isinstance(value, Real) and not isinstance(value, bool):
        given = float(value)
        if 0 <= given < math.inf:
            return given
    raise PlanError(f"{verb}: {name}={value!r} is not a number of at least 0")


def no_frame(groups: Any, name: str) -> AttributeError:
    """The error for a method of frames that is asked of groups."""
    if not name.startswith("_") and hasattr(type(groups._frame), name):
        text = f"{type(groups).__name__} has no attribute {name!r}"
        text += f"; groups become rows by an aggregate: .agg(n=count()).{name}"
        return AttributeError(text, name=name, obj=groups)
    return no_attribute(groups, name)


def camel_case(owner: Any, name: str) -> Any:
    """The method `owner` has under its snake_case name, else an `AttributeError` that helps."""
    if name in _CAMEL and hasattr(type(owner), _CAMEL[name]):
        return getattr(owner, _CAMEL[name])
    kind = type(owner).__name__
    if not name.startswith("_") and name in owner.columns:
        raise AttributeError(f'{kind} has no attribute {name!r}; write col("{name}")', name=name)
    if name in INSTEAD:
        says, code = INSTEAD[name]
        column = owner.columns[0] if owner.columns else "x"
        numbers = (
            one.name for one in owner.schema if t.is_integer(one.type) or t.is_floating(one.type)
        )
        line = code.replace("{x}", quoted(column)[1:-1])
        line = line.replace("{n}", quoted(next(numbers, column))[1:-1])
        says = f", {says}" if says else ""
        raise AttributeError(f"{kind} has no {name!r}{says}; write: {line}", name=name)
    raise no_attribute(owner, name)


def no_function(
    module: str, name: str, known: Iterable[str], instead: Mapping[str, str] | None = None
) -> AttributeError:
    """The error for a name that `module`, to users, has not, with the nearest it has.

    `instead` has names that are known elsewhere, with what to write.

    >>> print(no_function("fabric.functions", "uper", ["upper", "lower"]))
    fabric.functions has no 'uper'; did you mean 'upper'?
    """
    if instead is not None and name in instead:
        return AttributeError(f"{module} has no {name!r}; write {instead[name]}", name=name)
    near = None if name.startswith("_") else nearest(name, [k for k in known if k[0] != "_"])
    hint = f"; did you mean {near!r}?" if near else ""
    return AttributeError(f"{module} has no {name!r}{hint}", name=name)


def no_attribute(
    owner: Any, name: str, *, shown: str = "", also: Mapping[str, str] | None = None
) -> AttributeError:
    """The error for a name that `owner`, to users `shown`, has not, with the nearest it has.

    `also` are names that are known elsewhere, with how they are written here.
    """
    text = f"{shown or type(owner).__name__} has no attribute {name!r}"
    if not name.startswith("_"):
        also = also or {}
        own = [one for one in dir(type(owner)) if not one.startswith("_")]
        if name in also:
            text += f"; write: {also[name]}"
        elif near := nearest(name, own):
            text += f"; did you mean .{near}?"
        elif near := nearest(name, also):
            text += f"; did you mean {also[near]}?"
    return AttributeError(text, name=name, obj=owner)
