"""The rings under ThreadSanitizer, without Python; and proof that it would have seen a race."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from tests.support.sampled import SOAK

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "fabric" / "_cython" / "shuffle"
ROUNDS = 5 if SOAK else 2


def build(target: Path, *flags: str) -> Path:
    subprocess.run(
        ["g++", "-std=c++20", "-g", "-Wall", "-Wextra", "-Wno-missing-field-initializers",
         f"-I{INCLUDE}", *flags, str(HERE / "ring_driver.cpp"), "-o", str(target), "-pthread"],
        check=True,
    )  # fmt: skip
    return target


def run(driver: Path, rounds: int) -> subprocess.CompletedProcess[str]:
    """Without address randomisation, which ThreadSanitizer does not get on with."""
    command = ["setarch", platform.machine(), "-R", str(driver), str(rounds)]
    environment = {"TSAN_OPTIONS": "halt_on_error=1 exitcode=66"}
    return subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=200
    )


@pytest.mark.parametrize("flags", [("-O2",), ("-O1", "-fsanitize=thread")], ids=["plain", "tsan"])
def test_rings_are_right_and_free_of_races(tmp_path: Path, flags: tuple[str, ...]) -> None:
    done = run(build(tmp_path / "driver", *flags), ROUNDS)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_a_planted_race_is_seen(tmp_path: Path) -> None:
    driver = build(tmp_path / "driver", "-O1", "-fsanitize=thread", "-DPLANTED_RACE")
    done = run(driver, 1)
    assert done.returncode == 66
    assert "data race" in done.stderr
    assert "ring.hpp" in done.stderr
