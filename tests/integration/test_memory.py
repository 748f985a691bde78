"""Agents with little memory: shuffles, sorts, joins and aggregates many times as large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import col
from fabric.clients.demo.checksum import checksum
from tests.support.files import files_in
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

N_ROWS, N_KEYS = 4_000_000, 400_000
DEADLINE_S = 240.0


Tight = tuple[LocalFabric, list[Path]]


@contextmanager
def agents_of(memory: str, factory: pytest.TempPathFactory) -> Iterator[Tight]:
    folders = [factory.mktemp("spill") for _ in range(2)]
    options = ["--memory", memory, *(part for path in folders for part in ("--spill", str(path)))]
    with local_fabric(2, options=options) as running:
        yield running, folders


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tight]:
    with agents_of("384MiB", tmp_path_factory) as found:
        yield found


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tight]:
    with agents_of("512MiB", tmp_path_factory) as found:
        yield found


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(7)
    for part in range(4):
        n = N_ROWS // 4
        table = pa.table({
            "k": rng.integers(0, N_KEYS, n),
            "v": rng.integers(0, 1000, n),
            "s": pa.array([f"a text of some length {i}" for i in range(100)]).take(
                pa.array(rng.integers(0, 100, n))
            ),
        })  # fmt: skip
        pq.write_table(table, path / f"{part}.parquet", row_group_size=1 << 17)
    return path


def files(folders: list[Path]) -> list[Path]:
    return [f for folder in folders for f in files_in(folder) if f.name != "lock"]


def open_session(running: LocalFabric) -> fabric.Session:
    return fabric.connect(f"fabric://{running.address}", token=running.token)


def test_rows_exchanged_and_sorted_beyond_memory(tight: Tight, rows: Path) -> None:
    running, folders = tight
    with open_session(running) as session:
        frame = session.read_parquet(str(rows / "*.parquet"))
        moved = frame.exchange("k").named("moved").sort("k", "v", "s")
        with session.submit(moved) as job:
            job.wait(DEADLINE_S)
            assert files(folders)
            found = job.collect()
        keys = found["k"].combine_chunks()
        assert pc.all(pc.less_equal(keys[:-1], keys[1:])).as_py()
        assert checksum(found) == checksum(pq.read_table(rows))
    wait_until(lambda: not files(folders), 60.0)


@pytest.mark.parametrize("n_files", [1, 3])
def test_an_agent_keeps_to_its_memory(tmp_path: Path, n_files: int) -> None:
    """Rows of 800 MB in one file and in three: no reader holds what is to come."""
    memory, n_rows, n_names = 384 << 20, 2_100_000 * 3 // n_files, n_files
    texts = pa.array([f"{number:0120}" for number in range(100)])
    first = tmp_path / "0.parquet"
    piece = pa.table({"k": np.arange(70_000), "s": texts.take(pa.array(np.arange(70_000) % 100))})
    with pq.ParquetWriter(first, piece.schema, compression="none", use_dictionary=False) as file:
        for _ in range(n_rows // len(piece)):
            file.write_table(piece)
    for number in range(1, n_names):
        (tmp_path / f"{number}.parquet").hardlink_to(first)
    options = ("--memory", str(memory), "--spill", str(tmp_path))
    with local_fabric(1, slots=2, options=options) as running, open_session(running) as session:
        moved = session.read_parquet(str(tmp_path / "*.parquet")).exchange("k")
        found = moved.agg(n=fabric.count(), chars=fabric.sum(col("s").str.len_chars())).collect()
        peak = peak_bytes(running.agents[0].process.pid)
    n = n_rows // len(piece) * len(piece) * n_names
    assert found.to_pylist() == [{"n": n, "chars": 120 * n}]
    assert peak <= 1.5 * memory


def test_a_join_and_an_aggregate_beyond_memory(tight: Tight, rows: Path) -> None:
    running, _ = tight
    whole = pq.read_table(rows)
    with open_session(running) as session:
        frame = session.read_parquet(str(rows / "*.parquet"))
        left = frame.exchange("k").named("left").with_columns(t=col("s"))
        sides = frame.select("k", w=col("v")).exchange("k").named("right").group_by("k").agg(
            n=fabric.count(), w=fabric.sum("w")
        )  # fmt: skip
        joined = left.join(sides, on="k").agg(
            rows=fabric.count(), w=fabric.sum("w"), n=fabric.sum("n")
        )
        found = joined.collect().to_pylist()
    groups = whole.group_by("k").aggregate([("v", "sum"), ([], "count_all")])
    n, w = groups["count_all"], groups["v_sum"]
    expected = {
        "rows": N_ROWS,
        "w": pc.sum(pc.multiply(n, w)).as_py(),
        "n": pc.sum(pc.multiply(n, n)).as_py(),
    }
    assert found == [expected]


def test_files_of_a_killed_agent_go_when_it_starts_again(tight: Tight, rows: Path) -> None:
    running, folders = tight
    with open_session(running) as session:
        moved = session.read_parquet(str(rows / "*.parquet")).exchange("k")
        jobs = [session.submit(moved).wait(DEADLINE_S) for _ in range(3)]
        of_agent = [f for f in files(folders) if running.agent_id(0) in str(f)]
        assert of_agent
        running.kill(0)
        assert all(f.exists() for f in of_agent)
        running.restart(0)
        assert not any(f.exists() for f in of_agent)
        with pytest.raises(fabric.FabricError):
            jobs[0].collect()
        for job in jobs:
            job.release()
    wait_until(lambda: not files(folders), 60.0)


@pytest.mark.parametrize("kind", ["hot", "zipf", "a row of 64 MB"])
def test_skewed_keys_within_memory(roomy: Tight, tmp_path: Path, kind: str) -> None:
    """Joined with names and grouped: hot partitions are split, and no agent leaves its memory."""
    running, _ = roomy
    n, rng = 3_000_000, np.random.default_rng(3)
    some = rng.integers(0, 50, n)
    drawn = {
        "hot": np.where(rng.random(n) < 0.9, 7, some),
        "zipf": np.minimum(rng.zipf(1.2, n), 10_000),
        "a row of 64 MB": np.where(rng.random(n) < 0.9, 7, some),
    }
    keys = drawn[kind].astype(np.int64)
    texts = pa.array([f"{number:0100}" for number in range(100)])
    for part in range(8):
        rows = slice(part * n // 8, (part + 1) * n // 8)
        text = texts.take(pa.array(np.arange(rows.start, rows.stop) % 100))
        if kind == "a row of 64 MB" and part == 3:
            text = pa.concat_arrays([text[:-1], pa.array(["x" * (64 << 20)])])
        table = pa.table({"k": keys[rows], "v": np.arange(rows.start, rows.stop), "s": text})
        pq.write_table(table, tmp_path / f"{part}.parquet", row_group_size=1 << 17)
    names = pa.table({"k": np.arange(10_001), "w": np.arange(10_001) * 3})
    with open_session(running) as session:
        session.configure(target_bytes=8 << 20, broadcast_bytes=0, skew_factor=2.0)
        left = session.read_parquet(str(tmp_path / "*.parquet")).named("left")
        joined = left.join(session.read_arrow(names), on="k", strategy="hash").named("joined")
        longest = fabric.max(col("s").str.len_chars())
        grouped = joined.group_by("k").agg(
            n=fabric.count(), v=fabric.sum("v"), w=fabric.max("w"), longest=longest
        )  # fmt: skip
        with session.submit(grouped) as job:
            found = job.wait(DEADLINE_S).collect().sort_by("k")
            plan = job.explain()
    groups = pa.table({"k": keys, "v": np.arange(n)}).group_by("k")
    expected = groups.aggregate([([], "count_all"), ("v", "sum")]).sort_by("k")
    assert found["k"].equals(expected["k"])
    assert found["n"].to_pylist() == expected["count_all"].to_pylist()
    assert found["v"].to_pylist() == expected["v_sum"].to_pylist()
    assert found["w"].to_pylist() == [3 * k for k in expected["k"].to_pylist()]
    assert pc.max(found["longest"]).as_py() == (64 << 20 if kind == "a row of 64 MB" else 100)
    assert "is hot (" in plan, plan
    for agent in running.agents:
        assert peak_bytes(agent.process.pid) <= 1.5 * (512 << 20)


def peak_bytes(pid: int) -> int:
    """The largest resident memory of a process so far."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
