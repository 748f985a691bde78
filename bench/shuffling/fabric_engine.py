"""Fabric: warm agents that read mapped Arrow files; the rows go through the exchange."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from bench.harness import Case
from bench.shuffling.data import folder, placed
from bench.shuffling.run import ShuffleRun


def run(case: Case) -> ShuffleRun:
    """As many agents as the case says."""
    import fabric
    from fabric import col
    from tests.support.local import local_fabric

    n_agents = case.parameters["workers"]
    stack = ExitStack()
    local = stack.enter_context(local_fabric(n_agents))
    session = stack.enter_context(fabric.connect(f"fabric://{local.address}", token=local.token))
    rows = session.read_ipc(str(folder(case) / "*.arrow"))
    moved = rows.exchange("k").named("moved")
    arrived = [
        fabric.count().alias("n"), fabric.sum("k"), fabric.sum("v"), fabric.sum("w"),
    ]  # fmt: skip
    if case.parameters["strings"]:
        arrived.append(fabric.sum(col("s").str.len_chars()).alias("s"))
    totals = moved.agg(*arrived)

    def shuffle() -> object:
        return totals.collect()

    def partitions() -> Iterator[dict[str, float]]:
        with session.submit(moved.plan) as job:
            job.wait()
            pieces: dict[int, list[pa.Table]] = {}
            for piece in job.partitions():
                pieces.setdefault(piece.number, []).append(_read(piece, local.token))
            for tables in pieces.values():
                yield placed(pa.concat_tables(tables))

    return ShuffleRun(shuffle, partitions, stack)


def _read(piece: Any, token: str) -> pa.Table:
    options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
    with fl.connect(piece.locations[0]) as client:
        return client.do_get(fl.Ticket(piece.ticket), options).read_all()
