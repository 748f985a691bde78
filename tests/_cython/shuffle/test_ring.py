"""The native face of the rings: sizes that are counted, refusals, what items look like."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.ring.ring import Mark, Pipes, Rows
from fabric.errors import CancelledError, InternalError
from fabric.flight.header import Event

ONE = pa.record_batch({"a": [1]})
ARRAYS = {
    "int64": pa.array([1, 2, 3, 4]),
    "int64 nulls": pa.array([1, None, 3, 4]),
    "bool": pa.array([True, False, True, True]),
    "null": pa.nulls(4),
    "string": pa.array(["", "a", "bcd", None]),
    "large_binary": pa.array([b"", b"a", b"bcd", b"e"], pa.large_binary()),
    "decimal": pa.array([Decimal(1)] * 4),
    "fixed_binary": pa.array([b"abc"] * 4, pa.binary(3)),
    "timestamp": pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC")),
    "list": pa.array([[1], [], [2, 3], [4]]),
    "struct": pa.array([{"a": 1, "b": "x"}] * 4),
    "dictionary": pa.array(["a", "b", "a", "b"]).dictionary_encode(),
    "view": pa.array(["a", "a string that is not inline", "", "b"], pa.string_view()),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("cut", [(0, 4), (1, 2), (2, 0)])
def test_bytes_that_wait_are_those_of_the_rows(name: str, cut: tuple[int, int]) -> None:
    pipes = Pipes("job", Event)
    pipes.declare(1, 1)
    batch = pa.record_batch({"a": ARRAYS[name]}).slice(*cut)
    pipes.put([((1, 0), Rows(0, batch))])
    assert pipes.waiting_bytes() == (batch.nbytes if cut[1] else 0)
    assert pipes.take([(1, 0)]) == ((1, 0), Rows(0, batch))
    assert pipes.waiting_bytes() == 0


def test_empty_lists_need_no_offsets() -> None:
    """As they come by a wire: a list that is empty may have no first offset."""
    texts = pa.array([], pa.string())
    kind = pa.list_(pa.string())
    empty = pa.Array.from_buffers(kind, 0, [None, pa.py_buffer(b"")], children=[texts])
    offsets = pa.py_buffer(b"\0" * 12)
    outer = pa.Array.from_buffers(pa.list_(kind), 2, [None, offsets], children=[empty])
    pipes = Pipes("job", Event)
    pipes.declare(1, 1)
    pipes.put([((1, 0), Rows(0, pa.record_batch({"a": outer})))])
    assert pipes.waiting_bytes() == 8


@given(sizes=st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), max_size=4))
def test_parts_are_the_slices_between_the_offsets(sizes: list[list[int]]) -> None:
    """Two edges: one by offsets, one that gives every partition all rows."""
    pipes = Pipes("job", Event)
    pipes.declare(1, 3)
    pipes.declare(2, 2)
    want: dict[tuple[int, int], list[pa.RecordBatch]] = {}
    for counts in sizes:
        offsets = np.cumsum([0, *counts])
        batch = pa.record_batch({"a": np.arange(offsets[-1]), "b": ["x"] * int(offsets[-1])})
        pipes.put_parts(7, [(1, batch, offsets), (2, batch, None)])
        for partition, n in enumerate(counts):
            if n:
                want.setdefault((1, partition), []).append(batch.slice(offsets[partition], n))
        for partition in range(2 if batch.num_rows else 0):
            want.setdefault((2, partition), []).append(batch)
    found: dict[tuple[int, int], list[pa.RecordBatch]] = {}
    ports = [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    n_waiting = sum(map(len, want.values()))
    for port, item in pipes.take_many(ports, 1000) if n_waiting else []:
        assert isinstance(item, Rows)
        assert item.producer == 7
        found.setdefault(port, []).append(item.batch)
    assert found == want
    assert pipes.waiting_bytes() == 0


@pytest.mark.parametrize("native", [False, True])
def test_a_native_consumer_gets_no_buffers_of_python(native: bool) -> None:
    pipes = Pipes("job", Event)
    pipes.declare(1, 1)
    if native:
        pipes.set_native((1, 0))
    values = np.arange(100)
    ours = pa.array(values)  # numpy's memory
    theirs = pa.array([str(n) for n in range(100)])  # Arrow's memory
    batch = pa.record_batch({"a": ours, "b": theirs}).slice(10, 5)
    pipes.put([((1, 0), Rows(0, batch))])
    _, item = pipes.take([(1, 0)])
    assert isinstance(item, Rows)
    assert item.batch == batch
    a, b = (column.buffers()[-1] for column in item.batch.columns)
    assert (a.address == values.ctypes.data) == (not native)
    assert a.size == (40 if native else 800)
    assert b.address == theirs.buffers()[-1].address


def test_items_compare_and_print() -> None:
    batch = pa.record_batch({"a": [1]})
    mark = Mark(3, Event.BARRIER, 7)
    assert Rows(1, batch) != Rows(2, batch)
    assert mark == Mark(3, Event.BARRIER, 7)
    assert len({mark, Mark(3, Event.BARRIER, 7), Mark(3, Event.BARRIER, 8)}) == 2
    assert repr(mark).startswith("Mark(producer=3, event=<Event.BARRIER: 2>, value=7")
    match mark:
        case Mark(producer, event):
            assert (producer, event) == (3, Event.BARRIER)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: p.take([]), InternalError, "nothing to take from"),
        (lambda p: p.put([((1, 2), Mark(0, Event.END))]), InternalError, "edge 1 has 2 partitions"),
        (
            lambda p: p.put([((1, 0), Mark(1 << 20, Event.END))]),
            InternalError,
            "beyond the 1048576",
        ),
        (lambda p: p.put([((1, 0), Rows(0, "x"))]), ValueError, "RecordBatch is needed"),
        (lambda p: p.put([((1, 0), "x")]), TypeError, "Mark"),
        (lambda p: p.put([((-1, 0), Mark(0, Event.END))]), OverflowError, "negative"),
        (lambda p: p.put_parts(0, [(1, ONE, np.array([0, 1]))]), InternalError, "2 offsets were"),
        (lambda p: p.put_parts(0, [(1, ONE, np.array([0, 2, 2]))]), InternalError, "not those of"),
        (lambda p: p.put_parts(0, [(1, ONE, np.array([0, 1, 0]))]), InternalError, "not those of"),
        (lambda p: p.put_parts(0, [(1, ONE, np.array([-1, 0, 1]))]), InternalError, "not those of"),
        (lambda p: p.put_parts(0, [(5, ONE, None)]), InternalError, "edge 5 was never declared"),
        (lambda p: p.wanted(9), InternalError, "edge 9 was never declared"),
    ],
)
def test_refuses(call: Any, error: type[Exception], message: str) -> None:
    pipes = Pipes("job", Event)
    pipes.declare(1, 2)
    with pytest.raises(error, match=message):
        call(pipes)


def test_rows_come_together_until_something_presses() -> None:
    pipes = Pipes("job", Event)
    pipes.declare(1, 1)
    port, hours = (1, 0), 9_999.0
    rows, mark = Rows(0, ONE), Mark(0, Event.WATERMARK, 7)
    pipes.put([(port, rows), (port, mark)])
    assert pipes.take_many([port], 10, timeout_s=0.001, gather_s=hours) == []  # still to gather
    assert pipes.take_many([port], 10, gather_s=0.001) == [(port, rows), (port, mark)]
    barrier = Mark(0, Event.BARRIER, 1)
    pipes.put([(port, rows), (port, barrier)])
    assert pipes.take_many([port], 10, gather_s=hours) == [(port, rows), (port, barrier)]
    pipes.put([(port, end := Mark(0, Event.END, total_rows=2))])
    assert pipes.take_many([port], 10, gather_s=hours) == [(port, end)]
    assert pipes.take_many([port], 10, timeout_s=0.001) == []


def test_what_nobody_has_a_use_for_rests_until_its_watermark() -> None:
    pipes = Pipes("job", Event)
    pipes.declare(1, 2, batches_max=8)
    ports, hours = [(1, 0), (1, 1)], 9_999.0
    rows = Rows(0, ONE)
    pipes.put([(ports[0], rows), (ports[1], Mark(0, Event.WATERMARK, 6))])
    assert not pipes.rest(ports, 7, 0.001)
    assert pipes.rest(ports, 6, hours)
    pipes.put([(ports[0], Mark(0, Event.BARRIER, 1))])
    assert pipes.rest(ports, 7, hours)
    assert len(pipes.take_many(ports, 10)) == 3
    assert not pipes.rest(ports, 7, 0.001)  # the barrier was taken
    pipes.put([(ports[1], rows)] * 4)  # half of what may wait
    assert pipes.rest(ports, 7, hours)
    pipes.take_many(ports, 10)
    pipes.put([(ports[1], Mark(0, Event.END, total_rows=4))])
    assert pipes.rest(ports, 7, hours)
    pipes.cancel("enough")
    with pytest.raises(CancelledError):
        pipes.rest(ports, 7, hours)
