"""The streams that clients put into, by agent.

One job: `streams_of`, the one `StreamPuts` that an agent's server fills and its tasks read. It
lives as long as somebody holds it.
"""

from __future__ import annotations

from threading import Lock
from weakref import WeakValueDictionary

from fabric._cython.shuffle.flight.streams import StreamPuts


class AgentStreams:
    """Holds `puts`, because native objects know no weak references."""

    def __init__(self) -> None:
        self.puts = StreamPuts()


_OF: WeakValueDictionary[str, AgentStreams] = WeakValueDictionary()
_LOCK = Lock()


def streams_of(agent_id: str) -> AgentStreams:
    """The streams of one agent of this process.

    >>> one = streams_of("agent-1")
    >>> one is streams_of("agent-1"), one is streams_of("agent-2")
    (True, False)
    """
    with _LOCK:
        found = _OF.get(agent_id)
        if found is None:
            found = _OF[agent_id] = AgentStreams()
        return found
