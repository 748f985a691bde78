"""Rows in a table once, whatever happens between COPY and the answer to COMMIT."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as tries
from hypothesis import strategies as st

from fabric.errors import CancelledError, DataError, PlanError, StorageAwayError, StorageError
from fabric.ids import TaskId, new_id
from fabric.io import sinks
from fabric.io.postgres import session
from fabric.io.postgres.table import table_name
from fabric.io.sinks import postgres as sink
from fabric.plan.targets import PostgresTarget
from tests.support.cut_proxy import CutProxy, How
from tests.support.postgres import PostgresServer

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
CHANGES = pa.schema([("kind", pa.string()), ("n", pa.int64()), ("text", pa.string())])
STAGE = 1
COMMIT_BYTES = 18
"""What a server answers to COMMIT: that it is done, and that it is ready."""


def target_of(server: PostgresServer, **options) -> PostgresTarget:
    return PostgresTarget(new_id("t"), settings=server.settings(), **options)


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([list(values), [str(n) for n in values]], schema=SCHEMA)


def seen(server: PostgresServer, target: PostgresTarget) -> list[int]:
    return sorted(int(str(n)) for (n,) in server.execute(f"SELECT n FROM {table_name(target)}"))


def staged(server: PostgresServer, job: str) -> int:
    found = server.execute(f"SELECT count(*) FROM pg_tables WHERE starts_with(tablename, '{job}')")
    return int(str(found[0][0]))


class Task:
    """Task 0 of a stream's sink."""

    def __init__(self, target: PostgresTarget, job: str = "", schema: pa.Schema = SCHEMA) -> None:
        self.target, self.job, self.schema = target, job or new_id("job"), schema

    def start(self, run: int = 1):
        return sink.portion_opener(self.target, self.schema, TaskId(self.job, STAGE, 0), run)

    def staged(self, *values: int, run: int = 1, since: int = 0) -> bytes:
        """The handle of a portion."""
        portion = self.start(run)(since)
        portion.write(batch(*values))
        return portion.prepare()


