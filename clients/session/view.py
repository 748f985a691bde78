"""A view from a client: its rows by key, and all of them as a DataFrame.

One job: `View`. It asks the coordinator where the partitions are, once, and the agents for rows;
when a job begins again elsewhere, it asks again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.hash import hash_columns, partition_of
from fabric.control import control_pb2 as pb
from fabric.control.datasets import is_kept, is_live, job_of, live_name, moment_of
from fabric.errors import DataError, NotFoundError, PartitionLostError, PeerLostError

if TYPE_CHECKING:
    from fabric.clients.dataframe.expressions.literal import PythonValue
    from fabric.clients.dataframe.frame import DataFrame
    from fabric.control.api import ControlApi

PATIENCE_S = 10.0
"""So long a partition is looked for that is not where it was: its job begins again elsewhere."""
_PAUSE_S = 0.05
_AT_ONCE, _BYTES_AT_ONCE = 256, 256 << 10
"""Keys in one request: at most so many, of about so many bytes."""


class ViewHost(Protocol):
    """What a view asks of its session."""

    @property
    def control(self) -> ControlApi:
        """The coordinator."""

    def read_dataset(self, name: str) -> DataFrame:
        """All rows of a dataset."""

    def view_rows(
        self, address: str, name: str, partition: int, keys: pa.Table, *, live: bool
    ) -> pa.Table:
        """The rows of keys of one partition of a view, asked of the agent at `address`."""


class View:
    """The newest row of each key of a stream, while its job runs; see `DataFrame.materialize`.

    Examples
    --------
    >>> import fabric
    >>> from fabric import streams
    >>> with fabric.connect() as session:
    ...     events = streams.generator(n_rows=100, n_keys=4, session=session)
    ...     job = events.select("key", "row").materialize("newest", key="key").wait()
    ...     view = session.view("newest")
    ...     print(view.keys, view.schema.names, view.checkpoint)
    ...     print(view.get(2)["key"], view.get(7), view.read().count())
    ...     sorted(view.get_many({"key": range(9)})["key"].to_pylist())
    ['key'] ['key', 'row'] None
    2 None 4
    [0, 1, 2, 3]
    """

    def __init__(self, session: ViewHost, name: str) -> None:
        self._session, self.name = session, name
        self._at = self._located()

    # ---- facts

    @property
    def keys(self) -> list[str]:
        """The columns that a row is known by, in the order that `get` takes their values."""
        return list(self._at.datasets[0].keys)

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows and their types, the key columns among them."""
        return pa.ipc.read_schema(pa.py_buffer(self._at.datasets[0].schema))

    @property
    def checkpoint(self) -> int | None:
        """The checkpoint that readers see, as of now; None: its job has come to its end.

        The coordinator is asked; `NotFoundError` where the job was cancelled.
        """
        self._at = self._located()
        moment = moment_of(self._at.datasets[0].parts[0].transaction)
        return int(moment) if moment.isdecimal() else None

    # ---- rows

    def get(self, *key: PythonValue, live: bool = False) -> dict[str, Any] | None:
        """The row of one key, a value for each of `keys`; None if there is none.

        Parameters
        ----------
        live
            What the task has now, instead of the last complete checkpoint. A row may be seen that
            is taken back when the job begins again from that checkpoint.

        Raises
        ------
        DataError
            The key has values of other types than the view's, or another number of them.
        NotFoundError
            There is no complete checkpoint yet, or the job was cancelled.
        PeerLostError, PartitionLostError
            The job began again and does not answer yet; tried for ten seconds.
        """
        names = self.keys
        if len(key) != len(names):
            raise DataError(
                f"view {self.name!r} is keyed by {', '.join(names)}, got {len(key)} values: "
                f"{key!r:.80}"
            )
        found = self.get_many({name: [value] for name, value in zip(names, key, strict=True)},
                              live=live)  # fmt: skip
        return found.to_pylist()[0] if found.num_rows else None

    def get_many(self, keys: Mapping[str, Iterable[Any]] | Any, *, live: bool = False) -> pa.Table:
        """The rows of many keys, in any order; those without one are left out.

        `keys` has the view's key columns: a mapping of values by column, or anything that is an
        Arrow table. Raises as `get` does.
        """
        wanted = self._keys(keys)
        found = [self.schema.empty_table()]
        n = max(1, min(_AT_ONCE, len(wanted) * _BYTES_AT_ONCE // max(1, wanted.nbytes)))
        for begin in range(0, len(wanted), n):
            found += self._rows(wanted.slice(begin, n), live)
        return pa.concat_tables(found)

    def read(self, *, live: bool = False) -> DataFrame:
        """All rows, as of the last complete checkpoint: all of them of the same one.

        With `live`, what each task has now, of no single moment; `NotFoundError` once the job has
        ended. Any Flight client reads the same under the paths ``["dataset", name]`` and
        ``["dataset", name + ".live"]``.
        """
        return self._session.read_dataset(live_name(self.name) if live else self.name)

    # ---- inside

    def _located(self) -> pb.Locations:
        found = self._session.control.locate(pb.LocateRequest(dataset=self.name))
        if not job_of(found.datasets[0]) or is_live(found.datasets[0]):
            raise NotFoundError(
                f"{self.name!r} is a dataset and not a view; read it with read_dataset"
            )
        return found

    def _keys(self, keys: Any) -> pa.Table:
        schema = pa.schema([self.schema.field(name) for name in self.keys])
        return keys_of(keys, schema, f"view {self.name!r}")

    def _rows(self, keys: pa.Table, live: bool) -> list[pa.Table]:
        location, until = self._at.datasets[0], time.monotonic() + PATIENCE_S
        if is_kept(location):
            hashes = hash_columns(keys.combine_chunks().to_batches()[0].columns)
            place = partition_of(hashes, location.n_partitions)
            if len(keys) == 1:
                return [self._asked(int(place[0]), keys, live, until)]
            found = list[pa.Table]()
            for partition in np.unique(place).tolist():
                own = keys.filter(pa.array(place == partition))
                found.append(self._asked(partition, own, live, until))
            return found
        return [self._read_final(keys)]

    def _asked(self, partition: int, keys: pa.Table, live: bool, until: float) -> pa.Table:
        while True:
            location = self._at.datasets[0]
            address = self._at.addresses.get(location.owners[partition], "")
            try:
                return self._session.view_rows(address, self.name, partition, keys, live=live)
            except (NotFoundError, PeerLostError, PartitionLostError):
                if time.monotonic() > until:
                    raise
            time.sleep(_PAUSE_S)
            n_before, self._at = location.n_partitions, self._located()
            location = self._at.datasets[0]
            if not is_kept(location):
                return self._read_final(keys)
            if location.n_partitions != n_before:
                return pa.concat_tables(self._rows(keys, live))

    def _read_final(self, keys: pa.Table) -> pa.Table:
        """The job has come to its end: the rows are an ordinary dataset."""
        rows = self.read().collect().cast(self.schema)
        wanted = set(hashes_of(keys))
        keep = [each in wanted for each in hashes_of(rows.select(keys.column_names))]
        return rows.filter(pa.array(keep, pa.bool_()))

    def __repr__(self) -> str:
        location = self._at.datasets[0]
        return (
            f"View({self.name!r}, key={self.keys}, {location.rows} rows in "
            f"{location.n_partitions} partitions, of {job_of(location)})"
        )


def keys_of(keys: Any, schema: pa.Schema, what: str) -> pa.Table:
    """Keys as a table of `schema`; `DataError` says by which columns `what` is keyed."""
    try:
        if isinstance(keys, Mapping):
            return pa.table({each.name: _column(keys[each.name], each.type) for each in schema})
        return pa.table(keys).select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError, ValueError, TypeError, OverflowError) as error:
        told = ", ".join(f"{each.name}: {each.type}" for each in schema)
        why = f"there is no column {error}" if isinstance(error, KeyError) else error
        raise DataError(f"{what} is keyed by {told}; the given keys do not match: {why}") from error


def hashes_of(keys: pa.Table) -> list[tuple[int, int]]:
    """Two hashes of each key: null equals null, NaN equals NaN, as in the view."""
    columns = [column.combine_chunks() for column in keys.columns]
    return list(zip(hash_columns(columns).tolist(), hash_columns(columns, 1).tolist(), strict=True))


def _column(values: Iterable[Any], dtype: pa.DataType) -> pa.Array:
    """Values of a key, none of which is made another one."""
    given = list(values)
    column = pa.array(given, dtype)
    if (pa.types.is_integer(dtype) or pa.types.is_date(dtype)) and column.to_pylist() != given:
        raise ValueError(f"{given!r:.80} are not all of type {dtype}")
    return column
