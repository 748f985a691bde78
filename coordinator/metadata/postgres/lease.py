"""The lease of the leader: one row.

One job: `PostgresLease`, which asks what `coordinator.core.election` wants to know. Each answer is
the row as it is afterwards. An answer that was lost does no harm: whoever holds the lease may take
it again, under a higher epoch.
"""

from __future__ import annotations

from psycopg.errors import LockNotAvailable
from psycopg.rows import class_row

from fabric.coordinator.election.election import Ask, Lease, Look, Renew, Take
from fabric.coordinator.metadata.postgres.database import Database
from fabric.errors import StorageAwayError

_FIELDS = """epoch, holder, address, renewals,
extract(epoch FROM expires_at - clock_timestamp())::float8 AS left_s"""
_END = "clock_timestamp() + make_interval(secs => %(lease_s)s)"
_READ = f"SELECT {_FIELDS} FROM lease"
_TAKE = f"""UPDATE lease SET epoch = epoch + 1, holder = %(holder)s, address = %(address)s,
expires_at = {_END}, renewals = 0, n_writes = 0
WHERE expires_at <= clock_timestamp() OR holder = %(holder)s
OR (epoch = %(epoch)s AND renewals = %(renewals)s) RETURNING {_FIELDS}"""
_RENEW = f"""UPDATE lease SET expires_at = {_END}, renewals = renewals + 1
WHERE epoch = %(epoch)s AND holder = %(holder)s RETURNING {_FIELDS}"""
# A coordinator that was stopped in the middle of a write holds the row; nothing tells the server.
_FREE = """SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE relation = 'lease'::regclass AND mode = 'RowExclusiveLock' AND granted
AND pid <> pg_backend_pid() AND xact_start < clock_timestamp() - interval '3 s'"""
_RELEASE = """UPDATE lease SET expires_at = clock_timestamp(), address = ''
WHERE epoch = %(epoch)s AND holder = %(holder)s"""


class PostgresLease:
    """The lease as the candidate `holder` sees it, who serves at `address`."""

    def __init__(self, database: Database, holder: str, address: str, lease_s: float) -> None:
        self._database = database
        self._own = {"holder": holder, "address": address, "lease_s": lease_s}

    def ask(self, ask: Ask) -> Lease:
        """Do it, and say how the lease is then; or `StorageError`."""
        match ask:
            case Take(stale=stale):
                epoch, renewals = stale or (-1, -1)
                try:
                    return self._try(_TAKE, {"epoch": epoch, "renewals": renewals})
                except StorageAwayError as error:
                    if isinstance(error.__cause__, LockNotAvailable):
                        self._free()
                    raise
            case Renew(epoch=epoch):
                return self._try(_RENEW, {"epoch": epoch})
            case Look():
                return self._try(_READ, {})

    def release(self, epoch: int) -> None:
        """Let others have it at once."""
        with self._database.connection() as connection:
            connection.execute(_RELEASE, {**self._own, "epoch": epoch})

    def _free(self) -> None:
        """End the sessions that keep the row from us; the next time it can be taken."""
        with self._database.connection() as connection:
            connection.execute(_FREE)

    def _try(self, statement: str, values: dict[str, int]) -> Lease:
        with self._database.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(Lease))
            found = cursor.execute(statement.encode(), {**self._own, **values}).fetchone()
            found = found or cursor.execute(_READ).fetchone()
        assert found is not None, "the row is made with the table, and nobody may delete it"
        return found
