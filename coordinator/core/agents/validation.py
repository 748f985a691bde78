"""What an agent says, checked before any of it is believed.

One job: why a message is not taken. An agent holds a token and may be wrong, old, or somebody
else's: a number that can't be breaks every list it is summed up in, a name that is not of the task
breaks off a change half-way. Nothing behind this file checks again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from fabric.checkpoint.codec import decode_snapshot_ack
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.tasks import Task
from fabric.coordinator.planner.stages import Edge
from fabric.errors import ConfigError, DataError

COUNT_MAX = (1 << 48) - 1
"""Of rows, bytes and the like: sums over the tasks of any job stay far below 2**63."""
SECONDS_MAX = 1e12
TEXT_MAX = 1 << 14
NAME_MAX = 1024
CPUS_MAX = SLOTS_MAX = 1 << 16
EACH_MAX = 100_000
COUNTS_MAX = 1000
"""How often a field of a message may be repeated; so much is kept of each task."""

_NUMBERS = frozenset({"epoch", "sequence", "number", "checkpoint"})
"""Whole numbers that name something and are never summed up."""
_FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_REPORTED = frozenset((pb.TASK_RUNNING, pb.TASK_FINISHED, pb.TASK_FAILED, pb.TASK_CANCELLED))
_HELD = frozenset((pb.TASK_RUNNING, pb.TASK_FINISHED))


def implausible(message: Message) -> str | None:
    """Why a message can't be true, whatever it is about, or None.

    >>> implausible(pb.TaskReport(rows_in=1 << 63))
    'implausible rows_in'
    >>> implausible(pb.AgentMessage(task=pb.TaskReport(seconds=float("nan"))))
    'implausible seconds'
    """
    for field, value in message.ListFields():
        each = value if field.is_repeated else (value,)
        if len(each) > (COUNTS_MAX if field.name == "counts" else EACH_MAX):
            return f"implausible {field.name}"
        for one in each:
            why = implausible(one) if field.message_type is not None else _wrong(field, one)
            if why is not None:
                return why
    return None


def misfit(job: Job, task: Task, agent_id: str, report: pb.TaskReport) -> str | None:
    """Why a report on a task of a running job is not taken, or None."""
    if task.attempt != report.key.attempt:
        return "old attempt"
    if not task.given:
        return "task not deployed"
    if task.agent_id != agent_id:
        return "another agent's task"
    if report.state not in _REPORTED:
        return "unknown state"
    if task.ended or (task.state == report.state and not report.HasField("watermark_us")):
        return "duplicate"
    stage = report.key.stage
    if not {total.edge for total in report.outputs} <= _edges(job.graph.outputs[stage]):
        return "another task's output"
    if not {lost.edge for lost in report.lost} <= _edges(job.graph.inputs[stage]):
        return "another task's input"
    return wrong_ack(report.key, report.ack) if report.ack else None


def wrong_ack(key: pb.TaskKey, data: bytes) -> str | None:
    """Why a task's part of a checkpoint is not taken, or None."""
    try:
        ack = decode_snapshot_ack(data)
    except DataError:
        return "damaged acknowledgement"
    if (ack.stage, ack.task, ack.attempt) != (key.stage, key.task, key.attempt):
        return "another task's acknowledgement"
    return None


def check_hello(hello: pb.Hello) -> None:
    """`ConfigError` when an agent can't be as it says."""
    about = pb.Hello()
    about.CopyFrom(hello)
    about.ClearField("tasks")
    why = implausible(about)
    for name, most in (("slots", SLOTS_MAX), ("cpus", CPUS_MAX)):
        if getattr(hello, name) > most:
            why = f"implausible {name}"
    for text in (hello.address, hello.host, hello.version, hello.socket.path):
        if len(text) > NAME_MAX or not text.isprintable():
            why = "implausible text"
    if why is not None:
        raise ConfigError(
            f"the hello of agent {hello.agent_id} has an {why}; is it a Fabric agent?",
            agent=hello.agent_id,
        )


def held(hello: pb.Hello) -> Iterable[pb.TaskReport]:
    """Of what an agent says that it runs and holds, what can be so."""
    return [
        report
        for report in hello.tasks
        if report.state in _HELD and implausible(report) is None and not report.lost
    ]


def _wrong(field: FieldDescriptor, value: Any) -> str | None:
    if field.cpp_type in _FLOATS:
        fine = math.isfinite(value) and 0.0 <= value <= SECONDS_MAX
    elif isinstance(value, str):
        fine = len(value) <= TEXT_MAX
    elif field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 and field.name not in _NUMBERS:
        fine = value <= COUNT_MAX
    else:
        fine = True
    return None if fine else f"implausible {field.name}"


def _edges(edges: Iterable[Edge]) -> set[int]:
    return {edge.edge for edge in edges}
