"""Database tables as targets, from a user's arguments.

One job: `postgres_target`, for `DataFrame.write_postgres` and `fabric.streams.to_postgres`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

from fabric.clients.dataframe.expr import Expr
from fabric.clients.dataframe.names import choice, column_name
from fabric.errors import PlanError
from fabric.io.postgres.access import parameters_of
from fabric.io.postgres.table import check_name
from fabric.plan.faults import quoted
from fabric.plan.mend import free_name
from fabric.plan.nodes import Changes, Node
from fabric.plan.schema import schema_of
from fabric.plan.stream_facts import stream_of
from fabric.plan.targets import PostgresMode, PostgresTarget
from fabric.plan.walk import walk

PUBLIC = "public"
Table = str | tuple[str, str]
"""A name, or a schema and a name; ``schema.name`` is both."""


def postgres_target(
    table: Table,
    dsn: str,
    *,
    key: str | Iterable[str] = (),
    mode: PostgresMode | None = None,
    password: str = "",
    staging: str = "fabric_sink",
    insecure: bool = False,
    verb: str = "write_postgres",
) -> PostgresTarget:
    """The target table given by these arguments; see `DataFrame.write_postgres`."""
    schema, name = _named(table, verb)
    given = [key] if isinstance(key, str | Expr) or not isinstance(key, Iterable) else key
    keys = tuple(column_name(each, f"{verb}: key") for each in given)
    chosen = mode or ("upsert" if keys else "create")
    choice(chosen, get_args(PostgresMode), verb, "mode")
    settings, secrets = parameters_of(dsn, password, insecure=insecure, verb=verb)
    return PostgresTarget(name, schema, keys, chosen, "", staging, settings, secrets, insecure)


def by_changes(node: Node, target: PostgresTarget) -> tuple[Node, PostgresTarget]:
    """Add the row kind, which the target needs, to changing results; other rows are unchanged.

    All changes of a key must come from one task, so the results must be grouped by no other
    columns: otherwise it would be unknown which of two changes is the last.
    """
    stream = stream_of(node)
    if stream is None or not stream.changes or target.kind:
        return node, target
    grouped = _grouping(node)
    if not target.key or not set(grouped) <= set(target.key):
        names = ", ".join(map(quoted, grouped))
        raise PlanError(
            "these results change, so the table needs a key to keep the last row of; write: "
            f".write_postgres({quoted(target.table)}, key=[{names}])"
        )
    kind = free_name("row_kind", schema_of(node).names)
    return Changes(node, kind), replace(target, kind=kind)


def _grouping(node: Node) -> list[str]:
    """The grouping columns of the last step with changing results."""
    for step in walk(node):
        keys = getattr(step, "keys", ())
        stream = stream_of(step)
        if keys and stream is not None and stream.changes:
            return [name for name in map(_name_of, keys) if name]
    return []


def _name_of(key: object) -> str:
    return str(getattr(key, "name", ""))


def _named(table: Table, verb: str) -> tuple[str, str]:
    parts = table.split(".") if isinstance(table, str) else list(table)
    schema, name = (PUBLIC, parts[0]) if len(parts) == 1 else (parts[0], parts[-1])
    if len(parts) > 2 or not all(isinstance(part, str) for part in parts):
        raise PlanError(
            f'{verb}: table must be "name" or "schema.name", or ("schema", "na.me") for a name '
            f"that contains a dot; got {table!r}"
        )
    return check_name(schema, f"{verb}: the schema"), check_name(name, f"{verb}: the table")
