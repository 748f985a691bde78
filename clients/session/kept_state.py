"""What a stream keeps by key, from a client: rows by key, and all of them as a DataFrame.

One job: `KeptState`, the handle of one state of a job, and `StateHost`, what it asks of its
session. Reads use the files of the newest complete checkpoint and never touch the running job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from fabric.clients.session.view import hashes_of, keys_of
from fabric.errors import DataError, NotFoundError

if TYPE_CHECKING:
    from fabric.clients.dataframe.expressions.literal import PythonValue
    from fabric.clients.dataframe.frame import DataFrame

AT_ONCE = 256
"""Keys in one request at most."""
_OF_TABLES = ("schema", "columns")
"""What tables of any library have, and arrays and lists have not."""
_OF_ARRAYS = ("to_pylist", "tolist", "to_list")
"""What gives the values of an array of any library as Python's own."""
StatePath = tuple[str, str, str, str]
"""The elements of the Flight descriptor: "state", job, node path, state."""


@dataclass(frozen=True, slots=True)
class StateFacts:
    """What is known of a state without its rows; `checkpoint` is the one that is read."""

    path: StatePath
    schema: pa.Schema
    keys: tuple[str, ...]
    checkpoint: int


class StateHost(Protocol):
    """What the handle of a state asks of its session."""

    def state_facts(self, path: StatePath) -> StateFacts:
        """Columns and checkpoint of one state; `NotFoundError` lists what there is."""

    def states(self, job: str = "") -> list[StateFacts]:
        """The states of a job, or of all that run."""

    def state_rows(self, path: StatePath, limit: int = 0) -> pa.Table:
        """All rows, or the first `limit`."""

    def state_rows_of(self, path: StatePath, keys: pa.Table) -> pa.Table:
        """The rows of some keys."""

    def read_arrow(self, data: pa.Table) -> DataFrame:
        """A frame of rows."""


class KeptState:
    """A state of a stream as of its newest complete checkpoint; see `Job.state`.

    Of an aggregate a row has the keys, the bounds of the window if there is one, and the value that
    each aggregate would give now; of ``top_n`` and ``deduplicate`` the rows that are kept; of
    ``.process`` the keys and the value, list or map under the name of the state.

    Examples
    --------
    >>> import fabric, tempfile
    >>> from fabric import streams
    >>> with fabric.connect() as session:
    ...     _ = session.checkpoints(folder=tempfile.mkdtemp())
    ...     rows = streams.generator(n_keys=4, rows_per_s=400, session=session)
    ...     counts = rows.group_by("key").count().named("counts").changes()
    ...     job = counts.write_stream(streams.to_blackhole())
    ...     _ = job.savepoint("doc")
    ...     state = job.state("counts")
    ...     print(state.keys, state.schema.names, state.get(99))
    ...     _ = job.cancel()
    ['key'] ['key', 'count'] []
    """

    def __init__(self, session: StateHost, job: str, node: str, name: str = "") -> None:
        self._session = session
        if not name:
            name = _only(session, job, node)
        self.path: StatePath = ("state", job, node, name)
        self._facts = session.state_facts(self.path)

    @property
    def keys(self) -> list[str]:
        """The columns that rows are known by, in the order that `get` takes their values."""
        return list(self._facts.keys)

    @property
    def schema(self) -> pa.Schema:
        """The columns of its rows and their types, the key columns among them."""
        return self._facts.schema

    @property
    def checkpoint(self) -> int:
        """The checkpoint that readers see, as of now."""
        self._facts = self._session.state_facts(self.path)
        return self._facts.checkpoint

    def get(self, *key: PythonValue) -> list[dict[str, Any]]:
        """The rows of one key, a value for each of `keys`: one, or one for each window.

        Raises
        ------
        DataError
            The key has values of other types, or another number of them.
        NotFoundError
            The job was released, or its checkpoints are gone.
        """
        if len(key) != len(self.keys):
            raise DataError(
                f"state {self.path[3]!r} of {self.path[2]!r} is keyed by "
                f"{', '.join(self.keys) or 'nothing'}, got {len(key)} values: {key!r:.80}"
            )
        if not key:
            return list(self.table().to_pylist())
        return list(self.get_many([key if len(key) > 1 else key[0]]).to_pylist())

    def get_many(self, keys: Mapping[str, Iterable[Any]] | Iterable[Any]) -> pa.Table:
        """The rows of many keys, in any order; a key without one is left out.

        `keys` are values (tuples where there are several key columns), a mapping of values by
        column, or anything that is an Arrow table; one that is there twice is answered once. A
        state without key columns answers with its row. Keys are asked for 256 at a time, and each
        such part has the rows of the checkpoint that was the newest then: `table` has those of
        one. Raises as `get` does.
        """
        if not self.keys:
            return self.table()
        wanted = _once(keys_of(_by_column(keys, self.keys), self._key_schema(), self._said()))
        found = [self.schema.empty_table()]
        for begin in range(0, len(wanted), AT_ONCE):
            some = wanted.slice(begin, AT_ONCE)
            found.append(self._session.state_rows_of(self.path, some).cast(self.schema))
        return pa.concat_tables(found)

    def table(self, limit: int = 0) -> pa.Table:
        """All rows of one checkpoint, or only `limit` of them."""
        return self._session.state_rows(self.path, limit)

    def read(self) -> DataFrame:
        """All rows as a DataFrame. Any Flight client reads the same under `path`."""
        return self._session.read_arrow(self.table())

    def _key_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.keys])

    def _said(self) -> str:
        return f"state {self.path[3]!r} of {self.path[2]!r}"

    def __repr__(self) -> str:
        return f"KeptState({', '.join(map(repr, self.path[1:]))}, keys={self.keys})"


