"""What lies in a database and is not seen yet, and what is known to have been published.

    fabric_sink.sinks       a sink of a job: which run of it may write, whether it made its table
    fabric_sink.published   how far the rows of a task are in the table: run and barrier
    fabric_sink."<sink>.<task>.<run>.<barrier>"   rows of one task between two barriers

One job: the SQL about these. Staging tables are logged: what a complete checkpoint has survives a
crash of the server. Who moves or removes rows holds the sink's lock, which ends with the
connection; a writer of an older run finds that a newer one has begun, and commits nothing. What
nobody came back to for `KEPT_DAYS` is removed by whoever begins next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from fabric.errors import CancelledError, PlanError
from fabric.io.postgres.access import shown
from fabric.io.postgres.session import Session
from fabric.io.postgres.table import Layout, listed, quoted, table_name
from fabric.plan.targets import PostgresTarget

KEPT_DAYS = 7
"""So long a sink is remembered that nothing was heard of."""
ROW, KIND = "__fabric_row", "__fabric_kind"
"""Of staged upserts: the place in their order; 1 for a row that is put, -1 for one that goes."""
Place = tuple[int, int]
"""A run, and the barrier that a portion came behind; grows with each portion of a task."""

_TABLES = """
CREATE TABLE IF NOT EXISTS {sinks} (
  sink text PRIMARY KEY, target text NOT NULL, run bigint NOT NULL,
  made boolean NOT NULL DEFAULT false, ended boolean NOT NULL DEFAULT false,
  seen_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS {published} (
  sink text, task integer, run bigint NOT NULL, barrier bigint NOT NULL,
  published_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (sink, task))"""
_BEGUN = """
INSERT INTO {sinks} AS s (sink, target, run) VALUES (%s, %s, %s)
ON CONFLICT (sink) DO UPDATE SET run = greatest(s.run, excluded.run), seen_at = now(),
  ended = s.ended AND s.run >= excluded.run RETURNING run, ended"""
_MARKED = """
INSERT INTO {published} (sink, task, run, barrier) VALUES (%s, %s, %s, %s)
ON CONFLICT (sink, task) DO UPDATE
SET run = excluded.run, barrier = excluded.barrier, published_at = now()"""
_LISTED = """
SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r'
  AND starts_with(relname::text, %s) ORDER BY 1"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


class Staging:
    """What one sink of a job (``job.stage``) has there; nothing is committed here."""

    def __init__(self, session: Session, target: PostgresTarget, sink: str) -> None:
        self._session, self._target, self._sink = session, target, sink
        area = quoted(target.staging)
        self._sinks, self._published = f'{area}."sinks"', f'{area}."published"'

    # ---- who may write

    def make(self) -> None:
        """Have Fabric's own tables there."""
        area = quoted(self._target.staging)
        if self._session.ask("SELECT to_regclass(%s)", self._published)[0][0] is None:
            self._session.ask(_LOCK, f"fabric make {area}")
            if self._session.ask("SELECT to_regnamespace(%s)", area)[0][0] is None:
                self._session.ask(f"CREATE SCHEMA {area}")
            self._session.ask(_TABLES.format(sinks=self._sinks, published=self._published))

    def lock(self) -> None:
        """Until the end of the transaction nobody else moves or removes rows of this sink."""
        self._session.ask(_LOCK, f"fabric sink {self._sink}")

    def begin(self, run: int) -> None:
        """Have this run write, and none before it.

        Raises
        ------
        CancelledError
            A newer one does, or the job has ended.
        """
        self._check(self._session.ask(
            _BEGUN.format(sinks=self._sinks), self._sink, table_name(self._target), run
        ), run)  # fmt: skip

    def fence(self, run: int) -> None:
        """Refuse to go on unless this run may still write; a newer one waits for the commit."""
        found = self._session.ask(
            f"SELECT run, ended FROM {self._sinks} WHERE sink = %s FOR SHARE", self._sink
        )
        if found:
            self._check(found, run)
        else:  # nothing was heard of the sink for so long that it was forgotten
            self.begin(run)

    def _check(self, found: list[tuple[int, bool]], run: int) -> None:
        ((newest, ended),) = found
        if newest > run or ended:
            raise CancelledError(
                f"another run of this job writes to {table_name(self._target)} at "
                f"{shown(self._target.settings)}, or the job has ended"
            )

    def is_maker(self) -> bool:
        """Whether this sink made the table."""
        return bool(
            self._session.ask(f"SELECT FROM {self._sinks} WHERE sink = %s AND made", self._sink)
        )

    def set_maker(self) -> None:
        """Remember that it did."""
        self._session.ask(f"UPDATE {self._sinks} SET made = true WHERE sink = %s", self._sink)

    def end(self) -> None:
        """The job has ended: who comes late may not write."""
        self._session.ask(f"UPDATE {self._sinks} SET ended = true WHERE sink = %s", self._sink)

    # ---- rows

    def name(self, task: int, last: str) -> str:
        """A staging table's name; `last` is a place, or the attempt of a bounded job's task."""
        return f"{_prefix(self._sink)}{task}.{last}"

    def create(self, name: str, layout: Layout) -> None:
        """Make a staging table: what breaks a constraint is refused as it is written."""
        parts = [
            f"{quoted(one.name)} {one.sql}{' NOT NULL' if one.name in layout.not_null else ''}"
            for one in layout.types
        ]
        self._session.ask(
            f"CREATE TABLE {self.path(name)} ({', '.join([*parts, *layout.checks])}) "
            "WITH (autovacuum_enabled = false)"
        )

    def path(self, name: str) -> str:
        """A staging table as SQL."""
        return f"{quoted(self._target.staging)}.{quoted(name)}"

    def staged(self, begin: str = "") -> list[str]:
        """The staging tables of this sink whose names go on with `begin`."""
        area = quoted(self._target.staging)
        return [name for (name,) in self._session.ask(_LISTED, area, _prefix(self._sink) + begin)]

    def drop(self, names: Iterable[str]) -> None:
        """Remove staging tables, those that are there."""
        for name in names:
            self._session.ask(f"DROP TABLE IF EXISTS {self.path(name)}")

    def drop_older(self, task: int, run: int) -> None:
        """Remove what earlier runs of a task staged: all they owed is published."""
        names = self.staged(f"{task}.")
        self.drop(name for name in names if _run_of(name) < run)

    def move(self, name: str, columns: Iterable[str]) -> None:
        """Put staged rows into the table: the last of each key, in the order they came."""
        target, path = self._target, self.path(name)
        into, names = table_name(target), list(columns)
        if not target.key:
            self._session.ask(
                f"INSERT INTO {into} ({listed(names)}) SELECT {listed(names)} FROM {path}"
            )
            return
        keys = listed(target.key)
        last = f"(SELECT DISTINCT ON ({keys}) * FROM {path} ORDER BY {keys}, {quoted(ROW)} DESC)"
        kept = ""
        if target.kind:
            same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in target.key)
            self._session.ask(
                f"DELETE FROM {into} t USING {last} s WHERE s.{quoted(KIND)} < 0 AND {same}"
            )
            kept = f" WHERE s.{quoted(KIND)} > 0"
        rest = [name for name in names if name not in target.key]
        puts = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in rest)
        self._session.ask(
            f"INSERT INTO {into} ({listed(names)}) SELECT {listed(names)} FROM {last} s{kept} "
            f"ON CONFLICT ({keys}) DO {f'UPDATE SET {puts}' if puts else 'NOTHING'}"
        )

    # ---- what is published

    def published(self) -> Mapping[int, Place]:
        """How far each task's rows are in the table."""
        rows = self._session.ask(
            f"SELECT task, run, barrier FROM {self._published} WHERE sink = %s", self._sink
        )
        return {task: (run, barrier) for task, run, barrier in rows}

    def set_published(self, task: int, place: Place) -> None:
        """Write down that the rows up to a portion are in the table."""
        self._session.ask(_MARKED.format(published=self._published), self._sink, task, *place)
        self._session.ask(f"UPDATE {self._sinks} SET seen_at = now() WHERE sink = %s", self._sink)

    def sweep(self) -> None:
        """Forget the sinks that nothing was heard of for so long, and remove what they staged."""
        old = self._session.ask(
            f"SELECT sink FROM {self._sinks} WHERE seen_at < now() - make_interval(days => %s) "
            "AND pg_try_advisory_xact_lock(hashtextextended('fabric sink ' || sink, 0)) LIMIT 20",
            KEPT_DAYS,
        )
        for (sink,) in old:
            other = Staging(self._session, self._target, sink)
            other.drop(other.staged())
            for table in (self._published, self._sinks):
                self._session.ask(f"DELETE FROM {table} WHERE sink = %s", sink)


