"""`python -m bench NAME… [--quick] [--json]`: run benchmarks and say how they compare.

A bench is a module of this folder with a `BENCHMARK`. A peer that can't run a case has one line
there with the reason, and the others are measured all the same. Exit code 1 when a peer's rows or
checksum differ from ours, or when we fail.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pkgutil import iter_modules

import bench
from bench.harness import BenchError, Benchmark, Failure, Line, run
from bench.report import print_json, print_table

TOOLS = {
    "__main__",
    "harness",
    "homes",
    "report",
    "worker",
    "made",
    "dbbenchmark",
    "tpch_questions",
    "spark_session",
    "shuffling",
    "sorting",
    "latencies",
    "restoring",
    "stores",
    "stream_runs",
    "wire_server",
}


def benchmarks() -> dict[str, Benchmark]:
    """Every benchmark by name."""
    names = (module.name for module in iter_modules(bench.__path__) if module.name not in TOOLS)
    return {name: import_module(f"bench.{name}").BENCHMARK for name in sorted(names)}


def arguments(known: dict[str, Benchmark]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--all", action="store_true", help="run every benchmark")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--verbose", action="store_true", help="tracebacks of engines that fail")
    parser.add_argument("--case", default="", help="this case, or all that hold this")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in known]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(known)}")
    if given.all:
        given.names = list(known)
    if not given.names and not given.list:
        parser.error(f"which? {', '.join(known)}, or --all")
    return given


def main() -> int:
    known = benchmarks()
    given = arguments(known)
    if given.list:
        for name, benchmark in known.items():
            print(f"{name:12} {benchmark.about}")
        return 0
    try:
        faults = [_measure(known[name], given) for name in given.names]
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return int(any(faults))


def _measure(benchmark: Benchmark, given: argparse.Namespace) -> bool:
    """Run one and tell; true when it must not pass."""
    lines: list[Line | Failure] = []
    for line in run(benchmark, quick=given.quick, only=given.case):
        lines.append(line)
        if given.json:
            print_json(line)
        if given.verbose and isinstance(line, Failure) and line.trace:
            print(f"{line.case}, {line.peer or 'fabric'}:\n{line.trace}", file=sys.stderr)
    if not given.json:
        print_table(benchmark, lines)
    return any(isinstance(line, Failure) and line.is_fault for line in lines)


if __name__ == "__main__":
    sys.exit(main())
