"""Streams are refused by name before Spark is asked for anything."""

from __future__ import annotations

import pytest

from fabric import streams
from fabric.clients.spark.plan.explain import refuse, refused
from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.nodes import Plan, Sink
from fabric.plan.targets import StreamFileTarget


def test_a_stream_is_refused_with_the_way_out() -> None:
    rows = streams.nexmark("bid", n_events=10).with_watermark("dateTime")
    counts = rows.group_by("auction").window("1 second").count()
    for node in (counts.plan.root, Sink(counts.plan.root, StreamFileTarget("parquet", "/x"))):
        root = check(Plan(node)).root
        with pytest.raises(
            PlanError, match=r'streams\.nexmark.* is a stream.* leave engine="spark"'
        ) as e:
            refuse(root)
        assert e.value.where.node == "stream_scan_1"
    assert len(list(refused(check(counts.plan).root))) == 1


def test_the_engine_is_asked_before_a_session_starts() -> None:
    with pytest.raises(PlanError, match="streams run on Fabric alone"):
        streams.generator(n_rows=3).collect(engine="spark")
