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
        """Rows of a `fabric.Process` of your own: called by key, with state and timers.

        Parameters
        ----------
        function
            The `Process`; each task gets its own copy.
        schema
            The columns that it puts out.
        state
            States by name: `fabric.streams.value_state`, `list_state`, `map_state` …
        timers
            Which it sets: ``event``, ``processing`` or both.
        time
            The column put out that is event time, for windows after it.
        sides
            The columns of each side output, by tag.
        on_error
            When it raises, takes longer than `timeout` or returns other columns: ``fail``, ``skip``
            the row, or ``side``: it is in ``.side_output("errors")``, with the columns ``error``,
            ``error_node`` and ``error_attempt``. A call about many rows that fails is made again
            with fewer, so only the rows that fail alone are taken. They have changed no state.
        timeout
            For each call; by default none. Python code is interrupted, and the rows go by
            `on_error`; on agents a call that does not come back has its process ended 5 s later,
            which ends the job.
        broadcast
            Rules, prices, settings: a stream or a table that every task holds whole, in the same
            order. The function reads them from ``ctx.broadcast``, and its ``on_broadcast`` is told
            of those that come. A table is read before the first row; rows that come before the
            first row of a stream find none. See ``docs/broadcast.md``.
        broadcast_keys
            Columns of `broadcast`: of rows with equal ones the newest is kept. By default all rows
            are kept.
        broadcast_deleted
            A condition over columns of `broadcast`: a row of which it is true removes its key.
        broadcast_memory
            How many bytes they may take in each task, at most 2 GiB; more end the job.

        Examples
        --------
        >>> import fabric
        >>> class Halves(fabric.Process):
        ...     def on_rows(self, ctx, key, rows):
        ...         for row in rows["row"].to_pylist():
        ...             if row % 4 == 3:
        ...                 raise ValueError(f"{row} is no use")
        ...             yield {"key": key, "row": row}
        >>> rows = fabric.streams.generator(n_rows=8, n_splits=1, n_keys=1)
        >>> halves = rows.process(
        ...     Halves(), keys="key", schema={"key": "int64", "row": "int64"}, on_error="side"
        ... )
        >>> halves.collect()["row"].to_pylist()
        [0, 1, 2, 4, 5, 6]
        >>> halves.side_output("errors").collect()["error"][0].as_py()  # doctest: +ELLIPSIS
        'the function Halves raised ValueError: 3 is no use (line 5 of ...)'
        >>> class Above(fabric.Process):
        ...     def on_rows(self, ctx, key, rows):
        ...         limit = ctx.broadcast.get(key)["limit"]
        ...         return [{"key": key, "row": r} for r in rows["row"].to_pylist() if r > limit]
        >>> above = rows.process(
        ...     Above(), keys="key", schema={"key": "int64", "row": "int64"},
        ...     broadcast=fabric.DataFrame({"key": [0], "limit": [5]}), broadcast_keys="key",
        ... )
        >>> above.collect()["row"].to_pylist()
        [6, 7]
        """
        chosen = args.expressions(args.flatten([keys]), {}, self.schema)
        domains: tuple[Domain, ...] = (timers,) if isinstance(timers, str) else tuple(timers)
        broadcasts = broadcast is not None
        name = type(check_process(function, domains, broadcasts=broadcasts)).__name__
        node = KeyedProcess(
            self._node, chosen, own_object(function, name), to_schema(schema, "process"),
            _states({} if state is None else state), domains,
            _sides({} if sides is None else sides), on_error,
            maybe_us(timeout, "timeout", least=1) or 0, column_name(time, "process"),
        )  # fmt: skip
        told = tuple(column_name(key, "process") for key in args.flatten([broadcast_keys]))
        gone = None
        if broadcast_deleted is not None:
            gone = args.predicate([broadcast_deleted], {}, "process")
        if broadcast is None:
            return self._then(replace(node, broadcast_keys=told, broadcast_deleted=gone))
        rules = self._other(broadcast, "process")
        node = replace(
            node, broadcast=rules._node, broadcast_is=broadcast_kind(stream_of(rules._node)),
            broadcast_keys=told, broadcast_deleted=gone, broadcast_bytes=ByteSize(broadcast_memory),
        )  # fmt: skip
        return self._with((rules,), node)

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
