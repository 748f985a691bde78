"""How a coordinator says what happened.

One job: `say`, a line in the log an event. What a person should look at is a warning, which is also
said where the coordinator is part of somebody's program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.telemetry.logs import logger

Log = Callable[[str, Mapping[str, str | int]], None]
"""Takes an event and what belongs to it."""

_logger = logger("fabric.coordinator")

WARNINGS = frozenset({
    "checkpoint failed", "not published", "manifest takes long to be stored",
    "checkpoint can't be read now, it is tried again",
    "CHECKPOINT IS DAMAGED, an older one is tried",
    "OUTPUT IS TAKEN BACK, its rows come again", "output not taken back, it is tried again",
    "ROWS ARE SEEN TWICE, as the stream allows", "metadata store away",
    "end of a stream not written down",
    "coordinator failed", "agent obeys another coordinator",
})  # fmt: skip


def say(event: str, fields: Mapping[str, str | int]) -> None:
    """Write one event down.

    >>> say("job finished", {"job": "job-1"})
    """
    write = _logger.warning if event in WARNINGS else _logger.info
    write(event, **fields)
