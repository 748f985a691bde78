"""A stage that runs a batch at a time: operators wired by the plan, with events between the rows.

One job: build the operators of a stage, push each batch through them, and know when they are done.
A chain may read pipelined edges, because it never waits for the end of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from fabric.errors import FabricError, InternalError, PlanError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE, least
from fabric.operators.contract import Batches, Context, Operator
from fabric.operators.node_operators import LEAVES, operator_of, unsupported
from fabric.operators.row_operators import FilterOperator, ProjectOperator
from fabric.plan.node import Unary
from fabric.plan.nodes import Branches, Node, StageInput, StreamScan, branch_side
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk
from fabric.state.backend import Snapshot, SnapshotReader

SplitNames = Mapping[int, Sequence[str]]
"""By edge: the splits of a scan that a task reads; those of two scans may be called alike."""


def build_chain(
    root: Node, context: Context | None = None, splits: SplitNames | None = None
) -> Chain:
    """The chain of `root`, opened; `context` says which of how many tasks it is for.

    Raises
    ------
    PlanError
        When `unsupported` names a node.

    Examples
    --------
    >>> from fabric.plan.nodes import Limit
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
    return Chain(root, context or Context(), splits or {})


def rows_through(
    chain: Chain, items: Iterable[tuple[int, pa.RecordBatch | None]]
) -> Generator[pa.RecordBatch]:
    """What comes out by (edge, batch) of all edges, None at the end of one."""
    for edge, batch in items:
        yield from chain.on_end(edge) if batch is None else chain.on_batch(edge, batch)
        while chain.has_more:
            yield from chain.more()
        if chain.done:
            return


