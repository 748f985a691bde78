"""Verbs for functions with state, and for the rows that steps of a stream put aside.

One job: `process` and `side_output`. A function is called by key in the tasks of the stream; rows
that it fails on, that come late or have no time are an output of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.durations import Length, maybe_us
from fabric.clients.dataframe.expressions.literal import SchemaLike, to_schema
from fabric.clients.dataframe.expressions.types import ManyColumns, ManyNames, Predicates
from fabric.clients.dataframe.expressions.udf import own_object
from fabric.clients.dataframe.names import column_name
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.errors import PlanError
from fabric.plan import nodes
from fabric.plan.expr import Expr
from fabric.plan.faults import quoted
from fabric.plan.nodes import (
    Changes,
    Domain,
    KeyedProcess,
    SideOutput,
    StateField,
)
from fabric.plan.nodes.keyed_process import broadcast_kind
from fabric.plan.process import Process, check_process
from fabric.plan.schema import sides_at
from fabric.plan.stream import OnBad
from fabric.plan.stream_facts import stream_of
from fabric.values import ByteSize


class ProcessVerbs(Verbs):
    """``process`` and ``side_output``."""

    __slots__ = ()

    def process(
        self,
        function: Process,
        *,
        keys: ManyColumns,
        schema: SchemaLike,
        state: Mapping[str, StateField] | None = None,
        timers: Domain | Sequence[Domain] = (),
        time: str = "",
        sides: Mapping[str, SchemaLike] | None = None,
        on_error: OnBad = "fail",
        timeout: Length | None = None,
        broadcast: Self | None = None,
        broadcast_keys: ManyNames = (),
        broadcast_deleted: Predicates | None = None,
        broadcast_memory: int | str = "64 MiB",
    ) -> Self:
        """Rows of a `fabric.Process` of your own, a copy a task: by key, with state and timers.

        Parameters
        ----------
        schema, time
            The columns that it puts out, and which of them is event time, for windows after it.
        state, timers
            States by name: `fabric.streams.value_state`, `list_state`, `map_state` …; which timers
            it sets: ``event``, ``processing`` or both.
        sides
            The columns of each side output, by tag.
        on_error
            When it raises, takes longer than `timeout` or returns other columns: ``fail``, ``skip``
            the row, or ``side``: it is in ``.side_output("errors")``, with the columns ``error``,
            ``error_node`` and ``error_attempt``. A call about many rows that fails is made again
            with fewer, so only the rows that fail alone are taken. They have changed no state.
        timeout
            For each call; by default none. Python code is interrupted, and the rows go by
            `on_error`; on agents a call that does not come back has its process ended 5 s later.
        broadcast
            A stream or table that every task holds whole, see `docs/broadcast.md`: all rows, or
            the newest by `broadcast_keys`, of which a row with `broadcast_deleted` removes its key.
            More than `broadcast_memory` in a task (at most 2 GiB) ends the job.

        Examples
        --------
        >>> import fabric
        >>> class Above(fabric.Process):
        ...     def on_rows(self, ctx, key, rows):
        ...         limit = ctx.broadcast.get(key)["limit"]
        ...         return [{"row": row} for row in rows["row"].to_pylist() if row > limit]
        >>> rows = fabric.streams.generator(n_rows=8, n_splits=1, n_keys=1)
        >>> limits = fabric.DataFrame({"key": [0], "limit": [5]})
        >>> rows.process(
        ...     Above(), keys="key", schema={"row": "int64"}, broadcast=limits, broadcast_keys="key"
        ... ).collect()["row"].to_pylist()
        [6, 7]
        """
        chosen = args.expressions(args.flatten([keys]), {}, self.schema)
        domains: tuple[Domain, ...] = (timers,) if isinstance(timers, str) else tuple(timers)
        checked = check_process(function, domains, broadcasts=broadcast is not None)
        node = KeyedProcess(
            self._node, chosen, own_object(function, type(checked).__name__),
            to_schema(schema, "process"), _states({} if state is None else state), domains,
            _sides({} if sides is None else sides), on_error,
            maybe_us(timeout, "timeout", least=1) or 0, column_name(time, "process"),
            broadcast_keys=tuple(column_name(k, "process") for k in args.flatten([broadcast_keys])),
            broadcast_deleted=_condition(broadcast_deleted),
        )  # fmt: skip
        if broadcast is None:
            return self._then(node)
        rules = self._other(broadcast, "process")
        return self._with((rules,), _broadcasting(node, rules._node, broadcast_memory))

    def side_output(self, tag: str) -> Self:
        """The rows that an earlier step puts aside: its dead letters.

        `tag` is ``"late"`` (rows behind the watermark), ``"bad"`` (rows without a time),
        ``"errors"`` (rows that a function failed on), ``"unreadable"`` (records that could not be
        decoded) or a tag of your own. The step is the last one before this call that has such an
        output. The result is a stream like any other, with the columns of that output.

        Raises
        ------
        PlanError
            No earlier step has an output with this tag.

        Examples
        --------
        >>> from fabric import streams
        >>> rows = streams.generator(n_rows=10).with_watermark("ts")
        >>> counts = rows.group_by("key").window("1 minute", late="side").count()
        >>> counts.side_output("late").columns == rows.columns
        True
        """
        return self._then(SideOutput(_step_with(self._node, tag), tag))


def _condition(deleted: Predicates | None) -> Expr | None:
    return None if deleted is None else args.predicate([deleted], {}, "process")


def _broadcasting(node: KeyedProcess, rules: nodes.Node, memory: int | str) -> KeyedProcess:
    """The same step, with rows that every task holds whole."""
    kind, n_bytes = broadcast_kind(stream_of(rules)), ByteSize(memory)
    return replace(node, broadcast=rules, broadcast_is=kind, broadcast_bytes=n_bytes)


def _states(given: Any) -> tuple[StateField, ...]:
    """States of `process` under the names they are declared by."""
    named = given.items() if isinstance(given, Mapping) else [("n", given)]
    for name, field in named:
        if not isinstance(field, StateField) or not isinstance(given, Mapping):
            kind = quoted(field) if isinstance(field, str) else quoted("int64")
            raise PlanError(
                f"process: state is one of fabric.streams.value_state, list_state, map_state … by "
                f"its name, got {str(given)[:80]}; write: "
                f"state={{{quoted(str(name))}: streams.value_state({kind})}}"
            )
    return tuple(replace(field, name=name) for name, field in named)


def _sides(given: Any) -> tuple[tuple[str, pa.Schema], ...]:
    """Side outputs of `process` by tag."""
    if not isinstance(given, Mapping):
        raise PlanError(
            f"process: sides are schemas by tag, got {str(given)[:80]}; write: "
            'sides={"odd": {"id": "int64"}}'
        )
    return tuple((tag, to_schema(side, "process", "sides")) for tag, side in given.items())


def _step_with(node: nodes.Node, tag: str) -> nodes.Node:
    """The step that puts rows aside under `tag`; `node` itself when there is none."""
    step = node
    while tag not in _tags(step):
        if not isinstance(step, nodes.Select | nodes.WithColumns | nodes.Filter | Changes):
            return node
        step = step.input
    return step


def _tags(step: nodes.Node) -> Mapping[str, pa.Schema]:
    return sides_at(step) if stream_of(step) is not None else {}
