"""What an operator becomes: the same verb of a DataFrame, so the plan is the same plan.

One job: a frame for each operator, given the frames of its inputs. The step an operator becomes has
the operator's name as its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fabric.clients.dataframe.arguments import roots_of
from fabric.clients.dataframe.expressions.expr import Expr, as_column
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.dataframe.readers import files, tables
from fabric.clients.dataframe.targets import dataset_target, file_target
from fabric.clients.graph.operators import OperatorType, StreamOperatorNode
from fabric.errors import PlanError
from fabric.plan import nodes, targets
from fabric.plan.faults import listed, quoted, with_article

_READERS: dict[str, Callable[..., DataFrame]] = {
    "parquet": files.read_parquet, "csv": files.read_csv, "ipc": files.read_ipc,
    "json": files.read_json,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flow:
    """The rows behind an operator, and the keys they are keyed by."""

    frame: DataFrame
    keys: tuple[Any, ...] = ()


def lowered(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    """The rows that `operator` puts out over `inputs`; errors name the operator."""
    operator.check_complete()
    try:
        flow = _LOWERINGS[operator.operator_type](operator, inputs)
    except PlanError as error:
        raise PlanError(
            f"{operator.operator_type.name} {quoted(operator.name)}: {error.message}",
            node=operator.name,
        ) from None
    if operator.operator_type is OperatorType.KEY_BY:
        return flow
    frame = flow.frame if _is_named(flow, inputs) else flow.frame.named(operator.name)
    if operator.parallelism is not None:
        frame = frame.configure(operator.name, parallelism=operator.parallelism)
    return Flow(frame, flow.keys)


def _is_named(flow: Flow, inputs: Sequence[Flow]) -> bool:
    """Whether the operator changed nothing, so that the step has another operator's name."""
    return any(flow.frame is one.frame for one in inputs)


def _source(operator: StreamOperatorNode, _: Sequence[Flow]) -> Flow:
    given = dict(operator.parameters)
    options = given.pop("options", {})
    ((kind, value),) = given.items()
    match kind:
        case "frame":
            if not isinstance(value, DataFrame):
                raise PlanError(
                    f"frame takes a DataFrame, got {with_article(type(value).__name__)}"
                )
            return Flow(value)
        case "data":
            return Flow(tables.read_arrow(value))
        case "dataset":
            return Flow(tables.read_dataset(value))
        case "flight":
            uri, *path = [value] if isinstance(value, str) else value
            return Flow(tables.read_flight(uri, *path, **options))
        case _:
            return Flow(_READERS[kind](value, **options))


def _filter(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    (flow,) = inputs
    predicate = operator.parameters["predicate"]
    several = predicate if isinstance(predicate, list | tuple) else [predicate]
    return Flow(flow.frame.filter(*several), flow.keys)


def _map(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    (flow,) = inputs
    replace = bool(operator.parameters.get("replace", False))
    columns = _columns(operator.parameters["columns"])
    return Flow(flow.frame.with_columns(*columns, replace=replace), flow.keys)


def _select(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    return Flow(inputs[0].frame.select(*_columns(operator.parameters["columns"])))


def _flat_map(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    (flow,) = inputs
    given = dict(operator.parameters)
    return Flow(flow.frame.explode(given.pop("column"), **given), flow.keys)


def _key_by(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    """The keys for the next window or aggregate; the rows move there, not here."""
    (flow,) = inputs
    keys = _several(operator.parameters["keys"])
    flow.frame.select(*keys)  # refuses keys that are no columns
    return Flow(flow.frame, tuple(keys))


def _window(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    (flow,) = inputs
    given = dict(operator.parameters)
    keys = _several(given.pop("keys", flow.keys))
    columns = _columns(given.pop("columns"))
    exprs = [_over(column, keys, given) for column in columns]
    return Flow(flow.frame.with_columns(*exprs), tuple(keys))


def _over(column: Any, keys: Sequence[Any], given: Mapping[str, Any]) -> Expr:
    from fabric.plan.expr import output_name

    expr = as_column(column)
    return expr.over(*keys, **given).alias(output_name(expr.node))


def _aggregate(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    (flow,) = inputs
    keys = _several(operator.parameters.get("keys", flow.keys))
    aggregates = _columns(operator.parameters["aggregates"])
    frame = flow.frame.group_by(*keys) if keys else flow.frame
    return Flow(frame.agg(*aggregates))


def _join(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    left, right = (flow.frame for flow in inputs)
    near = operator.operator_type is OperatorType.ASOF_JOIN
    return Flow((left.join_asof if near else left.join)(right, **operator.parameters))


def _union(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    first, *others = (flow.frame for flow in inputs)
    return Flow(first.union(*others, **operator.parameters))


def _distinct(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    given = dict(operator.parameters)
    return Flow(inputs[0].frame.distinct(*_several(given.pop("on", ())), **given))


def _sort(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    given = dict(operator.parameters)
    return Flow(inputs[0].frame.sort(*_several(given.pop("keys")), **given))


def _limit(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    return Flow(inputs[0].frame.limit(**operator.parameters))


def _sink(operator: StreamOperatorNode, inputs: Sequence[Flow]) -> Flow:
    """A write, or without a target the rows as they are: the result of the job."""
    (flow,) = inputs
    target = _target(dict(operator.parameters))
    if target is None:
        return Flow(flow.frame)
    return Flow(flow.frame._then(nodes.Sink(flow.frame._node, target)))


def _target(given: dict[str, Any]) -> targets.Target | None:
    options = given.pop("options", {})
    kinds = [kind for kind in (*_READERS, "dataset", "flight") if kind in given]
    if len(kinds) > 1:
        raise PlanError(f"it has several targets: {listed(kinds)}; keep one")
    if not kinds:
        if given or options:
            raise PlanError(
                f"it has {listed([*given, *(['options'] if options else [])])} and no target; give "
                'parquet, csv, ipc, json, dataset or flight: {"parquet": "out"}'
            )
        return None
    (kind,) = kinds
    value = given.pop(kind)
    match kind:
        case "dataset":
            return dataset_target(value, **given)
        case "flight":
            uri, *path = value
            roots = roots_of(
                uri,
                options.pop("tls_roots", None),
                options.get("token", ""),
                options.get("insecure", False),
            )
            return targets.FlightTarget(uri, tuple(path), tls_roots=roots, **options)
        case "parquet" | "csv" | "ipc" | "json":
            return file_target(kind, value, **given, **options)
    raise AssertionError(kind)


def _columns(given: Any) -> list[Any]:
    """Names and expressions, given one, several or by name."""
    if isinstance(given, Mapping):
        return [as_column(value).alias(name) for name, value in given.items()]
    return _several(given)


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


_LOWERINGS: dict[OperatorType, Callable[[StreamOperatorNode, Sequence[Flow]], Flow]] = {
    OperatorType.SOURCE: _source, OperatorType.FILTER: _filter, OperatorType.MAP: _map,
    OperatorType.SELECT: _select, OperatorType.FLAT_MAP: _flat_map, OperatorType.KEY_BY: _key_by,
    OperatorType.WINDOW: _window, OperatorType.AGGREGATE: _aggregate,
    OperatorType.HASH_JOIN: _join, OperatorType.ASOF_JOIN: _join,
    OperatorType.UNION: _union, OperatorType.DISTINCT: _distinct, OperatorType.SORT: _sort,
    OperatorType.LIMIT: _limit, OperatorType.SINK: _sink,
}  # fmt: skip
