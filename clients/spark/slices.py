"""Which Spark partition reads what: endpoints, several endpoints, or a share of one.

One job: `slices`, a pure plan, and `rows_of_share`, which cuts a stream by it. A share is told by
row numbers, not by batches, so it is the same whenever the endpoint gives its rows in the same
order; sealed partitions and datasets do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from fabric.clients.spark.connection import Endpoint

RUN_ROWS = 16_384
"""Rows go to shares in turn, so many at a time."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Share `share` of `n_shares` of an endpoint's rows."""

    endpoint: Endpoint
    share: int = 0
    n_shares: int = 1


def slices(endpoints: Sequence[Endpoint], least: int = 0, most: int = 0) -> list[tuple[Slice, ...]]:
    """What each Spark partition reads, in the order of the endpoints.

    One endpoint a partition; fewer than `least` are shared by several partitions each, more than
    `most` (0: no bound) are read several by one partition.

    >>> ends = [Endpoint(("grpc://h:1",), b"a"), Endpoint(("grpc://h:1",), b"b")]
    >>> [[(s.endpoint.ticket, s.share, s.n_shares) for s in one] for one in slices(ends, least=3)]
    [[(b'a', 0, 1)], [(b'b', 0, 2)], [(b'b', 1, 2)]]
    >>> len(slices(ends, most=1))
    1
    """
    n = len(endpoints)
    if most and n > most:
        ends = [n * k // most for k in range(most + 1)]
        return [
            tuple(Slice(endpoint) for endpoint in endpoints[begin:end])
            for begin, end in pairwise(ends)
        ]
    return [
        (Slice(endpoint, share, n_shares),)
        for i, endpoint in enumerate(endpoints)
        for n_shares in [max(1, least * (i + 1) // n - least * i // n)]
        for share in range(n_shares)
    ]


def rows_of_share(
    batches: Iterable[pa.RecordBatch], share: int, n_shares: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one share, in order.

    >>> batch = pa.record_batch({"n": range(40_000)})
    >>> [piece.num_rows for piece in rows_of_share([batch], 0, 2)]
    [16384, 7232]
    """
    if n_shares == 1:
        yield from batches
        return
    row = 0
    for batch in batches:
        begin = 0
        while begin < batch.num_rows:
            run = (row + begin) // RUN_ROWS
            end = min(batch.num_rows, (run + 1) * RUN_ROWS - row)
            if run % n_shares == share:
                yield batch.slice(begin, end - begin)
            begin = end
        row += batch.num_rows
