"""Plans are prepared apart: bounded in number, time and memory, and only while somebody waits."""

from __future__ import annotations

import asyncio
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import httpx
import pyarrow as pa
import pytest

from fabric.cancellation import asking, check_wanted
from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.control.rpc import bearer, open_channel
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.rest.server import RestServer
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front, Parts
from fabric.coordinator.service.server import ControlServer
from fabric.coordinator.submit.plan_pool import AT_ONCE, PlanPool
from fabric.coordinator.submit.preparation import prepare
from fabric.coordinator.submit.splits import Surroundings
from fabric.errors import ExhaustedError, FabricError, PeerLostError, PlanError
from fabric.plan.codec import encode
from fabric.plan.expr import Column
from fabric.plan.nodes import Limit, Node, Plan, Scan, Select, Union
from fabric.plan.sources import FileSource, FlightSource, MemorySource
from fabric.process import resident_bytes
from fabric.security.tokens import Signer
from tests.support.control_stub import control_stub
from tests.support.wait import wait_until

GUARD_S = 60.0
SIGNER = Signer(b"s" * 32)
SCHEMA = pa.schema([("a", pa.int64())])
AROUND = Surroundings(parallelism=2, n_cpus=2, embedded=True, datasets={}, agents=frozenset({"a"}))


def run(work: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work(), GUARD_S))


def until_unwanted(_: object) -> None:
    """What a plan without an end does."""
    pause = threading.Event()
    while True:
        check_wanted()
        pause.wait(0.01)


# ---- one plan


def test_a_plan_has_its_time_and_no_more() -> None:
    planning = PlanPool(plan_s=0.1)
    with pytest.raises(ExhaustedError, match=r"not ready to run after 0.1 s.*plan_s"):
        run(lambda: planning.answer(until_unwanted, None))
    wait_until(lambda: planning.n_at_work == 0, GUARD_S)


def test_what_nobody_waits_for_is_not_worked_out() -> None:
    planning = PlanPool()

    async def give_up() -> None:
        waiting = asyncio.ensure_future(planning.answer(until_unwanted, None))
        await asyncio.sleep(0)
        while planning.n_at_work == 0:
            await asyncio.sleep(0.01)
        waiting.cancel()

    run(give_up)
    wait_until(lambda: planning.n_at_work == 0, GUARD_S)


def test_there_are_not_too_many_at_once() -> None:
    planning, go = PlanPool(), threading.Event()

    async def crowd() -> None:
        stuck = [asyncio.ensure_future(planning.answer(go.wait, GUARD_S)) for _ in range(AT_ONCE)]
        while planning.n_at_work < AT_ONCE:
            await asyncio.sleep(0.01)
        with pytest.raises(ExhaustedError, match=f"prepares {AT_ONCE} plans already"):
            await planning.answer(str, 1)
        go.set()
        assert await asyncio.gather(*stuck) == [True] * AT_ONCE
        assert await planning.answer(str, 1) == "1"

    run(crowd)


def test_plans_that_hang_for_ever_take_no_place_of_others() -> None:
    planning, go = PlanPool(plan_s=2.0), threading.Event()

    async def crowd() -> None:
        hung = [asyncio.ensure_future(planning.answer(go.wait, GUARD_S)) for _ in range(AT_ONCE)]
        told = await asyncio.gather(*hung, return_exceptions=True)
        assert {type(one) for one in told} == {ExhaustedError}
        assert planning.n_at_work == AT_ONCE
        assert await planning.answer(str, 1) == "1"
        go.set()

    run(crowd)


