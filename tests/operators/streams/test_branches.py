"""Branches in one chain: each with rows, rows aside and event time of its own, one snapshot."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.operators.chain import Chain, build_chain
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.nodes import Branches, Filter, StreamScan, Watermark
from fabric.plan.schema import sides_at
from fabric.plan.sources import GeneratorStream
from fabric.testing.operators import Kept

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])
SCAN = StreamScan(GeneratorStream(), SCHEMA, scan_id=0, path="scan")
EDGE = -1
SOON = Watermark(SCAN, "at", bound_us=10, rows=True, path="soon")
LATER = Watermark(
    Filter(SCAN, Call("lt", (Column("id"), Literal(5, pa.int64()))), path="few"),
    "at", bound_us=100, idle_us=1_000, on_bad="side", path="later",
)  # fmt: skip
ROOT = Branches((SOON, LATER, SCAN), path="scan/branches")
SPLITS = ("a", "b")


def made(root: Branches = ROOT) -> Chain:
    return build_chain(root, splits={EDGE: SPLITS})


def sent(chain: Chain, split: str, *rows: tuple[int, int | None]) -> dict[str, list[int]]:
    """The ids that left the chain, by side."""
    chain.on_split(EDGE, split)
    ids, times = zip(*rows, strict=True)
    batch = pa.record_batch([pa.array(ids, pa.int64()), pa.array(times, pa.int64())], ["id", "at"])
    assert chain.on_batch(EDGE, batch.cast(SCHEMA)) == []
    found = chain.take_side()
    schemas = sides_at(ROOT)
    assert all(b.schema.equals(schemas[tag]) for tag, batches in found.items() for b in batches)
    return {
        tag: [n for batch in batches for n in batch["id"].to_pylist()]
        for tag, batches in found.items()
    }


def test_each_branch_has_its_own_rows_and_time() -> None:
    chain = made()
    chain.on_time(0)
    assert sent(chain, "a", (1, 500), (7, 900)) == {"0": [1, 7], "1": [1], "2": [1, 7]}
    assert chain.watermarks == {"0": BEGINNING, "1": BEGINNING, "2": BEGINNING}
    assert sent(chain, "b", (8, 700)) == {"0": [8], "2": [8]}
    assert chain.watermarks == {"0": 690, "1": BEGINNING, "2": BEGINNING}
    assert sent(chain, "b", (2, 800)) == {"0": [2], "1": [2], "2": [2]}
    assert chain.watermarks == {"0": 790, "1": 400, "2": BEGINNING}
    chain.on_split_end(EDGE, "a")
    assert chain.watermarks == {"0": 790, "1": 700, "2": BEGINNING}
    chain.on_split_end(EDGE, "b")
    chain.on_end(EDGE)
    assert set(chain.watermarks.values()) == {END_OF_TIME}
    assert chain.done


def test_only_the_branch_that_says_so_is_idle() -> None:
    chain = made()
    chain.on_time(0)
    sent(chain, "a", (1, 500))
    chain.on_time(2_000)
    sent(chain, "a", (1, 600))
    assert chain.watermarks == {"0": BEGINNING, "1": 500, "2": BEGINNING}
    chain.on_time(4_000_000)
    assert chain.watermarks == {"0": BEGINNING, "1": IDLE, "2": BEGINNING}


def test_rows_aside_are_those_of_their_branch() -> None:
    chain = made(replace(ROOT, inputs=(replace(SOON, on_bad="skip"), LATER, SCAN)))
    chain.on_time(0)
    found = sent(chain, "a", (1, None), (2, 20), (6, None))
    assert found == {"0": [2], "1": [2], "1/bad": [1], "2": [1, 2, 6]}
    assert chain.counts() == {"soon": {"bad_rows": 2}, "later": {"bad_rows": 1}}


def test_each_goes_on_where_it_was() -> None:
    chain = made()
    chain.on_time(0)
    sent(chain, "a", (1, 500), (7, 900))
    sent(chain, "b", (2, 800))
    snapshots = chain.on_barrier(3)
    kept = {path: Kept() for path in snapshots}
    for path, snapshot in snapshots.items():
        snapshot.write(kept[path])
    again = made()
    again.on_time(0)
    again.restore(lambda path: [kept[path]], range(5))
    for one in (chain, again):
        sent(one, "a", (3, 700))
        assert one.watermarks == {"0": 790, "1": 600, "2": BEGINNING}
