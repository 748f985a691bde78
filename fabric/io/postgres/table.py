"""A table as the server's catalogue has it, and whether rows can be written to it.

One job: `look`, and `layout_of`, which finds all that is wrong before a job starts, and says with
which SQL it is mended. Names are quoted wherever they become SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from fabric.errors import PlanError
from fabric.io.postgres.types import ColumnType, FoundType, fitting_type, made_type
from fabric.plan.targets import PostgresTarget

if TYPE_CHECKING:
    from fabric.io.postgres.session import Session

NAME_BYTES_MAX = 63
_PLAIN = re.compile(r"[A-Za-z0-9_]{1,63}")
_COLUMNS = """
WITH RECURSIVE plain(oid, base, modifier) AS (
  SELECT oid, oid, -1 FROM pg_type
  UNION ALL
  SELECT plain.oid, t.typbasetype, t.typtypmod FROM plain JOIN pg_type t ON t.oid = plain.base
  WHERE t.typtype = 'd')
SELECT a.attname, format_type(a.atttypid, a.atttypmod), b.typname, b.oid,
  CASE WHEN a.atttypmod >= 0 THEN a.atttypmod ELSE plain.modifier END, b.typtype = 'e',
  e.typname, e.oid, e.typtype = 'e', a.attnotnull, a.atthasdef,
  a.attidentity::text, a.attgenerated::text
FROM pg_attribute a
JOIN plain ON plain.oid = a.atttypid
JOIN pg_type b ON b.oid = plain.base AND b.typtype <> 'd'
LEFT JOIN pg_type e ON b.typcategory = 'A' AND e.oid = b.typelem
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_UNIQUE = """
SELECT array_agg(a.attname::text), i.indimmediate, c.relname::text FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_attribute a ON a.attrelid = i.indrelid AND
  a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid, c.relname, i.indimmediate"""
_CHECKS = """
SELECT conname, pg_get_constraintdef(c.oid),
  ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = conrelid AND attnum = ANY(conkey))
FROM pg_constraint c WHERE conrelid = %s AND contype = 'c' AND convalidated"""
_TABLE = """
SELECT c.oid, c.relkind::text, EXISTS (SELECT FROM pg_trigger t
    WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND (t.tgtype & 7) = 7),
  ARRAY(SELECT p FROM unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'SELECT']) p
    WHERE has_table_privilege(c.oid, p))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind NOT IN ('i', 'I', 'c', 't')"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is there; `filled`: a row may leave it out."""

    found: FoundType
    not_null: bool
    filled: bool
    generated: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is there; `checks` are constraints (name, SQL, columns), `unique` columns that
    tell rows apart, with the name of a constraint that is looked at too late, if there is one.

    With `triggers` that run before a row is inserted nothing is known of what it must hold.
    """

    kind: str
    triggers: bool
    may: frozenset[str]
    columns: dict[str, Column] = field(default_factory=dict)
    unique: dict[frozenset[str], str] = field(default_factory=dict)
    checks: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows are written: `types` of the columns in order, and further SQL of a staging table.

    `not_null` are columns that must hold a value, `checks` constraints over these columns: what
    breaks them is refused when it is written, and not when its checkpoint is complete.
    """

    types: tuple[ColumnType, ...]
    not_null: frozenset[str] = frozenset()
    checks: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [one.name for one in self.types]


def quoted(name: str) -> str:
    """A name as SQL.

    >>> print(quoted('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    """Names as SQL, with commas."""
    return ", ".join(map(quoted, names))


def table_name(target: PostgresTarget) -> str:
    """The table as SQL."""
    return f"{quoted(target.schema)}.{quoted(target.table)}"


def check_name(name: str, what: str) -> str:
    """Refuse a name that a server can't have, or would cut."""
    if not name or "\0" in name or len(name.encode()) > NAME_BYTES_MAX:
        raise PlanError(
            f"{what} {name[:80]!r} must have 1 to {NAME_BYTES_MAX} bytes and no zero byte, as "
            "names in PostgreSQL do"
        )
    return name


def look(session: Session, target: PostgresTarget) -> Table | None:
    """The table; None: there is none of that name."""
    if not (found := session.ask(_TABLE, target.schema, target.table)):
        return None
    oid, kind, triggers, may = found[0]
    columns = {}
    for (name, sql, base, base_oid, modifier, label, element, element_oid, element_label, not_null,
         default, identity, generated) in session.ask(_COLUMNS, oid):  # fmt: skip
        inner = None
        if element is not None:
            inner = FoundType(element, "", element_oid, modifier, element_label)
        dtype = FoundType(base, sql, base_oid, modifier, label, inner)
        kept = "identity" if identity == "a" else "generated" if generated else ""
        columns[name] = Column(dtype, not_null, not not_null or default or bool(identity), kept)
    known = session.ask(_UNIQUE, oid)
    unique = {frozenset(names): "" for names, *_ in known}
    unique |= {frozenset(names): name for names, immediate, name in known if not immediate}
    checks = tuple((name, sql, tuple(of)) for name, sql, of in session.ask(_CHECKS, oid))
    return Table(kind, triggers, frozenset(may), columns, unique, checks)


