"""Rows of a result that come back from a checkpoint, whatever was stored when."""

import pyarrow as pa
import pytest

from fabric.agent.stream_tasks.sinks import Results
from fabric.testing.operators import Kept

SCHEMA = pa.schema([("v", pa.int64())])


def batch(*values):
    return pa.record_batch({"v": list(values)}, SCHEMA)


def kept(snapshot):
    out = Kept()
    snapshot.write(out)
    return out


def values(batches):
    return [value for one in batches for value in one.column(0).to_pylist()]


@pytest.fixture
def folders(tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_rows_up_to_the_barrier_come_back_in_order(folders):
    results = Results(SCHEMA, folders / "old")
    results.add(batch(1, 2))
    first = results.on_barrier()
    results.add(batch(3))
    second = results.on_barrier()
    results.add(batch(4))
    later, earlier = kept(second), kept(first)
    assert (len(earlier.names()), len(later.names())) == (1, 2)
    again = Results(SCHEMA, folders / "new")
    assert values(again.restore([later])) == [1, 2, 3]
    again.add(batch(5))
    third = kept(again.on_barrier())
    assert third.names()[:2] == later.names(), "what was stored before is referred to, not changed"
    assert values(Results(SCHEMA, folders / "old").restore([third])) == [1, 2, 3, 5]


def test_nothing_new_makes_no_file(folders):
    results = Results(SCHEMA, folders / "old")
    assert kept(results.on_barrier()).names() == []
    results.add(batch(1))
    assert kept(results.on_barrier()).names() == kept(results.on_barrier()).names()
