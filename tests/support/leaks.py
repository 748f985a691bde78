"""What servers, streams and jobs leave behind in a process like an agent's.

One job: `python -m tests.support.leaks servers|streams|jobs|epochs N SIZE`, which does it N times
and prints as JSON how much more it holds afterwards than after the first few times: threads,
descriptors, objects (those that Python's collector knows), blocks (of small allocations), bytes of
memory. A process of its own, so that nothing else is counted.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count, islice
from pathlib import Path

from fabric.agent.process.memory import give_back, prepare_process

if __name__ == "__main__":
    prepare_process(kept_s=0.0)

import pyarrow as pa

import fabric
from fabric._cython.shuffle.store.budget import Budget
from fabric.control import control_pb2 as pb
from fabric.flight.remote import FlightTransport
from fabric.flight.ticket import PartitionRequest
from fabric.ids import TaskId
from fabric.io.kafka.staging import Stored
from fabric.io.sinks import kafka
from fabric.io.sinks.protocol import SinkStart, unfolded
from fabric.plan.targets import KafkaTarget
from fabric.process import resident_bytes
from fabric.telemetry.logs import JOBS_MAX, LINES_MAX, logger
from tests.support.embedded import embedded_pair
from tests.support.flight_rig import FlightRig
from tests.support.wait import wait_until

SCHEMA = pa.schema([("k", pa.int64())])
N_BEFORE = 20
"""Times after which all is made that is made once and stays."""
N_SIDE_BY_SIDE = 4
N_AGENTS, STAGE_TASKS = 50, 125


def held() -> dict[str, int]:
    """What this process holds, once free memory went back to the system."""
    give_back()
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "objects": len(gc.get_objects()),
        "blocks": sys.getallocatedblocks(),
        "bytes": resident_bytes(),
    }


def n_kafka_threads() -> int:
    """How many threads Kafka's clients have in this process."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            found += (task / "comm").read_text().startswith("rdk:")
    return found


def grown(work: Callable[[int], None], n: int, n_before: int = N_BEFORE) -> dict[str, int]:
    """How much more is held after `n` times of `work` than before them."""
    work(n_before)
    before = held()
    work(n)
    wait_until(lambda: held()["threads"] <= before["threads"], 120)  # gRPC's idle ones
    after = held()
    return {name: after[name] - before[name] for name in after}


def servers(n: int, n_bytes: int) -> dict[str, int]:
    """An agent's server from start to stop, with a put and a read of `n_bytes` between."""
    rows = pa.record_batch({"k": range(n_bytes // 8)}, SCHEMA)

    def serve(times: int) -> None:
        for _ in range(times):
            with (
                tempfile.TemporaryDirectory() as folder,
                FlightRig(Path(folder), 1) as rig,
                rig.client() as client,
            ):
                client.put(["dataset", "d"], SCHEMA, [rows])
                found = client.read(client.info(["dataset", "d"]))
                assert sum(batch.num_rows for batch in found) == rows.num_rows

    return grown(serve, n)


def streams(n: int, n_bytes: int) -> dict[str, int]:
    """A partition of `n_bytes` read by an agent from another one."""
    budget = Budget(1 << 40)
    with tempfile.TemporaryDirectory() as folder, FlightRig(Path(folder), 1) as rig:
        batch = pa.record_batch({"k": range(1 << 17)}, SCHEMA)
        table = pa.Table.from_batches([batch] * (n_bytes // batch.nbytes))
        rig.add_edge("job-1", "n", {("a0", 0, 0): table})
        request = PartitionRequest(
            job="job-1", edge=0, node_path="n", partition=0, producers=((0, 0),)
        )
        reader = FlightTransport(rig.signer, agent_id="reader", budget=budget)

        def read(_: int) -> None:
            rows = reader.open_rows(rig.address("a0"), request)
            n_rows = 0
            while batches := rows.take():
                n_rows += sum(batch.num_rows for batch in batches)
            rows.close()
            assert n_rows == table.num_rows

        def read_all(times: int) -> None:
            with ThreadPoolExecutor(N_SIDE_BY_SIDE) as pool:
                list(pool.map(read, range(times)))

        found = grown(read_all, n)
        reader.close()
    assert budget.used_bytes == 0
    return found


def jobs(n: int, n_tasks: int) -> dict[str, int]:
    """A job of `n_tasks` tasks, and as many more as it has stages, on 50 agents of this process.

    Its rows go to the tasks of a stage and together again, from stage to stage.
    """
    frame = fabric.read_arrow(pa.table({"k": pa.array(range(1000), pa.int64())}))
    for _ in range(n_tasks // STAGE_TASKS):
        frame = frame.exchange("k", n_partitions=STAGE_TASKS, mode="materialised")
        frame = frame.exchange("k", n_partitions=1, mode="materialised")
    _fill_log()
    with embedded_pair(N_AGENTS, slots=1) as running:

        def run(times: int) -> None:
            for _ in range(times):
                job_id = running.submit(frame.plan.root, parallelism=1)
                status = running.wait(job_id)
                assert sum(stage.finished for stage in status.stages) >= n_tasks
                running.control.release(pb.JobRequest(job_id=job_id))
                wait_until(lambda: not any(a.store.stored_bytes for a in running.agents), 60)

        return grown(run, n, 1)


def epochs(n: int, n_rows: int) -> dict[str, int]:
    """A checkpoint of one task that writes `n_rows` to Kafka: prepared, complete, published."""
    schema = pa.schema([("v", pa.string())])
    rows = pa.record_batch([["x"] * n_rows], schema)
    numbers = count(1)
    with tempfile.TemporaryDirectory() as folder:
        writer = kafka.open_stream(
            KafkaTarget("nowhere:9092", "t"), schema, TaskId("job-1", 0, 0), 1, SinkStart(1, folder)
        )

        def work(times: int) -> None:
            for number in islice(numbers, times):
                writer.write(rows)
                handle = writer.prepare(number)
                writer.on_complete(number)
                for one in unfolded([handle]):
                    Stored(one.facts).remove()  # as whoever publishes does at last

        return grown(work, n)


def _fill_log() -> None:
    """As full as it ever gets of the last lines of the last jobs, which are kept for clients."""
    log = logger("fabric.agent")
    for number in range(JOBS_MAX):
        for line in range(LINES_MAX):  # nothing of it is shared by two lines
            job = f"job-{number:012}"
            log.info(
                "task finished", job=job, task=f"{job}/1.{line}#0", agent="agent-1",
                node=f"exchange_{line}", rows_in=1000 + line, rows_out=2000 + line,
                seconds=line / 1000 + 0.01,
            )  # fmt: skip


if __name__ == "__main__":
    kind = {"servers": servers, "streams": streams, "jobs": jobs, "epochs": epochs}[sys.argv[1]]
    print(json.dumps(kind(int(sys.argv[2]), int(sys.argv[3]))))
