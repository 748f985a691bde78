"""From a checked, optimised plan to a stage graph.

One job: `plan_stages`, which visits the plan bottom-up and decides at each node whether its rows
can stay in the stage they are in. Pure: the splits of every scan come in as an argument. With
parallelism 1 everything stays in one stage, except where the plan itself has an exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fabric.cancellation import check_wanted
from fabric.coordinator.planner.aggregates import plan_aggregate, plan_distinct
from fabric.coordinator.planner.draft import Draft, Flow, Request, check_parallelism
from fabric.coordinator.planner.estimate import (
    BROADCAST_BYTES_MAX,
    Size,
    estimates,
    scan_rows,
)
from fabric.coordinator.planner.exchanges import exchange, gather, refuse_broadcast, spread
from fabric.coordinator.planner.finish import finish
from fabric.coordinator.planner.joins import plan_join
from fabric.coordinator.planner.over import plan_window
from fabric.coordinator.planner.sorts import is_single, plan_sort, sorts_of_one_task
from fabric.coordinator.planner.stages import StageGraph
from fabric.coordinator.planner.streams.columns import over_columns
from fabric.coordinator.planner.streams.hidden import with_hidden
from fabric.coordinator.planner.streams.keyed import (
    plan_keyed,
    plan_lookup,
    plan_side,
    plan_stream_join,
)
from fabric.errors import InternalError
from fabric.plan.expr import kept_names, output_name
from fabric.plan.node import Unary
from fabric.plan.nodes import (
    Aggregate,
    AssignWindows,
    Changes,
    Distinct,
    Exchange,
    Explode,
    Filter,
    Groups,
    Join,
    KeyedProcess,
    Limit,
    LookupJoin,
    Match,
    Node,
    NodeConfig,
    Plan,
    Scan,
    Select,
    SideOutput,
    Sink,
    Sort,
    StreamScan,
    TwoStreams,
    Union,
    Watermark,
    Window,
    WithColumns,
)
from fabric.plan.paths import with_own_paths
from fabric.plan.sources import Split
from fabric.plan.stream_facts import is_endless
from fabric.plan.top import first_rows
from fabric.plan.walk import walk

_ROWS_MAX = (1 << 63) - 1


def plan_stages(
    plan: Plan,
    splits: Mapping[str, Sequence[Split]],
    parallelism: int,
    *,
    result_path: str = "",
    likely_rows: Callable[[Node], float | None] = lambda _: None,
    broadcast_bytes: int = BROADCAST_BYTES_MAX,
) -> StageGraph:
    """Cut `plan` into stages.

    Parameters
    ----------
    plan
        Checked and optimised.
    splits
        The splits of every scan, by its path.
    parallelism
        Tasks of a stage where neither plan nor data say something else.
    result_path
        The path of the result edge; by default that of the root.
    likely_rows
        Guesses how many rows a node puts out.
    broadcast_bytes
        What a side of a join may have to be sent to all tasks.

    Raises
    ------
    PlanError
        If an exchange can't be as the plan wants it; names the node.
    """
    parallelism = check_parallelism(parallelism, "")
    planner = _Planner(plan, splits, parallelism, likely_rows, broadcast_bytes)
    return planner.plan(result_path or plan.root.path)


class _Planner:
    """One run over one plan."""

    def __init__(
        self,
        plan: Plan,
        splits: Mapping[str, Sequence[Split]],
        parallelism: int,
        likely_rows: Callable[[Node], float | None],
        broadcast_bytes: int,
    ) -> None:
        self._root = plan.root
        if is_endless(plan.root):  # over plain columns, the hidden ones among them
            self._root = with_own_paths(with_hidden(over_columns(plan.root)))
        self._broadcast_bytes = broadcast_bytes
        self._splits = splits
        self._parallelism = parallelism
        self._config = dict(plan.config)
        self._draft = Draft(self._config)
        self._sizes: dict[int, Size] = estimates(
            self._root,
            lambda scan: scan_rows(splits.get(scan.path, ()), scan.schema),
            likely_rows,
        )
        self._scans: list[Scan | StreamScan] = []
        self._parents = _parents(self._root)
        self._made_sides: dict[int, Flow] = {}
        self._in_one_task = sorts_of_one_task(self._root)

    def plan(self, result_path: str) -> StageGraph:
        """Visit every node once, then end the last stage."""
        flows: dict[int, Flow] = {}
        for node in walk(self._root):
            check_wanted()
            if node is self._root and isinstance(node, Exchange) and node.kind != "broadcast":
                self._result_exchange(node, flows[id(node.input)], result_path)
                return self._finish()
            below = [flows[id(child)] for child in node.children]
            flow = self._draft.known(self._visit(node, below))
            flows[id(node)] = self._draft.known(self._after_sides(node, flow))
        flow = flows[id(self._root)]
        refuse_broadcast(flow)
        last = self._draft.stage(flow.node, flow.n, flexible=flow.flexible)
        self._draft.edge(
            last, path=result_path, kind="forward", n_partitions=flow.n, is_result=True
        )
        return self._finish()

    def _finish(self) -> StageGraph:
        return finish(self._draft, self._scans, self._splits, self._config)

    def _visit(self, node: Node, below: list[Flow]) -> Flow:
        match node:
            case Scan() | StreamScan():
                return self._scan(node)
            case Unary(LOOKS_AT_ROWS=True):
                return _narrow(node, self._spread(node, below[0]))
            case Aggregate():
                n = self._n(node, below[0].n)
                return plan_aggregate(self._draft, node, below[0], n)
            case Join():
                sizes = self._sizes[id(node.left)], self._sizes[id(node.right)]
                n = self._n(node, max(below[0].n, below[1].n))
                return plan_join(
                    self._draft, node, below[0], below[1], sizes=sizes, n=n,
                    broadcast_bytes=self._broadcast_bytes,
                )  # fmt: skip
            case Window():
                n = self._n(node, below[0].n)
                above = self._only_parent(node)
                first = first_rows(above) if isinstance(above, Filter) else None
                return plan_window(self._draft, node, below[0], n, first=first)
            case Sort():
                return self._sort(node, below[0])
            case Limit():
                return self._limit(node, below[0])
            case Distinct():
                n = self._n(node, below[0].n)
                return plan_distinct(self._draft, node, below[0], n)
            case Union():
                return self._union(node, below)
            case Exchange():
                return self._exchange(node, below[0])
            case Sink():
                return self._sink(node, below[0])
            case _:
                return self._visit_stream(node, below)

    def _visit_stream(self, node: Node, below: list[Flow]) -> Flow:
        match node:
            case Watermark() | AssignWindows() | Changes():
                return below[0].over(node.with_children((below[0].node,)))
            case Groups() | KeyedProcess() | Match():
                n = self._n(node, below[0].n)
                return plan_keyed(self._draft, node, below[0], n, *below[1:])
            case LookupJoin():
                return plan_lookup(self._draft, node, below[0], below[1])
            case TwoStreams():
                n = self._n(node, max(below[0].n, below[1].n))
                return plan_stream_join(self._draft, node, below[0], below[1], n)
            case SideOutput():
                return self._made_sides[id(node)]
            case _:
                raise InternalError("a plan can't hold the input of a stage", node=node.path)

    def _configured(self, path: str) -> int | None:
        n = self._config.get(path, NodeConfig()).parallelism
        return None if n is None else check_parallelism(n, path)

    def _n(self, node: Node, n_below: int) -> int:
        """Tasks after an exchange: as configured; else 1 if there was one before."""
        return self._configured(node.path) or (1 if n_below == 1 else self._parallelism)

    def _scan(self, node: Scan | StreamScan) -> Flow:
        n_splits = max(1, len(self._splits.get(node.path, ())))
        n = self._configured(node.path) or min(self._parallelism, n_splits)
        scan = replace(node, scan_id=len(self._scans))
        self._scans.append(scan)
        return Flow(scan, n, flexible=True)

    def _spread(self, node: Node, flow: Flow) -> Flow:
        """The input of a narrow operator, in as many tasks as somebody configured."""
        n = self._configured(node.path)
        if n is None:
            return flow
        return spread(self._draft, flow, n, node.path, "input")

    def _sort(self, node: Sort, flow: Flow) -> Flow:
        """Below a limit, each task sends only its first rows to one; else as `plan_sort` says."""
        limit = self._only_parent(node)
        if flow.n > 1 and isinstance(limit, Limit):
            refuse_broadcast(flow)
            sorted_here = replace(node, input=flow.node)
            flow = replace(flow, node=_first(limit, sorted_here), flexible=False)
            return self._in_one(node, flow)
        n = 1 if id(node) in self._in_one_task else self._n(node, flow.n)
        configured = self._configured(node.path) is not None
        size = self._sizes[id(node.input)]
        return plan_sort(self._draft, node, flow, n, size=size, configured=configured)

    def _limit(self, node: Limit, flow: Flow) -> Flow:
        """Each task sends only as many rows as may be needed to the one that counts."""
        if flow.n > 1:
            refuse_broadcast(flow)
            flow = replace(flow, node=_first(node, flow.node), flexible=False)
        return self._in_one(node, flow)

    def _in_one(self, node: Sort | Limit, flow: Flow) -> Flow:
        flow = gather(self._draft, flow, node.path, "gather")
        return replace(flow, node=replace(node, input=flow.node), flexible=False)

    def _only_parent(self, node: Node) -> Node | None:
        parents = self._parents.get(id(node), ())
        return parents[0] if len(parents) == 1 else None

    def _after_sides(self, node: Node, flow: Flow) -> Flow:
        """The flow of `node`, which ends its stage where others read what it puts aside."""
        parents = self._parents.get(id(node), ())
        sides = [parent for parent in parents if isinstance(parent, SideOutput)]
        for side in sides:
            self._made_sides[id(side)] = plan_side(
                self._draft, flow.node, flow, tag=side.tag, path=side.path
            )
        # what is over a scan may have to be where it is read
        if not sides or len(sides) == len(parents) or isinstance(node, StreamScan):
            return flow
        return exchange(self._draft, flow, "forward", flow.n, path=f"{node.path}/main")

    def _union(self, node: Union, below: list[Flow]) -> Flow:
        for flow in below:
            refuse_broadcast(flow)
        if any(isinstance(flow.node, Sink) for flow in below):  # each ends a stage of its own
            below = [
                exchange(self._draft, flow, "gather", 1, path=f"{flow.node.path}/written")
                for flow in below
            ]
        n = self._configured(node.path) or max(flow.n for flow in below)
        flows = [spread(self._draft, flow, n, node.path, "input") for flow in below]
        union = replace(node, inputs=tuple(flow.node for flow in flows))
        return Flow(union, n, flexible=all(flow.flexible for flow in flows))

    def _exchange(self, node: Exchange, flow: Flow) -> Flow:
        if node.kind == "broadcast":
            refuse_broadcast(flow)
            return replace(flow, broadcast=Request(node.path, node.mode, node.compression))
        n = self._exchange_n(node, flow)
        return exchange(
            self._draft, flow, node.kind, n, path=node.path, keys=node.keys, mode=node.mode,
            compression=node.compression, fixed=True,
        )  # fmt: skip

    def _exchange_n(self, node: Exchange, flow: Flow) -> int:
        if node.kind == "gather":
            return 1
        if node.kind == "forward":
            return flow.n
        chosen = self._configured(node.path) or node.n_partitions
        return check_parallelism(chosen or self._parallelism, node.path)

    def _result_exchange(self, node: Exchange, flow: Flow, path: str) -> None:
        refuse_broadcast(flow)
        producer = self._draft.stage(flow.node, flow.n, flexible=flow.flexible)
        self._draft.edge(
            producer,
            path=path,
            kind=node.kind,
            n_partitions=self._exchange_n(node, flow),
            keys=node.keys,
            mode="materialised",
            compression=node.compression,
            settings=node.path,
            is_result=True,
            fixed=True,
        )

    def _sink(self, node: Sink, flow: Flow) -> Flow:
        if is_single(node.target):
            flow = gather(self._draft, flow, node.path, "gather")
        else:
            flow = self._spread(node, flow)
        refuse_broadcast(flow)
        return Flow(replace(node, input=flow.node), flow.n)


def _narrow(node: Unary, flow: Flow) -> Flow:
    """A row by row operator in the stage of its input."""
    moved = replace(node, input=flow.node)
    match node:
        case Select(exprs=exprs):
            return flow.renamed(moved, kept_names(exprs))
        case WithColumns(exprs=exprs):
            new = {output_name(expr) for expr in exprs}
            kept = [name for name, _ in flow.keys or () if name not in new]
            return flow.renamed(moved, {name: name for name in kept})
        case Explode(column=column):
            kept = [name for name, _ in flow.keys or () if name != column]
            return flow.renamed(moved, {name: name for name in kept})
        case Filter():
            return flow.over(moved)
        case _:  # it may have changed any column
            return flow.renamed(moved, {})


def _first(limit: Limit, source: Node) -> Limit:
    """The rows of one task that can be among those that `limit` keeps of all."""
    return replace(limit, input=source, n=min(_ROWS_MAX, limit.n + limit.offset), offset=0)


def _parents(root: Node) -> dict[int, list[Node]]:
    """By ``id``: the nodes that read a node, each as often as it does."""
    found: dict[int, list[Node]] = {}
    for node in walk(root):
        for child in node.children:
            found.setdefault(id(child), []).append(node)
    return found
