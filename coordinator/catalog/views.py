"""Views in the dataset catalogue: what a job shows of them, checkpoint by checkpoint.

One job: `shown`, pure: which datasets a word of an agent changes, and `check_names`. How views are
called is in `fabric/control/datasets.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import NamedTuple

from fabric.control import control_pb2 as pb
from fabric.control.datasets import FINAL, LIVE, VIEW, is_live, job_of, live_name
from fabric.coordinator.core.agents.validation import COUNT_MAX
from fabric.errors import ConfigError
from fabric.ids import check_name
from fabric.plan.bounds import DATASET_PARTITIONS_MAX


def shown(
    known: Mapping[str, pb.DatasetLocation], request: pb.DatasetView, running: Collection[str]
) -> tuple[list[pb.DatasetLocation], list[str]]:
    """A view as its job had it at a checkpoint: what is changed, and the names that are no more.

    An older checkpoint changes nothing.

    Raises
    ------
    ConfigError
        There is a dataset of one of its names which is no view, or that of another job that is
        among the `running`; or this is no checkpoint of one.
    """
    moment = _moment(request.transaction)
    _check(request)
    beside = live_name(request.name)
    before, live = known.get(request.name), known.get(beside)
    check_names(known, request.name, frozenset(running) - {moment.job})
    there = None if before is None else _moment(before.parts[0].transaction)
    if there is not None and there.job == moment.job and there >= moment:
        return [], []
    changed = [_location(request, request.name, moment, request.transaction, before)]
    if moment.is_last:
        return changed, [] if live is None else [beside]
    now = _location(request, beside, moment, moment.live, live)
    if live is None or (live.owners, live.parts[0].transaction) != (now.owners, moment.live):
        changed.append(now)
    return changed, []


def check_names(
    known: Mapping[str, pb.DatasetLocation], name: str, running: Collection[str]
) -> None:
    """Refuse a view that would take the place of anything but a view whose job has ended."""
    there, live = known.get(name), known.get(live_name(name))
    for other in (there, live):
        if other is None:
            continue
        job = job_of(other)
        if not job or is_live(other) != (other is live):
            raise ConfigError(
                f"dataset {other.name!r} exists and is not a view called {name!r}; give the view "
                f'another name, or drop the dataset: session.drop_dataset("{other.name}")'
            )
        if job in running:
            raise ConfigError(
                f"view {name!r} is kept by job {job}, which runs; cancel it first, or give this "
                "view another name"
            )


class _Moment(NamedTuple):
    """A checkpoint of a view, in the order in which they come; the last one has no number."""

    job: str
    run: int
    checkpoint: float

    @property
    def is_last(self) -> bool:
        """What its tasks had at their end."""
        return self.checkpoint == inf

    @property
    def live(self) -> str:
        """The transaction of what its tasks have now."""
        return f"{VIEW}{self.job}.{self.run}.{LIVE}"


def _moment(transaction: str) -> _Moment:
    head, _, checkpoint = transaction.rpartition(".")
    head, _, run = head.rpartition(".")
    last = checkpoint == FINAL
    if not head.startswith(VIEW) or not run.isdecimal() or not (last or checkpoint.isdecimal()):
        raise ConfigError(f"{transaction[:128]!r} is not a checkpoint of a view")
    return _Moment(head.removeprefix(VIEW), int(run), inf if last else int(checkpoint))


def _check(request: pb.DatasetView) -> None:
    check_name(live_name(request.name), "view name")
    check_name(request.transaction, "transaction")
    if not request.keys or not 0 < len(request.owners) <= DATASET_PARTITIONS_MAX:
        raise ConfigError(f"view {request.name!r} has no key, or can't have so many partitions")
    if request.rows > COUNT_MAX:
        raise ConfigError(f"view {request.name!r} can't have {request.rows} rows")


def _location(
    request: pb.DatasetView,
    name: str,
    moment: _Moment,
    transaction: str,
    before: pb.DatasetLocation | None,
) -> pb.DatasetLocation:
    return pb.DatasetLocation(
        name=name,
        version=1 + (0 if before is None else before.version),
        schema=request.schema,
        keys=request.keys,
        n_partitions=len(request.owners),
        owners=request.owners,
        parts=[pb.CommittedPart(transaction=transaction, writer="view", rows=request.rows)],
        rows=request.rows,
        replicas=1,
        made_by=f"{VIEW}{moment.job}",
    )
