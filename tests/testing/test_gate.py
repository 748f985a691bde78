from __future__ import annotations

import pyarrow as pa

from fabric.ids import TaskId
from fabric.io.sinks import open_sink
from fabric.testing.gate import Gate


def test_the_sink_passes_once_the_gate_is_open() -> None:
    with Gate() as gate:
        sink = open_sink(gate.target, pa.schema([]), TaskId("j", 0, 0), 1)
        assert not gate.opened
        gate.open()
        assert gate.name.encode() in sink.prepare()


def test_leaving_the_block_opens_it() -> None:
    with Gate() as gate:
        pass
    assert gate.opened
