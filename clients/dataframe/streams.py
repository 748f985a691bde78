"""Streams: where they are read from, windows, states, and what they are written to.

One job: the public names, as ``fabric.streams``.

    from fabric import streams

    bids = streams.nexmark("bid", events_per_s=10_000).with_watermark("dateTime", "5 seconds")
    bids.group_by("auction").window("1 minute").count().write_stream("per_minute")
"""

from __future__ import annotations

from fabric.clients.dataframe import read_stream as _read_stream
from fabric.clients.dataframe.calls import helpful_functions
from fabric.clients.dataframe.read_kafka import read_kafka
from fabric.clients.dataframe.read_stream import *  # noqa: F403
from fabric.clients.dataframe.states import (
    aggregating_state,
    list_state,
    map_state,
    reducing_state,
    value_state,
)
from fabric.clients.dataframe.targets import (
    to_blackhole,
    to_dataset,
    to_files,
    to_flight,
    to_kafka,
    to_postgres,
)
from fabric.clients.dataframe.windows import (
    count_window,
    cumulative,
    global_window,
    session,
    sliding,
    tumbling,
)
from fabric.event_time import END_OF_TIME

__all__ = [
    "END_OF_TIME",
    "aggregating_state",
    "count_window",
    "cumulative",
    "global_window",
    "list_state",
    "map_state",
    "read_kafka",
    "reducing_state",
    "session",
    "sliding",
    "to_blackhole",
    "to_dataset",
    "to_files",
    "to_flight",
    "to_kafka",
    "to_postgres",
    "tumbling",
    "value_state",
]
__all__ += _read_stream.__all__

helpful_functions(globals())