def first_rows(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Rows until there are `limit`, 0: all; no more batches are asked for.

    >>> rows = pa.record_batch({"n": [1, 2, 3]})
    >>> [len(batch) for batch in first_rows([rows, rows, rows], 4)]
    [3, 1]
    """
    n_left = limit
    for batch in batches:
        yield batch.slice(0, n_left) if limit else batch
        n_left -= batch.num_rows
        if limit and n_left <= 0:
            return


def _only(session: StateHost, job: str, node: str) -> str:
    """The one state that a step keeps."""
    states = session.states(job)
    if not states:  # asked for one of them, it is said why there is none
        session.state_facts(("state", job, node, "?"))
    found = [each.path[3] for each in states if each.path[2] == node]
    if len(found) == 1:
        return found[0]
    if found:
        told = ", ".join(found)
        raise NotFoundError(
            f"{node!r} of job {job} keeps several states, say which: job.state({node!r}, name), "
            f"one of {told}"
        )
    known = ", ".join(sorted({each.path[2] for each in states})) or "none"
    raise NotFoundError(
        f"job {job} keeps no state at {node[:200]!r}; steps with state: {known}", job=job
    )


def _once(keys: pa.Table) -> pa.Table:
    """Each key once."""
    first: dict[tuple[int, int], int] = {}
    for row, hashes in enumerate(hashes_of(keys)):
        first.setdefault(hashes, row)
    return keys if len(first) == len(keys) else keys.take(pa.array(first.values(), pa.int64()))


def _by_column(keys: Any, names: list[str]) -> Any:
    """Values by key column, of values or tuples of them."""
    if isinstance(keys, Mapping | str | bytes) or any(hasattr(keys, n) for n in _OF_TABLES):
        return keys
    own = next((n for n in _OF_ARRAYS if hasattr(keys, n)), "")
    try:
        values = getattr(keys, own)() if own else list(keys)
    except TypeError:
        raise DataError(f"keys are values of {', '.join(names)}, got {keys!r:.80}") from None
    if len(names) == 1:
        return {names[0]: [v[0] if isinstance(v, tuple) and len(v) == 1 else v for v in values]}
    if any(not isinstance(v, tuple | list) or len(v) != len(names) for v in values):
        raise DataError(f"each key is a tuple of {', '.join(names)}, got {values!r:.80}")
    return {name: [value[i] for value in values] for i, name in enumerate(names)}
