"""What a Python function does to its process is its task's business, and nobody else's there.

A real fabric with a lease of 10 s: whatever the function does, the agent keeps it, other jobs go on
beside it, and nothing is left: no process, no file, no descriptor.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fabric
from fabric import arrow_udf
from fabric.errors import CancelledError, ExpressionError, ExternalError, FabricError, UserError
from tests.support.local import SOON, LocalFabric, local_fabric
from tests.support.lone import lone_agent, unharmed
from tests.support.sampled import SOAK
from tests.support.wait import wait_until

DEADLINE_S = 120.0
BATCH_S = 30.0 if SOAK else 16.0
"""More than the lease."""
ROWS = 2000


@pytest.fixture(scope="module")
def one() -> Iterator[LocalFabric]:
    """One agent: all jobs share it."""
    environ = {
        **SOON, "FABRIC_AGENT_BATCH_S": str(BATCH_S),
        "FABRIC_AGENT_SLOT_ENVIRONMENT": "SHOP_*, SHIP",
        "THE_SECRET_OF_THE_SHOP": "abc", "DSN": "postgresql://shop:abc@db", "LC_SHOP": "C",
        "SHOP_TOKEN": "abc", "SHIP": "abc", "SHIPS": "abc",
    }  # fmt: skip
    with lone_agent(4, environ) as running:
        yield running


@pytest.fixture
def session(one: LocalFabric) -> Iterator[fabric.Session]:
    with fabric.connect(f"fabric://{one.address}", token=one.token) as opened:
        yield opened


@pytest.fixture(autouse=True)
def kept(one: LocalFabric) -> Iterator[None]:
    """The agent's process and lease are those of before, and it holds no more than before."""
    with unharmed(one):
        yield
    pid = one.agents[0].process.pid
    wait_until(lambda: not slots_of(pid))


def processes_below(pid: int) -> list[int]:
    """Also those that threads of `pid` started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def slots_of(agent: int) -> list[int]:
    return [slot for nursery in processes_below(agent) for slot in processes_below(nursery)]


def is_there(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def with_function(session: fabric.Session, function: Callable[[Any], Any]) -> fabric.DataFrame:
    frame = session.read_arrow({"a": range(ROWS)})
    return frame.select(b=arrow_udf(function, returns="int64")("a").cast("int64"))


def failure(session: fabric.Session, function: Callable[[Any], Any]) -> FabricError:
    with (
        session.submit(with_function(session, function)) as job,
        pytest.raises(FabricError) as raised,
    ):
        job.wait(DEADLINE_S)
    return raised.value


class Beside:
    """Jobs of somebody else, one after the other, while a test does its worst."""

    def __init__(self, session: fabric.Session) -> None:
        self._session, self._stop = session, threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.n_done, self.errors, self.longest_s = 0, list[BaseException](), 0.0

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        before = self.n_done
        if not any(_):
            wait_until(lambda: self.n_done > before or self.errors, DEADLINE_S)
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self.errors

    def _work(self) -> None:
        twice = arrow_udf(lambda a: pc.multiply(a, 2), returns="int64")
        frame = self._session.read_arrow({"a": range(ROWS)})
        try:
            while not self._stop.is_set():
                found = frame.select(b=twice("a")).collect()
                assert sum(found["b"].to_pylist()) == ROWS * (ROWS - 1)
                self.n_done += 1
        except BaseException as error:
            self.errors.append(error)


CRASHES = {
    "segfault": (lambda a: ctypes.string_at(0), "SIGSEGV"),
    "abort": (lambda a: os.abort(), "SIGABRT"),
    "exit": (lambda a: os._exit(3), "exit code 3"),
    "killed": (lambda a: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
}


@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_is_its_tasks(
    session: fabric.Session, told: Callable[..., None], name: str
) -> None:
    function, words = CRASHES[name]
    with Beside(session):
        error = failure(session, function)
    assert isinstance(error, ExternalError)
    told(error, words, "in the function <lambda>", "select_1", "task job-")


RAISES = {
    "SystemExit": (lambda a: exec("raise SystemExit(2)"), "raised SystemExit: 2"),
    "KeyboardInterrupt": (lambda a: exec("raise KeyboardInterrupt"), "raised KeyboardInterrupt"),
    "recursion": (lambda a: exec("def f(): f()\nf()", {}), "raised RecursionError"),
    "10 MB of text": (lambda a: exec("raise OSError('x' * 10_000_000)"), "(10000000 characters)"),
}


@pytest.mark.parametrize("name", RAISES)
def test_what_it_raises_is_its_error(
    session: fabric.Session, told: Callable[..., None], name: str
) -> None:
    function, words = RAISES[name]
    error = failure(session, function)
    assert isinstance(error, ExpressionError)
    told(error, "the function <lambda>", words, "select_1")
    assert len(str(error)) < 5000


def by_value(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, pickled with its code: agents have no tests to import."""
    return FunctionType(function.__code__, globals() | {"__name__": "__main__"}, function.__name__)


