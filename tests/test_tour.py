"""`docs/tour.md` is true: its jobs run, and the Python steps of each walk are called in that order.

The jobs run in this process, with two tasks a stage; steps of native code and those that only a
remote fabric takes are left out (`tests/test_docs.py` looks all of them up).
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

import fabric
from fabric import col, streams

ROOT = Path(__file__).resolve().parent.parent
STEP = re.compile(r"^\d+\. `([\w.:]+)` in\s+`([\w./]+)`", re.MULTILINE)
UNSEEN = {"GrpcControl.call", "ControlService._answer", "Client.read_endpoint"} | {
    "read_splits",
    "read_split",
}
"""Steps of remote fabrics; and those of threads that are DataFusion's, or serve several jobs."""
N_ROWS = 4_000
Step = tuple[str, str]
"""Name and file."""


def walks() -> dict[str, list[Step]]:
    """The steps below each heading."""
    text = (ROOT / "docs" / "tour.md").read_text()
    _, *parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return {name: STEP.findall(steps) for name, steps in zip(parts[::2], parts[1::2], strict=True)}


def walk(beginning: str) -> list[Step]:
    """The steps of the walk whose heading begins so."""
    (steps,) = (found for name, found in walks().items() if name.startswith(beginning))
    return steps


@contextmanager
def called(steps: list[Step]) -> Iterator[list[Step]]:
    """Takes in each call of one of `steps`, by any thread that is started meanwhile."""
    wanted = set(steps)
    calls: list[Step] = []
    known: dict[object, Step | None] = {}

    def look(frame: FrameType, event: str, arg: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in known:
            path = Path(code.co_filename).resolve()
            inside = path.is_relative_to(ROOT)
            step = (code.co_qualname, path.relative_to(ROOT).as_posix() if inside else "")
            known[code] = step if step in wanted else None
        if (step := known[code]) is not None:
            calls.append(step)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def missing(steps: list[Step], calls: list[Step]) -> list[Step]:
    """The steps from the first one on that is not called behind those before it.

    >>> a, b = ("a", "x.py"), ("b", "x.py")
    >>> missing([a, b], [b, a, a, b]), missing([a, b], [b, a])
    ([], [('b', 'x.py')])
    """
    left = iter(calls)
    for n, step in enumerate(steps):
        if step not in left:
            return steps[n:]
    return []


def in_python(steps: list[Step]) -> list[Step]:
    return [(name, file) for name, file in steps if file.endswith(".py") and name not in UNSEEN]


def a_filter(folder: Path) -> None:
    fabric.from_dict({"a": list(range(100))}).write_csv(str(folder / "a.csv"))
    with fabric.connect() as session:
        assert (
            session.read_csv(str(folder / "a.csv")).filter(col("a") > 50).collect().num_rows == 49
        )


def a_batch(folder: Path) -> None:
    for n in range(2):
        rows = fabric.from_dict({"k": list(range(N_ROWS))})
        rows.write_csv(str(folder / f"{n}.csv"))
    with fabric.connect(parallelism=2) as session:
        rows = session.read_csv([str(folder / f"{n}.csv") for n in range(2)])
        assert rows.group_by("k").agg(fabric.count().alias("n")).collect().num_rows == N_ROWS


def a_stream(folder: Path) -> None:
    with fabric.connect(parallelism=2) as session:
        session.checkpoints(interval_s=0.2, folder=str(folder / "checkpoints"))
        rows = streams.generator(n_rows=N_ROWS, rows_per_s=2 * N_ROWS, n_splits=2, session=session)
        counts = rows.with_watermark("ts", "1 second").group_by("key").window("1 second").count()
        counts.write_stream(streams.to_files(str(folder / "out"), format="parquet")).wait()


@pytest.mark.parametrize(
    ("heading", "n_files", "job"),
    [
        ("A filter", 25, a_filter),
        ("A batch", 18, a_batch),
        ("A row of a stream", 22, a_stream),
        ("A checkpoint", 18, a_stream),
    ],
)
def test_its_steps_are_called_in_order(
    heading: str, n_files: int, job: Callable[[Path], None], tmp_path: Path
) -> None:
    steps = walk(heading)
    assert len(steps) > 10
    assert len({file for _, file in steps}) <= n_files
    with called(steps) as calls:
        job(tmp_path)
    assert missing(in_python(steps), calls) == []


def test_a_step_that_is_not_called_is_found() -> None:
    steps = [*in_python(walk("A filter"))[:3], ("nothing", "fabric/plan/check.py")]
    with called(steps) as calls:
        fabric.from_dict({"a": [1]}).filter(col("a") > 0)
    assert missing(steps, calls) == steps[-1:]


def test_each_walk_is_tried() -> None:
    assert len(walks()) == 4
    assert partial(missing, in_python(walk("A batch")))([]) != []
