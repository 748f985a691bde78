"""Partitions of datasets that lack an owner get another one.

One job: choose who takes over from an agent that stayed away for `rereplicate_s` or that drains,
have it copy the partition from an owner that is there, and write it down as an owner once it has
all of it. What is lacking is seen in the catalogue alone, so nothing of a copy under way needs to
outlive a coordinator: an order may be given again. An agent that attaches is told what is still its
own of each dataset, and removes the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fabric.control import control_pb2 as pb
from fabric.control.datasets import by_partition, n_replicas, owners_of
from fabric.coordinator.catalog.catalogue import Catalogue
from fabric.coordinator.catalog.replicas import successor
from fabric.coordinator.core.agents.agents import Agent, Agents, Announcer
from fabric.coordinator.core.effects import Effect
from fabric.coordinator.core.jobs.job_registry import JobRegistry

COPIES_MAX = 4
"""Partitions on their way at a time, of all agents together."""
LOOK_S = 1.0
"""Between two looks through the catalogue when nothing happens."""
PAUSE_S = 5.0
"""Before a partition that could not be copied is tried again; it doubles up to `PAUSE_MAX_S`."""
PAUSE_MAX_S = 300.0


@dataclass(frozen=True, slots=True)
class _Copy:
    dataset: str
    partition: int
    place: int
    """Among the dataset's owners."""
    replaces: str
    """The owner that is gone; "": there was none."""
    target: str
    parts: frozenset[bytes]


@dataclass(slots=True)
class _Failing:
    until: float
    pause_s: float


