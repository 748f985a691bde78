"""Buckets of the object store that a run of the tests shares; `bucket` in conftest makes them."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from fabric.object_store import Bucket
from tests.services.versitygw import environment, object_store


def use_store(patch: pytest.MonkeyPatch) -> None:
    """Have this process know the store, and its credentials."""
    for name, value in environment(object_store()[0]).items():
        patch.setenv(name, value)


def new_bucket() -> Path:
    """The folder of a new bucket, whose name is its own."""
    _, folder = object_store()
    made = folder / f"b{uuid.uuid4().hex[:12]}"
    made.mkdir()
    return made


class Crash(BaseException):
    """The process is gone: nothing cleans up."""


def crash_at(patch: pytest.MonkeyPatch, step: int) -> None:
    """Let `step` changes of the store happen, then none."""
    left, lock = [step], Lock()

    def counted(real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            with lock:
                if left[0] == 0:
                    raise Crash
                left[0] -= 1
            return real(*args, **options)

        return call

    for name in ("copy", "put", "create", "replace", "_remove"):
        patch.setattr(Bucket, name, counted(getattr(Bucket, name)))


def url_of(bucket: Path, key: str = "") -> str:
    """The URL of an object, or of the bucket."""
    return f"s3://{bucket.name}/{key}"


def put(bucket: Path, key: str, data: bytes) -> str:
    """Have the store hold an object; returns its URL."""
    Bucket(url_of(bucket)).put(key, data)
    return url_of(bucket, key)


def unfinished(bucket: Path) -> list[Path]:
    """Parts of uploads that were neither completed nor aborted."""
    return _files(bucket / ".sgwtmp" / "multipart")


def keys(bucket: Path) -> list[str]:
    """Of all objects, hidden ones, too."""
    found = (path.relative_to(bucket) for path in _files(bucket))
    return sorted(str(path) for path in found if path.parts[0] != ".sgwtmp")


def _files(folder: Path) -> list[Path]:
    """Files below, while the store makes and removes folders."""
    return [Path(root, name) for root, _, names in os.walk(folder) for name in names]
