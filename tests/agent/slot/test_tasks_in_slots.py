"""Tasks in processes of their own, on agents of this process: the same rows; no harm by a crash."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import DataFrame, arrow_udf, col, udf
from fabric.agent.attempts import TaskSpec
from fabric.agent.slot.pool import HEADROOM_BYTES, SlotLimits, SlotPool
from fabric.agent.slot.supervisor import supervised
from fabric.agent.slot.task import SlotTask
from fabric.agent.slot.worker import PUTS_MAX
from fabric.cancellation import Cancellation
from fabric.clients.demo.checksum import checksum
from fabric.control import control_pb2 as pb
from fabric.errors import (
    CancelledError,
    ConfigError,
    ExpressionError,
    ExternalError,
    FabricError,
    PlanError,
    UserError,
)
from fabric.ids import TaskId
from fabric.plan.codec import encode
from fabric.plan.nodes import Plan, Select, Sink, StageInput
from fabric.plan.targets import FileTarget
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.wait import wait_until

N_ROWS = 30_000
BATCH_S = 2.0
"""What a call may take where functions hang: elsewhere a machine that stands still ends none."""


class Slots:
    """Two agents that share a pool, and a table in files."""

    def __init__(self, running: EmbeddedFabric, pool: SlotPool, table: Path) -> None:
        self.running, self.pool = running, pool
        self.frame = fabric.read_parquet(str(table))

    def collect(self, frame: DataFrame) -> pa.Table:
        return self.running.collect(frame.plan.root)

    def bounded_by(self, batch_s: float) -> AbstractContextManager[object]:
        """Calls of tasks that start meanwhile may take so long."""
        return patch.object(self.pool, "limits", replace(self.pool.limits, batch_s=batch_s))

    def fails(self, function: Callable[[Any], Any], kind: type[FabricError]) -> FabricError:
        """The error of a job with `function`; the pool works afterwards."""
        with pytest.raises(kind) as raised:
            self.collect(self.frame.select(b=arrow_udf(function, returns="int64")("a")))
        twice = arrow_udf(lambda a: pc.multiply(a, 2), returns="int64")
        assert self.collect(self.frame.select(b=twice("a"))).num_rows == N_ROWS
        return raised.value


def opened(folder: Path, limits: SlotLimits) -> Iterator[Slots]:
    path = folder / "table"
    path.mkdir(exist_ok=True)
    table = pa.table({"a": range(N_ROWS), "s": [f"text {n % 97}" for n in range(N_ROWS)]})
    for part in range(4):
        pq.write_table(table.slice(part * N_ROWS // 4, N_ROWS // 4), path / f"{part}.parquet")
    pool = SlotPool(limits)
    with embedded_pair(2, pool=pool) as running:
        yield Slots(running, pool, path)
    pids = pool.pids
    pool.close()
    assert not any(map(is_there, pids))


def is_there(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.fixture(scope="module")
def slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slots]:
    yield from opened(tmp_path_factory.mktemp("slots"), SlotLimits())


@pytest.fixture(scope="module")
def threads() -> Iterator[EmbeddedFabric]:
    with embedded_pair(2) as running:
        yield running


def pid_of() -> Any:
    """The process that a row is computed in."""

    def pid(values: pa.Array) -> pa.Array:
        return pa.array([os.getpid()] * len(values))

    return arrow_udf(pid, returns="int64")


def frames(frame: DataFrame) -> dict[str, DataFrame]:
    half = arrow_udf(lambda a: pc.divide(a, 2), returns="int64")
    shout = udf(lambda s: s.upper(), returns="string", compile=False)
    root = udf(lambda a: float(a) ** 0.5, returns="float64", compile=True)
    spread = frame.exchange("s")
    return {
        "a fragment over files": frame.select("s", h=half("a")),
        "a filter": frame.filter(half("a") % 7 == 3),
        "row by row": frame.select(s=shout("s")),
        "by Numba": frame.select("a", r=root("a")),
        "groups of a function": frame.group_by(h=half("a") % 10).agg(n=col("a").sum()),
        "a fragment over an edge": spread.sort("a").limit(5000).select("s", h=half("a")),
        "a join": frame.join(frame.select("a", h=half("a")), on="a").select("h", t=shout("s")),
        "a chain": frame.exchange("s", mode="pipelined").select("s", h=half("a")),
        "chains in a row": frame.exchange("s", mode="pipelined")
        .select("s", h=half("a"))
        .exchange("h", mode="pipelined")
        .with_columns(g=half("h")),
        "no rows": frame.filter(col("a") < 0).select(h=half("a")),
    }


@pytest.mark.parametrize("name", list(frames(DataFrame({"a": [1], "s": ["x"]}))))
def test_rows_are_those_of_a_thread(slots: Slots, threads: EmbeddedFabric, name: str) -> None:
    frame = frames(slots.frame)[name]
    assert checksum(slots.collect(frame)) == checksum(threads.collect(frame.plan.root))


def test_functions_run_elsewhere_and_nothing_else_does(slots: Slots) -> None:
    pids = set(slots.collect(slots.frame.select(p=pid_of()("a")))["p"].to_pylist())
    assert os.getpid() not in pids
    slots.pool.trim()
    slots.collect(slots.frame.filter(col("a") > 5))
    assert not slots.pool.pids


def test_a_process_serves_one_job_only_and_that_one_again(slots: Slots) -> None:
    where = pid_of()
    twice = slots.frame.with_columns(p=where("a")).exchange("s").with_columns(q=where("a"))
    found = slots.collect(twice)
    pids = set(found["p"].to_pylist()) | set(found["q"].to_pylist())
    assert len(pids) <= 4  # of eight tasks
    again = slots.collect(twice)
    assert pids.isdisjoint(again["p"].to_pylist())
    assert not any(map(is_there, pids))


def test_a_sink_is_written_by_the_agent(slots: Slots, tmp_path: Path) -> None:
    half = arrow_udf(lambda a: pc.divide(a, 2), returns="int64")
    out = tmp_path / "out"
    target = FileTarget("parquet", str(out), single=False)
    written = slots.running.collect(Sink(slots.frame.select(h=half("a")).plan.root, target))
    assert sum(written["rows"].to_pylist()) == N_ROWS
    assert pq.read_table(out).num_rows == N_ROWS
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_limit_ends_what_is_above_it(slots: Slots) -> None:
    half = arrow_udf(lambda a: pc.divide(a, 2), returns="int64")
    few = slots.frame.select(h=half("a")).exchange(kind="gather", mode="pipelined").limit(3)
    assert slots.collect(few).num_rows == 3


def test_a_slot_is_never_far_ahead_of_who_takes_its_rows(slots: Slots, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    place = str(calls)

    def counted(a: Any) -> Any:
        with open(place, "a") as file:
            file.write("x")
        return a

    schema = pa.schema([("a", pa.int64())])
    root = Select(
        StageInput(0, schema), (arrow_udf(counted, returns="int64")("a").alias("b").node,)
    )
    spec = TaskSpec(
        TaskId("job-ahead", 0, 0),
        1,
        pb.Deploy(kind=pb.STAGE_CHAIN, fragment=encode(Plan(root))),
        pb.TaskAssignment(),
    )
    batch = pa.record_batch([pa.array([1, 2])], schema=schema)
    items: Any = iter([*[(0, batch)] * 50, (0, None)])
    with supervised(slots.pool, spec, root, Cancellation()) as supervisor:
        task = SlotTask(supervisor, spec, root, items=items, inputs={}, splits={})
        taken = 0
        for rows in task.rows():
            taken += 1
            assert rows.num_rows == 2
            assert taken <= len(calls.read_text()) <= taken + PUTS_MAX + 1
    assert taken == 50
    slots.pool.release("job-ahead")


# ---- what functions do


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda a: ctypes.string_at(0), "was killed by SIGSEGV (Segmentation fault)"),
        (lambda a: os.abort(), "was killed by SIGABRT (Aborted)"),
        (lambda a: os.kill(os.getpid(), 9), "was killed by SIGKILL (Killed)"),
        (lambda a: os._exit(3), "ended itself with exit code 3"),
        (lambda a: os._exit(0), "ended itself with exit code 0"),
    ],
)
def test_a_crash_fails_its_task(slots: Slots, function: Any, words: str) -> None:
    error = slots.fails(function, ExternalError)
    assert f"the process of the task {words} in the function <lambda>" in error.message
    assert error.where.node == "select_1"
    assert "/0." in error.where.task


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda a: sys.exit(4), "raised SystemExit: 4"),
        (lambda a: (_ for _ in ()).throw(KeyboardInterrupt), "raised KeyboardInterrupt"),
        (lambda a: exec("def f(): f()\nf()", {}), "raised RecursionError: maximum recursion"),
        (lambda a: list(a)[-1 << 40], "raised IndexError: list index out of range"),
        (lambda a: exec('raise ValueError("x" * 10_000_000)'), "… (10000000 characters)"),
        (lambda a: a[:1], "returned 1 values for"),
        (lambda a: 3, "returned an int, not an array"),
    ],
)
def test_what_is_raised_is_the_users_error(slots: Slots, function: Any, words: str) -> None:
    error = slots.fails(function, ExpressionError)
    assert "the function <lambda>" in error.message
    assert words in error.message
    assert len(error.message) <= 4096
    assert error.where.node == "select_1"


def test_an_error_whose_text_raises_is_still_one(slots: Slots) -> None:
    class Mean(Exception):
        def __str__(self) -> str:
            raise SystemExit

    def fail(a: Any) -> Any:
        raise Mean

    assert "raised Mean: (its text can't be made: SystemExit)" in str(
        slots.fails(fail, ExpressionError)
    )


def test_a_function_that_cannot_be_loaded_is_named(slots: Slots) -> None:
    class Bad:
        def __reduce__(self) -> Any:
            return (os._exit, (5,))

    bad = Bad()
    error = slots.fails(lambda a: bad, ExternalError)
    assert "ended itself with exit code 5 in the function <lambda>" in error.message

    class Missing:
        def __reduce__(self) -> Any:
            return (__import__, ("no_such_module",))

    missing = Missing()
    error = slots.fails(lambda a: missing, PlanError)
    assert "can't be loaded: ModuleNotFoundError: No module named 'no_such_module'" in str(error)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: time.sleep(100),
        lambda a: ctypes.PyDLL(None).sleep(100),
        lambda a: exec("while True: pass"),
    ],
    ids=["sleeps", "holds the GIL", "runs"],
)
def test_a_hang_ends_at_the_deadline(slots: Slots, function: Any) -> None:
    with slots.bounded_by(BATCH_S):
        error = slots.fails(function, UserError)
    assert f"the function <lambda> took longer than {BATCH_S:g} s for one batch" in error.message
    assert error.where.node == "select_1"


def test_a_process_that_is_stuck_outside_of_functions_ends_too(slots: Slots) -> None:
    def closes_all(a: Any) -> Any:
        os.closerange(3, 512)
        return a

    with slots.bounded_by(BATCH_S):
        error = slots.fails(closes_all, ExternalError)
    assert "the process of the task" in error.message


@pytest.mark.parametrize("k", [0, 1])
def test_after_a_crash_at_any_batch_nothing_is_left(slots: Slots, tmp_path: Path, k: int) -> None:
    def crashes(a: Any) -> Any:
        crashes.n = getattr(crashes, "n", -1) + 1  # type: ignore[attr-defined]
        return os._exit(1) if crashes.n == k else a  # type: ignore[attr-defined]

    function = arrow_udf(crashes, returns="int64")
    many = slots.frame.exchange(kind="round_robin", mode="pipelined").select(b=function("a"))
    target = FileTarget("parquet", str(tmp_path / "out"), single=False)
    with pytest.raises(ExternalError, match="exit code 1"):
        slots.running.collect(Sink(many.plan.root, target))
    assert not list(tmp_path.iterdir())
    agents = slots.running.agents
    wait_until(lambda: not any(agent.store.stored_bytes for agent in agents))


def test_slow_functions_that_answer_in_time_are_none(slots: Slots) -> None:
    def slow(a: Any) -> Any:
        time.sleep(4.0)
        return a

    steps = slots.frame.filter(col("a") < 10)
    for _ in range(3):
        steps = steps.select(a=arrow_udf(slow, returns="int64")("a"))
    with slots.bounded_by(10.0):
        assert slots.collect(steps).num_rows == 10


def test_arrays_that_would_kill_a_reader_are_refused(slots: Slots) -> None:
    def torn(a: Any) -> Any:
        offsets = pa.array([0, *[1 << 30] * (len(a) - 1), 1], pa.int32()).buffers()[1]
        return pa.Array.from_buffers(pa.string(), len(a), [None, offsets, pa.py_buffer(b"x")])

    with pytest.raises((UserError, ExternalError)) as raised:
        slots.collect(slots.frame.select(b=arrow_udf(torn, returns="string")("a")))
    assert "not valid" in str(raised.value) or "SIGSEGV" in str(raised.value)


def test_threads_that_a_function_leaves_end_with_their_process(slots: Slots) -> None:
    def leaks(a: Any) -> Any:
        threading.Thread(target=time.sleep, args=(1000,)).start()
        return pa.array([os.getpid()] * len(a))

    found = slots.collect(slots.frame.select(p=arrow_udf(leaks, returns="int64")("a")))
    pids = set(found["p"].to_pylist())
    wait_until(lambda: not any(map(is_there, pids)))


def test_processes_that_a_function_starts_end_with_it(slots: Slots) -> None:
    def starts(a: Any) -> Any:
        import subprocess

        return pa.array([subprocess.Popen(["sleep", "1000"]).pid] * len(a))

    found = slots.collect(slots.frame.select(p=arrow_udf(starts, returns="int64")("a")))
    wait_until(lambda: not any(map(is_there, set(found["p"].to_pylist()))))


# ---- from outside


def hanging(slots: Slots, folder: Path) -> tuple[str, list[int]]:
    """A job whose functions hang until there is a file "on", and the processes they run in."""
    place = str(folder)

    def hang(a: Any) -> Any:
        if not Path(place, "on").exists():
            Path(place, str(os.getpid())).touch()
            if not Path(place, "on").exists():  # else nobody may have seen this process's file
                ctypes.PyDLL(None).sleep(1000)
        return a

    frame = slots.frame.select(b=arrow_udf(hang, returns="int64")("a"))
    job = slots.running.submit(frame.plan.root)
    wait_until(lambda: any(folder.iterdir()))
    return job, [int(path.name) for path in folder.iterdir()]


def test_a_cancelled_task_ends_whatever_its_function_does(slots: Slots, tmp_path: Path) -> None:
    job, pids = hanging(slots, tmp_path)
    slots.running.control.cancel(pb.JobRequest(job_id=job))
    with pytest.raises(CancelledError):
        slots.running.wait(job)
    wait_until(lambda: not any(map(is_there, pids)))
    slots.running.control.release(pb.JobRequest(job_id=job))


def test_a_killed_process_costs_an_attempt(slots: Slots, tmp_path: Path) -> None:
    job, _ = hanging(slots, tmp_path)
    (tmp_path / "on").touch()
    for pid in (int(path.name) for path in tmp_path.iterdir() if path.name != "on"):
        os.kill(pid, signal.SIGKILL)
    status = slots.running.wait(job)
    assert 1 <= status.n_attempts <= 2
    assert all("was killed by SIGKILL" in error.message for error in status.errors)
    assert status.result_rows == N_ROWS
    slots.running.control.release(pb.JobRequest(job_id=job))


def test_a_poisoned_task_fails_its_job_by_its_cause_after_some_attempts(slots: Slots) -> None:
    function = arrow_udf(lambda a: os._exit(3), returns="int64")
    job = slots.running.submit(slots.frame.select(b=function("a")).plan.root, parallelism=1)
    with pytest.raises(ExternalError, match="ended itself with exit code 3"):
        slots.running.wait(job)
    status = next(iter(slots.running.control.watch(pb.JobRequest(job_id=job))))
    assert status.n_attempts == 3
    assert len(status.errors) == 4
    slots.running.control.release(pb.JobRequest(job_id=job))


def test_a_killed_forkserver_is_started_again(slots: Slots) -> None:
    where = slots.frame.select(p=pid_of()("a"))
    slots.collect(where)
    before = slots.pool.pids[0]
    os.kill(before, signal.SIGKILL)
    slots.collect(where)
    assert slots.pool.pids[0] != before


def test_an_idle_pool_ends_its_processes(slots: Slots) -> None:
    slots.collect(slots.frame.select(p=pid_of()("a")))
    pids = slots.pool.pids
    assert pids
    slots.pool.trim()
    assert not slots.pool.pids
    assert not any(map(is_there, pids))
    assert slots.collect(slots.frame.select(p=pid_of()("a"))).num_rows == N_ROWS


def test_no_descriptors_are_left(slots: Slots) -> None:
    def held() -> int:
        slots.pool.trim()
        return len(os.listdir("/proc/self/fd"))

    slots.collect(frames(slots.frame)["chains in a row"])
    before = held()
    for name in ("a chain", "a fragment over an edge"):
        slots.collect(frames(slots.frame)[name])
    with suppress(ExternalError):
        slots.fails(lambda a: os._exit(1), ExternalError)
    wait_until(lambda: held() <= before)


# ---- memory


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slots]:
    folder = tmp_path_factory.mktemp("bounded")
    limits = SlotLimits(pool_bytes=64 << 20, spill_folders=(folder / "spill",))
    yield from opened(folder, limits)
    assert not list((folder / "spill").iterdir())


@pytest.mark.parametrize("name", ["a join", "groups of a function", "a fragment over an edge"])
def test_a_bounded_slot_gives_the_same_rows(
    bounded: Slots, threads: EmbeddedFabric, name: str
) -> None:
    frame = frames(bounded.frame)[name]
    assert checksum(bounded.collect(frame)) == checksum(threads.collect(frame.plan.root))


def test_the_memory_of_a_slot_can_be_set(tmp_path: Path) -> None:
    """Without a bound for the agent as well; the smaller of both counts."""

    def leaks(a: Any) -> Any:
        return bytearray(1 << 30)

    slots = contextmanager(opened)
    with slots(tmp_path, SlotLimits(memory=64 << 20)) as own:
        error = own.fails(leaks, ConfigError)
    assert "in the function leaks, and slot_memory is 64 MiB" in error.message
    both = SlotLimits(memory=64 << 20, pool_bytes=32 << 20)
    assert (both.bytes_max, both.is_set) == (64 << 20, True)
    both = SlotLimits(memory=1 << 30, pool_bytes=32 << 20)
    assert (both.bytes_max, both.is_set) == ((32 << 20) + HEADROOM_BYTES, False)
    assert SlotLimits().bytes_max == 0


@pytest.mark.parametrize("at_once", [True, False])
def test_more_memory_than_its_share_is_an_error(bounded: Slots, at_once: bool) -> None:
    def leaks(a: Any) -> Any:
        if at_once:
            return bytearray(1 << 30)
        kept = []
        while True:
            kept.append(bytearray(1 << 20))

    error = bounded.fails(leaks, ConfigError)
    assert "MiB in the function leaks, and its share of the agent's memory is" in error.message
    assert error.where.node == "select_1"
