"""How much may wait between two tasks, for jobs that end and for streams.

One job: `Waiting` and `waiting_of`. Of a stream less: a barrier, and each row, stays behind all
that lies before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric.control import control_pb2 as pb
from fabric.flight.transport import WINDOW_BYTES


@dataclass(frozen=True, slots=True)
class Waiting:
    """Bounds of one partition of a pipelined edge; a batch that is larger goes in alone."""

    ring_bytes: int = 8 << 20
    """What its ring holds at most."""
    window_bytes: int = WINDOW_BYTES
    """What may be on its way from another agent and unread."""
    wait_ns: int = 0
    """All of it is worth no more of its consumer's time (0: any time)."""


OF_JOBS = Waiting()
OF_STREAMS = Waiting(ring_bytes=512 << 10, window_bytes=1 << 20, wait_ns=100_000_000)


def waiting_of(deploy: pb.Deploy) -> Waiting:
    """What may wait for and behind the tasks of `deploy`."""
    return OF_STREAMS if deploy.HasField("stream") else OF_JOBS
