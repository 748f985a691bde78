"""Failpoints: every action at the right time, nothing when off, and no typo goes unseen."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fabric import failpoints
from fabric.clients.cli.main import main
from fabric.errors import ConfigError, ExternalError
from tests.support.wait import wait_until

ROOT = Path(__file__).resolve().parent.parent
ON = {"FABRIC_TESTING": "1"}
PASSES = """
import sys
from fabric import failpoints
failpoints.arm()
for n in range(1, 4):
    failpoints.reach("agent.published")
    failpoints.reach("agent.task-ran")
    print(n, flush=True)
"""


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm({})


def passes(point: str, more: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A process that comes by two places three times each."""
    return subprocess.Popen(
        [sys.executable, "-c", PASSES],
        env={**os.environ, **ON, "FABRIC_FAILPOINT": point, **(more or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("nth", [1, 3])
def test_exit_at_the_nth_time(nth: int) -> None:
    with passes(f"agent.task-ran:{nth}:exit") as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 137
    assert out.split() == [str(n) for n in range(1, nth)]
    assert err == "failpoint agent.task-ran: exit\n"


def test_stop_until_continued() -> None:
    with passes("agent.task-ran:2:stop") as process:
        state = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=120)
    assert (process.returncode, out.split()) == (0, ["1", "2", "3"])


def test_raise_and_sleep() -> None:
    failpoints.arm({**ON, "FABRIC_FAILPOINT": "agent.publishing:2:raise"})
    failpoints.reach("agent.publishing")
    with pytest.raises(ExternalError, match=r"agent\.publishing"):
        failpoints.reach("agent.publishing")
    failpoints.reach("agent.publishing")
    failpoints.arm({**ON, "FABRIC_FAILPOINT": "agent.publishing:1:sleep=0.05"})
    begun = time.monotonic()
    failpoints.reach("agent.publishing")
    assert time.monotonic() - begun >= 0.05


def test_once_among_several(tmp_path: Path) -> None:
    once = {"FABRIC_FAILPOINT_ONCE": str(tmp_path / "done")}
    codes = []
    for _ in range(2):
        with passes("agent.task-ran:2:exit", once) as process:
            process.communicate(timeout=120)
        codes.append(process.returncode)
    assert codes == [137, 0]


def test_off_unless_armed() -> None:
    for name in failpoints.POINTS:
        failpoints.reach(name)
    failpoints.arm({**ON})
    failpoints.reach("agent.published")


@pytest.mark.parametrize(
    "text",
    [
        "agent.published", "agent.published:1", "agent.published:0:exit", "agent.published:x:exit",
        "agent.published:1:explode", "agent.published:1:sleep", "agent.published:1:exit=3",
        "agent.published:1:sleep=x", "published:1:exit", "::",
    ],
)  # fmt: skip
def test_what_is_no_failpoint(text: str) -> None:
    with pytest.raises(ConfigError, match=r"failpoint|FABRIC_FAILPOINT"):
        failpoints.arm({**ON, "FABRIC_FAILPOINT": text})


@pytest.mark.parametrize("command", ["agent", "coordinator"])
def test_refused_outside_of_tests(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("FABRIC_FAILPOINT", "agent.published:1:exit")
    monkeypatch.delenv("FABRIC_TESTING", raising=False)
    monkeypatch.setenv("FABRIC_COORDINATOR_REST_PORT", "off")
    assert main([command, "--home", str(tmp_path / "home"), "--port", "0"]) == 1
    assert "FABRIC_FAILPOINT is set" in capsys.readouterr().err


def test_every_point_has_its_place_and_every_place_its_point() -> None:
    reached, text = set(), ""
    for folder in ("fabric", "coordinator"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".hpp", ".cpp") and path.name != "failpoints.py":
                code = path.read_text()
                reached |= set(re.findall(r'failpoints?(?:\.|::)reach\("([^"]+)"\)', code))
                text += code
    assert reached <= set(failpoints.POINTS)
    assert not [name for name in failpoints.POINTS if f'"{name}"' not in text]
