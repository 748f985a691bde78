"""A small plan that most tests of this folder read from, and short ways to write expressions."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.plan.nodes import Scan
from fabric.plan.sources import MemorySource

SCHEMA = pa.schema([
    ("carrier", pa.string()), ("delay", pa.int32()), ("distance", pa.float32()),
    ("day", pa.date32()), ("at", pa.timestamp("us")), ("late", pa.bool_()),
    ("price", pa.decimal128(10, 2)), ("tags", pa.list_(pa.string())),
])  # fmt: skip


@pytest.fixture
def flights() -> Scan:
    return Scan(MemorySource("flights", 3), SCHEMA)
