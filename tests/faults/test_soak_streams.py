"""A stream for minutes, a fault in each: rows are right, nothing grows.

`make soak` runs it for ten minutes, then a quarter of that at full speed without faults.
``FABRIC_SOAK_S`` and ``FABRIC_SEED`` change that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.local import LocalFabric, local_fabric
from tests.support.netns import why_not
from tests.support.netns_fabric import netns_fabric
from tests.support.sampled import SEED, SOAK
from tests.support.soak.job import SoakJob
from tests.support.soak.slopes import Slope
from tests.support.soak.trial import Trial
from tests.support.soak.watch import LONG_S, Series, Watch, check_growth, told

pytestmark = pytest.mark.timeout(1800)
SECONDS = float(os.environ.get("FABRIC_SOAK_S") or (600 if SOAK else 24))
EVERY_S = max(8.0, SECONDS / 10)
RATE = int(os.environ.get("FABRIC_SOAK_RATE") or 50_000)
N_AGENTS, SLOTS = 3, 1
"""One slot: tasks wait for the agent that was killed, so that those of the others, whose memory is
compared with what it was, stay what they are."""
ENVIRON = {
    "FABRIC_CHECKPOINT_INTERVAL_S": "1",
    "FABRIC_AGENT_GIVE_BACK_S": "5",
    "FABRIC_COORDINATOR_TIMEOUT_S": "10",  # more than a restart takes on a busy machine
    "FABRIC_COORDINATOR_EVENTS_KEPT_MAX": "200",  # so many happen before memory is judged
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
}
"""Malloc keeps up to 0.2 MB of freed memory for each of 50 threads, which takes longer to fill than
this lasts, 15 MB in 8 minutes, and would hide what is lost: heaptrack saw none of it."""
KB_PER_MILLION_MAX = 20.0


@pytest.fixture
def running() -> Iterator[LocalFabric]:
    with ExitStack() as stack:
        if reason := why_not():
            assert os.environ.get("CI") != "true", reason
            yield stack.enter_context(local_fabric(N_AGENTS, slots=SLOTS, environ=ENVIRON))
        else:
            yield stack.enter_context(netns_fabric(N_AGENTS, slots=SLOTS, environ=ENVIRON))


@pytest.mark.soak
def test_a_soak_with_a_fault_each_minute(running: LocalFabric, tmp_path: Path) -> None:
    print(f"seed {SEED}, {SECONDS:g} s, a fault each {EVERY_S:g} s, {RATE} rows/s")
    with Watch() as watch:
        trial = Trial(running, SoakJob(tmp_path / "out", RATE, seed=SEED), watch, SEED)
        trial.start()
        trial.run(SECONDS, EVERY_S)
        watch.stop()
        trial.finish()
    print(trial.facts)
    for series in watch.series():
        print(told(series, watch))
    check_growth(watch, needed=SECONDS >= 2 * LONG_S)


if SOAK:

    def test_memory_at_full_speed(tmp_path: Path) -> None:
        """What is lost with each row shows here."""
        job = SoakJob(  # which soon remembers as much as it ever will
            tmp_path / "out", 0, n_keys=50, window_us=100_000_000, seed=SEED, known="5 seconds"
        )
        with local_fabric(N_AGENTS, slots=SLOTS, environ=ENVIRON) as running, Watch() as watch:
            trial = Trial(running, job, watch, SEED)
            trial.start()
            trial.run(SECONDS / 4, SECONDS)
            watch.stop()
            trial.finish()
        n_million = trial.facts.rows / 1e6
        print(f"{trial.facts}, {n_million / (SECONDS / 4):.2f} M rows/s")
        long = [series for series in watch.series() if series.seconds() > SECONDS / 8]
        for series in long:
            print(told(series, watch), f"KB per million rows {kb_per_million(series, n_million)}")
        for series in long:
            line = told(series, watch)
            assert kb_per_million(series, n_million).least <= KB_PER_MILLION_MAX, line


def kb_per_million(series: Series, n_million: float) -> Slope:
    """How fast memory grows by what is read, after the first third."""
    warm_s = series.seconds() / 3
    hours = series.seconds() / 3600
    return series.mb_per_hour(warm_s).times(1e3 * hours / n_million)
