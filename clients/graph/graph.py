"""The job graph: operators, connections, and the plans they become.

One job: hold a graph that can be run, refusing what can't at the call that makes it: unknown and
doubled names, wrong arity, doubled connections, cycles. Whatever is still missing (an operator
without input, a dangling one) is refused before anything runs, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.graph.compiler import Flow, lowered
from fabric.clients.graph.operators import OperatorType, StreamOperatorNode
from fabric.clients.graph.stream import Stream
from fabric.errors import PlanError
from fabric.plan.faults import listed, nearest, quoted
from fabric.plan.mend import free_name
from fabric.plan.nodes import Plan

if TYPE_CHECKING:
    from fabric.clients.dataframe.arguments import FileOption
    from fabric.clients.dataframe.expressions.types import TableLike
    from fabric.clients.dataframe.readers.files import Paths
    from fabric.clients.dataframe.render import Report
    from fabric.clients.dataframe.session import Session
    from fabric.clients.job.job import Job

Operator = StreamOperatorNode | Stream | str


class JobGraph:
    """Operators and the connections between them.

    Examples
    --------
    >>> from fabric import JobGraph, col, count
    >>> flights = {"carrier": ["AA", "UA", "AA"], "delay": [5, 20, 40]}
    >>> graph = JobGraph("late flights")
    >>> late = graph.source("flights", data=flights).filter(col("delay") > 10, name="late")
    >>> late.key_by("carrier").aggregate({"n": count()}, name="per carrier").sink(name="output")
    Stream(SINK "output")
    >>> sorted(graph.collect().to_pylist(), key=lambda row: row["carrier"])
    [{'carrier': 'AA', 'n': 1}, {'carrier': 'UA', 'n': 1}]

    The same with operators of its own:

    >>> from fabric.clients.graph.operators import OperatorType, StreamOperatorNode
    >>> graph = JobGraph(job_name="late flights")
    >>> source = StreamOperatorNode(OperatorType.SOURCE, "flights", {"data": flights})
    >>> late = StreamOperatorNode(OperatorType.FILTER, "late", {"predicate": col("delay") > 10})
    >>> for operator in (source, late):
    ...     _ = graph.add_operator(operator)
    >>> graph.connect(source.operator_id, late.operator_id)
    >>> graph.collect().num_rows
    2
    """

    def __init__(self, job_name: str = "") -> None:
        self.job_name = job_name
        self._operators: dict[str, StreamOperatorNode] = {}
        self._inputs: dict[str, list[str]] = {}
        self._sources: dict[str, Flow] = {}

    # ---- making it
    def add_operator(self, operator: StreamOperatorNode) -> str:
        """Add an operator; returns its id, which is its name.

        A `PlanError` where one is called so already; a file that a SOURCE reads must be there.

        >>> graph = JobGraph()
        >>> graph.add_operator(StreamOperatorNode(OperatorType.SOURCE, "in", {"data": {"a": [1]}}))
        'in'
        """
        if not isinstance(operator, StreamOperatorNode):
            raise PlanError(f"add_operator takes a StreamOperatorNode, got {operator!r}")
        name = operator.name
        if name in self._operators:
            kind = operator.operator_type.name
            free = quoted(free_name(name, self._operators))
            raise PlanError(
                f"there is an operator called {quoted(name)} already; write: "
                f"StreamOperatorNode(OperatorType.{kind}, {free}, …)",
                node=name,
            )
        self._operators[name] = operator
        self._inputs[name] = []
        if operator.operator_type is OperatorType.SOURCE and operator.parameters:
            try:
                self._flow(name, {})  # files that are not there are refused here
            except Exception:
                del self._operators[name], self._inputs[name]
                raise
        return name

    def connect(self, source: Operator, target: Operator) -> None:
        """Let rows go from `source` to `target`; of a join the left side is connected first.

        Raises
        ------
        PlanError
            One of them is not in the graph, `target` takes no further input, they are connected
            already, or a cycle would be closed.

        >>> graph = JobGraph()
        >>> rows = graph.source("in", data={"a": [1, 2]})
        >>> first = graph.add_operator(StreamOperatorNode(OperatorType.LIMIT, "first", {"n": 1}))
        >>> graph.connect("in", first)
        >>> graph.connections
        [('in', 'first')]
        """
        upper, lower = self._known(source, "connect"), self._known(target, "connect")
        self._check_connection(upper, lower)
        self._inputs[lower.name].append(upper.name)
        try:
            self._check_below(lower.name)
        except Exception:
            self._inputs[lower.name].pop()
            raise

    def source(
        self, name: str, **parameters: DataFrame | TableLike | Paths | Mapping[str, FileOption]
    ) -> Stream:
        """Add a SOURCE and go on from it: ``graph.source("flights", parquet="flights")``.

        Parameters
        ----------
        parameters
            One of ``frame``, ``data``, ``parquet``, ``csv``, ``ipc``, ``json``, ``dataset`` and
            ``flight``, and ``options`` of the reader.

        >>> graph = JobGraph()
        >>> graph.source("numbers", data={"a": [1, 2]}).limit(1)
        Stream(LIMIT "limit_1")
        """
        return self.add(OperatorType.SOURCE, (), name, parameters)

    def add(
        self,
        operator_type: OperatorType,
        inputs: tuple[Stream, ...],
        name: str | None,
        parameters: Mapping[str, Any],
    ) -> Stream:
        """Add an operator over `inputs` and go on from it; without a name it gets a number.

        >>> graph = JobGraph()
        >>> rows = graph.source("numbers", data={"a": [1, 2]})
        >>> graph.add(OperatorType.LIMIT, (rows,), None, {"n": 1})
        Stream(LIMIT "limit_1")
        """
        given = name or self._free(operator_type)
        self.add_operator(StreamOperatorNode(operator_type, given, dict(parameters)))
        try:
            for stream in inputs:
                self.connect(stream, given)
        except Exception:
            del self._operators[given], self._inputs[given]
            raise
        return Stream(self, given)

    # ---- looking at it
    @property
    def operators(self) -> dict[str, StreamOperatorNode]:
        """All operators by name, in the order they were added.

        >>> graph = JobGraph()
        >>> rows = graph.source("numbers", data={"a": [1, 2]}).limit(1)
        >>> list(graph.operators)
        ['numbers', 'limit_1']
        """
        return dict(self._operators)

    @property
    def connections(self) -> list[tuple[str, str]]:
        """All connections, as pairs of names: from, to.

        >>> graph = JobGraph()
        >>> rows = graph.source("numbers", data={"a": [1, 2]}).limit(1)
        >>> graph.connections
        [('numbers', 'limit_1')]
        """
        return [(upper, lower) for lower, inputs in self._inputs.items() for upper in inputs]

    @property
    def sinks(self) -> list[str]:
        """The operators that end the graph: its SINKs, else those that nothing follows.

        >>> graph = JobGraph()
        >>> rows = graph.source("numbers", data={"a": [1, 2]}).limit(1)
        >>> graph.sinks
        ['limit_1']
        """
        sinks = [n for n, o in self._operators.items() if o.operator_type is OperatorType.SINK]
        return sinks or self._ends()

    def validate(self) -> None:
        """Refuse a graph that can't run, naming the operator; nothing runs.

        >>> graph = JobGraph()
        >>> graph.add_operator(StreamOperatorNode(OperatorType.LIMIT, "first", {"n": 1}))
        'first'
        >>> graph.validate()
        Traceback (most recent call last):
          ...
        fabric.errors.PlanError: the LIMIT "first" takes 1 input and has none; write: ...
        """
        if not self._operators:
            raise PlanError(
                'the job graph has no operators; write: graph.source("name", parquet="…")'
            )
        for name, operator in self._operators.items():
            self._check_inputs(name, operator)
        dangling = [name for name in self._ends() if name not in self.sinks]
        if not dangling and len(self.sinks) > 1 and self.sinks == self._ends():
            kinds = {self._operators[name].operator_type for name in self.sinks}
            dangling = [] if kinds == {OperatorType.SINK} else self.sinks[:-1]
        if dangling:
            raise PlanError(
                f"the output of {listed(dangling)} goes nowhere; write: graph.connect("
                f"{quoted(dangling[0])}, …) or add a SINK behind it",
                node=dangling[0],
            )
        flows: dict[str, Flow] = {}
        for name in self._operators:
            self._flow(name, flows)

    def frame(self, operator: Operator | None = None) -> DataFrame:
        """The DataFrame of an operator's output; None means the end of the graph.

        A `PlanError` where there is no such operator, or the graph can't run.

        >>> graph = JobGraph()
        >>> rows = graph.source("numbers", data={"a": [1, 2]}).limit(1)
        >>> graph.frame().count(), graph.frame("numbers").count()
        (1, 2)
        """
        if operator is not None:
            return self._flow(self._known(operator, "frame").name, {}).frame
        self.validate()
        return self._flow(self._only_sink("frame"), {}).frame

    @property
    def plan(self) -> Plan:
        """The logical plan of a graph with one end, as it travels.

        >>> graph = JobGraph()
        >>> rows = graph.source("numbers", data={"a": [1, 2]}).limit(1)
        >>> graph.plan.root.path
        'limit_1'
        """
        return self.frame().plan

    def explain(self) -> Report:
        """The plan, the optimised plan and the stages; nothing runs.

        >>> graph = JobGraph()
        >>> rows = graph.source("numbers", data={"a": [1, 2]}).limit(1)
        >>> print(str(graph.explain()).splitlines()[1])
          limit_1: .limit(1) -> a: int64
        """
        return self.frame().explain()

    # ---- running it
    def submit(self, sink: Operator | None = None, *, session: Session | None = None) -> Job:
        """Start the job and return at once; a graph with several SINKs needs the one to run.

        The job is called as the graph, or as the sink where the graph has no name.

        >>> graph = JobGraph("first")
        >>> rows = graph.source("numbers", data={"a": [1, 2]}).limit(1)
        >>> job = graph.submit().wait()
        >>> job.name, job.rows
        ('first', 1)
        """
        self.validate()
        name = self._only_sink("submit") if sink is None else self._known(sink, "submit").name
        frame = self._flow(name, {}).frame
        return (session or frame.session).submit(frame.plan, self.job_name or name)

    def collect(self, *, session: Session | None = None) -> pa.Table:
        """Run and return the rows that the graph ends with; of a SINK that writes, their number.

        >>> graph = JobGraph()
        >>> rows = graph.source("numbers", data={"a": [1, 2]}).limit(1)
        >>> graph.collect().to_pydict()
        {'a': [1]}
        """
        with self.submit(session=session) as job:
            return job.wait().collect()

    def __repr__(self) -> str:
        lines = [f"JobGraph({quoted(self.job_name)})"]
        for name, operator in self._operators.items():
            inputs = ", ".join(map(quoted, self._inputs[name]))
            arrow = f" ← {inputs}" if inputs else ""
            lines.append(f"  {operator.operator_type.name} {quoted(name)}{arrow}")
        return "\n".join(lines)

    # ---- helpers
    def _known(self, operator: Operator, verb: str) -> StreamOperatorNode:
        name = operator if isinstance(operator, str) else operator.operator_id
        if name not in self._operators:
            near = nearest(str(name), self._operators)
            hint = f"; did you mean {quoted(near)}?" if near else ";"
            write = f"; write: graph.{verb}({quoted(near)})" if near and verb != "connect" else ""
            raise PlanError(
                f"{verb}: there is no operator {quoted(str(name))} in this graph{hint} the "
                f"operators are {listed(self._operators)}{write}; add one with add_operator"
            )
        if isinstance(operator, StreamOperatorNode) and self._operators[name] is not operator:
            raise PlanError(
                f"{verb}: the operator {quoted(name)} given is not the one in this graph; "
                f"write: graph.add_operator(…) first, or use the name {quoted(name)}"
            )
        return self._operators[name]

    def _check_connection(self, upper: StreamOperatorNode, lower: StreamOperatorNode) -> None:
        pair = f"{quoted(upper.name)} to {quoted(lower.name)}"
        given, (_, most) = self._inputs[lower.name], lower.shape.inputs
        if upper.operator_type is OperatorType.SINK:
            before = self._inputs[upper.name] or ["…"]
            raise PlanError(
                f"connect {pair}: a SINK puts out no rows to go on with; write: "
                f"graph.connect({quoted(before[0])}, {quoted(lower.name)})",
                node=upper.name,
            )
        if most == 0:
            raise PlanError(
                f"connect {pair}: a SOURCE takes no input; write: "
                f"graph.connect({quoted(lower.name)}, {quoted(upper.name)})",
                node=lower.name,
            )
        if upper.name in given:
            raise PlanError(
                f"connect {pair}: they are connected already; leave the second connect out, or "
                "add another operator with the same source",
                node=lower.name,
            )
        if upper.name == lower.name or self._leads(lower.name, upper.name):
            way = " → ".join(map(quoted, [*self._way(lower.name, upper.name), lower.name]))
            raise PlanError(
                f"connect {pair} would close a cycle: {way}; a job graph has none, leave one of "
                "its connections out",
                node=lower.name,
            )
        if most is not None and len(given) >= most:
            joined = "" if most > 1 else (
                f'; write: graph.add_operator(StreamOperatorNode(OperatorType.UNION, "all")) and '
                f'graph.connect({quoted(given[0])}, "all"), graph.connect({quoted(upper.name)}, '
                '"all")'
            )  # fmt: skip
            raise PlanError(
                f"connect {pair}: a {lower.operator_type.name} takes {_plural(most)}, and has "
                f"{listed(given)}{joined}",
                node=lower.name,
            )

    def _leads(self, upper: str, lower: str) -> bool:
        """Whether rows go from `upper` to `lower`, over other operators too."""
        return bool(self._way(upper, lower))

    def _way(self, upper: str, lower: str) -> list[str]:
        """The operators from `upper` to `lower`, both included; none when there is no way."""
        stack: list[list[str]] = [[lower]]
        seen: set[str] = set()
        while stack:
            path = stack.pop()
            if path[0] == upper:
                return path
            if path[0] not in seen:
                seen.add(path[0])
                stack.extend([one, *path] for one in self._inputs[path[0]])
        return []

    def _check_inputs(self, name: str, operator: StreamOperatorNode) -> None:
        least, _ = operator.shape.inputs
        given = self._inputs[name]
        if len(given) >= least:
            return
        kind = operator.operator_type.name
        has = f"has {listed(given)} only" if given else "has none"
        free = [one for one in self._ends() if one != name and one not in given]
        line = f"graph.connect({quoted(free[0]) if free else '…'}, {quoted(name)})"
        raise PlanError(
            f"the {kind} {quoted(name)} takes {_plural(least)} and {has}; write: {line}", node=name
        )

    def _check_below(self, name: str) -> None:
        """Check the operators from `name` on whose inputs are all there."""
        flows: dict[str, Flow] = {}
        for one in self._operators:
            if one == name or self._leads(name, one):
                self._complete(one, flows)

    def _complete(self, name: str, flows: dict[str, Flow]) -> None:
        """Lower `name` when it and all above it have what they need."""
        above = [one for one in self._operators if one == name or self._leads(one, name)]
        for one in above:
            operator = self._operators[one]
            least, _ = operator.shape.inputs
            needs = operator.shape.required or operator.shape.one_of
            if len(self._inputs[one]) < least or (needs and not operator.parameters):
                return
        self._flow(name, flows)

    def _flow(self, name: str, flows: dict[str, Flow]) -> Flow:
        """The rows behind an operator; those of sources are looked at once."""
        order = [one for one in self._topological(name) if one not in flows]
        for one in order:
            operator = self._operators[one]
            if one in self._sources:
                flows[one] = self._sources[one]
                continue
            self._check_inputs(one, operator)
            flows[one] = lowered(operator, [flows[up] for up in self._inputs[one]])
            if operator.operator_type is OperatorType.SOURCE:
                self._sources[one] = flows[one]
        return flows[name]

    def _topological(self, name: str) -> list[str]:
        """The operators that lead to `name`, each after its inputs."""
        done: dict[str, None] = {}
        stack = [(name, False)]
        while stack:
            one, ready = stack.pop()
            if ready:
                done.setdefault(one)
            elif one not in done:
                stack.append((one, True))
                stack.extend((up, False) for up in reversed(self._inputs[one]))
        return list(done)

    def _ends(self) -> list[str]:
        """The operators whose output nobody reads."""
        read = {upper for inputs in self._inputs.values() for upper in inputs}
        return [name for name in self._operators if name not in read]

    def _only_sink(self, verb: str) -> str:
        sinks = self.sinks
        if len(sinks) == 1:
            return sinks[0]
        raise PlanError(
            f"the graph has {len(sinks)} SINKs: {listed(sinks)}; say which one: "
            f"graph.{verb}({quoted(sinks[0])})"
        )

    def _free(self, operator_type: OperatorType) -> str:
        number = 1
        while (name := f"{operator_type.value}_{number}") in self._operators:
            number += 1
        return name


def _plural(n: int) -> str:
    return f"{n} input" if n == 1 else f"{n} inputs"


__all__ = ["JobGraph", "OperatorType", "StreamOperatorNode"]
