"""Tables of this process live as long as jobs read them, and no longer."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa

import fabric
from fabric.plan.nodes import Plan, Sink
from fabric.testing import Gate


def test_a_job_keeps_its_table_until_it_has_ended() -> None:
    with fabric.connect() as session, Gate() as gate:
        df = session.read_arrow(pa.table({"a": range(10)}))
        source = weakref.ref(df.plan.root.source)  # type: ignore[union-attr]
        job = session.submit(Plan(Sink(df.plan.root, gate.target)))
        del df
        gc.collect()
        assert source() is not None
        gate.open()
        assert job.wait().rows == 10
        gc.collect()
        assert source() is None
