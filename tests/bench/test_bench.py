"""`python -m bench`, run as users run it: from the root, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINES = """
import os
from bench.harness import Answer, Benchmark, Case, Engine, Line, run

class Fake:
    def __init__(self, rows, checksum, error=None):
        self.found, self.error = Answer(rows, checksum, {"rss_mb": 7}), error
    def work(self):
        if self.error: raise self.error
    def answer(self): return self.found
    def close(self): pass

def ours(case): return Fake(case.rows, "aa")
def same(case): return Fake(case.rows, "aa")
def other(case): return Fake(case.rows, "bb")
def fewer(case): return Fake(case.rows - 1, "aa")
def broken(case): return Fake(1, "aa", RuntimeError("out of luck"))

def dead(case): os._exit(3)

def benchmark(*peers):
    engines = [*(Engine(peer, f"fakes:{peer}") for peer in peers), Engine(None, "fakes:ours")]
    return Benchmark(
        name="fake", about="nothing", cases=lambda quick: [Case("one", 10, 80)],
        engines=lambda case: engines, rounds=3, round_s=0.001)
"""
SHOW = """
import json, sys
import fakes
from bench.__main__ import main
from bench.harness import BenchError, run
from bench.report import print_json
if __name__ == "__main__":
    try:
        for line in run(fakes.benchmark(*sys.argv[1:]), quick=False):
            print_json(line)
    except BenchError as error:
        sys.exit(f"bench: {error}")
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


def test_extra_fields_ride_along(tmp_path: Path) -> None:
    answer = fake(tmp_path, "same")
    assert answer.returncode == 0, answer.stderr
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [(line["peer"], line["rss_mb"]) for line in lines] == [(None, 7), ("same", 7)]


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        ("other", "fake, one: other gives 10 rows, checksum bb; ours are 10, aa"),
        ("fewer", "fake, one: fewer gives 9 rows, checksum aa; ours are 10, aa"),
        ("broken", "out of luck"),
        ("dead", "fake, one: dead can't run it: fakes:dead died while asked to prepare"),
    ],
)
def test_a_peer_that_differs_or_fails_fails_the_run(
    tmp_path: Path, peer: str, message: str
) -> None:
    answer = fake(tmp_path, peer)
    assert answer.returncode == 1
    assert message in answer.stderr


def test_a_peer_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    answer = fake(tmp_path, "dead", "same", "broken", "other")
    assert answer.returncode == 1
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [line["peer"] for line in lines] == [None, "same"]
    for message in ("dead can't run it", "broken can't run it", "other gives 10 rows"):
        assert f"fake, one: {message}" in answer.stderr
