"""Rules that every task of a stream holds whole: the same in the same order, in each, and once.

Nobody can say between which rules a row comes. So each row is put out with how many rules had come,
and with all that was held then, which must be what those rules make in Python; and rows of all
tasks that have seen as many must have seen the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, Job, Session, col, count, streams
from fabric.checkpoint.storage import FolderStorage
from fabric.errors import FabricError, PlanError
from fabric.io.readers.generator import rows as made_rows
from fabric.plan.sources import GeneratorStream
from tests.integration.test_rescale import START, connected
from tests.integration.test_unaligned_checkpoints import wait_for_rows_in_flight
from tests.support.held import held
from tests.support.local import LocalFabric, local_fabric
from tests.support.sampled import sampled
from tests.support.wait import wait_until

N_ROWS, N_RULES = 4_000, 48
SCHEMA = {"key": "int64", "split": "int32", "row": "int64", "version": "int64", "held": "string"}
Found = list[dict[str, Any]]


class Sees(fabric.Process):
    """Puts each row out with all rules; slowly, if there is a file to wait for and it is not."""

    def __init__(self, free: Path | None = None) -> None:
        self.free = free

    def on_broadcast(self, ctx: fabric.ProcessContext, rows: pa.RecordBatch) -> None:
        self.held = " ".join(f"{rule['id']}:{rule['n']}" for rule in ctx.broadcast)

    def on_rows(self, ctx: fabric.ProcessContext, key: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.free is not None and not self.free.exists():
            sleep(rows.num_rows / 150)  # far longer for all of them than checkpoints take
        n, held = rows.num_rows, self.held if ctx.broadcast.version else ""
        seen = rows.select(["key", "split", "row"])
        seen = seen.append_column("version", pa.array([ctx.broadcast.version] * n, pa.int64()))
        return seen.append_column("held", pa.array([held] * n, pa.string()))


def rows_of(session: Session, rows_per_s: int = 0, n_rows: int = N_ROWS) -> DataFrame:
    return streams.generator(
        n_rows=n_rows, n_keys=40, n_splits=4, seed=5, start=START, rows_per_s=rows_per_s,
        session=session,
    )  # fmt: skip


def rules_of(session: Session, rows_per_s: int = 0, n_splits: int = 1) -> DataFrame:
    rules = streams.generator(
        n_rows=N_RULES, n_keys=9, n_splits=n_splits, seed=7, start=START, rows_per_s=rows_per_s,
        session=session,
    )  # fmt: skip
    return rules.select(id="key", n=col("row") * 10 + col("split"))


def seen(rows: DataFrame, rules: DataFrame, free: Path | None = None, **more: Any) -> DataFrame:
    return rows.process(Sees(free), keys="key", schema=SCHEMA, broadcast=rules, **more)


def rules_made() -> list[tuple[int, int]]:
    """The rules of one split, in order."""
    source = GeneratorStream(
        n_rows=N_RULES, n_keys=9, n_splits=1, seed=7, start_us=int(START.timestamp()) * 10**6
    )
    made = pa.table(made_rows(source, 0, 0, N_RULES, source.start_us))
    return [(row["key"], row["row"] * 10) for row in made.to_pylist()]


def check(
    found: Found, *, n_rows: int = N_ROWS, keyed: bool = False, one_split: bool = True
) -> None:
    """Every row once; all that have seen as many rules have seen the same, and what these make."""
    assert len(found) == len({(row["split"], row["row"]) for row in found}) == n_rows
    by_version: dict[int, set[str]] = {}
    for row in found:
        by_version.setdefault(row["version"], set()).add(row["held"])
    assert all(len(held) == 1 for held in by_version.values())
    held = {version: next(iter(held)) for version, held in sorted(by_version.items())}
    made = rules_made()
    for version, text in held.items():
        came = made[:version]
        if not one_split:  # in any order, but in one
            came = [tuple(map(int, rule.split(":"))) for rule in text.split()]
            longest = max(held.values(), key=len)
            assert longest.startswith(text)
            assert len(came) == len(set(came)) == version
        pairs = dict(came).items() if keyed else came
        assert text == " ".join(f"{id_}:{n}" for id_, n in pairs)


def read(session: Session, out: Path) -> Found:
    found: Found = session.read_parquet(out).to_arrow().to_pylist()
    return found


def next_checkpoint(job: Job) -> int:
    """The number of one that began after this call, once it is published."""
    before = max((one.checkpoint for one in job.checkpoints()), default=0)
    found: list[int] = []

    def is_there() -> bool:
        done = (one.checkpoint for one in job.checkpoints() if one.state == "published")
        found[:] = [number for number in done if number > before]
        return bool(found)

    wait_until(is_there, 60.0)
    return found[0]


@pytest.fixture(scope="module")
def lone() -> Iterator[Session]:
    with fabric.connect(parallelism=3) as opened:
        yield opened


@pytest.fixture(scope="module")
def agents() -> Iterator[LocalFabric]:
    with local_fabric(2, slots=12) as two:
        yield two


@pytest.mark.parametrize(("keyed", "n_splits"), [(True, 1), (False, 1), (False, 4)])
def test_all_tasks_see_the_same(lone: Session, keyed: bool, n_splits: int) -> None:
    more = {"broadcast_keys": "id"} if keyed else {}
    rules = rules_of(lone, rows_per_s=200, n_splits=n_splits)
    frame = seen(rows_of(lone, rows_per_s=20_000), rules, **more)
    check(frame.to_arrow().to_pylist(), keyed=keyed, one_split=n_splits == 1)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_table_is_there_before_the_first_row(parallelism: int) -> None:
    with fabric.connect(parallelism=parallelism) as session:
        table = session.read_arrow(pa.table({"id": range(30), "n": range(30)}))
        found = seen(rows_of(session), table).to_arrow().to_pylist()
        assert len(found) == N_ROWS
        assert {row["held"] for row in found} == {" ".join(f"{n}:{n}" for n in range(30))}
        few = seen(rows_of(session), table.filter(col("id") < 0)).to_arrow().to_pylist()
        assert {(row["version"], row["held"]) for row in few} == {(0, "")}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_rules_of_the_same_source(parallelism: int) -> None:
    with fabric.connect(parallelism=parallelism) as session:
        source = rows_of(session).with_watermark("ts", "1 second")
        rules = source.filter(col("row") < 3).select(id="key", n=col("row") * 10 + col("split"))
        found = seen(source, rules).to_arrow().to_pylist()
        assert len(found) == N_ROWS
        by_version: dict[int, set[str]] = {}
        for row in found:
            by_version.setdefault(row["version"], set()).add(row["held"])
        assert all(len(texts) == 1 for texts in by_version.values())


def test_windows_behind_rules_without_event_time(lone: Session) -> None:
    rows = rows_of(lone).with_watermark("ts", "1 second")

    class Times(Sees):
        def on_rows(self, ctx: Any, key: Any, rows: pa.RecordBatch) -> Any:
            return rows.select(["key", "ts"])

    schema = {"key": "int64", "ts": rows.schema.field("ts").type}
    rules = rules_of(lone)
    timed = rows.process(Times(), keys="key", schema=schema, time="ts", broadcast=rules)
    counts = timed.group_by("key").window("1 minute").agg(n=count())
    expected = rows.group_by("key").window("1 minute").agg(n=count())
    assert sorted(map(str, counts.to_arrow().to_pylist())) == sorted(
        map(str, expected.to_arrow().to_pylist())
    )


def test_other_numbers_of_tasks_and_rules_are_stored_once(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(interval_s=0.1, folder=folder)
        frame = seen(rows_of(session, 4_000), rules_of(session, 40), broadcast_keys="id")
        with held(tmp_path / "held"):
            job = frame.write_stream(tmp_path / "out", name="seen", parallelism=2)
            for parallelism in (4, 1, 3):
                next_checkpoint(job)
                job.rescale(parallelism, timeout_s=60)
            number = next_checkpoint(job)
            storage = FolderStorage(folder)
            (name,) = (name for name in storage.jobs() if not name.startswith("."))
            tasks = [t for t in storage.load(name, number).tasks if t.node == "keyed_process_1"]
            assert len(tasks) == 3
            stored = [any(f.name.startswith("broadcast") for f in task.files) for task in tasks]
            assert stored == [True, False, False]
        job.wait(120)
        check(read(session, tmp_path / "out"), keyed=True)


@pytest.mark.parametrize(
    ("n_splits", "parallelism"), sampled([(1, 1), (1, 2), (4, 1), (4, 2)], 1, salt="unaligned")
)
def test_unaligned_checkpoints_have_no_rules_in_flight(
    tmp_path: Path, n_splits: int, parallelism: int
) -> None:
    free, n_rows = tmp_path / "free", 12_000
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(interval_s=0.3, unaligned_after_s=0, folder=tmp_path / "checkpoints")
        rules = rules_of(session, 10, n_splits)
        frame = seen(rows_of(session, 4_000, n_rows), rules, free)
        with held(tmp_path / "held"):  # a source that has ended begins no checkpoint
            job = frame.write_stream(tmp_path / "out", parallelism=3)
            wait_for_rows_in_flight(job)
            job.rescale(parallelism, timeout_s=60)
            free.touch()
        job.wait(120)
        check(read(session, tmp_path / "out"), n_rows=n_rows, one_split=n_splits == 1)


@pytest.mark.parametrize("unaligned", sampled([False, True], 1, salt="agent"))
def test_an_agent_dies(agents: LocalFabric, tmp_path: Path, unaligned: bool) -> None:
    with connected(agents) as session:
        after_s = {"unaligned_after_s": 0} if unaligned else {}
        session.checkpoints(interval_s=0.2, folder=tmp_path / "checkpoints", **after_s)
        rows, rules = rows_of(session, 4_000), rules_of(session, 40)
        frame = seen(rows, rules, broadcast_keys="id")
        with agents.held():
            job = frame.write_stream(tmp_path / "out", parallelism=3)
            next_checkpoint(job)
            agents.kill(1)
            agents.restart(1)
        job.wait(120)
        check(read(session, tmp_path / "out"), keyed=True)


def test_more_than_the_budget_ends_the_job(lone: Session) -> None:
    frame = seen(rows_of(lone), rules_of(lone), broadcast_memory=100).named("judge")
    way = r'\d+ broadcast rows take \d+ bytes.* may hold 100; write: .*broadcast_memory="1 MiB"'
    with pytest.raises(FabricError, match=way) as caught:
        frame.to_arrow()
    assert caught.value.where.node == "judge"


def test_what_is_refused(lone: Session) -> None:
    rows, rules = rows_of(lone), rules_of(lone)
    with pytest.raises(PlanError, match=r'no column "x" in the broadcast rows; .*"id", "n"'):
        seen(rows, rules, broadcast_keys="x")
    with pytest.raises(PlanError, match="broadcast_deleted says which key is gone"):
        seen(rows, rules, broadcast_deleted=col("n") < 0)
    with pytest.raises(PlanError, match="broadcast rows: "):
        seen(rows, rules, broadcast_keys="id", broadcast_deleted=col("n") + 1)
    with pytest.raises(PlanError, match="nothing to broadcast"):
        rows.process(Plain(), keys="key", schema=SCHEMA, broadcast_keys="id")
    with pytest.raises(PlanError, match="has on_broadcast, and no rows to call it with"):
        rows.process(Sees(), keys="key", schema=SCHEMA)
    with pytest.raises(PlanError, match="broadcast_memory is at least 1 byte"):
        seen(rows, rules, broadcast_memory=0)
    with pytest.raises(PlanError, match="broadcast_bytes is at most"):
        seen(rows, rules, broadcast_memory="3 GiB").explain()
    with pytest.raises(PlanError, match="process takes a DataFrame, got a dict"):
        seen(rows, {"id": 1})  # type: ignore[arg-type]
    totals = rules.group_by("id").agg(n=count())
    with pytest.raises(PlanError, match=r"a broadcast can't take changing results.*\.changes\(\)"):
        seen(rows, totals)
    table = lone.read_arrow(pa.table({"key": [1], "split": [0], "row": [0]}))
    with pytest.raises(PlanError, match=r"these have an end; replay them: fabric.streams.replay"):
        seen(table, rules)
    with pytest.raises(
        PlanError, match=r"a stream can't be broadcast by an exchange; .*broadcast="
    ):
        rules.exchange(kind="broadcast")


class Plain(fabric.Process):
    def on_rows(self, ctx: Any, key: Any, rows: pa.RecordBatch) -> None:
        return None
