"""Rows in flight are gone on with by the program that they are of, and by no other one."""

from __future__ import annotations

from dataclasses import replace

from fabric.checkpoint.manifest import FileRecord, Manifest, NodeRecord, TaskSnapshot
from fabric.coordinator.submit.upgrades import upgrade

NODE = NodeRecord("filter_1", "filter", "filter(a > 1)")
ROWS = TaskSnapshot("counts/exchange#inflight", 0, 1, range(8), (FileRecord("000000.arrow", 5, 1),))
MANIFEST = Manifest(
    job="j", checkpoint=3, epoch=1, run=0, wall_us=0, tasks=(ROWS,), nodes=(NODE,)
)  # fmt: skip


def test_the_same_program_goes_on_from_the_checkpoint_itself() -> None:
    found = upgrade(MANIFEST, (NODE,), {})
    assert (found.is_plain, found.is_refused, found.paths) == (True, False, {})


def test_a_program_that_has_changed_is_refused() -> None:
    found = upgrade(MANIFEST, (replace(NODE, text="filter(a > 2)"),), {})
    assert found.is_refused
    assert found.lines == [
        "counts/exchange: refused: the checkpoint is unaligned and has rows in flight there, "
        "and only the program that wrote it can restore them; run that program, stop it, then "
        "start this one"
    ]
    aligned = replace(MANIFEST, tasks=())
    assert not upgrade(aligned, (replace(NODE, text="filter(a > 2)"),), {}).is_refused


def test_a_state_that_is_dropped_with_rows_in_flight_is_refused() -> None:
    keyed = NodeRecord("counts", "top_n", "top_n(1)", keys=("key: int64",), schema="key: int64")
    manifest = replace(MANIFEST, nodes=(keyed,), tasks=(replace(ROWS, node="counts"), ROWS))
    assert upgrade(manifest, (keyed,), {}).is_plain
    assert upgrade(manifest, (keyed,), {}, drop=["counts"]).is_refused
