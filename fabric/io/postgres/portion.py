"""What one task writes into a table of PostgreSQL between two barriers, in a staging table.

One job: `Portion`. Rows are copied into the staging table and committed at the barrier; what is
done with the handle that names it is in `io/sinks/postgres.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from fabric import failpoints
from fabric.checkpoint.manifest import FINAL
from fabric.errors import (
    DataError,
)
from fabric.ids import TaskId
from fabric.io.postgres.rows import HEADER, TRAILER, copy_rows
from fabric.io.postgres.session import Session
from fabric.io.postgres.staging import KIND, ROW, Place, Staging
from fabric.io.postgres.table import Layout, listed, table_name
from fabric.io.postgres.types import ColumnType
from fabric.io.sinks.protocol import Handle, SinkWriter, whole_or_none
from fabric.plan.targets import PostgresTarget

OPEN_S = 60.0
"""How long a server may be away for the tasks of a job, and when all that they wrote is published
at once."""


class Portion(SinkWriter):
    """See `SinkWriter`: a staging table; without rows there is none."""

    def __init__(
        self, target: PostgresTarget, layout: Layout, task: TaskId, place: Place, last: str
    ) -> None:
        self._target, self._task, self._place = target, task, place
        hidden = [ROW, *([KIND] if target.kind else [])] if target.key else []
        kinds = {ROW: ("int8", "bigint", 20), KIND: ("int2", "smallint", 21)}
        extra = tuple(ColumnType(name, *kinds[name]) for name in hidden)
        self._columns = layout.types
        self._layout = Layout((*layout.types, *extra), layout.not_null, layout.checks)
        self._session = Session(target, patience_s=OPEN_S)
        self._sink = f"{task.job}.{task.stage}"
        self._staging = Staging(self._session, target, self._sink)
        self._name = self._staging.name(task.task, last)
        self._copying: Iterator[Any] | None = None
        self._copy: Any = None
        self._rows = 0
        self._ending = False

    def write(self, batch: pa.RecordBatch) -> None:
        """See `SinkWriter.write`; on an error the rows of the portion are gone."""
        if not batch.num_rows:
            return
        with whole_or_none(self):
            buffers = copy_rows(self._cells(batch), self._layout.types)
            with self._session.telling():
                if self._copying is None:
                    self._begin()
                for buffer in buffers:
                    self._copy.write(memoryview(buffer))
        self._rows += batch.num_rows

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """See `SinkWriter.prepare`: committed, unless a newer run of the job has begun."""
        with whole_or_none(self):
            if self._copying is not None:
                with self._session.telling():
                    self._copy.write(TRAILER)
                    self._end()
                failpoints.reach("postgres.copied")
                self._staging.fence(self._place[0])
                self._session.commit()
        self._session.close()
        facts = {
            "sink": self._sink, "task": self._task.task, "place": list(self._place),
            "name": self._name if self._rows else "", "rows": self._rows,
            "columns": [[one.name, one.sql] for one in self._columns],
            "stream": self._place[0] > 0,
        }  # fmt: skip
        return Handle("postgres", facts).encode()

    def interrupt(self) -> None:
        """Wait for the server no longer."""
        self._session.interrupt()

    def abandon(self) -> None:
        """See `SinkWriter.abandon`: what was not committed never was."""
        self.interrupt()

    def _begin(self) -> None:
        self._staging.create(self._name, self._layout)
        names = listed(self._layout.names)
        path = self._staging.path(self._name)
        self._copying = self._copied(
            f"COPY {path} ({names}) FROM STDIN (FORMAT binary, FREEZE)".encode()
        )
        self._copy = next(self._copying)
        self._copy.write(HEADER)

    def _copied(self, statement: bytes) -> Iterator[Any]:
        """Yields the open COPY once; going on ends it, else it is broken off."""
        try:
            with self._session.connection.cursor().copy(statement) as copy:
                yield copy
        except psycopg.Error:
            if self._ending:
                raise

    def _end(self) -> None:
        assert self._copying is not None
        self._ending = True
        next(self._copying, None)

    def _cells(self, batch: pa.RecordBatch) -> list[pa.Array]:
        target = self._target
        for name in target.key:
            if batch.column(name).null_count:
                raise DataError(
                    f"a row has null in the key column {name!r} of {table_name(target)}; "
                    f"filter such rows out: .filter(col({name!r}).is_not_null())"
                )
        columns = [batch.column(one.name) for one in self._columns]
        if target.key:
            rows = np.arange(self._rows, self._rows + batch.num_rows, dtype=np.int64)
            columns.append(pa.array(rows))
        if target.kind:
            kinds = batch.column(target.kind).cast(pa.string())
            put = pc.is_in(kinds, value_set=pa.array(["+I", "+U"]))
            columns.append(pc.if_else(put, pa.scalar(1, pa.int16()), pa.scalar(-1, pa.int16())))
        return columns
