"""Hot partitions are read by several tasks, tiny ones by one.

    partition   0 ████████████  1 █  2 ▏  3 ▏
    tasks       0a ████  0b ████  0c ████  1 █  2+3 ▏

One job: both, since what is left beside the hot ones is what may be put together. A hot partition
of one input is split by its producers, each part read where it was written if they are alone there;
the same partition of the other inputs is read by all parts. Only neighbours are put together, so
ranges of a sort stay in order.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from statistics import median_low

from fabric.config import AdaptiveConfig
from fabric.coordinator.planner.adaptive.distribution import Cut, dealing
from fabric.coordinator.planner.adaptive.sizes import Inputs
from fabric.coordinator.planner.adaptive.tasks import TaskReads, Tasks, even, mib, whole
from fabric.coordinator.planner.stages import Edge, Read, Stage, StageGraph

_TOLD_MAX = 8
"""Splits that are told one by one."""


@dataclass(frozen=True, slots=True)
class _Split:
    """One hot partition: producers by part."""

    edge: Edge
    partition: int
    parts: list[tuple[int, int]]
    why: str


def split_and_coalesce(
    graph: StageGraph, stage: Stage, inputs: Inputs, settings: AdaptiveConfig, n_slots: int
) -> Tasks | None:
    """Tasks of about even size; None when those that were planned are."""
    splits, cut = _splits(graph, stage, inputs, settings)
    weights = inputs.tasks()
    wanted = max(settings.tiny_bytes, min(settings.target_bytes, sum(weights) // max(1, n_slots)))
    ranges = _neighbours(weights, splits.keys(), wanted)
    n_merged = len(weights) - len(ranges)
    if not splits and not n_merged:
        return None
    tasks: list[TaskReads] = []
    for begin, end in ranges:
        split = splits.get(begin)
        tasks += [whole(inputs.edges, begin, end)] if split is None else _parts(inputs, split)
    why = [split.why for split in splits.values()][:_TOLD_MAX]
    if len(splits) > _TOLD_MAX:
        why.append(f"{len(splits) - _TOLD_MAX} more partitions are split")
    if n_merged:
        why.append(
            f"{len(weights)} partitions ({mib(sum(weights))}) coalesced for {len(tasks)} tasks: "
            f"those of up to {mib(wanted)} together are read by one"
        )
    return Tasks(tuple(tasks), tuple(why), cut)


def _neighbours(
    weights: Sequence[int], alone: Container[int], wanted: int
) -> list[tuple[int, int]]:
    """Ranges of partitions with up to `wanted` bytes; those `alone` are not put with others."""
    ranges: list[tuple[int, int]] = []
    room = -1
    for partition, weight in enumerate(weights):
        if partition not in alone and (weight <= room or room == wanted):
            ranges[-1] = (ranges[-1][0], partition + 1)
            room = max(0, room - weight)
        else:
            ranges.append((partition, partition + 1))
            room = -1 if partition in alone else max(0, wanted - weight)
    return ranges


def _splits(
    graph: StageGraph, stage: Stage, inputs: Inputs, settings: AdaptiveConfig
) -> tuple[dict[int, _Split], Cut | None]:
    """By partition: how it is split; and where the stage must be cut for it."""
    hot = {edge.edge: _hot(inputs.partitions(edge), settings) for edge in inputs.edges}
    ways = {edge.edge: dealing(graph, stage, edge.edge) for edge in inputs.edges if hot[edge.edge]}
    found: dict[int, _Split] = {}
    cut: Cut | None = None
    for partition in sorted({p for each in hot.values() for p in each}):
        able = [e for e in inputs.edges if ways.get(e.edge) and partition in hot[e.edge]]
        if not able:
            continue
        edge = max(able, key=lambda e: inputs.partitions(e)[partition])
        split = _split(inputs, edge, partition, settings)
        way = ways[edge.edge]
        if split is not None and way is not None:
            found[partition] = split
            cut = way.cut or cut
    return found, cut


def _hot(sizes: list[int], settings: AdaptiveConfig) -> list[int]:
    """Partitions that are large, and many times as large as the others."""
    found = []
    for partition, size in enumerate(sizes):
        others = sizes[:partition] + sizes[partition + 1 :]
        usual = median_low(others) if others else size
        if size > settings.target_bytes and size > settings.skew_factor * usual:
            found.append(partition)
    return found


def _split(inputs: Inputs, edge: Edge, partition: int, settings: AdaptiveConfig) -> _Split | None:
    by_producer = [sizes[partition] for sizes in inputs.sizes[edge.edge]]
    n_bytes = sum(by_producer)
    others = [other for other in inputs.edges if other is not edge]
    copied = sum(inputs.partitions(other)[partition] for other in others)
    n = -(-n_bytes // settings.target_bytes)
    if copied:  # every part reads it
        n = min(n, 1 + int(settings.skew_factor * n_bytes // copied))
    parts = even(by_producer, min(n, len(by_producer)))
    if len(parts) < 2:
        return None
    sizes = inputs.partitions(edge)
    usual = median_low(sizes[:partition] + sizes[partition + 1 :])
    why = (
        f"partition {partition} of {edge.path} is hot ({mib(n_bytes)}, others {mib(usual)}): "
        f"split in {len(parts)}"
    )
    if others:
        names = ", ".join(other.path for other in others)
        why += f"; each part reads partition {partition} of {names} ({mib(copied)})"
    return _Split(edge, partition, parts, why)


def _parts(inputs: Inputs, split: _Split) -> list[TaskReads]:
    begin, end = split.partition, split.partition + 1
    same, number = whole(inputs.edges, begin, end), split.edge.edge
    return [same | {number: Read((begin, end), part)} for part in split.parts]
