"""Rows into a table of PostgreSQL, each once.

    task: CREATE staging, COPY … ─ barrier: COMMIT ─► handle ─► manifest ─► complete
    publish, one transaction: lock ─ marker? ─ staged rows ─► table, marker, DROP staging ─ COMMIT

One job: `Portion`, what one task writes between two barriers, and what is done with its handles.
A handle names a staging table, no address and no secret. Publishing begins by reading the marker
that it commits together with the rows: asked again, or after a COMMIT whose answer was lost, it
finds out what has been done. Staging tables and markers are in `io/postgres/staging.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from fabric import failpoints
from fabric.errors import (
    FabricError,
    InternalError,
    PlanError,
    StorageAwayError,
    StorageError,
)
from fabric.ids import TaskId
from fabric.io import places
from fabric.io.postgres.access import check_place, shown
from fabric.io.postgres.portion import OPEN_S, Portion
from fabric.io.postgres.session import PAUSE_S, Session
from fabric.io.postgres.staging import Place, Staging, check_area
from fabric.io.postgres.table import Layout, create_sql, layout_of, look, table_name
from fabric.io.postgres.types import ColumnType
from fabric.io.sinks.protocol import Epochs, Handle, SinkStart, SinkWriter, grouped
from fabric.plan.targets import PostgresTarget
from fabric.telemetry.logs import logger

T = TypeVar("T")
CHECK_S, PUBLISH_S = 10.0, 5.0
"""How long a server may be away before a job starts, and when a stream publishes, which is asked
again."""
MOVE_S = 600.0
"""How long one statement that publishes may take."""
_log = logger("fabric.postgres")


def check_target(target: PostgresTarget, schema: pa.Schema, goes_on: str = "") -> None:
    """Refuse, before the job starts, what can't be written, with the SQL that mends it.

    `goes_on` is the job that may have created the table, and writes to it again.

    Raises
    ------
    PlanError, AuthError, StorageError
        The table, its columns, rights or constraints don't fit; nobody answers.
    """
    with Session(target, patience_s=CHECK_S if places.are_guarded() else 0.0) as session:
        check_area(session, target)
        table = look(session, target)
        if target.mode == "create" and table is not None and not goes_on:
            raise _exists(target)
        if table is None:
            _check_absent(session, target, schema)
        layout_of(target, schema, table)


def _check_absent(session: Session, target: PostgresTarget, schema: pa.Schema) -> None:
    ((may,),) = session.ask(
        "SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = %s "
        "UNION ALL SELECT NULL LIMIT 1", target.schema,
    )  # fmt: skip
    sql = create_sql(target, layout_of(target, schema, None))
    if target.mode in ("append", "upsert"):
        raise PlanError(
            f'there is no table {table_name(target)}; use mode="create", or run: {sql};'
        )
    if not may:
        why = "there is no schema" if may is None else "the database user may not create tables in"
        raise PlanError(f"{why} {target.schema}; have its owner run: {sql};")


def _exists(target: PostgresTarget) -> PlanError:
    return PlanError(
        f'the table {table_name(target)} exists already; use mode="append" to add rows to it, '
        'key= to replace those with the same key, mode="overwrite" (not of streams) to replace all '
        "of them, or another name"
    )


def open_sink(
    target: PostgresTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> Portion:
    """The writer of a task of a bounded job: one portion, published with those of all tasks."""

    def begin(session: Session, staging: Staging) -> Layout:
        staging.begin(0)
        table = look(session, target)
        if target.mode == "create" and table is not None and not staging.published():
            raise _exists(target)
        return layout_of(target, schema, table)

    layout = _begun(target, task, begin)
    return Portion(target, layout, task, (0, 0), f"a{task.attempt}")


def open_stream(
    target: PostgresTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> SinkWriter:
    """The writer of one task of a stream."""
    return Epochs(portion_opener(target, schema, task, start.run))


def portion_opener(
    target: PostgresTarget, schema: pa.Schema, task: TaskId, run: int
) -> Callable[[int], Portion]:
    """Opens what one task of a stream writes between two barriers.

    What its earlier runs staged goes: nothing begins again before what a complete checkpoint has
    was published, so that nobody wants it.
    """

    def begin(session: Session, staging: Staging) -> Layout:
        staging.begin(run)
        staging.drop_older(task.task, run)
        staging.sweep()
        table = look(session, target)
        if target.mode == "create":
            if table is None:
                session.ask(create_sql(target, layout_of(target, schema, None)))
                staging.set_maker()
                table = look(session, target)
            elif not staging.is_maker():
                raise _exists(target)
        return layout_of(target, schema, table)

    layout = _begun(target, task, begin)
    return lambda since: Portion(target, layout, task, (run, since), f"{run}.{since}")


def _begun(
    target: PostgresTarget, task: TaskId, begin: Callable[[Session, Staging], Layout]
) -> Layout:
    def once() -> Layout:
        with Session(target, patience_s=OPEN_S) as session:
            staging = Staging(session, target, f"{task.job}.{task.stage}")
            staging.make()
            staging.lock()
            layout = begin(session, staging)
            session.commit()
            return layout

    return _patiently(once, OPEN_S)


def publish(handles: Sequence[Handle], target: PostgresTarget | None) -> None:
    """Move staged rows into the table, all at once; may be repeated.

    Raises
    ------
    StorageAwayError
        The server can't be asked; whether the rows are there shows when it is asked again.
    DataError, StorageError
        The rows break a constraint of the table (they stay staged), or are gone.
    """
    for sink, facts in _by_sink(handles).items():
        within_s = PUBLISH_S if facts[0]["stream"] else OPEN_S
        _patiently(partial(_publish, _known(target), sink, facts), within_s)


def _publish(target: PostgresTarget, sink: str, facts: list[dict[str, Any]]) -> None:
    with Session(target, patience_s=0.0, answer_s=MOVE_S) as session:
        staging = Staging(session, target, sink)
        staging.lock()
        done = staging.published()
        owed = [fact for fact in facts if done.get(fact["task"], (-1, -1)) < _place(fact)]
        if owed:
            _move(session, staging, target, owed, is_first=not done)
        names = [fact["name"] for fact in facts if fact["name"]]
        staging.drop(names if facts[0]["stream"] else {*names, *staging.staged()})
        failpoints.reach("postgres.moved")
        session.commit()
    failpoints.reach("postgres.committed")


def _move(
    session: Session,
    staging: Staging,
    target: PostgresTarget,
    owed: list[dict[str, Any]],
    *,
    is_first: bool,
) -> None:
    names = [fact["name"] for fact in owed if fact["name"]]
    if lost := sorted(set(names) - set(staging.staged())):
        raise StorageError(
            f"the staged rows of {table_name(target)} are missing from {shown(target.settings)}: "
            f"{staging.path(lost[0])} does not exist; was the table dropped by hand, or is this "
            "another server?"
        )
    if is_first and not owed[0]["stream"]:
        if look(session, target) is None:
            types = tuple(ColumnType(name, "", sql) for name, sql in owed[0]["columns"])
            session.ask(create_sql(target, Layout(types)))
        elif target.mode == "create":
            raise _exists(target)
        elif target.mode == "overwrite":
            session.ask(f"DELETE FROM {table_name(target)}")
    for fact in owed:
        if fact["name"]:
            staging.move(fact["name"], [name for name, _ in fact["columns"]])
        staging.set_published(fact["task"], _place(fact))


def take_back(handles: Sequence[Handle], target: PostgresTarget | None) -> None:
    """Remove what is still staged; refused where some of it is in the table.

    Rows of a table don't say which checkpoint they came with.
    """
    known = _known(target)
    for sink, facts in _by_sink(handles).items():
        _patiently(partial(_take_back, known, sink, facts), PUBLISH_S)


def _take_back(target: PostgresTarget, sink: str, facts: list[dict[str, Any]]) -> None:
    with Session(target, patience_s=0.0) as session:
        staging = Staging(session, target, sink)
        staging.lock()
        done = staging.published()
        if any(done.get(fact["task"], (-1, -1)) >= _place(fact) for fact in facts):
            raise PlanError(
                f"rows that were committed to {table_name(target)} at {shown(target.settings)} "
                "can't be taken back; delete the stream's rows, and start a new job"
            )
        staging.drop(fact["name"] for fact in facts if fact["name"])
        session.commit()


def abandon(handles: Sequence[Handle], target: PostgresTarget | None) -> None:
    """Remove staged rows; may be repeated. A server that is away keeps them for some days."""
    for sink, facts in _by_sink(handles).items():
        names = [fact["name"] for fact in facts if fact["name"]]
        _tidied(target, sink, partial(Staging.drop, names=names))


drop = abandon


def discard(target: PostgresTarget, job: str, stage: int, **_: object) -> None:
    """At a job's end: remove all that is staged; who comes late may not write."""

    def end(staging: Staging) -> None:
        staging.end()
        staging.drop(staging.staged())

    _tidied(target, f"{job}.{stage}", end)


