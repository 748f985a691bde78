"""The check of a plan: everything that can be known to be wrong before a plan runs.

`check` returns a user's plan complete: a path on every node, all types known, inputs of a union
cast to one type. A mistake is a `PlanError` with the node's path, the nearest name and the line to
write instead. What a node may read and puts out, the node says. A second check changes nothing.

`schema_after` checks a plan that is a checked plan with one step more. Only the new step is looked
at where that is enough, so building a plan of n steps takes n looks and not n².
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args

import pyarrow as pa

from fabric.config import StateBackend
from fabric.errors import PlanError
from fabric.plan import nodes as n
from fabric.plan.bounds import BOUNDS, check_bounds
from fabric.plan.expr import Alias, Cast, Column, Expr
from fabric.plan.faults import listed, nearest, quoted
from fabric.plan.node import Node, remember_schema
from fabric.plan.nodes import (
    Distinct,
    Explode,
    Filter,
    Limit,
    NodeConfig,
    Plan,
    Select,
    Sort,
    Window,
    WithColumns,
)
from fabric.plan.paths import assign_paths, kind_of
from fabric.plan.schema import is_known, schema_of
from fabric.plan.stream_facts import is_endless, stream_of
from fabric.plan.walk import rewrite, walk


def check(plan: Plan) -> Plan:
    """Return `plan` complete, or raise `PlanError`.

    Parameters
    ----------
    plan
        As a client built it: paths may be missing, config in any order.

    Returns
    -------
    Plan
        Every node with a path, config sorted by path. Nodes that need no change are the same
        objects; shared nodes stay shared.

    Examples
    --------
    >>> from fabric.plan.nodes import Limit, Scan
    >>> from fabric.plan.sources import MemorySource
    >>> scan = Scan(MemorySource("t", 1), pa.schema([("a", pa.int32())]))
    >>> check(Plan(Limit(scan, 3))).root.path
    'limit_1'
    """
    paths = assign_paths(plan.root)
    last = _last_steps(plan.root)
    for node in walk(plan.root):
        try:
            _check_shape(node, last)
        except PlanError as error:
            raise error.at(node=paths[id(node)]) from None
    schema_of(plan.root, paths)
    stream_of(plan.root, paths)
    for node in walk(plan.root):
        try:
            check_bounds(node)
        except PlanError as error:
            raise error.at(node=paths[id(node)]) from None
    root = _complete(plan.root, paths)
    return Plan(root, _checked_config(plan, {paths[id(node)]: node for node in walk(plan.root)}))


def _last_steps(root: Node) -> tuple[Node, ...]:
    """The steps that may write: the root, or all that a union of written streams puts together."""
    together = isinstance(root, n.Union) and is_endless(root)
    return (root, *root.children) if together else (root,)


def _check_shape(node: Node, last: tuple[Node, ...]) -> None:
    """Refuse what only a planner makes, settings that are none, and a sink that is not last."""
    if isinstance(node, n.StageInput):
        raise PlanError("a stage input has no place in a user's plan; begin with a read")
    if isinstance(node, n.Branches):
        raise PlanError("branches have no place in a user's plan; use the stream itself twice")
    for name, allowed in node.CHOICES.items():
        if getattr(node, name) not in allowed:
            raise _no_choice(name, getattr(node, name), allowed)
    if isinstance(node, n.Sink) and not any(node is one for one in last):
        raise PlanError("a write is the last step: it puts out no rows to go on with")


def _complete(root: Node, paths: dict[int, str]) -> Node:
    """The plan with paths on all nodes and casts below unions."""
    taken = set(paths.values())
    originals = iter(walk(root))  # rewrite visits in the same order

    def finish(node: Node) -> Node:
        original = next(originals)
        path = paths[id(original)]
        done = node if node.path == path else replace(node, path=path)
        done = _with_casts(done, taken) if isinstance(done, n.Union) else done
        remember_schema(done, schema_of(original))
        return done

    return rewrite(root, finish)


def _with_casts(union: n.Union, taken: set[str]) -> Node:
    """Inputs whose types differ from the union's, behind a select that casts them."""
    wanted = schema_of(union).types
    inputs = []
    for number, child in enumerate(union.inputs, 1):
        schema = schema_of(child)
        if schema.types == wanted:
            inputs.append(child)
            continue
        exprs = tuple(map(_as, schema, wanted))
        path = f"{union.path}/input_{number}"
        while path in taken:
            path += "_"
        taken.add(path)
        inputs.append(n.Select(child, exprs, path=path))
    return union.with_children(tuple(inputs))


def _as(field: pa.Field, dtype: pa.DataType) -> Expr:
    column = Column(field.name)
    return column if field.type.equals(dtype) else Alias(Cast(column, dtype), field.name)


