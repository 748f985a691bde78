"""Writing a dataset of this fabric from the tasks of a job.

One job: the sink of a `DatasetTarget`. All tasks of the stage share one transaction (its
idempotency key is the stage), each is a writer of its own; rows go to the owners at once, and
become a version when the coordinator publishes the handles of all tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fabric.checkpoint.manifest import FINAL
from fabric.control import control_pb2 as pb
from fabric.control.datasets import all_owners
from fabric.errors import NotFoundError, PeerLostError, PlanError
from fabric.flight.descriptor import PutPath
from fabric.flight.owners import Spread
from fabric.ids import TaskId
from fabric.io.dataset.access import DatasetAccess, current
from fabric.io.sinks.protocol import Epochs, Handle, SinkStart, SinkWriter, grouped
from fabric.plan.targets import DatasetTarget


def check_stream(target: DatasetTarget, schema: pa.Schema, **_: object) -> None:
    """Refuse what a stream would overwrite."""
    if target.mode == "overwrite":
        raise PlanError(
            f"a stream appends: dataset {target.name!r} can't be overwritten by one; drop it "
            'first, or use mode "append"'
        )


def open_sink(
    target: DatasetTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> DatasetSink:
    """The writer of a task of a bounded job: those of a stage share a transaction."""
    return DatasetSink(target, schema, task, f"{task.job}.{task.stage}", target.mode)


def open_stream(
    target: DatasetTarget, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
) -> SinkWriter:
    """The writer of a stream's task: those between two barriers share a transaction.

    A view keeps its rows as the job keeps its state.
    """
    check_stream(target, schema)
    if target.mode == "view":
        from fabric.io.sinks import view  # brings stores of columns, which others don't need

        return view.open_view(target, view.Place(task, n_tasks, start.run), schema, start)
    key = f"{task.job}.{task.stage}"
    make(target, schema, f"{key}.made")
    return Epochs(
        lambda since: DatasetSink(target, schema, task, f"{key}.{start.run}.{since}", "append")
    )


class DatasetSink(SinkWriter):
    """One task's writer; tasks with the same `key` share a transaction."""

    def __init__(
        self, target: DatasetTarget, schema: pa.Schema, task: TaskId, key: str, mode: str
    ) -> None:
        access = current()
        begin = _begin(target, schema, mode, key)
        begun = access.control.dataset(pb.DatasetRequest(begin=begin))
        addresses = {**access.locations.addresses(), **begun.addresses}
        self._put = PutPath(target.name, begun.transaction, f"task-{task.task}", task.attempt)
        self._schema = schema
        self._spread = Spread(self._put, begun.location, access.transport, addresses)

    def write(self, batch: pa.RecordBatch) -> None:
        """Send rows to their owners."""
        self._spread.write(batch)

    def prepare(self, checkpoint: int = FINAL) -> bytes:
        """Wait until the rows lie durably with their owners."""
        receipt = self._spread.seal()
        put = self._put
        facts = {
            "dataset": put.name,
            "transaction": put.transaction,
            "writer": put.writer,
            "attempt": put.attempt,
            "rows": receipt.rows,
        }
        return Handle("dataset", facts).encode()

    def abandon(self) -> None:
        """Forget what this task wrote."""
        self._spread.abandon()


def make(target: DatasetTarget, schema: pa.Schema, key: str) -> None:
    """Have the dataset there, without rows if it is new: all that is appended has its layout.

    Raises
    ------
    PlanError
        Another job than that of `key` made it, and the target's mode is "create".
    """
    access = current()
    try:
        found = access.location(target.name)
    except NotFoundError:
        begin = _begin(target, schema, "append", key)
        begun = access.control.dataset(pb.DatasetRequest(begin=begin))
        commit = pb.DatasetCommit(transaction=begun.transaction)
        found = access.control.dataset(pb.DatasetRequest(commit=commit)).location
        access.locations.merge(pb.Locations(datasets=[found]))
    if target.mode == "create" and _job_of(found.made_by) != _job_of(key):
        raise stream_refused(found)


