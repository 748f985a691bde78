"""The parts of the simulator do what their names say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.metadata.store import Write
from fabric.errors import PartitionLostError, PeerLostError, StorageError
from tests.support.sim.disk import File
from tests.support.sim.graphs import random_graph
from tests.support.sim.network import Network
from tests.support.sim.outside import Outside
from tests.support.sim.party import Party
from tests.support.sim.rows import reference
from tests.support.sim.scheduler import Scheduler
from tests.support.sim.session import End, Session
from tests.support.sim.shelf import Place, Shelf
from tests.support.sim.storage import LogStore
from tests.support.sim.trace import Trace

PLACE = Place("job-1", 0, 0, 0)


class Echo(Party):
    """Answers with what it is asked."""

    def serve(self, request: object, answer: Callable[[object], None]) -> None:
        answer(request)


def parties(scheduler: Scheduler, network: Network, *names: str) -> list[Echo]:
    made = [Echo(name, scheduler, Trace()) for name in names]
    for party in made:
        network.add(party)
        party.start()
    return made


def test_synced_writes_survive_and_a_torn_record_is_dropped() -> None:
    for seed in range(50):
        file = File()
        store = LogStore(file)
        store.apply([Write("jobs", "a", b"1"), Write("tasks", "b", b"2")])
        file.append(b"\x20\x00\x00\x00half a record")
        file.crash(Random(seed))
        again = LogStore(file)
        assert list(again.scan("jobs")) == [("a", b"1")]
        again.apply([Write("jobs", "a", None)])
        assert not list(LogStore(file).scan("jobs"))


def test_epochs_rise_over_restarts() -> None:
    file = File()
    assert [LogStore(file).next_epoch() for _ in range(3)] == [1, 2, 3]


def test_a_closed_store_refuses() -> None:
    store = LogStore(File())
    store.close()
    with pytest.raises(StorageError):
        store.apply([])


def test_only_sealed_output_is_read() -> None:
    shelf = Shelf()
    shelf.begin(PLACE, 1)
    shelf.append(PLACE, ((("0.0", 0, 0),),))
    with pytest.raises(PartitionLostError):
        shelf.read(PLACE, 0)
    shelf.seal(PLACE)
    assert shelf.read(PLACE, 0).rows == (("0.0", 0, 0),)
    shelf.release("job-1")
    with pytest.raises(PartitionLostError):
        shelf.read(PLACE, 0)


def test_publishing_twice_is_publishing_once() -> None:
    outside = Outside()
    outside.prepare(b"job-1/0.0#1@a0", "job-1", (("0.0", 0, 0),))
    outside.prepare(b"job-1/0.0#0@a1", "job-1", (("0.0", 0, 0),))
    for _ in range(2):
        outside.publish([b"job-1/0.0#1@a0"])
        outside.abandon([b"job-1/0.0#1@a0"])
    assert not outside.prepared
    assert outside.committed("job-1") == Counter([("0.0", 0, 0)])
    with pytest.raises(StorageError):
        outside.publish([b"other"])


@given(seed=st.integers(0, 10_000), doubled=st.booleans())
def test_a_session_keeps_order_or_breaks(seed: int, doubled: bool) -> None:
    scheduler = Scheduler(seed)
    network = Network(scheduler, keepalive_s=2.0)
    network.weather.doubled, network.weather.slow = 0.5 * doubled, 0.5
    client, server = parties(scheduler, network, "a0", "c0")
    got: list[int] = []
    ended: list[str] = []
    session = Session(network, (End(client, got.append, ended.append),
                                End(server, got.append, ended.append)))  # fmt: skip
    link = [("a0", "c0", "control")]
    for number in range(20):
        scheduler.after(number * 0.1, lambda number=number: session.send(0, number))
    scheduler.after(0.7, lambda: network.cut(link))
    scheduler.after(scheduler.rng.uniform(1.0, 5.0), lambda: network.heal(link))
    scheduler.run_until(20.0)
    once = list(dict.fromkeys(got))
    assert got == sorted(got)
    assert once == list(range(len(once)))
    assert len(once) == 20 or ended
    assert doubled or got == once


def test_a_call_is_answered_or_times_out() -> None:
    scheduler = Scheduler(3)
    network = Network(scheduler, keepalive_s=2.0)
    caller, server = parties(scheduler, network, "k0", "c0")
    network.weather.lost = 0.5
    heard: list[object] = []
    for number in range(50):
        network.call(caller, "c0", "control", number, heard.append, timeout_s=1.0)
    scheduler.run_until(5.0)
    assert len(heard) == 50
    assert 0 < sum(isinstance(answer, PeerLostError) for answer in heard) < 50
    server.crash()
    network.weather.lost = 0.0
    network.call(caller, "c0", "control", 1, heard.append, timeout_s=1.0)
    scheduler.run_until(5.5)
    assert isinstance(heard[-1], PeerLostError)


def test_a_stopped_party_does_later_what_it_missed() -> None:
    scheduler = Scheduler(4)
    (party,) = parties(scheduler, Network(scheduler, 1.0), "a0")
    seen: list[float] = []
    party.after(1.0, lambda: seen.append(scheduler.now))
    party.pause()
    scheduler.run_until(5.0)
    assert not seen
    party.resume()
    scheduler.run_until(6.0)
    assert len(seen) == 1
    assert seen[0] >= 5.0


@given(seed=st.integers(0, 10_000))
def test_every_row_of_a_graph_reaches_the_end(seed: int) -> None:
    graph = random_graph(Random(seed), 1 + seed % 4, sink=bool(seed % 2))
    sources = {row[0] for row in reference(graph)}
    assert sources
    assert {int(name.split(".")[0]) for name in sources} == {
        stage.stage for stage in graph.stages if not graph.inputs[stage.stage]
    }
