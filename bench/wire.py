"""Partitions from one agent process to another: bytes/s beside pyarrow's Flight, and latency.

`64 KiB x 1` … `4 MiB x 8`: batches of that size in so many streams at once, through the transport
of agents of one host (a Unix socket): checksums, order and totals are checked, batches not
validated again. `strangers …`: a foreign client reads them by TCP; every batch is fully validated.
The peer `raw flight` is pyarrow's `do_get` of the same batches from a plain pyarrow server, which
checks nothing.
`latency 1 MiB`: one fetch of a partition of one batch; `p50_ms`, `p99_ms` of all of them.
`busy python`: a Python thread that never rests in both processes; `pipeline busy python`: one in
each agent of the job of `pipeline`. Their peer `busy process` is ourselves, with as many busy
Python processes outside.

The limits: loopback TCP and gRPC's framing, which cost about two copies; with 2 cores and
2 busy threads or processes, half of the processor is the most that is left for either.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import Answer, Benchmark, Case, Engine
from bench.wire_server import AGENT, EDGE, JOB, NODE, ROW_BYTES

TOTAL, TOTAL_QUICK = 192 << 20, 48 << 20
SIZES = {"64 KiB": 64 << 10, "1 MiB": 1 << 20, "4 MiB": 4 << 20}
SPIN = "n = 0\nwhile True: n += 1"
SITE = """
import sys, threading
def spin():
    n = 0
    while True: n += 1
if "agent" in sys.orig_argv: threading.Thread(target=spin, daemon=True).start()
"""

Take = Callable[[int], list[pa.RecordBatch]]


class WireRun:
    """Reads all streams at once; `take(stream)` gives the batches of one, or throws them away."""

    def __init__(self, take: Take, case: Case, stack: ExitStack) -> None:
        self._take, self._stack = take, stack
        self._streams = range(case.parameters["streams"])
        self._pool = stack.enter_context(ThreadPoolExecutor(len(self._streams)))
        self._seconds: list[float] = []

    def work(self) -> object:
        """All streams, once."""
        begun = time.perf_counter()
        if len(self._streams) == 1:
            self._take(0)
        else:
            list(self._pool.map(self._take, self._streams))
        self._seconds.append(time.perf_counter() - begun)
        return None

    def answer(self) -> Answer:
        """Rows and checksum, and how long single reads took."""
        from fabric.clients.demo.checksum import checksum

        p50, p99 = np.percentile(np.array(self._seconds[1:]) * 1e3, [50, 99])
        table = pa.Table.from_batches([b for s in self._streams for b in self._take(s)])
        extra = {"p50_ms": round(float(p50), 3), "p99_ms": round(float(p99), 3)}
        return Answer(*checksum(table), extra=extra)

    def close(self) -> None:
        """Stop servers and clients."""
        self._stack.close()


def child(stack: ExitStack, arguments: Sequence[str]) -> subprocess.Popen[str]:
    """A process that ends with `stack`."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def serve(case: Case, stack: ExitStack, kind: str, busy: str) -> str:
    """Start a server of the case's batches; its address."""
    sizes = [case.parameters["batch_bytes"], case.n_bytes, case.parameters["streams"]]
    server = child(stack, ["-m", "bench.wire_server", kind, *map(str, sizes), busy])
    assert server.stdout
    address = server.stdout.readline().strip()
    if busy == "python":
        from bench.wire_server import be_busy

        be_busy()  # for good: this process is the case's own, see `engines`
    if busy == "process":
        for _ in range(2):
            child(stack, ["-c", SPIN])
    return address


def agents(case: Case, busy: str) -> WireRun:
    """An agent reads another one's partitions."""
    from fabric.agent.process.memory import prepare_process
    from fabric.flight.remote import FlightTransport
    from fabric.flight.ticket import PartitionRequest
    from fabric.security.tokens import Signer
    from tests.support.flight_rig import SECRET

    prepare_process()  # as agents do; it spares gRPC's buffers most of their page faults
    stack = ExitStack()
    address, path = serve(case, stack, "fabric", busy).split()
    transport = FlightTransport(Signer(SECRET))
    stack.callback(transport.close)
    transport.shorten({address: path})

    def take(stream: int) -> list[pa.RecordBatch]:
        request = PartitionRequest(
            job=JOB, edge=EDGE, node_path=NODE, partition=stream, producers=((0, 0),)
        )
        rows = transport.open_rows(address, request)
        found = [batch for batches in iter(rows.take, []) for batch in batches]
        rows.close()
        return found

    return WireRun(take, case, stack)


def agents_run(case: Case) -> WireRun:
    """Two idle agents."""
    return agents(case, "no")


