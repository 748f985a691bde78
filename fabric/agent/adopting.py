"""Sealed output of another agent, fetched to be held here.

One job: `fetch_output`: every partition of what one task attempt wrote, into this agent's store
under the same names. Nothing is left of it when that fails.
"""

from __future__ import annotations

from contextlib import closing

import numpy as np

from fabric.agent.outputs import read_schema
from fabric.agent.store import PartitionStore
from fabric.control import control_pb2 as pb
from fabric.flight.ticket import PartitionRequest
from fabric.flight.transport import Transport
from fabric.ids import EdgeId


def fetch_output(
    adopt: pb.Adopt, store: PartitionStore, transport: Transport
) -> tuple[pb.EdgeTotals, ...]:
    """Get it all; returns what each edge holds. Raises what the transport raises."""
    begun: list[EdgeId] = []
    try:
        return tuple(_fetch_edge(adopt, edge, store, transport, begun) for edge in adopt.outputs)
    except BaseException:
        for edge_id in begun:
            store.discard(edge_id, adopt.task, adopt.attempt)
        raise


def _fetch_edge(
    adopt: pb.Adopt,
    edge: pb.OutputEdge,
    store: PartitionStore,
    transport: Transport,
    begun: list[EdgeId],
) -> pb.EdgeTotals:
    edge_id = EdgeId(adopt.job_id, edge.edge)
    store.begin(
        edge_id, read_schema(edge.schema), edge.n_partitions, adopt.task, adopt.attempt,
        compression=edge.compression,
    )  # fmt: skip
    begun.append(edge_id)
    whole = edge.kind == pb.EDGE_BROADCAST  # every partition is the same rows
    for partition in range(1 if whole else edge.n_partitions):
        ask = PartitionRequest(
            job=adopt.job_id,
            edge=edge.edge,
            node_path=edge.node_path,
            partition=partition,
            producers=((adopt.task, adopt.attempt),),
        )
        after = np.arange(edge.n_partitions + 1) > partition
        with closing(transport.open_rows(adopt.address, ask, gathers=True)) as rows:
            while batches := rows.take():
                for batch in batches:
                    offsets = None if whole else after * np.int64(batch.num_rows)
                    store.append(edge_id, adopt.task, adopt.attempt, batch, offsets)
    totals = store.seal(edge_id, adopt.task, adopt.attempt)
    return pb.EdgeTotals(edge=edge.edge, rows=totals.rows, bytes=totals.n_bytes)
