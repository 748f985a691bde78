"""Snapshots as files: each task takes its own range, and no columns but its plan's."""

import numpy as np
import pyarrow as pa
import pytest

from fabric.errors import DataError
from fabric.operators.snapshots import Packed, greatest, key_groups, unpacked, with_key_groups
from fabric.testing.operators import Kept

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ROWS = pa.record_batch({"k": range(500), "v": [str(i) for i in range(500)]}, SCHEMA)


def kept(rows=ROWS, facts=None):
    found = Kept()
    Packed({"rows": lambda: with_key_groups(rows, ["k"])}, facts or {}, rows.num_rows).write(found)
    return found


@pytest.mark.parametrize("n_before", [1, 2, 3])
@pytest.mark.parametrize("n_after", [1, 2, 5])
def test_all_rows_find_one_task(n_before, n_after):
    states = [kept(ROWS.take(pa.array(np.arange(i, 500, n_before)))) for i in range(n_before)]
    parts = [unpacked(states, "rows", SCHEMA, key_groups(i, n_after)) for i in range(n_after)]
    found = [key for part in parts for batch in part for key in batch.column("k").to_pylist()]
    assert sorted(found) == list(range(500))
    assert all(batch.schema.equals(SCHEMA) for part in parts for batch in part)
    assert n_after == 1 or all(map(len, parts))


def test_tables_of_several_batches():
    table = pa.Table.from_batches([ROWS.slice(0, 10), ROWS.slice(10, 5)])
    found = unpacked([kept(table)], "rows", SCHEMA, range(1 << 15))
    assert sum(batch.num_rows for batch in found) == 15


def test_a_table_without_rows_has_no_file():
    assert kept(ROWS.slice(0, 0)).names() == ["facts.json"]
    assert unpacked([kept(ROWS.slice(0, 0))], "rows", SCHEMA, range(1 << 15)) == []


def test_facts_are_the_greatest_of_all_tasks():
    states = [kept(facts={"watermark": 3}), kept(facts={"watermark": 5}), kept()]
    assert greatest(states, "watermark", -1) == 5
    assert greatest(states, "now", -1) == greatest([], "watermark", -1) == -1


def test_columns_of_another_plan_are_refused_by_name():
    wanted = pa.schema([("k", pa.int64()), ("v", pa.int32())])
    with pytest.raises(DataError, match="has the columns k: int64, v: string, and this plan needs"):
        unpacked([kept()], "rows", wanted, range(1 << 15))
