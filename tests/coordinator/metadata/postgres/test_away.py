"""PostgreSQL that goes away, hangs, or loses its answers: nothing lost, nothing out of order."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar
from urllib.parse import urlsplit

import psycopg
import pytest

from fabric.coordinator.election.election import Take
from fabric.coordinator.metadata.postgres import database as database_module
from fabric.coordinator.metadata.postgres.database import Database
from fabric.coordinator.metadata.postgres.lease import PostgresLease
from fabric.coordinator.metadata.postgres.store import PostgresStore
from fabric.coordinator.metadata.store import Write
from fabric.errors import FencedError, StorageAwayError, StorageError
from tests.support.cut_proxy import CutProxy, How
from tests.support.postgres import PostgresServer
from tests.support.wait import wait_until

T = TypeVar("T")
SOAK = bool(os.environ.get("FABRIC_SOAK"))
AWAY_S = 20.0 if SOAK else 3.0
NEVER = 1 << 40
# Every commit of a write leaves its number: an answer that was lost shows as two of them.
AUDIT = """
CREATE TABLE fabric.audit (n bigint);
CREATE FUNCTION fabric.note() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO fabric.audit VALUES (NEW.n_writes); RETURN NULL; END';
CREATE TRIGGER note AFTER UPDATE ON fabric.lease FOR EACH ROW
    WHEN (NEW.n_writes > OLD.n_writes) EXECUTE FUNCTION fabric.note();
