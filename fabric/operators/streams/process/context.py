"""What a call of a user's function may use: states, timers, side outputs, times.

One job: the `ProcessContext` that users see. The same object serves all calls of an operator: the
operator says whose call it is before each. `state_specs` are the node's states as the state store
knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from fabric.errors import InternalError, PlanError
from fabric.event_time import BEGINNING
from fabric.operators.contract import Batches
from fabric.operators.functions.trust import load_anew
from fabric.operators.streams.process.returned_rows import rows_of_returned
from fabric.operators.streams.process.timer_service import Requests, as_us, times_of
from fabric.plan.faults import with_article
from fabric.plan.nodes import StateField
from fabric.plan.process import BroadcastRows, Rows, Time, TimerDomain
from fabric.plan.types import plain
from fabric.state import Aggregate, State, StateSpec, StateStore
from fabric.state.spec import Fold

_OF_ONE_KEY: Mapping[str, tuple[str, ...]] = {
    "value": ("get", "put", "remove"),
    "list": ("get", "append", "extend", "put", "clear"),
    "map": ("get", "contains", "put", "remove", "items", "clear"),
    "reducing": ("get", "add", "remove"),
    "aggregating": ("get", "add", "remove"),
}


class CallContext:
    """See `fabric.plan.process.ProcessContext`."""

    def __init__(
        self, store: StateStore, requests: Requests, sides: Mapping[str, pa.Schema]
    ) -> None:
        self.watermark = BEGINNING
        self.now = BEGINNING
        self.timers = CallTimers(self, requests)
        self._store = store
        self._side_schemas = sides
        self._sides: list[tuple[str, pa.RecordBatch]] = []
        self._keyed: dict[str, KeyedState] = {}
        self.keys: pa.RecordBatch | None = None
        """The keys that the call is about."""
        self.row: int | None = None
        """The one among them whose call it is; None: it is about all."""
        self.key: Any = None
        self.kept_broadcast: BroadcastRows | None = None

    @property
    def broadcast(self) -> BroadcastRows:
        """See `ProcessContext`."""
        if self.kept_broadcast is None:
            raise PlanError(
                "nothing is broadcast to this step; write: .process(…, broadcast=rules)"
            )
        return self.kept_broadcast

    def of_none(self) -> None:
        """The next call is about no key."""
        self.keys, self.row, self.key = None, None, None

    def of_all(self, keys: pa.RecordBatch) -> None:
        """The next call is about all of `keys`."""
        self.keys, self.row, self.key = keys, None, None

    def of_one(self, keys: pa.RecordBatch, row: int, key: Any) -> None:
        """The next call is about one of `keys`."""
        self.keys, self.row, self.key = keys, row, key

    def state(self, name: str) -> Any:
        """See `ProcessContext`."""
        self.check_keyed("states")
        if self.row is None:
            return self._state(name)
        found = self._keyed.get(name)
        if found is None:
            found = self._keyed[name] = KeyedState(self, self._state(name))
        return found

    def side(self, tag: str, rows: Rows) -> None:
        """See `ProcessContext`."""
        self.check_keyed("side outputs")
        schema = self._side_schemas.get(tag)
        if schema is None:
            known = ", ".join(self._side_schemas) or "none"
            raise PlanError(f"the side {tag!r} was not declared; declared are: {known}")
        self._sides += [(tag, batch) for batch in rows_of_returned(rows, schema)]

    def check_keyed(self, what: str) -> pa.RecordBatch:
        """The keys that the call is about; refuses one that is about none."""
        if self.keys is None:
            raise PlanError(
                f"on_broadcast is called in every task, about no key, and has no {what}; keep what "
                "it prepares in attributes of the instance, and go on in on_rows or on_batch"
            )
        return self.keys

    def put_aside(self, tag: str, batch: pa.RecordBatch) -> None:
        """Keep a batch for the side `tag`."""
        self._sides.append((tag, batch))

    @property
    def n_aside(self) -> int:
        """How many batches wait for `take_side`."""
        return len(self._sides)

    def forget_sides(self, n: int) -> None:
        """Take back all but the first `n` batches."""
        del self._sides[n:]

    def take_side(self) -> dict[str, Batches]:
        """Batches put aside since the last call, by tag."""
        found: dict[str, Batches] = {}
        for tag, batch in self._sides:
            found.setdefault(tag, []).append(batch)
        self._sides = []
        return {tag: [pa.concat_batches(batches)] for tag, batches in found.items()}

    def _state(self, name: str) -> Any:
        if name not in self._store.names:
            known = ", ".join(self._store.names) or "none"
            raise PlanError(f"the state {name!r} was not declared; declared are: {known}")
        return self._store.state(name)


class KeyedState:
    """A state of the key whose call it is: methods of the state without their first argument."""

    __slots__ = ("_context", "_methods", "_state")

    def __init__(self, context: CallContext, state: State) -> None:
        self._context = context
        self._state = state
        self._methods = _OF_ONE_KEY[state.spec.kind]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in self._methods and self._context.row is not None:
            return partial(getattr(self._state, name), self._context.key)
        kind, known = self._state.spec.kind, ", ".join(self._methods)
        raise AttributeError(f"{with_article(kind)} state of one key has {known}, not {name}")


class CallTimers:
    """See `fabric.plan.process.ProcessTimers`."""

    def __init__(self, context: CallContext, requests: Requests) -> None:
        self._context = context
        self._requests = requests

    def set(self, time: Time, domain: TimerDomain = "event") -> None:
        """See `ProcessTimers`."""
        self._one(True, time, domain)

    def cancel(self, time: Time, domain: TimerDomain = "event") -> None:
        """See `ProcessTimers`."""
        self._one(False, time, domain)

    def set_many(
        self, keys: pa.RecordBatch, times: pa.Array, domain: TimerDomain = "event"
    ) -> None:
        """See `ProcessTimers`."""
        self._many(True, keys, times, domain)

    def cancel_many(
        self, keys: pa.RecordBatch, times: pa.Array, domain: TimerDomain = "event"
    ) -> None:
        """See `ProcessTimers`."""
        self._many(False, keys, times, domain)

    def _one(self, is_set: bool, time: Time, domain: TimerDomain) -> None:
        keys, row = self._context.check_keyed("timers"), self._context.row
        if row is None:
            raise PlanError("a call about many keys sets their timers with set_many(keys, times)")
        self._requests.ask(domain, is_set, keys, row, as_us(time))

    def _many(
        self, is_set: bool, keys: pa.RecordBatch, times: pa.Array, domain: TimerDomain
    ) -> None:
        wanted = self._context.check_keyed("timers").schema
        if not keys.schema.equals(wanted):
            raise PlanError(f"timers are of the keys {wanted.names}, got {keys.schema.names}")
        rows = np.arange(keys.num_rows)
        self._requests.ask(domain, is_set, keys, rows, times_of(times, keys.num_rows))


def state_specs(
    states: Sequence[StateField], keys: pa.Schema, *, told: bool = False
) -> list[StateSpec]:
    """One each, over keys of the schema `keys`.

    What is `told` is only read: no function is loaded.

    >>> [spec] = state_specs([StateField("n", "value", pa.int64())], pa.schema({"k": "string"}))
    >>> spec.name, spec.kind, spec.function
    ('n', 'value', None)
    """
    plain_keys = pa.schema([field.with_type(plain(field.type)) for field in keys])
    return [
        StateSpec(
            name=state.name,
            kind=state.kind,
            keys=plain_keys,
            dtype=plain(state.dtype),
            key_dtype=None if state.key_dtype is None else plain(state.key_dtype),
            function=_stand_in(state) if told else _function(state),
            ttl_us=state.ttl_us,
            ttl_on=state.ttl_on,
        )
        for state in states
    ]


def _stand_in(state: StateField) -> Any:
    """In place of a function, for a state that takes no more values."""
    if state.function is None:
        return None
    if state.kind == "aggregating":
        return Aggregate(create=_not_called, add=_not_called)
    return state.function.name if state.function.name in get_args(Fold) else _not_called


def _not_called(*_: object) -> Any:
    raise InternalError("a state that is only read takes no values")


def _function(state: StateField) -> Any:
    if state.function is None:
        return None
    found = load_anew(state.function)
    if isinstance(found, tuple):
        create, add, *result = found
        return Aggregate(create=create, add=add, result=result[0] if result else None)
    return found
