"""Which Spark partition reads what: every row of every endpoint, once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.clients.spark.connection import Endpoint
from fabric.clients.spark.reader import RUN_ROWS, rows_of_share, slices


def endpoints(n: int) -> list[Endpoint]:
    return [Endpoint(("grpc://h:1",), str(i).encode()) for i in range(n)]


@given(n=st.integers(0, 20), least=st.integers(0, 50), most=st.integers(0, 30))
def test_every_endpoint_is_read_once_and_in_order(n: int, least: int, most: int) -> None:
    least = min(least, most) if most else least
    planned = slices(endpoints(n), least, most)
    flat = [part for one in planned for part in one]
    assert [p.endpoint for p in flat if p.share == 0] == endpoints(n)
    for part in flat:
        shares = [p.share for p in flat if p.endpoint == part.endpoint]
        assert shares == list(range(part.n_shares))
    if n:
        wanted = max(n, least)
        assert len(planned) == (min(wanted, most) if most else wanted)


def test_one_partition_an_endpoint() -> None:
    assert [len(one) for one in slices(endpoints(3))] == [1, 1, 1]
    assert [len(one) for one in slices(endpoints(7), most=3)] == [2, 2, 3]


@pytest.mark.parametrize("n_shares", [1, 2, 3])
@pytest.mark.parametrize("batch_rows", [1_000, RUN_ROWS, 50_000, 200_000])
def test_shares_are_told_by_rows_whatever_the_batches(n_shares: int, batch_rows: int) -> None:
    table = pa.table({"n": range(150_000)})
    batches = table.to_batches(max_chunksize=batch_rows)
    shares = []
    for share in range(n_shares):
        found = pa.Table.from_batches(rows_of_share(batches, share, n_shares), table.schema)
        if n_shares > 1:
            runs = {n // RUN_ROWS % n_shares for n in found["n"].to_pylist()}
            assert runs == {share}
        shares.append(found)
    assert pa.concat_tables(shares).sort_by("n") == table
