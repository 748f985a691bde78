"""Keyed state: a join's probe and a keyed sum, on one core, beside engines held to one thread.

"join probe N": int64 keys, sparse over 62 bits and each of them there, are looked up among N kept
rows, and one int64 column of each side is gathered. Our table holds the kept rows beforehand, as a
stream's state does. Peers build theirs in each query; the same query with a single probe row says
how long that takes, and it is taken off their time. Results are handed on batch by batch, by those
that can. "group update N": int64 values are added up by
N keys, from nothing to the table of all sums, by everybody.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import Answer, Case, Engine

MILLION = 1_000_000
BATCH_ROWS = 65_536
N_ROWS = 10 * MILLION
PEERS = "duckdb", "polars", "datafusion"
JOIN = "select p.v, b.w from p left join b on p.k = b.k"
SUM = "select k, cast(sum(v) as bigint) as s from p group by k"


def cases(quick: bool) -> list[Case]:
    return [
        Case(f"{kind} {n}M", N_ROWS, N_ROWS * 16, {"kind": kind, "n_keys": n * MILLION})
        for kind in ("join probe", "group update")
        for n in (1, 10)
    ]


def engines(case: Case) -> list[Engine]:
    ours = Engine(None, "bench.kernels.tables:fabric")
    return [ours, *(Engine(peer, f"bench.kernels.tables:{peer}") for peer in PEERS)]


@lru_cache(maxsize=1)
def tables(n_keys: int) -> tuple[pa.Table, pa.Table]:
    """Rows `p` of keys that are all among those of `b`, each of which is there once."""
    rng = np.random.default_rng(n_keys)
    keys = np.unique(rng.integers(0, 1 << 62, n_keys + n_keys // 1000))[:n_keys]
    rng.shuffle(keys)
    probed = keys[rng.integers(0, n_keys, N_ROWS)]
    p = pa.table({"k": probed, "v": np.arange(N_ROWS)})
    return p, pa.table({"k": keys, "w": rng.integers(0, 1 << 40, n_keys)})


class TableRun:
    """`query` takes all rows, or one probe row; `arrow` makes a table of all it gives."""

    def __init__(
        self,
        query: Callable[[bool], Iterable[Any]],
        arrow: Callable[[list[Any]], pa.Table],
        built: bool,
    ) -> None:
        self._query, self._arrow = query, arrow
        if built:
            self.beside = lambda: self._drain(True)

    def work(self) -> object:
        return self._drain(False)

    def _drain(self, one: bool) -> object:
        part = None
        for part in self._query(one):  # noqa: B007
            pass
        return part

    def answer(self) -> Answer:
        from fabric.clients.demo.checksum import checksum

        return Answer(*checksum(self._arrow(list(self._query(False)))))

    def close(self) -> None:
        self._query = lambda one: ()


def fabric(case: Case) -> TableRun:
    from fabric._cython.kernels.accumulators import SumInt64
    from fabric._cython.kernels.group_table import GroupTable
    from fabric._cython.kernels.join_table import JoinTable
    from fabric._cython.kernels.take import take

    p, b = tables(case.parameters["n_keys"])
    batches = p.to_batches(max_chunksize=BATCH_ROWS)

    def update(one: bool) -> Iterator[pa.Table]:
        groups, sums = GroupTable(pa.schema([("k", pa.int64())])), SumInt64()
        for batch in batches:
            sums.update(groups.upsert([batch["k"]]), batch["v"])
        yield pa.table([groups.keys()["k"], sums.results(groups.ids())], ["k", "s"])

    if case.parameters["kind"] == "group update":
        return TableRun(update, pa.concat_tables, built=False)
    kept = JoinTable(b.schema, ["k"])
    for batch in b.to_batches(max_chunksize=BATCH_ROWS):
        kept.insert(batch)

    def probe(one: bool) -> Iterator[tuple[pa.Array, pa.Array]]:
        for batch in batches:
            rows, places, _ = kept.probe([batch["k"]])
            v = batch["v"] if rows is None else take(batch["v"], rows)
            yield v, kept.take(places, ["w"])["w"]

    def joined(found: list[tuple[pa.Array, pa.Array]]) -> pa.Table:
        return pa.table([pa.chunked_array(side) for side in zip(*found, strict=True)], ["v", "w"])

    return TableRun(probe, joined, built=False)


def duckdb(case: Case) -> TableRun:
    import duckdb as engine

    connection = engine.connect()
    connection.execute("set threads = 1")
    connection.execute("set enable_progress_bar = false")
    connection.execute("set preserve_insertion_order = false")
    connection.execute("set disabled_optimizers = 'join_order,build_side_probe_side'")
    for name, table in zip("pb", tables(case.parameters["n_keys"]), strict=True):
        connection.register("given", table)
        connection.execute(f"create table {name} as select * from given")
    connection.execute("create table one as select * from p limit 1")

    def query(one: bool) -> pa.RecordBatchReader:
        sql = asked(case).replace("from p ", "from one p ") if one else asked(case)
        return connection.sql(sql).to_arrow_reader(BATCH_ROWS)

    return TableRun(query, pa.Table.from_batches, built=is_join(case))


def polars(case: Case) -> TableRun:
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars as pl

    frames: list[Any] = [pl.from_arrow(table) for table in tables(case.parameters["n_keys"])]
    p, b = frames

    def join(one: bool) -> list[Any]:
        rows = p.head(1) if one else p
        return [rows.lazy().join(b.lazy(), on="k", how="left").select("v", "w").collect()]

    def update(one: bool) -> list[Any]:
        return [p.lazy().group_by("k").agg(pl.col("v").sum()).collect()]

    query = join if is_join(case) else update
    return TableRun(query, lambda found: found[0].to_arrow(), built=is_join(case))


def datafusion(case: Case) -> TableRun:
    from datafusion import SessionConfig, SessionContext

    config = SessionConfig().with_target_partitions(1).set(
        "datafusion.optimizer.join_reordering", "false")  # fmt: skip
    context = SessionContext(config)
    p, b = tables(case.parameters["n_keys"])
    for name, table in (("p", p), ("b", b), ("one", p.slice(0, 1))):
        context.register_record_batches(name, [table.to_batches(max_chunksize=BATCH_ROWS)])

    def query(one: bool) -> Iterator[pa.RecordBatch]:
        # builds on its left side: the same join, seen from there
        sql = asked(case).replace("p left join b", f"b right join {'one' if one else 'p'} p")
        return (batch.to_pyarrow() for batch in context.sql(sql).execute_stream())

    return TableRun(query, pa.Table.from_batches, built=is_join(case))


def is_join(case: Case) -> bool:
    return bool(case.parameters["kind"] == "join probe")


def asked(case: Case) -> str:
    return JOIN if is_join(case) else SUM
