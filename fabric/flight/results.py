"""The rows of a job that has ended, read from whoever holds them.

One job: `result_edge`, where the result is, if all of it is there; and `read_result`, its rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from fabric.control import control_pb2 as pb
from fabric.errors import InternalError, PartitionLostError
from fabric.flight.ticket import PartitionRequest
from fabric.flight.transport import Transport


def result_edge(located: pb.Locations, job: str) -> pb.EdgeLocation:
    """The edge of a job's result.

    Raises
    ------
    PartitionLostError
        An agent that held a part of it is gone.
    """
    edge = next((edge for edge in located.edges if edge.is_result), None)
    if edge is None:
        raise InternalError("the job has ended and its result is nowhere", job=job)
    if not edge.complete or len(edge.producers) < edge.n_producers:
        raise PartitionLostError(
            f"{edge.n_producers - len(edge.producers)} of {edge.n_producers} parts of the result "
            "are gone with the agents that held them; job.restart() makes them again",
            job=job,
        )
    return edge


def read_result(located: pb.Locations, job: str, transport: Transport) -> Iterator[pa.RecordBatch]:
    """All rows, in the order of the partitions; `located` is what the coordinator says of a job."""
    edge = result_edge(located, job)
    for partition in range(1 if edge.kind == pb.EDGE_BROADCAST else edge.n_partitions):
        for producer in edge.producers:
            request = PartitionRequest(
                job=job,
                edge=edge.edge,
                node_path=edge.node_path,
                partition=partition,
                producers=((producer.task, producer.attempt),),
            )
            for _, batch in transport.fetch(located.addresses[producer.agent_id], request):
                if batch is not None:
                    yield batch
