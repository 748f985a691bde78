"""Joins of every kind in DuckDB SQL: keys in one type, conditions, merged keys."""

from __future__ import annotations

from fabric.plan.nodes import Join
from fabric.plan.nodes.join import JoinColumn, condition_columns, key_types, output_columns
from fabric.plan.schema import schema_of
from tests.support.duckdb.expressions import Columns, Typed, coerced, expr_sql

_KINDS = {
    "inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN",
    "cross": "CROSS JOIN",
}  # fmt: skip


def join_sql(node: Join, left: str, right: str) -> str:
    """`node` over the relations called `left` and `right`, whose columns are c0, c1, …"""
    l_schema, r_schema = schema_of(node.left), schema_of(node.right)
    sides: tuple[Columns, Columns] = (
        {f.name: (f"l.c{i}", f.type) for i, f in enumerate(l_schema)},
        {f.name: (f"r.c{i}", f.type) for i, f in enumerate(r_schema)},
    )
    types = key_types(node, l_schema, r_schema)
    keys = zip(node.left_keys, node.right_keys, types, strict=True)
    tests = [
        f"{coerced(expr_sql(a, sides[0]), t)} = {coerced(expr_sql(b, sides[1]), t)}"
        for a, b, t in keys
    ]
    if node.condition is not None:
        seen = {
            c.name: sides[c.right][c.source] for c in condition_columns(node, l_schema, r_schema)
        }
        tests.append(f"({expr_sql(node.condition, seen).sql})")
    on = " AND ".join(tests)
    if node.how in ("semi", "anti"):
        found = f"EXISTS (SELECT 1 FROM {right} AS r WHERE {on})"
        return f"SELECT * FROM {left} AS l WHERE {'NOT ' * (node.how == 'anti')}{found}"
    chosen = [_output(column, sides) for column in output_columns(node, l_schema, r_schema)]
    listed = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(chosen))
    joined = f"{left} AS l {_KINDS[node.how]} {right} AS r"
    return f"SELECT {listed} FROM {joined}{f' ON {on}' if on else ''}"


def _output(column: JoinColumn, sides: tuple[Columns, Columns]) -> str:
    if column.merged is None:
        return sides[column.right][column.source][0]
    both = Typed(*sides[0][column.source]), Typed(*sides[1][column.merged])
    return f"coalesce({', '.join(coerced(value, column.dtype) for value in both)})"
