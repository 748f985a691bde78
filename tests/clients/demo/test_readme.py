"""README.md from top to bottom, as a new user pastes it, on free ports.

Blocks of Python go to one process, one after another, as into a notebook; lines after ``$`` to a
shell. `make …` is left to `test_flights.py` and to CI, the program for a cluster of Spark to
`tests/clients/spark/test_cluster.py`: in the soak it runs here, too.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fabric.clients.demo import questions
from fabric.clients.demo.flights import free_port
from fabric.config import AgentConfig
from fabric.plan_rules import PlanRules
from fabric.settings import load
from tests.support.sampled import SOAK
from tests.support.wait import wait_until

ROOT = Path(__file__).parents[3]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE = ROOT / "clients" / "demo" / "spark_submit.py"
STEP_S = 300.0

NOTEBOOK = """
import contextlib, io, json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    said, error = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        try:
            exec(compile(json.loads(line), "README.md", "exec"), names)
        except Exception:
            error = traceback.format_exc()
    print(json.dumps([said.getvalue(), error]), flush=True)
"""
"""Runs each block it is handed, and answers with what was printed and the traceback."""


@dataclass(frozen=True)
class Reader:
    """Somebody who pastes: a folder like the checkout, a home of their own, an open Python."""

    folder: Path
    environment: dict[str, str]
    notebook: subprocess.Popen[str]

    def paste(self, block: str) -> tuple[str, str | None]:
        """What a block of Python prints, and its traceback if it raises."""
        assert self.notebook.stdin is not None
        assert self.notebook.stdout is not None
        self.notebook.stdin.write(json.dumps(block) + "\n")
        self.notebook.stdin.flush()
        answer = self.notebook.stdout.readline()
        assert answer, "the process ended"
        said, error = json.loads(answer)
        return said, error


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    for name in (".venv", "clients"):
        (tmp_path / name).symlink_to(ROOT / name)
    questions.unpack(tmp_path / "out" / "flights")  # what `make run` leaves
    home = tmp_path / "home"
    home.mkdir()
    own = {name: text for name, text in os.environ.items() if not name.startswith("FABRIC_")}
    environment = {**own, "HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    log = (tmp_path / "stderr").open("w")
    with log, subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK], cwd=tmp_path, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
    ) as notebook:  # fmt: skip
        try:
            yield Reader(tmp_path, environment, notebook)
        finally:
            notebook.kill()


@contextmanager
def running(command: str, reader: Reader) -> Iterator[str]:
    """``fabric up`` on free ports until the block ends: yields its coordinator's address."""
    port = str(free_port())
    log = reader.folder / "up.log"
    words = [*command.split(), "--port", port, "--rest-port", "0", "--metrics-port", "off"]
    with log.open("w") as out, subprocess.Popen(
        words, cwd=reader.folder, env=reader.environment, stdout=out, stderr=out
    ) as process:  # fmt: skip
        try:
            wait_until(lambda: f"fabric://127.0.0.1:{port}" in log.read_text() or process.poll())
            assert process.poll() is None, log.read_text()
            yield f"127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    assert process.returncode in (0, 130), log.read_text()


def shell(lines: str, reader: Reader) -> None:
    """What stands after ``$``, in one shell; Spark's cluster is this machine."""
    script = "set -e\n" + "".join(line.removeprefix("$ ") for line in lines.splitlines(True))
    script = script.replace("--master spark://127.0.0.1:7077", "--master local[2]")
    done = subprocess.run(
        ["bash", "-c", script], cwd=reader.folder, env=reader.environment, capture_output=True,
        text=True, check=False, timeout=STEP_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def set_by(text: str, file: Path) -> None:
    """Settings that coordinator and agents take."""
    file.write_text(text)
    environ = {"FABRIC_CONFIG": str(file)}
    assert load(PlanRules, "plans", environ) != PlanRules()
    assert load(AgentConfig, "agent", environ) != AgentConfig()


def test_every_block(reader: Reader) -> None:
    blocks = FENCE.findall((ROOT / "README.md").read_text())
    address, raised, kinds = "127.0.0.1:6123", "", Counter[str]()
    with ExitStack() as stack:
        for language, text in blocks:
            block = text.replace("127.0.0.1:6123", address)
            if language == "python":
                kinds["python"] += 1
                said, error = reader.paste(block)
                assert error is None or "PlanError" in error, f"{block}\n{said}\n{error}"
                raised = error or ""
            elif language == "toml":
                kinds["settings"] += 1
                set_by(block, reader.folder / "settings.toml")
            elif block.startswith("make "):
                kinds["make"] += 1
            elif block.startswith("$ .venv/bin/fabric up"):
                kinds["up"] += 1
                address = stack.enter_context(running(block.removeprefix("$ "), reader))
            elif block.startswith("$ "):
                kinds["shell"] += 1
                assert ".venv/bin/spark-submit --master spark://127.0.0.1:7077 " in block
                assert (ROOT / re.findall(r"\S+\.py\b", block)[0]).samefile(EXAMPLE)
                if SOAK:
                    shell(block, reader)
            else:  # what the mistake above is told
                kinds["error"] += 1
                assert " ".join(text.split()) in " ".join(raised.split())
                raised = ""
    assert raised == ""
    assert kinds == {"make": 1, "python": 8, "up": 1, "shell": 1, "error": 1, "settings": 1}