def moved_to(target: PostgresTarget, port: int) -> PostgresTarget:
    """The same database by way of a proxy."""
    return replace(
        target, settings=tuple(sorted({**dict(target.settings), "port": str(port)}.items()))
    )


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a server that is away or silent."""
    for name, seconds in (("OPEN_S", 0.2), ("PUBLISH_S", 0.2), ("MOVE_S", 1.0)):
        monkeypatch.setattr(sink, name, seconds)
    monkeypatch.setattr("fabric.io.postgres.portion.OPEN_S", 0.2)


# ---- the answer that never comes


def answer_bytes(server: PostgresServer) -> int:
    """What a server answers to one who publishes a portion."""
    task = Task(target_of(server))
    handle = task.staged(1, 2)
    with CutProxy(server.port) as proxy:
        sinks.publish([handle], moved_to(task.target, proxy.port))
        assert proxy.n_connections == 1
        return proxy.answered[0]


@pytest.mark.parametrize(
    ("before_end", "how"),
    [
        (COMMIT_BYTES, "reset"),  # committed, and nobody hears it
        (COMMIT_BYTES, "silence"),
        (1, "close"),
        (COMMIT_BYTES + 1, "reset"),  # rows moved, nothing committed
        (COMMIT_BYTES + 200, "close"),
    ],
)
def test_a_lost_answer_to_commit(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, before_end: int, how: How
) -> None:
    monkeypatch.setattr(sink, "MOVE_S", 1.0)
    total = answer_bytes(postgres)
    task = Task(target_of(postgres))
    handle = task.staged(1, 2)
    with CutProxy(postgres.port, [total - before_end], how) as proxy:
        sinks.publish([handle], moved_to(task.target, proxy.port))
        assert (proxy.n_cut, proxy.n_connections) == (1, 2)
    assert seen(postgres, task.target) == [1, 2]
    assert staged(postgres, task.job) == 0
    sinks.publish([handle], task.target)
    assert seen(postgres, task.target) == [1, 2]


@pytest.mark.parametrize("before_end", [0, 9])
def test_a_lost_answer_to_the_commit_of_a_portion(
    postgres: PostgresServer, hasty: None, before_end: int
) -> None:
    """Nobody has its handle: the task begins again, and what it staged goes."""
    task = Task(target_of(postgres))
    portion = task.start()(0)
    with CutProxy(postgres.port) as proxy:
        through = Task(moved_to(task.target, proxy.port), task.job)
        portion = through.start()(1)
        portion.write(batch(7))
        portion.prepare()
        total = proxy.answered[-1]
    with CutProxy(postgres.port, [10**9, total - before_end - COMMIT_BYTES]) as proxy:
        through = Task(moved_to(task.target, proxy.port), task.job)
        portion = through.start(2)(0)
        portion.write(batch(8))
        with pytest.raises(StorageAwayError):
            portion.prepare()
    handle = task.staged(8, run=3)
    sinks.publish([handle], task.target)
    assert (seen(postgres, task.target), staged(postgres, task.job)) == ([8], 0)


# ---- the server dies


def test_what_is_staged_survives_a_crash_of_the_server(
    postgres: PostgresServer, hasty: None
) -> None:
    task = Task(target_of(postgres))
    handle, begun = task.staged(1, 2), task.start()(1)
    begun.write(batch(3))
    postgres.stop("immediate")
    try:
        with pytest.raises(StorageAwayError, match=r"does not|answered within"):
            sinks.publish([handle], task.target)
        with pytest.raises(StorageAwayError):
            begun.prepare()
        sinks.abandon([handle], Task(task.target).target)  # nobody there: it is left to the sweep
    finally:
        postgres.start()
    sinks.publish([handle], task.target)
    assert seen(postgres, task.target) == [1, 2]


def test_a_server_that_comes_back_is_waited_for(postgres: PostgresServer) -> None:
    task = Task(target_of(postgres))
    portion = task.start()(0)
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"
    )
    portion.write(batch(1))
    sinks.publish([portion.prepare()], task.target)
    assert seen(postgres, task.target) == [1]


# ---- two at once


def test_an_older_run_commits_nothing(postgres: PostgresServer) -> None:
    task = Task(target_of(postgres))
    old = task.start(1)
    zombie, late = old(4), old(5)
    zombie.write(batch(1))
    handle = task.staged(1, 2, run=2)
    with pytest.raises(CancelledError, match="another run of this job"):
        zombie.prepare()
    late.write(batch(2))
    with pytest.raises(CancelledError, match="another run"):
        late.prepare()
    with pytest.raises(CancelledError, match="another run"):
        task.start(1)
    sinks.publish([handle], task.target)
    assert (seen(postgres, task.target), staged(postgres, task.job)) == ([1, 2], 0)


def test_who_comes_after_the_end_writes_nothing(postgres: PostgresServer) -> None:
    task = Task(target_of(postgres))
    portion = task.start()(0)
    portion.write(batch(1))
    sinks.discard(task.target, task.job, STAGE)
    with pytest.raises(CancelledError, match="the job has ended"):
        portion.prepare()
    assert (seen(postgres, task.target), staged(postgres, task.job)) == ([], 0)
    assert task.staged(2, run=2)  # the job was restarted


def test_a_publisher_that_sleeps_is_waited_for(postgres: PostgresServer) -> None:
    """It holds the lock of the sink, and the server lets that go with its connection."""
    task = Task(target_of(postgres))
    handle = task.staged(1)
    with psycopg.connect(postgres.url()) as sleeper:
        sleeper.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
            [f"fabric sink {task.job}.{STAGE}"],
        )
        with session.Session(task.target, patience_s=0) as other:
            other.ask("SET lock_timeout = '50ms'")
            with pytest.raises(StorageAwayError, match="lock timeout"):
                other.ask(
                    "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                    f"fabric sink {task.job}.{STAGE}",
                )
        assert seen(postgres, task.target) == []
    sinks.publish([handle], task.target)
    assert seen(postgres, task.target) == [1]


def write_on(portion: sink.Portion) -> None:
    """Until the buffers in between are full, at the latest."""
    for _ in range(1_000):
        portion.write(batch(*range(10_000)))


def test_writing_is_broken_off_by_another_thread(postgres: PostgresServer) -> None:
    task = Task(target_of(postgres))
    portion = task.start()(0)
    portion.write(batch(1))
    portion.abandon()
    portion.abandon()
    with pytest.raises(CancelledError, match="was cancelled"):
        write_on(portion)
    with pytest.raises(CancelledError):
        portion.prepare()
    assert staged(postgres, task.job) == 0


# ---- what is left


def test_what_nobody_comes_back_to_is_swept_by_age(postgres: PostgresServer) -> None:
    old, young = Task(target_of(postgres)), Task(target_of(postgres))
    handle, kept = old.staged(1), young.staged(2)
    postgres.execute(
        "UPDATE fabric_sink.sinks SET seen_at = now() - interval '8 days' "
        f"WHERE starts_with(sink, '{old.job}')"
    )
    Task(target_of(postgres)).start()
    assert (staged(postgres, old.job), staged(postgres, young.job)) == (0, 1)
    with pytest.raises(StorageError, match=r"staged rows of .* are missing"):
        sinks.publish([handle], old.target)
    sinks.publish([kept], young.target)
    assert seen(postgres, young.target) == [2]


def test_an_attempt_that_was_replaced_leaves_nothing(postgres: PostgresServer) -> None:
    target, job = target_of(postgres), new_id("job")
    handles = []
    for task, attempt in ((0, 0), (0, 1), (1, 0)):
        writer = sinks.open_sink(target, SCHEMA, TaskId(job, STAGE, task, attempt), 2)
        writer.write(batch(task))
        handles.append(writer.prepare())
    sinks.publish(handles[1:], target)
    sinks.publish(handles[1:], target)
    assert (seen(postgres, target), staged(postgres, job)) == ([0, 1], 0)


def test_a_bounded_job_that_fails_leaves_no_table(postgres: PostgresServer) -> None:
    target, job = target_of(postgres), new_id("job")
    writer = sinks.open_sink(target, SCHEMA, TaskId(job, STAGE, 0), 1)
    writer.write(batch(1))
    sinks.abandon([writer.prepare()], target)
    sinks.discard(target, job, STAGE)
    assert staged(postgres, job) == 0
    with pytest.raises(psycopg.errors.UndefinedTable):
        seen(postgres, target)


def test_overwriting_replaces_all_at_once(postgres: PostgresServer) -> None:
    target = target_of(postgres, mode="overwrite")
    for values in ([1, 2], [3], []):
        sink.check_target(target, SCHEMA)
        writer = sinks.open_sink(target, SCHEMA, TaskId(new_id("job"), STAGE, 0), 1)
        writer.write(batch(*values))
        sinks.publish([writer.prepare()], target)
        assert seen(postgres, target) == values


# ---- what a table refuses


def prepared(portion: sink.Portion, rows: pa.RecordBatch) -> bytes:
    portion.write(rows)
    return portion.prepare()


def test_values_that_a_table_refuses_are_found_as_they_are_written(
    postgres: PostgresServer,
) -> None:
    """Not when their checkpoint is complete, and nothing else can be done."""
    target = target_of(postgres, mode="append")
    postgres.execute(
        f"CREATE TABLE {table_name(target)} "
        "(n bigint NOT NULL, text varchar(3) CHECK (text <> 'x'))"
    )
    task = Task(target)
    for bad, message in (
        ([None, "a"], "null value .*column n"), ([1, "long"], r"too long .*\(column text\)"),
        ([1, "x"], "violates check constraint"), ([1, "\0"], "invalid byte sequence"),
    ):  # fmt: skip
        portion = task.start()(0)
        with pytest.raises(DataError, match=message):
            prepared(portion, pa.record_batch([[value] for value in bad], schema=SCHEMA))
    sinks.publish([task.staged(1)], target)
    assert seen(postgres, target) == [1]


def test_rows_that_are_there_already_fail_the_job_and_stay_staged(postgres: PostgresServer) -> None:
    target = target_of(postgres, mode="append")
    postgres.execute(f"CREATE TABLE {table_name(target)} (n bigint PRIMARY KEY, text text)")
    task = Task(target)
    handle = task.staged(1, 1)
    with pytest.raises(DataError, match="duplicate key value violates unique") as error:
        sinks.publish([handle], target)
    assert not error.value.retryable
    assert (seen(postgres, target), staged(postgres, task.job)) == ([], 1)


def test_a_row_without_its_key_is_refused(postgres: PostgresServer) -> None:
    portion = Task(target_of(postgres, key=("n",))).start()(0)
    with pytest.raises(DataError, match=r"null in the key column 'n'.*is_not_null"):
        portion.write(pa.record_batch([[None], ["a"]], schema=SCHEMA))


def test_published_rows_are_not_taken_back(postgres: PostgresServer) -> None:
    task = Task(target_of(postgres))
    first, second = task.staged(1), task.staged(2, since=1)
    sinks.publish([first], task.target)
    sinks.take_back([second], [], task.target)
    with pytest.raises(PlanError, match="can't be taken back"):
        sinks.take_back([first], [], task.target)
    assert seen(postgres, task.target) == [1]


# ---- changes

CHANGE = st.tuples(st.sampled_from(["+I", "+U", "-U", "-D"]), st.integers(0, 3), st.text("ab"))


@tries(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(epochs=st.lists(st.lists(st.lists(CHANGE, max_size=6), min_size=1, max_size=2), max_size=4))
def test_the_last_change_of_each_key_counts(
    postgres: PostgresServer, epochs: list[list[list[tuple[str, int, str]]]]
) -> None:
    """In the order of the task, over batches, portions and checkpoints."""
    task = Task(target_of(postgres, key=("n",), kind="kind"), schema=CHANGES)
    opened, folded, since = task.start(), {}, 0
    for portions in epochs:
        handles = []
        for changes in portions:
            portion = opened(since := since + 1)
            for change in changes:
                portion.write(pa.record_batch([[part] for part in change], schema=CHANGES))
                kind, n, text = change
                folded.pop(n, None)
                folded |= {n: text} if kind in ("+I", "+U") else {}
            handles.append(portion.prepare())
        sinks.publish(handles, task.target)
        rows = postgres.execute(f"SELECT n, text FROM {table_name(task.target)}")
        assert dict(rows) == folded


# ---- names and secrets


def test_names_are_names_whatever_is_in_them(postgres: PostgresServer) -> None:
    evil = 'a"; DROP TABLE fabric_sink.sinks; --%s'
    postgres.execute('CREATE SCHEMA IF NOT EXISTS "Odd ""one%"')
    target = replace(target_of(postgres, key=(evil,)), schema='Odd "one%', table=evil)
    postgres.execute(f"DROP TABLE IF EXISTS {table_name(target)}")
    schema = pa.schema([(evil, pa.int64()), ("'b'", pa.string())])
    sink.check_target(target, schema)
    writer = sinks.open_sink(target, schema, TaskId(new_id("job"), STAGE, 0), 1)
    writer.write(pa.record_batch([[1, 1], ["x", "y"]], schema=schema))
    sinks.publish([writer.prepare()], target)
    assert postgres.execute(f"SELECT * FROM {table_name(target)}") == [(1, "y")]


def test_a_password_is_in_no_text(postgres: PostgresServer, hasty: None) -> None:
    secret = (("password", "gehe1m"),)
    target = replace(target_of(postgres), secrets=secret)
    handle = Task(target).staged(1)
    away = replace(moved_to(target, 1), secrets=secret)
    with pytest.raises(StorageAwayError) as error:
        sinks.publish([handle], away)
    texts = [
        repr(target),
        target.text(),
        handle.decode(),
        str(error.value),
        repr(error.value),
    ]
    assert not any("gehe1m" in text for text in texts)
