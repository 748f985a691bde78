"""A job's latency, shared out over the stages of its stream.

One job: `shares`, pure. A row that is gathered with others costs less, for a walk through a chain
takes as long for one row as for a thousand; the latency says how long it may be kept for that, on
its whole way.

    source ── L - m L/8 ──► exchange ── L/8 ──► stage ── exchange ── L/8 ──► sink
    deals out together      waits for the other producers' rows             hands on

Each of the `m` exchanges of the longest way through a stage has an eighth, all of them at most a
half: they need no more, for the sources of a host deal out at the same times, and what they sent is
behind an exchange within that. The rest is the source's: what comes together there is together all
the way behind it. Sinks hand on at once what they get, which has been gathered.

The latency of a stage is the least of the ways that lead through it: of its own steps and those
before and behind that have one of their own, and the job's where a way has no such step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fabric.coordinator.planner.stages import Edge, StageGraph

EXCHANGE_PART, EXCHANGES_PART = 1 / 8, 1 / 2
"""Of a latency: one exchange's, and all of theirs at most."""
EXCHANGE_MIN_S = 1e-3
"""An exchange with less gathers nothing: to go to sleep and wake would take as long. A source has
half of such a latency, for it is not only gathering that takes time then."""
_NEVER_US = 1 << 62


@dataclass(frozen=True, slots=True)
class Share:
    """How long tasks of a stage may keep rows until they are handed on together, in seconds."""

    source_s: float
    """Rows that the stage's sources have."""
    exchange_s: float
    """Rows that edges brought."""
    behind_s: float = 0.0
    """How long after its sources dealt out a stage has their rows, where none of them is late."""


@dataclass(frozen=True, slots=True)
class _Ways:
    """The ways that lead to a stage, or on from it."""

    n_exchanges: int = 0
    """Of the longest."""
    named_us: int = _NEVER_US
    """The least latency that a step on one of them has."""
    unnamed: bool = True
    """Whether there is one whose steps have none."""


def shares(graph: StageGraph, latency_us: int) -> tuple[Share, ...]:
    """What each stage of `graph` may gather, where the job's latency is `latency_us`."""
    own = {stage.stage: stage.latency_us for stage in graph.stages}
    order = list(own)
    inputs = {stage: _piped(edges) for stage, edges in graph.inputs.items()}
    outputs = {stage: _piped(edges) for stage, edges in graph.outputs.items()}
    before: dict[int, _Ways] = {}
    for stage in order:
        begins = bool(graph.stages[stage].splits)
        before[stage] = _ways((edge.producer for edge in inputs[stage]), before, own, begins)
    behind: dict[int, _Ways] = {}
    for stage in reversed(order):
        ends = len(outputs[stage]) < len(graph.outputs[stage])
        behind[stage] = _ways((edge.consumer for edge in outputs[stage]), behind, own, ends)
    return tuple(_share(before[stage], behind[stage], own[stage], latency_us) for stage in order)


def _piped(edges: Iterable[Edge]) -> list[Edge]:
    return [edge for edge in edges if edge.mode == "pipelined" and not edge.is_result]


def _ways(
    neighbours: Iterable[int],
    known: Mapping[int, _Ways],
    own: Mapping[int, int | None],
    is_end: bool,
) -> _Ways:
    """Those of a stage, by those of its neighbours; `is_end`: some begin or end in it."""
    found = [(known[one], own[one]) for one in neighbours]
    if not found:
        return _Ways()
    return _Ways(
        n_exchanges=1 + max(ways.n_exchanges for ways, _ in found),
        named_us=min(min(ways.named_us, _us(named)) for ways, named in found),
        unnamed=is_end or any(ways.unnamed and named is None for ways, named in found),
    )


def _share(before: _Ways, behind: _Ways, own: int | None, latency_us: int) -> Share:
    least_us = min(before.named_us, behind.named_us, _us(own))
    if own is None and before.unnamed and behind.unnamed:
        least_us = min(least_us, latency_us)
    whole_s, n = least_us / 1e6, before.n_exchanges + behind.n_exchanges
    each_s = whole_s * min(EXCHANGE_PART, EXCHANGES_PART / max(1, n))
    if each_s < EXCHANGE_MIN_S:
        return Share(whole_s / 2, 0.0)
    return Share(whole_s - n * each_s, each_s, before.n_exchanges * each_s)


def _us(named: int | None) -> int:
    return _NEVER_US if named is None else named
