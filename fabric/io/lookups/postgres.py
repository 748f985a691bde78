"""Lookups in PostgreSQL by one query for several keys: `postgres`.

One job: `PostgresLookup`. The query gets the values of each key column as an array, and gives the
key columns first; so one question has the answers for all rows of a call. psycopg is imported in
the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fabric.errors import DataError, ExternalError, PlanError
from fabric.io.lookups.lookup import CACHE_ROWS, CACHE_S, Found, Key, Lookup, Missing
from fabric.io.postgres.access import conninfo, parameters_of, shown
from fabric.plan.targets import PostgresTarget

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

CONNECTIONS_MAX = 4


def postgres(
    query: str,
    *,
    dsn: str,
    key: str | Sequence[str],
    password: str = "",
    insecure: bool = False,
    connections: int = CONNECTIONS_MAX,
    cache_rows: int = CACHE_ROWS,
    cache_s: float = CACHE_S,
    missing: Missing = "null",
) -> PostgresLookup:
    """Ask PostgreSQL about the keys of rows, for `DataFrame.map_async`.

    Parameters
    ----------
    query
        One SELECT, whose first columns are the key and whose others are the answer. Each key column
        is an array in it, such as ``%(customer)s``: ``WHERE id = ANY(%(customer)s)``. A key may
        have several rows: all of them come out.
    dsn, password, insecure
        The address, see `fabric.streams.to_postgres`.
    connections
        At most so many of each task.
    cache_rows, cache_s, missing
        See `fabric.lookups.Lookup`.

    Examples
    --------
    >>> from fabric import lookups
    >>> lookups.postgres(
    ...     "SELECT id, name FROM customers WHERE id = ANY(%(customer)s)",
    ...     dsn="postgresql://ann:secret@db.example/sales", key="customer",
    ... )
    lookups.postgres('postgresql://ann@db.example/sales', key=['customer'])
    """
    settings, secrets = parameters_of(dsn, password, insecure=insecure, verb="lookups.postgres")
    target = PostgresTarget("lookup", settings=settings, secrets=secrets, insecure=insecure)
    return PostgresLookup(
        query, target, key, connections=connections, cache_rows=cache_rows, cache_s=cache_s,
        missing=missing,
    )  # fmt: skip


class PostgresLookup(Lookup):
    """See `postgres`."""

    def __init__(
        self, query: str, target: PostgresTarget, key: str | Sequence[str], *,
        connections: int, cache_rows: int, cache_s: float, missing: Missing,
    ) -> None:  # fmt: skip
        super().__init__(key, cache_rows=cache_rows, cache_s=cache_s, missing=missing)
        for name in self.key:
            if f"%({name})s" not in query:
                raise PlanError(
                    f"the query of a lookup has no %({name})s; write: … WHERE id = ANY(%({name})s)"
                )
        if connections < 1:
            raise PlanError(f"a lookup needs at least one connection, got {connections}")
        self._query, self._target, self._connections = query, target, connections
        self._columns: list[str] = []
        self._pool: AsyncConnectionPool[Any] | None = None

    def columns(self) -> Sequence[str]:
        """See `Lookup`."""
        return self._columns

    async def open(self) -> None:
        """Connect, and ask about no key: the columns of an answer are known then."""
        from psycopg_pool import AsyncConnectionPool, PoolTimeout

        pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
            conninfo(self._target), min_size=1, max_size=self._connections, open=False,
            kwargs={"autocommit": True},
        )  # fmt: skip
        self._pool = pool
        try:
            await pool.open(wait=True, timeout=30.0)
        except PoolTimeout:
            place = shown(self._target.settings)
            raise ExternalError(f"{place} can't be reached, or lets nobody in") from None
        await self._ask([])

    async def close(self) -> None:
        """Close all connections."""
        if self._pool is not None:
            await self._pool.close()

    async def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Found]:
        """One query."""
        n_keys = len(self.key)
        found: dict[Key, Found] = {key: [] for key in keys}
        for row in await self._ask(keys):
            key = tuple(row[:n_keys])
            if key not in found:
                raise DataError(
                    f"the query of a lookup gave the key {key!r}, and was asked for such as "
                    f"{keys[0]!r}; let it begin with the key columns, and cast them in it to the "
                    "types that the rows have"
                )
            found[key].append(dict(zip(self._columns, row[n_keys:], strict=True)))
        return found

    def __repr__(self) -> str:
        return f"lookups.postgres({shown(self._target.settings)!r}, key={list(self.key)})"

    async def _ask(self, keys: Sequence[Key]) -> list[tuple[Any, ...]]:
        from psycopg import Error, InterfaceError, OperationalError

        assert self._pool is not None, "it is open"
        values = {name: [key[i] for key in keys] for i, name in enumerate(self.key)}
        place = shown(self._target.settings)
        try:
            async with self._pool.connection() as connection:
                cursor = await connection.execute(self._query, values)
                rows: list[tuple[Any, ...]] = await cursor.fetchall()
        except (OperationalError, InterfaceError) as error:
            raise ExternalError(f"{place} did not answer: {_text(error)}") from error
        except Error as error:
            raise DataError(f"{place} refused the query: {_text(error)}") from error
        names = [column.name for column in cursor.description or ()]
        if len(names) <= len(self.key):
            raise DataError(
                f"the query of a lookup gives the key ({', '.join(self.key)}) and then the answer, "
                f"and this one gives {', '.join(names) or 'nothing'}"
            )
        self._columns = names[len(self.key) :]
        return rows


def _text(error: Exception) -> str:
    return str(error).partition("\n")[0]
