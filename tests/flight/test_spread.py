"""Spreading rows over owners: each row once, where its keys put it, in bounded memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.shuffle.checksum import batch_crc32c
from fabric.control.control_pb2 import DatasetLocation
from fabric.errors import DataError, PeerLostError, StorageError
from fabric.flight.descriptor import PutPath
from fabric.flight.owners import Spread
from fabric.flight.transport import PartReceipt
from tests.support.arrays import arrays, examples, rendered

PUT = PutPath("d", "tx-1", "w", 0)
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
N_OWNERS = 3


@dataclass
class Kept:
    """An owner in Python."""

    written: list[tuple[int, pa.RecordBatch]] = field(default_factory=list)
    state: str = "open"
    failure: BaseException | None = None

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        if self.failure is not None:
            raise self.failure
        self.written.append((partition, batch))

    def seal(self) -> PartReceipt:
        self.state = "sealed"
        sums = sum(batch_crc32c(batch) for _, batch in self.written)
        return PartReceipt(sum(b.num_rows for _, b in self.written), sums & 0xFFFFFFFF)

    def abandon(self) -> None:
        self.state = "abandoned" if self.state == "open" else self.state


class Owners(defaultdict[str, Kept]):
    """A transport to them, by address."""

    def __init__(self) -> None:
        super().__init__(Kept)

    def open_put(self, address: str, put: PutPath, schema: pa.Schema) -> Kept:
        assert put == PUT
        return self[address]


def location(schema: pa.Schema, keys: list[str], n_partitions: int) -> DatasetLocation:
    return DatasetLocation(
        name="d",
        schema=schema.serialize().to_pybytes(),
        keys=keys,
        n_partitions=n_partitions,
        owners=[f"a{n % N_OWNERS}" for n in range(n_partitions)],
    )


def spread_over(owners: Owners, at: DatasetLocation, **options: Any) -> Spread:
    addresses = {f"a{n}": f"at-a{n}" for n in range(N_OWNERS)}
    return Spread(PUT, at, owners, addresses, **options)


def by_partition(owners: Owners) -> dict[int, list[pa.RecordBatch]]:
    found: dict[int, list[pa.RecordBatch]] = {}
    for address, owner in owners.items():
        for partition, batch in owner.written:
            assert address == f"at-a{partition % N_OWNERS}"
            found.setdefault(partition, []).append(batch)
    return found


@st.composite
def writes(draw: st.DrawFn) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """Slices of one batch with a key and columns of any type."""
    n = draw(st.integers(0, 60))
    keys = pa.array(draw(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=n, max_size=n)))
    columns = draw(st.lists(arrays(n, n), min_size=0, max_size=3))
    named = {"k": keys.cast(pa.int64()), **{f"c{i}": c for i, c in enumerate(columns)}}
    batch = pa.RecordBatch.from_pydict(named)
    cuts = sorted(draw(st.lists(st.integers(0, n), max_size=5)))
    ends = [0, *cuts, n]
    return batch.schema, [batch.slice(a, b - a) for a, b in pairwise(ends)]


def texts(given_rows: list[pa.RecordBatch], n_columns: int) -> list[tuple[str, ...]]:
    columns = [list(chain(*(rendered(b.column(i)) for b in given_rows))) for i in range(n_columns)]
    return list(zip(*columns, strict=True))


@examples()
@given(writes(), st.integers(1, 12), st.booleans(), st.sampled_from([0, 100, 32 << 20]))
def test_every_row_arrives_once_where_its_keys_put_it(
    given_writes: tuple[pa.Schema, list[pa.RecordBatch]], n: int, by_keys: bool, held: int
) -> None:
    schema, written = given_writes
    owners = Owners()
    spread = spread_over(owners, location(schema, ["k"] if by_keys else [], n), held_bytes_max=held)
    for batch in written:
        spread.write(batch)
    receipt = spread.seal()
    found = by_partition(owners)
    assert set(found) == set(range(n))
    assert receipt.rows == spread.rows == sum(b.num_rows for b in written)
    everything = [b for partition in range(n) for b in found[partition]]
    assert receipt.crc32c_sum == sum(map(batch_crc32c, everything)) & 0xFFFFFFFF
    assert sorted(texts(everything, len(schema))) == sorted(texts(written, len(schema)))
    for partition, batches in found.items():
        for batch in batches:
            batch.validate(full=True)
            assert batch.schema == schema
            if by_keys:
                groups = hash_columns([batch.column("k")]) >> np.uint64(49)
                assert set(groups.astype(int) * n >> 15) <= {partition}
        if by_keys:  # rows of a partition keep their order
            ours = texts(batches, len(schema))
            among = set(ours)
            assert ours == [row for row in texts(written, len(schema)) if row in among]
    assert {owner.state for owner in owners.values()} == {"sealed"}


def rows(n: int, width: int = 100) -> pa.RecordBatch:
    values = np.arange(n) * 7919
    return pa.record_batch({"k": values, "v": pa.array([f"{v:0{width}d}" for v in values])}, SCHEMA)


def test_without_keys_rows_go_evenly_in_turn() -> None:
    owners = Owners()
    spread = spread_over(owners, location(SCHEMA, [], 7))
    for n in (1, 2, 3, 10, 100):
        spread.write(rows(n))
    spread.seal()
    sizes = [sum(b.num_rows for b in found) for found in by_partition(owners).values()]
    assert sum(sizes) == 116
    assert max(sizes) - min(sizes) <= 5


def test_messages_are_about_a_mebibyte() -> None:
    owners = Owners()
    spread = spread_over(owners, location(SCHEMA, ["k"], 4))
    for _ in range(40):
        spread.write(rows(10_000))
    assert spread.seal().rows == 400_000
    sizes = [batch.nbytes for owner in owners.values() for _, batch in owner.written]
    assert 0.7e6 < np.median(sizes) < 1.6e6
    assert max(sizes) < 4 << 20


def test_a_large_batch_for_one_partition_is_cut() -> None:
    owners = Owners()
    spread = spread_over(owners, location(SCHEMA, ["k"], 1))
    spread.write(rows(200_000))
    spread.seal()
    ((_, messages),) = by_partition(owners).items()
    assert max(batch.nbytes for batch in messages) < 4 << 20
    assert pa.Table.from_batches(messages) == pa.Table.from_batches([rows(200_000)])


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view()])
def test_what_waits_is_bounded_and_sent_once(kind: pa.DataType) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", kind)])
    owners = Owners()
    before = pa.total_allocated_bytes()
    spread = spread_over(owners, location(schema, ["k"], 500), held_bytes_max=2 << 20)
    most = 0
    for _ in range(60):
        batch = rows(2000, 200)
        columns = [batch.column(0), batch.column(1).cast(kind)]
        spread.write(pa.record_batch(columns, schema=schema))
        sent = sum(b.get_total_buffer_size() for o in owners.values() for _, b in o.written)
        most = max(most, pa.total_allocated_bytes() - before - sent)
    assert most < 16 << 20
    assert spread.seal().rows == 120_000
    sent = sum(b.nbytes for owner in owners.values() for _, b in owner.written)
    assert sent < 60 * 2000 * 300


def test_an_owner_that_fails_is_named_and_the_others_are_told() -> None:
    owners = Owners()
    spread = spread_over(owners, location(SCHEMA, ["k"], 3))
    owners["at-a1"].failure = StorageError("the disk is full", agent="at-a1")
    spread.write(rows(100))
    with pytest.raises(StorageError, match=r"the disk is full \(agent a1\)"):
        spread.seal()
    spread.abandon()
    assert {owner.state for owner in owners.values()} == {"abandoned"}


def test_what_is_no_error_of_ours_comes_through_as_it_is() -> None:
    owners = Owners()
    spread = spread_over(owners, location(SCHEMA, ["k"], 3))
    owners["at-a0"].failure = surprise = KeyboardInterrupt()
    spread.write(rows(100))
    with pytest.raises(KeyboardInterrupt) as caught:
        spread.seal()
    assert caught.value is surprise
    spread.abandon()
    assert {owner.state for owner in owners.values()} == {"abandoned"}


def test_refusals() -> None:
    at = location(SCHEMA, ["k"], 3)
    with pytest.raises(PeerLostError, match="agent a1 owns partitions of dataset 'd' and is not"):
        Spread(PUT, at, Owners(), {"a0": "x", "a2": "y"})
    with pytest.raises(DataError, match="the rows have columns x: int64, dataset 'd' has k: int64"):
        spread_over(Owners(), at).write(pa.record_batch({"x": [1]}))
