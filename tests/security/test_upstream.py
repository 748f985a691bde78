"""Faults of libraries that Fabric is protected from: once one is mended, a protection can go."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "upstream.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(
    ("program", "said"),
    list(zip(PROGRAMS, ("exit code of the server: -11", "the call has no end after"), strict=True)),
    ids=["Flight", "grpcio"],
)
def test_a_fault_is_still_there(tmp_path: Path, program: str, said: str) -> None:
    """Else take its chapter out of the page, and what protects from it out of the code."""
    path = tmp_path / "program.py"
    path.write_text(program)
    run = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert said in run.stdout, run.stdout + run.stderr
