"""Names that streams have beside their rows: hidden columns, kinds of changes, tags of sides.

Two columns travel with the rows inside a job and are never seen by users: `WATERMARK`, how far
event time had come in the row's split before it, and `KIND`, what the row does to earlier results.
The planner adds them where a node above needs them: last of all, and in this order. Times are
microseconds since the epoch, UTC.
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

WATERMARK = "__watermark"
"""int64: the most event time of earlier rows of the row's split, less the bound."""
KIND = "__kind"
"""int8: an index into `KINDS`; without it every row is an insert."""
HIDDEN = (WATERMARK, KIND)
KINDS = ("+I", "-U", "+U", "-D")
HIDDEN_TYPES = {WATERMARK: pa.int64(), KIND: pa.int8()}

BAD, LATE, ERRORS, UNREADABLE = "bad", "late", "errors", "unreadable"
"""Tags: rows without usable event time, rows behind the watermark, rows a function failed on, parts
of files that can't be read."""
UNREADABLE_SCHEMA = pa.schema(
    [("file", pa.string()), ("offset", pa.int64()), ("data", pa.binary()), ("error", pa.string())]
)
"""`offset`: the byte of a growing file's line, whose bytes are `data`; else the row from which on
a file can't be read."""
BAD_RECORD_SCHEMA = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("data", pa.binary()), ("error", pa.string()),
    ]
)  # fmt: skip
"""Records of Kafka that can't be read: `data` is the value's bytes, or the key's where it is that
which can't be."""

OnBad = Literal["fail", "skip", "side"]
