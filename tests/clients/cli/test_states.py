"""``fabric state``: what a stream keeps, listed and shown by key, and refusals in plain words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fabric
from fabric import streams
from fabric.clients.cli.main import app
from tests.support.local import local_fabric
from tests.support.wait import wait_until


@pytest.mark.timeout(120)
def test_states_are_listed_and_shown(tmp_path: Path) -> None:
    with local_fabric(1) as one:
        (tmp_path / "token").write_text(one.token)
        place = ["--connect", f"fabric://{one.address}", "--token", str(tmp_path / "token")]

        def said(*words: str) -> str:
            done = CliRunner().invoke(app, ["state", *words, *place])
            return done.output + (str(done.exception) if done.exception else "")

        with fabric.connect(f"fabric://{one.address}", token=one.token) as session:
            session.checkpoints(interval_s=0.2, folder=tmp_path / "kept")
            rows = streams.generator(n_keys=5, rows_per_s=500, session=session)
            counted = rows.group_by("key").count().named("counts").changes()
            job = counted.write_stream(streams.to_blackhole(), parallelism=1)
            wait_until(job.states)
            wait_until(lambda: job.state("counts").get(3))  # the first checkpoint may lack it
            assert re.search(rf"{job.id}\s+counts\s+groups\s+\d+\s+key\s", said("list"))
            assert "counts" in said("list", job.id)
            assert "there is no job 'job-9'" in said("list", "job-9")
            shown = said("show", job.id, "counts", "--limit", "2")
            assert "the first 2 rows; --limit 0 shows all" in shown
            assert re.search(r"key\s+count", said("show", job.id, "counts"))
            assert len(re.findall(r"^\s*3\s+\d+", said("show", job.id, "counts", "--key", "3"),
                                  re.MULTILINE)) == 1  # fmt: skip
            assert "keys are key: int64" in said("show", job.id, "counts", "--key", "x")
            assert "steps with state: counts" in said("show", job.id, "nowhere")
            job.cancel()
