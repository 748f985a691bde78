"""What servers, streams and jobs leave behind in a process like an agent's.

One job: `python -m fabric.testing.leaks servers|streams|jobs N SIZE`, which does something N times
and prints as JSON how much more it holds afterwards than after the first few times: threads,
descriptors, bytes of memory. A process of its own, so that nothing else is counted.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fabric.agent.memory import give_back, prepare_process

if __name__ == "__main__":
    prepare_process(kept_s=0.0)

import pyarrow as pa

import fabric
from fabric._cython.shuffle.store.budget import Budget
from fabric.agent.runtime import resident_bytes
from fabric.flight.remote import FlightTransport
from fabric.flight.ticket import PartitionRequest
from fabric.testing.embedded import embedded_pair
from fabric.testing.flight_rig import FlightRig
from fabric.testing.wait import wait_until

SCHEMA = pa.schema([("k", pa.int64())])
N_BEFORE = 20
"""Times after which all is made that is made once and stays."""
N_SIDE_BY_SIDE = 4
N_AGENTS = 50


def held() -> dict[str, int]:
    """What this process holds, once free memory went back to the system."""
    give_back()
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "bytes": resident_bytes(),
    }


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
    """A job of `n_tasks` tasks and 50 more on 50 agents of this process."""
    rows = pa.table({"k": pa.array(range(20 * n_tasks), pa.int64())})
    sent = fabric.read_arrow(rows).exchange("k", n_partitions=n_tasks, mode="materialised")
    plan = sent.group_by("k").agg(fabric.count().alias("n")).plan.root
    with embedded_pair(N_AGENTS, slots=4) as running:

        def run(times: int) -> None:
            for _ in range(times):
                assert running.collect(plan).num_rows == rows.num_rows

        return grown(run, n, 2)


if __name__ == "__main__":
    kind = {"servers": servers, "streams": streams, "jobs": jobs}[sys.argv[1]]
    print(json.dumps(kind(int(sys.argv[2]), int(sys.argv[3]))))
