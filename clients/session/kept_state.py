"""What a stream keeps by key, from a client: rows by key, and all of them as a DataFrame.

One job: `KeptState`, the handle of one state of a job, and `StateHost`, what it asks of its
session. Rows are those of the newest complete checkpoint: the job is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from fabric.clients.session.view import keys_of
from fabric.errors import DataError, NotFoundError

if TYPE_CHECKING:
    from fabric.clients.dataframe.expressions.literal import PythonValue
    from fabric.clients.dataframe.frame import DataFrame

AT_ONCE = 256
"""Keys in one request at most."""
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

    def state_rows(self, path: StatePath) -> pa.Table:
        """All rows."""

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
            name = _only(session.states(job), job, node)
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
                f"state {self.path[3]!r} of {self.path[2]!r} knows rows by "
                f"{', '.join(self.keys) or 'nothing'}, got {len(key)} values: {key!r:.80}"
            )
        if not key:
            return list(self.table().to_pylist())
        return list(self.get_many([key if len(key) > 1 else key[0]]).to_pylist())

    def get_many(self, keys: Mapping[str, Iterable[Any]] | Iterable[Any]) -> pa.Table:
        """The rows of many keys, in any order; a key without one is left out.

        `keys` are values (tuples where there are several key columns), a mapping of values by
        column, or anything that is an Arrow table. Raises as `get` does.
        """
        wanted = keys_of(_by_column(keys, self.keys), self._key_schema(), self._said())
        found = [self.schema.empty_table()]
        for begin in range(0, len(wanted), AT_ONCE):
            some = wanted.slice(begin, AT_ONCE)
            found.append(self._session.state_rows_of(self.path, some).cast(self.schema))
        return pa.concat_tables(found)

    def table(self) -> pa.Table:
        """All rows, of one checkpoint."""
        return self._session.state_rows(self.path)

    def read(self) -> DataFrame:
        """All rows as a DataFrame. Any Flight client reads the same under `path`."""
        return self._session.read_arrow(self.table())

    def _key_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.keys])

    def _said(self) -> str:
        return f"state {self.path[3]!r} of {self.path[2]!r}"

    def __repr__(self) -> str:
        return f"KeptState({', '.join(map(repr, self.path[1:]))}, keys={self.keys})"


def _only(states: list[StateFacts], job: str, node: str) -> str:
    """The one state that a step keeps."""
    found = [each.path[3] for each in states if each.path[2] == node]
    if len(found) == 1:
        return found[0]
    if found:
        told = ", ".join(found)
        raise NotFoundError(
            f"{node!r} of job {job} keeps several states, say which: job.state({node!r}, name), "
            f"one of {told}"
        )
    known = ", ".join(sorted({each.path[2] for each in states}))
    hint = f"steps that keep some: {known}" if known else "it has no complete checkpoint yet"
    raise NotFoundError(f"job {job} keeps no state at {node[:200]!r}; {hint}", job=job)


def _by_column(keys: Any, names: list[str]) -> Any:
    """Values by key column, of values or tuples of them."""
    if isinstance(keys, Mapping) or not isinstance(keys, list | tuple | range | set | frozenset):
        return keys
    values = list(keys)
    if len(names) == 1:
        return {names[0]: [v[0] if isinstance(v, tuple) and len(v) == 1 else v for v in values]}
    if any(not isinstance(v, tuple | list) or len(v) != len(names) for v in values):
        raise DataError(f"each key is a tuple of {', '.join(names)}, got {values!r:.80}")
    return {name: [value[i] for value in values] for i, name in enumerate(names)}
