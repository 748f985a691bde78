"""A task that comes back with 1 GB of state in an object store: from its start to its first row.

    files of its agent, or versitygw ──► the task's operator ──► the first row out

`RestoreRun` fills a count and a value of 100 bytes by key, spilled to files beyond 256 MiB, and
stores them once in a bucket of versitygw. Each turn starts a new operator in an empty folder,
restores it and gives it one row of each of 1,000 keys; what comes out is compared with what was put
in. With `slow` the store is read through `SlowLink`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench.harness import Answer, BenchError, Case
from fabric.clients.demo.checksum import checksum

if TYPE_CHECKING:
    from fabric.checkpoint.manifest import Manifest
    from fabric.checkpoint.object_storage import ObjectStorage
    from fabric.operators.chain import Chain

KEY_BYTES, VALUE_BYTES, MEMORY_BYTES = 260, 100, 256 << 20
"""What a key takes in files: its own columns, hashes, the count and the value."""
PORTION, N_CHECKED = 100_000, 1_000
DELAY_S, BYTES_S = 0.02, 100e6
JOB, NODE = "job-1", "kept"
ROWS = pa.schema([("k", pa.int64()), ("v", pa.binary())])


class RestoreRun:
    """The state in its store; `work` restores it."""

    def __init__(self, case: Case, *, copies: bool, slow: bool) -> None:
        from tests.services.versitygw import Versitygw

        self._n_keys, self._n_turns = case.rows, 0
        self._rows: list[pa.RecordBatch] = []
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(TemporaryDirectory(prefix="fabric-bench-")))
            store = stack.enter_context(Versitygw())
            (store.folder / "buckets" / "state").mkdir()
            url = store.address.split()[0]
            kept = self._folder / "copies" if copies else None
            self._manifest = self._stored(_storage(url, kept))
            if slow:
                url = f"http://127.0.0.1:{stack.enter_context(SlowLink(store.port)).port}"
            self._storage = _storage(url, kept)
            self._stack = stack.pop_all()

    def work(self) -> None:
        """A task starts, restores its state and puts out its first rows."""
        from fabric.operators.snapshots import N_KEY_GROUPS

        self._n_turns += 1
        chain = self._chain(f"turn-{self._n_turns}")
        (task,) = self._manifest.tasks
        reader = self._storage.reader(self._manifest, task)
        chain.restore(lambda _: [reader], range(N_KEY_GROUPS))
        self._rows = _through(chain, _batch(0, N_CHECKED))
        chain.close()
        shutil.rmtree(self._folder / f"turn-{self._n_turns}", ignore_errors=True)

    def answer(self) -> Answer:
        """The rows of some keys: each has been counted twice now."""
        from fabric.plan.stream import KIND

        found = pa.Table.from_batches(self._rows).filter(pa.compute.field("n") == 2)
        table = found.drop_columns([KIND]).sort_by("k")
        wanted = _batch(0, N_CHECKED)
        if not table["k"].combine_chunks().equals(wanted["k"]):
            raise BenchError("the restored state is not the one that was stored")
        if not table["v"].combine_chunks().equals(wanted["v"]):
            raise BenchError("restored values are not those that were stored")
        extra = {"state_mb": round(self._manifest.n_bytes / 1e6)}
        return Answer(table.num_rows, checksum(table)[1], extra)

    def close(self) -> None:
        """Stop the store."""
        self._stack.close()

    def _chain(self, name: str) -> Chain:
        from fabric.operators.chain import build_chain
        from fabric.operators.contract import Context
        from fabric.plan.expr import Agg, Alias, Column
        from fabric.plan.nodes import StageInput, StreamAggregate

        aggs = (Alias(Agg("count", None), "n"), Alias(Agg("last", Column("v")), "v"))
        node = StreamAggregate(StageInput(0, ROWS), (Column("k"),), aggs, kinds=True, path=NODE)
        folder = self._folder / name
        folder.mkdir()
        return build_chain(
            node, Context(NODE, folder=folder, state="arrow", state_bytes=MEMORY_BYTES)
        )

    def _stored(self, storage: ObjectStorage) -> Manifest:
        from fabric.checkpoint.manifest import Manifest, NodeRecord, TaskSnapshot
        from fabric.operators.snapshots import N_KEY_GROUPS

        chain = self._chain("filled")
        for begin in range(0, self._n_keys, PORTION):
            _through(chain, _batch(begin, min(PORTION, self._n_keys - begin)))
        writer = storage.writer(JOB, 1, NODE, 0, 0)
        chain.on_barrier(1)[NODE].write(writer)
        task = TaskSnapshot(NODE, 0, 0, range(N_KEY_GROUPS), writer.finish())
        chain.close()
        manifest = Manifest(
            job=JOB, checkpoint=1, epoch=1, run=0, wall_us=1, tasks=(task,),
            nodes=(NodeRecord(NODE, "stream_aggregate", ""),),
        )  # fmt: skip
        storage.commit_manifest(manifest)
        return manifest


def _storage(url: str, copies: Path | None) -> ObjectStorage:
    from fabric.checkpoint.local_copies import LocalCopies
    from fabric.checkpoint.object_storage import ObjectStorage
    from fabric.object_store import Bucket
    from tests.services.versitygw import environment

    options = {name.lower(): value for name, value in environment(url).items()}
    kept = None if copies is None else LocalCopies(copies)
    return ObjectStorage(Bucket("s3://state/x", options), kept)


def _through(chain: Chain, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    found = chain.on_batch(0, batch)
    while chain.has_more:
        found += chain.more()
    return found


def _batch(begin: int, n: int) -> pa.RecordBatch:
    """Keys in order, each with a value of its own that can't be compressed."""
    data = np.random.default_rng(begin).bytes(n * VALUE_BYTES)
    offsets = np.arange(n + 1, dtype=np.int32) * VALUE_BYTES
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    values = pa.Array.from_buffers(pa.binary(), n, buffers)
    return pa.record_batch([pa.array(np.arange(begin, begin + n)), values], schema=ROWS)


class SlowLink:
    """A port that leads to another one: 20 ms later each way together, 100 MB/s at most."""

    def __init__(self, to: int) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(target=_forward, args=(to, theirs), daemon=True)
        self._process.start()
        self.port: int = ours.recv()

    def __enter__(self) -> SlowLink:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join()


def _forward(to: int, say: Any) -> None:
    async def serve() -> None:
        free = [0.0]

        async def carry(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: list[float]
        ) -> None:
            waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=64)

            async def read() -> None:
                data = b"?"
                while data:
                    try:
                        data = await reader.read(1 << 18)
                    except ConnectionError:  # the end as well
                        data = b""
                    now = time.monotonic()
                    limit[0] = max(limit[0], now) + len(data) / BYTES_S
                    await waiting.put((limit[0] + DELAY_S / 2, data))

            async def send() -> None:
                with suppress(ConnectionError):  # one side has gone
                    while (item := await waiting.get())[1]:
                        await asyncio.sleep(max(0.0, item[0] - time.monotonic()))
                        writer.write(item[1])
                        await writer.drain()
                writer.close()

            reading = asyncio.create_task(read())
            await asyncio.create_task(send())
            reading.cancel()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to)
            await asyncio.gather(
                carry(reader, far_writer, [0.0]), carry(far_reader, writer, free),
                return_exceptions=True,
            )  # fmt: skip

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        say.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())
