"""The states of a function as others read them: rows of keys and values.

One job: `kept_state`, the columns of one state, and `rows_of_state`, its rows in snapshots. No
function is called: of an aggregating state there is the accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from fabric.operators.contract import KeptState
from fabric.operators.streams.columns import told_as
from fabric.plan.nodes.keyed_process import StateField
from fabric.plan.types import plain
from fabric.state import StateSpec, read_state
from fabric.state.backend import SnapshotReader
from fabric.state.opened import Wanted


def kept_state(state: StateField, keys: pa.Schema) -> KeptState:
    """The key columns, then the value under the name of the state.

    >>> kept_state(StateField("n", "list", pa.int64()), pa.schema({"k": "string"})).schema
    k: string
    n: large_list<item: int64>
      child 0, item: int64
    """
    name = state.name if state.name not in keys.names else f"{state.name}_state"
    value = pa.field(name, _dtype(state))
    return KeptState(state.name, told_as([*keys, value]), tuple(keys.names))


def rows_of_state(
    name: str,
    specs: Sequence[StateSpec],
    snapshot: SnapshotReader,
    wanted: Wanted,
    now_us: int,
) -> Iterator[pa.RecordBatch]:
    """The rows of one of `specs`, as they are at `now_us`; columns in the order of `kept_state`."""
    spec = next(spec for spec in specs if spec.name == name)
    store = read_state(spec, snapshot, wanted)
    try:
        store.advance(now_us)
        for keys, values in store.state(name).scan():
            names = [*keys.schema.names, "value"]
            yield pa.RecordBatch.from_arrays([*keys.columns, values], names=names)
    finally:
        store.close()


def _dtype(state: StateField) -> pa.DataType:
    value = plain(state.dtype)
    if state.kind == "list":
        return pa.large_list(value)
    if state.kind == "map":
        assert state.key_dtype is not None
        return pa.map_(plain(state.key_dtype), value)
    return value
