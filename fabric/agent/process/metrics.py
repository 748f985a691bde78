"""What an agent tells Prometheus.

One job: `AgentCollector`, which reads the agent's tally and heartbeat when it is asked. Only an
agent with a metrics port imports this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from fabric.agent.tally import BUCKETS_S, TaskTally
from fabric.control import control_pb2 as pb

_NODE = ("job", "node", "agent")
_STATES = {
    pb.TASK_FINISHED: "finished", pb.TASK_FAILED: "failed", pb.TASK_CANCELLED: "cancelled",
}  # fmt: skip


class AgentCollector(Collector):
    """Of the agent `agent_id` with so many `slots`; `beat` is what its heartbeats say."""

    def __init__(
        self, agent_id: str, slots: int, tally: TaskTally, beat: Callable[[], pb.Heartbeat]
    ) -> None:
        self._agent_id, self._slots, self._tally, self._beat = agent_id, slots, tally, beat

    def collect(self) -> Iterator[Metric]:
        """Everything, as it is now."""
        beat = self._beat()
        yield self._gauge("fabric_agent_slots", "Tasks it runs at a time.", self._slots)
        yield self._gauge("fabric_agent_running_tasks", "Tasks that run.", beat.running_tasks)
        yield self._gauge("fabric_agent_stored_bytes", "Partitions it holds.", beat.stored_bytes)
        yield self._gauge(
            "fabric_agent_resident_bytes", "Memory, processes of functions too.", beat.rss_bytes
        )
        ended = CounterMetricFamily("fabric_tasks", "Tasks that ended.", labels=("agent", "state"))
        told = self._tally.ended
        for state, name in _STATES.items():
            ended.add_metric((self._agent_id, name), told.get(state, 0))
        yield ended
        seconds = CounterMetricFamily(
            "fabric_task_seconds", "Time of tasks that ended.", labels=("agent",)
        )
        seconds.add_metric((self._agent_id,), self._tally.seconds)
        yield seconds
        yield from self._nodes()

    def _nodes(self) -> Iterator[Metric]:
        rows = CounterMetricFamily("records_processed", "Rows that tasks took in.", labels=_NODE)
        out = CounterMetricFamily("records_emitted", "Rows that tasks put out.", labels=_NODE)
        passed = GaugeMetricFamily("selectivity", "Rows out by rows in.", labels=_NODE)
        waits = GaugeMetricFamily(
            "backpressure_ratio", "Time that the worst task waited for its consumers.", labels=_NODE
        )
        latency = HistogramMetricFamily(
            "processing_latency_seconds", "A task, from start to end.", labels=_NODE
        )
        for job, nodes in self._tally.jobs().items():
            for path, node in nodes.items():
                labels = (job, path, self._agent_id)
                rows.add_metric(labels, node.rows_in)
                out.add_metric(labels, node.rows_out)
                if node.rows_in:
                    passed.add_metric(labels, node.rows_out / node.rows_in)
                waits.add_metric(labels, node.backpressure_ratio)
                counts = accumulate(node.in_bucket)
                bounds = (*map(str, BUCKETS_S), "+Inf")
                latency.add_metric(labels, list(zip(bounds, counts, strict=True)), node.seconds)
        yield from (rows, out, passed, waits, latency)

    def _gauge(self, name: str, meaning: str, value: float) -> Metric:
        made = GaugeMetricFamily(name, meaning, labels=("agent",))
        made.add_metric((self._agent_id,), value)
        return made
