"""The sink that keeps nothing: rows are made and counted, and there is nothing to publish."""

from __future__ import annotations

import pytest

import fabric
from fabric import streams
from fabric.errors import PlanError
from fabric.io.sinks import publish
from fabric.io.streams.sinks.blackhole import Blackhole


def test_rows_are_counted_and_dropped() -> None:
    job = streams.generator(n_rows=1_000).write_stream(streams.to_blackhole())
    job.wait(timeout_s=60)
    assert (job.rows, job.name) == (1_000, "write stream nowhere")


def test_its_handle_publishes_nothing() -> None:
    sink = Blackhole()
    publish([sink.prepare(1), sink.prepare(2)])


def test_rows_with_an_end_have_no_use_for_it() -> None:
    with pytest.raises(PlanError, match="to_blackhole is for streams"):
        fabric.from_dict({"a": [1]}).write_stream(streams.to_blackhole())
