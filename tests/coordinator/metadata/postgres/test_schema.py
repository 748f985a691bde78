"""The schema: its steps, its columns, who may do what in it, and what SQL shows of a job."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import psycopg
import pytest

from fabric.clients.cli.main import main
from fabric.control import control_pb2 as pb
from fabric.coordinator.metadata.postgres import migrations
from fabric.coordinator.metadata.postgres.database import Database
from fabric.coordinator.metadata.postgres.store import PostgresStore
from fabric.coordinator.metadata.projection import TABLES_SQL
from fabric.coordinator.metadata.store import TABLES, Write
from fabric.errors import ConfigError, StorageError
from tests.support.postgres import PostgresServer

COLUMNS = """SELECT column_name, data_type FROM information_schema.columns
WHERE table_schema = 'fabric' AND table_name = %s AND column_name <> 'record'"""
SHORT = {"timestamp with time zone": "timestamptz"}


def rows(url: str, statement: str, *values: object) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def runner(postgres: PostgresServer, metadata_url: str) -> Iterator[str]:
    """The address as a role that may only run coordinators."""
    name = metadata_url.rpartition("/")[2]
    role = f"{name}_runner"
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    Database(metadata_url).grant(role)
    yield postgres.url(name, role)
    postgres.execute(f"DROP OWNED BY {role}", name)
    postgres.execute(f"DROP ROLE {role}")


def test_a_projection_fills_every_column(metadata_url: str) -> None:
    for table in TABLES:
        columns = TABLES_SQL[table]
        found = {str(n): SHORT.get(str(t), str(t)) for n, t in rows(metadata_url, COLUMNS, table)}
        assert found == {columns.key: "text", **columns.types}, table


def test_migrating_again_and_at_once_changes_nothing(metadata_url: str) -> None:
    assert Database(metadata_url).migrate() == 0
    made: list[int] = []
    other = Database(metadata_url, "other")
    threads = [Thread(target=lambda: made.append(other.migrate())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [0, 0, len(migrations.STEPS)]


def test_a_failing_step_leaves_nothing(metadata_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (*migrations.STEPS, "CREATE TABLE half (a int); SELECT 1 / 0;")
    monkeypatch.setattr(migrations, "STEPS", steps)
    with pytest.raises(StorageError, match="division by zero"):
        Database(metadata_url).migrate()
    assert rows(metadata_url, "SELECT to_regclass('fabric.half')") == [(None,)]
    with pytest.raises(
        StorageError, match="is at version 1, this coordinator needs 2; run `fabric"
    ):
        Database(metadata_url).open()


def test_a_newer_schema_is_refused(metadata_url: str) -> None:
    rows(metadata_url, "INSERT INTO fabric.migrations (version) VALUES (9)")
    for call in (Database(metadata_url).open, Database(metadata_url).migrate):
        with pytest.raises(StorageError, match="made by a newer Fabric: it is at version 9"):
            call()


def test_no_schema_yet_says_what_to_do(metadata_url: str) -> None:
    with pytest.raises(StorageError, match="run `fabric metadata migrate` as the role"):
        Database(metadata_url, "nothing").open()
    with pytest.raises(ConfigError, match="small letters"):
        Database(metadata_url, "a; DROP TABLE jobs")


def test_the_coordinators_role_writes_rows_and_nothing_else(runner: str) -> None:
    store = PostgresStore(Database(runner))
    store.open()
    store.next_epoch()
    store.apply([Write(table, "k", b"") for table in TABLES])
    store.apply([Write(table, "k", None) for table in TABLES])
    for refused in (
        "DROP TABLE fabric.jobs",
        "ALTER TABLE fabric.jobs ADD COLUMN x int",
        "CREATE TABLE fabric.mine (a int)",
        "TRUNCATE fabric.jobs",
        "INSERT INTO fabric.migrations (version) VALUES (2)",
        "DELETE FROM fabric.lease",
        "CREATE SCHEMA mine",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            rows(runner, refused)
    with pytest.raises(StorageError, match=r"permission denied|must be owner"):
        Database(runner, "mine").migrate()
    store.close()


def test_sql_sees_a_job(metadata_url: str) -> None:
    store = PostgresStore(Database(metadata_url))
    store.open()
    store.next_epoch()
    job = pb.JobStatus(job_id="j", name="by k", state=pb.JOB_RUNNING, submitted_s=1e9)
    task = pb.StoredTask(status=pb.TaskStatus(node_path="by", agent_id="a", state=pb.TASK_RUNNING))
    store.apply(
        [
            Write("jobs", "j", pb.StoredJob(status=job).SerializeToString()),
            Write("tasks", "j/000000.000000", task.SerializeToString()),
        ]
    )
    statement = """SELECT j.job_name, j.status, t.operator_id, t.agent_id
        FROM fabric.jobs j JOIN fabric.tasks t USING (job_id)"""
    assert rows(metadata_url, statement) == [("by k", "running", "by", "a")]
    job.state = pb.JOB_FINISHED
    store.apply([Write("jobs", "j", pb.StoredJob(status=job).SerializeToString())])
    assert rows(metadata_url, "SELECT status FROM fabric.jobs") == [("finished",)]
    store.close()


def test_the_command_line(
    postgres: PostgresServer, metadata_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metadata", "migrate", metadata_url]) == 0
    assert capsys.readouterr().out.endswith("no steps made, up to date\n")
    rows(metadata_url, "DROP SCHEMA fabric CASCADE")
    role = metadata_url.rpartition("/")[2] + "_cli"
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    assert main(["metadata", "migrate", metadata_url, "--role", role]) == 0
    assert capsys.readouterr().out.endswith(
        f"1 step made, up to date\n{role} may run coordinators\n"
    )
    assert main(["metadata", "grants", 'x"; DROP']) == 0
    printed = capsys.readouterr().out
    assert 'TO "x""; DROP";' in printed
    assert main(["metadata", "migrate", "postgresql://u:secret@127.0.0.1/d"]) == 1
    error = capsys.readouterr().err
    assert "PGPASSFILE" in error
    assert "secret" not in error
    postgres.execute(f"DROP OWNED BY {role}", metadata_url.rpartition("/")[2])
    postgres.execute(f"DROP ROLE {role}")
