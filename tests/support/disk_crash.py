"""A process that dies between two changes of the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


class Crash(BaseException):
    """The process is gone: nothing cleans up."""


def crash_at(patch: pytest.MonkeyPatch, step: int) -> None:
    """Let `step` changes of the disk happen, then none."""
    left = [step]

    def counted(real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if left[0] == 0:
                raise Crash
            left[0] -= 1
            return real(*args, **options)

        return call

    for name in ("rename", "replace", "unlink"):
        patch.setattr(Path, name, counted(getattr(Path, name)))
    patch.setattr(os, "fsync", counted(os.fsync))
