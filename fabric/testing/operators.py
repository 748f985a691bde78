"""One harness for every operator: straight, aborted and restored, and with another number of tasks.

One job: run the same steps in these ways, so that a test can say the outputs agree. Snapshots are
taken before each step; an abort throws away the operator and what it put out since, as a sink
would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from fabric.operators.contract import Batches, Context, Operator
from fabric.operators.key_groups import N_KEY_GROUPS, key_groups

Make = Callable[[], Operator]
Input = Sequence[tuple[int, pa.RecordBatch]]
"""Batches with the number of the input they come in on."""


@dataclass(slots=True)
class Kept:
    """One snapshot in memory: what is written to it is what is read from it."""

    files: dict[str, pa.Buffer] = field(default_factory=dict)

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """See `SnapshotWriter`."""
        assert name not in self.files, f"{name} was written twice"
        self.files[name] = pa.py_buffer(bytes(data))

    def link(self, name: str, path: Path, content: str) -> None:
        """See `SnapshotWriter`; read at once."""
        self.put(name, path.read_bytes())

    def names(self) -> list[str]:
        """See `SnapshotReader`."""
        return sorted(self.files)

    def read(self, name: str) -> pa.Buffer:
        """See `SnapshotReader`."""
        return self.files[name]

    def fetch(self, name: str, to: Path) -> None:
        """See `SnapshotReader`."""
        to.write_bytes(self.files[name])


def run_straight(make: Make, inputs: Input, n_inputs: int = 1) -> Batches:
    """What the operator puts out when nothing goes wrong.

    >>> from fabric.operators.limit import LimitOperator
    >>> batch = pa.record_batch({"a": [1, 2, 3]})
    >>> [b.num_rows for b in run_straight(lambda: LimitOperator(4, 0), [(0, batch), (0, batch)])]
    [3, 1]
    """
    operator = _opened(make)
    out = [batch for index, batch in inputs for batch in operator.on_batch(index, batch)]
    return out + _ended(operator, n_inputs)


def run_aborted(make: Make, inputs: Input, abort_at: int, n_inputs: int = 1) -> Batches:
    """The same with a failure while batch `abort_at` is worked on, and a restore."""
    operator, published = _opened(make), []
    state, begin = Kept(), max(0, abort_at - 1)
    for checkpoint, (index, batch) in enumerate(inputs[: abort_at + 1]):
        if checkpoint <= begin:
            state = _state(operator, checkpoint)
            operator.on_complete(checkpoint)
        rows = operator.on_batch(index, batch)
        if checkpoint < begin:
            published += rows
    operator.on_abort(begin + 1)
    operator.close()
    again = _opened(make)
    again.restore([state] if state.files else [], range(N_KEY_GROUPS))
    for index, batch in inputs[begin:]:
        published += again.on_batch(index, batch)
    return published + _ended(again, n_inputs)


def run_rescaled(make: Make, inputs: Input, n_before: int, n_after: int) -> Batches:
    """Half the input on `n_before` tasks, the rest on `n_after` that took over their state."""
    half = len(inputs) // 2
    before = [_opened(make, i, n_before) for i in range(n_before)]
    out: Batches = []
    for number, (index, batch) in enumerate(inputs[:half]):
        out += before[number % n_before].on_batch(index, batch)
    states = [state for operator in before if (state := _state(operator, 0)).files]
    after = [_opened(make, i, n_after) for i in range(n_after)]
    for i, operator in enumerate(after):
        operator.restore(states, key_groups(i, n_after))
    for number, (index, batch) in enumerate(inputs[half:]):
        out += after[number % n_after].on_batch(index, batch)
    return out + [batch for operator in after for batch in _ended(operator, 1)]


def _opened(make: Make, task: int = 0, n_tasks: int = 1) -> Operator:
    operator = make()
    operator.open(Context("tested", task, n_tasks))
    return operator


def _state(operator: Operator, checkpoint: int) -> Kept:
    kept = Kept()
    operator.on_barrier(checkpoint).write(kept)
    return kept


def _ended(operator: Operator, n_inputs: int) -> Batches:
    out = [batch for index in range(n_inputs) for batch in operator.on_end(index)]
    operator.close()
    return out
