"""What processes hold while they run, sampled.

One job: `Watch`, a thread that reads of each process that it was told of, and of each that these
start, memory, threads and descriptors; and once a while the bytes of some folders. Each is judged
by itself: a slot's process is a new one after each restore, and as large as it will be only then.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.support.soak.slopes import Slope, theil_sen

_PAGE = os.sysconf("SC_PAGE_SIZE")
LONG_S, WARM_S = 300.0, 240.0
"""A slope is judged of processes that were watched for so long, after the first so long; after
`Watch.judge` of those that there were then, from then on: no other has seen each kind of fault."""
MB_PER_HOUR_MAX = 5.0
_BLOCKS = 48
"""Medians of so many equal times make a slope: samples close to each other are alike."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one process; `rss_bytes` without what it maps of files, `held_bytes` what is in use."""

    at_s: float
    rss_bytes: int
    held_bytes: int
    """The same as `rss_bytes` where the process does not say (`within/sitecustomize.py`)."""
    threads: int
    descriptors: int


@dataclass(slots=True)
class Series:
    """All samples of one process, `name` for people."""

    name: str
    samples: list[Sample] = field(default_factory=list)

    def after(self, warm_s: float) -> list[Sample]:
        """Those that are at least `warm_s` younger than the first."""
        begin_s = self.samples[0].at_s + warm_s if self.samples else 0.0
        return [sample for sample in self.samples if sample.at_s >= begin_s]

    def seconds(self) -> float:
        """How long it was watched."""
        return self.samples[-1].at_s - self.samples[0].at_s if self.samples else 0.0

    def mb_per_hour(self, warm_s: float) -> Slope:
        """How fast what it holds grows."""
        blocks = _medians(self.after(warm_s))
        return theil_sen(
            [block.at_s / 3600 for block in blocks], [block.held_bytes / 1e6 for block in blocks]
        )

    def spread(self, name: str, warm_s: float) -> int:
        """How much a count grew between the halves of its samples."""
        counts = [getattr(each, name) for each in self.after(warm_s)]
        half = len(counts) // 2
        return int(median(counts[half:]) - median(counts[:half]))


class Watch:
    """Use it in a ``with``; `add` processes as they start, those they start are found.

    Processes that are started with `environ_of` say in `held` how much they have in use.
    """

    def __init__(self, held: Path | None = None, every_s: float = 0.5) -> None:
        self._held, self._every_s = held, every_s
        self._series: dict[int, Series] = {}
        self._ended: list[Series] = []
        """Of processes that are gone: another one may have such an id later."""
        self.judged_s = 0.0
        """When `judge` was called; 0: it was not."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Sample no more; twice is fine."""
        self._over.set()
        self._thread.join()

    def add(self, name: str, pid: int) -> None:
        """Sample a process until it ends."""
        self._series[pid] = Series(name)

    def judge(self) -> None:
        """Processes are warm: what they grow from now on is growth."""
        self.judged_s = time.monotonic()

    def series(self) -> list[Series]:
        """All processes there were."""
        found = [*self._ended, *list(self._series.values())]
        return [series for series in found if series.samples]

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            for pid, series in list(self._series.items()):
                if (found := sample(pid, self._held)) is not None:
                    series.samples.append(found)
                    self._add_children(pid, series.name)
                elif self._series.get(pid) is series:
                    self._ended.append(self._series.pop(pid))

    def _add_children(self, pid: int, name: str) -> None:
        """An agent has a forkserver, and that a process for each slot with a user's function."""
        for child in children(pid):
            if child not in self._series:
                self._series[child] = Series(f"{name}/{child}")


def check_growth(watch: Watch, *, needed: bool, descriptors_max: int = 2) -> None:
    """Memory, threads and descriptors of what lived for long; `needed`: some did."""
    long = [series for series in watch.series() if _is_judged(series, watch)]
    assert len(long) >= 2 or not needed, "nothing lived long enough to be judged"
    for series in long:
        warm_s, line = _warm_s(series, watch), told(series, watch)
        assert series.mb_per_hour(warm_s).least <= MB_PER_HOUR_MAX, line
        assert series.spread("threads", warm_s) <= 2, line
        assert series.spread("descriptors", warm_s) <= descriptors_max, line


def told(series: Series, watch: Watch) -> str:
    """A line about one process."""
    last = series.samples[-1]
    text = f"{series.name}: {series.seconds():.0f} s, {last.rss_bytes / 1e6:.0f} MB, of these "
    text += f"{last.held_bytes / 1e6:.1f} in use, "
    text += f"{last.threads} threads, {last.descriptors} descriptors"
    if _is_judged(series, watch):
        text += f", MB/h {series.mb_per_hour(_warm_s(series, watch))}"
    return text


def _is_judged(series: Series, watch: Watch) -> bool:
    was_there = not watch.judged_s or series.samples[0].at_s <= watch.judged_s
    return was_there and series.samples[-1].at_s - watch.judged_s > LONG_S < series.seconds()


def _warm_s(series: Series, watch: Watch) -> float:
    return watch.judged_s - series.samples[0].at_s if watch.judged_s else WARM_S


def environ_of(held: Path) -> dict[str, str]:
    """Variables that have a process say in the folder `held` how much it has in use."""
    return {
        "PYTHONPATH": str(Path(__file__).with_name("within")),
        "SOAK_HELD": str(held),
        "FABRIC_AGENT_SLOT_ENVIRONMENT": "SOAK_HELD,GLIBC_TUNABLES",
    }


def sample(pid: int, held: Path | None = None) -> Sample | None:
    """What a process holds now; None: it is gone."""
    try:
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        threads = len(os.listdir(f"/proc/{pid}/task"))
        rss = in_use = _anonymous(pid)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    if held is not None and (held / str(pid)).exists():
        in_use = int((held / str(pid)).read_text())
    return Sample(time.monotonic(), rss, in_use, threads, descriptors)


def children(pid: int) -> list[int]:
    """The processes that a process started itself; none when it is gone."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        return found
    return found


def folder_bytes(folder: Path) -> int:
    """What the files below `folder` take, each once whatever its names."""
    found: dict[int, int] = {}
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.stat(os.path.join(at, name))
            except FileNotFoundError:
                continue
            found[status.st_ino] = status.st_size
    return sum(found.values())


def _anonymous(pid: int) -> int:
    _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(resident) - int(shared)) * _PAGE


def _medians(samples: list[Sample]) -> list[Sample]:
    """The middle one of each block; of those with an even number the lower one."""
    begin, end = samples[0].at_s, samples[-1].at_s
    width = max(1e-9, (end - begin) / _BLOCKS)
    blocks: dict[int, list[Sample]] = {}
    for each in samples:
        blocks.setdefault(int((each.at_s - begin) / width), []).append(each)
    return [
        sorted(block, key=lambda sample: sample.held_bytes)[(len(block) - 1) // 2]
        for block in blocks.values()
    ]
