"""What a coordinator tells Prometheus.

One job: `CoordinatorCollector`, which asks for jobs and agents as any client could, and counts what
is new since it asked last; the core counts nothing for it. Labels are agents and states, and of the
newest `JOBS_SHOWN` jobs that are not released their ids.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED, STATES
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.coordinator.service.front import Front
from fabric.errors import FabricError
from fabric.event_time import END_OF_TIME, IDLE

JOBS_SHOWN = 50
_AGENT: tuple[tuple[str, str], ...] = (
    ("slots", "Tasks it runs at a time."), ("running_tasks", "Tasks that run."),
    ("stored_bytes", "Partitions it holds."), ("rss_bytes", "Its memory."),
    ("seen_s_ago", "Seconds since it was heard."),
)  # fmt: skip


class CoordinatorCollector(Collector):
    """Of `control`, a runtime or a `Front`; one that does not lead tells only that."""

    def __init__(self, control: CoordinatorRuntime | Front) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._known: dict[str, tuple[pb.JobState, int]] = {}
        self._n_submitted = self._n_attempts = 0
        self._n_ended: Counter[str] = Counter()
        self._seconds = 0.0

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked when it is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Everything, as it is now."""
        leads = GaugeMetricFamily("fabric_coordinator_leads", "1: it answers, 0: it stands by.")
        try:
            jobs = self._control.list_jobs(pb.ListRequest()).jobs
            agents = self._control.list_agents(pb.ListRequest()).agents
            epoch, refused = self._control.epoch, dict(self._control.refused)
        except FabricError:
            leads.add_metric((), 0)
            yield leads
            return
        leads.add_metric((), 1)
        yield leads
        yield GaugeMetricFamily("fabric_coordinator_epoch", "Its number.", value=epoch)
        yield _by("fabric_refused_messages", "Messages of agents not taken.", "reason", refused)
        with self._lock:
            self._count(jobs)
            yield from self._job_counts(jobs)
        yield from _running(jobs)
        yield from _agents(agents)

    def _count(self, jobs: Iterable[pb.JobStatus]) -> None:
        """What is new since the last time."""
        known, self._known = self._known, {}
        for job in jobs:
            self._known[job.job_id] = (job.state, job.n_attempts)
            before, n_attempts = known.get(job.job_id, (None, 0))
            self._n_submitted += before is None
            self._n_attempts += max(0, job.n_attempts - n_attempts)
            if job.state in ENDED and before not in ENDED:
                self._n_ended[_outcome(job)] += 1
                self._seconds += job.seconds

    def _job_counts(self, jobs: Iterable[pb.JobStatus]) -> Iterator[Metric]:
        now = GaugeMetricFamily("fabric_jobs", "Jobs that are so.", labels=("state",))
        counts = Counter(job.state for job in jobs)
        for state, name in STATES.items():
            now.add_metric((name,), counts[state])
        yield now
        yield CounterMetricFamily("fabric_jobs_submitted", "Jobs.", value=self._n_submitted)
        for name in ("completed", "failed", "cancelled"):
            yield CounterMetricFamily(
                f"fabric_jobs_{name}", f"Jobs that {name}.", value=self._n_ended[name]
            )
        yield CounterMetricFamily(
            "fabric_job_seconds", "Time of jobs that ended.", value=self._seconds
        )
        yield CounterMetricFamily(
            "fabric_task_retries", "Attempts beyond the first.", value=self._n_attempts
        )


def _outcome(job: pb.JobStatus) -> str:
    if job.state == pb.JOB_FAILED:
        return "failed"
    cancelled = job.state == pb.JOB_CANCELLED or job.error.kind == "CancelledError"
    return "cancelled" if cancelled else "completed"


def _running(jobs: Iterable[pb.JobStatus]) -> Iterator[Metric]:
    """Progress of jobs whose partitions are still there."""
    tasks = GaugeMetricFamily("fabric_job_tasks", "Tasks of a job.", labels=("job", "state"))
    rows = GaugeMetricFamily("fabric_job_rows", "Rows of its result.", labels=("job",))
    kept = [job for job in jobs if job.state != pb.JOB_RELEASED and job.stages]
    for job in kept[-JOBS_SHOWN:]:
        n_tasks = sum(stage.n_tasks for stage in job.stages)
        running = sum(stage.running for stage in job.stages)
        finished = sum(stage.finished for stage in job.stages)
        tasks.add_metric((job.job_id, "running"), running)
        tasks.add_metric((job.job_id, "finished"), finished)
        tasks.add_metric((job.job_id, "waiting"), max(0, n_tasks - running - finished))
        rows.add_metric((job.job_id,), job.result_rows)
    yield from (tasks, rows)
    yield from _streams(kept[-JOBS_SHOWN:])


def _streams(jobs: Iterable[pb.JobStatus]) -> Iterator[Metric]:
    """How far the streams of running jobs are."""
    where = ("job", "node")
    rows = CounterMetricFamily("fabric_stream_rows_read", "Rows that tasks took in.", labels=where)
    lag = GaugeMetricFamily(
        "fabric_stream_watermark_lag_seconds", "From event time to now.", labels=where
    )
    behind = GaugeMetricFamily(
        "fabric_stream_records_behind", "Records that wait in the source.", labels=where
    )
    state = GaugeMetricFamily(
        "fabric_stream_state",
        "Bytes and rows of state in memory (hot) and files (cold), and what moved between.",
        labels=(*where, "what"),
    )
    for job, stage in ((one, stage) for one in jobs for stage in one.stages):
        if not stage.HasField("watermark_us"):
            continue  # not one of a stream
        rows.add_metric((job.job_id, stage.node_path), stage.rows_in)
        if job.state == pb.JOB_RUNNING and IDLE < stage.watermark_us < END_OF_TIME:
            lag.add_metric((job.job_id, stage.node_path), time.time() - stage.watermark_us / 1e6)
        for each in stage.counts:
            if each.name == "records_behind":
                behind.add_metric((job.job_id, each.node_path), each.n)
            elif each.name.startswith("state_"):
                what = each.name.removeprefix("state_")
                state.add_metric((job.job_id, each.node_path, what), each.n)
    yield from (rows, lag, behind, state)


def _agents(agents: Iterable[pb.AgentStatus]) -> Iterator[Metric]:
    states = Counter(agent.state for agent in agents)
    yield _by("fabric_agents", "Agents that are so.", "state", states, gauge=True)
    for field, meaning in _AGENT:
        values = {agent.agent_id: getattr(agent, field) for agent in agents}
        yield _by(f"fabric_known_agent_{field}", meaning, "agent", values, gauge=True)


def _by(
    name: str, meaning: str, label: str, values: Mapping[str, float], *, gauge: bool = False
) -> Metric:
    kind = GaugeMetricFamily if gauge else CounterMetricFamily
    made: GaugeMetricFamily | CounterMetricFamily = kind(name, meaning, labels=(label,))
    for key, value in values.items():
        made.add_metric((key,), value)
    return made
