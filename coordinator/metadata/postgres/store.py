"""The metadata store of several coordinators: PostgreSQL.

One job: `PostgresStore`. A write is one transaction in one round trip: `fence` first, then one
statement a table. An answer that was lost is asked for again by writing again, under the next
number: `fence` lets nothing with a lower number land afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from psycopg.sql import SQL, Composed, Identifier
from psycopg_pool import PoolTimeout

from fabric.coordinator.metadata.postgres.database import Connection, Database
from fabric.coordinator.metadata.projection import TABLES_SQL, row_of
from fabric.coordinator.metadata.store import TABLES, Table, Write, fenced, last_of_each
from fabric.errors import FencedError, StorageAwayError

Changes = dict[tuple[Table, str], bytes | None]

_BEGIN = """UPDATE lease SET epoch = epoch + 1, holder = '', address = '', renewals = 0,
n_writes = 0, expires_at = to_timestamp(0) RETURNING epoch"""
# A second store under one epoch begins far behind the numbers of the first, whose last write may
# still be on its way.
_RESUME = "UPDATE lease SET n_writes = n_writes + 1000000 WHERE epoch = %s RETURNING n_writes"


class PostgresStore:
    """See `MetadataStore`; `open` it first. The database is closed with the store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._epoch = self._n_writes = 0

    def apply(self, writes: Sequence[Write]) -> None:
        """See `MetadataStore.apply`; tries twice, since a kept connection may have been cut."""
        changes = last_of_each(writes)
        with self._lock:
            try:
                self._write(changes)
            except StorageAwayError as error:
                if isinstance(error.__cause__, PoolTimeout):  # no connection in all that time
                    raise
                self._write(changes)

    def scan(self, table: Table) -> Iterator[tuple[str, bytes]]:
        """See `MetadataStore.scan`."""
        with self._database.connection() as connection:
            rows = connection.cursor(binary=True).execute(_SCAN[table]).fetchall()
        return iter([(key, bytes(record)) for key, record in rows])

    def next_epoch(self) -> int:
        """See `MetadataStore.next_epoch`; whoever held the lease has lost it."""
        with self._lock, self._database.connection() as connection:
            (epoch,) = connection.execute(_BEGIN).fetchone() or (0,)
            self._epoch, self._n_writes = int(epoch), 0
            return self._epoch

    def open(self, epoch: int = 0) -> None:
        """Connect and, if it is given, write under an epoch that was begun with the lease."""
        self._database.open()
        try:
            if epoch:
                self._resume(epoch)
        except BaseException:
            self.close()
            raise

    def _resume(self, epoch: int) -> None:
        with self._lock, self._database.connection() as connection:
            row = connection.execute(_RESUME, [epoch]).fetchone()
            if row is None:
                raise FencedError(fenced(epoch, self._newest()))
            self._epoch, self._n_writes = epoch, int(row[0])

    def close(self) -> None:
        """See `MetadataStore.close`."""
        self._database.close()

    def _write(self, changes: Changes) -> None:
        self._n_writes += 1
        try:
            # without a BEGIN, what is in one pipeline is one transaction, and one round trip
            with self._database.connection() as connection, connection.pipeline():
                connection.execute("SELECT fence(%s, %s)", [self._epoch, self._n_writes])
                _put(connection, changes)
        except FencedError:
            raise FencedError(fenced(self._epoch, self._newest())) from None

    def _newest(self) -> int:
        with self._database.connection() as connection:
            (epoch,) = connection.execute("SELECT epoch FROM lease").fetchone() or (0,)
            return int(epoch)


def _put(connection: Connection, changes: Changes) -> None:
    """One statement for the records of a table, one for what is deleted from it."""
    in_order = sorted(changes.items(), key=itemgetter(0))
    for table, items in groupby(in_order, key=lambda item: item[0][0]):
        rows, gone = [], []
        for (_, key), record in items:
            if record is None:
                gone.append(key)
            else:
                rows.append(row_of(table, key, record))
        if rows:
            columns = [list(column) for column in zip(*rows, strict=True)]
            connection.cursor(binary=True).execute(_UPSERT[table], columns)
        if gone:
            connection.execute(_DELETE[table], [gone])


def _upsert(table: Table) -> Composed:
    columns = TABLES_SQL[table]
    types = {columns.key: "text", "record": "bytea", **columns.types}
    values = [name for name in types if name != columns.key]
    return SQL(
        "INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays}) ON CONFLICT ({key}) "
        "DO UPDATE SET {changes}"
    ).format(
        table=Identifier(table),
        names=SQL(", ").join(map(Identifier, types)),
        arrays=SQL(", ").join(SQL("%s::" + kind + "[]") for kind in types.values()),
        key=Identifier(columns.key),
        changes=SQL(", ").join(
            SQL("{0} = excluded.{0}").format(Identifier(name)) for name in values
        ),
    )


_UPSERT = {table: _upsert(table) for table in TABLES}
_SCAN = {
    table: SQL("SELECT {key}, record FROM {table} ORDER BY {key}").format(
        key=Identifier(TABLES_SQL[table].key), table=Identifier(table)
    )
    for table in TABLES
}
_DELETE = {
    table: SQL("DELETE FROM {} WHERE {} = ANY(%s)").format(
        Identifier(table), Identifier(TABLES_SQL[table].key)
    )
    for table in TABLES
}
