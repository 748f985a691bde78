"""Bench tpch: its peers are asked about the same rows."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.tpch import cases, engines
from bench.tpch_questions.data import TABLES, folder, plain_folder

ROOT = Path(__file__).resolve().parents[2]
SCALE = 0.01


def test_files_for_daft_differ_in_one_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in TABLES:
        theirs, ours = (at / f"{name}.parquet" for at in (folder(SCALE), plain_folder(SCALE)))
        assert b"ARROW:schema" not in ours.read_bytes()
        digests = [hashlib.sha256(path.read_bytes().lower()).hexdigest() for path in (theirs, ours)]
        assert digests[0] == digests[1]
        assert pq.read_table(ours).num_rows == pq.read_table(theirs).num_rows


def test_peers_of_a_place() -> None:
    peers = {case.name: [engine.peer for engine in engines(case)] for case in cases(quick=True)}
    assert peers["embedded q3"] == [None, "duckdb", "daft", "sail"]
    assert peers["agents"] == [None, "spark local[2]"]


@pytest.mark.soak  # Daft and Sail are asked all questions
def test_each_peer_agrees_or_says_why_not() -> None:
    command = [sys.executable, "-m", "bench", "tpch", "--quick", "--json", "--case", "embedded q"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    failed = {(line["peer"], line["case"].split()[-1]) for line in lines if "error" in line}
    assert failed == {("daft", question) for question in ("q1", "q8", "q9", "q14", "q21")}
