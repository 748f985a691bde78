"""Environments of peers that can't live in ours: other versions of the same libraries.

One job: `python_of` a peer, an interpreter with pinned packages, made once in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "quix": ("quixstreams==3.28.1", "confluent-kafka==2.12.2"),
    "bytewax": ("bytewax==0.21.1", "confluent-kafka==2.16.0", "prometheus-client==0.26.0"),
}
_WHOLE = "whole"


def python_of(peer: str) -> str:
    """Its interpreter; raises `RuntimeError` with what pip says when it can't be made."""
    packages = PACKAGES[peer]
    name = f"{packages[0].replace('==', '-')}-{sys.implementation.cache_tag}"
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = root / "fabric-bench" / name
    python = str(found / "bin" / "python")
    whole, made_of = found / _WHOLE, " ".join(packages)
    if not whole.exists() or whole.read_text() != made_of:
        shutil.rmtree(found, ignore_errors=True)
        _call(sys.executable, "-m", "venv", str(found))
        _call(python, "-m", "pip", "install", "--quiet", *packages)
        whole.write_text(made_of)
    return python


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = (done.stdout + done.stderr)[-2_000:]
        raise RuntimeError(f"{' '.join(command)} failed:\n{told}")