def sleeps_for_ever(a: Any) -> Any:
    time.sleep(1000)


def holds_the_gil(a: Any) -> Any:
    ctypes.PyDLL(None).sleep(1000)


def test_hangs_longer_than_the_lease_cost_their_tasks_only(
    one: LocalFabric, session: fabric.Session, told: Callable[..., None]
) -> None:
    """Two at a time, beside jobs of somebody else."""
    functions = (sleeps_for_ever, holds_the_gil)
    silent_s: list[float] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            silent_s.extend(agent.seen_s_ago for agent in one.attached())

    watcher = threading.Thread(target=watch)
    watcher.start()
    with Beside(session) as beside, ThreadPoolExecutor() as pool:
        errors = list(pool.map(lambda each: failure(session, by_value(each)), functions))
    done.set()
    watcher.join()
    assert max(silent_s) < 9.0  # a heartbeat each half second, a lease of 10
    assert beside.n_done > 3
    log = one.agents[0].log.read_text().splitlines()
    for function, error in zip(functions, errors, strict=True):
        assert isinstance(error, UserError)
        told(error, f"took longer than {BATCH_S:g} s for one batch", "select_1")
        hung = (line for line in log if "a function hangs" in line and function.__name__ in line)
        assert '"task": "job-' in next(hung)


def test_what_it_prints_is_in_the_agents_log(one: LocalFabric, session: fabric.Session) -> None:
    def talks(a: Any) -> Any:
        print("so many rows:", len(a))
        os.write(2, b"a line from below\n")
        return a

    with_function(session, talks).collect()
    log = one.agents[0].log.read_text()
    for text in (f"so many rows: {ROWS}", "a line from below"):
        line = next(line for line in log.splitlines() if text in line)
        assert '"event": "a function says"' in line
        assert '"task": "job-' in line


def hanging(session: fabric.Session, folder: Path) -> tuple[fabric.Job, list[int]]:
    """A running job whose function holds the GIL, and its processes."""
    place = str(folder)

    def hang(a: Any) -> Any:
        open(f"{place}/{os.getpid()}", "w").close()
        ctypes.PyDLL(None).sleep(1000)

    job = session.submit(with_function(session, hang))
    wait_until(lambda: any(folder.iterdir()), DEADLINE_S)
    return job, [int(path.name) for path in folder.iterdir()]


def test_a_cancel_ends_it_at_once(session: fabric.Session, tmp_path: Path) -> None:
    job, pids = hanging(session, tmp_path)
    job.cancel()
    with pytest.raises(CancelledError):
        job.wait(DEADLINE_S)
    wait_until(lambda: not any(map(is_there, pids)), BATCH_S / 2)
    job.release()


def test_a_process_killed_from_outside_is_its_tasks(
    session: fabric.Session, tmp_path: Path
) -> None:
    job, pids = hanging(session, tmp_path)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: job.status.errors, DEADLINE_S)  # and the next attempt begins
    job.cancel()
    with pytest.raises(CancelledError):
        job.wait(DEADLINE_S)
    assert "was killed by SIGKILL" in job.status.errors[0].message
    job.release()


