"""What these tests share: short leases, a folder, and no process left at the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.local import SOON
from tests.support.wait import wait_until


@pytest.fixture
def short(tmp_path: Path) -> dict[str, str]:
    """Leases of 10 s; the first process that comes by a failpoint is the only one it hits."""
    return {**SOON, "FABRIC_FAILPOINT_ONCE": str(tmp_path / "hit")}


@pytest.fixture
def patient(short: dict[str, str]) -> dict[str, str]:
    """Leases that outlast a coordinator's restart on a busy machine: nobody fences itself."""
    return {**short, "FABRIC_COORDINATOR_TIMEOUT_S": "30"}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No process of any fabric of this test, no thread, no descriptor of ours."""
    others = set(_processes())  # fabrics that other tests share
    before = _held()
    yield
    wait_until(lambda: set(_processes()) <= others, 60.0)
    wait_until(lambda: all(now <= then for now, then in zip(_held(), before, strict=True)), 60.0)


def _held() -> tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def _processes() -> list[str]:
    """Commands of the processes that this one started as part of a fabric."""
    mark = f"--parent\0{os.getpid()}".encode()
    found = [f"{pid} (forked)" for pid in forked.running()]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if mark in command:
            found.append(f"{pid} {command.replace(bytes(1), b' ').decode(errors='replace')}")
    return found
