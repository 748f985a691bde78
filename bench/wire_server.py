"""A server of record batches in a process of its own, for `wire.py`.

One job: `python -m bench.wire_server KIND BATCH_BYTES TOTAL_BYTES STREAMS BUSY`, which prints the
address it listens on and ends when its input does. KIND `fabric` is an agent's Flight server over a
store of sealed partitions, `raw` a plain pyarrow server of the same batches. BUSY is `python` for a
Python thread that never rests.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

JOB, NODE, EDGE, AGENT = "bench", "wire", 0, "a0"
ROW_BYTES = 24


def batches_of(stream: int, batch_bytes: int, stream_bytes: int) -> list[pa.RecordBatch]:
    """The batches of one stream: int64 key, int64 and float64."""
    rows = batch_bytes // ROW_BYTES
    rng = np.random.default_rng(stream)
    return [
        pa.record_batch(
            {
                "k": rng.integers(0, 1 << 60, rows),
                "n": np.arange(i * rows, (i + 1) * rows),
                "v": rng.random(rows),
            }
        )
        for i in range(max(1, stream_bytes // batch_bytes))
    ]


def be_busy() -> None:
    """Hold the GIL as a Python loop does."""

    def spin() -> None:
        n = 0
        while True:
            n += 1

    threading.Thread(target=spin, daemon=True).start()


class Raw(fl.FlightServerBase):  # type: ignore[misc]
    """pyarrow's server: streams without Python on their way."""

    def __init__(self, streams: list[list[pa.RecordBatch]]) -> None:
        super().__init__("grpc+tcp://127.0.0.1:0")
        self._streams = streams

    def do_get(self, context: object, ticket: fl.Ticket) -> fl.RecordBatchStream:
        batches = self._streams[int(ticket.ticket)]
        return fl.RecordBatchStream(pa.RecordBatchReader.from_batches(batches[0].schema, batches))


@contextmanager
def agent(streams: list[list[pa.RecordBatch]]) -> Iterator[str]:
    """An agent's address and Unix socket; partition p of its store is stream p."""
    from fabric._cython.shuffle.store.store import Store
    from fabric.agent.process.memory import prepare_process
    from fabric.control import control_pb2 as pb
    from fabric.flight.sockets import new_socket
    from tests.support.flight_rig import FlightRig

    prepare_process()
    schema, store = streams[0][0].schema, Store(AGENT)
    store.begin(JOB, EDGE, schema, len(streams), 0, 0)
    for stream, batches in enumerate(streams):
        for batch in batches:
            bounds = [0] * (stream + 1) + [batch.num_rows] * (len(streams) - stream)
            store.append(JOB, EDGE, 0, 0, batch, np.array(bounds, np.int64))
    n_rows, n_bytes = store.seal(JOB, EDGE, 0, 0)
    location = pb.EdgeLocation(
        job_id=JOB, node_path=NODE, edge=EDGE, schema=schema.serialize().to_pybytes(),
        n_partitions=len(streams), kind=pb.EDGE_HASH, mode=pb.MODE_MATERIALISED,
        producers=[pb.Producer(task=0, attempt=0, agent_id=AGENT)], complete=True,
        rows=n_rows, bytes=n_bytes,
    )  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        FlightRig(Path(folder), 1, stores={AGENT: store}) as rig,
    ):
        rig.control.push(edges=[location])
        path = new_socket(Path(folder))
        rig.servers[AGENT].listen(path)
        yield f"{rig.address(AGENT)} {path}"


@contextmanager
def raw(streams: list[list[pa.RecordBatch]]) -> Iterator[str]:
    """pyarrow's server; stream p has ticket "p"."""
    with Raw(streams) as server:
        yield f"grpc+tcp://127.0.0.1:{server.port}"


def main() -> None:
    kind, batch_bytes, total_bytes, n_streams, busy = sys.argv[1:]
    each = int(total_bytes) // int(n_streams)
    streams = [batches_of(stream, int(batch_bytes), each) for stream in range(int(n_streams))]
    with ExitStack() as stack:
        address = stack.enter_context({"fabric": agent, "raw": raw}[kind](streams))
        if busy == "python":
            be_busy()
        print(address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
