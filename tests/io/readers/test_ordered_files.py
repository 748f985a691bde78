"""Files that are replayed: whole and in order, side by side, from wherever they were left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.errors import DataError
from fabric.io.readers import enumerate_stream, open_reader, stream_schema
from fabric.io.readers.protocol import END, IDLE, Polled
from fabric.io.readers.reader import StreamReader
from fabric.plan.sources import FileSource, ReplayStream
from fabric.testing.clock import ManualClock

N_ROWS, N_FILES = 100_000, 3
"""More than are looked at in one go."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Numbers of one file each, in order: 0, 3, 6 …; 1, 4, 7 …; 2, 5, 8 …"""
    folder = tmp_path_factory.mktemp("replayed")
    for file in range(N_FILES):
        write(folder / f"{file}.arrow", np.arange(N_ROWS) * N_FILES + file)
    return tuple(str(path) for path in sorted(folder.glob("*.arrow")))


def write(path: Path, numbers: np.ndarray) -> None:
    table = pa.table({"n": numbers})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=70_000)


def opened(paths: tuple[str, ...], positions: dict[str, bytes]) -> StreamReader:
    source = ReplayStream(FileSource("ipc", paths), "n", by_file=True)
    reader = open_reader(source, stream_schema(source), ManualClock())
    reader.open(enumerate_stream(source))
    reader.seek(positions)
    return reader


def drain(reader: StreamReader) -> None:
    while reader.poll(10_000, 0.0) is not END:
        pass


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows_max=st.lists(st.integers(1, 90_000), min_size=1, max_size=5),
    stops=st.frozensets(st.integers(1, 12), max_size=4),
)
def test_rows_come_once_in_order_whatever_is_asked_for(
    paths: tuple[str, ...], rows_max: list[int], stops: frozenset[int]
) -> None:
    found: dict[str, list[np.ndarray]] = {}
    reader = opened(paths, {})
    # Small portions would take thousands of polls: most are large.
    asked = [max(n, 5_000) if i else n for i, n in enumerate(rows_max)]
    n_polls = 0
    while (answer := reader.poll(asked[min(n_polls, len(asked) - 1)], 0.0)) is not END:
        assert answer is not IDLE
        n_polls += 1
        if isinstance(answer, Polled):
            found.setdefault(answer.split, []).append(answer.batch.column("n").to_numpy())
        if n_polls in stops:
            positions = reader.positions()
            reader.close()
            reader = opened(paths, positions)
    reader.close()
    rows = [np.concatenate(parts) for parts in found.values()]
    assert len(rows) == N_FILES
    for numbers in rows:
        assert np.array_equal(numbers, np.arange(N_ROWS) * N_FILES + numbers[0])


def test_files_stay_side_by_side(paths: tuple[str, ...]) -> None:
    """None is more than a batch ahead of the others."""
    reader = opened(paths, {})
    reached = dict.fromkeys(range(N_FILES), 0)
    while isinstance(answer := reader.poll(1 << 16, 0.0), Polled) and answer.batch.num_rows:
        last = int(answer.batch.column("n")[-1].as_py())
        reached[last % N_FILES] = last
        assert max(reached.values()) - min(reached.values()) <= 2 * N_FILES << 15
    reader.close()


@pytest.mark.parametrize("wrong", [1, 65_535, 65_536, 65_537, 70_000, N_ROWS - 1])
def test_a_row_out_of_order_is_named_wherever_it_is(tmp_path: Path, wrong: int) -> None:
    numbers = np.arange(N_ROWS)
    numbers[wrong] = -1
    write(tmp_path / "t.arrow", numbers)
    reader = opened((str(tmp_path / "t.arrow"),), {})
    with pytest.raises(DataError, match=rf"not in order: row {wrong} has a smaller 'n'"):
        drain(reader)
    reader.close()
