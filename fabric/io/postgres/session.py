"""Connections to a database, which another thread can break off, and what their errors mean.

One job: `Session`. Everything asked of it ends after a while, also when the server hangs; an error
that may pass is a `StorageAwayError`. No error holds a secret.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from fabric.cancellation import check_wanted
from fabric.errors import (
    AuthError,
    CancelledError,
    ConfigError,
    DataError,
    FabricError,
    StorageAwayError,
    StorageError,
)
from fabric.io import places
from fabric.io.postgres.access import NEEDED, check_place, conninfo, shown
from fabric.plan.targets import PostgresTarget
from fabric.telemetry.logs import logger

try:
    import psycopg
    from psycopg.abc import RV, PQGen
except ImportError as error:
    raise ConfigError(f"writing to PostgreSQL needs {NEEDED}") from error

PAUSE_S = 0.25
"""Between two attempts to connect."""
_SETTINGS = {
    "search_path": "", "timezone": "UTC", "statement_timeout": "0", "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "20s", "client_min_messages": "warning",
    "client_connection_check_interval": "5s", "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off", "work_mem": "64MB",
}  # fmt: skip
# SQLSTATE classes of what may pass: connection lost, transaction rolled back, out of disk, memory
# or connections, locked for too long, shut down, system error.
_PASSING = ("08", "40", "53", "55006", "55P03", "57", "58")
_READ_ONLY = "25006"  # of a server that became, or is not yet, a standby
_VALUES = ("22", "23")  # data, and constraints
# A connection that fails has no SQLSTATE; these do not get better by themselves.
_FINAL = ("authentication failed", "does not exist", "no password supplied", "SSL", "certificate",
          "pg_hba.conf", "permission denied")  # fmt: skip
_COLUMN = re.compile(r", line \d+, column (?P<name>.*?)(?:: |$)", re.M)
_TOLD = ("FATAL:", "certificate", "does not support SSL")
_AUTH = ("authentication", "password", "pg_hba.conf")
_log = logger("fabric.postgres")

Row = tuple[Any, ...]
Connection = psycopg.Connection[Row]


class _Punctual(psycopg.Connection[Any]):
    """A connection that is given up when the server does not answer within `answer_s`."""

    answer_s = 60.0

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """See `psycopg.Connection.wait`."""
        try:
            return super().wait(gen, interval=interval, timeout=timeout or self.answer_s)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                self.pgconn.finish()  # what it was asked may go on there; nothing else will
            raise

    def __del__(self, *_: object) -> None:
        with suppress(AttributeError):  # what is not committed never was, so nobody is warned
            self.pgconn.finish()


class Session:
    """One connection, made when it is needed; `interrupt` may be called from any thread.

    A server may be away for `patience_s`, and be silent for `answer_s` when it is asked something.
    """

    def __init__(
        self, target: PostgresTarget, *, patience_s: float, answer_s: float = 60.0
    ) -> None:
        check_place(target)
        self._target, self._patience_s, self._answer_s = target, patience_s, answer_s
        self._lock = threading.Lock()
        self._interrupted = False
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """The open one; a new one where there is none."""
        with self._lock:
            found = self._connection
        if found is not None and not found.closed:
            return found
        made = self._connected()
        with self._lock:
            self._connection = made
            interrupted = self._interrupted
        if interrupted:
            made.close()
            raise self._cancelled()
        return made

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What psycopg raises within the block, as `FabricError`."""
        try:
            yield
        except psycopg.Error as error:
            if self._interrupted:
                raise self._cancelled() from None
            raise as_fabric(error, self._target) from error

    def ask(self, statement: str, *values: object) -> list[Row]:
        """Run one statement in the transaction that is open; its rows."""
        connection = self.connection
        with self.telling():
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else []

    def commit(self) -> None:
        """End the transaction; when that raises, it may have been committed or not."""
        with self.telling():
            self.connection.commit()

    def interrupt(self) -> None:
        """Break the connection off, whatever it waits for; may be called again."""
        with self._lock:
            self._interrupted = True
            connection = self._connection
            if connection is None or connection.closed:
                return
            with (
                suppress(OSError, psycopg.Error),
                socket.socket(fileno=os.dup(connection.fileno())) as broken,
            ):
                broken.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let the connection go; what is not committed never was."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cancelled(self) -> CancelledError:
        return CancelledError(f"writing to {shown(self._target.settings)} was cancelled")

    def _connected(self) -> Connection:
        """Try until `patience_s` is over, as long as that may help."""
        end_s = time.monotonic() + self._patience_s
        while True:
            check_wanted()
            if self._interrupted:
                raise self._cancelled()
            try:
                with self.telling():
                    return _connect(self._target, self._answer_s)
            except StorageError as error:
                hidden = places.are_guarded() and not _is_told(error)
                if not (error.retryable or hidden):
                    raise
                failure = error
            if time.monotonic() >= end_s:
                break
            time.sleep(PAUSE_S)
        if hidden:
            _log.warning("a plan's database is unavailable", error=str(failure))
            raise StorageAwayError(
                f"no database at {shown(self._target.settings)} answered within "
                f"{self._patience_s:g} s; check the address, and that this fabric's machines may "
                "reach it (the log of the process that asked says what happened)"
            )
        raise failure


def _is_told(error: FabricError) -> bool:
    """Whether a database itself said so: it is one, and wants to be asked otherwise."""
    cause = error.__cause__
    return getattr(cause, "sqlstate", None) is not None or any(sign in str(cause) for sign in _TOLD)


def _connect(target: PostgresTarget, answer_s: float) -> Connection:
    connection = _Punctual.connect(conninfo(target), autocommit=True)
    connection.answer_s = answer_s
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: Connection) -> None:
    """Names mean what they say, nobody waits for ever, and what is committed is on disk."""
    connection.prepare_threshold = None  # poolers give each transaction another server
    connection.execute(
        "SELECT set_config(name, CASE name WHEN 'synchronous_commit' THEN CASE WHEN setting IN "
        "('on', 'remote_apply') THEN setting ELSE 'on' END ELSE %(given)s::jsonb ->> name END, "
        "false) FROM pg_settings WHERE name = 'synchronous_commit' OR %(given)s::jsonb ? name",
        {"given": json.dumps(_SETTINGS)},
    )
    connection.autocommit = False


# ---- errors


def as_fabric(error: psycopg.Error, target: PostgresTarget) -> FabricError:
    """What went wrong, without anything secret, and whether it may pass."""
    state = error.sqlstate or ""
    where, why = shown(target.settings), _reason(error, target)
    if state.startswith(_PASSING) or state == _READ_ONLY:
        return StorageAwayError(f"{where} is temporarily unavailable: {why}")
    if state.startswith(_VALUES):
        return DataError(f"{where} rejected rows of {target.schema}.{target.table}: {why}")
    if not state and not any(sign in why for sign in _FINAL):
        return StorageAwayError(f"{where} does not respond: {why}")
    if not state and any(sign in why for sign in _AUTH):
        return AuthError(f"{where} rejected the request: {why}")
    return StorageError(f"{where} rejected the request: {why}")


def _reason(error: psycopg.Error, target: PostgresTarget) -> str:
    """The first line of what the server or libpq says, and where in the rows."""
    said = error.diag
    text = said.message_primary or str(error) or type(error).__name__
    text = text.splitlines()[0][:300]
    at = _COLUMN.search(said.context or "")  # behind a colon it shows the value
    if name := said.column_name or (at["name"] if at else ""):
        text += f" (column {name})"
    for _, secret in target.secrets:
        if secret:
            text = text.replace(secret, "…")
    return text
