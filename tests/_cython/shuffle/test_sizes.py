"""Bytes by partition: those of each slice, whatever the types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.store.messages import add_partition_bytes, batch_bytes
from tests.support.arrays import batches, examples


def has_dictionary(dtype: pa.DataType) -> bool:
    inner = [dtype.field(i).type for i in range(dtype.num_fields)]
    storage = [dtype.storage_type] if isinstance(dtype, pa.BaseExtensionType) else []
    ends = [dtype.value_type] if pa.types.is_run_end_encoded(dtype) else []
    return pa.types.is_dictionary(dtype) or any(map(has_dictionary, inner + storage + ends))


@examples()
@given(batches(), st.data())
def test_bytes_of_slices(batch: pa.RecordBatch, data: Any) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, batch.num_rows), max_size=5)))
    offsets = np.array([0, *cuts, batch.num_rows], np.int64)
    totals = np.ones(len(offsets) - 1, np.int64)
    add_partition_bytes(batch, offsets, totals)
    for begin, end, total in zip(offsets[:-1], offsets[1:], totals.tolist(), strict=True):
        most = batch_bytes(batch.slice(begin, end - begin))
        if any(map(has_dictionary, batch.schema.types)):
            assert total - 1 <= most  # dictionaries are shared, so no partition has them
        else:
            assert total - 1 == most


@pytest.mark.parametrize(
    ("offsets", "message"),
    [([0, 3], "2 partitions have 3 offsets, got 2"), ([0, 1, 2], "offsets go from 0 to 3"),
     ([1, 2, 3], "offsets go from 0 to 3"), ([0, 4, 3], "must not fall, got 4, then 3")],
)  # fmt: skip
def test_refuses_what_does_not_fit(offsets: list[int], message: str) -> None:
    batch = pa.record_batch({"a": [1, 2, 3]})
    with pytest.raises(ValueError, match=message):
        add_partition_bytes(batch, np.array(offsets, np.int64), np.zeros(2, np.int64))