def check_area(session: Session, target: PostgresTarget) -> None:
    """Refuse, before a job starts, a database that has no room for what is staged.

    Raises
    ------
    PlanError
        It says what its owner is to run.
    """
    area, user = quoted(target.staging), quoted(dict(target.settings).get("user", ""))
    ((there, may_use, may_make, standby, version),) = session.ask(
        "SELECT n IS NOT NULL, has_schema_privilege(n, 'USAGE') AND "
        "has_schema_privilege(n, 'CREATE'), has_database_privilege(current_database(), 'CREATE'), "
        "pg_is_in_recovery(), current_setting('server_version_num')::int "
        "FROM (SELECT to_regnamespace(%s)::oid n) found",
        area,
    )
    where = shown(target.settings)
    if version < 130_000:
        raise PlanError(
            f"{where} is PostgreSQL {version // 10_000}; version 13 or newer is required"
        )
    if standby:
        raise PlanError(f"{where} is a read-only standby; use the address of the primary server")
    if not there and not may_make:
        raise PlanError(
            f"rows are staged in the schema {target.staging} until their checkpoint is complete, "
            f"and the database user may not create it; have the owner of the database run: CREATE "
            f"SCHEMA {area} AUTHORIZATION {user};"
        )
    if there and not may_use:
        raise PlanError(
            f"rows are staged in the schema {target.staging}, which the database user may not "
            f"write; have its owner run: GRANT USAGE, CREATE ON SCHEMA {area} TO {user};  or use "
            "another schema: staging="
        )


def _prefix(sink: str) -> str:
    """What the names of a sink's staging tables begin with."""
    short = sink if len(sink) <= 30 else hashlib.sha256(sink.encode()).hexdigest()[:24]
    return f"{short}:"


def _run_of(name: str) -> int:
    return int(name.rpartition(":")[2].split(".")[1])
