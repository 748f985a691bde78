"""The operator of a `StreamAggregate`, by its window and by whether results change.

One job: `aggregate_operator`.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.operators.streams.windows.changing_windows import ChangingWindows
from fabric.operators.streams.windows.count_windows import CountWindows
from fabric.operators.streams.windows.running import Running
from fabric.operators.streams.windows.session_windows import SessionWindows
from fabric.operators.streams.windows.time_windows import TimeWindows
from fabric.operators.streams.windows.windowed import Windowed
from fabric.plan.event_windows import Count, Global, Session
from fabric.plan.nodes import StreamAggregate


def aggregate_operator(node: StreamAggregate, output: pa.Schema, source: pa.Schema) -> Windowed:
    """What runs `node` over rows of `source`."""
    match node.window:
        case Session():
            return SessionWindows(node, output, source)
        case Count():
            return CountWindows(node, output, source)
        case Global():
            return Running(node, output, source)
        case None if not node.closes:
            return Running(node, output, source)
    if node.changes_results:
        return ChangingWindows(node, output, source)
    return TimeWindows(node, output, source)
