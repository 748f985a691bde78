"""The operators of a task of a stream that run in a slot, seen from their agent.

One job: `SlotChain`, which is called as a `Chain` of this process is (`fabric.operators.chain`).
Each call is a message and its answer; rows lie in shared memory. Snapshots are stored by the slot,
which says so at any time: whoever waits for something reads, and hands others what is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Condition
from typing import Any

import pyarrow as pa

from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.supervisor import SlotSupervisor
from fabric.checkpoint.manifest import FINAL, FileRecord
from fabric.control.errors import from_detail
from fabric.errors import CancelledError, ExternalError, FabricError, InternalError
from fabric.event_time import BEGINNING
from fabric.operators.contract import Batches
from fabric.plan.nodes import Node
from fabric.plan.schema import schema_of, sides_at


class SlotChain:
    """The chain of the stage `top` in a slot; a context: leaving it without an error ends it well.

    One thread calls it; what `on_barrier` returns may be waited for in another.
    """

    def __init__(self, supervisor: SlotSupervisor, top: Node) -> None:
        self._slot, self._supervisor = supervisor.slot, supervisor
        self._schema = schema_of(top)
        self._sides = sides_at(top)
        self._aside: dict[str, Batches] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._split = ""
        self.replaying = False
        """See `Chain`."""
        self._state = sp.Stepped()
        self._turn = Condition()
        self._reads = False
        """Whether a thread waits for the next message."""
        self._answer: sp.Stepped | None = None
        self._stored: dict[tuple[int, str], sp.Stored] = {}
        self._over: Exception | None = None
        """Why nothing more will come."""

    def begin(self, begin: sp.Begin) -> None:
        """Have the slot build the chain, and restore it."""
        self._ask(sp.ToSlot(begin=begin))

    def __enter__(self) -> SlotChain:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._ask(sp.ToSlot(step=sp.Step(close=sp.Close())))
                self._slot.lingers = self._state.lingers
        finally:
            self._end(CancelledError("the task has ended"))

    # ---- see `Chain`

    @property
    def watermarks(self) -> Mapping[str, int]:
        """As of the last call."""
        return self._state.watermarks

    @property
    def done(self) -> bool:
        """As of the last call."""
        return self._state.done

    @property
    def has_more(self) -> bool:
        """As of the last call."""
        return self._state.has_more

    @property
    def is_full(self) -> bool:
        """As of the last call."""
        return self._state.is_full

    def more(self) -> Batches:
        """See `Chain`."""
        return self._call(more=sp.More())

    def silent_until(self) -> int:
        """Users' functions may put out something at any time."""
        return BEGINNING

    def held_back(self) -> dict[int, frozenset[str]]:
        """As of the last call."""
        return {each.edge: frozenset(each.names) for each in self._state.held_back}

    def slowest(self) -> dict[str, int]:
        """As of the last call."""
        return {each.node: each.time_us for each in self._state.slowest}

    def counts(self) -> dict[str, dict[str, int]]:
        """As of the last call."""
        return self._counts

    def take_side(self) -> dict[str, Batches]:
        """Rows for side outputs since the last call."""
        aside, self._aside = self._aside, {}
        return aside

    def on_split(self, edge: int, split: str) -> None:
        """Goes with the next rows, which are of this edge."""
        self._split = split

    def on_split_end(self, edge: int, split: str) -> Batches:
        """See `Chain`."""
        return self._call(split_end=sp.SplitEnd(edge=edge, name=split))

    def on_batch(self, edge: int, batch: pa.RecordBatch) -> Batches:
        """See `Chain`."""
        split, self._split = self._split, ""
        placed = self._slot.channel.place(batch)
        return self._call(split=split, rows=sp.EdgeRows(edge=edge, batch=placed))

    def on_rows_into(self, path: str, batch: pa.RecordBatch) -> Batches:
        """See `Chain`."""
        placed = self._slot.channel.place(batch)
        return self._call(rows=sp.EdgeRows(batch=placed, into=path))

    def on_watermark(self, edge: int, time_us: int) -> Batches:
        """See `Chain`."""
        return self._call(watermark=sp.EdgeWatermark(edge=edge, time_us=time_us))

    def on_time(self, now_us: int) -> Batches:
        """See `Chain`."""
        return self._call(now_us=now_us)

    def on_end(self, edge: int) -> Batches:
        """See `Chain`."""
        return self._call(edge_end=edge)

    def on_watermark_alignment(self, node: str, time_us: int) -> None:
        """See `Chain`."""
        self._call(slowest=sp.SlowestSplit(node=node, time_us=time_us))

    def on_barrier(self, checkpoint: int) -> dict[str, RemoteSnapshot]:
        """Snapshots that the slot is storing."""
        self._call(barrier=checkpoint)
        return {node: RemoteSnapshot(self, checkpoint, node) for node in self._state.states}

    def on_final(self) -> dict[str, RemoteSnapshot]:
        """See `Chain`; the slot is storing it."""
        return self.on_barrier(FINAL)

    def on_complete(self, checkpoint: int) -> None:
        """See `Chain`."""
        self._call(complete=checkpoint)

    def on_abort(self, checkpoint: int) -> None:
        """See `Chain`."""
        self._call(abort=checkpoint)

    # ---- inside

    def stored(self, checkpoint: int, node: str) -> sp.Stored:
        """Wait until the slot has stored a snapshot; any thread may."""
        key = checkpoint, node
        try:
            self._wait(lambda: key in self._stored)
        except FabricError:
            raise
        except Exception as error:  # what it means is for the task's thread to find out
            raise ExternalError("the process of the task ended") from error
        return self._stored.pop(key)

    def _call(self, **step: Any) -> Batches:
        self._ask(sp.ToSlot(step=sp.Step(replaying=self.replaying, **step)))
        state, checked = self._state, self._supervisor.checked
        for side in state.sides:
            if (schema := self._sides.get(side.tag)) is None:
                raise InternalError(f"a slot put rows aside under {side.tag!r}")
            rows = [checked(placed, schema) for placed in side.rows]
            self._aside.setdefault(side.tag, []).extend(rows)
        for counted in state.counted:
            self._counts.setdefault(counted.node, {})[counted.name] = counted.n
        return [checked(placed, self._schema) for placed in state.rows]

    def _ask(self, message: sp.ToSlot) -> None:
        with self._supervisor.explaining():
            self._answer = None
            self._slot.send(message)
            self._wait(lambda: self._answer is not None)
        assert self._answer is not None
        self._state = self._answer

    def _wait(self, has_come: Callable[[], bool]) -> None:
        """Until it has: one thread reads, the others wait for what it reads."""
        with self._turn:
            while not has_come():
                if self._over is not None:
                    raise self._over
                if self._reads:
                    self._turn.wait()
                else:
                    self._read()

    def _read(self) -> None:
        """Take one message; the lock is held before and after, not meanwhile."""
        self._reads = True
        self._turn.release()
        try:
            message = self._supervisor.receive()
        except Exception as error:
            self._turn.acquire()
            self._over = error
        else:
            self._turn.acquire()
            self._take(message)
        finally:
            self._reads = False
            self._turn.notify_all()

    def _take(self, message: sp.FromSlot) -> None:
        match message.WhichOneof("kind"):
            case "stepped":
                self._answer = message.stepped
            case "stored":
                self._stored[message.stored.checkpoint, message.stored.node] = message.stored
            case "failed":
                self._over = from_detail(message.failed)
            case other:
                self._over = InternalError(f"a slot with a stream said {other}")

    def _end(self, why: Exception) -> None:
        with self._turn:
            self._over = self._over or why
            self._turn.notify_all()


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """A snapshot that its process stores by itself."""

    chain: SlotChain
    checkpoint: int
    node: str

    def stored(self) -> tuple[tuple[FileRecord, ...], int | None]:
        """Wait until it is stored: its files, and its rows. Raises why it can't be."""
        stored = self.chain.stored(self.checkpoint, self.node)
        if stored.HasField("failed"):
            raise from_detail(stored.failed)
        files = tuple(FileRecord(f.name, f.size, f.crc32c, f.content) for f in stored.files)
        return files, stored.rows if stored.HasField("rows") else None
