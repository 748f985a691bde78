"""`python -m bench`, run as users run it: from the root, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINES = """
import os
from bench.harness import Answer, Benchmark, Case, Engine

class Fake:
    def __init__(self, rows, checksum, error=None, extra={"rss_mb": 7}):
        self.found, self.error = Answer(rows, checksum, extra), error
    def work(self):
        if self.error: raise self.error
    def answer(self): return self.found
    def close(self): pass

def ours(case): return Fake(case.rows, "aa")
def same(case): return Fake(case.rows, "aa")
def other(case): return Fake(case.rows, "bb")
def fewer(case): return Fake(case.rows - 1, "aa")
def broken(case): return Fake(1, "aa", RuntimeError("out of luck\\n  at home"))
def unready(case): raise ValueError()

calls = []

def counted(case):
    calls.append(case)
    return Fake(case.rows, "aa", extra={"nth": len(calls)})

def part(case):
    found = Fake(3, "cc")
    found.found = Answer(3, "cc", taken=4)
    found.taken_s = lambda: 2.0
    return found

def parted(case):
    found = Fake(case.rows, "aa")
    found.found = Answer(case.rows, "aa", parts={4: (3, "cc")})
    return found

def wide(case):
    return Fake(case.rows, "aa", extra={f"a figure with the number {n}": n for n in range(12)})

def dead(case): os._exit(3)

def benchmark(*peers):
    # by the names of their functions; "fresh:" and "us:" say more
    engines = []
    for peer in peers:
        kind, _, name = peer.rpartition(":")
        engines.append(Engine(None if kind == "us" else name, f"fakes:{name}", kind == "fresh"))
    if all(engine.peer for engine in engines):
        engines.append(Engine(None, "fakes:ours"))
    return Benchmark(
        name="fake", about="nothing", cases=lambda quick: [Case("one", 10, 80), Case("two", 5, 40)],
        engines=lambda case: engines, rounds=3, round_s=0.001)
"""
SHOW = """
import sys
import bench.__main__ as command
import fakes
if __name__ == "__main__":
    options, peers = (
        [name for name in sys.argv[1:] if name.startswith("--") == is_option]
        for is_option in (True, False)
    )
    benchmark = fakes.benchmark(*peers)
    command.benchmarks = lambda: {"fake": benchmark}
    sys.argv[1:] = ["fake", *options]
    sys.exit(command.main())
