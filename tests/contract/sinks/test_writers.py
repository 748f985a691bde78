"""Every sink of streams against one contract: seen once a checkpoint is complete, not before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fabric.errors import CancelledError, NotFoundError, PlanError
from fabric.ids import TaskId, new_id
from fabric.io import sinks, sources
from fabric.io.dataset.access import use
from fabric.io.sinks import open_stream_sink
from fabric.io.sinks.protocol import SinkStart
from fabric.plan.sources import DatasetSource
from fabric.plan.targets import (
    DatasetTarget,
    FlightTarget,
    PostgresTarget,
    StreamFileTarget,
    StreamTarget,
)
from tests.support.buckets import keys, new_bucket, url_of, use_store
from tests.support.flight_rig import FlightRig
from tests.support.postgres import PostgresServer

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
PLAIN = settings(
    deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
STAGE = 3


@dataclass
class Place:
    """A target, and all rows that anybody can see there."""

    target: StreamTarget
    seen: Callable[[], list[int]]
    folder: Path | None = None
    left: Callable[[], int] = lambda: 0

    def publish(self, handles: list[bytes]) -> None:
        sinks.publish(handles, self.target)

    def abandon(self, handles: list[bytes]) -> None:
        sinks.abandon(handles, self.target)

    def drop(self, handles: list[bytes], kept: list[bytes]) -> None:
        sinks.drop(handles, kept, self.target)


def read_files(folder: Path, format: str) -> list[int]:
    values: list[int] = []
    for path in sorted(folder.glob("*")) if folder.exists() else []:
        assert not path.name.startswith((".", "_"))
        if format == "parquet":
            table = pq.read_table(path)
        elif format == "csv":
            table = pc.read_csv(path)
        else:
            table = pa.ipc.open_file(path).read_all()
        assert table.schema.names == SCHEMA.names
        values += table["n"].to_pylist()
    return values


def files(format: str, **options):
    def made(folder: Path, rig: FlightRig, server: PostgresServer) -> Place:
        path = folder / new_id("out")
        target = StreamFileTarget(format, str(path), **options)
        return Place(target, lambda: read_files(path, format), folder)

    return made


def read_dataset(name: str) -> list[int]:
    source = DatasetSource(name)
    try:
        splits = sources.enumerate_splits(source, 1)
    except NotFoundError:
        return []
    batches = (b for s in splits for b in sources.read_split(source, SCHEMA, s))
    return [n for batch in batches for n in batch["n"].to_pylist()]


def dataset(folder: Path, rig: FlightRig, server: PostgresServer) -> Place:
    name = new_id("d")
    target = DatasetTarget(name, keys=("n",), n_partitions=3, mode="create")
    return Place(target, lambda: read_dataset(name))


def flight(folder: Path, rig: FlightRig, server: PostgresServer) -> Place:
    name = new_id("d")
    token = rig.token("write")
    target = FlightTarget(rig.control.addresses["a0"], ("dataset", name), token)
    return Place(target, lambda: read_dataset(name))


def postgres_table():
    def made(folder: Path, rig: FlightRig, server: PostgresServer) -> Place:
        name = new_id("t")
        target = PostgresTarget(name, settings=server.settings())
        staged = f"SELECT count(*) FROM pg_tables WHERE schemaname = '{target.staging}'"

        def seen() -> list[int]:
            return [int(str(n)) for (n,) in server.execute(f'SELECT n FROM "{name}"')]

        return Place(target, seen, left=lambda: int(str(server.execute(staged)[0][0])) - 2)

    return made


def objects(format: str, **options):
    def made(folder: Path, rig: FlightRig, server: PostgresServer) -> Place:
        bucket = new_bucket()
        target = StreamFileTarget(format, url_of(bucket, "out"), compact_bytes=0, **options)
        aside = lambda: len([key for key in keys(bucket) if key.startswith(".")])  # noqa: E731
        return Place(target, lambda: read_files(bucket / "out", format), left=aside)

    return made


PLACES = {
    "parquet": files("parquet"),
    "csv": files("csv"),
    "ipc": files("ipc"),
    "files rolled by rows": files("parquet", roll_rows=3, compact_bytes=0),
    "files rolled by bytes": files("csv", roll_bytes=40, compact_bytes=60),
    "objects": objects("parquet"),
    "objects rolled by rows": objects("csv", roll_rows=3),
    "dataset": dataset,
    "flight": flight,
    "postgres": postgres_table(),
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    with FlightRig(tmp_path_factory.mktemp("rig")) as rig, use(rig.access()):
        yield rig


@pytest.fixture(params=PLACES)
def make(request, rig, postgres, tmp_path, monkeypatch):
    if request.param.startswith("objects"):
        use_store(monkeypatch)
    return lambda: PLACES[request.param](tmp_path, rig, postgres)


def batch(*values: int) -> pa.RecordBatch:
    return pa.record_batch([list(values), [f'"{n}"\n,' for n in values]], schema=SCHEMA)


class Job:
    """Two tasks of one sink, and what a coordinator would keep of them."""

    def __init__(self, place: Place, n_tasks: int = 2) -> None:
        self.id, self.place, self.run, self.n_tasks = new_id("job"), place, 0, n_tasks
        self.start()

    def start(self) -> None:
        self.run += 1
        self.writers = [
            open_stream_sink(
                self.place.target, SCHEMA, TaskId(self.id, STAGE, task, self.run), self.n_tasks,
                SinkStart(self.run),
            )
            for task in range(self.n_tasks)
        ]  # fmt: skip

    def prepare(self, checkpoint: int) -> list[bytes]:
        return [writer.prepare(checkpoint) for writer in self.writers]

    def complete(self, checkpoint: int) -> None:
        for writer in self.writers:
            writer.on_complete(checkpoint)

    def restore(self, handles: list[bytes], others: list[bytes]) -> None:
        """As after a crash: the old writers are gone without a word."""
        self.place.drop(others, handles)  # which may name what is complete, and not out yet
        self.place.publish(handles)
        self.start()

    def fall_back(self, handles: list[bytes], kept: list[bytes]) -> None:
        """As after a crash, where the checkpoint that published `handles` is damaged."""
        sinks.take_back(handles, kept, self.place.target)
        self.place.publish(handles)  # somebody is late: what was taken back is not seen again
        self.start()

    def end(self) -> None:
        sinks.discard(self.place.target, self.id, STAGE)


def leftovers(place: Place) -> list[str]:
    if place.folder is None:
        return ["staged"] * place.left()
    name = Path(place.target.path).name
    return [path.name for path in place.folder.glob(f".{name}*")]


def test_seen_once_published_and_twice_is_once(make):
    place = make()
    job = Job(place)
    job.writers[0].write(batch(1, 2))
    job.writers[1].write(batch(3))
    assert place.seen() == []
    handles = job.prepare(1)
    assert place.seen() == []
    place.publish(handles)
    place.publish(handles)
    assert sorted(place.seen()) == [1, 2, 3]
    job.complete(1)
    job.writers[1].write(batch(4))
    handles = job.prepare(2)
    assert sorted(place.seen()) == [1, 2, 3]
    place.publish(handles)
    place.publish(handles)
    assert sorted(place.seen()) == [1, 2, 3, 4]
    job.end()
    assert leftovers(place) == []


def test_abandoned_output_is_never_seen(make):
    place = make()
    job = Job(place)
    job.writers[0].write(batch(1))
    handles = job.prepare(1)
    place.abandon(handles)
    place.abandon(handles)
    for writer in job.writers:
        writer.abandon()
        writer.abandon()
        with pytest.raises(CancelledError):
            writer.write(batch(2))
        with pytest.raises(CancelledError):
            writer.prepare(2)
    assert place.seen() == []
    job.end()
    job.end()
    assert leftovers(place) == []


def test_abandoning_too_late_changes_nothing(make):
    place = make()
    job = Job(place)
    job.writers[0].write(batch(1))
    handles = job.prepare(1)
    place.publish(handles)
    place.abandon(handles)
    assert place.seen() == [1]


def test_empty_epochs_cost_nothing(make):
    place = make()
    job = Job(place)
    for checkpoint in (1, 2):
        handles = job.prepare(checkpoint)
        place.publish(handles)
        place.abandon(handles)
    job.writers[0].write(batch().slice(0, 0))
    place.publish(job.prepare(3))
    assert place.seen() == []
    place.publish([])
    place.abandon([])


def test_rows_of_an_aborted_checkpoint_come_with_the_next(make):
    place = make()
    job = Job(place)
    job.writers[0].write(batch(1))
    aborted = job.writers[0].prepare(1)  # the other task never got so far
    job.writers[0].write(batch(2))
    job.writers[1].write(batch(3))
    handles = job.prepare(2)
    assert aborted != handles[0]
    assert place.seen() == []
    place.publish(handles)
    assert sorted(place.seen()) == [1, 2, 3]


def test_two_publish_the_same_at_once(make, rig):
    place = make()
    job = Job(place)
    for n in range(6):
        job.writers[n % 2].write(batch(n))
    handles = job.prepare(1)
    errors: list[BaseException] = []

    def publish() -> None:
        try:
            with use(rig.access()):
                place.publish(handles)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(place.seen()) == list(range(6))


STEPS = st.lists(
    st.sampled_from(
        [
            "write",
            "write",
            "complete",
            "complete, told late",
            "complete, out late",
            "abort",
            "crash",
        ]
    ),
    max_size=14,
)


@PLAIN
@given(steps=STEPS)
@example(steps=["write", "complete, out late", "write", "abort", "crash"])
def test_what_is_seen_is_what_complete_checkpoints_hold(make, steps):
    place = make()
    job = Job(place)
    numbers = iter(range(1_000))
    seen: list[int] = []
    since: list[int] = []
    complete: list[bytes] = []
    untold: list[bytes] = []
    owes = False
    for checkpoint, step in enumerate(steps, 1):
        if step == "write":
            for writer in job.writers:
                values = [next(numbers), next(numbers)]
                writer.write(batch(*values))
                since += values
        elif step == "abort":
            untold = job.prepare(checkpoint)
        elif step == "crash":
            job.restore(complete, untold)
            since, untold = [], []
        else:
            place.publish(complete)  # what is owed is out before another one is complete
            complete = job.prepare(checkpoint)
            if step != "complete, out late":
                place.publish(complete)
            if step == "complete":
                job.complete(checkpoint)
            seen, since, untold = seen + since, [], []
        owes = step == "complete, out late" or (owes and step in ("write", "abort"))
        assert owes or sorted(place.seen()) == seen
    place.publish(complete)
    job.end()
    assert sorted(place.seen()) == seen
    assert leftovers(place) == []


BACK_STEPS = st.lists(
    st.sampled_from(
        ["write", "write", "complete", "complete, told late", "abort", "damage", "damage, twice"]
    ),
    max_size=14,
)


@PLAIN
@given(steps=BACK_STEPS)
def test_what_damaged_checkpoints_published_is_taken_back(make, steps):
    """Each row is seen once though it is written again; a refusal leaves all as it was."""
    place = make()
    job = Job(place)
    numbers = iter(range(1_000))
    whole: list[int] = []
    newest: list[int] = []
    since: list[int] = []
    kept: list[bytes] = []
    handles: list[bytes] = []
    for checkpoint, step in enumerate(steps, 1):
        if step == "write":
            for writer in job.writers:
                values = [next(numbers), next(numbers)]
                writer.write(batch(*values))
                since += values
        elif step == "abort":
            job.prepare(checkpoint)
        elif step.startswith("damage"):
            if isinstance(place.target, FlightTarget | PostgresTarget) and newest:
                with pytest.raises(PlanError, match="can't be taken back"):
                    sinks.take_back(handles, kept, place.target)
                break
            for _ in range(2 if "twice" in step else 1):
                job.fall_back(handles, kept)
            handles, newest, since = [], [], []
        else:
            kept, handles = handles or kept, job.prepare(checkpoint)
            place.publish(handles)
            if step == "complete":
                job.complete(checkpoint)
            whole, newest, since = whole + newest, since, []
        assert sorted(place.seen()) == sorted(whole + newest)
    job.end()
    assert sorted(place.seen()) == sorted(whole + newest)
    assert leftovers(place) == []
