"""Rows of operators that lie below their tables: what is cold, in few and large pieces.

    hash uint64 | time int64 | columns of the schema          one row of a `ColumnStore`

`open_column_store` makes a `ColumnStore`; the engines are ``memory``, ``arrow`` (files) and
``tonbo`` (a database a generation, of a package of its own).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from fabric.config import StateBackend
from fabric.errors import ConfigError
from fabric.plan.types import plain
from fabric.state.column_stores.contract import ALL_HASHES, ALL_TIMES, ColumnStore, Found, Order
from fabric.state.column_stores.runs import RunStore, rows_of_keys

__all__ = [
    "ALL_HASHES", "ALL_TIMES", "ColumnStore", "Found", "Order", "check_engine", "column_engine",
    "open_column_store", "rows_of_keys", "stored_type",
]  # fmt: skip


def stored_type(dtype: pa.DataType) -> pa.DataType:
    """What columns of a type are stored as.

    Dictionaries as their values, for each file would have one of its own; views as what they show,
    for Arrow takes no rows of them.
    """
    dtype = plain(dtype)
    if pa.types.is_string_view(dtype):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(dtype) else dtype


def column_engine(state: StateBackend) -> str:
    """The engine for what built-in operators know, where a job's state lies in `state`."""
    if state == "tonbo":
        return "tonbo"
    return "arrow" if state in ("arrow", "auto") else "memory"


def check_engine(state: StateBackend) -> None:
    """Raise `ConfigError` where `state` needs a package that is not installed here."""
    if state == "tonbo" and find_spec("fabric_tonbo") is None:
        raise ConfigError(
            "state='tonbo' needs the package flight-fabric-tonbo, which is not installed; run "
            "pip install 'flight-fabric[tonbo]', or use state='arrow'"
        )


def open_column_store(
    engine: str, schema: pa.Schema, folder: Path | None = None, *, order: Order = "hash"
) -> ColumnStore:
    """An empty store of rows with the columns `schema`.

    Parameters
    ----------
    engine
        ``memory``, or ``arrow`` or ``tonbo``, which keep files in `folder`: one that is empty or
        missing.
    order
        What rows are sorted by first: by ``hash`` where keys are looked up, by ``time`` where all
        rows of a time are wanted at once.

    Raises
    ------
    ConfigError
        If the engine is unknown, not installed or has no folder, or can't store a column.
    StorageError
        If the folder holds anything, or can't be written.

    Examples
    --------
    >>> import numpy as np
    >>> store = open_column_store("memory", pa.schema([("n", pa.int64())]))
    >>> rows = pa.record_batch({"n": [1, 2]})
    >>> store.put(0, np.array([7, 9], np.uint64), np.array([10, 11]), rows)
    >>> [found.rows.to_pydict() for found in store.scan(times=(11, 12))]
    [{'n': [2]}]
    """
    match engine:
        case "memory":
            return RunStore(schema, order=order)
        case "arrow" if folder is not None:
            return RunStore(schema, folder, order=order)
        case "tonbo" if folder is not None:
            check_engine("tonbo")
            from fabric.state.column_stores.tonbo import TonboStore

            return TonboStore(schema, folder, order=order)
        case "arrow" | "tonbo":
            raise ConfigError(f"the column store {engine} needs a folder")
    raise ConfigError(f"a column store is memory, arrow or tonbo, not {engine!r}")
