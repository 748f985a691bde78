"""Windows of event time and their triggers as protobuf and back.

One job: both directions for `fabric.plan.event_windows`, which checks what is read at its birth.
"""

from __future__ import annotations

from typing import Literal

from fabric.plan import plan_pb2 as pb
from fabric.plan.event_windows import (
    Count,
    Cumulative,
    Global,
    LateResults,
    Session,
    Sliding,
    Trigger,
    Tumbling,
    Window,
)
from fabric.plan.wire.tables import choice, small

_Kind = Literal["tumbling", "sliding", "session", "cumulative", "count", "global"]


def write_window(window: Window) -> pb.EventWindow:
    """`window` as protobuf."""
    match window:
        case Tumbling(size_us=size, offset_us=offset):
            return pb.EventWindow(kind="tumbling", size=size, offset_us=offset)
        case Sliding(size_us=size, slide_us=slide, offset_us=offset):
            return pb.EventWindow(kind="sliding", size=size, step_us=slide, offset_us=offset)
        case Cumulative(size_us=size, step_us=step, offset_us=offset):
            return pb.EventWindow(kind="cumulative", size=size, step_us=step, offset_us=offset)
        case Session(gap_us=gap):
            return pb.EventWindow(kind="session", size=gap)
        case Count(n_rows=n_rows):
            return pb.EventWindow(kind="count", size=n_rows)
        case Global():
            return pb.EventWindow(kind="global")


def read_window(message: pb.EventWindow) -> Window:
    """The window in `message`; raises `ValueError` or `PlanError`."""
    size, step, offset = message.size, message.step_us, message.offset_us
    match choice(message.kind, _Kind, "window"):
        case "tumbling":
            return Tumbling(size, offset)
        case "sliding":
            return Sliding(size, step, offset)
        case "cumulative":
            return Cumulative(size, step, offset)
        case "session":
            return Session(size)
        case "count":
            return Count(small(size))
        case _:
            return Global()


def write_trigger(trigger: Trigger) -> pb.Trigger:
    """`trigger` as protobuf."""
    return pb.Trigger(early_us=trigger.early_us, count=trigger.count, late=trigger.late)


def read_trigger(message: pb.Trigger) -> Trigger:
    """The trigger in `message`; raises `ValueError` or `PlanError`."""
    return Trigger(
        message.early_us if message.HasField("early_us") else None,
        small(message.count) if message.HasField("count") else None,
        choice(message.late, LateResults, "late results"),
    )