def test_threads_and_processes_it_leaves_end_with_it(session: fabric.Session) -> None:
    def leaves(a: Any) -> Any:
        import subprocess

        threading.Thread(target=time.sleep, args=(1000,)).start()
        return pa.array([subprocess.Popen(["sleep", "1000"]).pid] * len(a))

    pids = set(with_function(session, leaves).collect()["b"].to_pylist())
    wait_until(lambda: not any(map(is_there, pids)))


def test_it_sees_no_secrets_and_no_sockets_of_the_agent(
    one: LocalFabric, session: fabric.Session, tmp_path: Path
) -> None:
    place = str(tmp_path / "seen")

    def looks(a: Any) -> Any:
        folder = "/proc/self/fd"
        links = [f"{folder}/{fd}" for fd in os.listdir(folder)]
        seen = [os.readlink(link) for link in links if os.path.lexists(link)]
        with open(place, "a") as file:
            file.write("\n".join([*seen, *os.environ, ""]))
        return a

    agent = Path(f"/proc/{one.agents[0].process.pid}/fd")
    before = {os.readlink(link) for link in agent.iterdir() if link.is_symlink()}
    with_function(session, looks).collect()
    seen = set(Path(place).read_text().split("\n"))
    assert {"PATH", "LC_SHOP", "SHOP_TOKEN", "SHIP"} <= seen
    assert seen.isdisjoint({"THE_SECRET_OF_THE_SHOP", "DSN", "SHIPS", "FABRIC_AGENT_BATCH_S"})
    assert not {link for link in seen & before if link.startswith("socket:")}
    assert not {link for link in seen if link.startswith(str(one.home))}


def test_no_process_leaves_a_core(
    one: LocalFabric, session: fabric.Session, tmp_path: Path
) -> None:
    """The secret is in the memory of two of them, rows in that of all."""
    agent, coordinator = one.agents[0].process.pid, one.coordinator
    assert coordinator is not None
    job, slots = hanging(session, tmp_path)  # so that they are there for as long as is looked
    for pid in (agent, coordinator.process.pid, *slots):
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
        (core,) = [line.split()[4:6] for line in limits if line.startswith("Max core file size")]
        assert core == ["0", "0"]
    job.cancel()
    with pytest.raises(CancelledError):
        job.wait(DEADLINE_S)
    job.release()


def test_no_descriptors_and_files_are_left(one: LocalFabric, session: fabric.Session) -> None:
    agent = one.agents[0].process.pid
    twice = with_function(session, lambda a: pc.multiply(a, 2))

    def held() -> int:
        wait_until(lambda: not slots_of(agent))
        return len(os.listdir(f"/proc/{agent}/fd"))

    twice.collect()
    failure(session, lambda a: os._exit(1))
    before = held()
    for _ in range(3):
        twice.collect()
        failure(session, lambda a: os._exit(1))
    assert held() <= before
    spill = one.agents[0].log.parent / "spill"
    assert not list(spill.rglob("slot-*"))


def test_an_agent_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    with (
        local_fabric(1) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        _, pids = hanging(session, tmp_path)
        (nursery,) = processes_below(running.agents[0].process.pid)
        running.kill(0)
        wait_until(lambda: not any(map(is_there, [nursery, *pids])))


def test_an_agent_that_is_told_to_stop_ends_what_hangs_in_it(tmp_path: Path) -> None:
    with (
        local_fabric(1) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        _, pids = hanging(session, tmp_path)
        (nursery,) = processes_below(running.agents[0].process.pid)
        assert running.terminate(0) == 0
        assert not any(map(is_there, [nursery, *pids]))


def test_a_leak_ends_with_its_task_where_memory_is_bounded() -> None:
    def leaks(a: Any) -> Any:
        kept = []
        while True:
            kept.append(bytearray(1 << 20))

    with (
        local_fabric(1, options=["--memory", "512MiB"]) as running,
        fabric.connect(f"fabric://{running.address}", token=running.token) as session,
    ):
        error = failure(session, leaks)
        assert "its share of the agent's memory" in str(error)
        assert with_function(session, lambda a: a).collect().num_rows == ROWS
