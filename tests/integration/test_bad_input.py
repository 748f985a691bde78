"""Bad plans, bad files and full disks: a named error before or during the job, and nothing left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import fabric
from fabric import DataFrame, col
from fabric.clients.demo.checksum import checksum
from fabric.control import control_pb2 as pb
from fabric.errors import DataError, ExpressionError, NotFoundError, PlanError, StorageError
from fabric.plan.codec import encode
from fabric.plan.expr import Column
from fabric.plan.nodes import Filter, Plan, Sink
from fabric.testing import Gate
from tests.support.disk import mounted
from tests.support.files import files_in
from tests.support.local import LocalFabric

Told = Callable[..., None]
Write = Callable[[str, pa.Table], Path]
TABLE = pa.table({"k": range(20_000), "v": [n % 7 for n in range(20_000)], "s": ["text"] * 20_000})
FORMATS = ("parquet", "csv", "ipc")
ENDINGS = {"parquet": "parquet", "csv": "csv", "ipc": "arrow"}
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(params=["embedded", "session"])
def place(request: pytest.FixtureRequest) -> fabric.Session:
    """The same bad input in this process and on two agents."""
    found: fabric.Session = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """``write("a.csv", table)``; a file of that name is replaced, as writers should."""

    def go(name: str, table: pa.Table = TABLE) -> Path:
        path, aside = tmp_path / name, tmp_path / f"{name}.aside"
        if name.endswith("csv"):
            pyarrow.csv.write_csv(table, aside)
        elif name.endswith("parquet"):
            pyarrow.parquet.write_table(table, aside, row_group_size=2_000)
        else:
            with pa.ipc.new_file(aside, table.schema) as file:
                file.write_table(table, max_chunksize=2_000)
        return aside.replace(path)

    return go


def read(session: fabric.Session, format: str, *paths: Path) -> DataFrame:
    frame: DataFrame = getattr(session, f"read_{format}")([str(path) for path in paths])
    return frame


def cut(path: Path, part: float) -> None:
    """Leave the first `part` of a file, less the last bytes; a CSV ends within the first column.

    (One that ends in its last column is a whole CSV file to everybody.)
    """
    data = path.read_bytes()
    end = int((len(data) - 8) * part)
    if path.suffix == ".csv" and end:
        end = data.rfind(b"\n", 0, end) + 2
    path.unlink()
    path.write_bytes(data[:end])


# ---- plans


PLANS: dict[str, tuple[Callable[[DataFrame], object], str]] = {
    "unknown column": (
        lambda df: df.filter(col("kk") > 1).named("big"),
        r'no column "kk".*did you mean "k".*write: \.filter\(col\("k"\) > 1\)',
    ),
    "unknown key": (lambda df: df.group_by("w").count(), r'no column "w".*aggregate_1'),
    "unknown join key": (lambda df: df.join(df, on="x"), r'left side: there is no column "x"'),
    "wrong type": (
        lambda df: df.select((col("k") + col("s")).alias("x")),
        r'\+ takes two numbers or two texts, got int64 .*col\("k"\)\.cast\("string"\).*select_1',
    ),
    "wrong type of a filter": (
        lambda df: df.filter(col("k")),
        r'must be true or false, got int64; write: \.filter\(col\("k"\) != 0\)',
    ),
    "wrong type of an aggregate": (
        lambda df: df.group_by("k").agg(fabric.sum("s")),
        r"sum takes numbers, got string",
    ),
    "duplicate name": (
        lambda df: df.select("k", col("v").alias("k")),
        r'two columns would be called "k"; write: .*\.alias\("k_2"\)',
    ),
    "overwritten column": (
        lambda df: df.with_columns((col("k") + 1).alias("k")),
        r'would overwrite "k".*replace=True.*with_columns_1',
    ),
    "union of other columns": (
        lambda df: df.union(df.select("k")),
        r'input 1 has 3, input 2 has 1; it lacks "v", "s" \(node union_1\)',
    ),
    "unknown path": (lambda df: df.configure("nowhere", parallelism=2), r'no step "nowhere"'),
}


@pytest.mark.parametrize("case", PLANS)
def test_a_wrong_plan_is_told_before_it_starts(case: str, told: Told) -> None:
    build, text = PLANS[case]
    with pytest.raises(PlanError, match=text) as caught:
        build(DataFrame(TABLE))
    told(caught.value)


def test_a_client_that_checks_nothing_is_told_the_same(two: LocalFabric, told: Told) -> None:
    scan = DataFrame({"k": [1]}).plan.root
    request = pb.SubmitRequest(plan=encode(Plan(Filter(scan, Column("kk")))))
    with pytest.raises(PlanError, match=r'no column "kk".*did you mean "k"') as caught:
        two.control.submit(request)
    told(caught.value, "filter_1")


def test_a_value_that_breaks_names_the_step(place: fabric.Session, told: Told) -> None:
    df = place.read_arrow(TABLE).select((6 / (col("v") - 6)).alias("x")).named("ratio")
    with pytest.raises(ExpressionError, match="division by zero") as caught:
        df.collect()
    told(caught.value, "ratio", "job-", "agent-")


# ---- files


def test_a_missing_file(place: fabric.Session, format: str, tmp_path: Path, told: Told) -> None:
    with pytest.raises(NotFoundError, match="no file") as caught:
        read(place, format, tmp_path / f"gone.{ENDINGS[format]}")
    told(caught.value, str(tmp_path / "gone"))


def test_a_file_that_went_after_planning(
    place: fabric.Session, format: str, write: Write, told: Told
) -> None:
    path = write(f"x.{ENDINGS[format]}", TABLE)
    df = read(place, format, path)
    path.unlink()
    with pytest.raises(NotFoundError, match="moved or deleted") as caught:
        df.collect()
    told(caught.value, str(path), "scan_1")


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_truncated_file(
    place: fabric.Session, format: str, part: float, write: Write, told: Told
) -> None:
    path = write(f"x.{ENDINGS[format]}", TABLE)
    df = read(place, format, path)
    cut(path, part)
    for action in (lambda: read(place, format, path).collect(), df.collect):
        with pytest.raises(DataError, match=r"is not a whole|has been cut") as caught:
            action()
        told(caught.value, str(path))
    told(caught.value, str(path), "scan_1")


def test_a_file_truncated_while_its_job_waits(
    two: LocalFabric, format: str, write: Write, told: Told
) -> None:
    path = write(f"x.{ENDINGS[format]}", TABLE)
    n_slots = sum(agent.slots for agent in two.attached())
    with fabric.connect(f"fabric://{two.address}", token=two.token) as session, Gate() as gate:
        session.configure(adaptive=False)  # its partitions are tiny, and one task would do
        spread = session.read_arrow(TABLE).exchange("k", n_partitions=n_slots)
        full = Sink(spread.filter(col("k") >= 0).plan.root, gate.target)
        with session.submit(Plan(full), parallelism=n_slots) as waiting:
            while waiting.status.stages[-1].running < n_slots:
                time.sleep(0.05)  # until every slot has a task that waits at the gate
            job = read(session, format, path).submit()
            cut(path, 0.5)
            gate.open()
            with pytest.raises(DataError) as caught:
                job.wait()
    told(caught.value, str(path), "scan_1", "agent-")


def test_a_damaged_file(place: fabric.Session, format: str, write: Write, told: Told) -> None:
    path = write(f"x.{ENDINGS[format]}", TABLE)
    data = bytearray(path.read_bytes())
    for i in range(300, len(data) - 3_000, 100):
        data[i] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"is not a whole .* file") as caught:
        read(place, format, path).collect()
    told(caught.value, str(path))
    assert caught.value.message.isprintable()


def test_files_that_differ(place: fabric.Session, format: str, write: Write, told: Told) -> None:
    first = write(f"first.{ENDINGS[format]}", TABLE)
    for name, table, text in (
        ("fewer", TABLE.select(["k", "v"]), "no column 's'"),
        ("other", TABLE.set_column(1, "v", TABLE["s"]), "'v' is string, expected int64"),
    ):
        second = write(f"{name}.{ENDINGS[format]}", table)
        with pytest.raises(DataError, match=text) as caught:
            read(place, format, first, second)
        told(caught.value, str(first), str(second))


def test_a_file_with_other_columns_than_planned(
    place: fabric.Session, format: str, write: Write, told: Told
) -> None:
    path = write(f"x.{ENDINGS[format]}", TABLE)
    df = read(place, format, path)
    write(path.name, TABLE.select(["k", "s"]))
    with pytest.raises(DataError, match="'v'") as caught:
        df.collect()
    told(caught.value, str(path), "scan_1")


# ---- output


def failing(session: fabric.Session) -> DataFrame:
    """Every task writes rows for a while; the last rows break one of them."""
    last = TABLE.num_rows - 1
    df = session.read_arrow(TABLE).exchange("k", n_partitions=4)
    return df.select("k", "s", (col("k") // (col("k") - last)).alias("x")).named("breaks")


@pytest.mark.parametrize("to", ["parts", "one"])
def test_a_failed_write_leaves_nothing(
    place: fabric.Session, format: str, to: str, tmp_path: Path, told: Told
) -> None:
    name = "out" if to == "parts" else f"out.{ENDINGS[format]}"
    with pytest.raises(ExpressionError, match="division by zero") as caught:
        getattr(failing(place), f"write_{format}")(tmp_path / name)
    assert list(tmp_path.iterdir()) == []  # at once: the job ends when its tasks have ended
    told(caught.value, "agent-")


def test_a_cancelled_write_leaves_nothing(place: fabric.Session, tmp_path: Path) -> None:
    many = place.read_arrow(TABLE)
    for _ in range(7):
        many = many.union(many)
    job = many.write_csv(tmp_path / "out", wait=False)
    while not list(tmp_path.iterdir()):
        assert job.state in ("queued", "running")
    assert job.cancel().state == "cancelled"
    assert list(tmp_path.iterdir()) == []


def test_a_failed_overwrite_keeps_what_was_there(place: fabric.Session, tmp_path: Path) -> None:
    place.read_arrow(TABLE).write_parquet(tmp_path / "out")
    with pytest.raises(ExpressionError):
        failing(place).write_parquet(tmp_path / "out", mode="overwrite")
    assert checksum(place.read_parquet(str(tmp_path / "out")).collect()) == checksum(TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_there_is_not_overwritten_unasked(
    place: fabric.Session, tmp_path: Path, told: Told
) -> None:
    place.read_arrow(TABLE).write_csv(tmp_path / "x.csv")
    with pytest.raises(PlanError, match='exists already; write with mode="overwrite"') as caught:
        place.read_arrow(TABLE).write_csv(tmp_path / "x.csv")
    told(caught.value, str(tmp_path / "x.csv"))


# ---- full disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB; tests and CI run as root."""
    with mounted(tmp_path / "small", "size=1m") as path:
        yield path


