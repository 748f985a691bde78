"""The verbs of datasets: transactions begun, committed, aborted and taken back, datasets dropped.

`DatasetVerbs` moves the catalogue and tells agents where the rows are now.
"""

from __future__ import annotations

from fabric.control import control_pb2 as pb
from fabric.coordinator.catalog.catalogue import Catalogue
from fabric.coordinator.core.agents.agents import Agents, Announcer
from fabric.coordinator.core.agents.replication import Replication
from fabric.coordinator.core.effects import DatasetAnswered, Effect
from fabric.coordinator.core.events import DatasetAsked
from fabric.coordinator.core.jobs.job_registry import JobRegistry
from fabric.coordinator.metadata.store import Write
from fabric.errors import NotFoundError


class DatasetVerbs:
    """Over one `catalogue`."""

    def __init__(
        self,
        registry: JobRegistry,
        agents: Agents,
        announcer: Announcer,
        catalogue: Catalogue,
        replication: Replication,
    ) -> None:
        self._registry, self._agents, self._announcer = registry, agents, announcer
        self._catalogue, self._replication = catalogue, replication

    def handle(self, event: DatasetAsked, now: float) -> list[Effect]:
        """The reply, after what it tells is written down and agents are told."""
        request, catalogue = event.request, self._catalogue
        reply = pb.DatasetReply(addresses=self._agents.addresses())
        writes: list[Write] = []
        changed = pb.Locations()
        effects: list[Effect] = []
        match request.WhichOneof("kind"):
            case "begin":
                agents = self._agents.ids()
                transaction, writes = catalogue.begin(
                    request.begin, event.transaction_id, agents, self._registry.steady_s(now)
                )
                reply.transaction = transaction.transaction
                reply.location.CopyFrom(transaction.location())
            case "commit":
                location, writes, new = catalogue.commit(request.commit)
                reply.transaction = request.commit.transaction
                reply.location.CopyFrom(location)
                if new is not None:
                    changed.datasets.append(new)
                    effects = self._replication.appended(new)
            case "abort":
                writes = catalogue.abort(request.abort.transaction)
            case "take_back":
                writes, taken = catalogue.take_back(request.take_back.transaction)
                if taken is not None:
                    reply.location.CopyFrom(taken)
                    changed.datasets.append(taken)
            case "drop":
                writes = catalogue.drop(request.drop.name)
                changed.dropped_datasets.append(request.drop.name)
                if self._registry.who:
                    effects = self._registry.note(now, "dataset dropped", dataset=request.drop.name)
            case "list":
                reply.datasets.extend(catalogue.all())
            case "view":
                shown, dropped, writes = catalogue.show(request.view, self._registry.running)
                changed.datasets.extend(shown)
                changed.dropped_datasets.extend(dropped)
                reply.datasets.extend(shown)
            case _:
                raise NotFoundError(
                    "a dataset request says begin, commit, abort, drop, list or view"
                )
        self._registry.write(*writes)
        told = changed.datasets or changed.dropped_datasets
        before = self._announcer.tell(changed) if told else []
        return [*before, *effects, DatasetAnswered(reply)]