class Replication:
    """The copies of a coordinator."""

    def __init__(
        self, registry: JobRegistry, agents: Agents, announcer: Announcer, catalogue: Catalogue
    ) -> None:
        self._registry, self._agents, self._announcer = registry, agents, announcer
        self._catalogue = catalogue
        self._copies: dict[int, _Copy] = {}
        self._n_copies = 0
        self._away: dict[str, float] = {}
        """Since when owners are not attached."""
        self._failing: dict[tuple[str, int], _Failing] = {}
        self._lacking: dict[str, int] = {}
        """Datasets of which it was said that they lack replicas, and how many were made since."""
        self._owners: dict[str, tuple[pb.DatasetLocation, frozenset[str]]] = {}
        """All owners by dataset, as long as its location stays the same object."""
        self._look = 0.0

    def changed(self) -> None:
        """Look through the catalogue at once: a dataset or an agent is another one now."""
        self._look = 0.0

    def go_on(self, now: float) -> list[Effect]:
        """Begin as many copies as may be under way; called at every tick."""
        if now < self._look:
            return []
        self._look = now + LOOK_S
        attached = {agent.agent_id for agent in self._agents.attached()}
        self._copies = {n: copy for n, copy in self._copies.items() if copy.target in attached}
        replicated = [each for each in self._catalogue.all() if n_replicas(each) > 1]
        self._watch(replicated, attached, now)
        names = {location.name for location in replicated}
        self._owners = {name: each for name, each in self._owners.items() if name in names}
        self._lacking = {name: n for name, n in self._lacking.items() if name in names}
        self._failing = {key: each for key, each in self._failing.items() if key[0] in names}
        effects: list[Effect] = []
        for location in replicated:
            effects += self._mend(location, now)
        return effects

    def copied(self, agent: Agent, report: pb.Replicated, now: float) -> list[Effect]:
        """A partition was copied, or could not be."""
        copy = self._copies.get(report.number)
        if copy is None or copy.target != agent.agent_id:
            return []  # of an earlier coordinator or link: it was ordered again, or is not needed
        del self._copies[report.number]
        self.changed()
        if report.HasField("error"):
            return self._failed(copy, report.error, now)
        self._failing.pop((copy.dataset, copy.partition), None)
        location = self._catalogue.find(copy.dataset)
        if location is None:  # its files go with the dataset
            return []
        if not self._is_needed(copy, location):
            note = self._registry.note(
                now, "replica not needed", dataset=copy.dataset, partition=copy.partition,
                agent=agent.agent_id,
            )  # fmt: skip
            return note + self.keep(agent, location)
        if not _parts(location) <= copy.parts:  # rows were appended meanwhile
            return self._order(location, copy.place, agent.agent_id)
        return self._take_over(copy) + self.go_on(now)

    def attached(self, agent: Agent) -> list[Effect]:
        """Tell an agent which partitions are still its own."""
        self.changed()
        self._copies = {n: c for n, c in self._copies.items() if c.target != agent.agent_id}
        replicated = (each for each in self._catalogue.all() if n_replicas(each) > 1)
        return [effect for location in replicated for effect in self.keep(agent, location)]

    def appended(self, location: pb.DatasetLocation) -> list[Effect]:
        """After a commit: who is no owner any more of what was written removes it."""
        self.changed()
        if n_replicas(location) == 1 or all(location.owners):
            return []
        return [e for agent in self._agents.attached() for e in self.keep(agent, location)]

    def keep(self, agent: Agent, location: pb.DatasetLocation) -> list[Effect]:
        """Have an agent remove what it holds of others' partitions of a replicated dataset.

        Whoever calls this has something to write down, too: a coordinator that leads no more can't,
        and so its agents never hear this order by what it last knew.
        """
        if n_replicas(location) == 1:
            return []
        own = {
            copy.partition
            for copy in self._copies.values()
            if (copy.dataset, copy.target) == (location.name, agent.agent_id)
        }
        n = n_replicas(location)
        own |= {place // n for place, o in enumerate(location.owners) if o == agent.agent_id}
        keep = pb.KeepPartitions(
            dataset=location.name, partitions=sorted(own), parts=location.parts
        )
        return self._announcer.send(agent.agent_id, pb.CoordinatorMessage(keep=keep))

    def holds(self, agent_id: str) -> bool:
        """Whether a partition is to move away from an agent and can."""
        candidates = self._candidates()
        return any(
            agent_id in owners and not candidates.issubset(owners)
            for location in self._catalogue.all()
            if n_replicas(location) > 1 and agent_id in location.owners
            for owners in by_partition(location)
        )

    # ---- inside

    def _watch(self, replicated: list[pb.DatasetLocation], attached: set[str], now: float) -> None:
        owners = {owner for each in replicated for owner in self._owners_of(each)}
        away = owners - attached - {""}
        self._away = {owner: self._away.get(owner, now) for owner in sorted(away)}

    def _owners_of(self, location: pb.DatasetLocation) -> frozenset[str]:
        known = self._owners.get(location.name)
        if known is None or known[0] is not location:
            known = self._owners[location.name] = (location, frozenset(location.owners))
        return known[1]

    def _candidates(self) -> set[str]:
        return {agent.agent_id for agent in self._agents.attached() if not agent.draining}

    def _is_gone(self, owner: str, now: float) -> bool:
        """Whether an owner is to be replaced: none, away for long, or about to leave."""
        if owner in self._away:
            return now - self._away[owner] >= self._registry.config.rereplicate_s
        agent = self._agents.get(owner) if owner else None
        return agent is None or agent.draining

    def _mend(self, location: pb.DatasetLocation, now: float) -> Iterator[Effect]:
        """Order copies for what the dataset lacks."""
        absent = {owner for owner in self._owners_of(location) if self._is_gone(owner, now)}
        gone = [p for p, o in enumerate(location.owners) if o in absent] if absent else []
        n = n_replicas(location)
        if bool(gone) != (location.name in self._lacking):
            yield from self._say(location, {place // n for place in gone}, now)
        busy = {c.partition for c in self._copies.values() if c.dataset == location.name}
        busy |= {p for (name, p), each in self._failing.items()
                 if name == location.name and now < each.until}  # fmt: skip
        candidates = self._candidates()
        for place in gone:
            if len(self._copies) >= COPIES_MAX:
                return
            partition = place // n
            owners = owners_of(location, partition)
            if partition in busy or candidates.issubset(owners):
                continue
            if self._sources(location, partition):
                busy.add(partition)
                target = self._successor(location, owners, candidates)
                yield from self._order(location, place, target)

    def _say(self, location: pb.DatasetLocation, partitions: set[int], now: float) -> list[Effect]:
        name = location.name
        if not partitions:
            n_moved = self._lacking.pop(name)
            return self._registry.note(
                now, "dataset has its replicas again", dataset=name, moved=n_moved
            )
        self._lacking[name] = 0
        return self._registry.note(
            now, "dataset lacks replicas", dataset=name, partitions=len(partitions)
        )

    def _successor(
        self, location: pb.DatasetLocation, owners: list[str], candidates: set[str]
    ) -> str:
        """Of the candidates that do not own it the one that owns least; there is one."""
        load = Counter(location.owners)
        load.update(c.target for c in self._copies.values() if c.dataset == location.name)
        other = Counter(copy.target for copy in self._copies.values())
        by_agent = {agent: (load[agent], other[agent]) for agent in candidates}
        return successor(candidates.difference(owners), by_agent)

    def _sources(self, location: pb.DatasetLocation, partition: int) -> list[pb.ReplicaSource]:
        """Owners that are there; those about to leave come last."""
        found = [self._agents.get(owner) for owner in owners_of(location, partition)]
        there = [agent for agent in found if agent is not None and agent.session is not None]
        return [
            pb.ReplicaSource(agent_id=agent.agent_id, address=agent.hello.address)
            for agent in sorted(there, key=lambda agent: agent.draining)
        ]

    def _order(self, location: pb.DatasetLocation, place: int, target: str) -> list[Effect]:
        partition = place // n_replicas(location)
        self._n_copies += 1
        number = self._announcer.number(self._n_copies)
        self._copies[number] = _Copy(
            location.name, partition, place, location.owners[place], target, _parts(location)
        )
        replicate = pb.Replicate(
            number=number,
            dataset=location.name,
            version=location.version,
            partition=partition,
            schema=location.schema,
            parts=location.parts,
            sources=self._sources(location, partition),
        )
        return self._announcer.send(target, pb.CoordinatorMessage(replicate=replicate))

    def _is_needed(self, copy: _Copy, location: pb.DatasetLocation) -> bool:
        """Whether the place is still to be taken over, of the rows that were copied."""
        if copy.place >= len(location.owners) or location.owners[copy.place] != copy.replaces:
            return False  # the dataset was overwritten, or lost an owner to an append
        if copy.target in owners_of(location, copy.partition):
            return False
        agent = self._agents.get(copy.replaces) if copy.replaces else None
        return agent is None or agent.session is None or agent.draining

    def _take_over(self, copy: _Copy) -> list[Effect]:
        location, writes = self._catalogue.move(copy.dataset, copy.place, copy.target)
        self._registry.write(*writes)
        if copy.dataset in self._lacking:
            self._lacking[copy.dataset] += 1
        effects = self._announcer.tell(pb.Locations(datasets=[location]))
        before = self._agents.get(copy.replaces) if copy.replaces else None
        return effects + (self.keep(before, location) if before is not None else [])

    def _failed(self, copy: _Copy, error: pb.ErrorDetail, now: float) -> list[Effect]:
        key = (copy.dataset, copy.partition)
        before = self._failing.get(key)
        pause_s = min(PAUSE_MAX_S, 2 * before.pause_s) if before is not None else PAUSE_S
        self._failing[key] = _Failing(now + pause_s, pause_s)
        return self._registry.note(
            now, "replica not copied", dataset=copy.dataset, partition=copy.partition,
            agent=copy.target, error=error.message,
        )  # fmt: skip


def _parts(location: pb.DatasetLocation) -> frozenset[bytes]:
    return frozenset(part.SerializeToString(deterministic=True) for part in location.parts)