def noise(session: fabric.Session, n_rows: int = 200_000) -> DataFrame:
    """More than a small disk holds, however it is compressed."""
    import numpy

    words = numpy.random.default_rng(seed=1).integers(0, 1 << 62, n_rows)
    return session.read_arrow(pa.table({"n": words})).exchange(n_partitions=2)


@pytest.mark.parametrize("to", ["parts", "one"])
def test_a_full_disk(
    place: fabric.Session, format: str, to: str, small_disk: Path, told: Told
) -> None:
    path = small_disk / ("out" if to == "parts" else f"out.{ENDINGS[format]}")
    with pytest.raises(StorageError, match=r"the disk is full.*make room") as caught:
        getattr(noise(place), f"write_{format}")(path)
    assert list(small_disk.iterdir()) == []
    told(caught.value, str(path), "agent-")
    getattr(place.read_arrow(TABLE[:10]), f"write_{format}")(path)  # there is room for less


def test_full_disks_of_agents(tmp_path: Path, told: Told) -> None:
    """A dataset that does not fit is not there, and what was there stays."""
    running = LocalFabric(tmp_path / "home", 2)
    with mounted(tmp_path / "home" / "agents", "size=2m") as disk:
        try:
            running.start(2)
            with fabric.connect(f"fabric://{running.address}", token=running.token) as session:
                few = DataFrame({"n": [1, 2, 3]})
                few.write_dataset("kept", keys="n")
                before = files(disk)
                with pytest.raises(StorageError, match=r"disk is full|No space left") as caught:
                    session.read_parquet(str(numbers(tmp_path))).write_dataset("big", keys="n")
                told(caught.value, "agent-", "big")
                assert str(disk) not in str(caught.value)
                assert [d for d in session.datasets() if not d.startswith("upload-")] == ["kept"]
                assert files(disk) == before
                assert session.read_dataset("kept").count() == 3
                few.write_dataset("big", keys="n")
        finally:
            running.stop()


def numbers(folder: Path) -> Path:
    import numpy

    path = folder / "numbers.parquet"
    words = numpy.random.default_rng(seed=1).integers(0, 1 << 62, 1_000_000)
    pyarrow.parquet.write_table(pa.table({"n": words}), path)
    return path


def files(folder: Path) -> list[Path]:
    return [path for path in files_in(folder) if path.name != "log"]