def row_by_row(node: Unary, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    """What `node`, which looks at each row alone, makes of batches of its input's columns."""
    chain = build_chain(replace(node, input=StageInput(0, schema_of(node.input))))
    try:
        yield from rows_through(chain, zip(itertools.repeat(0), itertools.chain(batches, [None])))
    finally:
        chain.close()


@dataclass(slots=True)
class _Step:
    """A node of the chain, with what a walk asks of it again and again."""

    operator: Operator | None
    """None: rows of an edge come in."""
    edges: frozenset[int]
    """The edges whose rows come to it; of a leaf, its own."""
    inputs: tuple[int, ...]
    """The places of its children among the steps."""
    schema: pa.Schema
    path: str
    reached: int = BEGINNING
    """The highest watermark that came in."""
    left: int = BEGINNING
    """The watermark that left."""
    told: set[int] = field(default_factory=set)
    """Inputs whose end the operator knows."""

    def take(self, rows: Sequence[Batches], now_us: int | None, time_us: int) -> Batches:
        """What comes out by rows of each input, then by the clock, then by a watermark."""
        operator, found = self.operator, Batches()
        assert operator is not None
        for index, batches in enumerate(rows):
            for batch in batches:
                if not operator.done:
                    found += operator.on_batch(index, batch)
        if now_us is not None:
            found += operator.on_time(now_us)
        if time_us > self.reached:  # else nothing new, or `IDLE`
            self.reached = time_us
            found += operator.on_watermark(time_us)
        return found

    def end(self, ended: Iterable[int]) -> Batches:
        """What comes out by the ends of inputs with these numbers, each told once."""
        found = Batches()
        if self.has_more:
            return found  # before what the end itself completes
        for index in ended:
            if index not in self.told:
                self.told.add(index)
                assert self.operator is not None
                found += self.operator.on_end(index)
        return found

    @property
    def has_more(self) -> bool:
        """See `Operator.has_more`."""
        return self.operator is not None and self.operator.has_more

    @property
    def is_full(self) -> bool:
        """See `Operator.is_full`."""
        return self.operator is not None and self.operator.is_full

    def leaving(self, time_us: int) -> int:
        """The watermark that leaves, where the least of the inputs is `time_us`."""
        assert self.operator is not None
        if not self.has_more:
            self.left = self.operator.watermark(IDLE if time_us == IDLE else self.reached)
        return self.left


def _steps(root: Node) -> list[_Step]:
    """The nodes from the leaves to the root."""
    places: dict[int, int] = {}
    steps: list[_Step] = []
    for node in walk(root):
        inputs = tuple(places[id(child)] for child in node.children)
        if isinstance(node, LEAVES):
            operator, edges = None, frozenset([_edge(node)])
        else:
            sources = [steps[place].schema for place in inputs]
            operator = operator_of(node, schema_of(node), sources)
            edges = frozenset().union(*(steps[place].edges for place in inputs))
        places[id(node)] = len(steps)
        steps.append(_Step(operator, edges, inputs, schema_of(node), node.path))
    return steps


class Chain:
    """The operators of one task, in the order of the plan; one thread owns it.

    Time: a node's watermark is the least of those that come out of its children; one that is idle
    is left out. An edge that has ended holds nobody back.
    """

    def __init__(self, root: Node, context: Context, splits: SplitNames) -> None:
        self._root = root
        self._steps = _steps(root)
        self._operators = [(s, s.operator) for s in self._steps if s.operator is not None]
        for index, step in enumerate(self._steps):
            if step.operator is not None:
                read = tuple(s for edge in sorted(step.edges) for s in splits.get(edge, ()))
                folder = context.folder and context.folder / f"operator-{index}"
                step.operator.open(context.at(step.path, folder, read))
        self.inputs = sorted(self._steps[-1].edges)
        """The edges it reads; a scan of a stream is the edge ``-1 - scan_id``."""
        self._open_edges = set(self.inputs)
        self._edge_times = dict.fromkeys(self.inputs, BEGINNING)
        self._silent = _silent(self._steps)
        self._tops = {"": len(self._steps) - 1}
        if isinstance(root, Branches):
            self._tops = {branch_side(n): top for n, top in enumerate(self._steps[-1].inputs)}
        self.watermarks = dict.fromkeys(self._tops, BEGINNING)
        """By branch (``""`` where there are none): what no row that still comes out is earlier
        than; `IDLE` while nothing is to come."""
        self.replaying = False
        """While rows in flight are replayed, event time stands still: sources are ahead of them."""

    # ---- what comes in

    def on_split(self, edge: int, split: str) -> None:
        """The batches of `edge` that follow are of this split of the source."""
        for step, operator in self._operators:
            if edge in step.edges:
                operator.on_split(split)

    def on_split_end(self, edge: int, split: str) -> Batches:
        """A split of `edge` has no more rows; returns what that completes."""
        for step, operator in self._operators:
            if edge in step.edges:
                operator.on_split_end(split)
        return self._pass()

    def held_back(self) -> dict[int, frozenset[str]]:
        """Splits that are not to be read until others have caught up, by edge."""
        found: dict[int, frozenset[str]] = {}
        for step, operator in self._operators:
            if held := operator.held_back():
                for edge in step.edges:
                    found[edge] = found.get(edge, frozenset()) | held
        return found

    def slowest(self) -> dict[str, int]:
        """By node whose splits stay together: the watermark of the slowest."""
        found = {step.path: operator.slowest() for step, operator in self._operators}
        return {path: time for path, time in found.items() if time is not None}

    def on_watermark_alignment(self, node: str, time_us: int) -> None:
        """The slowest split of `node` that other tasks read."""
        for step, operator in self._operators:
            if step.path == node:
                operator.on_watermark_alignment(time_us)

    def on_batch(self, edge: int, batch: pa.RecordBatch) -> Batches:
        """Push rows of `edge` through; returns what comes out at the root."""
        self._check(edge)
        return self._pass(rows=(edge, batch))

    def on_rows_into(self, path: str, batch: pa.RecordBatch) -> Batches:
        """Push rows through from an input of the step at `path` on, past those below it.

        They were in flight to it over an edge that the plan no longer has. They go to the first
        input with their columns; only a union has several of those, and treats them alike.
        """
        return self._pass(into=(path, batch))

    def on_watermark(self, edge: int, time_us: int) -> Batches:
        """No row of `edge` will be earlier (or it is `IDLE`); returns what that completes."""
        self._check(edge)
        self._edge_times[edge] = time_us
        return self._pass()

    def on_time(self, now_us: int) -> Batches:
        """It is `now_us`; returns what is due."""
        return self._pass(now_us=now_us)

    @property
    def has_more(self) -> bool:
        """Whether the last call completed more than it returned; nothing else is called before."""
        return any(step.has_more for step in self._steps)

    @property
    def is_full(self) -> bool:
        """Whether an operator wants no more rows for now, see `Operator.is_full`."""
        return any(step.is_full for step in self._steps)

    def more(self) -> Batches:
        """Some of what is still to come: of the last node that has more, those below it wait. Where
        none has, the last one that is full waits for room."""
        steps = list(enumerate(self._steps))
        having = [index for index, step in steps if step.has_more]
        return self._pass(more=(having or [index for index, step in steps if step.is_full])[-1])

    def on_end(self, edge: int) -> Batches:
        """`edge` has ended; operators whose inputs all have then end too."""
        self._check(edge)
        self._open_edges.discard(edge)
        self._edge_times[edge] = END_OF_TIME
        return self._pass()

    # ---- checkpoints

    def on_barrier(self, checkpoint: int) -> dict[str, Snapshot]:
        """The state of every operator as of now, by node path."""
        return {step.path: op.on_barrier(checkpoint) for step, op in self._operators}

    def on_final(self) -> dict[str, Snapshot]:
        """What other tasks may still need of every operator when this one has ended, by path."""
        return {step.path: op.on_final() for step, op in self._operators}

    def on_complete(self, checkpoint: int) -> None:
        """Checkpoint `checkpoint` is complete everywhere."""
        for _, operator in self._operators:
            operator.on_complete(checkpoint)

    def on_abort(self, checkpoint: int) -> None:
        """Checkpoint `checkpoint` will not be completed."""
        for _, operator in self._operators:
            operator.on_abort(checkpoint)

    def restore(
        self, snapshots: Callable[[str], Sequence[SnapshotReader]], key_groups: range
    ) -> None:
        """Continue from the snapshots of each node path; before anything comes in."""
        for step, operator in self._operators:
            operator.restore(snapshots(step.path), key_groups)

    # ---- the end

    @property
    def done(self) -> bool:
        """Whether no input can change the output any more."""
        return not self._open_edges or self._is_done()

    def silent_until(self) -> int:
        """Nothing comes out before an edge's watermark is this; `BEGINNING`: it may at any time."""
        return BEGINNING if self._silent is None else self._silent.silent_until()

    def take_side(self) -> dict[str, Batches]:
        """Rows for the side outputs of the root since the last call, by tag; and of branches."""
        found = self._aside(len(self._steps) - 1)
        if isinstance(self._root, Branches):
            for branch, top in enumerate(self._steps[-1].inputs):
                aside = self._aside(top).items()
                found.update((branch_side(branch, tag), rows) for tag, rows in aside)
        return found

    def counts(self) -> dict[str, dict[str, int]]:
        """What the operators have counted, by node path."""
        found = {step.path: operator.counts() for step, operator in self._operators}
        return {path: counts for path, counts in found.items() if counts}

    def close(self) -> None:
        """Close every operator."""
        for _, operator in self._operators:
            operator.close()

    # ---- inside

    def _pass(
        self,
        *,
        rows: tuple[int, pa.RecordBatch] | None = None,
        now_us: int | None = None,
        more: int = -1,
        into: tuple[str, pa.RecordBatch] | None = None,
    ) -> Batches:
        """One walk from the leaves to the root: rows first, then time, then ends.

        Step `more` puts out more of what its last call completed. Rows `into` a step come to it.
        """
        out: list[Batches] = []
        leaving: list[int] = []
        ended: list[bool] = []
        for index, step in enumerate(self._steps):
            if step.operator is None:
                (edge,) = step.edges
                fits = rows is not None and rows[0] == edge
                out.append([_named(rows[1], step.schema)] if fits and rows is not None else [])
                leaving.append(self._edge_times[edge])
                ended.append(edge not in self._open_edges)
                continue
            inputs = step.inputs
            untimed = step.operator.untimed
            time_us = least([leaving[child] for n, child in enumerate(inputs) if n not in untimed])
            time_us = BEGINNING if self.replaying else time_us
            try:
                found = step.operator.more() if index == more else Batches()
                given = [out[child] for child in inputs]
                if into is not None and into[0] == step.path:
                    schemas = [self._steps[child].schema for child in inputs]
                    place = list(map(_columns, schemas)).index(_columns(into[1].schema))
                    given[place] = [_named(into[1], schemas[place])]
                if now_us is not None and len(inputs) > 1 and not self.replaying:
                    step.operator.on_input_times([leaving[child] for child in inputs], now_us)
                found += step.take(given, now_us, time_us)
                found += step.end([n for n, child in enumerate(inputs) if ended[child]])
            except FabricError as error:
                raise error.at(node=step.path) from None
            out.append(found)
            leaving.append(step.leaving(time_us))
            ended.append(len(step.told) == len(inputs) and not step.has_more)
        if not self.replaying:
            self.watermarks = {branch: leaving[top] for branch, top in self._tops.items()}
        return out[-1]

    def _aside(self, index: int) -> dict[str, Batches]:
        operator = self._steps[index].operator
        return {} if operator is None else operator.take_side()

    def _is_done(self) -> bool:
        finished: list[bool] = []
        for step in self._steps:
            below = [finished[child] for child in step.inputs]
            operator = step.operator
            finished.append(operator is not None and (operator.done or all(below)))
        return finished[-1]

    def _check(self, edge: int) -> None:
        if edge not in self._open_edges:
            raise InternalError(f"edge {edge} is not one of the chain's, or has ended")


def _silent(steps: Sequence[_Step]) -> Operator | None:
    """The one operator that says when anything comes out; the others pass rows on, and time."""
    found = [step.operator for step in steps if step.operator is not None]
    if len(steps) - len(found) > 1:
        return None
    deciding = [one for one in found if not isinstance(one, FilterOperator | ProjectOperator)]
    return deciding[0] if len(deciding) == 1 else None


def _edge(node: Node) -> int:
    """The number under which a leaf's rows come in."""
    assert isinstance(node, LEAVES)
    return -1 - node.scan_id if isinstance(node, StreamScan) else node.edge


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def _named(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under the plan's names, without metadata of a file it came from."""
    if not batch.num_columns or batch.schema.equals(schema, check_metadata=True):
        return batch
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