def _checked_config(plan: Plan, steps: dict[str, Node]) -> tuple[tuple[str, NodeConfig], ...]:
    """The settings sorted by path; an unknown path or value is refused."""
    config = dict(plan.config)
    if len(config) < len(plan.config):
        raise PlanError("a path is configured twice; give each path one NodeConfig")
    for path, settings in config.items():
        if path not in steps:
            raise _unknown_path(path, settings, set(steps))
        _check_settings(path, settings)
        _check_sends(steps[path], settings, path)
        _check_keeps(path, settings, steps)
    return tuple(sorted(config.items(), key=lambda item: item[0]))


def _unknown_path(path: str, settings: NodeConfig, paths: set[str]) -> PlanError:
    near = nearest(path, sorted(paths))
    line = "" if near is None else f"; write: {_configure(near, settings)}"
    return PlanError(
        f"there is no step {quoted(path[:200])} to configure; the steps are "
        f"{listed(sorted(paths))}{line}"
    )


def _configure(path: str, settings: NodeConfig) -> str:
    """The call that makes these settings."""
    given: dict[str, Any] = {f.name: getattr(settings, f.name) for f in fields(settings)}
    text = "".join(
        f", {name}={quoted(value) if isinstance(value, str) else value}"
        for name, value in given.items()
        if value is not None
    )
    return f".configure({quoted(path)}{text})"


def _check_settings(path: str, settings: NodeConfig) -> None:
    for name in ("parallelism", "buffer_batches", "state_memory"):
        value, most = getattr(settings, name), BOUNDS[f"NodeConfig.{name}"]
        if value is not None and not (type(value) is int and 1 <= value <= most):
            raise PlanError(f"{name} must be 1 to {most}, got {value!r}", node=path)
    value, most = settings.latency_us, BOUNDS["NodeConfig.latency_us"]
    if value is not None and not (type(value) is int and 0 <= value <= most):
        raise PlanError(f"latency_us must be 0 to {most}, got {value!r}", node=path)
    choices = (n.ExchangeMode, n.Compression, StateBackend)
    for name, allowed in zip(("exchange", "compression", "state"), choices, strict=True):
        value = getattr(settings, name)
        if value is not None and value not in get_args(allowed):
            raise _no_choice(name, value, get_args(allowed)).at(node=path)


def _check_sends(node: Node, settings: NodeConfig, path: str) -> None:
    """Refuse to compress what never leaves its agent."""
    sends = not node.LOOKS_AT_ROWS or settings.parallelism is not None
    if settings.compression in (None, "none") or (sends and not isinstance(node, n.Scan)):
        return
    raise PlanError(
        f"{kind_of(node)} {quoted(path)} sends no rows to other agents, so there is "
        "nothing to compress; configure the exchange, or the join, aggregate, sort, …, that does",
        node=path,
    )


def _check_keeps(path: str, settings: NodeConfig, steps: dict[str, Node]) -> None:
    """Refuse to say where a step keeps its state that has none, or can't have it there."""
    node, state = steps[path], settings.state
    if state is None and settings.state_memory is None:
        return
    places = node.state_places
    if not places:
        found = [other for other, step in sorted(steps.items()) if step.state_places]
        raise PlanError(
            f"{kind_of(node)} {quoted(path)} keeps no state; aggregates and windows of streams, "
            f"top_n, deduplicate and process do, in this plan: {listed(found)}",
            node=path,
        )
    what = f"the state of {kind_of(node)} {quoted(path)}"
    if state is not None and state not in places:
        raise PlanError(f"{what} can be in {listed(places)}, got state={state!r}", node=path)
    if settings.state_memory is not None and not node.hands_down:
        raise PlanError(
            f"{what} has no budget: it is in memory, or in files with state='rocksdb'; leave "
            "state_memory out",
            node=path,
        )


def _no_choice(name: str, value: object, allowed: tuple[object, ...]) -> PlanError:
    near = nearest(str(value), map(str, allowed))
    mean = "" if near is None else f"; did you mean {name}={quoted(near)}?"
    choices = ", ".join(quoted(str(one)) for one in allowed)
    return PlanError(f"{name}={value!r} is not one of {choices}{mean}")


_SIMPLE = Filter | Select | WithColumns | Window | Explode | Sort | Limit | Distinct
"""Steps that have no settings that `check` would have to look at."""


def schema_after(plan: Plan) -> pa.Schema:
    """What `plan` puts out; raises `PlanError` as `fabric.plan.check.check` does.

    >>> from fabric.plan.expr import Column
    >>> from fabric.plan.nodes import StageInput
    >>> source = Filter(StageInput(0, pa.schema([("a", pa.bool_())])), Column("a"))
    >>> _ = schema_of(source)
    >>> schema_after(Plan(Limit(source, 3))).names
    ['a']
    """
    root = plan.root
    if isinstance(root, _SIMPLE) and not root.path and is_known(root.input) and not is_known(root):
        try:
            schema = schema_of(root)
            stream_of(root)
            return schema
        except PlanError:
            return _of_all(plan)  # raises it again, with the path of the step
    return _of_all(plan)


def _of_all(plan: Plan) -> pa.Schema:
    return schema_of(check(plan).root)
