"""A streaming job around `Checkpoints`: tasks, network, storage and sinks that fail by seed.

Each task counts up to a number, and is source and sink at once: what it counted between two
barriers is a handle. So the rows that sinks publish say at once what was lost or doubled. The
coordinator may crash between any two effects; rows that it had written down are all that is left.
People ask for savepoints, stop the job, have it drained or cancel it. One that was stopped or
cancelled goes on after a while, as a stream with a name does.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from fabric.checkpoint.manifest import (
    FINAL,
    Declined,
    Manifest,
    SinkHandle,
    SnapshotAck,
    TaskSnapshot,
)
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.core import effects as fx
from fabric.coordinator.core.checkpoints.checkpoints import Checkpoints
from fabric.coordinator.core.checkpoints.pending_checkpoint import TaskRun
from fabric.coordinator.core.checkpoints.requests import Wanted
from fabric.coordinator.core.checkpoints.rows import rows_of
from fabric.errors import ConfigError, DataError, ExternalError, StorageError

JOB, NODE = "job-1", "sink"
STEPS, HEALED_STEPS = 1500, 6000
CONFIG = CheckpointConfig(interval_s=3, timeout_s=40, retained=2)


@dataclass
class Task:
    """One attempt: it counts, answers triggers, keeps its handles until it hears they are out."""

    number: int
    attempt: int
    epoch: int
    position: int
    last: int
    begun: int = 0
    """Where the rows that are not prepared begin."""
    pending: list[SinkHandle] = field(default_factory=list)
    taken: int = 0
    final: SnapshotAck | None = None

    def prepare(self, checkpoint: int) -> None:
        if self.position > self.begun:
            rows = [self.number, self.begun, self.position, self.attempt]
            self.pending.append(SinkHandle(checkpoint, json.dumps(rows).encode()))
            self.begun = self.position

    def ack(self, checkpoint: int) -> SnapshotAck:
        positions = ((f"s{self.number}", b"%d" % self.position),)
        snapshot = TaskSnapshot(
            NODE, self.number, self.attempt, range(1), (), positions, tuple(self.pending)
        )
        taken = self.taken if checkpoint == FINAL else 0
        return SnapshotAck(checkpoint, 0, self.number, self.attempt, self.epoch, (snapshot,), taken)


class World:
    """One job, run by `step` until `ended`; `faults` says how often something goes wrong."""

    n_sources = 3
    """Tasks from there on read no source."""

    config = CONFIG

    def __init__(self, seed: int, *, n_tasks: int = 3, last: int = 80) -> None:
        self.rng = Random(seed)
        self.now, self.epoch, self.attempt = 0.0, 1, 0
        self.n_tasks, self.last = n_tasks, last
        self.faults = 1.0
        self.rows: dict[str, bytes] = {}
        self.stored: dict[int, Manifest] = {}
        self.damaged: set[int] = set()
        self.prepared: set[bytes] = set()
        self.published: set[bytes] = set()
        self.tasks: dict[int, Task] = {}
        self.up: list[SnapshotAck | Declined] = []
        self.down: list[tuple[str, int, int]] = []
        self.answers: list[tuple[str, tuple[object, ...]]] = []
        self.orders: list[fx.CheckpointEffect] = []
        self.completed: list[int] = []
        self.written: set[int] = set()
        self.asked: list[Wanted] = []
        self.savepoints: dict[str, Manifest] = {}
        self.drained = False
        """Whether sources were ended by somebody in the run that there is."""
        self.refused: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()
        self.ended = self.failed = False
        self.core = self.coordinator()
        self.do(self.core.restore(self.now))

    def coordinator(self) -> Checkpoints:
        return Checkpoints(
            JOB, (), self.config, state=JOB, epoch=self.epoch, wall_s=lambda now: now + 1e9,
            refuse=lambda why: self.refused.update([why]),
        )  # fmt: skip

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability * self.faults

    # ---- time

    def run(self) -> None:
        """With faults, then without, until the job has ended."""
        for step in range(STEPS + HEALED_STEPS):
            if self.ended or self.failed:
                return
            if step == STEPS:
                self.faults = 0.0
            self.step()
        raise AssertionError("nothing fails any more, and the job does not end")

    def check(self) -> None:
        """What must hold once it has ended: each row of each source is out once."""
        assert self.completed == sorted(set(self.completed))
        assert set(self.out().values()) <= {1}, "rows came twice"
        if self.ended:
            ends = self.positions(self.completed[-1])
            assert self.drained or set(ends) == {self.last}
            wanted = {(n, row) for n in range(self.n_sources) for row in range(ends[n])}
            assert set(self.out()) == wanted, "rows are lost"
            unserved = [w for w in self.asked if self.state(w) == "under way"]
            assert not [w for w in unserved if not w.savepoint], "somebody waits for ever"
        else:
            assert self.damaged, "the job failed for nothing"

    def step(self) -> None:
        """Something happens."""
        self.now += self.rng.random()
        choices = [self.count, self.hear, self.tell, self.answer, self.work, self.tick]
        self.rng.choice(choices)()
        if self.chance(0.002):
            self.happened["crash"] += 1
            self.restart()
        elif self.tasks and self.chance(0.004):
            self.happened["lost"] += 1
            self.lose()
        elif self.chance(0.01):
            self.ask()
        elif self.rng.random() < 0.02:
            self.ask_again()
        elif self.chance(0.02 if self.drained else 0.0005):
            self.happened["cancelled while drained" if self.drained else "cancelled"] += 1
            self.go_on_later()
        elif self.chance(0.001) and self.stored:
            self.happened["damage"] += 1
            self.damaged.add(self.rng.choice(sorted(self.stored)))

    def ask(self) -> None:
        """Somebody wants a checkpoint."""
        (then,) = self.rng.choices(("go on", "stop", "drain"), (8, 2, 1))
        name = f"savepoint-{len(self.asked)}" if then == "go on" or self.rng.random() < 0.5 else ""
        wanted = Wanted(key=f"ask-{len(self.asked)}", savepoint=name, then=then)
        self.asked.append(wanted)
        self.do(self.core.ask(wanted, self.now))

    def ask_again(self) -> None:
        """Whoever has no answer asks again, perhaps another coordinator."""
        waiting = [wanted for wanted in self.asked if self.state(wanted) in ("under way", "")]
        if waiting:
            wanted = replace(self.rng.choice(waiting), again=True)
            self.do(self.core.ask(wanted, self.now))

    def state(self, wanted: Wanted) -> str:
        core = self.core
        return core.taken(wanted.key).state if core.knows(wanted.key) else ""

    def go_on_later(self) -> None:
        """The job ends, its sinks and storage do what is left, and it is started again."""
        core = self.core
        self.do(core.stop(self.now))
        if self.core is not core:
            return  # the coordinator crashed: the next one runs the job as it was
        self.forget_tasks()
        self.up, self.down = [], []
        while not core.settled:
            self.work()
            self.answer()
            self.now += 1.0
            self.tick()
            if self.core is not core:
                return
        self.asked = []
        self.drained = False
        self.epoch += 1
        self.orders, self.answers = [], []
        self.core = self.coordinator()
        self.core.restored(self.rows.items())
        self.do(self.core.restore(self.now))

    def forget_tasks(self) -> None:
        """None runs any more."""
        self.tasks = {}

    def stopped(self, checkpoint: int) -> None:
        """Somebody stopped it: what is out are the rows up to that checkpoint."""
        self.happened["stopped"] += 1
        assert checkpoint == self.completed[-1], "stopped at an older checkpoint"
        ends = self.positions(checkpoint)
        out = self.out()
        assert set(out.values()) <= {1}, "rows came twice"
        assert set(out) == {(n, row) for n, end in enumerate(ends) for row in range(end)}
        self.go_on_later()

    def positions(self, checkpoint: int) -> list[int]:
        """Of each source."""
        at = self.stored[checkpoint].positions(NODE)
        return [int(at.get(f"s{number}", b"0")) for number in range(self.n_sources)]

    def count(self) -> None:
        """A task goes on; at its end it says its last word, now and then again."""
        if not self.tasks:
            return
        task = self.rng.choice([self.tasks[n] for n in sorted(self.tasks)])
        if task.position < task.last:
            task.position += 1
        elif task.final is None:
            task.prepare(FINAL)
            self.prepared |= {h.data for h in task.pending}
            task.final = task.ack(FINAL)
        if task.final is not None:
            self.up.append(task.final)

    def hear(self) -> None:
        """The coordinator gets a message: any of those on their way, perhaps twice or never."""
        if not self.up:
            return
        message = self.up.pop(self.rng.randrange(len(self.up)))
        if self.chance(0.05):
            return
        if self.chance(0.1):
            self.up.append(message)
        if isinstance(message, Declined):
            self.do(self.core.declined(message, self.now))
        else:
            self.do(self.core.ack(message, self.now))

    def tell(self) -> None:
        """A task gets a message."""
        if (message := self.message()) is None:
            return
        kind, number, checkpoint, task = message
        if kind == "drain" and task.final is None:
            task.last = task.position
        if kind == "complete":
            task.pending = [h for h in task.pending if h.checkpoint > checkpoint]
        if (
            kind not in ("trigger", "unaligned")
            or checkpoint <= task.taken
            or task.final is not None
        ):
            return
        task.taken = checkpoint
        if self.chance(0.05):
            self.up.append(Declined(checkpoint, 0, number, task.attempt, task.epoch, "full"))
            return
        task.prepare(checkpoint)
        self.prepared |= {h.data for h in task.pending}
        self.up.append(task.ack(checkpoint))

    def message(self) -> tuple[str, int, int, Task] | None:
        """One that is on its way to a task, which may be lost or come again."""
        if not self.down:
            return None
        kind, number, checkpoint = self.down.pop(self.rng.randrange(len(self.down)))
        task = self.tasks.get(number)
        if task is None or self.chance(0.05):
            return None
        if self.chance(0.1):
            self.down.append((kind, number, checkpoint))
        return kind, number, checkpoint, task

    def answer(self) -> None:
        """The coordinator hears of what it ordered."""
        if self.answers:
            name, args = self.answers.pop(0)
            decides = name.endswith(("verified", "taken_back"))
            hearer = self.core.restoration if decides else self.core
            self.do(getattr(hearer, name)(*args, self.now))

    def tick(self) -> None:
        self.do(self.core.tick(self.now))

    # ---- effects

    def do(self, effects: fx.CheckpointEffects) -> None:
        """Carry out in order; a crash may come before each."""
        for effect in effects:
            if self.chance(0.01):
                self.happened["crash between effects"] += 1
                return self.restart()
            self.carry_out(effect)
        return None

    def carry_out(self, effect: fx.CheckpointEffect) -> None:
        match effect:
            case fx.Persist(writes=writes):
                self.commit(writes)
            case fx.TriggerSources(checkpoint=n, tasks=tasks, unaligned=unaligned):
                assert b"%d" % n == self.rows[f"{JOB}/last"], "told before it was written down"
                kind = "unaligned" if unaligned else "trigger"
                self.down += [(kind, number, n) for _, number in tasks]
            case fx.DrainSources(tasks=tasks):
                assert f"{JOB}/drain" in self.rows, "told before it was written down"
                self.happened["drained"] += 1
                self.drained = True
                self.down += [("drain", number, 0) for _, number in tasks]
            case fx.Stopped(checkpoint=n):
                self.stopped(n)
            case fx.NotifyComplete(checkpoint=n):
                assert f"{JOB}/checkpoint/{n:020}" in self.rows
                self.down += [("complete", number, n) for number in sorted(self.tasks)]
            case fx.NotifyAborted(checkpoint=n):
                self.down += [("aborted", number, n) for number in sorted(self.tasks)]
            case fx.Abandon(handles=handles, kept=kept):
                gone = set(handles) - set(kept)
                assert not gone & self.published, "output that is out was removed"
                self.prepared -= gone
            case fx.Restore():
                self.start(effect)
            case fx.Ended():
                self.ended = True
            case fx.Fail(error=error):
                assert "no checkpoint of the job is whole" in error.message
                self.failed = True
            case fx.Note():
                pass
            case _:
                self.orders.append(effect)

    def commit(self, writes: tuple[object, ...]) -> None:
        for write in writes:
            if write.value is None:
                self.rows.pop(write.key, None)
            else:
                self.rows[write.key] = write.value
        pointers = rows_of(JOB, self.rows.items()).pointers
        owing = [p.checkpoint for p in pointers if p.state == "complete"]
        assert len(owing) <= 1, "completed before the one before was published"
        newest = max((p.checkpoint for p in pointers), default=0)
        if newest > max(self.completed, default=0):
            self.completed.append(newest)
            assert newest in self.stored, "complete without a manifest"
        for pointer in pointers:
            if pointer.state == "published":
                handles = {h for _, each in pointer.handles for h in each}
                gone = handles - self.published
                assert not gone or pointer.checkpoint != newest, "said to be out, is not"

    def work(self) -> None:
        """Storage and sinks do the next thing that was ordered."""
        if not self.orders:
            return
        self.obey(self.orders.pop(0))

    def obey(self, order: fx.CheckpointEffect) -> None:
        match order:
            case fx.WriteManifest(manifest=manifest):
                n = manifest.checkpoint
                assert n not in self.written, "two manifests of one checkpoint"
                if self.chance(0.2):
                    self.answers.append(("not_written", (n, StorageError("full"))))
                    return
                self.written.add(n)
                self.stored[n] = manifest
                self.answers.append(("written", (n, fx.Seal(1, n))))
            case fx.Publish(checkpoint=n, node=node, handles=handles):
                if self.chance(0.2):
                    self.answers.append(("not_published", (n, node, ExternalError("away"))))
                    return
                assert set(handles) <= self.prepared, "published what was removed"
                self.published |= set(handles)
                self.answers.append(("published", (n, node)))
            case fx.TakeBack(checkpoint=n, node=node, handles=handles, kept=kept):
                if self.chance(0.2):
                    self.answers.append(("not_taken_back", (n, node, ExternalError("away"))))
                    return
                self.published -= set(handles) - set(kept)
                self.happened["taken back"] += 1
                self.answers.append(("taken_back", (n, node)))
            case fx.ExportSavepoint(name=name, checkpoint=n, again=again):
                self.answers.append(("exported", (n, name, self.kept(name, n, again=again))))
            case fx.RemoveCheckpoints(keep=keep, below=below):
                self.remove(set(keep), below)
            case fx.Verify(checkpoint=n):
                if self.chance(0.1):
                    self.answers.append(("not_verified", (n, StorageError("away"))))
                elif n in self.damaged:
                    self.answers.append(("not_verified", (n, DataError("damaged"))))
                else:
                    self.answers.append(("verified", (n, self.stored[n])))

    def remove(self, keep: set[int], below: int) -> None:
        kept = {p.checkpoint for p in rows_of(JOB, self.rows.items()).pointers}
        gone = {n for n in self.stored if n < below and n not in keep}
        assert not gone & kept, "removed what is written down"
        self.stored = {n: m for n, m in self.stored.items() if n not in gone}

    def kept(self, name: str, n: int, *, again: bool) -> pb.SavepointStatus | ConfigError:
        """Storage makes a savepoint of a checkpoint."""
        if self.chance(0.2):
            return StorageError("full")
        assert n in self.stored, "the checkpoint was removed before it was kept"
        handles = {h for each in self.stored[n].handles().values() for h in each}
        assert handles <= self.published, "it was kept before it was out"
        there = self.savepoints.get(name)
        if there is not None and there.checkpoint != n and not again:
            return ConfigError("there is one of that name")
        self.savepoints.setdefault(name, self.stored[n])
        self.happened["kept"] += 1
        return pb.SavepointStatus(name=name, checkpoint=self.savepoints[name].checkpoint)

    # ---- what the coordinator's other parts do

    def lose(self) -> None:
        """An agent is gone; all tasks of the region start anew."""
        self.forget_tasks()
        core = self.core
        self.do(core.lost("an agent was lost", self.now))
        if self.core is core:  # another one has restored already
            self.do(core.restore(self.now))

    def restart(self) -> None:
        """The coordinator crashes, another one takes over; orders may have been carried out."""
        while self.orders and self.chance(0.5):
            self.work()
        self.orders, self.answers = [], []
        self.epoch += 1
        self.core = self.coordinator()
        self.core.restored(self.rows.items())
        if self.tasks:
            self.do(self.core.started(self.runs(), self.keys(), self.now))
        else:
            self.do(self.core.restore(self.now))

    def start(self, restore: fx.Restore) -> None:
        """All tasks begin; sinks remove what no checkpoint knows."""
        self.happened["restore"] += 1
        self.attempt += 1
        manifest = restore.manifest
        at = manifest.positions(NODE) if manifest is not None else {}
        taken = manifest.checkpoint if manifest is not None else 0
        for number in range(self.n_tasks):
            position = int(at.get(f"s{number}", b"0"))
            last = position if self.core.drains else self.last
            self.tasks[number] = Task(
                number, self.attempt, self.epoch, position, last, position, taken=taken
            )
        self.prepared = set(self.published)
        self.do(self.core.started(self.runs(), self.keys(), self.now))

    def runs(self) -> dict[tuple[int, int], TaskRun]:
        return {(0, n): TaskRun(t.attempt, t.epoch) for n, t in sorted(self.tasks.items())}

    def keys(self) -> list[tuple[int, int]]:
        return [(0, n) for n in sorted(self.tasks)]

    def out(self) -> Counter[tuple[int, int]]:
        """Every row that is visible, and how often."""
        found: Counter[tuple[int, int]] = Counter()
        for handle in self.published:
            number, begin, end, _ = json.loads(handle)
            found.update((number, row) for row in range(begin, end))
        return found
