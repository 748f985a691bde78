"""Plan nodes as one SQL statement: a common table expression for each node.

One job: relations. Columns are called c0, c1, … inside, because DuckDB takes names that differ in
case only for one, and has none for the empty name. A node that two others read is one expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from fabric.plan.expr import Expr, output_name
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Explode,
    Filter,
    Join,
    Limit,
    Node,
    Scan,
    Select,
    Sink,
    Sort,
    StageInput,
    Union,
    Window,
    WithColumns,
)
from fabric.plan.nodes.aggregate import unaliased
from fabric.plan.nodes.window import unaliased_over
from fabric.plan.schema import schema_of
from fabric.plan.sources import MemorySource
from fabric.plan.walk import walk
from tests.support.duckdb.expressions import aggregate_sql, expr_sql, type_sql
from tests.support.duckdb.joins import join_sql
from tests.support.duckdb.windows import order_sql, over_sql


def to_sql(node: Node, names: Mapping[str, str]) -> str:
    """The plan under `node` as DuckDB SQL; its columns are c0, c1, … in the plan's order.

    Parameters
    ----------
    names
        For the token of each `MemorySource` the name of the DuckDB table that holds it. The table's
        columns are taken by position.
    """
    number: dict[int, str] = {}
    parts = []
    for part in walk(node):
        inputs = [number[id(child)] for child in part.children]
        number[id(part)] = f"n{len(number)}"
        parts.append(f"{number[id(part)]} AS ({_relation(part, inputs, names)})")
    listed = ",\n".join(parts)
    return f"WITH {listed}\nSELECT * FROM {number[id(node)]}"


def _relation(node: Node, inputs: Sequence[str], names: Mapping[str, str]) -> str:
    match node:
        case Scan():
            return _scan(node, names)
        case Filter(input=child, predicate=predicate):
            where = expr_sql(predicate, columns_of(child)).sql
            return f"SELECT * FROM {inputs[0]} WHERE {where}"
        case Select(input=child, exprs=exprs):
            return f"SELECT {_listed(exprs, child)} FROM {inputs[0]}"
        case WithColumns():
            return _with_columns(node, inputs[0])
        case Aggregate():
            return _aggregate(node, inputs[0])
        case Join():
            return join_sql(node, inputs[0], inputs[1])
        case Window():
            return _window(node, inputs[0])
        case Explode():
            return _explode(node, inputs[0])
        case Distinct():
            return f"SELECT DISTINCT * FROM {inputs[0]}"
        case Union():
            return _union(node, inputs)
        case _:
            return _plain(node, inputs)


def _plain(node: Node, inputs: Sequence[str]) -> str:
    match node:
        case Sort():
            return f"SELECT * FROM {inputs[0]} ORDER BY {_order(node)}"
        case Limit(input=child, n=n, offset=offset):
            order = f" ORDER BY {_order(child)}" if isinstance(child, Sort) else ""
            return f"SELECT * FROM {inputs[0]}{order} LIMIT {n} OFFSET {offset}"
        case Exchange() | Sink():
            return f"SELECT * FROM {inputs[0]}"
        case StageInput():
            raise ValueError("a stage has no SQL; translate the whole plan")
    raise ValueError(f"no SQL for {type(node).__name__}")


def columns_of(node: Node) -> dict[str, tuple[str, pa.DataType]]:
    """For every column of `node` its name in SQL and its type."""
    return {f.name: (f"c{i}", f.type) for i, f in enumerate(schema_of(node))}


def _scan(node: Scan, names: Mapping[str, str]) -> str:
    """The chosen columns of a table, each cast to its plain type."""
    if not isinstance(node.source, MemorySource):
        raise ValueError(f"DuckDB reads memory sources only, got {type(node.source).__name__}")
    raw = ", ".join(f"s{i}" for i in range(len(node.schema)))
    cleaned = ", ".join(_cleaned(f"s{i}", f.type) + f" AS c{i}" for i, f in enumerate(node.schema))
    table = f"(SELECT {cleaned} FROM {names[node.source.token]} AS t({raw}))"
    columns = {f.name: (f"c{i}", f.type) for i, f in enumerate(node.schema)}
    where = "" if node.predicate is None else f" WHERE {expr_sql(node.predicate, columns).sql}"
    chosen = node.columns if node.columns is not None else node.schema.names
    listed = ", ".join(f"{columns[name][0]} AS c{i}" for i, name in enumerate(chosen))
    return f"SELECT {listed} FROM (SELECT * FROM {table}{where})"


def _cleaned(name: str, dtype: pa.DataType) -> str:
    if pa.types.is_timestamp(dtype) and dtype.tz:
        return f"make_timestamp(epoch_us({name}))"
    if pa.types.is_nested(dtype):
        return name
    return f"CAST({name} AS {type_sql(dtype)})"


def _listed(exprs: Iterable[Expr], child: Node, begin: int = 0) -> str:
    columns = columns_of(child)
    made = (expr_sql(expr, columns).sql for expr in exprs)
    return ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(made, begin))


def _with_columns(node: WithColumns, source: str) -> str:
    columns = columns_of(node.input)
    made = {name: sql for name, (sql, _) in columns.items()}
    made |= {output_name(expr): expr_sql(expr, columns).sql for expr in node.exprs}
    listed = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(made.values()))
    return f"SELECT {listed} FROM {source}"


def _aggregate(node: Aggregate, source: str) -> str:
    columns = columns_of(node.input)
    keys = [expr_sql(key, columns).sql for key in node.keys]
    types = schema_of(node).types[len(keys) :]
    aggs = zip(map(unaliased, node.aggs), types, strict=True)
    made = [*keys, *(aggregate_sql(agg, columns, dtype) for agg, dtype in aggs)]
    listed = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(made))
    if not keys:
        return f"SELECT {listed} FROM {source}"
    inner = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
    names = ", ".join(f"k{i}" for i in range(len(keys)))
    rest = "".join(f", {sql} AS c{i}" for i, sql in enumerate(made[len(keys) :], len(keys)))
    kept = ", ".join(f"k{i} AS c{i}" for i in range(len(keys)))
    return f"SELECT {kept}{rest} FROM (SELECT *, {inner} FROM {source}) GROUP BY {names}"


def _window(node: Window, source: str) -> str:
    columns = columns_of(node.input)
    types = schema_of(node).types[len(columns) :]
    overs = [unaliased_over(expr) for expr in node.exprs]
    made = (over_sql(over, columns, dtype) for over, dtype in zip(overs, types, strict=True))
    listed = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(made, len(columns)))
    return f"SELECT *, {listed} FROM {source}"


def _explode(node: Explode, source: str) -> str:
    """One row for each place in the list; with `outer` null is the place of one that has none."""
    columns = columns_of(node.input)
    values = columns[node.column][0]
    places = f"range(len({values}))"
    if node.outer:
        places = f"CASE WHEN len({values}) > 0 THEN {places} ELSE [NULL] END"
    made = [f"{values}[place_ + 1]" if name == node.column else sql
            for name, (sql, _) in columns.items()]  # fmt: skip
    if node.position:
        made.append("CAST(place_ AS INTEGER)")
    listed = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(made))
    return f"SELECT {listed} FROM (SELECT *, unnest({places}) AS place_ FROM {source})"


def _union(node: Union, inputs: Sequence[str]) -> str:
    wanted = schema_of(node).types
    selects = []
    for child, source in zip(node.inputs, inputs, strict=True):
        columns = columns_of(child)
        made = (
            coerced_column(column, dtype)
            for column, dtype in zip(columns.values(), wanted, strict=True)
        )
        listed = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(made))
        selects.append(f"SELECT {listed} FROM {source}")
    return " UNION ALL ".join(selects)


def coerced_column(column: tuple[str, pa.DataType], dtype: pa.DataType) -> str:
    """A column widened to `dtype`."""
    sql, own = column
    return sql if own.equals(dtype) else f"CAST({sql} AS {type_sql(dtype)})"


def _order(node: Sort) -> str:
    columns = columns_of(node.input)
    return ", ".join(order_sql(key, columns) for key in node.keys)