def test_a_plan_without_room_is_refused_and_lets_go_of_all_it_has_made() -> None:
    planning = PlanPool(memory=resident_bytes() + (96 << 20))
    made: list[weakref.ref[Any]] = []

    def grow(_: object) -> None:
        class Held:
            """Something that a plan has made."""

        held = [Held()]
        made.append(weakref.ref(held[0]))
        blocks = []
        for _ in range(256):  # 1 GiB, if nobody minds
            check_wanted()
            blocks.append(b"x" * (4 << 20))

    async def both() -> None:
        large = asyncio.ensure_future(planning.answer(grow, None))
        with pytest.raises(ExhaustedError, match=r"more memory than the coordinator has left of"):
            await large
        assert made[0]() is None
        assert await planning.answer(str, 2) == "2"

    run(both)


def test_an_allocation_that_fails_is_such_a_plans_error() -> None:
    def absurd(_: object) -> None:
        bytearray(1 << 60)

    with pytest.raises(ExhaustedError, match="more memory"):
        run(lambda: PlanPool().answer(absurd, None))


def test_the_plan_that_has_computed_least_goes_first() -> None:
    """Many that compute don't keep one that is soon done from its turn; hogs all get theirs."""
    planning, end = PlanPool(), threading.Event()
    steps = [0] * 6

    def hog(number: int) -> None:
        while not end.is_set():
            check_wanted()
            steps[number] += 1

    def small(_: object) -> str:
        for _ in range(50):
            check_wanted()
            sum(range(20_000))
        return "done"

    async def all_of_them() -> None:
        hogs = [asyncio.ensure_future(planning.answer(hog, n)) for n in range(6)]
        while not all(steps):
            await asyncio.sleep(0.01)
        assert await planning.answer(small, None) == "done"
        end.set()
        await asyncio.gather(*hogs)

    run(all_of_them)


# ---- what is asked on the way


def a_file(folder: Path) -> FileSource:
    path = folder / "in.csv"
    path.write_text("a\n1\n")
    return FileSource("csv", (str(path),))


def wide(source: FileSource, n_columns: int, n_inputs: int) -> Node:
    """A plan of few bytes and many columns."""
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(n_columns)])
    scan = Scan(source, schema, path="in")
    columns = tuple(Column(name) for name in schema.names)
    return Union(tuple(Select(scan, columns) for _ in range(n_inputs)))


