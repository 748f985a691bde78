"""Flink SQL over topics: a mini cluster with a slot a core, transactions at each checkpoint.

One job: the factories of the copy and the window. A job (`FlinkSql.java`) takes in all rows and
ends where the topic ended when it began. The virtual machine stays as long as this process: the
first job warms it. What is measured lies between its first row and the last commit, so the start of
its cluster does not count.
"""

from __future__ import annotations

import atexit
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from bench import homes
from bench.harness import Answer, Case
from bench.kafka import broker, data
from bench.kafka.peers import INTERVAL_S
from bench.kafka.runs import Costs
from bench.nexmark import flink_home
from bench.nexmark.data import n_cores

SLOTS = n_cores()
SETTINGS = {
    "execution.checkpointing.interval": f"{INTERVAL_S:.0f} s",
    "execution.checkpointing.storage": "filesystem",  # the job manager's memory holds 5 MB a task
    "parallelism.default": SLOTS,
    "taskmanager.numberOfTaskSlots": SLOTS,
    "pipeline.object-reuse": "true",
    "restart-strategy.type": "disable",  # a job that fails is told, not tried for ever
    "table.local-time-zone": "UTC",
    "rest.port": 0,
}
_PAYMENT = "`key` STRING, id BIGINT, `user` STRING, amount DOUBLE, ts BIGINT"
_COPY = "INSERT INTO sink SELECT `key`, seen(id), `user`, amount, ts FROM source"
_TIMED = f"""{_PAYMENT}, happened AS TO_TIMESTAMP_LTZ(seen(ts), 3),
    WATERMARK FOR happened AS happened - INTERVAL '1' SECOND"""
_WINDOW = """
    INSERT INTO sink SELECT `user`, window_start, COUNT(*), SUM(amount)
    FROM TABLE(TUMBLE(TABLE source, DESCRIPTOR(happened), INTERVAL '10' SECOND))
    GROUP BY `user`, window_start, window_end"""
_COUNTS = "`user` STRING, window_start TIMESTAMP(3), n BIGINT, total DOUBLE"
_NO_KEY = {"value.fields-include": "EXCEPT_KEY"}
"""The key is no part of the value."""


class FlinkRun:
    """Every call of `work` is a job over all rows; `tables` and `insert` are its statements."""

    def __init__(
        self,
        case: Case,
        tables: Callable[[str, str], tuple[str, str]],
        insert: str,
        found: Callable[[broker.Broker, str], pa.Table],
    ) -> None:
        if case.parameters.get("quick") and not homes.is_installed("flink"):
            raise RuntimeError("it is left out, for to install it takes minutes: without --quick")
        self._case, self._tables, self._insert, self._found = case, tables, insert, found
        self._broker = broker.found()
        self._input = data.filled(self._broker, case.rows)
        self._costs = Costs(self._broker.pid)
        self._flink = _flink()
        self._topic, self._seconds = "", 0.0

    def work(self) -> None:
        """One job."""
        self._topic = self._broker.topics.new_topic("out", data.N_PARTITIONS)
        statements = [*self._tables(self._input, self._topic), self._insert]
        assert self._flink.stdin is not None
        self._flink.stdin.write("".join(f"{' '.join(one.split())}\n" for one in statements) + "\n")
        self._flink.stdin.flush()
        self._wait_for("first")
        begun = time.perf_counter()
        self._costs.begin(self._flink.pid)
        self._wait_for("done")
        self._seconds = time.perf_counter() - begun
        self._costs.end(self._flink.pid)

    def taken_s(self) -> float:
        """From the first row to the last that is committed."""
        return self._seconds

    def answer(self) -> Answer:
        """What others read in its topic."""
        rows, checksum = data.summed(self._found(self._broker, self._topic))
        version = f"{flink_home.VERSION}, connector {flink_home.KAFKA_VERSION}"
        return Answer(rows, checksum, {**self._costs.told(self._case.rows), "version": version})

    def close(self) -> None:
        """The virtual machine stays for the next case."""

    def _wait_for(self, word: str) -> None:
        assert self._flink.stdout is not None
        line = self._flink.stdout.readline()
        if line.strip() != word:
            raise RuntimeError(line.strip() or "Flink's virtual machine has died")


def copy_run(case: Case) -> FlinkRun:
    """Topic to topic, decoded and encoded, exactly once."""

    def tables(source: str, out: str) -> tuple[str, str]:
        return _source(source, _PAYMENT), _sink(out, _PAYMENT, "key", _NO_KEY)

    return FlinkRun(case, tables, _COPY, data.read_back)


def window_run(case: Case) -> FlinkRun:
    """Counts and sums by user and ten seconds, exactly once."""

    def tables(source: str, out: str) -> tuple[str, str]:
        return _source(source, _TIMED), _sink(out, _COUNTS, "user", {})

    return FlinkRun(case, tables, _WINDOW, data.read_windows)


def _source(topic: str, columns: str) -> str:
    return _table("source", topic, columns, "key", {
        **_NO_KEY, "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset",
        "properties.group.id": f"flink-{secrets.token_hex(4)}",
    })  # fmt: skip


def _sink(topic: str, columns: str, key: str, options: Mapping[str, str]) -> str:
    return _table("sink", topic, columns, key, {
        **options, "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": topic,
        # It would be an hour, and brokers refuse more than a quarter.
        "properties.transaction.timeout.ms": "600000",
        "properties.compression.type": "lz4", "properties.linger.ms": "5",
    })  # fmt: skip


def _table(name: str, topic: str, columns: str, key: str, options: Mapping[str, str]) -> str:
    given = {
        "connector": "kafka", "topic": topic,
        "properties.bootstrap.servers": broker.found().servers,
        "key.format": "raw", "key.fields": key, "value.format": "json", **options,
    }  # fmt: skip
    text = ", ".join(f"'{option}' = '{value}'" for option, value in given.items())
    return f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({text})"


@cache
def _flink() -> subprocess.Popen[str]:
    """The virtual machine of this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = stack.enter_context(TemporaryDirectory(prefix="fabric-bench-flink-"))
    given = {**SETTINGS, "execution.checkpointing.dir": f"file://{folder}"}
    settings = (f"{name}={value}" for name, value in given.items())
    source = Path(__file__).with_name("FlinkSql.java")
    return stack.enter_context(flink_home.program(source, *settings, kafka=True))
