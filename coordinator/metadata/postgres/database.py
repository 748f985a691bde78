"""Connections to one schema, and what their errors mean.

One job: `Database`. Everything asked of it ends within `ANSWER_S`, also when the server hangs; an
error that may pass is a `StorageAwayError`, every other one a `StorageError`. No error tells more
of the server than `shown` does.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen
from psycopg_pool import ConnectionPool, PoolTimeout

from fabric.coordinator.metadata.postgres.address import parameters_of, shown
from fabric.coordinator.metadata.postgres.migrations import check_version, grants, migrate
from fabric.errors import ConfigError, FencedError, StorageAwayError, StorageError

CONNECT_S = 2
ANSWER_S = 8.0
FENCED = "FB001"
_CONNECTIONS = 4
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
# SQLSTATE classes of what may pass: connection lost, transaction rolled back, out of disk, memory
# or connections, locked for too long, shut down, system error.
_PASSING = ("08", "40", "53", "55", "57", "58")
_READ_ONLY = "25006"  # of a server that became, or is not yet, a standby
_OPTIONS = (
    "-c search_path={schema} -c statement_timeout=6s -c lock_timeout=4s "
    "-c idle_in_transaction_session_timeout=4s -c synchronous_commit=on -c timezone=UTC "
    "-c client_min_messages=warning"
)

Connection = psycopg.Connection[tuple[Any, ...]]

logging.getLogger("psycopg").addHandler(logging.NullHandler())  # callers hear of it by errors


class _Punctual(psycopg.Connection[Any]):
    """A connection that is given up when the server does not answer."""

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """See `psycopg.Connection.wait`."""
        try:
            return super().wait(gen, interval=interval, timeout=timeout or ANSWER_S)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                self.pgconn.finish()  # what it was asked may go on there; nothing else will
            raise


class Database:
    """The schema `schema` of the database at `address`; `open` it before anything else."""

    def __init__(self, address: str, schema: str = "fabric") -> None:
        if not _SCHEMA.fullmatch(schema):
            raise ConfigError(f"a schema is named in small letters, digits and '_', not {schema!r}")
        parameters = parameters_of(address)
        self.schema, self.shown = schema, shown(parameters)
        options = _OPTIONS.format(schema=schema)
        parameters["options"] = f"{parameters.get('options', '')} {options}".strip()
        self._parameters: dict[str, Any] = {
            "connect_timeout": CONNECT_S,
            "application_name": "fabric coordinator",
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": int(1000 * ANSWER_S),
            **parameters,
            "autocommit": True,
        }
        self._pool: ConnectionPool[Any] | None = None
        self._closed = False

    def open(self) -> None:
        """Look whether all is as it must be there, and connect."""
        with self.once() as connection:
            check_version(connection, self.schema)
        self._pool = ConnectionPool(
            kwargs=self._parameters,
            connection_class=_Punctual,
            min_size=1,
            max_size=_CONNECTIONS,
            timeout=CONNECT_S,
            reconnect_timeout=CONNECT_S,
            check=ConnectionPool.check_connection,
            name=f"metadata {self.schema}",
            open=True,
        )

    def migrate(self) -> int:
        """See `migrations.migrate`."""
        with self.once() as connection:
            return migrate(connection, self.schema)

    def grant(self, role: str) -> None:
        """Let `role` run coordinators."""
        with self.once() as connection:
            connection.execute(grants(self.schema, role).encode())

    @contextmanager
    def once(self) -> Iterator[Connection]:
        """A connection of its own, for one thing."""
        with self._telling(), _Punctual.connect(**self._parameters) as connection:
            yield connection

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """One of those that are kept."""
        if self._closed or self._pool is None:
            raise StorageError(f"the metadata store at {self.shown} is closed")
        with self._telling(), self._pool.connection() as connection:
            yield connection

    def close(self) -> None:
        """Let the connections go; may be called again."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(CONNECT_S)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._error(error) from error

    def _error(self, error: psycopg.Error) -> StorageError:
        state = error.sqlstate or ""
        if state == FENCED:
            return FencedError("another coordinator leads")
        where = f"the metadata store at {self.shown}"
        why = _reason(error)
        if state.startswith(_PASSING) or state == _READ_ONLY:
            return StorageAwayError(f"{where} does not take this now: {why}")
        if isinstance(error, PoolTimeout):
            return StorageAwayError(f"{where} does not answer; is it running?")
        if not state and isinstance(error, psycopg.OperationalError) and not _is_final(why):
            return StorageAwayError(f"{where} does not answer: {why}")
        return StorageError(f"{where} refuses: {why}")


def _reason(error: psycopg.Error) -> str:
    """The first line of what the server or libpq says."""
    text = error.diag.message_primary or str(error) or type(error).__name__
    return text.splitlines()[0][:300]


def _is_final(why: str) -> bool:
    """A failed connection has no SQLSTATE; these do not get better by themselves."""
    return any(
        sign in why
        for sign in ("authentication failed", "does not exist", "no password supplied", "SSL",
                     "certificate", "pg_hba.conf")
    )  # fmt: skip
