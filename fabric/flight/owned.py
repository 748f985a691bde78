"""What a client may put straight to an owner of dataset partitions.

One job: check the rows of one put before anything is done with them. Agents split rows themselves
and are believed; a client of scope `write` may split them too (the Spark connector does), but only
into partitions that are this agent's, and each row where the hash of its keys puts it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.hash import hash_columns
from fabric.control.control_pb2 import DatasetLocation
from fabric.errors import DataError
from fabric.flight.batches import check_foreign_batch, check_foreign_schema
from fabric.flight.spread import read_schema

_SHIFT, _GROUP_BITS = 49, 15


class OwnedRows:
    """Checks one put to `agent_id` of rows of the dataset at `location`."""

    def __init__(self, location: DatasetLocation, agent_id: str, given: pa.Schema) -> None:
        check_foreign_schema(given)
        self.schema = read_schema(location)
        if not given.equals(self.schema):
            raise DataError(
                f"the stream has columns {columns_text(given)}, dataset {location.name!r} has "
                f"{columns_text(self.schema)}"
            )
        self._location, self._agent_id = location, agent_id
        self._owned = {p for p, owner in enumerate(location.owners) if owner == agent_id}
        self._seen: set[int] = set()

    def read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch` with the dataset's schema, once it is safe to look at."""
        check_foreign_batch(batch, self.schema)
        return batch.replace_schema_metadata(self.schema.metadata)

    def place(self, batch: pa.RecordBatch, partitions: Iterable[tuple[int, int]]) -> None:
        """Check that the runs of `batch`, (partition, rows) each, lie where they belong."""
        runs = tuple(partitions)
        strange = sorted({partition for partition, _ in runs} - self._owned)
        if strange:
            raise DataError(
                f"partition {strange[0]} of dataset {self._location.name!r} does not belong to "
                f"agent {self._agent_id}",
                agent=self._agent_id,
            )
        self._seen.update(partition for partition, _ in runs)
        if self._location.keys and batch.num_rows:
            self._check_hashes(batch, runs)

    def finish(self) -> None:
        """Every partition of this agent was named, if only to say that it has no rows."""
        missing = sorted(self._owned - self._seen)
        if missing:
            raise DataError(
                f"the put names no rows for partition {missing[0]} of dataset "
                f"{self._location.name!r}; send an empty batch for a partition without rows",
                agent=self._agent_id,
            )

    def _check_hashes(self, batch: pa.RecordBatch, runs: tuple[tuple[int, int], ...]) -> None:
        hashes = hash_columns([batch.column(key) for key in self._location.keys])
        found = (hashes >> _SHIFT) * self._location.n_partitions >> _GROUP_BITS
        given = np.repeat([p for p, _ in runs], [n_rows for _, n_rows in runs])
        if not np.array_equal(found, given):
            row = int(np.argmax(found != given))
            raise DataError(
                f"a row for partition {given[row]} of dataset {self._location.name!r} belongs to "
                f"partition {found[row]} by its keys {', '.join(self._location.keys)}"
            )


def columns_text(schema: pa.Schema) -> str:
    """Names and types, for messages."""
    return ", ".join(f"{field.name}: {field.type}" for field in schema)[:1000]
