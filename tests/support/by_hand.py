"""Messages as a test writes them by hand: protobuf fields, and the IPC messages of a batch.

One job: what no well-meaning client library would send is put together from these.
"""

from __future__ import annotations

import pyarrow as pa


def varint(value: int) -> bytes:
    """A number as protobuf has it.

    >>> varint(300)
    b'\\xac\\x02'
    """
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: bytes) -> bytes:
    """One length-delimited protobuf field.

    >>> field(1, b"ab")
    b'\\n\\x02ab'
    """
    return varint(number << 3 | 2) + varint(len(value)) + value


def ipc_messages(batch: pa.RecordBatch, codec: str | None = None) -> list[pa.Message]:
    """Schema, dictionaries and rows of `batch` as IPC messages.

    >>> [message.type for message in ipc_messages(pa.record_batch({"a": [1]}))]
    ['schema', 'record batch']
    """
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return list(pa.MessageReader.open_stream(sink.getvalue()))
