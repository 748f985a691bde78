"""The schema and how it came to be: numbered steps, forward only.

One job: `migrate`, run by hand by a role that owns the schema (``fabric metadata migrate``), and
`check_version`, which a coordinator does at its start. All missing steps are made in one
transaction, or none; a schema with steps this version does not know is refused by both.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from fabric.errors import StorageError

_TASK = """
    record bytea NOT NULL, job_id text, operator_id text, agent_id text, status text,
    started_at timestamptz, completed_at timestamptz, stage bigint, task bigint, attempt bigint,
    epoch bigint, error text"""

# There are no foreign keys: the columns beside a record only show what it says, and a coordinator
# writes records of several tables in any order. Keys sort as bytes, as in every other store.
_FIRST = f"""
CREATE TABLE jobs (
    job_id text COLLATE "C" PRIMARY KEY, record bytea NOT NULL, job_name text, status text,
    created_at timestamptz, completed_at timestamptz, client_key text, run bigint, error text);
CREATE INDEX jobs_created_at ON jobs (created_at);
CREATE TABLE plans (plan_id text COLLATE "C" PRIMARY KEY, record bytea NOT NULL, job_id text);
CREATE TABLE tasks (task_id text COLLATE "C" PRIMARY KEY, {_TASK});
CREATE TABLE attempts (attempt_id text COLLATE "C" PRIMARY KEY, {_TASK});
CREATE TABLE agents (
    agent_id text COLLATE "C" PRIMARY KEY, record bytea NOT NULL, host text, port bigint,
    status text, last_heartbeat timestamptz, address text, slots bigint, version text);
CREATE TABLE datasets (
    name text COLLATE "C" PRIMARY KEY, record bytea NOT NULL, version bigint, n_partitions bigint,
    n_rows bigint);
CREATE TABLE transactions (transaction_id text COLLATE "C" PRIMARY KEY, record bytea NOT NULL);
CREATE TABLE events (
    event_id text COLLATE "C" PRIMARY KEY, record bytea NOT NULL, happened_at timestamptz,
    kind text, job_id text, agent_id text, who text, message text, epoch bigint);
CREATE TABLE checkpoints (
    checkpoint_id text COLLATE "C" PRIMARY KEY, record bytea NOT NULL, job_id text);

-- Who leads: one row. epoch only rises; n_writes counts the writes of an epoch.
CREATE TABLE lease (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    epoch bigint NOT NULL DEFAULT 0, holder text NOT NULL DEFAULT '',
    address text NOT NULL DEFAULT '', expires_at timestamptz NOT NULL DEFAULT to_timestamp(0),
    renewals bigint NOT NULL DEFAULT 0, n_writes bigint NOT NULL DEFAULT 0);
INSERT INTO lease DEFAULT VALUES;

-- The first statement of every write. It holds the row until the commit, so nobody can begin an
-- epoch in between; and what a broken connection left behind can't land after a later write.
CREATE FUNCTION fence(my_epoch bigint, my_write bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lease SET n_writes = my_write WHERE epoch = my_epoch AND n_writes < my_write;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fenced' USING ERRCODE = 'FB001';
    END IF;
END $$;
"""

STEPS: tuple[str, ...] = (_FIRST,)
"""Step n makes version n of what version n - 1 left; never changed once released."""

_LOCK = 0x_FAB81C


def migrate(connection: psycopg.Connection[Any], schema: str) -> int:
    """Make `schema` what this version expects; how many steps that took."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, "
            "made_at timestamptz NOT NULL DEFAULT now())"
        )
        version = _version(connection)
        _refuse_newer(version, schema)
        for number, step in enumerate(STEPS[version:], version + 1):
            connection.execute(step.encode())
            connection.execute("INSERT INTO migrations (version) VALUES (%s)", [number])
    return len(STEPS) - version


def check_version(connection: psycopg.Connection[Any], schema: str) -> None:
    """`StorageError` unless `schema` is what this version expects."""
    try:
        version = _version(connection)
    except psycopg.errors.UndefinedTable:
        version = 0
    _refuse_newer(version, schema)
    if version < len(STEPS):
        raise StorageError(
            f"the schema {schema} is at version {version}, this coordinator needs {len(STEPS)}; "
            "run `fabric metadata migrate` as the role that owns it"
        )


def grants(schema: str, role: str) -> str:
    """SQL that lets `role` run a coordinator: it can read and write rows, and change no table.

    >>> print(grants("fabric", "runner").splitlines()[0])
    GRANT USAGE ON SCHEMA "fabric" TO "runner";
    """
    where, who = (sql.Identifier(name).as_string() for name in (schema, role))
    return (
        f"GRANT USAGE ON SCHEMA {where} TO {who};\n"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {where} TO {who};\n"
        f"REVOKE INSERT, UPDATE, DELETE ON {where}.migrations FROM {who};\n"
        f"REVOKE INSERT, DELETE ON {where}.lease FROM {who};\n"
        f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {where} TO {who};\n"
    )


def _version(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchone()
    assert row is not None
    return int(row[0])


def _refuse_newer(version: int, schema: str) -> None:
    if version > len(STEPS):
        raise StorageError(
            f"the schema {schema} was made by a newer Fabric: it is at version {version}, this one "
            f"knows up to {len(STEPS)}; update this coordinator"
        )
