"""One order over several tasks: collected, streamed, written and read by Flight clients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as fl
import pyarrow.parquet as pq
import pytest

import fabric
from tests.support.local import LocalFabric

N_ROWS = 400_000
RNG = np.random.default_rng(seed=3)
TABLE = pa.table(
    {
        "k": pa.array(np.where(RNG.random(N_ROWS) < 0.4, 5, RNG.integers(0, 1000, N_ROWS)),
                      mask=RNG.random(N_ROWS) < 0.1),
        "s": pa.array([f"{n}" for n in RNG.integers(0, 10**6, N_ROWS)]),
        "v": RNG.permutation(N_ROWS),
    }
)  # fmt: skip
ORDER = [("k", "descending", "at_end"), ("s", "ascending", "at_end")]
WANT = TABLE.take(pc.sort_indices(TABLE, ORDER))


def in_order(found: pa.Table) -> None:
    keys = found.select(["k", "s"]).combine_chunks()
    assert keys.equals(WANT.select(["k", "s"]).combine_chunks())
    assert pc.sum(found["v"]).as_py() == N_ROWS * (N_ROWS - 1) // 2


def ordered(session: fabric.Session) -> fabric.DataFrame:
    source = session.read_arrow(TABLE).exchange(kind="round_robin", n_partitions=3)
    df = source.sort("k", "s", descending=[True, False], nulls_last=True).named("ordered")
    return df.configure("ordered", parallelism=3)


@pytest.mark.parametrize("place", ["embedded", "session"])
def test_partitions_one_after_another_are_in_order(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    session: fabric.Session = request.getfixturevalue(place)
    with session.submit(ordered(session)) as job:
        job.wait(120)
        in_order(job.collect())
        in_order(pa.Table.from_batches(job.iter_batches()))
    ordered(session).write_parquet(tmp_path / "out")
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert len(files) == 3
    assert min(pq.read_metadata(file).num_rows for file in files) > N_ROWS / 4
    in_order(pa.concat_tables(pq.read_table(file) for file in files))
    ordered(session).write_parquet(tmp_path / "one.parquet")
    in_order(pq.read_table(tmp_path / "one.parquet"))


def test_flight_endpoints_are_in_order(session: fabric.Session, two: LocalFabric) -> None:
    bearer = (b"authorization", b"Bearer " + two.token.encode())
    options = fl.FlightCallOptions(headers=[bearer])
    with session.submit(ordered(session)) as job:
        job.wait(120)
        partitions = job.partitions("ordered")
        numbers = [partition.number for partition in partitions]
        assert numbers == sorted(numbers)
        assert set(numbers) == {0, 1, 2}
        parts = []
        for partition in partitions:
            with fl.connect(partition.locations[0]) as client:
                parts.append(client.do_get(fl.Ticket(partition.ticket), options).read_all())
        in_order(pa.concat_tables(parts))
        path = fl.FlightDescriptor.for_path("job", job.id, job.result_path)
        with fl.connect(session.flight_url) as client:
            assert client.get_flight_info(path, options).ordered
