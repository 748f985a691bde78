"""A Spark program whose writes are shot at, for `test_cluster.py`.

One job: run one write after the other on a real cluster and say as JSON what each raised. Tasks
kill their own executor in the middle of a write, or dawdle until Spark starts a twin.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

import fabric

Batches = Iterator[pa.RecordBatch]
FIRED_AT = 4
"""The batch of a task before which it happens; each has ten."""
ROWS = 400_000


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def kill_executor() -> None:
    """This worker's parent is PySpark's daemon, and that one's is the executor."""
    os.kill(parent_of(os.getppid()), signal.SIGKILL)
    signal.pause()


def attempt() -> tuple[int, int]:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId(), context.attemptNumber()


def lose_executor(batches: Batches, attempts: int) -> Batches:
    partition, number = attempt()
    for n, batch in enumerate(batches):
        if n == FIRED_AT and partition == 1 and number < attempts:
            kill_executor()
        yield batch


def lose_executor_once(batches: Batches) -> Batches:
    return lose_executor(batches, 1)


def lose_executors_always(batches: Batches) -> Batches:
    return lose_executor(batches, 1 << 30)


def dawdle(batches: Batches) -> Batches:
    """The first attempt of one task goes on only when its twin is done; both write all rows."""
    partition, number = attempt()
    for n, batch in enumerate(batches):
        if n == FIRED_AT and partition == 1 and number == 0:
            time.sleep(120)  # until Spark, having the twin's rows, kills this attempt
        yield batch


CASES: dict[str, Callable[[Batches], Batches]] = {
    "once": lose_executor_once,
    "always": lose_executors_always,
    "twins": dawdle,
}


def main(url: str) -> None:
    spark = fabric.spark.install(SparkSession.builder.getOrCreate())
    for name, function in CASES.items():
        frame = spark.range(ROWS, numPartitions=4).mapInArrow(function, "id long")
        writer = frame.write.format("fabric").option("url", url).option("dataset", f"fire-{name}")
        try:
            writer.option("keys", "id").mode("append").save()
            error = ""
        except Exception as raised:  # whatever Spark makes of it is what the test looks at
            error = str(raised)[:2000]
        print("RESULT", json.dumps({"case": name, "error": error}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
