"""Splits that two agents read stay together in event time, though one is read much faster."""

from __future__ import annotations

from pathlib import Path
from threading import Condition
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.agent.stream_tasks import setup
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.event_time.source import SourceWatermarks
from fabric.operators.streams import watermark
from fabric.plan.nodes import StreamScan, Watermark
from fabric.plan.sources import FileSource, ReplayStream
from tests.support import running
from tests.support.embedded import embedded_pair

START_US = 1_700_000_000_000_000
N_ROWS, ROWS_A_POLL = 800, 20
STEP_US = {"slow": 60_000_000, "fast": 3_600_000_000}
DRIFT_US = 5 * 3_600_000_000


class Race:
    """What both tasks know; the slow one goes on only while the fast one waits for it."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.fast_waits = self.fast_heard = False
        self.slow_us = START_US
        self.ahead_us: list[int] = []
        """How far the fast one was ahead, after each of its batches before the slow one's end."""


def watched(race: Race) -> type[SourceWatermarks]:
    class Watched(SourceWatermarks):
        def held_back(self) -> frozenset[str]:
            moving = {s for s, time in self._times.items() if time not in (BEGINNING, END_OF_TIME)}
            if not race.fast_heard:  # both have read a little, and wait for word of the other
                race.fast_heard = self.slowest_elsewhere_us != END_OF_TIME and any(
                    "fast" in s for s in moving
                )
                return frozenset(moving)
            held = super().held_back()
            with race.changed:
                race.fast_waits = race.fast_waits or any("fast" in split for split in held)
                race.changed.notify_all()
            return held

        def row_watermarks(self, split: str, *args: Any) -> Any:
            found = super().row_watermarks(split, *args)
            if "fast" in split:
                race.ahead_us.append(self.watermark - race.slow_us)
                return found
            race.slow_us = self.watermark
            with race.changed:
                if race.fast_heard:
                    assert race.changed.wait_for(lambda: race.fast_waits, 60)
                race.fast_waits = False
            return found

        def on_end(self, split: str) -> None:
            super().on_end(split)
            if "slow" in split:
                race.slow_us = END_OF_TIME

    return Watched


def test_a_split_that_is_far_ahead_waits_for_one_of_another_agent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    race = Race()
    monkeypatch.setattr(setup, "ROWS_MAX", ROWS_A_POLL)
    monkeypatch.setattr(watermark, "SourceWatermarks", watched(race))
    for name, step in STEP_US.items():
        times = pa.array(START_US + step * np.arange(N_ROWS), pa.timestamp("us"))
        pq.write_table(pa.table({"name": [name] * N_ROWS, "ts": times}), tmp_path / f"{name}.pq")
    paths = tuple(str(tmp_path / f"{name}.pq") for name in STEP_US)
    source = ReplayStream(FileSource("parquet", paths), "ts", by_file=True)
    schema = pa.schema([("name", pa.string()), ("ts", pa.timestamp("us"))])
    rows = Watermark(StreamScan(source, schema), "ts", bound_us=0, drift_us=DRIFT_US)
    with embedded_pair(2) as fabric:
        job = fabric.submit(rows, parallelism=2)
        fabric.wait(job)
        found = running.result(fabric.control, fabric.transport, job)
    assert found.num_rows == 2 * N_ROWS
    batch_us = ROWS_A_POLL * STEP_US["fast"]
    assert len(race.ahead_us) == N_ROWS // ROWS_A_POLL
    assert STEP_US["fast"] < max(race.ahead_us) <= DRIFT_US + batch_us
