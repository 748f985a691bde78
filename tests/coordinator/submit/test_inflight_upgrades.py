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
        "counts/exchange: refused: the checkpoint was not aligned and has rows in flight there, "
        "which only the program that it was can go on with; run that, stop it, and start this one "
        "then"
    ]
    aligned = replace(MANIFEST, tasks=())
    assert not upgrade(aligned, (replace(NODE, text="filter(a > 2)"),), {}).is_refused