def _tidied(target: PostgresTarget | None, sink: str, tidy: Callable[[Staging], None]) -> None:
    known = _known(target)

    def once() -> None:
        with Session(known, patience_s=0.0) as session:
            staging = Staging(session, known, sink)
            if session.ask("SELECT to_regclass(%s)", staging.path("published"))[0][0] is None:
                return  # no task of it has begun
            staging.lock()
            tidy(staging)
            session.commit()

    try:
        _patiently(once, PUBLISH_S)
    except FabricError as error:
        _log.warning("staged rows could not be removed; they are removed after some days",
                     sink=sink, error=str(error))  # fmt: skip


def _patiently(call: Callable[[], T], within_s: float) -> T:
    """What `call` returns, which is made again as long as that may help, until `within_s`."""
    end_s = time.monotonic() + within_s
    while True:
        try:
            return call()
        except StorageAwayError:
            if time.monotonic() >= end_s:
                raise
        time.sleep(PAUSE_S)


def _known(target: PostgresTarget | None) -> PostgresTarget:
    if not isinstance(target, PostgresTarget):
        raise InternalError("a PostgreSQL sink has no address to publish to")
    check_place(target)
    return target


def _place(fact: dict[str, Any]) -> Place:
    run, barrier = fact["place"]
    return run, barrier


def _by_sink(handles: Sequence[Handle]) -> dict[str, list[dict[str, Any]]]:
    return {
        facts[0]["sink"]: sorted(facts, key=lambda fact: (fact["task"], *_place(fact)))
        for facts in grouped(handles, "sink")
    }
