"""Rows for a Tonbo store, and what one has.

One job: what the tests of the binding share.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from fabric_tonbo import Store

SCHEMA = pa.schema([("key", pa.binary()), ("n", pa.int64()), ("text", pa.string())])


def key(number: int) -> bytes:
    """The key of the row with a number."""
    return b"%06d" % number


def rows(numbers: range | list[int], text: str | None = "text") -> pa.RecordBatch:
    """A batch of the rows with some numbers."""
    columns = [pa.array(map(key, numbers), pa.binary()), pa.array(numbers), [text] * len(numbers)]
    return pa.record_batch(columns, schema=SCHEMA)


def put_each(store: Store, numbers: range) -> None:
    """A row a put."""
    for number in numbers:
        store.put(rows([number]))


def found(store: Store, *bounds: bytes | None, **how: Any) -> list[int]:
    """The numbers of the rows that are there, by key."""
    table = store.scan(*bounds, **how).read_all()
    return [int(each) for each in table.column("key").to_pylist()]
