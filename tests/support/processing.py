"""Users' functions of the rows of each key, for tests: their nodes, operators and rows.

One job: short ways to a `KeyedProcess` over rows of a key, a time and a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from fabric.clients.dataframe.expressions.udf import OwnObject, own_object
from fabric.operators.contract import Context
from fabric.operators.functions.trust import vouch
from fabric.operators.node_operators import operator_of
from fabric.operators.streams.process.operator import ProcessOperator
from fabric.plan.expr import Column, Udf
from fabric.plan.nodes import KeyedProcess, StageInput, StateField
from fabric.plan.process import Process
from fabric.plan.schema import schema_of

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.timestamp("us")), ("v", pa.int64())])
OUTPUT = pa.schema([("k", pa.string()), ("n", pa.int64())])


def udf_of(value: OwnObject, name: str = "f") -> Udf:
    """An object as it comes in a plan, vouched for."""
    made = own_object(value, name)
    vouch(made.payload)
    return made


def node_of(
    process: Process,
    states: Sequence[StateField] = (),
    *,
    schema: pa.Schema = OUTPUT,
    keys: Sequence[str] = ("k",),
    source: pa.Schema = SCHEMA,
    **more: Any,
) -> KeyedProcess:
    """A node that runs `process` over rows of `source`."""
    function = udf_of(process, type(process).__name__)
    columns = tuple(map(Column, keys))
    return KeyedProcess(StageInput(0, source), columns, function, schema, tuple(states), **more)


def make(node: KeyedProcess, folder: Path | None = None) -> Callable[[], ProcessOperator]:
    """Makes operators, each with its states in a folder of its own if there is one."""
    numbers, sources = count(), [schema_of(child) for child in node.children]

    def made() -> ProcessOperator:
        operator = operator_of(node, schema_of(node), sources)
        assert isinstance(operator, ProcessOperator)
        opened = operator.open

        def open_(context: Context) -> None:
            if folder is not None:
                place = folder / str(next(numbers))
                context = replace(context, folder=place, state="rocksdb")
            opened(context)

        operator.open = open_  # type: ignore[method-assign]
        return operator

    return made


def batch_of(rows: Iterable[tuple[str | None, int, int]]) -> pa.RecordBatch:
    """Rows of key, microsecond and value.

    >>> batch_of([("a", 1, 2)]).num_rows
    1
    """
    return pa.RecordBatch.from_pylist([{"k": k, "at": at, "v": v} for k, at, v in rows], SCHEMA)


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Rows as tuples, as they come."""
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
