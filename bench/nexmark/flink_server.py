"""Flink's session: one process of Flink's own environment, for all questions.

One job: answer requests on standard input, a JSON object a line, with one on standard output:
`settings` and `slots` start the mini cluster; `sql` runs statements, of which the last is waited
for; `sum` adds up the first column of an endless query until `until` is reached. Nothing of Fabric
can be imported here.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


class Session:
    """A table environment with a mini cluster behind it, which each job starts anew."""

    def __init__(self, settings: dict[str, str], slots: int) -> None:
        from pyflink.table import EnvironmentSettings, TableEnvironment

        self._tables: Any = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        config = self._tables.get_config()
        own = {"parallelism.default": slots, "taskmanager.numberOfTaskSlots": slots}
        for name, value in {**settings, **own, "rest.port": 0}.items():
            config.set(name, str(value))

    def sql(self, statements: list[str]) -> dict[str, float]:
        """Run them; how long the last one took, on the clock and on processors."""
        for statement in statements[:-1]:
            self._tables.execute_sql(statement)
        begin, before = time.perf_counter(), processors_s()
        self._tables.execute_sql(statements[-1]).wait()
        return {"seconds": time.perf_counter() - begin, "cpu_s": processors_s() - before}

    def sum(self, statements: list[str], until: int) -> dict[str, int]:
        """The sum of the last one's first column, once it is `until` or more."""
        for statement in statements[:-1]:
            self._tables.execute_sql(statement)
        result, total = self._tables.execute_sql(statements[-1]), 0
        with result.collect() as rows:
            for row in rows:
                total += row[0]
                if total >= until:
                    break
        return {"sum": total}


def processors_s() -> float:
    """Processor seconds of this process and those that it started, Java's above all."""
    ticks, pids = 0, {os.getpid()}
    for path in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda at: int(at.parent.name)):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid, parent = int(path.parent.name), int(fields[1])
        if pid in pids or parent in pids:
            pids.add(pid)
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever Flink prints is no answer
    session: Session | None = None
    for line in sys.stdin:
        request = json.loads(line)
        command = request.pop("do")
        try:
            if command == "start":
                session = Session(**request)
                found: dict[str, Any] = {}
            else:
                found = getattr(session, command)(**request)
        except Exception as error:  # whatever Flink raises is told
            found = {"error": f"{type(error).__name__}: {error}"[:4_000]}
        answers.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
