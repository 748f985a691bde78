"""Replicas of datasets: who copies what when an owner is gone, in any order of events."""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.control import control_pb2 as pb
from fabric.control.datasets import n_replicas, owners_of
from fabric.coordinator.core.agents.replication import COPIES_MAX, PAUSE_S
from fabric.coordinator.core.events import AgentDrained, DatasetAsked, Tick
from fabric.errors import ConfigError

SCHEMA = pa.schema([("k", pa.int64())]).serialize().to_pybytes()
AWAY_S = 30.0


class Fabric:
    """A scripted coordinator (`conftest.World`) and a completed for each agent's files.

    Agents carry out what they were told one after the other, when `work` says so; an agent that was
    started again has forgotten what it had not done, one whose link broke has not.
    """

    def __init__(self, world: Any) -> None:
        self.world = world
        self.shelves: dict[str, set[tuple[str, str, int]]] = {}
        self.waiting: dict[str, deque[Any]] = {}
        self.answers: deque[tuple[str, int, pb.Replicated]] = deque()
        self.seen = 0
        self.n = 0

    # ---- agents

    def attach(self, *agents: str) -> None:
        for agent in agents:
            self.shelves.setdefault(agent, set())
            self.waiting.setdefault(agent, deque())
            self.world.attach(agent)
        self.collect()

    def restart(self, agent: str) -> None:
        self.waiting[agent].clear()
        self.attach(agent)

    def detach(self, agent: str) -> None:
        self.world.detach(agent)
        self.collect()

    def drain(self, agent: str) -> None:
        self.world.do(AgentDrained(agent, undo=False))
        self.collect()

    def tick(self, after: float = 1.0) -> None:
        self.world.do(Tick(1000.0), after=after)
        self.collect()

    def coordinator_restarts(self) -> None:
        attached = self.attached()
        self.world.start()
        self.answers.clear()
        for agent in attached:
            self.attach(agent)

    def attached(self) -> list[str]:
        return self.world.attached()

    def collect(self) -> None:
        """Messages reach the agents that are attached."""
        for send in self.world.sent[self.seen :]:
            kind = send.message.WhichOneof("kind")
            if kind in ("replicate", "keep") and self.world.sessions[send.agent_id] == send.session:
                self.waiting[send.agent_id].append(getattr(send.message, kind))
        self.seen = len(self.world.sent)

    def work(self, agent: str, *, fails: bool = False) -> None:
        """The agent does the next thing it was told."""
        if not self.waiting[agent]:
            return
        order = self.waiting[agent].popleft()
        if isinstance(order, pb.KeepPartitions):
            named = {(order.dataset, part.transaction) for part in order.parts}
            self.shelves[agent] = {
                held
                for held in self.shelves[agent]
                if held[:2] not in named or held[2] in order.partitions
            }
            return
        report = pb.Replicated(number=order.number)
        wanted = {(order.dataset, part.transaction, order.partition) for part in order.parts}
        for held in sorted(wanted - self.shelves[agent]):
            sources = [s.agent_id for s in order.sources if s.agent_id in self.attached()]
            if fails or not any(held in self.shelves[source] for source in sources):
                report.error.message = "no source has it"
                break
            self.shelves[agent].add(held)
        self.answers.append((agent, self.world.sessions[agent], report))

    def answer(self) -> None:
        """The oldest report arrives."""
        if self.answers:
            agent, session, report = self.answers.popleft()
            if agent in self.attached():
                self.world.say(agent, session, replicated=report)
                self.collect()

    def settle(self) -> None:
        """Everything is done, and answered, until nothing is left to do."""
        for _ in range(400):
            for agent in self.attached():
                while self.waiting[agent]:
                    self.work(agent)
            while self.answers:
                self.answer()
            self.tick(after=2.0)
            if not any(self.waiting[agent] for agent in self.attached()):
                return
        raise AssertionError("copies never end")

    # ---- datasets

    def ask(self, **kind: Any) -> pb.DatasetReply:
        self.n += 1
        request = pb.DatasetRequest(**kind)
        effects = self.world.do(DatasetAsked(request, f"tx-{self.n}"))
        self.collect()
        return effects[-1].reply

    def begin(self, mode: str = "create", n_partitions: int = 4, replicas: int = 2) -> str:
        begin = pb.DatasetBegin(
            name="d", schema=SCHEMA, mode=mode, n_partitions=n_partitions, replicas=replicas
        )
        reply = self.ask(begin=begin)
        for partition in range(n_partitions):  # every owner seals it, or the put fails
            for owner in owners_of(reply.location, partition):
                self.shelves[owner].add(("d", reply.transaction, partition))
        return str(reply.transaction)

    def commit(self, transaction: str) -> None:
        part = pb.CommittedPart(writer="w", rows=1)
        self.ask(commit=pb.DatasetCommit(transaction=transaction, parts=[part]))

    def write(self, mode: str = "create", **fields: int) -> None:
        self.commit(self.begin(mode, **fields))

    @property
    def location(self) -> pb.DatasetLocation:
        return self.world.core.datasets.get("d")

    def has_all(self, agent: str, partition: int) -> bool:
        parts = {("d", part.transaction, partition) for part in self.location.parts}
        return parts <= self.shelves[agent]

    def check(self) -> None:
        """Every owner has all of what it owns, unless it is just being told that it has not."""
        for partition in range(self.location.n_partitions):
            owners = owners_of(self.location, partition)
            assert len(owners) == len(set(owners)) <= n_replicas(self.location)
            for owner in owners:
                assert self.has_all(owner, partition), (owner, partition)

    def check_settled(self) -> None:
        """All replicas are there, on different agents, and nobody attached holds any other."""
        self.check()
        owners = list(self.location.owners)
        assert set(owners) <= set(self.attached())
        committed = {part.transaction for part in self.location.parts}
        for agent in self.attached():
            held = {p for _, tx, p in self.shelves[agent] if tx in committed}
            n = n_replicas(self.location)
            assert held == {place // n for place, o in enumerate(owners) if o == agent}


@pytest.fixture
def fabric(make_world: Any) -> Fabric:
    made = Fabric(make_world(rereplicate_s=AWAY_S, timeout_s=1e9))
    made.attach("a", "b", "c")
    return made


def test_who_stayed_away_too_long_is_replaced(fabric: Fabric) -> None:
    fabric.write()
    assert Counter(fabric.location.owners) == {"a": 3, "b": 3, "c": 2}
    fabric.detach("a")
    fabric.tick()
    fabric.tick(after=AWAY_S - 2.0)
    assert not any(fabric.waiting.values())
    fabric.tick(after=2.0)
    assert sum(map(len, fabric.waiting.values())) == 3
    fabric.settle()
    fabric.check_settled()
    assert Counter(fabric.location.owners) == {"b": 4, "c": 4}
    assert fabric.location.version == 1
    kinds = [event.kind for event in fabric.world.core.registry.events(pb.EventsRequest()).events]
    assert kinds.count("dataset lacks replicas") == 1
    assert kinds[-1] == "dataset has its replicas again"


def test_who_comes_back_in_time_keeps_what_it_has(fabric: Fabric) -> None:
    fabric.write()
    before = list(fabric.location.owners)
    fabric.detach("a")
    fabric.tick(after=AWAY_S / 2)
    fabric.restart("a")
    fabric.tick(after=AWAY_S)
    fabric.settle()
    fabric.check_settled()
    assert list(fabric.location.owners) == before


def test_who_comes_back_late_drops_just_what_moved(fabric: Fabric) -> None:
    fabric.write()
    other = fabric.begin("overwrite")
    fabric.detach("a")
    fabric.tick()
    fabric.tick(after=AWAY_S)
    fabric.settle()
    assert len([held for held in fabric.shelves["a"] if held[1] == "tx-1"]) == 3
    fabric.restart("a")
    fabric.settle()
    assert {held[1] for held in fabric.shelves["a"]} == {other}  # that one is still open
    fabric.check_settled()


def test_who_comes_back_while_it_is_copied_keeps_it(fabric: Fabric) -> None:
    fabric.write(n_partitions=1)
    fabric.detach("a")
    fabric.tick()
    fabric.tick(after=AWAY_S)
    fabric.work("c")
    fabric.restart("a")
    fabric.answer()
    fabric.settle()
    fabric.check_settled()
    assert list(fabric.location.owners) == ["a", "b"]


def test_rows_appended_during_a_copy_are_copied_too(fabric: Fabric) -> None:
    fabric.write(n_partitions=1)
    late = fabric.begin("append", n_partitions=1)
    fabric.detach("a")
    fabric.tick()
    fabric.tick(after=AWAY_S)
    fabric.work("c")
    fabric.commit(late)
    fabric.answer()
    fabric.check()
    assert list(fabric.location.owners) == ["a", "b"]  # c lacks what was appended
    fabric.settle()
    assert list(fabric.location.owners) == ["c", "b"]
    fabric.check_settled()


def test_an_append_that_began_before_a_move_is_copied_after_it(fabric: Fabric) -> None:
    fabric.write(n_partitions=1)
    late = fabric.begin("append", n_partitions=1)
    fabric.detach("a")
    fabric.tick()
    fabric.tick(after=AWAY_S)
    fabric.settle()
    assert list(fabric.location.owners) == ["c", "b"]
    fabric.commit(late)
    assert list(fabric.location.owners) == ["", "b"]
    fabric.settle()
    fabric.check_settled()
    assert list(fabric.location.owners) == ["c", "b"]


def test_a_draining_agent_gives_its_replicas_away_at_once(fabric: Fabric) -> None:
    fabric.write()
    fabric.drain("a")
    assert fabric.world.core.agents.one("a", fabric.world.now).state == "draining"
    fabric.settle()
    assert fabric.world.core.agents.one("a", fabric.world.now).state == "drained"
    assert not fabric.shelves["a"]
    fabric.check_settled()


def test_a_copy_of_what_was_overwritten_never_makes_one_agent_own_it_twice(
    fabric: Fabric,
) -> None:
    fabric.write(n_partitions=1)
    fabric.drain("a")
    fabric.work("c")
    fabric.detach("b")
    fabric.write("overwrite", n_partitions=1)
    assert list(fabric.location.owners) == ["a", "c"]
    fabric.answer()
    fabric.check()
    fabric.restart("b")
    fabric.settle()
    fabric.check_settled()


def test_who_was_started_again_is_told_anew(fabric: Fabric) -> None:
    fabric.write(n_partitions=1)
    fabric.detach("a")
    fabric.tick()
    fabric.tick(after=AWAY_S)
    assert fabric.waiting["c"]
    fabric.restart("c")  # it has forgotten what it was told
    fabric.settle()
    fabric.check_settled()


def test_copies_are_few_at_a_time_and_failures_wait(fabric: Fabric) -> None:
    fabric.write(n_partitions=30)
    fabric.detach("a")
    fabric.tick()
    fabric.tick(after=AWAY_S)
    assert sum(map(len, fabric.waiting.values())) == COPIES_MAX
    failing = next(agent for agent in "bc" if fabric.waiting[agent])
    partition = fabric.waiting[failing][0].partition
    fabric.work(failing, fails=True)
    fabric.answer()
    fabric.tick(after=PAUSE_S / 2)
    ordered = [o.partition for agent in "bc" for o in fabric.waiting[agent]]
    assert partition not in ordered
    assert len(ordered) == COPIES_MAX
    fabric.settle()
    fabric.tick(after=2 * PAUSE_S)
    fabric.settle()
    fabric.check_settled()


def test_without_anybody_to_take_it_a_dataset_lacks_replicas_until_somebody_comes(
    fabric: Fabric,
) -> None:
    fabric.detach("c")
    fabric.write()
    fabric.detach("a")
    fabric.tick()
    fabric.tick(after=AWAY_S)
    fabric.settle()
    assert not any(fabric.waiting.values())
    fabric.attach("d")
    fabric.tick()
    fabric.settle()
    fabric.check_settled()
    assert set(fabric.location.owners) == {"b", "d"}


def test_datasets_with_one_owner_are_left_alone(fabric: Fabric) -> None:
    fabric.write(replicas=1)
    before = list(fabric.location.owners)
    fabric.detach("a")
    fabric.tick()
    fabric.tick(after=10 * AWAY_S)
    fabric.drain("b")
    fabric.restart("a")
    assert not any(fabric.waiting.values())
    assert list(fabric.location.owners) == before


def test_a_late_answer_of_an_earlier_coordinator_changes_nothing(fabric: Fabric) -> None:
    fabric.write(n_partitions=1)
    fabric.detach("a")
    fabric.tick()
    fabric.tick(after=AWAY_S)
    fabric.work("c")
    (_, _, report) = fabric.answers.popleft()
    fabric.coordinator_restarts()
    fabric.world.say("c", replicated=report)
    assert list(fabric.location.owners) == ["a", "b"]
    fabric.tick()
    fabric.tick(after=AWAY_S)
    fabric.settle()
    fabric.check_settled()
    assert list(fabric.location.owners) == ["c", "b"]


AGENTS = "abcd"


class Story(Fabric):
    """A fabric of four agents to which things happen; `replicas` can be made as long as two that
    do not drain are there."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.begun: list[str] = []
        self.drains = False
        self.attach(*AGENTS)
        self.write()

    def step(self, what: str, agent: str) -> None:
        getattr(self, f"do_{what}")(agent)
        self.check()

    def do_tick(self, _agent: str) -> None:
        self.tick()

    def do_wait(self, _agent: str) -> None:
        self.tick(after=AWAY_S)

    def do_work(self, agent: str) -> None:
        self.work(agent)

    def do_fail(self, agent: str) -> None:
        self.work(agent, fails=True)

    def do_answer(self, _agent: str) -> None:
        self.answer()

    def do_begin(self, _agent: str) -> None:
        if set(self.location.owners) - {""} <= set(self.attached()):
            self.begun.append(self.begin("append"))

    def do_commit(self, _agent: str) -> None:
        if self.begun:
            with suppress(ConfigError):  # nobody has all of it any more
                self.commit(self.begun.pop(0))

    def do_overwrite(self, _agent: str) -> None:
        self.write("overwrite")
        self.begun.clear()

    def do_coordinator(self, _agent: str) -> None:
        self.coordinator_restarts()

    def do_detach(self, agent: str) -> None:
        if agent in self.attached() and len(self.attached()) == len(AGENTS):
            self.detach(agent)

    def do_restart(self, agent: str) -> None:
        self.restart(agent)

    def do_relink(self, agent: str) -> None:
        self.attach(agent)

    def do_drain(self, agent: str) -> None:
        if agent in self.attached() and not self.drains:
            self.drains = True
            self.drain(agent)


STEPS = sorted(name.removeprefix("do_") for name in vars(Story) if name.startswith("do_"))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(AGENTS)), max_size=60))
def test_in_any_order_owners_have_what_they_own(
    make_world: Any, steps: list[tuple[str, str]]
) -> None:
    story = Story(make_world(rereplicate_s=AWAY_S, timeout_s=1e9))
    for what, agent in steps:
        story.step(what, agent)
    for partition in range(story.location.n_partitions):
        owners = owners_of(story.location, partition)
        if set(owners).isdisjoint(story.attached()):  # nobody else has it
            story.restart(owners[0])
    for _ in range(8):
        story.tick(after=300.0)
        story.settle()
    story.check_settled()
