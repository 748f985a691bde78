"""A stream that is rescaled while agents and coordinators die: 2, 3, 1, 4 tasks.

The coordinator is the real core over a store that outlives it; the state machines of the agents and
of the channels are real, too, and stages come from the planner. Tasks, links, storage and the sink
are models (`tests/support/sim/stream_*.py`), which fail by seed. Somebody asks for one parallelism
after the other: again when it was refused, or forgotten by a coordinator that died; now and then
for one that is not in turn. Afterwards every row is seen once, and was counted once.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
from dataclasses import replace
from functools import partial

from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core import effects as fx
from fabric.coordinator.core.checkpoints.requests import Wanted
from fabric.coordinator.core.checkpoints.rows import rows_of
from fabric.coordinator.core.core import CoordinatorCore
from fabric.coordinator.core.events import (
    AgentAttached,
    AgentDetached,
    AgentSaid,
    CheckpointAsked,
    Event,
    JobCancelled,
    JobReplanned,
    JobRestarted,
    JobSubmitted,
    Tick,
)
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.metadata.memory import MemoryData, MemoryStore
from fabric.errors import ConfigError, PeerLostError
from tests.support.sim.scheduler import Scheduler, Step
from tests.support.sim.stream_agent import Link, StreamAgent
from tests.support.sim.stream_outside import Outside, Source, check
from tests.support.sim.stream_plan import N_SPLITS, planned
from tests.support.sim.stream_worker import Pipes, StreamWorker
from tests.support.sim.trace import Trace

JOB = "job-1"
FIRST, THEN = 2, (3, 1, 4)
HEALS_S, END_S = 18.0, 300.0
WALL_S = 1e9
CONFIG = CoordinatorConfig(
    heartbeat_s=0.8, timeout_s=3.0, attempts_max=1000, retry_s_max=0.5, stop_s=1e6
)
CHECKPOINT = CheckpointConfig(interval_s=0.6, timeout_s=5.0, retained=2, folder="/checkpoints")


class RescaleWorld:
    """One job, run until it has ended; `happened` counts what the seed has brought about."""

    core_class: type[CoordinatorCore] = CoordinatorCore

    def __init__(self, seed: int) -> None:
        self.scheduler, self.trace = Scheduler(seed), Trace()
        self._checkpoint = replace(CHECKPOINT, unaligned_after_s=(0, 0.4, 30)[seed % 3])
        self.rng, self.happened = self.scheduler.rng, Counter[str]()
        n_held = self.rng.choice((0, 1, 1, 3, 4))
        most = [100 if n < n_held else 25 for n in range(N_SPLITS)]
        ends = tuple(self.rng.randint(3, n_rows) for n_rows in most)
        self.outside = Outside(Source(ends, frozenset(range(n_held))))
        self.core: CoordinatorCore | None = None
        self.faults, self._troubles_per_s = 1.0, self.rng.choice((0.1, 0.3, 0.8))
        self._data = MemoryData()
        self._then = deque(THEN)
        self._links: dict[str, tuple[int, Link]] = {}
        self._n_sessions = self._n_asked = self._term = 0
        self._orders: deque[fx.StorageWork] = deque()
        self._started: dict[tuple[int, int, int], str] = {}
        self.agents = {name: StreamAgent(name, self, slots=2) for name in "xyz"}

    # ---- time

    def run(self) -> None:
        """With faults, then without, until the job has ended and what must hold is checked."""
        after = self.scheduler.after
        self._lead()
        for agent in self.agents.values():
            agent.boot()
        after(1.0, self._operate)
        after(1.0, self._trouble)
        self.scheduler.run_until(HEALS_S, self._has_ended)
        self.faults = 0.0
        self.scheduler.run_until(END_S, self._has_ended)
        job = self._job
        check(self._has_ended(), "nothing fails any more, and the job does not end")
        assert job is not None
        check(job.state == pb.JOB_FINISHED, f"the job failed: {job.error}")
        self.outside.check_whole()
        self._check_records()
        self._check_last_words(job)
        check(not self._then or not self.outside.source.held, "it ended too early")
        if not self._then:
            check(job.parallelism == THEN[-1], f"it ended with {job.parallelism} tasks")
        self.happened["ended too early" if self._then else "all rescaled"] += 1
        self.happened += self.outside.happened

    def chance(self, probability: float) -> bool:
        """Whether a fault of that probability happens now."""
        return self.rng.random() < probability * self.faults

    @property
    def _job(self) -> Job | None:
        return None if self.core is None else self.core.registry.jobs.get(JOB)

    def _has_ended(self) -> bool:
        """For good: who cancels the job has it go on."""
        return (job := self._job) is not None and job.state in (pb.JOB_FINISHED, pb.JOB_FAILED)

    def _note(self, what: str) -> None:
        self.trace.add(self.scheduler.now, "", what)

    # ---- who asks

    def _operate(self) -> None:
        """Have the job submitted, then rescaled in turn."""
        pause_s = self.rng.choice((0.3, 0.8, 3.0)) * self.rng.random()
        self.scheduler.after(0.2 + pause_s, self._operate)
        if self.core is None:
            return
        if (job := self._job) is None:
            self._submit()
        elif job.state == pb.JOB_CANCELLED:
            self.happened["restarted"] += 1
            self._handle(JobRestarted(JOB))
        elif self._then and job.active:
            if job.parallelism == self._then[0] and not job.rescaling:
                self._then.popleft()
                self.outside.source.released = not self._then
            elif self.rng.random() < (0.4 if job.waiting else 0.6):
                self._ask_to_rescale(job, self._then[0])
            elif self.chance(0.3):
                self._ask_to_rescale(job, self.rng.randint(1, 4))

    def _submit(self) -> None:
        if sum(self.agents[name].session > 0 for name in self.agents) < 2:
            return
        graph, fragments = planned(FIRST)
        made = JobSubmitted(
            job_id=JOB, name="a stream", client_key="key", graph=graph, fragments=fragments,
            schema=b"", wall_s=WALL_S, checkpoint=self._checkpoint, plan=b"plan", parallelism=FIRST,
        )  # fmt: skip
        with suppress(PeerLostError):  # agents that are gone by now
            self._handle(made)

    def _ask_to_rescale(self, job: Job, parallelism: int) -> None:
        about = self._whereabouts(job, parallelism)
        try:
            self._handle(JobReplanned(JOB, parallelism, *planned(parallelism)))
        except ConfigError as error:
            self.happened["refused"] += 1
            self._note(f"refused: {error.message}")
            return
        self.happened.update(f"asked {each}" for each in about)
        self._note(f"asked for {parallelism}: {about}")
        if self.chance(0.3):
            name = self.rng.choice(sorted(self.agents))
            self._in_a_moment(lambda: self._kill(name))
        if self.chance(0.15):
            self._in_a_moment(self._crash)
        if self.chance(0.1):
            self._in_a_moment(self._cancel)
        if self.chance(0.15) and self.core is not None:
            self._ask_to_rescale(job, self.rng.choice((parallelism, self.rng.randint(1, 4))))

    def _in_a_moment(self, step: Step) -> None:
        self.scheduler.after(self.rng.uniform(0.0, 0.6), step)

    def _whereabouts(self, job: Job, parallelism: int) -> list[str]:
        """What else is going on just now."""
        assert self.core is not None
        assert job.stream is not None
        found = ["for the same" if parallelism == (job.rescaling or job.parallelism) else "anew"]
        if any(s.state == "under way" for s in job.stream.checkpoints.statuses(self.scheduler.now)):
            found.append("while a checkpoint is under way")
        if len(self.core.agent_hellos()) < len(self.agents):
            found.append("while an agent is away")
        if any(not a.alive and self._links.get(a.name) for a in self.agents.values()):
            found.append("while nobody knows that an agent died")
        if job.rescaling:
            found.append("twice" if parallelism == job.rescaling else "for something else")
        if any(task.ended for task in job.tasks.values()):
            found.append("when tasks have ended")
        if job.leaving:
            found.append("while tasks leave")
        return [*found, f"when {job.stream.phase}"]

    # ---- what goes wrong

    def _trouble(self) -> None:
        if not self.faults:
            return
        self.scheduler.after(self.rng.expovariate(self._troubles_per_s), self._trouble)
        names = sorted(self.agents)
        kinds: dict[Step, int] = {
            lambda: self._kill(self.rng.choice(names)): 4,
            lambda: self._kill(*self.rng.sample(names, 2)): 1,
            lambda: self._cut(self.rng.choice(names)): 3,
            self._crash: 2,
            self._damage: 3,
            self._ask_for_savepoint: 2,
            self._cancel: 1,
        }
        (strike,) = self.rng.choices(list(kinds), list(kinds.values()))
        strike()

    def _kill(self, *names: str) -> None:
        for agent in (self.agents[name] for name in names if self.faults):
            if not agent.alive:
                continue
            self.happened["killed"] += 1
            self._note(f"{agent.name} is killed")
            agent.kill()
            link = self._links.get(agent.name)
            if link is not None and self.rng.random() < 0.7:  # else its silence has to tell
                notice = partial(self._detach, agent.name, link)
                self.scheduler.after(self.rng.uniform(0.0, 0.1), notice)
            self.scheduler.after(self.rng.uniform(0.2, 4.5), agent.boot)

    def _cut(self, name: str) -> None:
        agent, link = self.agents[name], self._links.get(name)
        if link is not None and link[1] is agent.link and agent.link is not None:
            self.happened["cut"] += 1
            self._note(f"the link of {name} is cut")
            link[1].is_open = False
            self.scheduler.after(self.rng.uniform(0.0, 0.1), lambda: self._detach(name, link))
            self.scheduler.after(self.rng.uniform(0.0, 3.0), lambda: agent.broken(link[1]))

    def _crash(self) -> None:
        """The coordinator dies: of what it has ordered some may have been done."""
        if self.core is None or not self.faults:
            return
        self.happened["crashed"] += 1
        if (job := self._job) is not None and job.rescaling:
            self.happened["crashed while it rescales"] += 1
        self._note("the coordinator dies")
        while self._orders and self.rng.random() < 0.5:
            self.outside.work(JOB, self._orders.popleft().work, self.chance)
        self._orders.clear()
        self.core, self._term = None, self._term + 1
        for name, (_, link) in sorted(self._links.items()):
            link.is_open = False
            notice = partial(self.agents[name].broken, link)
            self.scheduler.after(self.rng.uniform(0.0, 0.1), notice)
        self._links.clear()
        self.scheduler.after(self.rng.uniform(0.1, 2.0), self._lead)

    def _damage(self) -> None:
        """Of a checkpoint, as long as an older one may be restored."""
        rows = rows_of(JOB, self._data.tables["checkpoints"].items())
        whole = [p.checkpoint for p in rows.pointers if p.checkpoint not in self.outside.damaged]
        if len(whole) > 1 and max(whole) == max(p.checkpoint for p in rows.pointers):
            self.happened["damaged"] += 1
            self.outside.damaged.add(max(whole))

    def _cancel(self) -> None:
        """Somebody has the job end, and go on later."""
        if self._job is not None:
            self._handle(JobCancelled(JOB, "enough"))

    def _ask_for_savepoint(self) -> None:
        if self._job is None:
            return
        self._n_asked += 1
        try:
            wanted = Wanted(key=f"{self._n_asked}", savepoint=f"s{self._n_asked}", then="go on")
            self._handle(CheckpointAsked(JOB, wanted))
        except ConfigError:
            self.happened["savepoint refused"] += 1

    # ---- the coordinator

    def _lead(self) -> None:
        store = MemoryStore(self._data)
        self._check_records()
        self._store = store
        self.core = self.core_class(CONFIG, store.next_epoch())
        self._note(f"a coordinator of epoch {self.core.epoch} leads")
        now = self.scheduler.now
        self._in_term(0.0, self._tick)
        self._carry(self.core.restore(store, WALL_S + now, now))

    def _in_term(self, delay_s: float, step: Step) -> None:
        term = self._term
        self.scheduler.after(delay_s, lambda: step() if self._term == term else None)

    def _tick(self) -> None:
        self._in_term(0.3, self._tick)
        self._handle(Tick(WALL_S + self.scheduler.now))

    def _handle(self, event: Event) -> None:
        assert self.core is not None
        self._carry(self.core.handle(event, self.scheduler.now))

    def _carry(self, effects: list[fx.Effect]) -> None:
        """Carry out in order; the coordinator may die before each."""
        is_switch = any(isinstance(e, fx.Note) and e.event == "job rescaled" for e in effects)
        for effect in effects:
            if self.chance(0.02 if is_switch else 0.0005):
                self.happened["crashed while it switches"] += is_switch
                self._crash()
                return
            self._carry_out(effect)

    def _carry_out(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Persist(writes=writes):
                self._store.apply(writes)
                if any(write.table == "plans" for write in writes):
                    self._check_records()
            case fx.Send() | fx.Hear():
                number, link = self._links.get(effect.agent_id, (0, None))
                if link is not None and number == effect.session:
                    agent = self.agents[effect.agent_id]
                    link.send(1, partial(agent.take, link, number, effect.message))
            case fx.Disconnect(agent_id=agent_id, session=session):
                number, link = self._links.get(agent_id, (0, None))
                if link is not None and number == session:
                    self._links.pop(agent_id)
                    self.agents[agent_id].broken(link)
            case fx.StorageWork():
                self._orders.append(effect)
                self._in_term(self.rng.uniform(0.0, 0.3), self._work_next)
            case fx.Note(event=event, fields=fields):
                self.happened[event] += 1
                self._note(f"{event} {' '.join(f'{k}={v}' for k, v in fields)}")

    def _work_next(self) -> None:
        """The storage does one thing after the other, each answered after a while."""
        order = self._orders.popleft()
        if (answer := self.outside.work(JOB, order.work, self.chance)) is not None:
            self._in_term(self.rng.uniform(0.0, 0.3), partial(self._handle, answer))

    # ---- agents

    def pipes_of(self, agent_id: str) -> Pipes | None:
        """The pipelined edges on an agent, which its neighbours pull from."""
        return self.agents[agent_id].pipes

    def attach(self, agent: StreamAgent, link: Link, hello: pb.Hello) -> None:
        """An agent says hello."""
        link.send(0, lambda: self._accept(agent, link, hello))

    def _accept(self, agent: StreamAgent, link: Link, hello: pb.Hello) -> None:
        if self.core is None:
            agent.broken(link)
            return
        self._n_sessions += 1
        before = self._links.get(agent.name)
        self._links[agent.name] = (self._n_sessions, link)
        if before is not None:
            before[1].is_open = False
        self._handle(AgentAttached(self._n_sessions, hello))

    def heard(self, agent_id: str, session: int, message: pb.AgentMessage) -> None:
        """An agent says something."""
        if self.core is not None:
            self._handle(AgentSaid(agent_id, session, message))

    def _detach(self, name: str, link: tuple[int, Link]) -> None:
        if self._links.get(name) == link:
            del self._links[name]
            self._handle(AgentDetached(name, link[0], "the link is gone"))

    def starts(self, agent: StreamAgent, worker: StreamWorker) -> None:
        """No attempt begins twice, and none beside those of another turn that it knows of."""
        task, stream = worker.spec.id, worker.spec.deploy.stream
        key = (task.stage, task.task, task.attempt)
        self._note(f"{agent.name} runs {task} of {worker.spec.n_tasks}, from {stream.checkpoint}")
        check(key not in self._started, f"{task} begins on {agent.name}, and was begun before")
        self._started[key] = agent.name
        for other in agent.workers.values():
            same = other.spec.deploy.stream.turn == stream.turn
            check(same or other.session != agent.session, f"{task} begins beside {other.spec.id}")

    def _check_records(self) -> None:
        """What is written down of tasks is of tasks that there are."""
        stored = self._data.tables["plans"].get(JOB, b"")
        stages = enumerate(pb.StoredPlan.FromString(stored).stages)
        there = {f"{JOB}/{s:06}.{t:06}" for s, stage in stages for t in range(stage.n_tasks)}
        check(self._data.tables["tasks"].keys() <= there, "records of tasks that are no more")

    def _check_last_words(self, job: Job) -> None:
        """What is written down of tasks that have ended is of the last ones, and of all of them."""
        finals = rows_of(JOB, self._data.tables["checkpoints"].items()).finals
        check({ack.key for ack in finals} == set(job.tasks), "last words of other tasks")
