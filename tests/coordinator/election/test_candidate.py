"""Several coordinators over one PostgreSQL, as processes: one leads, and when it fails another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest

from fabric.clock import SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.control.rpc import bearer, from_rpc
from fabric.errors import NotLeaderError
from fabric.security.secret import load
from fabric.security.tokens import Signer
from tests.support.control_stub import control_stub
from tests.support.postgres import PostgresServer
from tests.support.wait import wait_until

LINE = "coordinator listening on "
SETTINGS = {"LEASE_S": "10", "LEASE_GRACE_S": "60", "METADATA_WAIT_S": "60", "REST_PORT": "off"}
"""The lease outlasts a machine that stands still for seconds."""


class Coordinator:
    """One process; `address` is there once it listens."""

    def __init__(self, home: Path, url: str, **settings: str) -> None:
        self.home = home
        environ = {f"FABRIC_COORDINATOR_{k}": v for k, v in {**SETTINGS, **settings}.items()}
        arguments = ["--home", home, "--port", "0", "--metadata", url]
        self.log = (home / f"log{len(list(home.glob('log*')))}").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fabric.coordinator.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **environ},
        )
        self.address = ""

    def listening(self) -> Coordinator:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        assert line.startswith(LINE), self.said()
        self.address = line.removeprefix(LINE).strip()
        return self

    def said(self) -> str:
        self.log.flush()
        return Path(self.log.name).read_text()

    def leads(self) -> bool:
        return self.refusal() is None

    def refusal(self) -> Exception | None:
        """What it says to a client, with no search for the leader."""
        metadata = bearer((self.home / "token").read_text().strip())
        with grpc.insecure_channel(self.address) as channel:
            try:
                control_stub(channel).ListJobs(pb.ListRequest(), metadata=metadata, timeout=60)
            except grpc.RpcError as error:
                return from_rpc(error, self.address)
        return None

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.log.close()


Starts = Callable[..., Coordinator]


@pytest.fixture
def start(tmp_path: Path, metadata_url: str) -> Iterator[Starts]:
    running: list[Coordinator] = []

    def begin(url: str = metadata_url, **settings: str) -> Coordinator:
        running.append(Coordinator(tmp_path, url, **settings))
        return running[-1]

    yield begin
    for each in running:
        each.end()


def leader_of(*all_: Coordinator) -> Coordinator:
    wait_until(lambda: any(each.leads() for each in all_))
    (leader,) = (each for each in all_ if each.leads())
    return leader


def both(start: Starts) -> tuple[Coordinator, Coordinator]:
    """Who leads, and who stands by."""
    first, second = start(), start()
    leader = leader_of(first.listening(), second.listening())
    return (first, second) if leader is first else (second, first)


def epoch(url: str) -> int:
    with psycopg.connect(url) as connection:
        (found,) = connection.execute("SELECT epoch FROM fabric.lease").fetchone() or (0,)
        return int(found)


def test_a_killed_leader_is_followed(start: Starts, metadata_url: str, tmp_path: Path) -> None:
    leader, standby = both(start)
    wait_until(lambda: leader.address in str(standby.refusal()))
    refusal = standby.refusal()
    assert isinstance(refusal, NotLeaderError)
    assert refusal.retryable
    assert refusal.leader == leader.address
    assert str(refusal) == (
        f"this coordinator is not the leader; the leader is at {leader.address}"
    )
    before = epoch(metadata_url)
    token = (tmp_path / "token").read_text().strip()
    with closing(GrpcControl(f"{standby.address},{leader.address}", token)) as control:
        assert not control.list_jobs(pb.ListRequest()).jobs  # sent on by the standby
        leader.process.kill()
        leader.process.wait()
        assert not control.list_jobs(pb.ListRequest()).jobs  # waits for the next leader
    assert standby.leads()
    assert epoch(metadata_url) > before


def test_one_that_is_stopped_gives_the_lease_back(start: Starts) -> None:
    leader, standby = both(start)
    leader.process.send_signal(signal.SIGTERM)
    assert leader.process.wait(60) == 0
    wait_until(standby.leads)
    assert "Traceback" not in leader.said() + standby.said()


def test_a_frozen_leader_wakes_up_as_a_standby(start: Starts, metadata_url: str) -> None:
    leader, standby = both(start)
    leader.process.send_signal(signal.SIGSTOP)
    wait_until(standby.leads)
    leader.process.send_signal(signal.SIGCONT)
    wait_until(lambda: getattr(leader.refusal(), "leader", "") == standby.address)
    assert standby.leads()
    assert leader.process.poll() is None


def test_an_agents_token_deposes_no_leader(start: Starts, metadata_url: str) -> None:
    one = start().listening()
    wait_until(one.leads)
    token = Signer(load(one.home / "secret")).token("agent", "a", 600, SystemClock().wall_s())
    told = pb.Leadership(epoch=1 << 40, address="127.0.0.1:1")
    before = epoch(metadata_url)
    with grpc.insecure_channel(one.address) as channel:
        depose: Any = control_stub(channel).Depose
        for _ in range(20):
            depose(told, metadata=bearer(token), timeout=60)
            assert one.leads()
    assert epoch(metadata_url) == before
    assert "leader no more" not in one.said()


def test_without_the_database_it_waits_at_its_start(
    start: Starts, postgres: PostgresServer, metadata_url: str
) -> None:
    postgres.stop("immediate")
    waiting, hasty = start(), start(METADATA_WAIT_S="0")
    assert hasty.process.wait(60) == 1
    assert "does not answer" in hasty.said()
    assert waiting.process.poll() is None
    postgres.start()
    leader_of(waiting.listening())


def test_a_database_that_goes_away_keeps_its_leader(
    start: Starts, postgres: PostgresServer, metadata_url: str
) -> None:
    """Longer than the lease, shorter than the grace: one leads before, meanwhile and after."""
    leader, standby = both(start)
    before = epoch(metadata_url)
    postgres.stop("immediate")
    assert leader.leads()
    wait_until(lambda: "lease not reached" in leader.said())
    assert leader.leads()
    postgres.start()
    assert leader_of(leader, standby) is leader
    assert epoch(metadata_url) == before
    assert "Traceback" not in leader.said() + standby.said()


def test_a_password_in_the_address_is_refused_and_never_shown(start: Starts) -> None:
    refused = start("postgresql://fabric:hunter2@127.0.0.1/fabric")
    assert refused.process.wait(60) == 1
    assert "must not hold a password" in refused.said()
    assert "hunter2" not in refused.said()