def written_columns(target: PostgresTarget, schema: pa.Schema) -> pa.Schema:
    """What becomes columns: all but the kind of a change."""
    return pa.schema([each for each in schema if each.name != target.kind])


def layout_of(target: PostgresTarget, schema: pa.Schema, table: Table | None) -> Layout:
    """How rows of `schema` are written to a table that is there, or will be made.

    Raises
    ------
    PlanError
        They can't be; it says how the table or the plan is mended.
    """
    columns = written_columns(target, schema)
    for name in (target.schema, target.table, *columns.names):
        check_name(name, "the name")
    if not _PLAIN.fullmatch(target.staging):
        raise PlanError(f"staging must be 1 to 63 letters, digits or '_', got {target.staging!r}")
    if table is None:
        return Layout(tuple(made_type(f.type, f.name) for f in columns), frozenset(target.key))
    _check_kind(target, table)
    types = tuple(_column(target, table, each) for each in columns)
    _check_rest(target, table, columns)
    if table.triggers:
        return Layout(types, frozenset(target.key))
    not_null = {name for name in columns.names if table.columns[name].not_null}
    checks = tuple(
        f"CONSTRAINT {quoted(name)} {sql}"
        for name, sql, of in table.checks
        if set(of) <= set(columns.names)
    )
    return Layout(types, frozenset({*not_null, *target.key}), checks)


def create_sql(target: PostgresTarget, layout: Layout) -> str:
    """The table that is made."""
    parts = [f"{quoted(one.name)} {one.sql}" for one in layout.types]
    if target.key:
        parts.append(f"PRIMARY KEY ({listed(target.key)})")
    return f"CREATE TABLE {table_name(target)} ({', '.join(parts)})"


def _check_kind(target: PostgresTarget, table: Table) -> None:
    name = table_name(target)
    if table.kind not in "rp":
        raise PlanError(f"{name} is not a table; write to the underlying table")
    needed = {"INSERT"}
    needed |= {"UPDATE", "SELECT"} if target.key else set()
    needed |= {"DELETE"} if target.kind or target.mode == "overwrite" else set()
    if missing := sorted(needed - table.may):
        raise PlanError(
            f"the database user has no {', '.join(missing)} privilege on {name}; have its owner "
            f"run: GRANT {', '.join(missing)} ON {name} TO {quoted(_user(target))};"
        )


def _column(target: PostgresTarget, table: Table, given: pa.Field) -> ColumnType:
    name, where = given.name, table_name(target)
    found = table.columns.get(name)
    if found is None:
        near = [other for other in table.columns if other.lower() == name.lower()]
        way = f"; it has {near[0]!r}, rename the column to that" if near else ""
        sql = f"ALTER TABLE {where} ADD COLUMN {quoted(name)} {made_type(given.type, name).sql};"
        raise PlanError(
            f"the table {where} has no column {name!r}{way or f'; leave it out, or run: {sql}'}"
        )
    if found.generated:
        raise PlanError(
            f"column {name!r} of {where} is generated by the database ({found.generated}); leave "
            f"it out: .drop({name!r})"
        )
    fits = fitting_type(given.type, name, found.found)
    if fits is None:
        made = made_type(given.type, name).sql
        raise PlanError(
            f"column {name!r} of type {given.type} does not fit into {found.found.sql} of {where}; "
            f"cast it, or run: ALTER TABLE {where} ALTER COLUMN {quoted(name)} TYPE {made} "
            f"USING {quoted(name)}::{made};"
        )
    return fits


def _check_rest(target: PostgresTarget, table: Table, columns: pa.Schema) -> None:
    """What rows don't have, and what they are known by."""
    where = table_name(target)
    for name, found in table.columns.items():
        if name not in columns.names and not found.filled and not table.triggers:
            raise PlanError(
                f"column {name!r} of {where} is NOT NULL without a default, and the rows do not "
                f"have it; add it to them, or run: ALTER TABLE {where} ALTER COLUMN "
                f"{quoted(name)} DROP NOT NULL;  (or SET DEFAULT …)"
            )
    if target.key and frozenset(target.key) not in table.unique:
        raise PlanError(
            f"{where} has no unique constraint on ({listed(target.key)}), "
            f"which upserts need; run: ALTER TABLE {where} ADD UNIQUE "
            f"({listed(target.key)});"
        )
    if late := table.unique.get(frozenset(target.key), ""):
        raise PlanError(
            f"the constraint {late} of {where} is deferrable, and upserts need one that is "
            f"not; run: ALTER TABLE {where} DROP CONSTRAINT {quoted(late)}, ADD UNIQUE "
            f"({listed(target.key)});"
        )


def _user(target: PostgresTarget) -> str:
    return dict(target.settings).get("user", "")