def stream_refused(found: pb.DatasetLocation) -> PlanError:
    """A stream that does not append was to write a dataset that is there."""
    job = _job_of(found.made_by)
    by = f", made by job {job}" if job.startswith("job-") else ""
    return PlanError(
        f"dataset {found.name!r} exists already{by}: a stream writes a dataset of its own, so that "
        "no row is there twice when its program is run again. Write to another dataset; or drop "
        f'this one to begin anew: session.drop_dataset("{found.name}"); or use mode="append" to '
        "add rows to what is there. A stream with a name= goes on where its program was stopped"
    )


def _job_of(key: str) -> str:
    """The job that an idempotency key of ours begins with."""
    return key.partition(".")[0]


def _begin(target: DatasetTarget, schema: pa.Schema, mode: str, key: str) -> pb.DatasetBegin:
    return pb.DatasetBegin(
        name=target.name,
        schema=schema.serialize().to_pybytes(),
        keys=target.keys,
        n_partitions=target.n_partitions,
        mode=mode,
        replicas=target.replicas,
        idempotency_key=key,
    )


def publish(handles: Sequence[Handle]) -> None:
    """Commit what the tasks prepared, all at once; may be repeated."""
    access = current()
    for parts in grouped(handles, "transaction"):
        transaction = parts[0]["transaction"]
        commit = pb.DatasetCommit(
            transaction=transaction,
            parts=[
                pb.CommittedPart(
                    transaction=transaction,
                    writer=part["writer"],
                    attempt=part["attempt"],
                    rows=part["rows"],
                )
                for part in parts
            ],
        )
        try:
            reply = access.control.dataset(pb.DatasetRequest(commit=commit))
        except NotFoundError:
            if _is_committed(access, parts[0]["dataset"], transaction):
                continue  # so long ago that only its rows are remembered
            raise
        access.locations.merge(pb.Locations(datasets=[reply.location]))


def take_back(handles: Sequence[Handle]) -> None:
    """Have a version without these rows follow; readers of earlier ones keep them."""
    access = current()
    for parts in grouped(handles, "transaction"):
        taken = pb.DatasetTakeBack(transaction=parts[0]["transaction"])
        reply = access.control.dataset(pb.DatasetRequest(take_back=taken))
        if reply.HasField("location"):
            access.locations.merge(pb.Locations(datasets=[reply.location]))


def abandon(handles: Sequence[Handle]) -> None:
    """Abort the transaction and have its owners remove the files; may be repeated."""
    access = current()
    for parts in grouped(handles, "transaction"):
        name, transaction = parts[0]["dataset"], parts[0]["transaction"]
        owners = _owners(access, name, transaction)
        if not owners:  # committed by the publishing agent, or aborted already
            continue
        access.control.dataset(pb.DatasetRequest(abort=pb.DatasetAbort(transaction=transaction)))
        for owner in sorted(owners):
            try:
                address = access.address(owner, name)
                access.transport.discard(address, name, transaction)
            except (PeerLostError, NotFoundError):
                continue  # that owner's sweep removes the files


def discard(target: DatasetTarget, job: str, stage: int, *, published: bool, **_: object) -> None:
    """At a job's end: a view has no rows any more, unless it came to its end."""
    if target.mode == "view":
        from fabric.io.sinks import view  # as above

        view.discard(target, job, published=published)


def _is_committed(access: DatasetAccess, name: str, transaction: str) -> bool:
    try:
        return any(part.transaction == transaction for part in access.location(name).parts)
    except NotFoundError:
        return False


def _owners(access: DatasetAccess, name: str, transaction: str) -> set[str]:
    try:
        answer = access.control.locate(pb.LocateRequest(dataset=transaction))
    except NotFoundError:
        return set()
    return {owner for at in answer.datasets if at.name == name for owner in all_owners(at)}
