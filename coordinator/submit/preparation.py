"""A submitted plan made ready to run.

`prepare` decodes and checks it, asks the sources for their splits and facts, optimises, cuts it
into stages and encodes those. A submitted plan is not trusted before it was decoded and checked.
Reading file footers is the only I/O, and it happens here, before the pure optimizer and planner are
called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from fabric.cancellation import check_wanted
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.optimizer.cardinality import Cardinality
from fabric.coordinator.optimizer.optimizer import optimize
from fabric.coordinator.optimizer.trace import Fired, effects_text
from fabric.coordinator.planner.draft import MAX_PARALLELISM
from fabric.coordinator.planner.planner import plan_stages
from fabric.coordinator.planner.stages import Stage, StageGraph, graph_text
from fabric.coordinator.planner.states import state_lines
from fabric.coordinator.submit.constants import constant_value
from fabric.coordinator.submit.facts import needed, source_facts
from fabric.coordinator.submit.guard import check_allowed
from fabric.coordinator.submit.splits import Surroundings, plan_splits, refuse_views
from fabric.coordinator.submit.targets import check_sinks
from fabric.coordinator.submit.upgrades import Upgrade
from fabric.errors import ConfigError, PlanError
from fabric.lru_cache import LruCache
from fabric.operators.functions.trust import signed
from fabric.plan.check import check
from fabric.plan.codec import decode, encode
from fabric.plan.nodes import Plan, Scan, StreamScan
from fabric.plan.printer import tree
from fabric.plan.schema import schema_of
from fabric.plan.sources import Split
from fabric.plan.statistics import SourceFacts
from fabric.plan.svg import svg
from fabric.plan.walk import walk
from fabric.security.tokens import Signer
from fabric.state.column_stores import check_engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan in all its forms."""

    plan: Plan
    optimised: Plan
    graph: StageGraph
    schema: pa.Schema
    fired: tuple[Fired, ...]
    parallelism: int
    encoded: list[tuple[bytes, ...]] = field(default_factory=list, compare=False, repr=False)

    def fragments(self) -> tuple[bytes, ...]:
        """The stages as they travel."""
        if not self.encoded:
            self.encoded.append(tuple(map(_encoded, self.graph.stages)))
        return self.encoded[0]

    def explain(
        self, checkpoint: CheckpointConfig, upgrade: Upgrade | None = None
    ) -> pb.ExplainReply:
        """The plan as a person reads it; where its state lies is what `checkpoint` says.

        `upgrade` is what becomes of the state that a stream goes on with.
        """
        return pb.ExplainReply(
            plan=tree(self.plan.root),
            rules=effects_text(self.fired),
            rules_verbose=effects_text(self.fired, verbose=True),
            optimised=tree(self.optimised.root),
            stages=graph_text(self.graph, partial(state_lines, self.graph, config=checkpoint)),
            svg=svg(self.optimised.root),
            changes=[] if upgrade is None else map(str, upgrade.changes),
            refused=upgrade is not None and upgrade.is_refused,
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """A plan as it was prepared before, and all that it was prepared by besides its bytes."""

    prepared: Prepared
    facts: Mapping[str, SourceFacts]
    read: Mapping[str, Sequence[Split]]
    parallelism: int
    broadcast_bytes: int


def _encoded(stage: Stage) -> bytes:
    check_wanted()
    return encode(Plan(stage.root))


_RECENT: LruCache[_Known] = LruCache(64)
_REMEMBERED_MAX = 10_000
"""Columns and splits of a plan that is remembered, counted at every node."""


def prepare(
    request: pb.SubmitRequest,
    around: Surroundings,
    plan_bytes_max: int,
    signer: Signer | None = None,
) -> Prepared:
    """Make a submitted plan ready; raises a `FabricError` that names the node that is wrong.

    Whoever got here may submit: the functions of the plan are signed, so that agents load them.
    """
    if len(request.plan) > plan_bytes_max:
        raise PlanError(
            f"the plan takes {len(request.plan)} bytes, at most {plan_bytes_max} are allowed; "
            "read large constants from a file or dataset instead"
        )
    if request.parallelism > MAX_PARALLELISM:
        raise ConfigError(f"parallelism must be 1 to {MAX_PARALLELISM}, got {request.parallelism}")
    known = _RECENT.get(request.plan)
    given = check(decode(request.plan)) if known is None else known.prepared.plan
    check_allowed(given)
    _check_engines(given)
    plan = _signed(given, signer)
    known = known if plan is given else None  # signatures are for whoever asks now
    check_sinks(plan, around)
    parallelism = request.parallelism or around.parallelism
    refuse_views(plan, around)
    splits = plan_splits(plan, around, parallelism)
    facts = source_facts(plan.root, splits, around.datasets)
    if known is not None and known.facts == facts:
        optimised, fired = known.prepared.optimised, known.prepared.fired
    else:
        known = None
        optimised, fired = _optimised(plan, facts)
    read = _read(optimised, splits)
    asked = (read, parallelism, around.broadcast_bytes)
    if known is not None and (known.read, known.parallelism, known.broadcast_bytes) == asked:
        return known.prepared
    prepared = Prepared(
        plan=plan,
        optimised=optimised,
        graph=plan_stages(
            optimised,
            read,
            parallelism,
            result_path=plan.root.path,
            likely_rows=Cardinality(facts).rows,
            broadcast_bytes=around.broadcast_bytes,
        ),
        schema=schema_of(plan.root),
        fired=fired,
        parallelism=parallelism,
    )
    if plan is given and _is_small(plan, read):
        _RECENT.keep(request.plan, _Known(prepared, facts, *asked))
    return prepared


def _check_engines(plan: Plan) -> None:
    """Refuse a step's state that needs a package which is not installed."""
    for path, settings in plan.config:
        try:
            check_engine(settings.state or "memory")
        except ConfigError as error:
            raise error.at(node=path) from None


def _is_small(plan: Plan, read: Mapping[str, Sequence[Split]]) -> bool:
    """Whether it costs little memory to remember what came of a plan."""
    n_columns = sum(len(schema_of(node)) for node in walk(plan.root))
    return n_columns + sum(map(len, read.values())) <= _REMEMBERED_MAX


def _read(plan: Plan, splits: Mapping[str, Sequence[Split]]) -> dict[str, Sequence[Split]]:
    """The splits of every scan that must be read."""
    return {
        node.path: needed(node, splits[node.path]) if isinstance(node, Scan) else splits[node.path]
        for node in walk(plan.root)
        if isinstance(node, Scan | StreamScan)
    }


def _optimised(plan: Plan, facts: Mapping[str, SourceFacts]) -> tuple[Plan, tuple[Fired, ...]]:
    fired: list[Fired] = []
    found = optimize(plan, facts, evaluate=constant_value, fired=fired)
    return found, tuple(fired)


def _signed(plan: Plan, signer: Signer | None) -> Plan:
    root = plan.root if signer is None else signed(plan.root, signer)
    return plan if root is plan.root else Plan(root, plan.config)
