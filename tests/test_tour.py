"""`docs/tour.md` is true: its jobs run on two agents, and the walks are those of their rows.

A tracer (`tests/support/tracer.py`) sees the client, the coordinator and both agents. The Python
steps of a walk must be called in its order. Between its first step and its last, no file may handle
rows that the walk does not name: a file handles rows when one of its functions is given or gives a
record batch, a table, or a container of them. What `EXCEPT` and `is_excepted` list does not count.
Native steps are looked up by `tests/test_docs.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import col, streams
from fabric.clients.session.session import Session
from tests.support.local import LocalFabric, local_fabric
from tests.support.tracer import Call, Step, Tracer, calls_of
from tests.support.wait import wait_until

ROOT = Path(__file__).resolve().parent.parent
STEP = re.compile(r"^\d+\. `([\w.:]+)` in\s+`([\w./]+)`", re.MULTILINE)
EXCEPT = ("fabric/telemetry/", "fabric/config.py", "fabric/agent/tally.py")
"""Logs, configuration and metrics."""
N_ROWS = 4_000
Job = Callable[[Session, Path, Callable[[], bool]], None]
"""A job in a folder; the last argument says whether its walk has been seen."""


def walks() -> dict[str, list[Step]]:
    """The steps below each heading."""
    text = (ROOT / "docs" / "tour.md").read_text()
    _, *parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return {name: STEP.findall(steps) for name, steps in zip(parts[::2], parts[1::2], strict=True)}


def walk(beginning: str) -> list[Step]:
    """The steps of the walk whose heading begins so."""
    (steps,) = (found for name, found in walks().items() if name.startswith(beginning))
    return steps


def in_python(steps: list[Step]) -> list[Step]:
    """The steps that a tracer of Python can see."""
    return [(name, file) for name, file in steps if file.endswith(".py")]


def missing(steps: list[Step], calls: list[Call]) -> list[Step]:
    """The steps from the first one on that is not called behind those before it.

    >>> a, b = ("a", "x.py"), ("b", "x.py")
    >>> ab, ba = [Call(False, a), Call(False, b)], [Call(False, b), Call(False, a)]
    >>> missing([a, b], [*ba, *ab]), missing([a, b], ba)
    ([], [('b', 'x.py')])
    """
    left = (call.step for call in calls)
    for n, step in enumerate(steps):
        if step not in left:
            return steps[n:]
    return []


def is_excepted(step: Step) -> bool:
    """Whether a function may have rows though its file is in no walk: a constructor only keeps
    them, and those who count and log them are not on their way."""
    name, file = step
    return name.endswith("__init__") or file.startswith(EXCEPT)


def unlisted(steps: list[Step], calls: list[Call]) -> set[Step]:
    """What handles rows between the first and the last step, in files that no step names.

    >>> a, b, c = (("f", f"{name}.py") for name in "abc")
    >>> calls = [Call(True, c), Call(False, a), Call(True, b), Call(False, c), Call(False, a)]
    >>> unlisted([a], calls), unlisted([a, b], calls)
    ({('f', 'b.py')}, set())
    """
    files = {file for _, file in steps}
    ends = {steps[0], steps[-1]}
    places = [n for n, call in enumerate(calls) if call.step in ends]
    between = calls[places[0] : places[-1] + 1] if places else []
    handled = {call.step for call in between if call.rows}
    return {step for step in handled if step[1] not in files and not is_excepted(step)}


def a_filter(session: Session, folder: Path, _seen: Callable[[], bool]) -> None:
    pq.write_table(pa.table({"a": list(range(100))}), folder / "a.parquet")
    read = session.read_parquet(str(folder / "a.parquet"))
    assert read.filter(col("a") > 50).collect().num_rows == 49


def a_batch(session: Session, folder: Path, _seen: Callable[[], bool]) -> None:
    for n in range(2):
        pq.write_table(pa.table({"k": list(range(N_ROWS))}), folder / f"{n}.parquet")
    rows = session.read_parquet([str(folder / f"{n}.parquet") for n in range(2)])
    assert rows.group_by("k").agg(fabric.count().alias("n")).collect().num_rows == N_ROWS


def a_stream(session: Session, folder: Path, seen: Callable[[], bool]) -> None:
    """Its windows do not end, so that nothing but a snapshot is made of its rows."""
    session.checkpoints(interval_s=0.2, folder=str(folder / "checkpoints"))
    rows = streams.generator(rows_per_s=N_ROWS, n_splits=2, session=session)
    counts = rows.with_watermark("ts", "1 second").group_by("key").window("1000 days").count()
    job = counts.write_stream(streams.to_files(str(folder / "out"), format="parquet"))
    wait_until(seen)
    job.cancel()


def a_checkpoint(session: Session, folder: Path, _seen: Callable[[], bool]) -> None:
    session.checkpoints(interval_s=0.2, folder=str(folder / "checkpoints"))
    rows = streams.generator(n_rows=N_ROWS, rows_per_s=2 * N_ROWS, n_splits=2, session=session)
    counts = rows.with_watermark("ts", "1 second").group_by("key").window("1 second").count()
    counts.write_stream(streams.to_files(str(folder / "out"), format="parquet")).wait()


@pytest.fixture(scope="module")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> Tracer:
    """One for all jobs; it knows the steps of all walks."""
    path = tmp_path_factory.mktemp("tour") / "trace"
    return Tracer(path, [step for steps in walks().values() for step in steps])


@pytest.fixture(scope="module")
def agents(tracer: Tracer) -> Iterator[LocalFabric]:
    """Two agents and a coordinator, which are traced."""
    with local_fabric(2, environ=tracer.environ) as local:
        yield local


@pytest.fixture
def session(agents: LocalFabric) -> Iterator[Session]:
    """A client of theirs, for one job of two tasks a stage."""
    address = f"fabric://{agents.address}"
    with fabric.connect(address, token=agents.token, parallelism=2) as opened:
        yield opened


@contextmanager
def traced(tracer: Tracer) -> Iterator[Callable[[], list[Call]]]:
    """What all processes have called since the block began; this one is traced in it."""
    begin = tracer.path.stat().st_size
    with tracer.installed():
        yield partial(calls_of, tracer.path, begin)


@pytest.mark.parametrize(
    ("heading", "n_files", "job"),
    [
        ("A filter", 25, a_filter),
        ("A batch", 18, a_batch),
        ("A row of a stream", 22, a_stream),
        ("A checkpoint", 18, a_checkpoint),
    ],
)
def test_its_rows_go_the_way_of_the_walk(
    heading: str, n_files: int, job: Job, *, tracer: Tracer, session: Session, tmp_path: Path
) -> None:
    steps = walk(heading)
    assert len(steps) > 10
    assert len({file for _, file in steps}) <= n_files
    with traced(tracer) as calls:
        job(session, tmp_path, lambda: not missing(in_python(steps), calls()))
        assert missing(in_python(steps), calls()) == []
        if job is not a_checkpoint:  # it is the barrier that this walk follows, not the rows
            assert unlisted(in_python(steps), calls()) == set()


def test_a_step_that_is_not_called_is_found(tmp_path: Path) -> None:
    steps = [*in_python(walk("A filter"))[:3], ("nothing", "fabric/plan/check.py")]
    with traced(Tracer(tmp_path / "trace", steps)) as calls:
        fabric.from_dict({"a": [1]}).filter(col("a") > 0)
    assert missing(steps, calls()) == steps[-1:]


def test_a_file_that_is_not_listed_is_found(
    tracer: Tracer, session: Session, tmp_path: Path
) -> None:
    with traced(tracer) as calls:
        a_batch(session, tmp_path, bool)
    steps = in_python(walk("A batch"))
    for file in ("fabric/agent/router.py", "fabric/flight/remote.py"):
        left = [step for step in steps if step[1] != file]
        assert {found for _, found in unlisted(left, calls())} == {file}


def test_files_that_threads_of_datafusion_run_are_found(
    tracer: Tracer, session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n2\n")
    with traced(tracer) as calls:
        assert (
            session.read_csv(str(tmp_path / "a.csv")).filter(col("a") > 1).collect().num_rows == 1
        )
    found = {file for _, file in unlisted(in_python(walk("A filter")), calls())}
    assert found > {"fabric/operators/fragment/arrow_dataset.py", "fabric/io/sources/file.py"}


def test_each_walk_is_tried() -> None:
    assert len(walks()) == 4
    assert partial(missing, in_python(walk("A batch")))([]) != []
