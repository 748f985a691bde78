"""Unions as IPC bytes: what lies behind their type codes in memory stays where it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from fabric._cython.shuffle.store.budget import Budget
from fabric._cython.shuffle.store.store import Store

N_ROWS, FOREIGN = 64, 77


def union(kind: str) -> pa.Array:
    """Behind its codes, in the same memory, lie bytes of somebody else."""
    memory = pa.array([n % 2 for n in range(N_ROWS)] + [FOREIGN] * N_ROWS, pa.int8()).buffers()[1]
    codes = pa.Array.from_buffers(pa.int8(), N_ROWS, [None, memory.slice(0, N_ROWS)])
    children = [pa.array([0] * N_ROWS)] * 2
    if kind == "sparse":
        return pa.UnionArray.from_sparse(codes, children)
    return pa.UnionArray.from_dense(codes, pa.array(range(N_ROWS), pa.int32()), children)


def nested(kind: str, of: pa.Array) -> pa.Array:
    match kind:
        case "struct":
            return pa.StructArray.from_arrays([of], ["x"])
        case "list":
            return pa.ListArray.from_arrays(pa.array(range(N_ROWS + 1), pa.int32()), of)
        case "dense union":
            codes = pa.array([0] * N_ROWS, pa.int8())
            return pa.UnionArray.from_dense(codes, pa.array(range(N_ROWS), pa.int32()), [of])
        case "dictionary":
            return pa.DictionaryArray.from_arrays(pa.array([3, 2, 1, 0]), of.slice(N_ROWS - 4))
    return of


@pytest.mark.parametrize("way", ["lz4", "disk"])
@pytest.mark.parametrize("parent", ["", "struct", "list", "dense union", "dictionary"])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_slice_of_unions_brings_nothing_else(
    tmp_path: Path, kind: str, parent: str, way: str
) -> None:
    rows = pa.record_batch({"a": nested(parent, union(kind))})
    rows = rows.slice(rows.num_rows - 4)
    store = Store("a", Budget(1), [tmp_path] if way == "disk" else ())
    store.begin("job", 0, rows.schema, 1, 0, 0, "lz4" if way == "lz4" else "")
    store.append("job", 0, 0, 0, rows)
    store.seal("job", 0, 0, 0)
    assert (store.spilled_bytes > 0) == (way == "disk")
    (_, found), _ = store.open("job", 0, 0, [(0, 0)]).take()
    assert found.to_pylist() == rows.to_pylist()
    column = found.column(0)
    arrays = [column.dictionary] if parent == "dictionary" else [column]
    sent = b"".join(b.to_pybytes() for a in arrays for b in a.buffers() if b is not None)
    assert FOREIGN not in sent