def busy_python_run(case: Case) -> WireRun:
    """A busy Python thread in both agents."""
    return agents(case, "python")


def busy_process_run(case: Case) -> WireRun:
    """Two busy processes beside the agents."""
    return agents(case, "process")


def strangers_run(case: Case) -> WireRun:
    """A foreign client reads an agent's partitions."""
    from fabric.flight.client import Client
    from fabric.security.tokens import Signer
    from tests.support.flight_rig import SECRET

    stack = ExitStack()
    address, _ = serve(case, stack, "fabric", "no").split()
    token = Signer(SECRET).token("read", AGENT, 86_400.0, time.time())
    client = stack.enter_context(Client(address, token))
    tickets = [e.ticket.ticket for e in client.info(["job", JOB, NODE]).endpoints]
    return WireRun(lambda stream: list(client.read_endpoint(tickets[stream])), case, stack)


def raw_run(case: Case) -> WireRun:
    """pyarrow's client and server, with as many connections."""
    import pyarrow.flight as fl

    from fabric._cython.shuffle.pump.pump import PER_ADDRESS_MAX

    stack = ExitStack()
    address = serve(case, stack, "raw", "no")
    own = [("grpc.use_local_subchannel_pool", 1)]
    n_clients = min(PER_ADDRESS_MAX, case.parameters["streams"])
    clients = [
        stack.enter_context(fl.FlightClient(address, generic_options=own)) for _ in range(n_clients)
    ]

    def take(stream: int) -> list[pa.RecordBatch]:
        reader = clients[stream % n_clients].do_get(fl.Ticket(str(stream).encode()))
        return [chunk.data for chunk in reader]

    return WireRun(take, case, stack)


def pipeline_busy(case: Case, busy: str) -> Any:
    """The job of `pipeline`, disturbed."""
    from bench import pipeline

    stack = ExitStack()
    if busy == "python":
        site = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (site / "sitecustomize.py").write_text(SITE)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    else:
        for _ in range(pipeline.N_AGENTS):
            child(stack, ["-c", SPIN])
    run = pipeline.fabric_run(case)
    run._stack.callback(stack.close)
    return run


def pipeline_python_run(case: Case) -> Any:
    """A busy Python thread in each agent."""
    return pipeline_busy(case, "python")


def pipeline_process_run(case: Case) -> Any:
    """As many busy processes beside them."""
    return pipeline_busy(case, "process")


def wire_case(name: str, kind: str, batch_bytes: int, total: int, streams: int) -> Case:
    """`total` bytes in batches of `batch_bytes` over `streams`."""
    rows = batch_bytes // ROW_BYTES * max(1, total // streams // batch_bytes) * streams
    return Case(name, rows, total, {"kind": kind, "batch_bytes": batch_bytes, "streams": streams})


def cases(quick: bool) -> Sequence[Case]:
    """Sizes and streams between agents, some between strangers, latency, and busy ones."""
    from bench import pipeline

    total = TOTAL_QUICK if quick else TOTAL
    streams = (1, 4) if quick else (1, 2, 4, 8)
    plain = [
        wire_case(f"{name} x {n}", "agents", size, total, n)
        for name, size in SIZES.items()
        for n in streams
    ]
    foreign = [
        wire_case(f"strangers {name} x 1", "strangers", SIZES[name], total, 1)
        for name in ("64 KiB", "1 MiB")
    ]
    rows = pipeline.N_FACTS_QUICK if quick else pipeline.N_FACTS
    disturbed = Case(
        "pipeline busy python", rows, rows * 24, {"kind": "pipeline", "rows": rows, "sparse": True}
    )
    latency = wire_case("latency 1 MiB", "agents", 1 << 20, 1 << 20, 1)
    busy = wire_case("busy python", "busy", 1 << 20, total, 2)
    return [*plain, *foreign, latency, busy, disturbed]


def engines(case: Case) -> Sequence[Engine]:
    """Ourselves and the peer."""
    ours, peer, theirs = {
        "agents": ("agents_run", "raw flight", "raw_run"),
        "strangers": ("strangers_run", "raw flight", "raw_run"),
        "busy": ("busy_python_run", "busy process", "busy_process_run"),
        "pipeline": ("pipeline_python_run", "busy process", "pipeline_process_run"),
    }[case.parameters["kind"]]
    return [Engine(None, f"bench.wire:{ours}"), Engine(peer, f"bench.wire:{theirs}")]


BENCHMARK = Benchmark(
    name="wire",
    about="partitions between two agent processes beside raw Flight; latency; busy Python",
    cases=cases,
    engines=engines,
    rounds=9,
    quick_rounds=3,
    round_s=0.3,
)
