"""Finding the leader: where a call goes next, and when it is made again at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.control.grpc_link import GrpcLink
from fabric.control.leader import Addresses, Search, is_repeatable
from fabric.control.rpc import unary
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front, Parts, Standby
from fabric.coordinator.service.server import ControlServer
from fabric.errors import ConfigError, NotLeaderError, PeerLostError
from fabric.security.tokens import Signer
from fabric.testing.clock import ManualClock
from tests.support.wait import wait_until

NOBODY = "127.0.0.1:1"


def not_leader(leader: str = "") -> NotLeaderError:
    error = NotLeaderError("not the leader")
    error.leader = leader
    return error


def test_the_list_is_tried_over_and_over() -> None:
    addresses = Addresses("a:1,b:2, c:3")
    assert [addresses.current, *(addresses.next() for _ in range(4))] == [
        "a:1", "b:2", "c:3", "a:1", "b:2",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="is not a coordinator's address"):
        Addresses(" ,")


def test_a_standbys_word_is_taken_but_not_from_tls_to_none() -> None:
    addresses = Addresses("a:1,b:2")
    assert addresses.follow(not_leader("x:9")) == "x:9"
    assert addresses.next() == "a:1"
    assert addresses.follow(not_leader("")) == "b:2"
    assert addresses.follow(not_leader("b:2")) == "a:1"  # it sends to itself: on with the list
    secure = Addresses("grpc+tls://a:1,grpc+tls://b:2")
    assert secure.follow(not_leader("x:9")) == "grpc+tls://b:2"
    assert secure.follow(not_leader("grpc+tls://x:9")) == "grpc+tls://x:9"


@pytest.mark.parametrize(
    ("request_", "repeatable"),
    [
        (pb.SubmitRequest(client_key="k"), True),
        (pb.SubmitRequest(), False),
        (pb.RestartRequest(), False),
        (pb.JobRequest(), True),
        (pb.DatasetRequest(drop=pb.DatasetDrop(name="d")), False),
        (pb.DatasetRequest(begin=pb.DatasetBegin(name="d")), False),
        (pb.DatasetRequest(begin=pb.DatasetBegin(name="d", idempotency_key="k")), True),
        (pb.DatasetRequest(commit=pb.DatasetCommit(transaction="t")), True),
    ],
)
def test_what_may_be_made_twice(request_: Any, repeatable: bool) -> None:
    assert is_repeatable(request_) is repeatable


def search(addresses: Addresses, *, known: bool) -> tuple[Search, ManualClock]:
    clock = ManualClock()
    made = Search(addresses, 30.0, known=known, repeatable=True, now_s=clock.monotonic_s)
    return made, clock


def test_of_a_fabric_that_never_answered_each_address_is_tried_once() -> None:
    looking, _ = search(Addresses("a:1,b:2,c:3"), known=False)
    for _ in range(2):
        looking.next(PeerLostError("nobody"))
    with pytest.raises(PeerLostError, match="nobody"):
        looking.next(PeerLostError("nobody"))


def test_one_that_answered_is_looked_for_with_longer_and_longer_pauses() -> None:
    looking, clock = search(Addresses("a:1"), known=True)
    pauses = []
    while clock.monotonic_s() <= 30.0:
        pauses.append(looking.next(PeerLostError("nobody")))
        clock.advance(pauses[-1])
    with pytest.raises(PeerLostError, match="nobody"):
        looking.next(PeerLostError("nobody"))
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0


class Fabric(SimpleNamespace):
    """A coordinator at a port of its own that may lead or stand by."""

    def __init__(self, told: str = "") -> None:
        signer, clock = Signer(b"s" * 32), SystemClock()
        config = CoordinatorConfig(port=0, heartbeat_s=0.2, timeout_s=30.0)
        super().__init__(told=told, n_calls=0)
        self.runtime = CoordinatorRuntime(config=config)
        self.runtime.start()
        self.front = Front(Standby(self.where))
        self.server = ControlServer(Parts(config, signer, clock, lambda *_: None), self.front)
        self.address = self.server.start()
        self.token = lambda scope: signer.token(scope, "t", 60.0, clock.wall_s())

    def where(self) -> str:
        self.n_calls += 1
        return str(self.told)

    def lead(self) -> None:
        self.front.current = self.runtime

    def close(self) -> None:
        self.server.stop()
        self.runtime.close()


@pytest.fixture
def make() -> Iterator[Callable[[], Fabric]]:
    made: list[Fabric] = []

    def one() -> Fabric:
        made.append(Fabric())
        return made[-1]

    yield one
    for each in made:
        each.close()


def test_a_call_reaches_the_leader_among_standbys_and_dead_ones(make: Any) -> None:
    leader, standby = make(), make()
    leader.lead()
    addresses = f"{NOBODY},{standby.address},{leader.address}"
    with closing(GrpcControl(addresses, leader.token("submit"))) as control:
        assert not control.list_jobs(pb.ListRequest()).jobs
        assert not control.list_jobs(pb.ListRequest()).jobs
    assert standby.n_calls == 1  # the second call went straight there


def test_a_standby_alone_sends_on_to_the_leader(make: Any) -> None:
    leader, standby = make(), make()
    leader.lead()
    standby.told = leader.address
    with closing(GrpcControl(standby.address, leader.token("submit"))) as control:
        assert not control.list_jobs(pb.ListRequest()).jobs


def test_while_nobody_leads_a_call_waits(make: Any) -> None:
    one = make()
    with closing(GrpcControl(one.address, one.token("submit"))) as control:
        caller = threading.Thread(target=control.list_jobs, args=(pb.ListRequest(),))
        caller.start()
        wait_until(lambda: one.n_calls > 2)
        assert caller.is_alive()
        one.lead()
        caller.join(30)
        assert not caller.is_alive()


def test_not_for_ever_and_not_after_it_was_closed(make: Any) -> None:
    one = make()
    control = GrpcControl(one.address, one.token("submit"), find_s=0.2)
    with pytest.raises(NotLeaderError, match="nobody leads at the moment"):
        control.list_jobs(pb.ListRequest())
    control.close()
    control = GrpcControl(one.address, one.token("submit"))
    failed: list[Exception] = []

    def call() -> None:
        try:
            control.list_jobs(pb.ListRequest())
        except PeerLostError as error:
            failed.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    before = one.n_calls
    wait_until(lambda: one.n_calls > before)
    control.close()
    caller.join(60)
    assert not caller.is_alive()
    assert failed


def test_an_agents_link_goes_to_the_leader(make: Any, make_agent: Any) -> None:
    leader, standby = make(), make()
    leader.lead()
    for first in (NOBODY, standby.address):
        link = GrpcLink(f"{first},{leader.address}", leader.token("agent"))
        agent = make_agent("a").attach(link)
        assert [a.agent_id for a in leader.runtime.list_agents(pb.ListRequest()).agents] == ["a"]
        agent.link.close()
    with pytest.raises(NotLeaderError, match="nobody leads"):
        make_agent("a").attach(GrpcLink(standby.address, standby.token("agent")))
    standby.told = leader.address
    agent = make_agent("a").attach(GrpcLink(standby.address, leader.token("agent")))
    agent.link.close()


def test_a_leader_that_steps_down_ends_links_and_sends_watches_on(
    make: Any, make_agent: Any, request_: Any
) -> None:
    old, new = make(), make()
    old.lead()
    agent = make_agent("a", finish=False).attach(GrpcLink(old.address, old.token("agent")))
    addresses = f"{old.address},{new.address}"
    with closing(GrpcControl(addresses, old.token("submit"), find_s=1.0)) as control:
        job = control.submit(request_)
        watch = control.watch(pb.JobRequest(job_id=job.job_id))
        next(watch)
        old.front.current = Standby(lambda: new.address)
        old.runtime.close()
        agent.until(lambda: agent.lost)
        new.lead()
        with pytest.raises(Exception, match=f"there is no job '{job.job_id}'"):
            list(watch)  # another store: but it was asked
    agent.link.close()


def test_a_deposed_leader_is_told(make: Any) -> None:
    heard: list[int] = []
    one = make()
    stub = pb.Leadership(epoch=7, address="b:1")
    with closing(GrpcControl(one.address, one.token("agent"))) as control:
        depose = unary(control._ready(), "Depose", pb.Leadership)
        metadata = [("authorization", f"Bearer {one.token('agent')}")]
        assert depose(stub, metadata=metadata, timeout=60) == stub  # alone: nothing to it
        one.front.on_deposed = heard.append
        depose(stub, metadata=metadata, timeout=60)
        submit = [("authorization", f"Bearer {one.token('submit')}")]
        with pytest.raises(grpc.RpcError):
            depose(stub, metadata=submit, timeout=60)
    assert heard == [7]
