"""One task that runs in a slot, seen from its agent.

One job: `SlotTask`: give the slot its task, answer what it asks for, hand on the rows it makes,
and say what it means when it ends otherwise. Rows are taken before they are passed on: the slot
makes the next ones meanwhile, and no more than those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from fabric.agent.attempts import TaskSpec
from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.supervisor import SlotSupervisor
from fabric.control.errors import from_detail
from fabric.errors import InternalError
from fabric.io import places, sources
from fabric.io.object_options import check_reach
from fabric.operators.fragment.session import Input
from fabric.plan.nodes import Node, Scan
from fabric.plan.schema import schema_of
from fabric.plan.sources import FileSource, Split
from fabric.plan.walk import walk

HELD_SHARE = 4
"""Where memory is bounded, inputs of more than such a part of the pool are read when needed."""

TAKE_ITEMS, TAKE_BYTES = 16, 2 << 20
"""What a slot is given at once: each time costs two switches between processes."""

Items = Iterator[tuple[int, pa.RecordBatch | None]]


class SlotTask:
    """`rows` is what the task puts out; the iterator belongs to the task's thread."""

    def __init__(
        self,
        supervisor: SlotSupervisor,
        spec: TaskSpec,
        root: Node,
        *,
        items: Items,
        inputs: Mapping[int, Input],
        splits: Mapping[int, Sequence[Split]],
    ) -> None:
        self._slot, self._limits = supervisor.slot, supervisor.limits
        self._supervisor, self._spec, self._root = supervisor, spec, root
        self._items, self._inputs, self._splits = items, dict(inputs), splits
        self._schema = schema_of(root)
        self._readers: dict[int, Items] = {}

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Run it; raises what it failed by."""
        self._check_files()
        with self._supervisor.explaining():
            self._slot.send(sp.ToSlot(run=self._run()))
            yield from self._answer_all()

    def _check_files(self) -> None:
        """A slot reads files itself, and asks nobody whether plans may."""
        for node in walk(self._root):
            if isinstance(node, Scan) and isinstance(node.source, FileSource):
                for split in self._splits.get(node.scan_id, ()):
                    places.check_input(split.uri)
                    check_reach(node.source, [split.uri])

    def _run(self) -> sp.Run:
        spec, limits = self._spec, self._limits
        return sp.Run(
            task=str(spec.id),
            fragment=spec.deploy.fragment,
            kind=spec.deploy.kind,
            inputs=[self._described(edge, rows) for edge, rows in self._inputs.items()],
            scans=spec.assignment.scans,
            target_partitions=spec.deploy.target_partitions,
            pool_bytes=limits.pool_bytes,
            spill_folders=map(str, self._slot.spills_to(limits.spill_folders)),
        )

    def _described(self, edge: int, rows: Input) -> sp.Input:
        if not isinstance(rows, Sequence):
            return sp.Input(
                edge=edge, n_parts=len(rows.parts()), n_rows=rows.n_rows, n_bytes=rows.n_bytes
            )
        n_bytes = sum(batch.nbytes for batch in rows)
        pool = self._limits.pool_bytes
        return sp.Input(
            edge=edge,
            held=not pool or n_bytes <= pool // HELD_SHARE,
            n_parts=1,
            n_rows=sum(batch.num_rows for batch in rows),
            n_bytes=n_bytes,
        )

    def _answer_all(self) -> Iterator[pa.RecordBatch]:
        while True:
            asked = self._supervisor.receive()
            for reader in asked.let_go:
                self._readers.pop(reader, None)
            match asked.WhichOneof("kind"):
                case "take":
                    self._slot.send(sp.ToSlot(rows=self._next(asked.take)))
                case "put":
                    batch = self._supervisor.checked(asked.put.batch, self._schema)
                    if asked.put.waits:
                        self._slot.send(sp.ToSlot(accepted=sp.Accepted()))
                    yield batch
                    del batch
                case "done":
                    self._slot.lingers = asked.done.lingers
                    return
                case "failed":
                    raise from_detail(asked.failed)
                case other:
                    raise InternalError(f"a slot said {other}")

    def _next(self, take: sp.Take) -> sp.Rows:
        """Of what lies here several batches at once; of what others still make one."""
        if take.reader not in self._readers:
            self._readers[take.reader] = self._open(take)
        reader, rows, n_bytes = self._readers[take.reader], sp.Rows(), 0
        for edge, batch in reader:
            rows.edge = edge
            if batch is None:
                rows.of_edge = True
                return rows
            rows.batches.append(self._slot.channel.place(batch))
            n_bytes += batch.nbytes
            if reader is self._items or n_bytes >= TAKE_BYTES or len(rows.batches) >= TAKE_ITEMS:
                return rows
        if not rows.batches:
            del self._readers[take.reader]
        return rows

    def _open(self, take: sp.Take) -> Items:
        match take.WhichOneof("source"):
            case "items":
                return self._items
            case "part":
                return self._part(take.part)
            case "split":
                return _at(0, self._read_split(take.split))
            case other:
                raise InternalError(f"a slot wants to read {other}")

    def _part(self, part: sp.Part) -> Items:
        rows = self._inputs.get(part.edge)
        if rows is None:
            raise InternalError(f"a slot wants to read edge {part.edge}")
        if isinstance(rows, Sequence):
            return _at(part.edge, rows)
        return _at(part.edge, rows.parts()[part.part]())

    def _read_split(self, ask: sp.ReadSplit) -> Iterator[pa.RecordBatch]:
        for node in walk(self._root):
            if isinstance(node, Scan) and node.scan_id == ask.scan_id:
                split = self._splits[ask.scan_id][ask.split]
                return sources.read_split(node.source, node.schema, split, list(ask.columns))
        raise InternalError(f"a slot wants to read scan {ask.scan_id}")


def _at(edge: int, batches: Iterable[pa.RecordBatch]) -> Items:
    return ((edge, batch) for batch in batches)