def test_every_step_of_preparing_asks_whether_the_plan_is_wanted(tmp_path: Path) -> None:
    root: Node = Scan(a_file(tmp_path), SCHEMA, path="in")
    for n in range(40):
        root = Limit(root, 1000 - n)
    request = pb.SubmitRequest(plan=encode(Plan(root)))
    asked = 0

    def count() -> None:
        nonlocal asked
        asked += 1

    with asking(count):
        prepare(request, AROUND, 1 << 20).fragments()
    assert asked > 5 * 40
    for last in range(0, asked, max(1, asked // 20)):
        left = last

        def gone() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise TimeoutError("nobody waits")

        request.plan = encode(Plan(Limit(root, 2_000 + last)))  # one that is not remembered
        with asking(gone), pytest.raises(TimeoutError):
            prepare(request, AROUND, 1 << 20).fragments()


def test_a_job_has_a_bounded_number_of_tasks() -> None:
    from fabric.coordinator.planner.draft import TASKS_MAX, Draft

    draft, scan = Draft({}), Scan(MemorySource("t", 1), SCHEMA, path="t")
    roots = [Limit(scan, 1) for _ in range(TASKS_MAX // 128 + 1)]
    for root in roots[1:]:
        draft.stage(root, 128, flexible=False)
    with pytest.raises(PlanError, match=f"more than {TASKS_MAX} tasks"):
        draft.stage(roots[0], 128, flexible=False)


def test_what_came_of_a_large_plan_is_not_remembered(tmp_path: Path) -> None:
    """64 of them would be kept for good; each of these has 64 KiB and takes megabytes."""
    for n_inputs, kept in ((2, True), (20, False)):
        root = wide(a_file(tmp_path), 500, n_inputs)
        request = pb.SubmitRequest(plan=encode(Plan(root)))
        assert len(request.plan) < 64 << 10
        first = prepare(request, AROUND, 1 << 20)
        again = prepare(request, AROUND, 1 << 20)
        assert (id(again) == id(first)) is kept


# ---- behind a server


@contextmanager
def serving(runtime: Any, home: Path, **settings: Any) -> Iterator[SimpleNamespace]:
    config = CoordinatorConfig(home=home, port=0, **settings)
    planning = PlanPool(config.plan_s, config.memory)
    parts = Parts(config, SIGNER, SystemClock(), lambda *_: None)
    server = ControlServer(parts, Front(runtime), planning)
    address = server.start()
    token = SIGNER.token("submit", "ann", 600.0, SystemClock().wall_s())
    try:
        yield SimpleNamespace(address=address, token=token, planning=planning)
    finally:
        server.stop()


@contextmanager
def fabric(home: Path, **settings: Any) -> Iterator[SimpleNamespace]:
    config = CoordinatorConfig(home=home, timeout_s=600.0, **settings)
    with (
        CoordinatorRuntime(config=config) as runtime,
        serving(runtime, home, **settings) as served,
        fabric_client(served) as served.client,
    ):
        yield served


@contextmanager
def fabric_client(served: SimpleNamespace) -> Iterator[GrpcControl]:
    with closing(GrpcControl(served.address, served.token)) as client:
        yield client


def flight_plan(port: int) -> pb.SubmitRequest:
    source = FlightSource(f"grpc://127.0.0.1:{port}", command=b"x")
    return pb.SubmitRequest(plan=encode(Plan(Scan(source, SCHEMA, path="in"))))


def test_a_grpc_client_that_gives_up_ends_the_work(tmp_path: Path) -> None:
    with serving(SimpleNamespace(submit=until_unwanted), tmp_path) as served:
        channel = open_channel(served.address)
        submit: Any = control_stub(channel).Submit
        call = submit.future(pb.SubmitRequest(), metadata=bearer(served.token))
        wait_until(lambda: served.planning.n_at_work == 1, GUARD_S)
        call.cancel()
        wait_until(lambda: served.planning.n_at_work == 0, GUARD_S)
        channel.close()


def test_an_http_client_that_gives_up_ends_the_work(tmp_path: Path) -> None:
    planning = PlanPool()
    runtime: Any = SimpleNamespace(submit=until_unwanted)
    config = CoordinatorConfig(home=tmp_path, rest_port=0)
    server = RestServer(Parts(config, SIGNER, SystemClock(), lambda *_: None), runtime, planning)
    url = server.start()
    token = SIGNER.token("submit", "ann", 600.0, SystemClock().wall_s())
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-protobuf"}
    with httpx.Client(headers=headers) as client, pytest.raises(httpx.ReadTimeout):
        client.post(f"{url}/api/v1/jobs", content=b"", timeout=httpx.Timeout(GUARD_S, read=0.3))
    wait_until(lambda: planning.n_at_work == 0, GUARD_S)
    server.stop()


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        ("Cancel", pb.JobRequest(job_id="j" * 257)),
        ("Submit", pb.SubmitRequest(client_key="k" * 257)),
        ("Submit", pb.SubmitRequest(checkpoint=pb.Checkpointing(folder="f" * 4097))),
        ("Dataset", pb.DatasetRequest(begin=pb.DatasetBegin(keys=["k" * 4097]))),
        ("Restart", pb.RestartRequest(job_id="j", from_path="p" * 4097)),
    ],
    ids=["job", "key", "folder", "keys", "path"],
)
def test_texts_of_a_call_are_bounded(tmp_path: Path, call: str, asked: Any) -> None:
    taken: list[Any] = []
    calls = dict.fromkeys(("cancel", "submit", "dataset", "restart"), taken.append)
    with serving(SimpleNamespace(**calls), tmp_path) as served:
        channel = open_channel(served.address)
        ask: Any = getattr(control_stub(channel), call)
        with pytest.raises(grpc.RpcError) as caught:
            ask(asked, metadata=bearer(served.token), timeout=GUARD_S)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "characters, got" in caught.value.details()
        assert taken == []
        channel.close()


def test_a_limit_that_was_met_has_a_status_of_its_own(tmp_path: Path) -> None:
    with serving(SimpleNamespace(submit=until_unwanted), tmp_path, plan_s=0.1) as served:
        channel = open_channel(served.address)
        submit: Any = control_stub(channel).Submit
        with pytest.raises(grpc.RpcError) as caught:
            submit(pb.SubmitRequest(), metadata=bearer(served.token), timeout=GUARD_S)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        channel.close()


def test_silent_flight_servers_hold_up_no_other_call(tmp_path: Path) -> None:
    """Twenty plans that wait for one, where sixteen threads answer calls."""
    with (
        closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as silent,
        fabric(tmp_path, ask_s=30.0) as served,
        fabric_client(served) as hostile,
        ThreadPoolExecutor(20) as clients,
    ):
        request = flight_plan(silent.getsockname()[1])
        stuck = [clients.submit(failure, hostile.submit, request) for _ in range(20)]
        wait_until(lambda: served.planning.n_at_work == 20, GUARD_S)
        assert served.client.list_jobs(pb.ListRequest()).jobs == []
        assert served.planning.n_at_work == 20, "they were not stuck"
        hostile.close()
        assert {type(one.result(GUARD_S)) for one in stuck} == {PeerLostError}


def failure(call: Callable[[Any], Any], request: Any) -> FabricError:
    with pytest.raises(FabricError) as caught:
        call(request)
    return caught.value


def test_a_plan_that_names_a_host_tells_nobody_whether_its_port_is_open(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        refused = gone.getsockname()[1]
    with (
        closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as silent,
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as web,
        answering(b"SSH-2.0-OpenSSH_9.9\r\n") as ssh,
        fabric(tmp_path, ask_s=0.7) as served,
    ):
        ports = [refused, silent.getsockname()[1], web, ssh]
        with ThreadPoolExecutor(len(ports)) as clients:
            errors = list(
                clients.map(lambda port: failure(served.client.submit, flight_plan(port)), ports)
            )
    texts = {
        (type(error), str(error).replace(f":{port} ", ":PORT "))
        for error, port in zip(errors, ports, strict=True)
    }
    assert texts == {
        (
            PeerLostError,
            "no Flight server at grpc://127.0.0.1:PORT answered within 0.7 s; check the address, "
            "and that the coordinator's machine may reach it (the coordinator's log says what "
            "happened) (node in)",
        )
    }


@contextmanager
def answering(words: bytes) -> Iterator[int]:
    """A server of something else: it says `words` to whoever comes."""

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.sendall(words)

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(GUARD_S)


def test_a_plan_that_grows_a_thousandfold_is_refused_while_others_are_answered(
    tmp_path: Path,
) -> None:
    """It has 0.8 MB and takes 230; one of 16 MB would take gigabytes."""
    request = pb.SubmitRequest(plan=encode(Plan(wide(a_file(tmp_path), 1_000, 400))))
    assert len(request.plan) < 1 << 20
    small = pb.SubmitRequest(plan=encode(Plan(Scan(MemorySource("t", 1), SCHEMA, path="in"))))
    with (
        fabric(tmp_path, memory=resident_bytes() + (24 << 20)) as served,
        ThreadPoolExecutor(1) as clients,
    ):
        large = clients.submit(failure, served.client.submit, request)
        wait_until(lambda: served.planning.n_at_work == 1, GUARD_S)
        while not large.done():
            assert served.client.list_jobs(pb.ListRequest()).jobs == []
        assert "more memory than the coordinator has left" in str(large.result())
        assert "in memory can only be read by an embedded" in str(
            failure(served.client.explain, small)
        )
