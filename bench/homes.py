"""Environments of peers that can't live in ours: other versions of the same libraries.

One job: `home_of` a peer, a folder with an interpreter and the packages of its lock in
`requirements`, made once in the user's cache; and `version_of`, what it is that is measured.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements"
_WHOLE = "whole"


def home_of(peer: str) -> Path:
    """Where it lies; raises `RuntimeError` with what pip says when it can't be made."""
    found = _place(peer)
    if not is_installed(peer):
        lock = _lock(peer)
        shutil.rmtree(found, ignore_errors=True)
        call(sys.executable, "-m", "venv", str(found))
        pip = str(found / "bin" / "python"), "-m", "pip", "install", "--quiet"
        call(*pip, "--require-hashes", "-r", str(lock))
        (found / _WHOLE).write_text(lock.read_text())
    return found


def python_of(peer: str) -> str:
    """Its interpreter."""
    return str(home_of(peer) / "bin" / "python")


def version_of(peer: str) -> str:
    """The version of the first package that is asked for, which is the peer."""
    lines = _lock(peer).with_suffix(".in").read_text().splitlines()
    return next(line.partition("==")[2] for line in lines if not line.startswith("#"))


def is_installed(peer: str) -> bool:
    """Whether all of its lock, as it is now, is there."""
    whole = _place(peer) / _WHOLE
    return whole.exists() and whole.read_text() == _lock(peer).read_text()


def call(*command: str) -> None:
    """Run a command; `RuntimeError` with what it says when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = (done.stdout + done.stderr)[-2_000:]
        raise RuntimeError(f"{' '.join(command)} failed:\n{told}")


def _place(peer: str) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = f"{peer}-{version_of(peer)}-{sys.implementation.cache_tag}"
    return root / "fabric-bench" / name


def _lock(peer: str) -> Path:
    return _REQUIREMENTS / f"bench_{peer}.lock"
