"""Flink: a mini cluster with two slots, whose sinks send rows to this process by sockets.

One job: the factories of both variants. A job in Java (`Latency.java`) makes the rows of our
generator at its pace, keeps the same state by key, row by row, and writes each counted row at once.
What varies is how long Flink may hold rows back in a buffer: 0 ms sends each alone, its default of
100 ms fills buffers. The virtual machine stays as long as this process: the first job warms it.
"""

from __future__ import annotations

import atexit
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import numpy as np

from bench.harness import Answer, Case
from bench.latencies.rows import COLUMNS, N_KEYS, RATE, WARM_S, Ints, answer_of, n_rows_of
from bench.nexmark import flink_home

SLOTS = 2
ROW_BYTES = 8 * len(COLUMNS)
ACCEPT_S = 30.0
BY_DEFAULT = -1
"""Of a buffer's timeout: what Flink takes when nobody says."""
_BLOCK = 1 << 16


def run(case: Case) -> FlinkRun:
    """Buffers wait for 100 ms at most, as they do by default."""
    return FlinkRun(case, BY_DEFAULT)


def at_once_run(case: Case) -> FlinkRun:
    """Buffers do not wait."""
    return FlinkRun(case, 0)


class FlinkRun:
    """Every call of `work` is a job, the last one is what is told."""

    def __init__(self, case: Case, timeout_ms: int) -> None:
        self._case, self._timeout_ms, self._n_calls = case, timeout_ms, 0
        self._seen: list[_Seen] = []
        self._flink = _flink()

    def work(self) -> None:
        """One job."""
        self._n_calls += 1
        seconds = self._case.parameters["seconds"] if self._n_calls > 1 else WARM_S
        n_rows, n_splits = n_rows_of(seconds), self._case.parameters["splits"]
        with socket.create_server(("127.0.0.1", 0), backlog=SLOTS) as server:
            server.settimeout(ACCEPT_S)
            port = server.getsockname()[1]
            with ThreadPoolExecutor(SLOTS) as pool:
                self._ask(SLOTS, n_splits, n_rows, RATE, N_KEYS, self._timeout_ms, port)
                readers = [pool.submit(_read, server) for _ in range(SLOTS)]
                told = self._told()
                if told:
                    server.close()
                    raise RuntimeError(told)
                self._seen = [reader.result() for reader in readers]

    def answer(self) -> Answer:
        """Percentiles of what came behind the warm-up, each row of it once."""
        words = np.concatenate([seen.words for seen in self._seen])
        found: dict[str, Ints] = {name: words[:, at] for at, name in enumerate(COLUMNS)}
        found["seen"] = np.concatenate([seen.at_us for seen in self._seen])
        extra = {"rows_a_batch": round(len(words) / sum(seen.n_reads for seen in self._seen), 1)}
        n_splits, seconds = self._case.parameters["splits"], self._case.parameters["seconds"]
        return answer_of(found, n_splits, seconds, extra)

    def close(self) -> None:
        """The virtual machine stays for the next case."""

    def _ask(self, *facts: int) -> None:
        assert self._flink.stdin is not None
        self._flink.stdin.write(" ".join(map(str, facts)) + "\n")
        self._flink.stdin.flush()

    def _told(self) -> str:
        assert self._flink.stdout is not None
        line = self._flink.stdout.readline()
        if not line:
            raise RuntimeError("Flink's virtual machine has died")
        return line.strip()


class _Seen:
    """What one sink sent: rows of `COLUMNS`, and when each was whole here."""

    def __init__(self, blocks: list[bytes], at_us: list[int]) -> None:
        sizes = np.cumsum([len(block) for block in blocks], dtype=np.int64)
        self.words: Ints = np.frombuffer(b"".join(blocks), np.dtype("<i8")).reshape(
            -1, len(COLUMNS)
        )
        ends = np.arange(1, len(self.words) + 1) * ROW_BYTES
        self.at_us: Ints = np.array(at_us, np.int64)[np.searchsorted(sizes, ends)]
        self.n_reads = len(blocks)


def _read(server: socket.socket) -> _Seen:
    """All rows of the next sink that comes."""
    blocks, at_us = [], []
    with server.accept()[0] as client:
        while block := client.recv(_BLOCK):
            at_us.append(time.time_ns() // 1000)
            blocks.append(block)
    return _Seen(blocks, at_us)


@cache
def _flink() -> subprocess.Popen[str]:
    """The virtual machine of this process, with the job compiled."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(flink_home.program(Path(__file__).with_name("Latency.java")))
