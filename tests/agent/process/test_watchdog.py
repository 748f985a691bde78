"""The watchdog: who turns is left alone, who does not is named, and the process ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import datafusion
import pyarrow as pa
import pytest

from fabric.agent.process.watchdog import CODE, Runtime, Watchdog, engine_runtime, engine_s, stacks
from fabric.operators.fragment.arrow_dataset import StreamDataset, StreamPart
from fabric.telemetry.logs import configure_logs
from tests.support.wait import wait_until

pytestmark = pytest.mark.timeout(240)
SCHEMA = pa.schema([("k", pa.int64())])
Watch = Callable[..., list[int]]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """``watch(runtime, …)``: the codes that the process would have ended with."""
    opened: list[Watchdog] = []

    def begin(*runtimes: Runtime, stuck_s: float = 0.2) -> list[int]:
        codes: list[int] = []
        opened.append(Watchdog(runtimes, stuck_s, codes.append))
        return codes

    yield begin
    for watchdog in opened:
        watchdog.close()


def never(name: str, **more: object) -> Runtime:
    me = threading.current_thread()
    return Runtime(
        name,
        lambda: lambda: False,
        lambda: [(me.name, me.ident or 0)],
        **more,  # type: ignore
    )


def test_who_turns_is_left_alone(watch: Watch) -> None:
    asked: list[int] = []

    def ask() -> Callable[[], bool]:
        asked.append(1)
        return lambda: True

    codes = watch(Runtime("a loop", ask, list))
    wait_until(lambda: len(asked) > 20)
    assert codes == []


def test_who_does_not_is_named_with_what_it_does(
    watch: Watch, capfd: pytest.CaptureFixture[str]
) -> None:
    configure_logs()
    codes = watch(never("the agent's thread"))
    wait_until(lambda: bool(codes))
    assert codes == [CODE] == [75]
    said = capfd.readouterr().err
    assert "the agent's thread has not turned for 0.2 s: this process ends with code 75" in said
    assert "test_who_does_not_is_named_with_what_it_does" in said


def test_what_is_busy_is_not_stuck(watch: Watch) -> None:
    looked: list[float] = []

    def works() -> float:
        looked.append(1.0)
        return float(len(looked))

    codes = watch(never("the query engine", works=works))
    wait_until(lambda: len(looked) > 20)
    assert codes == []


def test_a_share_gives_more_time(watch: Watch) -> None:
    slow = watch(never("the query engine", share=1e6))
    fast = watch(never("the agent's thread"))
    wait_until(lambda: bool(fast))
    assert slow == []


def test_an_idle_engine_is_not_asked(watch: Watch) -> None:
    runtime = engine_runtime(lambda: False)
    assert runtime.ask()()


def test_an_engine_of_which_all_threads_hang_is_stuck(
    watch: Watch, capfd: pytest.CaptureFixture[str]
) -> None:
    configure_logs()
    back = threading.Event()

    def hanging_read(names: list[str]) -> Iterator[pa.RecordBatch]:
        back.wait(200)
        yield pa.record_batch({"k": [1]})

    def query() -> list[pa.RecordBatch]:
        context = datafusion.SessionContext()
        parts = [StreamPart(SCHEMA, hanging_read) for _ in range(64)]
        context.register_dataset("t", StreamDataset(SCHEMA, parts))
        found: list[pa.RecordBatch] = context.sql("select count(*) from t group by k").collect()
        return found

    runtime = engine_runtime(lambda: True)
    came = runtime.ask()
    wait_until(came)
    with ThreadPoolExecutor() as pool:
        queries = [pool.submit(query) for _ in range(4)]
        try:
            wait_until(lambda: "hanging_read" in stacks(runtime.threads()))
            codes = watch(runtime)
            wait_until(lambda: bool(codes))
        finally:
            back.set()
        assert [len(one.result()) for one in queries] == [1, 1, 1, 1]
    assert codes == [CODE]
    said = capfd.readouterr().err
    assert "the query engine has not turned" in said
    assert "hanging_read" in said


def test_the_engines_time_grows_with_its_work() -> None:
    before, end_s = engine_s(), time.monotonic() + 60
    context = datafusion.SessionContext()
    while engine_s() <= before and time.monotonic() < end_s:
        context.sql("select sum(value) from range(5000000) group by value % 10").collect()
    assert engine_s() > before
