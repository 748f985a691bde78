"""Events of a task go where somebody reads its rows, and nowhere else."""

import pyarrow as pa
import pytest

from fabric._cython.shuffle.store.store import Store
from fabric.agent.outputs import Outputs
from fabric.agent.pipes import Mark, Pipes
from fabric.control import control_pb2 as pb
from fabric.flight.header import Event
from fabric.ids import TaskId

SCHEMA = pa.schema([("a", pa.int64())])
N = 3


def outputs(kind, pipes, task=1):
    edge = pb.OutputEdge(
        edge=0, kind=kind, mode=pb.MODE_PIPELINED, n_partitions=N, keys=["a"],
        schema=bytes(SCHEMA.serialize()),
    )  # fmt: skip
    return Outputs([edge], TaskId("j", 0, task, 0), Store("a"), pipes)


@pytest.mark.parametrize(
    ("kind", "read"), [(pb.EDGE_FORWARD, [1]), (pb.EDGE_HASH, [0, 1, 2])], ids=["forward", "hash"]
)
def test_a_mark_goes_to_the_partitions_that_are_read(kind, read):
    """Rings that nobody takes from would fill up with them, and the task would stand still."""
    pipes = Pipes("j")
    out = outputs(kind, pipes)
    out.mark(Event.WATERMARK, 7)
    for partition in range(N):
        found = pipes.take_many([(0, partition)], 5, timeout_s=0.0)
        expected = [((0, partition), Mark(1, Event.WATERMARK, 7))] if partition in read else []
        assert found == expected
