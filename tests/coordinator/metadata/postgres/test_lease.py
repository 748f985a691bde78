"""The lease in PostgreSQL: who gets it, who keeps it, and that writes follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Barrier, Thread

import pytest

from fabric.coordinator.election.election import Lease, Look, Renew, Take
from fabric.coordinator.metadata.postgres.database import Database
from fabric.coordinator.metadata.postgres.lease import PostgresLease
from fabric.coordinator.metadata.postgres.store import PostgresStore
from fabric.coordinator.metadata.store import Write
from fabric.errors import FencedError
from tests.support.postgres import PostgresServer

LONG_S = 600.0
Candidate = Callable[..., PostgresLease]


@pytest.fixture
def candidate(metadata_url: str) -> Iterator[Candidate]:
    opened: list[Database] = []

    def make(name: str, lease_s: float = LONG_S) -> PostgresLease:
        opened.append(Database(metadata_url))
        opened[-1].open()
        return PostgresLease(opened[-1], name, f"at {name}", lease_s)

    yield make
    for database in opened:
        database.close()


def test_the_first_takes_it_and_keeps_it(candidate: Candidate) -> None:
    a, b = candidate("a"), candidate("b")
    taken = a.ask(Take(None))
    assert (taken.epoch, taken.holder, taken.address, taken.renewals) == (1, "a", "at a", 0)
    assert LONG_S - 60 < taken.left_s <= LONG_S
    assert b.ask(Take(None)).holder == "a"
    assert a.ask(Renew(1)).renewals == 1
    assert b.ask(Renew(1)).renewals == b.ask(Look()).renewals == 1  # only read
    assert b.ask(Take((1, 0))).holder == "a"  # no more stale: it was renewed
    assert b.ask(Take((1, 1))) == Lease(2, "b", "at b", 0, pytest.approx(LONG_S, abs=60))
    assert a.ask(Renew(1)).holder == "b"


def test_an_ended_or_released_lease_is_taken(candidate: Candidate) -> None:
    a, b = candidate("a", 0.0001), candidate("b")
    a.ask(Take(None))
    assert b.ask(Take(None)).epoch == 2
    a.release(1)  # not ours any more: nothing happens
    assert a.ask(Take(None)).holder == "b"
    b.release(2)
    assert a.ask(Take(None)).epoch == 3


def test_whose_answer_was_lost_takes_it_again(candidate: Candidate) -> None:
    a = candidate("a")
    assert [a.ask(Take(None)).epoch for _ in range(3)] == [1, 2, 3]


def test_of_many_at_once_one_gets_it(candidate: Candidate) -> None:
    n, found = 6, []
    candidates, together = [candidate(f"c{i}") for i in range(n)], Barrier(n)

    def stand(lease: PostgresLease) -> None:
        together.wait()
        found.append(lease.ask(Take(None)))

    threads = [Thread(target=stand, args=(each,)) for each in candidates]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(lease.epoch, lease.holder) for lease in found} == {(1, found[0].holder)}


def test_writes_follow_the_lease(candidate: Candidate, metadata_url: str) -> None:
    a, b = candidate("a", 0.0001), candidate("b")
    old, new = PostgresStore(Database(metadata_url)), PostgresStore(Database(metadata_url))
    old.open(a.ask(Take(None)).epoch)
    old.apply([Write("jobs", "a", b"1")])
    new.open(b.ask(Take(None)).epoch)
    with pytest.raises(FencedError, match="epoch 1 is over: another one leads with epoch 2"):
        old.apply([Write("jobs", "a", b"2")])
    new.apply([Write("jobs", "b", b"")])
    assert list(new.scan("jobs")) == [("a", b"1"), ("b", b"")]
    with pytest.raises(FencedError, match="epoch 1 is over"):
        PostgresStore(Database(metadata_url)).open(1)
    old.close()
    new.close()


def test_a_second_store_under_one_epoch_silences_the_first(
    candidate: Candidate, metadata_url: str
) -> None:
    """A runtime that begins anew: what the one before it had on its way must not land any more."""
    epoch = candidate("a").ask(Take(None)).epoch
    stores = [PostgresStore(Database(metadata_url)) for _ in range(2)]
    for store in stores:
        store.open(epoch)
        store.apply([Write("jobs", "a", b"")])
    with pytest.raises(FencedError):
        stores[0].apply([Write("jobs", "a", b"late")])
    assert list(stores[1].scan("jobs")) == [("a", b"")]
    for store in stores:
        store.close()


def test_the_epoch_survives_a_crash_of_the_server(
    candidate: Candidate, postgres: PostgresServer
) -> None:
    a = candidate("a")
    a.ask(Take(None))
    postgres.stop("immediate")
    postgres.start()
    assert a.ask(Renew(1)) == Lease(1, "a", "at a", 1, pytest.approx(LONG_S, abs=60))
