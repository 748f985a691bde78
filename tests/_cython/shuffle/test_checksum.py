"""batch_crc32c: equal for equal rows however they lie, different for different ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.cpu import cpu_path, cpu_paths, set_cpu_path
from fabric._cython.shuffle.checksum import RunningCrc32c, batch_crc32c, crc32c
from tests.support.arrays import arrays, batches, examples, plain_arrays, types


def bitwise(data: bytes) -> int:
    """CRC32C a bit at a time, straight from its polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def through_ipc(batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


@pytest.mark.parametrize(
    ("data", "crc"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43),
     (bytes(range(32)), 0x46DD794E)],
)  # fmt: skip
def test_published_vectors(data: bytes, crc: int, forced_cpu: str) -> None:
    """RFC 3720, section B.4."""
    assert crc32c(data) == crc


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 3071, 3072, 3073, 6144, 10_007])
def test_matches_the_polynomial(size: int, forced_cpu: str) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    assert crc32c(data) == bitwise(data)


@examples(3)
@given(batch=batches(), data=st.data())
def test_slices_equal_what_ipc_brings(batch: pa.RecordBatch, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, batch.num_rows))
    part = batch.slice(first, data.draw(st.integers(0, batch.num_rows - first)))
    assert batch_crc32c(part) == batch_crc32c(through_ipc(part))


@examples(3)
@given(data=st.data())
def test_slices_equal_copies(data: st.DataObject) -> None:
    kind = data.draw(types())
    part = data.draw(plain_arrays(kind))
    copied = pa.concat_arrays([part, pa.array([], kind)])
    assert batch_crc32c(part) == batch_crc32c(copied)


@examples()
@given(array=arrays())
def test_every_cpu_path_gives_the_same(array: pa.Array) -> None:
    before = cpu_path()
    found = set()
    try:
        for name in cpu_paths():
            set_cpu_path(name)
            found.add(batch_crc32c(array))
    finally:
        set_cpu_path(before)
    assert len(found) == 1


def test_is_the_crc_of_the_buffers() -> None:
    batch = pa.record_batch({"a": pa.array([1, None, 3], pa.int32()), "b": ["x", "", "yz"]})
    validity, values = b"\x05", np.array([1, 0, 3], np.int32).tobytes()
    offsets, text = np.array([0, 1, 1, 3], np.int32).tobytes(), b"xyz"
    assert batch_crc32c(batch) == bitwise(validity + values + offsets + text)
    assert batch_crc32c(pa.array([True, False, True])) == bitwise(b"\x05")
    views = pa.array(["ab", None, "c" * 20], pa.string_view())
    sizes = np.array([2, 0, 20], np.int32).tobytes()
    assert batch_crc32c(views) == bitwise(b"\x05" + sizes + b"ab" + b"c" * 20)


def test_no_rows_have_no_bytes() -> None:
    for kind in (
        pa.int8(),
        pa.string(),
        pa.list_(pa.string()),
        pa.dictionary(pa.int8(), pa.utf8()),
    ):
        assert batch_crc32c(pa.array([], kind)) == 0


def test_a_useless_bitmap_does_not_count() -> None:
    values = pa.py_buffer(np.arange(10, dtype=np.int64).tobytes())
    with_bitmap = pa.Array.from_buffers(pa.int64(), 10, [pa.py_buffer(b"\xff\xff"), values])
    assert batch_crc32c(with_bitmap) == batch_crc32c(pa.array(range(10)))


def test_views_over_other_buffers_are_equal() -> None:
    texts = [f"text that is longer than a view {i}" for i in range(9)]
    one = pa.array(texts, pa.string_view())
    many = pa.concat_arrays([pa.array([text], pa.string_view()) for text in texts])
    assert len(many.buffers()) > len(one.buffers())
    assert batch_crc32c(one) == batch_crc32c(many)


def test_a_changed_dictionary_shows() -> None:
    one, two = (pa.DictionaryArray.from_arrays([0], pa.array([v])) for v in ("a", "b"))
    assert batch_crc32c(one) != batch_crc32c(two)


@examples()
@given(values=st.lists(st.integers(0, 255), min_size=1, max_size=400), data=st.data())
def test_every_flipped_bit_shows(values: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    changed = list(values)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    before, after = (pa.array(v, pa.uint8()) for v in (values, changed))
    assert batch_crc32c(before) != batch_crc32c(after)


@given(st.lists(st.binary(max_size=5000), max_size=5))
def test_pieces_have_the_checksum_of_the_whole(pieces: list[bytes]) -> None:
    running = RunningCrc32c()
    for piece in pieces:
        running.update(piece)
    assert running.value == crc32c(b"".join(pieces))
