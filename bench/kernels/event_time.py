"""Watermarks of 1000 channels and barriers over 1000 channels, single calls from Python.

"watermark update": one channel's watermark rises, the minimum over 1000 with it now and then.
"watermark min 1000": reads that minimum. "barrier create": begins a checkpoint; "barrier register":
one channel's barrier has come; "barrier coordinate": all of one checkpoint over 64 channels, from
its creation to its last barrier.
"""

from __future__ import annotations

import numpy as np

from bench.harness import Case, Engine
from bench.kernels.latency import CALLS, Latency

N_CHANNELS = 1_000
N_COORDINATED = 64
NAMES = {
    "watermark update": "update",
    "watermark min 1000": "minimum",
    "barrier create": "create",
    "barrier register": "register",
    "barrier coordinate": "coordinate",
}


def cases(quick: bool) -> list[Case]:
    return [Case(name, CALLS, 0) for name in NAMES]


def engines(case: Case) -> list[Engine]:
    return [Engine(None, f"bench.kernels.event_time:{NAMES[case.name]}")]


def update(case: Case) -> Latency:
    from fabric._cython.kernels.watermark import MinTracker

    tracker = MinTracker(N_CHANNELS)
    order = np.random.default_rng(1).permutation(N_CHANNELS).tolist()
    last = [0]

    def one(i: int) -> None:
        last[0] = i
        tracker.update(order[i % N_CHANNELS], i)

    def check() -> str:
        expected = last[0] - N_CHANNELS + 1
        assert tracker.minimum() == expected, (tracker.minimum(), expected)
        return "agrees"

    return Latency(one, check)


def minimum(case: Case) -> Latency:
    from fabric._cython.kernels.watermark import MinTracker

    tracker = MinTracker(N_CHANNELS)
    times = np.random.default_rng(1).integers(0, 10**15, N_CHANNELS).tolist()
    for channel, time in enumerate(times):
        tracker.update(channel, time)
    least = tracker.minimum

    def check() -> str:
        assert least() == min(times)
        return "agrees"

    return Latency(lambda i: least(), check)


def create(case: Case) -> Latency:
    from fabric._cython.kernels.barrier import BarrierTracker

    tracker = BarrierTracker(N_CHANNELS)

    def one(i: int) -> None:
        tracker.create(i + 1)
        tracker.abort(i)  # at most two are in flight

    def check() -> str:
        assert len(tracker.in_flight()) == 1
        return "agrees"

    return Latency(one, check)


def register(case: Case) -> Latency:
    from fabric._cython.kernels.barrier import BarrierTracker

    tracker = BarrierTracker(N_CHANNELS)
    missing = [0]

    def one(i: int) -> None:
        round_, channel = divmod(i, N_CHANNELS)
        if channel == 0:
            tracker.create(round_ + 1)
        missing[0] = tracker.register(round_ + 1, channel)
        if missing[0] == 0:
            tracker.coordinate()

    def check() -> str:
        assert missing[0] == 0
        assert tracker.in_flight() == []
        return "agrees"

    return Latency(one, check)


def coordinate(case: Case) -> Latency:
    from fabric._cython.kernels.barrier import BarrierTracker

    tracker = BarrierTracker(N_COORDINATED)
    channels = range(N_COORDINATED)
    done = [0, 0]

    def one(i: int) -> None:
        tracker.create(i + 1)
        for channel in channels:
            tracker.register(i + 1, channel)
        done[:] = tracker.coordinate(), i + 1

    def check() -> str:
        assert done[0] == done[1] > 0
        return "agrees"

    return Latency(one, check)
