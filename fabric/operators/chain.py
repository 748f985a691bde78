"""A stage that runs a batch at a time: filter, project, explode, union, limit, wired by the plan.

One job: build the operators of a stage, push each batch through them, and know when they are done.
A chain may read pipelined edges, because it never waits for the end of one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from fabric.errors import FabricError, InternalError, PlanError
from fabric.operators.contract import Batches, Context, Operator
from fabric.operators.explode import ExplodeOperator
from fabric.operators.filter import FilterOperator
from fabric.operators.limit import LimitOperator
from fabric.operators.project import ProjectOperator
from fabric.operators.union import UnionOperator
from fabric.plan.expr import Column, output_name
from fabric.plan.nodes import Explode, Filter, Limit, Node, Select, StageInput, Union, WithColumns
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk

_ALLOWED = (StageInput, Filter, Select, WithColumns, Explode, Union, Limit)


def unsupported(root: Node) -> str | None:
    """The path (or kind) of the first node that a chain can't run, or None.

    >>> from fabric.plan.nodes import Distinct
    >>> source = StageInput(0, pa.schema([("a", pa.int8())]))
    >>> unsupported(Limit(source, 1)), unsupported(Distinct(source, path="unique"))
    (None, 'unique')
    """
    wrong = (node for node in walk(root) if not isinstance(node, _ALLOWED))
    node = next(wrong, None)
    return None if node is None else node.path or type(node).__name__.lower()


def build_chain(root: Node, context: Context | None = None) -> Chain:
    """The chain of `root`, opened.

    Raises
    ------
    PlanError
        When `unsupported` names a node.

    Examples
    --------
    >>> chain = build_chain(Limit(StageInput(3, pa.schema([("a", pa.int64())])), 1))
    >>> chain.inputs, [b.to_pydict() for b in chain.on_batch(3, pa.record_batch({"a": [7, 8]}))]
    ([3], [{'a': [7]}])
    >>> chain.done
    True
    """
    if (path := unsupported(root)) is not None:
        raise PlanError(
            f"{path} needs all its input at once, so it can't read a pipelined edge; leave the "
            'exchange "materialised"',
            node=path,
        )
    return Chain(root, context or Context())


class Chain:
    """The operators of one task, in the order of the plan; one thread owns it."""

    def __init__(self, root: Node, context: Context) -> None:
        self._root = root
        self._nodes = list(walk(root))
        self._operators = {
            id(node): _operator(node) for node in self._nodes if not isinstance(node, StageInput)
        }
        for node in self._nodes:
            if (operator := self._operators.get(id(node))) is not None:
                operator.open(Context(node.path, context.task, context.n_tasks))
        self.inputs = sorted({node.edge for node in self._nodes if isinstance(node, StageInput)})
        """The edges it reads."""
        self._open_edges = set(self.inputs)
        self._ended: set[int] = set()

    def on_batch(self, edge: int, batch: pa.RecordBatch) -> Batches:
        """Push rows of `edge` through; returns what comes out at the root."""
        self._check(edge)
        out: dict[int, Batches] = defaultdict(list)
        for node in self._nodes:
            if isinstance(node, StageInput):
                out[id(node)] = [_named(batch, node)] if node.edge == edge else []
            else:
                out[id(node)] = self._push(node, out)
        return out[id(self._root)]

    def on_end(self, edge: int) -> Batches:
        """`edge` has ended; operators whose inputs all have then end too."""
        self._check(edge)
        self._open_edges.discard(edge)
        out: dict[int, Batches] = defaultdict(list)
        for node in self._nodes:
            if isinstance(node, StageInput):
                if node.edge == edge:
                    self._ended.add(id(node))
                continue
            out[id(node)] = self._push(node, out) + self._end(node)
        return out[id(self._root)]

    @property
    def done(self) -> bool:
        """Whether no input can change the output any more."""
        return not self._open_edges or self._is_done()

    def close(self) -> None:
        """Close every operator."""
        for operator in self._operators.values():
            operator.close()

    def _push(self, node: Node, out: Mapping[int, Batches]) -> Batches:
        operator, found = self._operators[id(node)], []
        for index, child in enumerate(node.children):
            for batch in out[id(child)]:
                if not operator.done:
                    found += _at(node, partial(operator.on_batch, index, batch))
        return found

    def _end(self, node: Node) -> Batches:
        if id(node) in self._ended or not all(id(child) in self._ended for child in node.children):
            return []
        self._ended.add(id(node))
        operator = self._operators[id(node)]
        inputs = range(len(node.children))
        return [batch for i in inputs for batch in _at(node, partial(operator.on_end, i))]

    def _is_done(self) -> bool:
        finished: dict[int, bool] = {}
        for node in self._nodes:
            operator = self._operators.get(id(node))
            below = [finished[id(child)] for child in node.children]
            finished[id(node)] = operator is not None and (operator.done or all(below))
        return finished[id(self._root)]

    def _check(self, edge: int) -> None:
        if edge not in self._open_edges:
            raise InternalError(f"edge {edge} is not one of the chain's, or has ended")


def _at(node: Node, work: Callable[[], Batches]) -> Batches:
    try:
        return work()
    except FabricError as error:
        raise error.at(node=node.path) from None


def _named(batch: pa.RecordBatch, node: StageInput) -> pa.RecordBatch:
    """The batch under the plan's names, without metadata of a file it came from."""
    if not batch.num_columns:
        return batch
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema_of(node))


def _operator(node: Node) -> Operator:
    output = schema_of(node)
    sources = [schema_of(child) for child in node.children]
    match node:
        case Filter(predicate=predicate):
            return FilterOperator(predicate, sources[0])
        case Select() | WithColumns():
            made = {output_name(expr): expr for expr in node.exprs}
            exprs = [made.get(name, Column(name)) for name in output.names]
            return ProjectOperator(exprs, sources[0], output)
        case Explode():
            return ExplodeOperator(node, output)
        case Union():
            return UnionOperator(sources, output)
        case Limit(n=n, offset=offset):
            return LimitOperator(n, offset)
        case _:
            raise InternalError(f"no operator runs a {type(node).__name__}")