"""


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def fake(tmp_path: Path, *peers: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "fakes.py").write_text(ENGINES)
    (tmp_path / "show.py").write_text(SHOW)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, str(tmp_path / "show.py"), *peers]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_says_which_there_are() -> None:
    listed = bench("--list")
    assert listed.returncode == 0
    assert "partition " in listed.stdout


def test_refuses_an_unknown_name() -> None:
    answer = bench("sorting")
    assert answer.returncode == 2
    assert "no benchmark 'sorting'; there are" in answer.stderr


def test_refuses_an_unknown_case() -> None:
    answer = bench("partition", "--case", "p=3")
    assert answer.returncode == 1
    assert "no case of partition has 'p=3' in its name" in answer.stderr


def test_partition_writes_a_line_an_engine() -> None:
    answer = bench("partition", "--quick", "--json", "--case", "65536 fixed p=4")
    assert answer.returncode == 0, answer.stderr
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [line["peer"] for line in lines] == [None, "numpy", "pyarrow", "polars", "memcpy"]
    fields = ["bench", "case", "rows", "bytes", "seconds", "rate", "peer", "ratio", "checksum"]
    assert all(list(line) == fields for line in lines)
    assert {(line["case"], line["rows"], line["checksum"]) for line in lines} == {
        ("65536 fixed p=4", 65_536, lines[0]["checksum"])
    }
    assert lines[0]["ratio"] is None
    for line in lines[1:]:
        assert line["ratio"] == pytest.approx(line["seconds"] / lines[0]["seconds"])


def test_exchange_compares_rings_with_a_queue() -> None:
    answer = bench("exchange", "--quick", "--json", "--case", "x4")
    assert answer.returncode == 0, answer.stderr
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    peers = {case: [line["peer"] for line in lines if line["case"] == case] for case in
             ("pipes tiny x4", "ring x4")}  # fmt: skip
    assert peers == {
        "pipes tiny x4": [None, "SimpleQueue", "Queue(64)"],
        "ring x4": [None, "SimpleQueue"],
    }


def told(answer: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_extra_fields_ride_along(tmp_path: Path) -> None:
    answer = fake(tmp_path, "same", "--json", "--case=one")
    assert answer.returncode == 0, answer.stderr
    assert [(line["peer"], line["rss_mb"]) for line in told(answer)] == [(None, 7), ("same", 7)]


def test_a_process_serves_all_cases_unless_a_fresh_one_is_wanted(tmp_path: Path) -> None:
    for peer, nth in (("counted", [1, 2]), ("fresh:counted", [1, 1])):
        answer = fake(tmp_path, peer, "--json")
        assert answer.returncode == 0, answer.stderr
        assert [line["nth"] for line in told(answer) if line["peer"]] == nth


def test_a_slow_peer_takes_in_fewer_rows_and_says_how_long(tmp_path: Path) -> None:
    answer = fake(tmp_path, "us:parted", "part", "--json", "--case=one")
    assert answer.returncode == 0, answer.stderr
    ours, theirs = told(answer)
    assert (theirs["rows"], theirs["bytes"], theirs["seconds"], theirs["rate"]) == (3, 32, 2.0, 2.0)
    assert theirs["ratio"] == pytest.approx(2.0 / (4 / 10) / ours["seconds"])


@pytest.mark.parametrize(
    ("peer", "error", "code"),
    [
        ("other", "it gives 10 rows, checksum bb; ours are 10, aa", 1),
        ("fewer", "it gives 9 rows, checksum aa; ours are 10, aa", 1),
        ("broken", "RuntimeError: out of luck", 0),
        ("unready", "ValueError", 0),
        ("dead", "it died while asked to prepare, with exit code 3", 0),
    ],
)
def test_a_peer_that_differs_fails_the_run_and_one_that_fails_does_not(
    tmp_path: Path, peer: str, error: str, code: int
) -> None:
    answer = fake(tmp_path, peer, "--json", "--case=one")
    assert answer.returncode == code, answer.stderr
    ours, theirs = told(answer)
    assert ours["peer"] is None
    assert theirs == {"bench": "fake", "case": "one", "peer": peer, "error": error}
    assert answer.stderr == ""


def test_a_peer_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    answer = fake(tmp_path, "dead", "same", "broken", "--json")
    assert answer.returncode == 0, answer.stderr
    lines = told(answer)
    assert [(line["case"], line["peer"], "error" in line) for line in lines] == [
        (case, peer, peer in {"dead", "broken"})
        for case in ("one", "two")
        for peer in (None, "same", "dead", "broken")
    ]


@pytest.mark.parametrize("ours", ["us:broken", "us:dead"])
def test_a_failure_of_ours_fails_the_run(tmp_path: Path, ours: str) -> None:
    answer = fake(tmp_path, "same", ours, "--json")
    assert answer.returncode == 1
    assert [(line["case"], line["peer"], "error" in line) for line in told(answer)] == [
        ("one", None, True), ("two", None, True),
    ]  # fmt: skip


def test_a_failure_is_one_line_below_the_table(tmp_path: Path) -> None:
    answer = fake(tmp_path, "same", "broken", "--case=one")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[-1] == "one: broken failed: RuntimeError: out of luck"
    assert "same" in answer.stdout


def test_a_table_that_goes_to_a_file_is_as_wide_as_it_must_be(tmp_path: Path) -> None:
    answer = fake(tmp_path, "us:wide", "--case=one")
    assert answer.returncode == 0, answer.stderr
    assert "a figure with the number 11" in answer.stdout


def test_a_traceback_is_told_who_asks(tmp_path: Path) -> None:
    answer = fake(tmp_path, "broken", "--case=one", "--verbose")
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr.startswith("one, broken:\nTraceback")
    assert "at home" in answer.stderr
