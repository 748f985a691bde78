"""Plans whose shape could make tasks wait for each other: they finish, with the right rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import fabric
from fabric import col
from fabric.clients.demo.checksum import checksum

TABLE = pa.table({"k": [n % 101 for n in range(40_000)], "v": list(range(40_000))})
DEADLINE_S = 60.0


@pytest.mark.parametrize("place", ["embedded", "session"])
def test_pipelined_diamond_with_one_batch_buffers(
    place: str, request: pytest.FixtureRequest
) -> None:
    session: fabric.Session = request.getfixturevalue(place)
    batches = TABLE.to_batches(max_chunksize=500)
    source = session.read_arrow(pa.Table.from_batches(batches))
    source = source.exchange(kind="forward", mode="pipelined").named("source")
    even = source.filter(col("v") % 2 == 0)
    odd = source.filter(col("v") % 2 == 1)
    union = even.union(odd).configure("source", buffer_batches=1)
    job = session.submit(union).wait(DEADLINE_S)
    assert checksum(job.collect()) == checksum(TABLE)
    job.release()


@pytest.mark.parametrize("place", ["embedded", "session"])
def test_self_join_over_one_source(place: str, request: pytest.FixtureRequest) -> None:
    session: fabric.Session = request.getfixturevalue(place)
    source = session.read_arrow(TABLE).filter(col("v") < 2_000).named("source")
    totals = source.group_by("k").agg(fabric.sum("v").alias("total"))
    joined = source.join(totals, on="k", strategy="hash")
    job = session.submit(joined, parallelism=3).wait(DEADLINE_S)
    found = job.collect()
    kept = TABLE.slice(0, 2_000)
    sums = kept.group_by("k").aggregate([("v", "sum")]).rename_columns(["k", "total"])
    assert checksum(found.select(["k", "v", "total"])) == checksum(
        kept.join(sums, "k").select(["k", "v", "total"])
    )
    job.release()


def test_eight_jobs_at_once_in_adverse_order(session: fabric.Session) -> None:
    source = session.read_arrow(TABLE)

    def ask(number: int) -> int:
        big, small = (source, source.limit(10)) if number % 2 else (source.limit(10), source)
        df = big.join(small.select("k").distinct(), on="k", how="semi", strategy="hash")
        job = session.submit(df.group_by("k").agg(fabric.count().alias("n")), parallelism=4)
        with job:
            return job.wait(DEADLINE_S).collect().num_rows

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [10] * 8
