"""The states of a `KeyedProcess` as the state store knows them.

One job: `state_specs`. Functions of folding states are the user's objects: a fold by name, a
function of two values, or an `Aggregate` (or what its parts are, in order).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fabric.operators.functions.trust import load_anew
from fabric.plan.nodes import StateField
from fabric.plan.types import plain
from fabric.state import Aggregate, StateSpec


def state_specs(states: Sequence[StateField], keys: pa.Schema) -> list[StateSpec]:
    """One each, over keys of the schema `keys`.

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
            function=_function(state),
            ttl_us=state.ttl_us,
            ttl_on=state.ttl_on,
        )
        for state in states
    ]


def _function(state: StateField) -> Any:
    if state.function is None:
        return None
    found = load_anew(state.function)
    if isinstance(found, tuple):
        create, add, *result = found
        return Aggregate(create=create, add=add, result=result[0] if result else None)
    return found
