"""Dictionaries through pyarrow's server, which drops them from messages that carry metadata.

One job: a way round. A generator stream of the server sends a batch or a (batch, metadata) without
its dictionaries, and the reader fails. So between agents a message whose schema holds a dictionary
travels as one row of bytes, an Arrow IPC stream of its own; a foreign client gets tables, which go
with their dictionaries. The native server will need neither.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.errors import DataError

BOX_SCHEMA = pa.schema([pa.field("fabric.boxed", pa.large_binary(), nullable=False)])


def holds_dictionaries(schema: pa.Schema) -> bool:
    """Whether any column, at any depth, is dictionary-encoded.

    >>> holds_dictionaries(pa.schema([("a", pa.list_(pa.dictionary(pa.int8(), pa.string())))]))
    True
    """
    return any(_has_dictionary(field.type) for field in schema)


def _has_dictionary(dtype: pa.DataType) -> bool:
    if isinstance(dtype, pa.BaseExtensionType):
        return _has_dictionary(dtype.storage_type)
    if pa.types.is_run_end_encoded(dtype):
        return _has_dictionary(dtype.value_type)
    below = (dtype.field(i).type for i in range(dtype.num_fields))
    return pa.types.is_dictionary(dtype) or any(map(_has_dictionary, below))


def box(batch: pa.RecordBatch) -> pa.RecordBatch:
    """One row that holds `batch` as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    value = pa.py_buffer(sink.getvalue())
    offsets = pa.py_buffer(pa.array([0, value.size], pa.int64()).buffers()[1])
    column = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, offsets, value])
    return pa.RecordBatch.from_arrays([column], schema=BOX_SCHEMA)


def unbox(batch: pa.RecordBatch) -> pa.RecordBatch:
    """What `box` was given; a batch that is not boxed comes back as it is.

    >>> odd = pa.record_batch({"a": pa.array(["x"]).dictionary_encode()})
    >>> unbox(box(odd)).equals(odd)
    True
    """
    if not batch.schema.equals(BOX_SCHEMA):
        return batch
    try:
        with pa.ipc.open_stream(batch.column(0)[0].as_buffer()) as reader:
            return reader.read_next_batch()
    except (pa.ArrowException, OSError, IndexError, StopIteration) as error:
        raise DataError("a boxed message does not hold a record batch") from error
