"""Tables of agents: values by key, each with the task that has the events of the key.

One job: `Table`, which users declare and use by key, and what it is in a task. `CallKeys` are the
keys of the rows of one call; a table knows no other key, as those may be with another task.
`TableRows` reads the values of all keys of a call at once, and writes those that have changed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric.clients.app.events import Field, plain_value, shaped
from fabric.errors import DataError, PlanError
from fabric.plan.literals import array_of
from fabric.plan.process import ProcessContext

MISSING: Any = object()
"""Where there is no value, and where a table has no default."""
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table as tasks know it: one value of `field` a key; `default` where there is none."""

    name: str
    field: Field
    default: Any = MISSING

    def __reduce__(self) -> Any:
        """With a default or without: what stands for none is not the same object elsewhere."""
        given = () if self.default is MISSING else (self.default,)
        return TableSpec, (self.name, self.field, *given)

    def made(self, key: Any) -> Any:
        """The value of a key that has none."""
        if self.default is MISSING:
            raise KeyError(key)
        return self.default() if callable(self.default) else self.default


class Table:
    """Values by key: ``table[key]``, while an event of that key is worked on.

    `App.Table` makes one. Without a default a key that has no value is a `KeyError`. Its values lie
    in the checkpoints of the app. A value that is changed in place (a list, an object) is stored.
    """

    def __init__(self, spec: TableSpec, ttl_us: int = 0) -> None:
        self.spec, self.ttl_us = spec, ttl_us

    @property
    def name(self) -> str:
        """Its name, by which it is a state of its agent."""
        return self.spec.name

    def __getitem__(self, key: Any) -> Any:
        return self._rows.made(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._rows.put(key, value)

    def __delitem__(self, key: Any) -> None:
        if self._rows.get(key) is MISSING:
            raise KeyError(key)
        self._rows.put(key, MISSING)

    def __contains__(self, key: Any) -> bool:
        return self._rows.get(key) is not MISSING

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, or `default`; the table's own default does not count."""
        value = self._rows.get(key)
        return default if value is MISSING else value

    def pop(self, key: Any, default: Any = MISSING) -> Any:
        """Remove `key` and return its value; without a value `default`, or a `KeyError`."""
        value = self._rows.get(key)
        if value is not MISSING:
            self._rows.put(key, MISSING)
            return value
        if default is MISSING:
            raise KeyError(key)
        return default

    def get_many(self, keys: pa.RecordBatch) -> pa.Array:
        """The value of each of `keys`, null where there is none: key columns of the rows at hand.

        >>> async def known(rows, names):
        ...     async for batch in rows.batches():
        ...         found = names.get_many(batch.select(["user"]))
        ...         yield batch.filter(found.is_valid())
        """
        return self._rows.get_many(keys)

    def put_many(self, keys: pa.RecordBatch, values: pa.Array) -> None:
        """Set the value of each of `keys`; of equal keys the last one counts.

        >>> async def remember(rows, newest):
        ...     async for batch in rows.batches():
        ...         newest.put_many(batch.select(["user"]), batch.column("amount"))
        """
        self._rows.put_many(keys, values)

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    @property
    def _rows(self) -> TableRows:
        found = RUNNING.get()
        if found is None:
            raise PlanError(
                f"the table {self.name} is there inside of an agent's function alone; in a test "
                "read app.test().table(…), of a running app session.state(…)"
            )
        return found.table(self.name)


class CallKeys:
    """The keys of the rows of a call: of `row` alone, or while that is -1 of all of them."""

    def __init__(self, keys: pa.RecordBatch) -> None:
        self.row = -1
        self._keys = keys
        self._table: GroupTable | None = None
        self._ids: list[int] = []
        self._values: list[Any] | None = None
        self._known: dict[Any, int] | None = None

    @property
    def groups(self) -> GroupTable:
        """Each key once."""
        if self._table is None:
            self._table = GroupTable(self._keys.schema)
            self._ids = self._table.upsert(self._keys).tolist()
        return self._table

    @property
    def values(self) -> list[Any]:
        """The key of each row."""
        if self._values is None:
            self._values = values_of(self._keys)
        return self._values

    def id_of(self, key: Any, table: str) -> int:
        """The number of a key among `groups`; an error names one that is not the event's."""
        groups, row = self.groups, self.row
        if row >= 0:
            own = self.values[row]
            if key is own or key == own:
                return self._ids[row]
            raise _of_another(table, key, f"the event has the key {_shown(own)}")
        if self._known is None:
            self._known = {each: number for number, each in enumerate(values_of(groups.keys()))}
        found = self._known.get(key)
        if found is None:
            raise _of_another(table, key, "none of the events at hand has it")
        return found


class TableRows:
    """A table in a task: the values of the keys of one call, and which of them have changed."""

    def __init__(self, spec: TableSpec) -> None:
        self.spec = spec
        self._call: tuple[ProcessContext, CallKeys] | None = None
        self._mutable = pa.types.is_nested(spec.field.dtype)
        self._cells: list[Any] | None = None
        self._changed: set[int] = set()

    def begin(self, context: ProcessContext, keys: CallKeys) -> None:
        """The next call is about `keys`; what the one before has not written is forgotten."""
        self._call = context, keys
        self.forget()

    def forget(self) -> None:
        """What the call has changed did not happen, or lies in state now."""
        self._cells = None
        self._changed.clear()

    def get(self, key: Any) -> Any:
        """The value of a key; `MISSING` where there is none."""
        cells = self._loaded
        number = self._keys.id_of(key, self.spec.name)
        if self._mutable:  # who changes it in place means it
            self._changed.add(number)
        return cells[number]

    def made(self, key: Any) -> Any:
        """The value of a key, its default where it has none."""
        value = self.get(key)
        if value is not MISSING:
            return value
        value = self.spec.made(key)
        if self._mutable:
            self.put(key, value)
        return value

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key; `MISSING` removes it."""
        cells = self._loaded
        number = self._keys.id_of(key, self.spec.name)
        if value is None:
            raise DataError(
                f"the table {self.spec.name} takes no None; to remove a key write: "
                f"del {self.spec.name}[key]"
            )
        cells[number] = value
        self._changed.add(number)

    def get_many(self, keys: pa.RecordBatch) -> pa.Array:
        """The values of keys, null where there is none."""
        self._check(keys)
        self.flush()
        return self._state.get_many(keys)

    def put_many(self, keys: pa.RecordBatch, values: pa.Array) -> None:
        """Set the values of keys."""
        self._check(keys)
        self.flush()
        self._state.put_many(keys, values)

    def flush(self) -> None:
        """Write what has changed to the state."""
        if self._cells is None:
            return
        cells, field = self._cells, self.spec.field
        gone = [each for each in self._changed if cells[each] is MISSING]
        put = sorted(self._changed.difference(gone))
        if gone:
            self._state.remove_many(self._keys_of(gone))
        if put:
            values = [plain_value(cells[each], field.dtype) for each in put]
            try:
                array = array_of(values, field.dtype)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise DataError(
                    f"the table {self.spec.name} holds {field.hint}, and got a value that is not: "
                    f"{str(error)[:_SHOWN]}"
                ) from error
            self._state.put_many(self._keys_of(put), array)
        self.forget()

    @property
    def _loaded(self) -> list[Any]:
        if self._cells is None:
            field = self.spec.field
            found = self._state.get_many(self._keys.groups.keys()).to_pylist()
            self._cells = [MISSING if each is None else shaped(each, field) for each in found]
        return self._cells

    @property
    def _state(self) -> Any:
        return self._at[0].state(self.spec.name)

    @property
    def _keys(self) -> CallKeys:
        return self._at[1]

    @property
    def _at(self) -> tuple[ProcessContext, CallKeys]:
        if self._call is None:
            raise PlanError(f"the table {self.spec.name} is there while an event is worked on")
        return self._call

    def _keys_of(self, ids: Sequence[int]) -> pa.RecordBatch:
        return self._keys.groups.keys(np.array(ids, np.int32))

    def _check(self, keys: pa.RecordBatch) -> None:
        """Refuse keys that are not of the call."""
        groups = self._keys.groups
        if not keys.schema.equals(groups.schema):
            raise PlanError(
                f"the table {self.spec.name} has keys of {groups.schema.to_string()}, got "
                f"{keys.schema.to_string()}; write: rows.select({groups.schema.names})"
            )
        unknown = np.flatnonzero(groups.find(keys) < 0)
        if len(unknown):
            key = values_of(keys)[int(unknown[0])]
            raise _of_another(self.spec.name, key, "none of the events at hand has it")


def _of_another(table: str, key: Any, why: str) -> PlanError:
    return PlanError(
        f"the table {table} was asked for the key {_shown(key)}, and {why}: rows of other keys may "
        "be with another task; yield an event of that key to an agent that has this table"
    )


def _shown(key: Any) -> str:
    return repr(key)[:_SHOWN]


def values_of(keys: pa.RecordBatch) -> list[Any]:
    """Keys as Python has them; tuples where there are several columns.

    >>> values_of(pa.record_batch({"a": [1, 2]}))
    [1, 2]
    """
    columns = [column.to_pylist() for column in keys.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


class Tables:
    """All tables of the agent `agent`, whose function runs."""

    def __init__(self, agent: str, specs: Sequence[TableSpec]) -> None:
        self._agent = agent
        self._tables: Mapping[str, TableRows] = {spec.name: TableRows(spec) for spec in specs}

    def begin(self, context: ProcessContext, keys: CallKeys) -> None:
        """The next call is about these keys."""
        for table in self._tables.values():
            table.begin(context, keys)

    def flush(self) -> None:
        """Write what the call has changed to the states."""
        for table in self._tables.values():
            table.flush()

    def table(self, name: str) -> TableRows:
        """One of them; an error names one that is not."""
        found = self._tables.get(name)
        if found is None:
            raise PlanError(
                f"the agent {self._agent} uses the table {name} without saying so; write: "
                f"@app.agent(…, tables=[{name}])"
            )
        return found


RUNNING: ContextVar[Tables | None] = ContextVar("tables", default=None)
"""Those of the agent whose function runs here."""