"""


def sql(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def port_of(url: str) -> int:
    return int(urlsplit(url).port or 0)


def through(proxy: CutProxy, url: str) -> str:
    """The same database by way of the proxy."""
    return f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(url).path}"


@pytest.fixture
def opened() -> Iterator[Callable[[str], PostgresStore]]:
    stores: list[PostgresStore] = []

    def make(url: str) -> PostgresStore:
        stores.append(PostgresStore(Database(url)))
        stores[-1].open()
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def again(call: Callable[..., T], *arguments: object) -> T:
    """As a coordinator does: the same again until it is taken."""
    for _ in range(1000):
        try:
            return call(*arguments)
        except StorageAwayError:
            time.sleep(0.02)
    raise AssertionError("the store did not come back")


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_connection_cut_at_any_byte_loses_and_doubles_nothing(
    metadata_url: str, opened: Callable[[str], PostgresStore], how: How
) -> None:
    """Of the answers to one write each byte is the last that arrives, once."""
    sql(metadata_url, AUDIT)
    n_writes = []
    for cut in range(500, 1400, 5 if SOAK else 45):
        # the first connection looks at the schema, the second is the pool's
        with CutProxy(port_of(metadata_url), [NEVER, cut], how) as proxy:
            store = opened(through(proxy, metadata_url))
            again(store.next_epoch)
            sql(metadata_url, "TRUNCATE fabric.audit, fabric.events, fabric.jobs")
            for number in range(4):
                event = Write("events", f"{number}", b"e")
                writes = [event, Write("jobs", "last", b"%d" % number)]
                again(store.apply, writes)
            assert [key for key, _ in again(store.scan, "events")] == ["0", "1", "2", "3"]
            assert list(again(store.scan, "jobs")) == [("last", b"3")]
            store.close()
        n_writes.append(len(sql(metadata_url, "SELECT * FROM fabric.audit")))
    assert set(n_writes) == {4, 5}, n_writes  # at some bytes the commit was there, the answer not


def test_what_a_broken_connection_left_behind_never_lands_later(
    metadata_url: str, opened: Callable[[str], PostgresStore]
) -> None:
    """A write whose session is only slow, overtaken by its repetition and the next one."""
    store = opened(metadata_url)
    epoch = store.next_epoch()
    store.apply([Write("jobs", "a", b"0")])
    with psycopg.connect(metadata_url, options="-c search_path=fabric") as slow:
        store.apply([Write("jobs", "a", b"1")])  # number 2, as the slow one was to be
        store.apply([Write("jobs", "a", b"2")])
        with pytest.raises(psycopg.Error, match="fenced"):
            slow.execute("SELECT fence(%s, 2)", [epoch])
    assert list(store.scan("jobs")) == [("a", b"2")]


def test_a_crash_of_the_server_at_any_time_loses_nothing_acknowledged(
    metadata_url: str, postgres: PostgresServer, opened: Callable[[str], PostgresStore]
) -> None:
    store = opened(metadata_url)
    store.next_epoch()
    done: list[int] = []
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            n = len(done)
            writes = [Write("events", f"{n:06}", b"e"), Write("jobs", "last", b"%d" % n)]
            again(store.apply, writes)
            done.append(n)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10 if SOAK else 2):
            before = len(done)
            wait_until(lambda before=before: len(done) > before + 5, 60)  # type: ignore[misc]
            acknowledged = len(done)
            postgres.stop("immediate")
            postgres.start()
            found = [key for key, _ in opened(metadata_url).scan("events")]
            assert found == [f"{n:06}" for n in range(len(found))]
            assert len(found) >= acknowledged
    finally:
        stop.set()
        writer.join(60)
    assert [key for key, _ in store.scan("events")] == [f"{n:06}" for n in range(len(done))]
    assert list(store.scan("jobs")) == [("last", b"%d" % (len(done) - 1))]


def test_away_for_a_while_is_told_as_such_and_over_when_it_is_back(
    metadata_url: str, postgres: PostgresServer, opened: Callable[[str], PostgresStore]
) -> None:
    store = opened(metadata_url)
    store.next_epoch()
    postgres.stop("fast")
    end_s = time.monotonic() + AWAY_S
    while time.monotonic() < end_s:
        with pytest.raises(StorageAwayError, match=r"at postgresql://\S+ does not") as caught:
            store.apply([Write("jobs", "a", b"1")])
        assert caught.value.retryable
        with pytest.raises(StorageAwayError):
            store.scan("jobs")
    postgres.start()
    again(store.apply, [Write("jobs", "a", b"2")])
    assert list(store.scan("jobs")) == [("a", b"2")]


def test_a_server_that_hangs_does_not_hang_us(
    metadata_url: str,
    postgres: PostgresServer,
    opened: Callable[[str], PostgresStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = opened(metadata_url)
    store.next_epoch()
    store.apply([Write("jobs", "a", b"0")])
    monkeypatch.setattr(database_module, "ANSWER_S", 0.5)
    postgres.signal_all(signal.SIGSTOP)
    try:
        with pytest.raises(StorageAwayError):
            store.apply([Write("jobs", "a", b"1")])
    finally:
        postgres.signal_all(signal.SIGCONT)
    monkeypatch.setattr(database_module, "ANSWER_S", 8.0)
    again(store.apply, [Write("jobs", "a", b"2")])
    assert list(store.scan("jobs")) == [("a", b"2")]


@pytest.mark.parametrize("where", ["in a transaction", "in a pipeline"])
def test_a_leader_that_freezes_in_the_middle_of_a_write_holds_nobody_up(
    metadata_url: str, opened: Callable[[str], PostgresStore], where: str
) -> None:
    """It holds the row of the lease then, and the server hears nothing of it any more."""
    old = opened(metadata_url)
    epoch = old.next_epoch()
    other = Database(metadata_url)
    other.open()
    lease = PostgresLease(other, "b", "at b", 600.0)

    def taken() -> bool:
        try:
            return lease.ask(Take(None)).holder == "b"
        except StorageAwayError:  # it waited for the row for as long as it may
            return False

    frozen = psycopg.connect(metadata_url, options="-c search_path=fabric")
    statements = [b"SELECT fence(%d, 7)" % epoch, b"INSERT INTO jobs VALUES ('zombie', '')"]
    if where == "in a transaction":
        for statement in statements:
            frozen.execute(statement)
    else:
        frozen.pgconn.enter_pipeline_mode()
        for statement in statements:
            frozen.pgconn.send_query_params(statement, None)
        frozen.pgconn.send_flush_request()
        frozen.pgconn.flush()
    wait_until(taken, 60)
    frozen.close()
    with pytest.raises(FencedError):
        old.apply([Write("jobs", "a", b"")])
    assert list(old.scan("jobs")) == []
    other.close()


@pytest.mark.parametrize(
    ("user", "database", "match"),
    [
        ("nobody", "", 'refuses: .*role "nobody" does not exist'),
        ("postgres", "nowhere", 'refuses: .*database "nowhere" does not exist'),
    ],
)
def test_what_does_not_get_better_is_no_reason_to_wait(
    postgres: PostgresServer, user: str, database: str, match: str
) -> None:
    with pytest.raises(StorageError, match=match) as caught:
        Database(postgres.url(database or "postgres", user)).open()
    assert not caught.value.retryable


def test_a_dropped_table_is_final(
    metadata_url: str, opened: Callable[[str], PostgresStore]
) -> None:
    store = opened(metadata_url)
    store.next_epoch()
    sql(metadata_url, "DROP TABLE fabric.jobs")
    with pytest.raises(StorageError, match=r'refuses: relation "jobs" does not exist') as caught:
        store.apply([Write("agents", "a", b""), Write("jobs", "a", b"")])
    assert not caught.value.retryable
    assert list(store.scan("agents")) == []
